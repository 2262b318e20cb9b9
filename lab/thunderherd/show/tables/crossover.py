"""The table of a search for a crossover: both contenders at each size of both stages."""

from __future__ import annotations

from collections.abc import Sequence

from thunderherd.records.crossover import CrossoverPoint, CrossoverSummary
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.show.sentences.leads import Lead
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import capital, number
from thunderherd.text.shown import ShownEstimate, at_points, caption_of, digits_for, shown_of, unit_for
from thunderherd.toml.quantities import plain

__all__ = ["sizes_table"]

Figures = dict[tuple[str, float], ShownEstimate]
"""Contender and size → its estimate."""


def sizes_table(stages: Sequence[Summary]) -> Table:
    """Shows each size in a row: both estimates, the better contender, and its lead.

    `stages` are the runs of the search; the last one has the answer.
    """
    last = stages[-1]
    sweep = last.sweeps[0]
    found = sweep.crossover
    assert found is not None, "both studies have a crossover"
    figures = {place: each for stage in stages for place, each in _figures(stage).items()}
    unit = unit_for(last, sweep.metric, figures.values())
    digits = digits_for([unit.of(each.value) for each in figures.values()], sweep.metric)
    points = {point.size: point for point in found.points}
    rows = []
    for size in sorted({*points, *(size for _, size in figures)}):
        of_both = [figures.get((name, size)) for name in (found.a, found.b)]
        texts = [Cell(number(unit.of(each.value), digits)) if each else Cell() for each in of_both]
        rows.append(Row((Cell(plain(size, found.unit)), *texts, *_lead(points.get(size), found, sweep))))
    columns = (
        Column(capital(sweep.x_label), "name"),
        Column(found.a),
        Column(found.b),
        Column("Better", "short"),
        Column("By"),
    )
    caption = capital(caption_of(sweep.metric, unit))
    return Table(f"{caption}; {sweep.better} is better", columns, tuple(rows))


def _figures(summary: Summary) -> Figures:
    """Gives the estimates of a stage by contender and size."""
    sweep = summary.sweeps[0]
    sizes = {point.name: point.number for point in sweep.points}
    found = {}
    for (base, point), each in at_points(summary, sweep).items():
        size, figure = sizes.get(point), shown_of(summary, each, sweep.metric)
        if size is not None and figure is not None:
            found[base, size] = figure
    return found


def _lead(point: CrossoverPoint | None, found: CrossoverSummary, sweep: SweepSummary) -> tuple[Cell, Cell]:
    if point is None:
        return Cell(), Cell()
    if point.standing not in ("a", "b"):
        return Cell(point.standing, kind=point.standing), Cell()
    first, other = (found.a, found.b) if point.standing == "a" else (found.b, found.a)
    ends: tuple[float | None, ...] = (point.low, point.ratio, point.high)
    if first == found.a:
        ends = tuple(end and 1 / end for end in reversed(ends))
    low, ratio, high = ends
    assert ratio is not None, "each point has a ratio"
    lead = Lead(sweep.metric, first, other, ratio, low, high)
    return Cell(first, kind="better"), Cell(lead.amount, lead.interval)
