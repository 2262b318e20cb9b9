"""How figures are written, the same in tables, charts, claims and the report.

A figure that is shown is a figure of `summary.json`, rounded and never altered otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from thunderherd.records import Interval, Summary

ABSENT = "-"
"""What stands where there is no figure; the reason stands beside the table."""


def decimals(values: Iterable[float], significant: int = 3) -> int:
    """Decimals that give the smallest of `values` that many significant digits; 0 to 6 of them, zeros
    ignored.
    """
    smallest = min((abs(value) for value in values if value and math.isfinite(value)), default=1.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(smallest))))


def places(summary: Summary) -> int:
    """The decimals of CPU seconds: one number for the whole table, so that its columns can be compared."""
    return max(2, decimals(each.cpu_seconds.value for each in summary.contenders if each.cpu_seconds))


MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


@dataclass(frozen=True)
class Notes:
    """What to know about figures of the paper: `texts` by mark, and the mark of each contender that has
    one.
    """

    texts: dict[str, str]
    marks: dict[str, str]


def notes_by_mark(summary: Summary) -> Notes:
    """The notes on the paper's figures, numbered in the order of the table; equal notes share a mark."""
    texts: dict[str, str] = {}
    marks: dict[str, str] = {}
    known: dict[str, str] = {}
    for each in summary.contenders:
        if each.paper_note:
            mark = known.get(each.paper_note) or _superscript(len(known) + 1)
            known[each.paper_note] = marks[each.name] = mark
            texts[mark] = each.paper_note
    return Notes(texts, marks)


def _superscript(index: int) -> str:
    return str(index).translate(str.maketrans("123456789", MARKS) | {ord("0"): "⁰"})


def number(value: float | None, digits: int) -> str:
    """`0.262`; never `-0.000`; `-` for None."""
    if value is None:
        return ABSENT
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def span(low: float | None, high: float | None, digits: int, between: str = " to ") -> str:
    """`0.255 to 0.269`; an end that is not known is said to be open."""
    if low is None and high is None:
        return "no bounds"
    if low is None:
        return f"below {number(high, digits)}"
    if high is None:
        return f"above {number(low, digits)}"
    return f"{number(low, digits)}{between}{number(high, digits)}"


def interval_value(interval: Interval | None, digits: int) -> str:
    """The estimate; `-` where nothing was measured."""
    return number(None if interval is None else interval.value, digits)


def interval_span(interval: Interval | None, digits: int, between: str = " to ") -> str:
    """The ends of an interval; `-` where nothing was measured."""
    return ABSENT if interval is None else span(interval.low, interval.high, digits, between)


def ratio_digits(*values: float | None) -> int:
    """Decimals of a ratio: three up to 10, fewer above, where the third says nothing."""
    largest = max((abs(value) for value in values if value is not None), default=1.0)
    return 3 if largest < 10 else 2 if largest < 100 else 1


def percent(confidence: float) -> str:
    """`95 %`; `95.8 %` where a discrete test gives more than was asked for."""
    return f"{100 * confidence:.1f}".removesuffix(".0") + " %"


def count(quantity: int, singular: str, plural: str | None = None) -> str:
    """`1 trial`, `2,500 trials`."""
    return f"{quantity:,} {singular if quantity == 1 else plural or singular + 's'}"


def printable(text: str) -> str:
    """The text without what a terminal would obey: control characters become `\\ufffd`, line ends stay."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)
