"""Every run of a study that repeats instead of judging, as rows of texts, beside the source's runs where it
gives them.

Everything is taken from the summary. The printed tables and the report show the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from thunderherd.figures import ABSENT, heading_of, number, unit_of
from thunderherd.matrices import as_printed, at_points, digits_for, metrics_of
from thunderherd.metrics import metric
from thunderherd.records import ContenderSummary, Summary, SweepSummary

__all__ = ["RunRow", "Runs", "main_runs", "sweep_runs"]


@dataclass(frozen=True)
class RunRow:
    """A run of a contender at a point, or the mean or deviation of its runs."""

    point: str
    contender: str
    run: str
    cells: tuple[str, ...]
    is_summary: bool


@dataclass(frozen=True)
class Runs:
    """Every run, where a study repeats instead of judging. Heads say their unit."""

    corner: str
    headings: tuple[str, ...]
    rows: tuple[RunRow, ...]


def sweep_runs(summary: Summary, sweep: SweepSummary) -> Runs | None:
    """Every run of a sweep with the metrics that it shows; None where blocks are judged."""
    if not summary.study.repetitions:
        return None
    contenders = at_points(summary, sweep)
    found = [
        (point.name, base, contenders.get((base, point.name)))
        for point in sweep.points
        for base in sweep.contenders
    ]
    # What is judged stands last, as the sources have it: time, requests, throughput.
    runs = _runs(summary, found, [*metrics_of(sweep)[1:], sweep.metric], sweep.x_label)
    return _beside_the_source(runs, sweep)


def _beside_the_source(runs: Runs, sweep: SweepSummary) -> Runs:
    """The runs with those of the source in a column of their own, where it gives any."""
    paper = {(each.point, each.base): each.runs for each in sweep.paper if len(each.runs) > 1}
    if not paper:
        return runs
    rows: list[RunRow] = []
    for row in runs.rows:
        own = paper.get((row.point, row.contender), [])
        texts = {str(place): as_printed(value) for place, value in enumerate(own, start=1)}
        if own:
            texts |= {"mean": as_printed(fmean(own)), "sd": as_printed(stdev(own))}
        # What was not run here stands in the source all the same.
        shown = texts if row.run == ABSENT and texts else [row.run]
        rows += [
            replace(row, run=run, cells=(*row.cells, texts.get(run, ABSENT)), is_summary=not run.isdigit())
            for run in shown
        ]
    return Runs(runs.corner, (*runs.headings, "Paper"), tuple(rows))


MAIN_METRICS = ("requests", "elapsed_seconds", "requests_per_second")
"""What the runs of the main table show beside the study's metric."""


def main_runs(summary: Summary) -> Runs | None:
    """Every run of the main table; None where there is no such table, or where blocks are judged."""
    main = [("", each.name, each) for each in summary.contenders if each.sweep is None]
    if not summary.study.repetitions or not main:
        return None
    return _runs(summary, main, list(dict.fromkeys([*MAIN_METRICS, summary.study.metric])), "")


def _runs(
    summary: Summary,
    found: Sequence[tuple[str, str, ContenderSummary | None]],
    metrics: Sequence[str],
    corner: str,
) -> Runs:
    columns = [_RunColumn(summary, name, [each for _, _, each in found if each]) for name in metrics]
    rows = []
    for point, base, contender in found:
        runs = contender.runs if contender else []
        for number_, run in enumerate(runs, start=1):
            cells = tuple(column.text(run.get(column.name)) for column in columns)
            rows.append(RunRow(point, base, str(number_), cells, is_summary=False))
        if contender is None or not runs:
            rows.append(RunRow(point, base, ABSENT, (ABSENT,) * len(columns), is_summary=True))
            continue
        spreads = [contender.spread.get(column.name) for column in columns]
        for head, values in (
            ("mean", [each.mean if each else None for each in spreads]),
            ("sd", [each.standard_deviation if each else None for each in spreads]),
        ):
            cells = tuple(
                column.text(value, is_run=False) for column, value in zip(columns, values, strict=True)
            )
            rows.append(RunRow(point, base, head, cells, is_summary=True))
    return Runs(corner, tuple(column.heading for column in columns), tuple(rows))


class _RunColumn:
    """A metric of repeated runs: how its figures are written."""

    def __init__(self, summary: Summary, name: str, contenders: Sequence[ContenderSummary]) -> None:
        self.name = name
        values = [
            float(value) for each in contenders for run in each.runs if (value := run.get(name)) is not None
        ]
        self.unit = unit_of(name, summary.study.normalise_connections, values, summary.study.counters)
        self.digits = digits_for([self.unit.of(value) for value in values], name)
        try:
            self.is_count = metric(name, summary.study.counters).whole
        except KeyError:
            self.is_count = False
        short = heading_of(name)
        unit = self.unit.name.partition(" per ")[0]
        self.heading = f"{short} ({unit})" if unit and unit not in ("requests", "connections") else short

    def text(self, value: float | None, *, is_run: bool = True) -> str:
        """A figure of a run, or a mean of them, which has decimals even of a count."""
        digits = 0 if self.is_count and is_run else max(1, self.digits) if self.is_count else self.digits
        return number(self.unit.of(None if value is None else float(value)), digits)
