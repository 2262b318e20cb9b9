"""How figures are written, the same in tables, charts, claims and the report.

A figure that is shown is a figure of `summary.json`, rounded and never altered otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import overload

from thunderherd.metrics.table import BOTH, CPU_PER_CONNECTION, SHARE, SIDES, counters_of, known_metric
from thunderherd.records.summary import ContenderSummary, Estimate, Spread, Summary

ABSENT = "-"
"""What stands where there is no figure; the reason stands beside the table."""

BETWEEN = " to "
"""What stands between the ends of an interval, where nothing shorter is needed."""

SMALL_SECONDS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"))
"""Below so many seconds, times are multiplied by the factor, and then are in the unit."""

RATE = "1/s"


@dataclass(frozen=True)
class Unit:
    """How a metric's values are shown: by what they are multiplied, and what they are then."""

    factor: float
    name: str
    """As it stands behind a figure: "ms", "/s", "s per 5,000 connections"; empty for a plain number."""

    @overload
    def of(self, value: float) -> float: ...
    @overload
    def of(self, value: None) -> None: ...
    def of(self, value: float | None) -> float | None:
        """A value in this unit."""
        return None if value is None else value * self.factor

    def interval(self, interval: Estimate | None) -> Estimate | None:
        """An interval in this unit."""
        if interval is None or self.factor == 1:
            return interval
        ends = {
            "value": self.of(interval.value),
            "low": self.of(interval.low),
            "high": self.of(interval.high),
        }
        return interval.model_copy(update=ends)

    def spread(self, spread: Spread | None) -> Spread | None:
        """A spread in this unit."""
        return spread and Spread(**{name: self.of(value) for name, value in spread.model_dump().items()})


def unit_of(name: str, connections: int, values: Iterable[float], counters: Mapping[str, str]) -> Unit:
    """The unit in which `values` of a metric are read most easily.

    `connections` are those of the study; `counters` those that it asks for, with their units.
    """
    if name == CPU_PER_CONNECTION:
        return Unit(connections, seconds_per(connections))
    found = known_metric(name, counters)
    plain = found.unit if found else ""
    if plain == RATE:
        return Unit(1, "/s")
    if plain == SHARE:
        return Unit(100, "%")
    if plain == "s":
        return unit_of_seconds(max((abs(value) for value in values), default=1.0))
    return Unit(1, plain)


def unit_of_seconds(largest: float) -> Unit:
    """The largest unit of time of which these seconds are one at least."""
    found = (Unit(factor, unit) for below, factor, unit in SMALL_SECONDS if 0 < largest < below)
    return next(found, Unit(1, "s"))


def seconds_in_words(seconds: float) -> str:
    """`2 ms`, `1.85 ms`: three digits in the largest unit of which there is one."""
    unit = unit_of_seconds(seconds)
    return f"{unit.of(seconds):.3g} {unit.name}"


def seconds_per(connections: int) -> str:
    """`s per 5,000 connections`: the unit of CPU time per connection, and of process control."""
    return f"s per {connections:,} connections"


def time_share(share: float) -> str:
    """`40 %`; of what is nearly nothing or nearly all, that it is."""
    if share < 0.01:
        return "less than 1 %"
    return "more than 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def extrapolated(shares: Iterable[float | None]) -> str:
    """What is said of figures whose events were counted for these shares of the time; None: all of it. Empty
    where all of them were counted all the time."""
    known = [share for share in shares if share is not None]
    if not known:
        return ""
    return (
        "extrapolated: the CPU has too few counters for all events at once, and counted these for "
        f"{time_share(min(known))} of the time{' or more' if len(known) > 1 else ''}"
    )


def not_offered(summary: Summary, name: str) -> str | None:
    """Why this machine does not tell a metric: one of the counters that it is made of cannot be had."""
    side = name.partition(".")[0]
    sides = SIDES if side == BOTH else (side,)
    reasons = (summary.unavailable.get(f"{each}.{part}") for part in counters_of(name) for each in sides)
    return next((why for why in reasons if why), None)


def words_of(name: str) -> str:
    """A metric as a heading."""
    found = known_metric(name)
    return found.words if found else name.replace("_", " ")


def heading_of(name: str) -> str:
    """A metric as the head of a narrow column."""
    found = known_metric(name)
    return found.short if found else words_of(name)


def estimator(summary: Summary) -> str:
    """How the figures of a run come about."""
    if summary.study.repetitions:
        return f"Means of {count(summary.study.repetitions, 'run')}, and their standard deviation (sd)"
    return "Figures: Hodges-Lehmann estimates over the blocks"


def main_of(summary: Summary) -> list[ContenderSummary]:
    """The contenders of the main table; a study of sweeps alone has none."""
    return [each for each in summary.contenders if each.sweep is None]


def shows_process_control(summary: Summary) -> bool:
    """Whether the main table is about CPU per connection, which a baseline can be taken from."""
    return summary.study.metric == CPU_PER_CONNECTION and summary.study.baseline is not None


def decimals(values: Iterable[float], significant: int = 3) -> int:
    """Decimals that give the smallest of `values` that many significant digits; 0 to 6 of them, zeros
    ignored.
    """
    smallest = min((abs(value) for value in values if value and math.isfinite(value)), default=1.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(smallest))))


def places(summary: Summary) -> int:
    """The decimals of CPU seconds: one number for the whole table, so that its columns can be compared."""
    return max(2, decimals(each.cpu_seconds.value for each in main_of(summary) if each.cpu_seconds))


def capital(text: str) -> str:
    """The text with a capital at its beginning, all else as it is."""
    return text[:1].upper() + text[1:]


SEPARATED_FROM = 10_000
"""From here on thousands are separated."""

MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


def superscript(index: int) -> str:
    """The mark of a note: `¹` for 1."""
    return str(index).translate(str.maketrans("123456789", MARKS) | {ord("0"): "⁰"})


def number(value: float | None, digits: int) -> str:
    """`0.262`, `45,300`; never `-0.000`; `-` for None."""
    if value is None:
        return ABSENT
    text = f"{value:,.{digits}f}" if abs(value) >= SEPARATED_FROM else f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def span(low: float | None, high: float | None, digits: int, between: str = BETWEEN) -> str:
    """`0.255 to 0.269`; an end that is not known is said to be open."""
    if low is None and high is None:
        return "no bounds"
    if low is None:
        return f"below {number(high, digits)}"
    if high is None:
        return f"above {number(low, digits)}"
    return f"{number(low, digits)}{between}{number(high, digits)}"


def interval_value(interval: Estimate | None, digits: int) -> str:
    """The estimate; `-` where nothing was measured."""
    return number(None if interval is None else interval.value, digits)


def interval_span(interval: Estimate | None, digits: int, between: str = BETWEEN) -> str:
    """The ends of an interval; `-` where nothing was measured."""
    return ABSENT if interval is None else span(interval.low, interval.high, digits, between)


def ratio_digits(*values: float | None) -> int:
    """Decimals of a ratio: three up to 10, fewer above, where the third says nothing."""
    largest = max((abs(value) for value in values if value is not None), default=1.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1


def percent(confidence: float) -> str:
    """`95 %`; `95.8 %` where a discrete test gives more than was asked for."""
    return f"{100 * confidence:.1f}".removesuffix(".0") + " %"


def share_in_percent(share: float | None) -> str:
    """`2.0 %`; of one that is not known `-`."""
    return ABSENT if share is None else f"{number(100 * share, 1)} %"


def count(quantity: int, singular: str, plural: str | None = None) -> str:
    """`1 trial`, `2,500 trials`."""
    return f"{quantity:,} {singular if quantity == 1 else plural or singular + 's'}"


def printable(text: str) -> str:
    """The text without what a terminal would obey: control characters become `\\ufffd`, line ends stay."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)
