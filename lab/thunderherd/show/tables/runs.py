"""Every run of a study that repeats its trials, or the single runs that a judged study shows.

Further columns have the source's runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from thunderherd.metrics.table import SIDES
from thunderherd.records.summary import ContenderSummary, Summary, SweepSummary
from thunderherd.show.sentences.source_figures import as_printed, own_notes, paper_notes, papers_of
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.tables.sweeps import Reasons, digits_of_cell, metrics_of, why_none, why_not
from thunderherd.text.figures import ABSENT, extrapolated, heading_of, number, unit_of
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_points, counted_over, digits_for, is_count

__all__ = ["main_runs", "sweep_runs"]


NOT_OF_SOURCE = f"{ABSENT} below Paper: the source gives no such figure"
NO_DEVIATION = f"sd {ABSENT}: a single run has no deviation"


POINT, CONTENDER, RUN, FIXED = 0, 1, 2, 3
"""The places of the columns at the left, and how many there are."""


def sweep_runs(summary: Summary, sweep: SweepSummary) -> Table | None:
    """Shows the runs of a sweep with its metrics; None if blocks are judged and no runs shown."""
    contenders = at_points(summary, sweep)
    if not _has_runs(summary, contenders.values()):
        return None
    found = [
        (point.name, base, contenders.get((base, point.name)))
        for point in sweep.points
        for base in sweep.contenders
    ]
    # The judged metric is last, as in the sources: time, requests, throughput.
    reasons = Reasons()
    runs = _runs(summary, found, [*metrics_of(sweep)[1:], sweep.metric], reasons, sweep)
    runs = _with_the_source(runs, summary, sweep, reasons)
    labels = {point.name: Cell(point.label) for point in sweep.points}
    rows = tuple(replace(row, cells=(labels[row.cells[POINT].value], *row.cells[1:])) for row in runs.rows)
    remarks = f" [{'; '.join(sweep.remarks)}]" if sweep.remarks else ""
    return replace(runs, caption=f"{runs.caption}{remarks}", rows=rows)


def _with_the_source(runs: Table, summary: Summary, sweep: SweepSummary, reasons: Reasons) -> Table:
    """Adds columns with the source's runs, if it gives any. `reasons` has the notes that the runs have."""
    names = [*metrics_of(sweep)[1:], sweep.metric]
    before = len(reasons.notes)
    columns = [each for name in names for each in _columns_of_source(summary, sweep, name, reasons)]
    if not columns:
        return runs
    rows: list[Row] = []
    for row in runs.rows:
        point, base, own, *cells = row.cells
        texts = [column.texts(point.value, base.value) for column in columns]
        theirs = sorted({run for each in texts for run in each}, key=_place_of_run)
        # The source has its runs even if this machine ran none.
        for run in theirs if own.value == ABSENT and theirs else [own.value]:
            found = [each.get(run, Cell()) for each in texts]
            rows.append(_row(point.value, base.value, run, [*cells, *found], is_run=run.isdigit()))
    # Notes on the judged metric are below the table of means.
    papers = [papers_of(summary, sweep.name, name) for name in names[:-1]]
    further = [note for each in papers for note in paper_notes(each, marked=True)]
    lacks = any(cell == Cell() for row in rows for cell in row.cells[len(runs.columns) :])
    notes = (
        *runs.notes,
        *reasons.notes[before:],
        *dict.fromkeys(further),
        *([NOT_OF_SOURCE] if lacks else []),
    )
    heads = (*runs.columns, *(Column(column.heading) for column in columns))
    return replace(runs, columns=heads, rows=tuple(rows), notes=notes)


def _row(point: str, base: str, run: str, cells: Iterable[Cell], *, is_run: bool) -> Row:
    return Row((Cell(point), Cell(base), Cell(run), *cells), "" if is_run else "of-runs")


def _has_runs(summary: Summary, contenders: Iterable[ContenderSummary]) -> bool:
    return summary.study.repetitions is not None or any(each.runs for each in contenders)


def _counted_over(summary: Summary, contenders: Sequence[ContenderSummary], metrics: Sequence[str]) -> str:
    """Writes `; counts of the clients: over 0.41 to 0.44 s`, once for all columns of a side."""
    times = {
        words: over
        for side, words in SIDES.items()
        for name in metrics
        if name.startswith(f"{side}.") and (over := counted_over(summary, name, contenders))
    }
    return "".join(f"; counts {words}: {over.removeprefix('counted ')}" for words, over in times.items())


def _caption(summary: Summary, contenders: Iterable[ContenderSummary]) -> str:
    """Says which runs these are."""
    if summary.study.repetitions:
        return "Every run"
    most = max(len(each.runs) for each in contenders)
    return f"Single runs: the first {most} of {summary.study.blocks} accepted; verdicts use all"


@dataclass(frozen=True)
class _SourceColumn:
    """A column with the source's runs of a metric on one of its systems."""

    heading: str
    runs: dict[tuple[str | None, str], list[float]]
    marks: dict[tuple[str | None, str], str]
    """The marks of figures with a note, by point and contender."""

    def texts(self, point: str, base: str) -> dict[str, Cell]:
        """Makes the cells of a contender at a point: each run, their mean and deviation."""
        own, mark = self.runs.get((point, base), []), self.marks.get((point, base), "")
        if len(own) < 2:
            return {"mean": Cell(as_printed(own[0]), mark=mark)} if own else {}
        texts = {str(place): Cell(as_printed(value)) for place, value in enumerate(own, start=1)}
        return texts | {"mean": Cell(as_printed(fmean(own)), mark=mark), "sd": Cell(as_printed(stdev(own)))}


def _columns_of_source(
    summary: Summary, sweep: SweepSummary, name: str, reasons: Reasons
) -> Iterator[_SourceColumn]:
    """Makes a column for each system of the source; notes on single figures go to `reasons`.

    A single figure is shown in the metric's own table if it has one, else here.
    """
    is_first = name == sweep.metric
    fewest = 2 if is_first or not summary.study.repetitions else 1
    papers = papers_of(summary, sweep.name, name)
    noted = own_notes(papers)
    figures = [each for each in papers if len(each.runs) >= fewest]
    for system in dict.fromkeys(each.system for each in figures):
        own = [each for each in figures if each.system == system]
        what = [] if is_first else [heading_of(name)]
        parts = ", ".join([*what, *([system] if system else [])])
        unit = f" ({own[0].unit})" if own[0].unit else ""
        yield _SourceColumn(
            printable(f"Paper{': ' if parts else ''}{parts}{unit}"),
            {(each.point, each.base): each.runs for each in own},
            {
                (each.point, each.base): reasons.mark(f"paper: {note}")
                for each in own
                if (note := noted.get((each.base, each.point)))
            },
        )


def _place_of_run(run: str) -> tuple[int, str]:
    """Orders runs by their number, then mean and deviation."""
    return (int(run), "") if run.isdigit() else (sys.maxsize, run)


MAIN_METRICS = ("requests", "elapsed_seconds", "requests_per_second")
"""The metrics that runs of the main table show in addition to the study's."""


def main_runs(summary: Summary) -> Table | None:
    """Shows the runs of the main table; None without such a table, or if no runs are shown."""
    main = [("", each.name, each) for each in summary.contenders if each.sweep is None]
    if not main or not _has_runs(summary, [each for _, _, each in main]):
        return None
    runs = _runs(summary, main, list(dict.fromkeys([*MAIN_METRICS, summary.study.metric])), Reasons())
    return replace(runs.part(range(CONTENDER, len(runs.columns))), fixed=FIXED - 1)


def _runs(
    summary: Summary,
    found: Sequence[tuple[str, str, ContenderSummary | None]],
    metrics: Sequence[str],
    reasons: Reasons,
    sweep: SweepSummary | None = None,
) -> Table:
    known = [each for _, _, each in found if each]
    columns = [_RunColumn(summary, name, known) for name in metrics]
    rows: list[Row] = []

    def absent(name: str, point: str, base: str, contender: ContenderSummary | None) -> Cell:
        if sweep is not None:
            return Cell(mark=reasons.mark(why_not(summary, sweep, name, base, point, contender)))
        return Cell(mark=reasons.mark(why_none(summary, name, contender) if contender else "not run"))

    for point, base, contender in found:
        runs = contender.runs if contender else []
        for number_, run in enumerate(runs, start=1):
            cells = [
                absent(column.name, point, base, contender) if value is None else column.cell(value)
                for column in columns
                for value in [run.get(column.name)]
            ]
            rows.append(_row(point, base, str(number_), cells, is_run=True))
        if contender is None or not runs:
            cells = [absent(column.name, point, base, contender) for column in columns]
            rows.append(_row(point, base, ABSENT, cells, is_run=False))
            continue
        if not summary.study.repetitions:
            continue  # the estimate over all blocks is in the other tables
        spreads = [contender.spread.get(column.name) for column in columns]
        means = [
            column.cell(each.mean, is_run=False) if each else absent(column.name, point, base, contender)
            for column, each in zip(columns, spreads, strict=True)
        ]
        deviations = [
            # A single run has no deviation.
            column.cell(each.standard_deviation, is_run=False) if each else mean
            for column, each, mean in zip(columns, spreads, means, strict=True)
        ]
        rows.append(_row(point, base, "mean", means, is_run=False))
        rows.append(_row(point, base, "sd", deviations, is_run=False))
    lacking = [
        f"{column.heading}: {how}"
        for column in columns
        if (how := extrapolated(each.scaled.get(column.name) for each in known))
    ]
    # A deviation without a mark is missing because there is a single run.
    alone = any(row.cells[RUN].value == "sd" and Cell() in row.cells for row in rows)
    heads = (
        Column(printable(sweep.x_label if sweep else ""), "name", repeats=False),
        Column("Contender", "name", repeats=False),
        Column("Run"),
        *(Column(column.heading) for column in columns),
    )
    return Table(
        _caption(summary, known) + _counted_over(summary, known, metrics),
        heads,
        tuple(rows),
        (
            *reasons.notes,
            *dict.fromkeys(lacking),
            *([NO_DEVIATION] if alone else []),
        ),
        kind="runs",
        fixed=FIXED,
    )


class _RunColumn:
    """The unit, decimals and head of a metric of repeated runs."""

    def __init__(self, summary: Summary, name: str, contenders: Sequence[ContenderSummary]) -> None:
        self.name = name
        values = [
            float(value) for each in contenders for run in each.runs if (value := run.get(name)) is not None
        ]
        self.unit = unit_of(name, summary.study.normalise_connections, values, summary.study.counters)
        self.digits = digits_for([self.unit.of(value) for value in values], name)
        self.is_count = is_count(summary, name)
        short = heading_of(name)
        unit = self.unit.name.partition(" per ")[0]
        head = f"{short} ({unit})" if unit and unit not in ("requests", "connections") else short
        # The source's own runs in further columns are not scaled.
        scales = dict.fromkeys(each.scale for each in contenders if each.scale)
        self.heading = f"{head} [{'; '.join(scales)}]" if scales else head

    def cell(self, value: float | None, *, is_run: bool = True) -> Cell:
        """Writes the figure of a run, or a mean, which has decimals even if it is of a count."""
        shown = self.unit.of(None if value is None else float(value))
        if self.is_count:
            return Cell(number(shown, 0 if is_run else max(1, self.digits)))
        return Cell(number(shown, self.digits if shown is None else digits_of_cell(shown, self.digits)))
