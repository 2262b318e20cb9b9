"""Crossings of two contenders: the size at which the log ratio of their costs is zero.

Pure functions. `log_ratios[i, j]` is, in block `i` at size `j`, the logarithm of the cost of A over that of
B: A is ahead below zero. Sizes are above zero and increase; all arithmetic uses their logarithms. An
impossible argument raises ValueError with the value seen.

There are two stages. The second is chosen from the first, so its own noise cannot influence where it looks:

1. A coarse, logarithmic grid over the whole range, with one test at each size (`standings`). All tests are
   one family. Two sizes at which different contenders are *shown* to be ahead bracket a crossing (`read`).
   A crossing that does not exist, or one too many, is reported with probability at most alpha.
2. A dense grid around the zero of the monotone (isotonic) estimate (`second_stage`, `monotone`). A straight
   line is fitted through it in each block. Fieller's interval is that of the mean line's zero
   (`line_crossing`).

The interval assumes that the mean log ratio is a straight line over log size in the dense grid. It also
assumes that blocks are independent, and that a block's line (intercept and slope) is about normal. Noise may
differ between sizes and may be shared within a block. The slope need not be well known. If it is not
separated from zero at the interval's confidence, the set of sizes that the data do not contradict has no
ends, or is all but a gap. The interval is then reported as unbounded. What remains is the bracket, which
rests on tests alone. `Crossing.curvature_p` tests the first assumption: if it is small, the line bends.

Sources: Fieller (1954), *Journal of the Royal Statistical Society* B 16, 175-185; Barlow, Bartholomew,
Bremner and Brunk, *Statistical Inference under Order Restrictions* (1972), chapter 1, for the isotonic
estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thunderherd.statistics.comparisons import compare_family
from thunderherd.statistics.samples import Vector, hodges_lehmann, robust_spread
from thunderherd.statistics.standing import Outcome, Standing
from thunderherd.statistics.verdicts import EQUIVALENCE_RATIO, Verdict

__all__ = [
    "Bracket",
    "Crossing",
    "Monotone",
    "Outcome",
    "Pattern",
    "Standing",
    "equivalent_stretch",
    "fieller",
    "grid",
    "line_crossing",
    "monotone",
    "read",
    "second_stage",
    "standings",
]

Matrix = NDArray[np.float64]

Ahead = Literal["a", "b"]

CONFIDENCE = 0.95
"""The confidence of the interval for a crossing."""

DENSE_POINTS = 7
"""Sizes of the second stage: few enough for short blocks, and enough to see whether their line bends."""

REACH = 8.0
"""The reach of the second stage to either side, in standard errors of its line's level.

The first stage predicts how far out the log ratio is that many standard errors from zero. The slope over
seven sizes is then about 5 of its own standard errors from zero, so the interval is hardly ever unbounded. A
wider reach would let a bend shift the crossing more.
"""

SHARE_OF_STEP = 0.25
"""The least reach, as a share of a step of the coarse grid, within which the first stage knows nothing."""


def checked(sizes: ArrayLike, log_ratios: ArrayLike, *, points: int = 2) -> tuple[Vector, Matrix]:
    """Return both as arrays: increasing sizes above zero, and a finite log ratio per block and size."""
    x, y = np.asarray(sizes, dtype=np.float64), np.asarray(log_ratios, dtype=np.float64)
    if x.ndim != 1 or x.size < points:
        raise ValueError(f"a crossing needs at least {points} sizes, got {x.tolist()}")
    if not (np.isfinite(x).all() and (x > 0).all() and (np.diff(x) > 0).all()):
        raise ValueError(f"sizes must be above 0 and increase, got {x.tolist()}")
    if y.ndim != 2 or y.shape[0] < 1 or y.shape[1] != x.size:
        raise ValueError(f"need a log ratio for every block and each of {x.size} sizes, got shape {y.shape}")
    if not np.isfinite(y).all():
        block, place = np.argwhere(~np.isfinite(y))[0].tolist()
        raise ValueError(
            f"need finite log ratios, got {y[block, place]} in block {block + 1} at size {x[place]:g}: a "
            "cost is missing or not above 0; leave the block or the size out"
        )
    return x, y


# Standings, and the crossings that follow -------------------------------------------------------------------


def standings(
    log_ratios: ArrayLike, *, alpha: float = 0.05, equivalence_ratio: float = EQUIVALENCE_RATIO
) -> list[Standing]:
    """Return the standing at each size (a column): the sizes are one family of `compare_family`."""
    columns = np.asarray(log_ratios, dtype=np.float64).T
    values: dict[str, Sequence[float]] = {}
    family = [(f"a{place}", f"b{place}") for place in range(len(columns))]
    for (a, b), column in zip(family, columns, strict=True):
        values |= {a: np.exp(column).tolist(), b: [1.0] * len(column)}
    found = compare_family(values, family, alpha=alpha, equivalence_ratio=equivalence_ratio)
    return [standing(each.verdict) for each in found]


def standing(verdict: str) -> Standing:
    """Return the standing that a verdict on A against B means."""
    known: dict[str, Standing] = {
        Verdict.FASTER: "a",
        Verdict.SLOWER: "b",
        Verdict.EQUIVALENT: "equivalent",
        Verdict.UNDECIDED: "undecided",
    }
    return known[verdict]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Neighbouring decided sizes: at `low` the contender `before` is ahead, at `high` the other one."""

    low: float
    high: float
    before: Ahead
    after: Ahead


@dataclass(frozen=True, slots=True)
class Pattern:
    """The outcome of the standings at all sizes; `ahead` is set if only one contender is ever ahead."""

    outcome: Outcome
    brackets: tuple[Bracket, ...]
    ahead: Ahead | None


def read(sizes: Sequence[float], shown: Sequence[Standing]) -> Pattern:
    """Return the crossings among standings in the order of their sizes.

    Sizes at which neither contender is shown to be ahead are skipped: noise around zero brackets nothing.
    """
    decided = [(size, each) for size, each in zip(sizes, shown, strict=True) if each in ("a", "b")]
    brackets = tuple(
        Bracket(low, high, before, after)
        for (low, before), (high, after) in pairwise(decided)
        if before != after
    )
    if brackets:
        return Pattern("one" if len(brackets) == 1 else "several", brackets, None)
    if not decided:
        return Pattern("nowhere_separated", (), None)
    return Pattern("everywhere" if len(decided) == len(shown) else "where_separated", (), decided[0][1])


def equivalent_stretch(
    sizes: Sequence[float], shown: Sequence[Standing], low: float, high: float
) -> tuple[float, float] | None:
    """Return the first and last size from `low` to `high` at which both are shown to be equivalent.

    None if there is no such size, or if a size between these two is not equivalent.
    """
    inside = [(size, each) for size, each in zip(sizes, shown, strict=True) if low <= size <= high]
    equal = [place for place, (_, each) in enumerate(inside) if each == "equivalent"]
    if not equal or len(equal) != equal[-1] - equal[0] + 1:
        return None
    return inside[equal[0]][0], inside[equal[-1]][0]


# The monotone estimate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Monotone:
    """The isotonic estimate at each size, whether it rises, and the size at which it is zero, if any."""

    fitted: tuple[float, ...]
    rises: bool
    crossing: float | None


def monotone(sizes: ArrayLike, log_ratios: ArrayLike, *, rises: bool | None = None) -> Monotone:
    """Return the monotone function of size that is nearest to the log ratios, by weighted least squares.

    At each size it takes the Hodges-Lehmann estimate over the blocks. The weight is the inverse of the
    squared noise (Qn), or the same for all sizes if a noise cannot be estimated. If `rises` is None, the
    nearer of a rising and a falling function is taken. The zero is interpolated over log size between its
    neighbours. If the estimate is exactly zero at some sizes, the zero is the middle of these.
    """
    x, y = checked(sizes, log_ratios)
    return _monotone(x, *_over_blocks(y), rises=rises)


def _over_blocks(log_ratios: Matrix) -> tuple[Vector, Vector]:
    """Return, for each size, the estimate over the blocks and its weight (1 at most)."""
    estimates = np.array([hodges_lehmann(column).value for column in log_ratios.T])
    if log_ratios.shape[0] < 2:
        return estimates, np.ones_like(estimates)
    noise = np.array([robust_spread(column) for column in log_ratios.T])
    return estimates, (noise.min() / noise) ** 2 if (noise > 0).all() else np.ones_like(noise)


def _monotone(x: Vector, estimates: Vector, weights: Vector, *, rises: bool | None = None) -> Monotone:
    # Imported on use: scipy takes most of a second.
    from scipy.optimize import isotonic_regression

    fits = {
        up: isotonic_regression(estimates, weights=weights, increasing=up).x
        for up in ((True, False) if rises is None else (rises,))
    }
    errors = {up: float((weights * (fit - estimates) ** 2).sum()) for up, fit in fits.items()}
    up = min(errors, key=lambda each: errors[each])
    return Monotone(tuple(map(float, fits[up])), up, _zero(np.log(x), fits[up]))


def _zero(places: Vector, fitted: Vector) -> float | None:
    """Return where a monotone function is zero, interpolated; None if its sign never changes."""
    below, above = np.flatnonzero(fitted < 0), np.flatnonzero(fitted > 0)
    if not below.size or not above.size:
        return None
    first, second = (below[-1], above[0]) if below[0] < above[0] else (above[-1], below[0])
    if second - first > 1:
        return math.exp((places[first + 1] + places[second - 1]) / 2)
    share = fitted[first] / (fitted[first] - fitted[second])
    return math.exp(places[first] + share * (places[second] - places[first]))


# The second stage -------------------------------------------------------------------------------------------


def grid(low: float, high: float, points: int, *, whole: bool) -> tuple[float, ...]:
    """Return `points` sizes from `low` to `high`, evenly spaced over their logarithm.

    Whole sizes are listed once each, so there may be fewer of them.
    """
    found = np.geomspace(low, high, points)
    found[[0, -1]] = low, high  # the exact ends, not low x e^...
    if whole:
        # A range of few whole numbers is listed in full; a wide range must not be, since it may be huge.
        first, last = math.ceil(low), math.floor(high)
        if last - first < points:
            found = np.arange(first, last + 1, dtype=np.float64)
        else:
            found = np.unique(np.clip(np.rint(found), first, last))
    return tuple(map(float, found))


def second_stage(
    sizes: ArrayLike,
    log_ratios: ArrayLike,
    shown: Sequence[Standing],
    *,
    blocks: int,
    whole: bool,
    points: int = DENSE_POINTS,
) -> tuple[float, ...] | None:
    """Return the sizes of the dense stage with `blocks` blocks; None if there is nothing to look for.

    There is something to look for if the first stage brackets exactly one crossing. There also is if only one
    contender is ever shown to be ahead, its lead vanishes towards an end of the range, and nothing shows yet
    that the two are equivalent there. Nothing lies between neighbouring whole numbers.
    """
    x, y = checked(sizes, log_ratios)
    estimates, weights = _over_blocks(y)
    around = _around(x, estimates, weights, shown)
    if around is None or (whole and x[around[1]] - x[around[0]] <= 1):
        return None
    first, last = around
    fit = _monotone(x, estimates, weights, rises=bool(estimates[last] > estimates[first]))
    places = np.log(x)
    centre = (places[first] + places[last]) / 2
    if fit.crossing is not None:
        centre = min(max(math.log(fit.crossing), places[first]), places[last])
    slope = abs(fit.fitted[last] - fit.fitted[first]) / (places[last] - places[first])
    # Not Qn: the line goes through means, which outliers affect in full.
    noise = float(y[:, list(around)].std(axis=0, ddof=1).mean()) if len(y) > 1 else 0.0
    error = noise / math.sqrt(blocks * points)
    reach = max(REACH * error / slope if slope else math.inf, SHARE_OF_STEP * float(np.diff(places).min()))
    low = math.exp(max(places[first], centre - reach))
    high = math.exp(min(places[last], centre + reach))
    if whole:
        low, high = _three_whole(low, high, float(x[first]), float(x[last]))
    return grid(low, high, points, whole=whole)


def _around(
    x: Vector, estimates: Vector, weights: Vector, shown: Sequence[Standing]
) -> tuple[int, int] | None:
    """Return the places of the first stage's sizes between which a crossing is looked for."""
    pattern, places = read(x.tolist(), shown), {float(size): place for place, size in enumerate(x)}
    if pattern.outcome == "one":
        return places[pattern.brackets[0].low], places[pattern.brackets[0].high]
    if pattern.outcome != "where_separated":
        return None
    decided = [place for place, each in enumerate(shown) if each == pattern.ahead]
    crossing = _monotone(x, estimates, weights).crossing
    if crossing is None:
        return None
    ends = (decided[-1], x.size - 1) if crossing > x[decided[-1]] else (0, decided[0])
    if not x[ends[0]] < crossing < x[ends[1]]:
        return None
    open_ = [shown[place] for place in range(ends[0], ends[1] + 1) if shown[place] != pattern.ahead]
    return ends if "undecided" in open_ else None


def _three_whole(low: float, high: float, least: float, most: float) -> tuple[float, float]:
    """Widen the range to whole numbers, to at least three of them if `least` to `most` has as many."""
    start, end = max(math.floor(low), math.ceil(least)), min(math.ceil(high), math.floor(most))
    if end - start < 2:
        start = max(math.ceil(least), start - 1)
        end = min(math.floor(most), max(end, start + 2))
        start = max(math.ceil(least), min(start, end - 2))
    return float(start), float(end)


# The crossing of a line -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ratio:
    """Fieller's set for a ratio of two means: from `low` to `high`, or without ends if it is unbounded.

    `value` is the ratio of the estimates; None if the denominator is zero.
    """

    value: float | None
    low: float | None
    high: float | None


def fieller(
    above: float, below: float, variance_above: float, covariance: float, variance_below: float, t: float
) -> Ratio:
    """Return the ratios r for which `above - r x below` is within `t` of its standard errors from zero.

    Variances and covariance are those of the two means. The set is an interval if and only if `below` is more
    than `t` of its standard errors from zero (Fieller's g below 1). Otherwise it is all numbers, or all but
    an interval, and has no ends here.
    """
    value = above / below if below else None
    leading = below**2 - t**2 * variance_below
    if leading <= 0 or value is None:
        return Ratio(value, None, None)
    middle = above * below - t**2 * covariance
    last = above**2 - t**2 * variance_above
    # Below zero by rounding only: the ratio of the estimates itself is always in the set.
    root = math.sqrt(max(0.0, middle**2 - leading * last))
    return Ratio(value, (middle - root) / leading, (middle + root) / leading)


@dataclass(frozen=True, slots=True)
class Crossing:
    """The size at which the mean line is zero, with Fieller's interval; without ends it is unbounded.

    `value` is None if the line is level, or if the zero exceeds the range of a number. `slope` is what a
    doubling of the size adds to the log ratio. `line` is the mean line at the first and last size.
    `curvature_p` is the two-sided p of "the line does not bend", by the second-order term in each block. It
    is None with fewer than 3 sizes or blocks.
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    slope: float
    line: tuple[float, float]
    curvature_p: float | None
    blocks: int

    @property
    def is_bounded(self) -> bool:
        return self.low is not None


def line_crossing(sizes: ArrayLike, log_ratios: ArrayLike, confidence: float = CONFIDENCE) -> Crossing:
    """Return the zero of the straight line over log size: least squares per block, Fieller over blocks.

    The blocks' intercepts and slopes are a sample of pairs. Their means, variances and covariance go into
    `fieller`, with Student's t at one degree of freedom fewer than there are blocks. One block has no
    variance: its interval is unbounded.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    x, y = checked(sizes, log_ratios)
    places = np.log(x)
    centre = float(places.mean())
    from_centre = places - centre
    spread = float(from_centre @ from_centre)
    levels, slopes = y.mean(axis=1), y @ from_centre / spread
    level, slope = float(levels.mean()), float(slopes.mean())
    blocks = y.shape[0]
    if blocks > 1:
        variances = np.cov(levels, slopes) / blocks
        found = fieller(
            -level, slope, variances[0, 0], -variances[0, 1], variances[1, 1], _quantile(confidence, blocks)
        )
    else:
        found = Ratio(-level / slope if slope else None, None, None)
    value, low, high = (_size(centre, each) for each in (found.value, found.low, found.high))
    if value is None or low is None or high is None:
        low = high = None
    return Crossing(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        slope=slope * math.log(2),
        line=(level + slope * float(from_centre[0]), level + slope * float(from_centre[-1])),
        curvature_p=_curvature_p(from_centre, y),
        blocks=blocks,
    )


def _size(centre: float, distance: float | None) -> float | None:
    """Return the size at a log distance from the centre; None if it exceeds the range of a number."""
    if distance is None or abs(centre + distance) > 700:
        return None
    return math.exp(centre + distance)


def _quantile(confidence: float, blocks: int) -> float:
    """Return the two-sided quantile of Student's t with `blocks - 1` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(blocks - 1, (1 + confidence) / 2))


def _curvature_p(from_centre: Vector, log_ratios: Matrix) -> float | None:
    blocks, points = log_ratios.shape
    if points < 3 or blocks < 3:
        return None
    from scipy.special import stdtr

    basis, _ = np.linalg.qr(np.vander(from_centre, 3, increasing=True))
    bends = log_ratios @ basis[:, 2]
    mean, deviation = float(bends.mean()), float(bends.std(ddof=1))
    if abs(mean) <= 1e-9 * float(np.abs(log_ratios).max()):
        return 1.0  # rounding
    if deviation == 0:
        return 0.0
    return float(2 * stdtr(blocks - 1, -abs(mean) / deviation * math.sqrt(blocks)))
