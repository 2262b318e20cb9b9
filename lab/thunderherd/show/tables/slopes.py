"""The slopes of a sweep: what each unit on its axis adds, and the cost at zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.records.summary import SlopeSummary, Summary, SweepSummary
from thunderherd.show.tables.model import Cell, Table, estimate_cell
from thunderherd.show.tables.sweeps import Reasons
from thunderherd.text.figures import Unit, count, extrapolated, words_of
from thunderherd.text.shown import ShownEstimate, at_points, caption_of, digits_for, shown, unit_for

__all__ = ["slope_table"]

STRAIGHT = "the share of the variation over the points that the line explains"
DIGITS = 4
"""Decimals of R²; a line that looks straight has more than .99."""


def slope_table(summary: Summary, sweep: SweepSummary) -> Table | None:
    """Shows slope, start and R² of each metric by contender.

    None if the sweep requests no slope, or the run has too few of its points.
    """
    if sweep.slope is None or not sweep.slopes:
        return None
    start = "start-up" if sweep.trial == "whole_life" else "at none"
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
        # Why there is no R² is said of its slope.
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
        f"What each {sweep.slope} adds, and {start} beside it{remarks}",
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
        if said := extrapolated(each.scaled.get(name) for each in contenders):
            yield f"{words_of(name)}: {said}"


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
