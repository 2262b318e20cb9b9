"""The axis of a sweep whose points are numbers: linear or logarithmic, with room at its ends.

Contenders stand side by side at a point, some pixels apart, so that their intervals do not hide each other;
the axis has its ticks at the points themselves.
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
"""Room beyond the first and last point, of the whole width."""

FIGURES = ",.12~g"
"""How numbers stand beside all axes: as they are, in groups of three digits (d3-format). A trillion and more,
and less than a millionth, have an exponent."""


def decade_ticks(lowest: float, highest: float) -> list[float]:
    """The marks of a logarithmic axis between these: 1, 2, 5 of each decade; of very many decades 1 alone."""
    steps = (1, 2, 5) if highest < 1000 * lowest else (1,)
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return [tick for tick in ticks if lowest <= tick <= highest]


class NumberAxis:
    """Places on the axis of these numbers.

    Parameters
    ----------
    numbers
        Those of the points, one at least.
    kind
        As the sweep has it. A logarithm has no zero: where a number is not above it, the axis is linear
        below the smallest one that is (symlog).
    width
        In pixels.
    contenders
        How many stand at each point.
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

    def beside(self, number: float, place: int) -> float:
        """Where the contender of that place, from 0, stands at a point."""
        shift = (place - (self.contenders - 1) / 2) * self.step
        return self._round(self._flat(number) + shift) if shift else number

    def encoding(self, field: str, title: str, labels: Mapping[float, str] | None = None) -> Chart:
        """A field of shifted numbers on this axis; `labels` stand beside numbers in place of their
        figures."""
        # What JavaScript makes of a number that is a key.
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
        """A number as a distance along the axis."""
        if self.type == "linear":
            return number
        if self.type == "log":
            return math.log(number)
        return math.copysign(math.log1p(abs(number) / self.smallest), number)

    def _round(self, distance: float) -> float:
        """The number at a distance along the axis."""
        if self.type == "linear":
            return distance
        if self.type == "log":
            return math.exp(distance)
        return math.copysign(math.expm1(abs(distance)) * self.smallest, distance)
