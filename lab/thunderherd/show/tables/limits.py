"""The machine's limits for people: a row for each figure, for report and terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.engine.catalogue import Limit
from thunderherd.machine.limits import DERIVED
from thunderherd.records.limits import LimitFigure, MachineLimits
from thunderherd.text.figures import ABSENT, count, decimals, number, percent, span
from thunderherd.text.layout import Layout, print_facts, print_table, prose

PLACES = {"one_cpu": "one CPU", "two_cpus": "two CPUs"}
UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6))
SIZES = (("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20))


@dataclass(frozen=True)
class LimitRow:
    """One figure, as texts; `meaning` stands with the first of a limit's rows alone."""

    limit: str
    where: str
    value: str
    span: str
    best: str
    unit: str
    meaning: str


def limit_rows(limits: MachineLimits, listed: Iterable[Limit]) -> list[LimitRow]:
    """The rows of the table, in the order of the figures."""
    meanings = {each.name: each.summary for each in listed}
    meanings |= dict(DERIVED.values())
    rows: list[LimitRow] = []
    for each in limits.figures:
        known = any(row.limit == each.limit for row in rows)
        rows.append(_row(each, "" if known else meanings.get(each.limit, "")))
    return rows


def _row(each: LimitFigure, meaning: str) -> LimitRow:
    unit, factor = _unit(each)
    digits = decimals([each.value / factor])
    low, high = (None if end is None else end / factor for end in (each.low, each.high))
    return LimitRow(
        limit=each.limit,
        where=PLACES[each.place] if each.bytes is None else size_in_words(each.bytes),
        value=number(each.value / factor, digits),
        span=span(low, high, digits, ".."),
        best=ABSENT if each.best is None else number(each.best / factor, digits),
        unit=unit,
        meaning=meaning,
    )


def _unit(each: LimitFigure) -> tuple[str, float]:
    """The unit in which it is read most easily, and how many of its own that has."""
    if each.unit == "bytes_per_second":
        return "GB/s", 1e9
    return next((unit for unit in reversed(UNITS) if abs(each.value) >= unit[1]), UNITS[0])


def size_in_words(size: int) -> str:
    """`64 KiB`; what is no whole number of a larger unit stays in bytes."""
    name, factor = next(unit for unit in reversed(SIZES) if size % unit[1] == 0)
    return f"{size // factor:,} {name}"


def print_limits(limits: MachineLimits, listed: Sequence[Limit], console: Console) -> None:
    """Prints the table, what it means, and what could not be measured."""
    rows = limit_rows(limits, listed)
    print_table(console, lambda layout: _table(rows, layout))
    console.print()
    meanings = [(row.limit, row.meaning) for row in rows if row.meaning]
    print_facts(console, meanings)
    lost = [
        (each.limit, f"{_point_in_words(each.place, each.bytes)}: {each.reason}")
        for each in limits.unavailable
    ]
    if lost:
        console.print()
        prose(console, "Not to be had here:", style="")
        print_facts(console, lost, indent=2)
    console.print()
    prose(console, legend(limits))
    if limits.disturbed:
        prose(console, f"{limits.disturbed}.", style="bold")


def _table(rows: Sequence[LimitRow], layout: Layout) -> Table:
    table = layout.table()
    table.add_column("Limit", overflow="fold")
    table.add_column("Where, size" if layout.one_line else "Where,\nsize", justify="right", no_wrap=True)
    table.add_column("Median", justify="right", no_wrap=True)
    if layout.one_line:
        table.add_column("interval", style="dim", no_wrap=True)
    table.add_column("Best", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    previous = ""
    for row in rows:
        name = "" if row.limit == previous else layout.name(row.limit)
        figure = layout.figure(row.value, row.span)
        table.add_row(Text(name, style="bold"), Text(row.where), *figure, Text(row.best), Text(row.unit))
        previous = row.limit
    return table


def legend(limits: MachineLimits) -> str:
    """How the figures came about."""
    rounds = {each.rounds for each in limits.figures}
    confidences = [each.confidence for each in limits.figures if each.low is not None]
    most = count(max(rounds, default=0), "round")
    intervals = f"; intervals of the median: {percent(min(confidences))}" if confidences else ""
    near, *far = limits.cpus
    other = f", the other end of two CPUs on CPU {far[0]}" if far else ""
    derived = [each.limit for each in limits.figures if each.best is None]
    none = f" ({' and '.join(derived)}: differences of two others, which have no best)" if derived else ""
    return (
        f"Medians of {most}, interleaved in random order{intervals}; best: of all rounds{none}. "
        f"Measured on CPU {near}{other}."
    )


def _point_in_words(place: str, size: int | None) -> str:
    return PLACES[place] if size is None else f"{size_in_words(size)}, {PLACES[place]}"
