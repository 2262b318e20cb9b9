"""The tables of a search for knees: the knee of each design, and its latency at every rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.metrics.table import METRICS
from thunderherd.records.knee import DesignKnee, KneePoint, KneeSummary
from thunderherd.show.sentences.knee import interval_in_words, rate_in_words
from thunderherd.show.sentences.tables import without_meaning
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, BETWEEN, seconds_in_words

__all__ = ["curve_table", "knees_table"]

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
    knee = {"none": 0.0, "all": float("inf")}.get(design.outcome or "", design.rate or 0.0)
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
    """Shows the latency of a design at every rate."""
    columns = (
        Column("Rate"),
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
    for rate, why in design.left_out.items():
        yield Row((Cell(f"{rate:,}"), Cell(), Cell(), Cell(f"left out: {without_meaning(why)}")))
