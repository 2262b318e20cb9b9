"""Figures as texts, the same in tables, charts, claims and the report.

Each is a figure of `summary.json`, rounded and not changed in any other way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from thunderherd.metrics.table import BOTH, CPU_PER_CONNECTION, SHARE, SIDES, counters_of, known_metric
from thunderherd.records.summary import ContenderSummary, Estimate, Spread, Summary

ABSENT = "-"
"""The sign of an unavailable figure; the reason is a note of the table."""

BETWEEN = " to "
"""The word between the ends of an interval."""

SMALL_SECONDS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"))
"""The largest time of each unit in seconds, the factor from seconds, and the unit."""

RATE = "1/s"
LARGE_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
"""The units of large sizes, the largest first."""


@dataclass(frozen=True)
class Unit:
    """The unit that a metric is shown in, and the factor that values are multiplied by."""

    factor: float
    name: str
    """`ms`, `/s`, `s per 5,000 connections`; empty for a plain number."""

    @overload
    def of(self, value: float) -> float: ...
    @overload
    def of(self, value: None) -> None: ...
    def of(self, value: float | None) -> float | None:
        """Converts a value to this unit."""
        return None if value is None else value * self.factor

    def interval(self, interval: Estimate | None) -> Estimate | None:
        """Converts an interval to this unit."""
        if interval is None or self.factor == 1:
            return interval
        ends = {
            "value": self.of(interval.value),
            "low": self.of(interval.low),
            "high": self.of(interval.high),
        }
        return interval.model_copy(update=ends)

    def spread(self, spread: Spread | None) -> Spread | None:
        """Converts a spread to this unit."""
        return spread and Spread(**{name: self.of(value) for name, value in spread.model_dump().items()})


def unit_of(name: str, connections: int, values: Iterable[float], counters: Mapping[str, str]) -> Unit:
    """Chooses the unit in which `values` of a metric are easiest to read.

    `connections` and `counters`, with their units, are the study's.
    """
    if name == CPU_PER_CONNECTION:
        return Unit(connections, seconds_per(connections))
    found = known_metric(name, counters)
    plain = found.unit if found else ""
    if not plain and counters.get(name.partition(".")[2]) == "bytes":
        plain = "bytes"
    if plain == RATE:
        return Unit(1, "/s")
    if plain == SHARE:
        return Unit(100, "%")
    if plain == "s":
        return unit_of_seconds(max((abs(value) for value in values), default=1.0))
    if plain == "bytes":
        return unit_of_bytes(max((abs(value) for value in values), default=1.0))
    return Unit(1, plain)


def unit_of_bytes(largest: float) -> Unit:
    """Chooses bytes, or the largest unit of which there are at least ten."""
    found = ((size, unit) for unit, size in LARGE_SIZES if largest >= 10 * size)
    return next((Unit(1 / size, unit) for size, unit in found), Unit(1, "bytes"))


def unit_of_seconds(largest: float) -> Unit:
    """Chooses the largest unit of time that is at most so many seconds."""
    found = (Unit(factor, unit) for below, factor, unit in SMALL_SECONDS if 0 < largest < below)
    return next(found, Unit(1, "s"))


def seconds_in_words(seconds: float) -> str:
    """Writes `2 ms`, `1.85 ms`: three digits in the largest unit that fits."""
    unit = unit_of_seconds(seconds)
    return f"{unit.of(seconds):.3g} {unit.name}"


def duration(seconds: float) -> str:
    """Write a duration: `14 s`, `3 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def seconds_per(connections: int) -> str:
    """Writes `s per 5,000 connections`: the unit of CPU time per connection, and of process control."""
    return f"s per {connections:,} connections"


def time_share(share: float) -> str:
    """Writes `40 %`, `less than 1 %` or `more than 99 %`."""
    if share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def extrapolated(shares: Iterable[float | None]) -> str:
    """Says that figures are extrapolated from events counted for these shares of the time.

    A share of None means all the time; if all are None the text is empty.
    """
    known = [share for share in shares if share is not None]
    if not known:
        return ""
    return (
        "extrapolated: the CPU has too few counters for all events at once, and counted these for "
        f"{time_share(min(known))} of the time{' or more' if len(known) > 1 else ''}"
    )


def not_offered(summary: Summary, name: str) -> str | None:
    """Says why a metric is unavailable on this machine: one of its counters is."""
    side = name.partition(".")[0]
    sides = SIDES if side == BOTH else (side,)
    reasons = (summary.unavailable.get(f"{each}.{part}") for part in counters_of(name) for each in sides)
    return next((why for why in reasons if why), None)


def words_of(name: str) -> str:
    """Names a metric in words."""
    found = known_metric(name)
    return found.words if found else name.replace("_", " ")


def heading_of(name: str) -> str:
    """Names a metric as the head of a narrow column."""
    found = known_metric(name)
    return found.short if found else words_of(name)


def estimator(summary: Summary) -> str:
    """Says how the figures of a run are estimated."""
    if summary.study.repetitions:
        return f"Means of {count(summary.study.repetitions, 'run')}, and their standard deviation (sd)"
    return "Figures: Hodges-Lehmann estimates over the blocks"


def head_of_names(contenders: Iterable[ContenderSummary]) -> str:
    """Returns the head of a column of contenders: "Design" if each is named after its design."""
    are_designs = all(each.design and each.base.startswith(each.design) for each in contenders)
    return "Design" if are_designs else "Contender"


def main_of(summary: Summary) -> list[ContenderSummary]:
    """Lists the contenders of the main table; a study of sweeps alone has none."""
    return [each for each in summary.contenders if each.sweep is None]


def shows_process_control(summary: Summary) -> bool:
    """True if the main table shows CPU time per connection minus a baseline."""
    return summary.study.metric == CPU_PER_CONNECTION and summary.study.baseline is not None


def decimals(values: Iterable[float], significant: int = 3) -> int:
    """Counts the decimals, 0 to 6, that give the smallest of `values` so many significant digits.

    Zeros are ignored.
    """
    smallest = min((abs(value) for value in values if value and math.isfinite(value)), default=1.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(smallest))))


def places(summary: Summary) -> int:
    """Counts the decimals of CPU seconds, the same in the whole table, so that columns can be compared."""
    return max(2, decimals(each.cpu_seconds.value for each in main_of(summary) if each.cpu_seconds))


def capital(text: str) -> str:
    """Capitalises the first letter and leaves the rest."""
    return text[:1].upper() + text[1:]


SEPARATED_FROM = 10_000
"""The least number whose thousands are separated."""

MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


def superscript(index: int) -> str:
    """Writes the mark of a note: `¹` for 1."""
    return str(index).translate(str.maketrans("123456789", MARKS) | {ord("0"): "⁰"})


def number(value: float | None, digits: int) -> str:
    """Writes `0.262`, `45,300`, never `-0.000`, and `-` for None."""
    if value is None:
        return ABSENT
    text = f"{value:,.{digits}f}" if abs(value) >= SEPARATED_FROM else f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def span(low: float | None, high: float | None, digits: int, between: str = BETWEEN) -> str:
    """Writes `0.255 to 0.269`, or `above 0.255` if the other end is open."""
    if low is None and high is None:
        return "no bounds"
    if low is None:
        return f"below {number(high, digits)}"
    if high is None:
        return f"above {number(low, digits)}"
    return f"{number(low, digits)}{between}{number(high, digits)}"


def interval_value(interval: Estimate | None, digits: int) -> str:
    """Writes the estimate, or `-` without one."""
    return number(None if interval is None else interval.value, digits)


def interval_span(interval: Estimate | None, digits: int, between: str = BETWEEN) -> str:
    """Writes the ends of an interval, or `-` without an estimate."""
    return ABSENT if interval is None else span(interval.low, interval.high, digits, between)


def ratio_digits(*values: float | None) -> int:
    """Counts the decimals of a ratio: three below 10, fewer above."""
    largest = max((abs(value) for value in values if value is not None), default=1.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1


def percent(confidence: float) -> str:
    """Writes `95 %`, or `95.8 %` if a discrete test gives more than requested."""
    return f"{100 * confidence:.1f}".removesuffix(".0") + " %"


def share_in_percent(share: float | None) -> str:
    """Writes `2.0 %`, or `-` for an unknown share."""
    return ABSENT if share is None else f"{number(100 * share, 1)} %"


def count(quantity: int, singular: str, plural: str | None = None) -> str:
    """Writes `1 trial`, `2,500 trials`."""
    return f"{quantity:,} {singular if quantity == 1 else plural or singular + 's'}"


def listed(names: Sequence[str]) -> str:
    """Writes `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
