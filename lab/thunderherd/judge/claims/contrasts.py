"""Contrasts and ratios over the blocks of a run: estimates, intervals and tests.

A contrast uses the blocks in which all of its contenders have a figure (`columns`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thunderherd.claims.contrast_tables import CONSTANT, Contrast, Figure, straight_line
from thunderherd.metrics.table import METRICS
from thunderherd.records.summary import Estimate
from thunderherd.statistics.columns import Values, known, together
from thunderherd.statistics.comparisons import ContrastEstimate, contrast
from thunderherd.statistics.samples import LocationEstimate, hodges_lehmann, robust_spread, signed_rank
from thunderherd.study.loading import Study
from thunderherd.text.figures import decimals, listed, number, percent, span, unit_of

MOST_OF_NOTHING = 3
"""The most decimals of a figure that its interval rounds to zero."""
FEW = 3
"""The most contenders that a reason names."""

LOGARITHM = "logarithm"
"""The kind of contrast that compares ratios: tested against zero, shown against one."""


@dataclass(frozen=True)
class ContrastResult:
    """A contrast or figure with its estimate and tests, in the unit in which it is shown."""

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
    margin: float | None = None
    """The largest difference that does not matter; of a ratio, as a factor. None: every one matters."""
    p_inside: float | None = None
    """The larger p of two one-sided tests: the difference reaches the margin, above or below."""
    effect: float | None = None
    """Mean over standard deviation of the blocks; None if they do not vary, or of a figure."""
    room: float | None = None
    """Distance of the mean from the nearer end of the margin, likewise; negative outside it."""
    spread: float | None = None
    """The standard deviation of the blocks, robust; of a ratio, that of its logarithm."""

    def text(self) -> str:
        """Return `row 1, process-control CPU: 1.42 s (1.26 to 1.84)`; `units` adds the rest of the unit."""
        return f"{self.label}: {self.figure()}"

    def figure(self, *, per: bool = False) -> str:
        """Return `1.42 s (1.26 to 1.84)`; with `per` the whole unit: `1.42 s per 5,000 connections (...)`."""
        digits = self.digits()
        unit = self.unit if per else self.unit.partition(" per ")[0]
        if self.value is None:
            found = "no ratio, as the denominator is not above zero"
        else:
            found = f"{number(self.value, digits)}{'' if unit.startswith('/') else ' '}{unit}".rstrip()
        if self.low is None and self.high is None:
            return f"{found} (no interval)"
        return f"{found} ({span(self.low, self.high, digits)})"

    def within(self) -> str:
        """Return the text with the margin: `row 3 costs more than row 2: 0.01 s (...), inside ± 0.1 s`."""
        if self.of == LOGARITHM:
            return f"{self.text()}, inside a factor of {number(self.margin or 1.0, 3)}"
        unit = self.unit.partition(" per ")[0]
        return f"{self.text()}, inside ± {number(self.margin or 0.0, self.digits())} {unit}".rstrip()

    def digits(self) -> int:
        """Return decimals for two significant digits of half the interval's width.

        Without an interval they give three digits of the value.
        """
        if self.low is not None and self.high is not None and self.high > self.low:
            digits = min(6, decimals([(self.high - self.low) / 2], significant=2))
            # More decimals of zero say nothing.
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
        """Return its record for `summary.json`."""
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
            "margin": self.margin,
            "p_inside": self.p_inside,
            "spread": self.spread,
        }

    def interval(self) -> Estimate | None:
        """Return the estimate without its tests; None if there is none."""
        if self.value is None:
            return None
        return Estimate(
            value=self.value, low=self.low, high=self.high, confidence=self.confidence, blocks=self.blocks
        )


def lacks(needed: Contrast, values: Values, unavailable: Mapping[str, str]) -> list[str]:
    """Return, in words, what the run lacks of what a contrast needs."""
    return all_lack([needed], values, unavailable)


def all_lack(needed: Iterable[Contrast], values: Values, unavailable: Mapping[str, str]) -> list[str]:
    """Return, in words, what the run lacks of what contrasts need, each sentence with all its contenders."""
    names: dict[str, dict[str, None]] = {}
    for each in needed:
        for sentence, contenders in _lacking(each, values, unavailable).items():
            names.setdefault(sentence, {}).update(dict.fromkeys(contenders))
    return [sentence.replace("{}", _few([*contenders])) for sentence, contenders in names.items()]


def is_out_of_reach(needed: Contrast, values: Values, unavailable: Mapping[str, str]) -> bool:
    """Return whether this machine does not offer a metric of a contrast, or the run gave up a contender."""
    measured = {name for others in values.values() for name in others}
    return bool(_withheld(needed, values, unavailable) or needed.contenders() - measured)


def _withheld(needed: Contrast, values: Values, unavailable: Mapping[str, str]) -> list[str]:
    """Return the metrics of a contrast that this machine does not offer."""
    return [
        metric
        for metric in needed.metrics()
        if metric in unavailable and needed.contenders() - set(values.get(metric, {}))
    ]


def _lacking(needed: Contrast, values: Values, unavailable: Mapping[str, str]) -> dict[str, list[str]]:
    """Return sentences about what is lacking, each with the contenders for its `{}`."""
    anything = {name for others in values.values() for name in others}
    refused = _withheld(needed, values, unavailable)
    found: dict[str, list[str]] = {
        f"{metric} is unavailable: {unavailable[metric]}": [] for metric in refused
    }
    for metric in needed.metrics():
        absent = sorted(needed.contenders() - set(values.get(metric, {})))
        for name in absent if metric not in refused else ():
            in_part = f"not every trial of {{}} has {metric}"
            found.setdefault(in_part if name in anything else "the run has no valid trials of {}", []).append(
                name
            )
        if needed.of == LOGARITHM and not needed.contenders() - set(values.get(metric, {})):
            low = [name for name in sorted(needed.contenders()) if min(known(values[metric][name])) <= 0]
            if low:
                found[f"no ratio, as {metric} of {{}} is not always above zero"] = low
    if not found and not all(_shared(needed, values).values()):
        what = " and ".join(needed.metrics())
        found[f"no block has {what} of {{}}: in each, a server was read late"] = sorted(needed.contenders())
    return found


def _few(names: Sequence[str]) -> str:
    """Return contenders in words; a sweep has dozens, which nobody would read."""
    if len(names) <= FEW:
        return listed(names)
    return f"{names[0]} and {len(names) - 1} other contenders"


def measure(what: Contrast, study: Study, values: Values) -> ContrastResult:
    """Return the result of a contrast or figure; its contenders must all have its metric (`lacks`)."""
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
    columns[CONSTANT] = [1.0] * blocks
    weights = {**what.weights, **({CONSTANT: what.constant} if what.constant else {})}
    tested = contrast(columns, weights, confidence)
    margin, p_inside = _inside(columns, weights, what.margin)
    sums = _sums(columns, weights)
    effect, room = _effects(sums, _sums(columns, what.margin) if what.margin else None)
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
        margin=shown(margin),
        p_inside=p_inside,
        effect=effect,
        room=room,
        spread=robust_spread(sums) if blocks > 1 else None,
    )


def _effects(
    sums: NDArray[np.float64], margins: NDArray[np.float64] | None
) -> tuple[float | None, float | None]:
    """Return how many standard deviations of the blocks their mean is from zero, and inside the margin."""

    def effect(values: NDArray[np.float64]) -> float | None:
        spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
        return float(values.mean()) / spread if spread > 0 else None

    ends = [effect(margins - sums), effect(margins + sums)] if margins is not None else []
    known = [each for each in ends if each is not None]
    return effect(sums), min(known) if known else None


def _inside(
    columns: Mapping[str, Sequence[float]], weights: Mapping[str, float], margin: Mapping[str, float] | None
) -> tuple[float | None, float | None]:
    """Return the estimate of a margin, and the p of "the difference is not inside it"."""
    if margin is None:
        return None, None

    def beyond(sign: float) -> ContrastEstimate:
        names = dict.fromkeys([*weights, *margin])
        sums = {name: weights.get(name, 0.0) + sign * margin.get(name, 0.0) for name in names}
        return contrast(columns, sums)

    value = hodges_lehmann(_sums(columns, margin).tolist()).value
    return value, max(beyond(-1).p_less, beyond(1).p_greater)


def _estimated(
    found: LocationEstimate | Ratio | ContrastEstimate,
    blocks: int,
    shown: Callable[[float | None], float | None] = lambda end: end,
) -> dict[str, Any]:
    """Return an estimate and its interval in the unit in which they are shown."""
    return {
        "value": shown(found.value),
        "low": shown(found.low),
        "high": shown(found.high),
        "confidence": found.confidence,
        "blocks": blocks,
    }


def r_squared(points: Mapping[str, float], metric: str, values: Values) -> NDArray[np.float64]:
    """Return R² of the least-squares line through a metric over the points' numbers, in each block.

    If nothing varies there is nothing to explain, and R² is 1.
    """
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
    """Return one line, below the figures, that holds for all of them; none without figures."""
    per = {each.unit for each in shown if " per " in each.unit}
    bounded = {each.confidence for each in shown if each.low is not None or each.high is not None}
    parts = [*sorted(per), *([f"in brackets {percent(min(bounded))} intervals"] if bounded else [])]
    return [f"({'; '.join(parts)})"] if parts else []


def by_block(what: Contrast, values: Values) -> NDArray[np.float64]:
    """Return a contrast in each block that has it, in its metric's own unit; of a ratio, the numerator."""
    return _sums(_columns(what, values), what.weights) + what.constant


def _columns(what: Contrast, values: Values) -> dict[str, list[float]]:
    """Return the values of each contender, in the blocks where all contenders have what it needs."""
    shared = _shared(what, values)
    return {name: _own(_column(what, name, shared), what.of) for name in what.contenders()}


def _shared(what: Contrast, values: Values) -> dict[tuple[str, str], list[float]]:
    """Return what it needs by contender and metric, in the blocks that lack none of it."""
    needed = [(name, metric) for name in what.contenders() for metric in what.metrics()]
    return together({(name, metric): values[metric][name] for name, metric in needed})


def _column(what: Contrast, name: str, shared: Mapping[tuple[str, str], list[float]]) -> list[float]:
    """Return a contender's metric in each block, minus the `less` metric if there is one."""
    column = shared[name, what.metric]
    if what.less is None:
        return column
    return [value - other for value, other in zip(column, shared[name, what.less], strict=True)]


def _own(column: Sequence[float], of: str) -> list[float]:
    """Return a contender's values; or their logarithms, to compare ratios; or distances from the median.

    Distances from the median compare spreads (Brown and Forsythe 1974).
    """
    if of == "value":
        return list(column)
    if of == LOGARITHM:
        return [math.log(value) for value in column]
    median = float(np.median(column))
    return [abs(value - median) for value in column]


def _sums(columns: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Return the weighted sum of each block."""
    sums: NDArray[np.float64] = np.sum(
        [weight * np.asarray(columns[name], dtype=np.float64) for name, weight in weights.items()], axis=0
    )
    return sums


# Ratios ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """A ratio above zero with its interval.

    `high` is None without an upper bound; then `value` is also None if there is no ratio at all.
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    blocks: int


def ratio(above: NDArray[np.float64], below: NDArray[np.float64], confidence: float = 0.95) -> Ratio:
    """Return the ratio of `above` to `below`, paired by block; the amounts may be near zero.

    The interval holds every r > 0 for which the signed-rank test does not reject "above - r x below is
    symmetric about zero". This is Fieller's idea with ranks, so it agrees with the test of the same contrast.
    It does not use a block's own ratio, which explodes if its denominator is small. If `below` is not clearly
    above zero, the interval has no upper end. The estimate is the r at which the two tails are equal: the
    median of (a_i + a_j) / (b_i + b_j).
    """
    first, second = np.triu_indices(above.size)
    upper, lower = above[first] + above[second], below[first] + below[second]
    # A pair whose denominator is not above zero counts as an infinite ratio if its numerator is.
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
    """Return a ratio inside the k-th gap, within which no signed rank changes."""
    if k + 1 < ends.size:
        return float((ends[k] + ends[k + 1]) / 2)
    return float(ends[k] * 2 + 1)


def _compatible(
    above: NDArray[np.float64], below: NDArray[np.float64], candidate: float, alpha: float
) -> bool:
    return signed_rank(above - candidate * below).p_two_sided > alpha
