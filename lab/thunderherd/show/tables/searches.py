"""The tables of searches: the knee of each design and its latency at every rate, the sizes of a crossover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.metrics.table import METRICS
from thunderherd.records.crossover import CrossoverPoint, CrossoverSummary
from thunderherd.records.knee import DesignKnee, KneePoint, KneeSummary
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.show.sentences.knee import interval_in_words, rate_in_words
from thunderherd.show.sentences.leads import Lead
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, BETWEEN, capital, number, seconds_in_words
from thunderherd.text.shown import ShownEstimate, at_points, caption_of, digits_for, shown_of, unit_for
from thunderherd.toml.quantities import plain

__all__ = ["curve_table", "knees_table", "sizes_table"]

NO_KNEE = {None: "unknown", "none": "none in this range", "all": "all of this range", "unclear": "unclear"}


def knees_table(summary: KneeSummary) -> Table:
    """Shows the knee of each design, or why it has none, and the latency at the rates next to it."""
    largest = max((each.rate or 0.0 for each in summary.designs), default=0.0)
    rows = []
    for each in summary.designs:
        value = rate_in_words(each.rate or 0) if each.outcome == "one" else NO_KNEE[each.outcome]
        span = interval_in_words(each) if each.outcome else ""
        share = each.rate / largest if each.rate and largest else None
        knee = Cell(value, span, bar=share)
        rows.append(Row((Cell(each.name), knee, *_neighbours(each))))
    short = METRICS[summary.metric].short
    columns = (
        Column("Design", "name"),
        Column("Requests/s"),
        Column(f"{short} below", "short"),
        Column(f"{short} above", "short"),
    )
    return Table("", columns, tuple(rows)).without_empty()


def _neighbours(design: DesignKnee) -> tuple[Cell, Cell]:
    """Gives the latency at the last rate below the knee, and at the first rate above it."""
    if design.outcome in (None, "unclear"):
        return Cell(), Cell()
    knee = {"none": 0.0, "all": float("inf"), "one": design.rate or 0.0}[design.outcome]
    below = [point for point in design.points if point.rate <= knee]
    above = [point for point in design.points if point.rate > knee]
    return _at_rate(below[-1:]), _at_rate(above[:1])


def _at_rate(points: Sequence[KneePoint]) -> Cell:
    for point in points:
        latency = point.latency_seconds
        what = "overloaded" if latency is None else seconds_in_words(latency)
        return Cell(f"{what} at {point.rate:,}")
    return Cell()


def curve_table(summary: KneeSummary, design: DesignKnee) -> Table:
    """Shows the latency of a design at every rate; the notes say why rates are left out."""
    columns = (
        Column("Requests/s"),
        Column(METRICS[summary.metric].short),
        Column("Kept up"),
        Column("", "words"),
    )
    return Table(design.name, columns, tuple(_rows(design))).without_empty()


def _rows(design: DesignKnee) -> Iterator[Row]:
    for point in design.points:
        latency = ABSENT if point.latency_seconds is None else seconds_in_words(point.latency_seconds)
        ends = [seconds_in_words(end) for end in (point.low, point.high) if end is not None]
        kept_up = f"{point.trials - point.overloaded} of {point.trials}"
        again = "again" if point.stage == "confirmation" else ""
        span = BETWEEN.join(ends) if len(ends) == 2 else ""
        yield Row((Cell(f"{point.rate:,}"), Cell(latency, span), Cell(kept_up), Cell(again)))
    for rate in design.left_out:
        yield Row((Cell(f"{rate:,}"), Cell(), Cell(), Cell("left out")))


# Crossovers ------------------------------------------------------------------------------------------------

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
