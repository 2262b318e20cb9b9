"""The tables of a search for knees: the knee of each design, and its latency at every rate."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.metrics.table import METRICS
from thunderherd.records.knee import DesignKnee, KneeSummary
from thunderherd.show.sentences.knee import interval_in_words, rate_in_words
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, BETWEEN, seconds_in_words

__all__ = ["curve_table", "knees_table"]

NO_KNEE = {None: "unknown", "none": "none in this range", "all": "all of this range", "unclear": "unclear"}


def knees_table(summary: KneeSummary) -> Table:
    """Shows the knee of each design, or why it has none."""
    rows = []
    for each in summary.designs:
        value = rate_in_words(each.rate or 0) if each.outcome == "one" else NO_KNEE[each.outcome]
        span = interval_in_words(each) if each.outcome else ""
        rows.append(Row((Cell(each.name), Cell(value, span))))
    return Table("", (Column("Design", "name"), Column("Requests per second")), tuple(rows))


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
        yield Row((Cell(f"{rate:,}"), Cell(), Cell(), Cell(f"left out: {why}")))
