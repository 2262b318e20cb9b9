"""The axis of a sweep whose points are numbers: linear or logarithmic, with room at its ends.

Contenders are side by side at a point, some pixels apart, so that their intervals do not hide each other. The
ticks of the axis are at the points themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from thunderherd.records.summary import Axis
from thunderherd.show.charts.vega_lite import Chart
from thunderherd.show.charts.vega_lite import field as field_of

APART = 5.0
"""Pixels between contenders at the same point."""

AT_THE_ENDS = 0.03
"""The room beyond the first and last point, as a share of the width."""

FIGURES = ",.12~g"
"""The format of numbers on all axes (d3-format): all digits, in groups of three.

A trillion and more, and less than a millionth, have an exponent.
"""


def decade_ticks(lowest: float, highest: float) -> list[float]:
    """Lists the ticks of a logarithmic axis: 1, 2, 5 of each decade; with three decades or more only 1."""
    steps = (1, 2, 5) if highest < 1000 * lowest else (1,)
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if lowest <= tick <= highest]


class NumberAxis:
    """An axis with these numbers as ticks.

    Parameters
    ----------
    numbers
        The numbers of the points, at least one.
    kind
        The scale that the sweep requests. A logarithm has no zero: if a number is not above zero, the axis
        is linear below the smallest positive one (symlog).
    width
        The width in pixels.
    contenders
        The number of contenders at each point.
    """

    def __init__(self, numbers: Sequence[float], kind: Axis, width: int, contenders: int) -> None:
        self.numbers = sorted(set(numbers))
        self.contenders = contenders
        above = [number for number in self.numbers if number > 0]
        self.smallest = min(above, default=1.0)
        is_logarithmic = kind == "logarithmic"
        self.type = "linear" if not is_logarithmic else "log" if above == self.numbers else "symlog"
        first, last = self._flat(self.numbers[0]), self._flat(self.numbers[-1])
        length = last - first or 1.0
        self.step = APART / width * length
        around = AT_THE_ENDS * length + self.step * (contenders - 1) / 2
        self.ends = self._round(first - around), self._round(last + around)

    def shifted(self, number: float, place: int) -> float:
        """Shifts a point to the place of a contender, counted from 0."""
        shift = (place - (self.contenders - 1) / 2) * self.step
        return self._round(self._flat(number) + shift) if shift else number

    def encoding(self, field: str, title: str, labels: Mapping[float, str] | None = None) -> Chart:
        """Encodes a field of shifted numbers; `labels` replace the figures of some ticks."""
        # JavaScript's texts of numbers that are keys.
        texts = {
            str(int(each)) if float(each).is_integer() else repr(each): label
            for each, label in (labels or {}).items()
        }
        expression = f"({json.dumps(texts)})[datum.value] || format(datum.value, '{FIGURES}')"
        axis = dict(
            values=self.numbers,
            grid=False,
            labelOverlap="greedy",
            labelFlush=False,
            format=FIGURES,
            **({"labelExpr": expression} if texts else {}),
        )
        ends = list(self.ends)
        scale = {
            "linear": {"domain": ends, "nice": False, "zero": False},
            "log": {"type": "log", "domain": ends, "nice": False},
            "symlog": {"type": "symlog", "constant": self.smallest, "domain": ends, "nice": False},
        }[self.type]
        return field_of(f"{field}:Q", title=title, axis=axis, scale=scale)

    def _flat(self, number: float) -> float:
        """Converts a number to a distance along the axis."""
        if self.type == "linear":
            return number
        if self.type == "log":
            return math.log(number)
        return math.copysign(math.log1p(abs(number) / self.smallest), number)

    def _round(self, distance: float) -> float:
        """Converts a distance along the axis to a number."""
        if self.type == "linear":
            return distance
        if self.type == "log":
            return math.exp(distance)
        return math.copysign(math.expm1(abs(distance)) * self.smallest, distance)
