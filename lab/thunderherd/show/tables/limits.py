"""The machine's limits: a row for each figure."""

from __future__ import annotations

from collections.abc import Mapping

from thunderherd.records.limits import LimitFigure, MachineLimits
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, capital, count, decimals, number, percent, span

PLACES = {"one_cpu": "one CPU", "two_cpus": "two CPUs"}
UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6))
SIZES = (("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20))


def limits_table(limits: MachineLimits, of_hosts: Mapping[str, MachineLimits] | None = None) -> Table:
    """Shows the limits in the order of the figures; those of several hosts one after another."""
    columns = (
        *([Column("Host", "name", repeats=False)] if of_hosts else []),
        Column("Limit", "name", repeats=False),
        Column("Where, size"),
        Column("Median"),
        Column("Best"),
        Column("Unit", "short"),
    )
    rows = tuple(
        _row(each, host if of_hosts else None)
        for host, of_host in (of_hosts or {"": limits}).items()
        for each in of_host.figures
    )
    legends = dict.fromkeys(map(legend, (of_hosts or {"": limits}).values()))
    return Table("Limits of the machine", columns, rows, tuple(legends))


def _row(each: LimitFigure, host: str | None = None) -> Row:
    unit, factor = _unit(each)
    digits = decimals([each.value / factor])
    low, high = (None if end is None else end / factor for end in (each.low, each.high))
    cells = (
        *([] if host is None else [Cell(host)]),
        Cell(each.limit),
        Cell(PLACES[each.place] if each.bytes is None else size_in_words(each.bytes)),
        Cell(number(each.value / factor, digits), span(low, high, digits)),
        Cell(ABSENT if each.best is None else number(each.best / factor, digits)),
        Cell(unit),
    )
    return Row(cells)


def _unit(each: LimitFigure) -> tuple[str, float]:
    """Chooses the unit in which a figure is easiest to read, and its factor."""
    if each.unit == "bytes_per_second":
        return "GB/s", 1e9
    return next((unit for unit in reversed(UNITS) if abs(each.value) >= unit[1]), UNITS[0])


def size_in_words(size: int) -> str:
    """Writes `64 KiB`, or bytes if the size is no whole number of a larger unit."""
    name, factor = next(unit for unit in reversed(SIZES) if size % unit[1] == 0)
    return f"{size // factor:,} {name}"


def answer(limits: MachineLimits) -> str:
    """Writes the range of the times, and of the rates, each end with the name of its limit."""
    times = [each for each in limits.figures if each.unit != RATE]
    rates = [each for each in limits.figures if each.unit == RATE]
    parts = []
    if times:
        least, most = (choose(times, key=lambda each: each.value) for choose in (min, max))
        ends = dict.fromkeys(f"{_figure(each)} ({_name(each, limits)})" for each in (least, most))
        one = "An operation of the kernel or the CPU takes" if len(ends) > 1 else "It takes"
        parts.append(f"{one} {' to '.join(ends)} on this machine")
    if rates:
        least, most = (choose(rates, key=lambda each: each.value) for choose in (min, max))
        ends = dict.fromkeys(f"{_figure(each)} ({_name(each, limits)})" for each in (least, most))
        parts.append(f"{'data' if times else 'Data'} is moved at {' to '.join(ends)}")
    return f"{'; '.join(parts)}." if parts else "No limit could be measured."


RATE = "bytes_per_second"


def _figure(each: LimitFigure) -> str:
    unit, factor = _unit(each)
    return f"{number(each.value / factor, decimals([each.value / factor]))} {unit}"


def _name(each: LimitFigure, limits: MachineLimits) -> str:
    """Names a limit, with its size or place if there are several."""
    alike = [other for other in limits.figures if other.limit == each.limit]
    if len(alike) == 1:
        return each.limit
    where = PLACES[each.place] if each.bytes is None else size_in_words(each.bytes)
    return f"{each.limit}, {where}"


def legend(limits: MachineLimits) -> str:
    """Explains how the limits were measured."""
    return " ".join(f"{capital(each)}." for each in about(limits))


def about(limits: MachineLimits) -> list[str]:
    """Lists how the limits were measured."""
    rounds = {each.rounds for each in limits.figures}
    confidences = [each.confidence for each in limits.figures if each.low is not None]
    most = count(max(rounds, default=0), "round")
    intervals = f"; intervals of the median: {percent(min(confidences))}" if confidences else ""
    near, *far = limits.cpus
    other = f", the other end of two CPUs on CPU {far[0]}" if far else ""
    derived = [each.limit for each in limits.figures if each.best is None]
    verb = "is the difference" if len(derived) == 1 else "are differences"
    none = f"; {' and '.join(derived)} {verb} of two limits, without a best round" if derived else ""
    return [
        f"medians of {most}, interleaved in random order{intervals}",
        f"best: the best of all rounds{none}",
        f"measured on CPU {near}{other}",
    ]


def point_in_words(place: str, size: int | None) -> str:
    """Writes where a limit was measured, and with which size."""
    return PLACES[place] if size is None else f"{size_in_words(size)}, {PLACES[place]}"
