"""The tables of sweeps and their slopes, the source's further figures, and why cells are empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thunderherd.metrics.table import (
    METRICS,
    NO_SCHEDULE,
    NONE_BECAUSE,
    OFFERED,
    SHARE_OF_CEILING,
    in_order,
    is_of_open_loop,
)
from thunderherd.records.summary import (
    PROCESS_CONTROL,
    WORKERS,
    ContenderSummary,
    SlopeSummary,
    Summary,
    SweepSummary,
)
from thunderherd.show.sentences.counting_cost import about_metrics
from thunderherd.show.sentences.cpu_source import cpu_cost_lines, in_place_of, main_substitute
from thunderherd.show.sentences.source_figures import (
    as_printed,
    own_notes,
    paper_metric,
    paper_notes,
    paper_texts,
    papers_of,
)
from thunderherd.show.tables.model import Cell, Table, estimate_cell
from thunderherd.text.figures import (
    ABSENT,
    Unit,
    count,
    decimals,
    estimator,
    extrapolated,
    head_of_names,
    main_of,
    not_offered,
    percent,
    superscript,
    words_of,
)
from thunderherd.text.shown import (
    DECADES,
    ShownEstimate,
    at_least_in_words,
    at_points,
    caption_of,
    counted_over,
    digits_for,
    shown,
    shown_of,
    unit_for,
)

__all__ = [
    "BEST",
    "LEVEL",
    "Reasons",
    "main_further",
    "main_papers",
    "metrics_of",
    "scaled_marks",
    "slope_table",
    "sweep_tables",
    "sweeps_legend",
    "why_none",
    "why_not",
]

BEST, LEVEL = "*", "~"
"""The marks of the best estimate at a point, and of one that does not differ significantly from it."""


# Figures ----------------------------------------------------------------------------------------------------


def _digits_of_rows(rows: Sequence[Sequence[float]], name: str) -> list[int]:
    """Counts the decimals of each row: the same in all rows, unless their figures are decades apart."""
    sizes = [abs(value) for row in rows for value in row if value]
    if sizes and max(sizes) > DECADES * min(sizes):
        return [digits_for(row, name) for row in rows]
    return [digits_for([value for row in rows for value in row], name)] * len(rows)


def digits_of_cell(value: float, digits: int) -> int:
    """Counts the decimals of a figure: those of its row or column, or as many as show two digits."""
    return max(digits, decimals([value], 2)) if 0 < abs(value) < 10.0 ** (1 - digits) else digits


# The main table ---------------------------------------------------------------------------------------------


def main_papers(summary: Summary) -> dict[tuple[str, str | None], str]:
    """Writes the source's figures of the main table, by contender."""
    name = paper_metric(summary)
    unit = unit_for(summary, name, [shown_of(summary, each, name) for each in main_of(summary)])
    return paper_texts(papers_of(summary, None, name), unit.name, aligned=True)


def main_further(summary: Summary) -> Table | None:
    """Shows the source's figures of further metrics next to this run's, by contender of the main table.

    The first column may be the metric that stands in for an unavailable one. None without any.
    """
    named = in_order(each.metric for each in summary.paper if each.sweep is None)
    names = [name for name in named if name not in (paper_metric(summary), PROCESS_CONTROL, WORKERS)]
    if instead := main_substitute(summary):
        names = list(dict.fromkeys([instead, *names]))
    main, reasons = main_of(summary), Reasons()
    columns: list[tuple[str, list[Cell]]] = []
    notes: list[str] = []
    for name in names:
        papers = papers_of(summary, None, name)
        figures = {each.name: shown_of(summary, each, name) for each in main}
        unit = unit_for(summary, name, figures.values())
        digits = digits_for([unit.of(each.value) for each in figures.values() if each], name)
        texts, head = paper_texts(papers, unit.name), caption_of(name, unit)
        head += f", {in_place_of(summary.study.metric)}" if name == instead else ""
        scaled = scaled_marks(main, name, reasons)
        cells = [
            estimate_cell(
                figures[each.name],
                unit,
                digits,
                paper=texts.get((each.name, None), ABSENT),
                mark=scaled.get(each.name, "")
                if figures[each.name]
                else reasons.mark(why_none(summary, name, each)),
            )
            for each in main
        ]
        columns.append((head, cells))
        notes += [f"{head}, {note}" for note in paper_notes(papers)]
    if not columns or not main:
        return None
    rows = [(each.name, [cells[place] for _, cells in columns]) for place, each in enumerate(main)]
    title = "Further figures of the source" if len(names) > (instead is not None) else "Substitute metric"
    return Table.matrix(
        title, head_of_names(main), [head for head, _ in columns], rows, [*reasons.notes, *notes]
    )


# Sweeps -----------------------------------------------------------------------------------------------------


def sweep_tables(summary: Summary, sweep: SweepSummary) -> list[Table]:
    """Shows a sweep's points by contender: first the metric of its verdicts, then each further one.

    Repeated runs have their further metrics in `sweep_runs`.
    """
    if summary.study.repetitions:
        return [_sweep_table(summary, sweep, sweep.metric)]
    return [_sweep_table(summary, sweep, name) for name in metrics_of(sweep)]


def metrics_of(sweep: SweepSummary) -> list[str]:
    """Lists the metrics of a sweep: that of its verdicts, then the further ones.

    An unavailable metric is followed by its substitute.
    """
    shown = [sweep.metric, *sweep.metrics]
    return list(
        dict.fromkeys(
            each for name in shown for each in (name, sweep.substitutes.get(name)) if each is not None
        )
    )


def _sweep_table(summary: Summary, sweep: SweepSummary, name: str) -> Table:
    is_first = name == sweep.metric
    contenders = at_points(summary, sweep)
    figures = {key: shown_of(summary, each, name) for key, each in contenders.items()}
    unit = unit_for(summary, name, figures.values())
    marks = _marks(summary, sweep, figures) if is_first else {}
    papers = papers_of(summary, sweep.name, name)
    paper = paper_texts(papers, unit.name)
    keys = [[(base, point.name) for base in sweep.contenders] for point in sweep.points]
    values = [[unit.of(found.value) for key in row if (found := figures.get(key))] for row in keys]
    absent, labels = Reasons(), [point.label for point in sweep.points]
    own, scaled = own_notes(papers), scaled_marks(contenders.values(), name, absent)
    rows = []
    for label, row, digits in zip(labels, keys, _digits_of_rows(values, name), strict=True):
        cells = []
        for key in row:
            figure, printed = figures.get(key), paper.get(key, ABSENT)
            if note := own.get(key):
                printed += absent.mark(f"paper: {note}")
            shown = digits if figure is None else digits_of_cell(unit.of(figure.value), digits)
            cells.append(
                estimate_cell(
                    figure,
                    unit,
                    shown,
                    paper=printed if paper else "",
                    bound=_bound(summary, name, contenders.get(key)),
                    mark=marks.get(key, "") + scaled.get(f"{key[0]}@{sweep.name}={key[1]}", "")
                    if figure
                    else absent.mark(why_not(summary, sweep, name, *key, contenders.get(key))),
                )
            )
        rows.append((label, cells))
    notes = [*absent.notes, *(f"not run: {each}" for each in _left_out(sweep))] if is_first else absent.notes
    notes = [
        *notes,
        *paper_notes(papers, marked=True),
        *([f"note: {sweep.note}"] if is_first and sweep.note else []),
    ]
    notes += [f"ceiling: {sweep.ceiling}"] if name == SHARE_OF_CEILING else []
    remarks = f" [{'; '.join(sweep.remarks)}]" if sweep.remarks else ""
    over = counted_over(summary, name, contenders.values())
    replaced = next((each for each, other in sweep.substitutes.items() if other == name), None)
    instead = f", {in_place_of(replaced)}" if replaced and name not in (sweep.metric, *sweep.metrics) else ""
    caption = f"{caption_of(name, unit)}{over and f', {over}'}{instead}{remarks}"
    return Table.matrix(caption, sweep.x_label, sweep.contenders, rows, notes)


def _bound(summary: Summary, name: str, contender: ContenderSummary | None) -> str:
    """Writes the queueing bound of a rate of requests; empty without one."""
    bound = shown_of(summary, contender, "queueing_bound") if name == "requests_per_second" else None
    return "" if bound is None else as_printed(round(bound.value, 1))


class Reasons:
    """The marks of a table and their reasons, each reason once."""

    def __init__(self, taken: Mapping[str, str] = {}) -> None:
        self.marks = {text: mark for mark, text in taken.items()}
        """By reason; `taken` has some by mark."""

    def mark(self, reason: str) -> str:
        return self.marks.setdefault(reason, superscript(len(self.marks) + 1))

    @property
    def notes(self) -> list[str]:
        return [f"{mark} {reason}" for reason, mark in self.marks.items()]


def scaled_marks(
    contenders: Iterable[ContenderSummary | None], name: str, reasons: Reasons
) -> dict[str, str]:
    """Marks the contenders whose figure of a metric is extrapolated; one note serves all."""
    shares = {each.name: each.scaled[name] for each in contenders if each and name in each.scaled}
    return dict.fromkeys(shares, reasons.mark(extrapolated(shares.values()))) if shares else {}


def why_not(
    summary: Summary,
    sweep: SweepSummary,
    name: str,
    base: str,
    point: str,
    contender: ContenderSummary | None,
) -> str:
    """Says why a metric has no figure at a point of a sweep."""
    if contender is None:
        return sweep.absent.get(f"{base}@{sweep.name}={point}") or sweep.absent.get(base) or "not run"
    if name in sweep.unavailable:
        return f"{words_of(name)}: {sweep.unavailable[name]}"
    return why_none(summary, name, contender)


def why_none(summary: Summary, name: str, contender: ContenderSummary) -> str:
    """Says why a contender has no figure of a metric."""
    if contender.blocks == 0:
        return "no valid trials"
    if why := not_offered(summary, name):
        return f"{words_of(name)}: {why}"
    if is_of_open_loop(name) and OFFERED not in contender.metrics:
        return NO_SCHEDULE
    if name in contender.at_least:
        return at_least_in_words(summary, contender, name)
    if name in contender.unknown:
        return f"unknown: {contender.unknown[name]}"
    if name in METRICS and (fewest := METRICS[name].fewest_requests):
        return f"too few requests: the {words_of(name)} needs {fewest:,} in each trial"
    if because := NONE_BECAUSE.get(name.partition(".")[2] or name):
        return because
    return f"not every trial has the {words_of(name)}"


def _left_out(sweep: SweepSummary) -> list[str]:
    """Lists the contenders without a row or a column, with the reason."""
    points = {point.name for point in sweep.points}
    by_reason: dict[str, list[str]] = {}
    for name, why in sweep.absent.items():
        base, _, rest = name.partition("@")
        if base not in sweep.contenders or rest.partition("=")[2] not in points:
            by_reason.setdefault(why, []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in by_reason.items()]


def _marks(
    summary: Summary, sweep: SweepSummary, figures: Mapping[tuple[str, str], ShownEstimate | None]
) -> dict[tuple[str, str], str]:
    """Marks the best estimate at each compared point, and those that do not differ significantly from it."""
    marks: dict[tuple[str, str], str] = {}
    sign = -1 if sweep.better == "more" else 1
    for point in sweep.points:
        pairs = [pair for pair in summary.pairs if (pair.sweep, pair.point) == (sweep.name, point.name)]
        bases = {f"{base}@{sweep.name}={point.name}": base for base in sweep.contenders}
        known = {base: found for base in sweep.contenders if (found := figures.get((base, point.name)))}
        if not pairs or len(known) < 2 or summary.study.repetitions:
            continue
        best = min(known, key=lambda base: sign * known[base].value)
        marks[(best, point.name)] = BEST
        for pair in pairs:
            other = {bases.get(pair.a), bases.get(pair.b)} - {best}
            if len(other) == 1 and pair.verdict in ("undecided", "equivalent") and pair.ratio is not None:
                marks[(other.pop() or "", point.name)] = LEVEL
    return marks


def sweeps_legend(summary: Summary) -> list[str]:
    """Explains the tables of all sweeps."""
    tables = [_sweep_table(summary, sweep, sweep.metric) for sweep in summary.sweeps]
    cells = [cell for table in tables for row in table.rows for cell in row.cells]
    lines = []
    if any(BEST in cell.mark for cell in cells):
        lines.append(
            f"{BEST} best estimate at its point; {LEVEL} does not differ significantly from it, which does "
            "not mean that they are equal."
        )
    if any(papers_of(summary, each.name, name) for each in summary.sweeps for name in metrics_of(each)):
        lines.append("Paper: the source's figure, on its own machine.")
    if any(cell.bound for cell in cells):
        lines.append("Bound: requests served at once (workers, at most the number of clients) / mean delay.")
    lines += cpu_cost_lines(summary, (name for each in summary.sweeps for name in metrics_of(each)))
    lines += about_metrics(summary, (each.metric for each in summary.sweeps))
    if summary.study.repetitions:
        lines.append(f"{estimator(summary)}; no verdicts.")
    confidences = {
        found.confidence
        for each in summary.contenders
        if each.sweep
        and (found := each.metrics.get(each.metric))
        and found.low is not None
        and found.confidence
    }
    if confidences and not summary.study.repetitions:
        lines.append(
            f"{estimator(summary)}; intervals: {percent(min(confidences))}, each for its own figure."
        )
    return lines


# Slopes -----------------------------------------------------------------------------------------------------

STRAIGHT = "the share of the variation over the points that the line explains"
DIGITS = 4
"""Decimals of R²; a line that looks straight has more than .99."""


def slope_table(summary: Summary, sweep: SweepSummary) -> Table | None:
    """Shows slope, start and R² of each metric by contender.

    None if the sweep requests no slope, or the run has too few of its points.
    """
    if sweep.slope is None or not sweep.slopes:
        return None
    start, intercept = ("at zero", "the value at zero")
    if sweep.trial == "whole_life":
        start, intercept = "start-up", "the cost of starting up"
    reasons = Reasons()
    rows: list[tuple[str, list[Cell]]] = []
    for name in dict.fromkeys(each.metric for each in sweep.slopes):
        own = {each.base: each for each in sweep.slopes if each.metric == name}
        lines = [own.get(base) for base in sweep.contenders]
        adds = [shown(summary, each.each, each.each_spread) if each else None for each in lines]
        starts = [shown(summary, each.start, each.start_spread) if each else None for each in lines]
        rows.append(_row(summary, name, f"each {sweep.slope}", adds, lines, reasons))
        rows.append(_row(summary, name, start, starts, lines, reasons))
        straight = [shown(summary, each.r_squared, each.r_squared_spread) if each else None for each in lines]
        # The slope has the reason for a missing R².
        rows.append(
            (f"{words_of(name)}, R²", [estimate_cell(each, Unit(1, ""), DIGITS) for each in straight])
        )
    points = ", ".join(point.label for point in sweep.points)
    remarks = f" [{'; '.join(sweep.remarks)}]" if sweep.remarks else ""
    runs = summary.study.repetitions
    how = (
        f"in each run; mean of {count(runs, 'run')} and standard deviation (sd)"
        if runs
        else "in each block; Hodges-Lehmann estimate and its interval over the blocks"
    )
    return Table.matrix(
        f"What each {sweep.slope} adds, and {intercept}{remarks}",
        "metric",
        sweep.contenders,
        rows,
        (
            *reasons.notes,
            *_scaled(summary, sweep),
            f"slope: least squares over {sweep.x_label} {points} {how}",
            f"R²: {STRAIGHT}",
        ),
    )


def _scaled(summary: Summary, sweep: SweepSummary) -> Iterator[str]:
    """Says which lines are fitted to extrapolated counts."""
    contenders = at_points(summary, sweep).values()
    for name in dict.fromkeys(each.metric for each in sweep.slopes):
        if how := extrapolated(each.scaled.get(name) for each in contenders):
            yield f"{words_of(name)}: {how}"


def _row(
    summary: Summary,
    name: str,
    what: str,
    figures: Sequence[ShownEstimate | None],
    lines: Sequence[SlopeSummary | None],
    reasons: Reasons,
) -> tuple[str, list[Cell]]:
    """Makes a row in its own unit: a slope may be a thousandth of the start."""
    unit = unit_for(summary, name, figures)
    digits = digits_for([unit.of(each.value) for each in figures if each], name)
    cells = [
        estimate_cell(figure, unit, digits)
        if figure
        else Cell(mark=reasons.mark((line.why if line else None) or "not measured"))
        for figure, line in zip(figures, lines, strict=True)
    ]
    return f"{caption_of(name, unit)}, {what}", cells
