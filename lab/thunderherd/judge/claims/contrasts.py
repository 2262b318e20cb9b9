"""What the blocks of a run say about contrasts and ratios: estimates, intervals and tests.

A contrast rests on the blocks in which all of its contenders have a figure (`columns`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thunderherd.judge.claims.contrast_tables import Contrast, Figure, straight_line
from thunderherd.metrics.table import METRICS
from thunderherd.records.summary import Estimate
from thunderherd.statistics.columns import Values, known, together
from thunderherd.statistics.comparisons import ContrastEstimate, contrast
from thunderherd.statistics.samples import LocationEstimate, hodges_lehmann, signed_rank
from thunderherd.study.loading import Study
from thunderherd.text.figures import decimals, number, percent, span, unit_of

MOST_OF_NOTHING = 3
"""Decimals of a figure that is zero in all that its interval lets show."""

LOGARITHM = "logarithm"
"""What a contrast is of that is about ratios: it is tested against zero, and shown against one."""

CONSTANT = ""
"""In the columns of a contrast, the name of its constant: no contender is called so."""


@dataclass(frozen=True)
class ContrastResult:
    """A contrast or figure with what the run says about it, in the unit in which it is shown."""

    label: str
    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    blocks: int
    p_greater: float | None
    p_less: float | None
    weights: Mapping[str, float]
    over: Mapping[str, float] | None = None
    points: Mapping[str, float] | None = None
    constant: float = 0.0
    less: str | None = None
    of: str = "value"

    def text(self) -> str:
        """`row 1, process-control CPU: 1.42 s (1.26 to 1.84)`; `units` says per what, and how sure."""
        return f"{self.label}: {self.figure()}"

    def figure(self, *, per: bool = False) -> str:
        """`1.42 s (1.26 to 1.84)`; with `per` the whole unit: `1.42 s per 5,000 connections (...)`."""
        digits = self.digits()
        unit = self.unit if per else self.unit.partition(" per ")[0]
        if self.value is None:
            found = "no ratio, what it is divided by is not above zero"
        else:
            found = f"{number(self.value, digits)}{'' if unit.startswith('/') else ' '}{unit}".rstrip()
        if self.low is None and self.high is None:
            return f"{found} (no interval)"
        return f"{found} ({span(self.low, self.high, digits)})"

    def digits(self) -> int:
        """Two significant digits of half the interval's width; without an interval, three of the value."""
        if self.low is not None and self.high is not None and self.high > self.low:
            digits = min(6, decimals([(self.high - self.low) / 2], significant=2))
            # Of nothing at all, more decimals say no more.
            return digits if round(self.value or 0.0, digits) else min(digits, MOST_OF_NOTHING)
        known = METRICS.get(self.metric)
        if (
            self.over is None
            and self.points is None
            and known
            and known.whole
            and float(self.value or 0).is_integer()
        ):
            return 0
        return decimals([self.value or self.low or 1.0])

    def as_dict(self, kind: Literal["test", "figure"]) -> dict[str, Any]:
        """For `summary.json`."""
        return {
            "kind": kind,
            "label": self.label,
            "metric": self.metric,
            "unit": self.unit,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "blocks": self.blocks,
            "p_greater": self.p_greater,
            "p_less": self.p_less,
            "weights": dict(self.weights),
            "over": dict(self.over) if self.over is not None else None,
            "points": dict(self.points) if self.points is not None else None,
            "constant": self.constant,
            "less": self.less,
            "of": self.of,
        }

    def interval(self) -> Estimate | None:
        """Without its tests; None where there is no estimate."""
        if self.value is None:
            return None
        return Estimate(
            value=self.value, low=self.low, high=self.high, confidence=self.confidence, blocks=self.blocks
        )


def lacks(needed: Contrast, values: Values, unavailable: Mapping[str, str]) -> list[str]:
    """In words, what the run does not have of what a contrast needs."""
    anything = {name for others in values.values() for name in others}
    found: list[str] = []
    for metric in needed.metrics():
        absent = sorted(needed.contenders() - set(values.get(metric, {})))
        if absent and (reason := unavailable.get(metric)):
            found.append(f"{metric} is not available: {reason}")
        else:
            found += [
                f"{name} has no {metric} in each of its trials"
                if name in anything
                else f"the run has no valid trials of {name}"
                for name in absent
            ]
        if needed.of == LOGARITHM and not absent:
            low = [name for name in sorted(needed.contenders()) if min(known(values[metric][name])) <= 0]
            found += [f"{name} has a {metric} that is not above zero, so no ratio" for name in low]
    if not found and not all(_shared(needed, values).values()):
        names, what = ", ".join(sorted(needed.contenders())), " and ".join(needed.metrics())
        found.append(f"no block has {what} of all of {names}: in each a server was read late")
    return list(dict.fromkeys(found))


def measure(what: Contrast, study: Study, values: Values) -> ContrastResult:
    """What the blocks say about a contrast or figure; its contenders must all have its metric (`lacks`)."""
    columns = {} if isinstance(what, Figure) and what.points else _columns(what, values)
    confidence = 1 - study.measure.alpha
    common: dict[str, Any] = {
        "label": what.label,
        "metric": what.metric,
        "weights": what.weights,
        "constant": what.constant,
        "less": what.less,
        "of": what.of,
    }
    if isinstance(what, Figure) and what.points:
        straight = hodges_lehmann(r_squared(what.points, what.metric, values).tolist(), confidence)
        return ContrastResult(
            **common,
            **_estimated(straight, straight.n),
            unit="",
            p_greater=None,
            p_less=None,
            points=what.points,
        )
    over = what.over if isinstance(what, Figure) else None
    if over is not None:
        found = ratio(by_block(what, values), _sums(columns, over), confidence)
        return ContrastResult(
            **common,
            **_estimated(found, found.blocks),
            unit="times",
            p_greater=None,
            p_less=None,
            over=over,
        )
    blocks = len(next(iter(columns.values())))
    tested = contrast(
        {**columns, CONSTANT: [1.0] * blocks},
        {**what.weights, **({CONSTANT: what.constant} if what.constant else {})},
        confidence,
    )
    known = [end for end in (tested.value, tested.low, tested.high) if end is not None]
    unit = unit_of(what.metric, study.measure.normalise_connections, known, study.measure.counters)

    def shown(end: float | None) -> float | None:
        if what.of != LOGARITHM:
            return unit.of(end)
        return None if end is None else math.exp(end)

    return ContrastResult(
        **common,
        **_estimated(tested, tested.blocks, shown),
        unit="times" if what.of == LOGARITHM else unit.name,
        p_greater=tested.p_greater,
        p_less=tested.p_less,
    )


def _estimated(
    found: LocationEstimate | Ratio | ContrastEstimate,
    blocks: int,
    shown: Callable[[float | None], float | None] = lambda end: end,
) -> dict[str, Any]:
    """An estimate and its interval as a figure has them, each in the unit in which it is shown."""
    return {
        "value": shown(found.value),
        "low": shown(found.low),
        "high": shown(found.high),
        "confidence": found.confidence,
        "blocks": blocks,
    }


def r_squared(points: Mapping[str, float], metric: str, values: Values) -> NDArray[np.float64]:
    """Of a metric of contenders at points (their numbers), in each block: how much of its variation over the
    points the straight line of least squares explains, 1 being all of it. Where nothing varies there is
    nothing to explain, and it is 1."""
    line = straight_line(points)
    at = np.array(list(points.values()), dtype=np.float64)
    shared = together({name: values[metric][name] for name in points})
    rows = np.array([shared[name] for name in points], dtype=np.float64)
    slope, start = (np.array([part[name] for name in points]) @ rows for part in (line.slope, line.start))
    left = np.sum((rows - start - np.outer(at, slope)) ** 2, axis=0)
    total = np.sum((rows - rows.mean(axis=0)) ** 2, axis=0)
    unexplained: NDArray[np.float64] = np.divide(left, total, out=np.zeros_like(left), where=total > 0)
    return 1 - unexplained


def units(shown: Sequence[ContrastResult]) -> list[str]:
    """One line, below the figures, that says what holds for them all; none where there are no figures."""
    per = {each.unit for each in shown if " per " in each.unit}
    bounded = {each.confidence for each in shown if each.low is not None or each.high is not None}
    parts = [*sorted(per), *([f"in brackets {percent(min(bounded))} intervals"] if bounded else [])]
    return [f"({'; '.join(parts)})"] if parts else []


def by_block(what: Contrast, values: Values) -> NDArray[np.float64]:
    """A contrast (of a ratio, what stands above the line) in each block that has it, in its metric's own
    unit."""
    return _sums(_columns(what, values), what.weights) + what.constant


def _columns(what: Contrast, values: Values) -> dict[str, list[float]]:
    """What each of its contenders had in each block in which all of them have all that it needs."""
    shared = _shared(what, values)
    return {name: _own(_column(what, name, shared), what.of) for name in what.contenders()}


def _shared(what: Contrast, values: Values) -> dict[tuple[str, str], list[float]]:
    """By contender and metric, what it needs; no block in it lacks any of that."""
    needed = [(name, metric) for name in what.contenders() for metric in what.metrics()]
    return together({(name, metric): values[metric][name] for name, metric in needed})


def _column(what: Contrast, name: str, shared: Mapping[tuple[str, str], list[float]]) -> list[float]:
    """A contender's metric in each block, less the other where there is one."""
    column = shared[name, what.metric]
    if what.less is None:
        return column
    return [value - other for value, other in zip(column, shared[name, what.less], strict=True)]


def _own(column: Sequence[float], of: str) -> list[float]:
    """A contender's values; or their logarithms, which compares ratios; or each one's distance from their
    median, which compares spreads (Brown and Forsythe 1974).
    """
    if of == "value":
        return list(column)
    if of == LOGARITHM:
        return [math.log(value) for value in column]
    median = float(np.median(column))
    return [abs(value - median) for value in column]


def _sums(columns: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """The weighted sum of each block."""
    sums: NDArray[np.float64] = np.sum(
        [weight * np.asarray(columns[name], dtype=np.float64) for name, weight in weights.items()], axis=0
    )
    return sums


# Ratios ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """A ratio above zero with its interval. None as `high`: no bound; as `value` too: no ratio can be
    told.
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    blocks: int


def ratio(above: NDArray[np.float64], below: NDArray[np.float64], confidence: float = 0.95) -> Ratio:
    """How many times `below` goes into `above`, paired by block; for amounts that may come near zero.

    The interval holds every r > 0 for which the signed-rank test does not reject "above - r x below is
    symmetric about zero": Fieller's idea with ranks, so it agrees with the test of the same contrast and
    needs no block's own ratio, which explodes where its denominator is small. Where `below` is not
    clearly above zero it has no upper end. The estimate is the r at which the two tails are equal: the
    median of (a_i + a_j) / (b_i + b_j).
    """
    first, second = np.triu_indices(above.size)
    upper, lower = above[first] + above[second], below[first] + below[second]
    # A pair whose denominator is not above zero says "larger than any ratio" if its numerator is.
    ratios = np.where(lower > 0, upper / np.where(lower > 0, lower, 1), np.where(upper > 0, math.inf, 0.0))
    value = float(np.median(ratios))
    turns = upper[lower != 0] / lower[lower != 0]  # where the sign of a pair changes, and with it a rank
    ends = np.unique(np.concatenate([[0.0], turns[turns > 0]]))
    inside = [
        (ends[k], ends[k + 1] if k + 1 < ends.size else math.inf)
        for k in range(ends.size)
        if _compatible(above, below, _between(ends, k), 1 - confidence)
    ]
    if not inside:
        return Ratio(value if math.isfinite(value) else None, None, None, confidence, above.size)
    low, high = float(inside[0][0]), float(inside[-1][1])
    return Ratio(
        value if math.isfinite(value) and value > 0 else None,
        low if low > 0 else None,
        high if math.isfinite(high) else None,
        confidence,
        above.size,
    )


def _between(ends: NDArray[np.float64], k: int) -> float:
    """A ratio inside the k-th gap, where no signed rank changes."""
    if k + 1 < ends.size:
        return float((ends[k] + ends[k + 1]) / 2)
    return float(ends[k] * 2 + 1)


def _compatible(
    above: NDArray[np.float64], below: NDArray[np.float64], candidate: float, alpha: float
) -> bool:
    return signed_rank(above - candidate * below).p_two_sided > alpha
