"""The figures, claims and questions of a study's source next to the figures of this run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, ContenderSummary, PaperFigure, Summary
from thunderherd.show.sentences.source_figures import as_printed
from thunderherd.show.sentences.tables import OF_PAPER
from thunderherd.show.tables.model import Cell, Column, Field, Row, Table, interval_fields, plain_table
from thunderherd.text.figures import ABSENT, BETWEEN, seconds_per, words_of
from thunderherd.text.printable import printable
from thunderherd.text.shown import shown_of, unit_for

__all__ = [
    "claims_legend",
    "claims_table",
    "paper_table",
    "questions_legend",
    "questions_table",
]

PAPER_COLUMNS = (
    Column("Metric", "words", csv=("metric",)),
    Column("Contender", "name", csv=("contender",)),
    Column("At", "short", csv=("sweep", "point")),
    Column("System", "short", csv=("system",)),
    Column("Paper", csv=("paper",)),
    Column("Unit of paper", "short", csv=("paper unit",)),
    Column("Here", csv=("here", "here low", "here high")),
    Column("Unit", "short", csv=("here unit",)),
    Column("Note", "words", csv=("note",)),
)
CLAIM_COLUMNS = (
    Column("Id", "name", csv=("id",)),
    Column("Claim", "words", csv=("claim",)),
    Column("Paper", "words", csv=("paper",)),
    Column("Here", "words", csv=("here",)),
    Column("Verdict", "short", csv=("verdict", "value", "low", "high")),
    Column("Why", "words", csv=("why",)),
    Column("Note", "words", csv=("note",)),
)


def paper_table(summary: Summary) -> Table:
    """Shows each figure of the source next to this machine's."""
    rows = []
    for each, (value, low, high, unit) in _paired(summary):
        ends = "" if low is None or high is None else f"{low:.4g}{BETWEEN}{high:.4g}"
        cells = (
            Cell(printable(words_of(each.metric)), data=(each.metric,)),
            Cell(each.base),
            Cell(f"{each.sweep}={each.point}" if each.sweep else "", data=(each.sweep, each.point)),
            Cell(each.system or "", data=(each.system,)),
            Cell(as_printed(each.value), data=(each.value,)),
            Cell(each.unit),
            Cell("" if value is None else f"{value:.4g}", ends, data=(value, low, high)),
            Cell(unit or "", data=(unit,)),
            Cell(each.note or "", data=(each.note,)),
        )
        rows.append(Row(cells))
    title = "The source's figures and this machine's"
    return Table(title, PAPER_COLUMNS, tuple(rows), (OF_PAPER,))


Ours = tuple[float | None, float | None, float | None, str | None]


def _paired(summary: Summary) -> Iterator[tuple[PaperFigure, Ours]]:
    """Pairs each figure of the source with this machine's, its interval and its unit."""
    by_place = {(each.base, each.sweep, each.point): each for each in summary.contenders}
    for each in summary.paper:
        contender = by_place.get((each.base, each.sweep, each.point))
        ours = _ours(summary, contender, each.metric) if contender else None
        yield each, ours or (None, None, None, None)


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


def claims_table(summary: Summary) -> Table:
    """Shows the source's claims with its figures, this machine's, and the verdicts."""
    rows = []
    for each in summary.claims:
        estimate: list[Field] = interval_fields(each.estimate)
        cells = (
            Cell(each.id),
            Cell(each.statement),
            Cell(each.paper_figure or ABSENT, data=(each.paper_figure,)),
            Cell("; ".join(each.our_figure.splitlines()), data=(each.our_figure,)),
            Cell(each.verdict, kind=each.verdict, data=(each.verdict, *estimate)),
            Cell(each.why),
            Cell(each.source_note or "", data=(each.source_note,)),
        )
        rows.append(Row(cells))
    return Table("Claims of the source", CLAIM_COLUMNS, tuple(rows), (claims_legend(),))


def questions_table(summary: Summary) -> Table:
    """Shows the source's questions with the answers from this run's figures."""
    rows = [[each.id, each.text, " ".join(each.answer), each.note or ""] for each in summary.questions]
    table = plain_table(["Id", "Question", "Answer", "Note"], rows, 4)
    columns = tuple(replace(each, csv=(each.head.lower(),)) for each in table.columns)
    return replace(table, caption="Questions of the source", columns=columns, notes=(questions_legend(),))


def questions_legend() -> str:
    """Explains the answers."""
    return (
        "Answers contain this run's figures, with the interval of each in brackets. Words such as "
        '"is more than" are verdicts, corrected (Holm) for all answers together. Figures that do not differ '
        "significantly need not be equal."
    )


def claims_legend() -> str:
    """Explains the verdicts of claims."""
    return (
        "Supported: every difference that the claim needs is significantly above zero; refuted: one is "
        "significantly below; no difference that matters: one is inside the margin that the claim states. "
        "Verdicts are corrected (Holm) for all claims together; each interval is for its own figure."
    )
