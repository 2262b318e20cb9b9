"""Every requested counter, and ratios of two of them, by side.

An extrapolated figure and a missing one have marks, whose reasons are notes of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thunderherd.metrics.table import (
    ELAPSED,
    HELD,
    NANOSECONDS,
    PER,
    PER_CONNECTION,
    PER_REQUEST,
    RATIOS,
    SIDES,
    Side,
    metric,
)
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.show.sentences.counting_cost import cost_lines
from thunderherd.show.tables.model import Cell, Table, estimate_cell
from thunderherd.show.tables.sweeps import Reasons, why_none
from thunderherd.text.figures import extrapolated, not_offered
from thunderherd.text.printable import printable
from thunderherd.text.shown import digits_for, shown_of, unit_for

__all__ = ["CounterTables", "asks_for_counters", "counter_tables", "counters_legend"]

_LEGEND = (
    "Figures without a 'per' are totals of the window, or values at a moment near its end. The clients' "
    "counts cover their whole load and their work after its last reply, over the time until they were read."
)
NOT_REPORTED = (
    "unavailable in some of its trials: no connection was left to read it from, the kernel does not report "
    "it, or it was read late"
)
WHOSE: dict[Side, str] = {"server": "Server", "client": "Clients"}
FURTHER = [per for per in PER if per not in (PER_REQUEST, PER_CONNECTION)]
"""The other measures that counters are divided by, each in a separate table."""


@dataclass(frozen=True)
class CounterTables:
    """The counters of the main table's contenders, or of those at one point of a sweep."""

    where: str
    """Empty for the main table."""
    first: list[Table]
    """Per request, with ratios of two counters, and states at a moment."""
    further: list[Table]
    """Per byte, per second."""

    @property
    def all(self) -> list[Table]:
        """All tables; their captions say where they belong."""
        head = f"{self.where}. " if self.where else ""
        return [replace(each, caption=f"{head}{each.caption}") for each in (*self.first, *self.further)]


def asks_for_counters(summary: Summary) -> bool:
    """True if the study requests any counter in all of its trials."""
    return bool(summary.study.counters)


def counter_tables(summary: Summary) -> list[CounterTables]:
    """Makes the tables of each place; none if no counter was requested."""
    if not asks_for_counters(summary):
        return []
    places: dict[str, list[ContenderSummary]] = {}
    for each in summary.contenders:
        where = f"Sweep {each.sweep} at {each.point}" if each.sweep else ""
        places.setdefault(printable(where), []).append(each)
    return [
        CounterTables(
            where,
            [_table(summary, group, side, PER_REQUEST) for side in SIDES],
            [found for side in SIDES for per in FURTHER if (found := _table(summary, group, side, per)).rows],
        )
        for where, group in places.items()
    ]


def counters_legend(summary: Summary) -> list[str]:
    """Explains the tables, and says what counting changed in their figures."""
    return [_LEGEND, *cost_lines(summary)]


def _table(summary: Summary, group: Sequence[ContenderSummary], side: Side, per: str) -> Table:
    """Shows a side's counters by contender; without rows if none is known by this measure."""
    if per == PER_REQUEST:
        names = [*_first_names(summary, group, side)]
    else:
        names = [
            f"{side}.{figure}{per}" for figure in summary.study.counters if figure not in summary.study.states
        ]
        there = {name for name in names if _is_known(summary, group, name)}
        names = [name for name in names if name in there or (there and not_offered(summary, name))]
    reasons = Reasons()
    shares = [
        each.scaled[name]
        for name in names
        for each in group
        if name in each.scaled and shown_of(summary, each, name)
    ]
    scaled = reasons.mark(extrapolated(shares)) if shares else ""
    rows = [
        (_head(summary, group, side, name), _cells(summary, group, name, reasons, scaled)) for name in names
    ]
    caption = WHOSE[side] if per == PER_REQUEST else f"{WHOSE[side]}, {PER[per]}"
    return Table.matrix(caption, "counter", [each.base for each in group], rows, reasons.notes)


def _first_names(summary: Summary, group: Sequence[ContenderSummary], side: Side) -> Iterator[str]:
    """Lists the metrics of the first table: each counter per request or else whole, then ratios."""
    figures = [*summary.study.counters]
    for figure in figures:
        per_request, whole = f"{side}.{figure}{PER_REQUEST}", f"{side}.{figure}"
        known = [name for name in (per_request, whole) if _is_known(summary, group, name)]
        # Some counters have only parts.
        parts = [f"{side}.{each}" for each in figures if each.startswith(f"{figure}.")]
        if known or not any(_is_known(summary, group, part) for part in parts):
            yield known[0] if known else whole
    for ratio, made in RATIOS.items():
        requested = [part for part in made.parts if part in figures]
        if requested and all(part in figures or part == ELAPSED for part in made.parts):
            yield f"{side}.{ratio}"
    if side == "server":
        yield from (f"{side}.{figure}{PER_CONNECTION}" for figure in HELD if figure in figures)


def _is_known(summary: Summary, group: Sequence[ContenderSummary], name: str) -> bool:
    return any(shown_of(summary, each, name) for each in group)


def _head(summary: Summary, group: Sequence[ContenderSummary], side: Side, name: str) -> str:
    """Names a metric with its unit, without its side and without the measure of the whole table."""
    what, counters = name.partition(".")[2], summary.study.counters
    words = metric(name, counters).words.replace(f" {SIDES[side]}", "")
    unit = unit_for(summary, name, [shown_of(summary, each, name) for each in group]).name
    if not unit and counters.get(what) not in (None, NANOSECONDS):
        unit = counters[what]
    for per in FURTHER:
        words = words.removesuffix(f" {PER[per]}")
    if not any(mark in what for mark in ":/"):
        words = words.replace(".", ", ")
    has_unit = unit and unit not in ("/s", "1/s") and unit not in words.split()
    return printable(f"{words} ({unit})" if has_unit else words)


def _cells(
    summary: Summary,
    group: Sequence[ContenderSummary],
    name: str,
    reasons: Reasons,
    scaled: str,
) -> list[Cell]:
    figures = [shown_of(summary, each, name) for each in group]
    unit = unit_for(summary, name, figures)
    digits = digits_for([unit.of(figure.value) for figure in figures if figure], name)
    return [
        Cell(mark=reasons.mark(_why(summary, name, each)))
        if figure is None
        else estimate_cell(figure, unit, digits, mark=scaled if name in each.scaled else "")
        for each, figure in zip(group, figures, strict=True)
    ]


def _why(summary: Summary, name: str, each: ContenderSummary) -> str:
    """Says why a contender has no such figure; an unavailable counter has one reason for all."""
    if each.blocks and (why := not_offered(summary, name)):
        return why
    figure = name.partition(".")[2]
    return NOT_REPORTED if each.blocks and figure in summary.study.counters else why_none(summary, name, each)
