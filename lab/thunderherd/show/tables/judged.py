"""The tables of what a run was judged by: the source's figures, comparisons, claims and questions."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, ContenderSummary, PaperFigure, Summary
from thunderherd.show.sentences.source_figures import as_printed
from thunderherd.show.tables import claims, main
from thunderherd.show.tables.model import Grid, NamedTable, Section, interval_fields, of_models
from thunderherd.text.figures import ABSENT, BETWEEN, printable, seconds_per, words_of
from thunderherd.text.shown import shown_of, unit_for

__all__ = ["judged_tables"]


def judged_tables(summary: Summary) -> Iterator[NamedTable]:
    """Those that the run has something for."""
    if any(each.value is not None for each in summary.paper):
        yield NamedTable(
            "paper",
            "The source's figures beside this machine's",
            lambda: [_paper_section(summary)],
            lambda: _paper_data(summary),
        )
    if summary.pairs:
        yield NamedTable(
            "pairs", "Comparisons", lambda: [_pairs_section(summary)], lambda: _pairs_data(summary)
        )
    if summary.claims:
        yield NamedTable(
            "claims",
            "Claims of the source",
            lambda: [_claims_section(summary)],
            lambda: _claims_data(summary),
        )
    if summary.questions:
        heads = ["id", "question", "answer", "note"]
        rows = [[each.id, each.text, " ".join(each.answer), each.note or ""] for each in summary.questions]
        grid = Grid.of(heads, rows, 4)
        notes = tuple(claims.questions_legend())
        yield NamedTable(
            "questions",
            "Questions of the source",
            lambda: [Section("Questions of the source", grid.without_empty(), ("".join(notes),))],
            lambda: grid,
        )


def _paper_section(summary: Summary) -> Section:
    rows = []
    for each, ours in _beside(summary):
        rows.append(
            [
                printable(words_of(each.metric)),
                each.base,
                f"{each.sweep}={each.point}" if each.sweep else "",
                each.system or "",
                as_printed(each.value),
                each.unit,
                "" if ours is None else f"{ours[0]:.4g}",
                ""
                if ours is None or ours[1] is None or ours[2] is None
                else f"{ours[1]:.4g}{BETWEEN}{ours[2]:.4g}",
                ours[3] if ours else "",
                each.note or "",
            ]
        )
    heads = [
        "metric",
        "contender",
        "at",
        "system",
        "paper",
        "unit of paper",
        "here",
        "interval",
        "unit",
        "note",
    ]
    grid = Grid.of(heads, rows, 4, last=2).without_empty()
    return Section("The source's figures beside this machine's", grid, ("Paper: its own machine.",))


Ours = tuple[float, float | None, float | None, str]


def _beside(summary: Summary) -> Iterator[tuple[PaperFigure, Ours | None]]:
    """Each figure of the source, and ours with its interval and unit where there is one."""
    by_place = {(each.base, each.sweep, each.point): each for each in summary.contenders}
    for each in summary.paper:
        contender = by_place.get((each.base, each.sweep, each.point))
        yield each, _ours(summary, contender, each.metric) if contender else None


def _ours(summary: Summary, contender: ContenderSummary, name: str) -> Ours | None:
    if name == PROCESS_CONTROL:
        found = contender.process_control_seconds
        unit = seconds_per(summary.study.normalise_connections)
        return (found.value, found.low, found.high, unit) if found else None
    if name == WORKERS:
        workers = contender.clients_per_worker
        return (workers.mean, workers.minimum, workers.maximum, "connections") if workers else None
    figure = shown_of(summary, contender, name)
    if figure is None:
        return None
    shown_in = unit_for(summary, name, [figure])
    return shown_in.of(figure.value), shown_in.of(figure.low), shown_in.of(figure.high), shown_in.name


def _paper_data(summary: Summary) -> Grid:
    heads = ["metric", "contender", "sweep", "point", "system", "paper", "paper unit"]
    heads += ["here", "here low", "here high", "here unit", "note"]
    rows = [
        [
            *(each.metric, each.base, each.sweep, each.point, each.system, each.value, each.unit),
            *(ours or [None] * 4),
            each.note,
        ]
        for each, ours in _beside(summary)
    ]
    return Grid.of(heads, rows, 5)


def _pairs_section(summary: Summary) -> Section:
    heads = ["at", "a", "is", "b", "a / b", "interval", "blocks", "smallest detectable"]
    rows = [
        [row.where, row.a, row.verdict, row.b, row.ratio, row.span, row.blocks, row.detectable]
        for row in main.pair_rows(summary, BETWEEN)
    ]
    grid = Grid.of(heads, rows, 4).without_empty()
    return Section("Comparisons", grid, tuple(main.pairs_legend(summary)))


def _pairs_data(summary: Summary) -> Grid:
    return of_models(summary.pairs, {"smallest_detectable_percent": "smallest_detectable [%]"})


def _claims_section(summary: Summary) -> Section:
    heads = ["id", "claim", "paper", "here", "verdict", "why", "note"]
    rows = [
        [
            each.id,
            each.statement,
            each.paper_figure or ABSENT,
            "; ".join(each.our_figure.splitlines()),
            each.verdict,
            each.why,
            each.source_note or "",
        ]
        for each in summary.claims
    ]
    grid = Grid.of(heads, rows, 7).without_empty()
    return Section("Claims of the source", grid, (claims.claims_legend(),))


def _claims_data(summary: Summary) -> Grid:
    heads = ["id", "claim", "paper", "here", "verdict", "value", "low", "high", "why", "note"]
    rows = [
        [
            *(each.id, each.statement, each.paper_figure, each.our_figure, each.verdict),
            *interval_fields(each.estimate),
            *(each.why, each.source_note),
        ]
        for each in summary.claims
    ]
    return Grid.of(heads, rows, 5)
