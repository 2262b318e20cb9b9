"""The highest rate at which a latency goal is met: pure arithmetic, from one number per trial.

Within a block each design has a trial at every rate. For each block:

1. The percentile is made a monotone function of the rate: the isotonic regression of its logarithm.
2. The knee is the rate at which that function reaches the goal, on a straight line between the logarithms
   of the neighbouring rates.

If a server did not keep up with its rate, its percentile grows with the length of the trial and means
nothing. Such a trial counts as beyond every goal. If it is the first beyond the goal, the knee is known only
to lie between two rates. So a block gives a *range* of rates. Its ends may be equal, 0 (no rate of the run
meets the goal) or infinite (every rate does).

Over blocks the lower ends are one sample and the upper ends another. The knee is the middle of their two
Hodges-Lehmann estimates, on logarithms. Its interval runs from the lower bound of the lower ends to the upper
bound of the upper ends, both by Walsh averages. Two designs are compared within blocks. A design is shown to
have the higher knee if its *lower* ends lie above the other's *upper* ends by an exact signed-rank test. If
knees are known only to lie between two rates, all of this errs on the cautious side.

The estimate is the knee of trials as long as these. In a window that is short compared with the memory of a
queue, the percentile is more often too low than too high. The estimated knee is then too high.

Sources: Barlow, Bartholomew, Bremner and Brunk (1972), chapter 1; and those of samples.py and verdicts.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from thunderherd.statistics.samples import Vector, signed_rank, walsh_averages, walsh_estimate
from thunderherd.statistics.verdicts import EQUIVALENCE_RATIO, Finding, OneSided, judge_family

__all__ = [
    "AtRate",
    "Knee",
    "Outcome",
    "PairOfKnees",
    "RateRange",
    "TypicalLatency",
    "compare_knees",
    "knee",
    "knee_of_block",
    "typical_latency",
]

OVERLOADED = math.log(10)
"""The least that a trial beyond every goal counts for when its neighbours are smoothed: ten times the goal.

Noise may overload a trial at a low rate; isotonic regression then weighs it against its neighbours.
"""

FAR = 1e6
"""The stand-in for an infinite logarithm: signed ranks only need it to be the largest."""

Outcome = Literal["one", "none", "all", "unclear"]
"""A knee; no rate of the range meets the goal; every rate does; or the blocks disagree."""

Verdict = Literal["higher", "lower", "equivalent", "undecided"]

VERDICTS: dict[Finding, Verdict] = {
    "less": "lower",
    "more": "higher",
    "equivalent": "equivalent",
    "undecided": "undecided",
}
"""The verdict on a knee by the finding on its rate over another's."""


@dataclass(frozen=True, slots=True)
class AtRate:
    """One trial: requests a second, the percentile in seconds, and whether the server failed to keep up.

    `latency` is None if unknown, which only overloaded trials may be.
    """

    rate: float
    latency: float | None
    overloaded: bool = False


@dataclass(frozen=True, slots=True)
class RateRange:
    """The range in which a block's knee lies: requests a second, from 0 to infinity."""

    low: float
    high: float


def knee_of_block(trials: Sequence[AtRate], goal: float) -> RateRange:
    """Return the knee of one design's trials in one block, at two or more rates, for a goal in seconds."""
    ordered = sorted(trials, key=lambda trial: trial.rate)
    rates = [trial.rate for trial in ordered]
    if len(set(rates)) < 2 or len(set(rates)) < len(rates) or rates[0] <= 0:
        raise ValueError(f"a knee takes two different rates above 0 or more, each once, got {rates}")
    if not goal > 0 or math.isinf(goal):
        raise ValueError(f"a goal is a time above 0, got {goal}")
    # Imported on use: scipy takes most of a second.
    from scipy.optimize import isotonic_regression

    beyond = np.array([_beyond(trial, goal) for trial in ordered])
    fitted = isotonic_regression(beyond, increasing=True).x
    above = np.flatnonzero(fitted > 0)
    if not above.size:
        return RateRange(rates[-1], math.inf)
    first = int(above[0])
    if first == 0:
        return RateRange(0.0, rates[0])
    pool = np.flatnonzero(np.isclose(fitted, fitted[first], rtol=1e-12, atol=0.0))
    if any(ordered[place].overloaded for place in pool):
        return RateRange(rates[first - 1], rates[first])
    share = -fitted[first - 1] / (fitted[first] - fitted[first - 1])
    at = math.exp((1 - share) * math.log(rates[first - 1]) + share * math.log(rates[first]))
    return RateRange(at, at)


def _beyond(trial: AtRate, goal: float) -> float:
    """Return the logarithm of latency over goal."""
    if trial.latency is None and not trial.overloaded:
        raise ValueError(f"no percentile is known at {trial.rate:g} requests a second, which kept up")
    if trial.latency is not None and not (trial.latency > 0 and math.isfinite(trial.latency)):
        raise ValueError(f"a latency is above 0, got {trial.latency} at {trial.rate:g} requests a second")
    own = -math.inf if trial.latency is None else math.log(trial.latency / goal)
    return max(own, OVERLOADED) if trial.overloaded else own


class TypicalLatency(NamedTuple):
    """Seconds, with their interval; None means beyond every goal, or too few trials for an end."""

    value: float | None
    low: float | None
    high: float | None


def typical_latency(trials: Sequence[AtRate]) -> TypicalLatency:
    """Return the Hodges-Lehmann estimate over one design's trials at one rate, on logarithms.

    Overloaded trials count as larger than all others. Without them the curve would fall at the rates where
    the server is overloaded.
    """
    known = [FAR if each.overloaded else _logarithm(each.latency or 0.0) for each in trials]
    if not known:
        return TypicalLatency(None, None, None)
    found = walsh_estimate(walsh_averages(known), 0.05)
    ends = (found.value, found.low, found.high)
    return TypicalLatency(*(None if end is None or end > FAR / 4 else math.exp(end) for end in ends))


# Over blocks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knee:
    """The knee of one design over blocks.

    `value` is given for the outcome `one` alone. `low` is 0 and `high` infinite if the interval reaches
    beyond the rates of the run, or if there are too few blocks for one. The interval contains the knee with
    at least `confidence` all the same. `between` is the number of blocks whose knee is known only to lie
    between two rates.
    """

    outcome: Outcome
    value: float | None
    low: float
    high: float
    confidence: float
    blocks: int
    between: int


def knee(ranges: Sequence[RateRange], alpha: float = 0.05) -> Knee:
    """Return the knee over blocks, with an interval that misses it with probability at most `alpha`."""
    if not ranges:
        raise ValueError("a knee needs one block or more, got none")
    lower = walsh_estimate(_walsh([each.low for each in ranges]), alpha)
    upper = walsh_estimate(_walsh([each.high for each in ranges]), alpha)
    between = sum(0 < each.low < each.high < math.inf for each in ranges)
    is_below, is_above = lower.value < -FAR / 4, upper.value > FAR / 4
    outcome: Outcome = (
        "unclear" if is_below and is_above else "none" if is_below else "all" if is_above else "one"
    )
    value = math.exp((lower.value + upper.value) / 2) if outcome == "one" else None
    low = 0.0 if lower.low is None else _rate(lower.low)
    high = math.inf if upper.high is None else _rate(upper.high)
    return Knee(outcome, value, low, high, min(lower.confidence, upper.confidence), len(ranges), between)


def _walsh(rates: Sequence[float]) -> Vector:
    return walsh_averages([_logarithm(rate) for rate in rates])


def _logarithm(rate: float) -> float:
    """Return the logarithm; -FAR for 0 and FAR for infinity."""
    return -FAR if rate == 0 else FAR if math.isinf(rate) else math.log(rate)


def _rate(logarithm: float) -> float:
    """Return the rate; a Walsh average that includes an infinite end is infinite as well."""
    return 0.0 if logarithm < -FAR / 4 else math.inf if logarithm > FAR / 4 else math.exp(logarithm)


# Against each other -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairOfKnees:
    """The knee of `a` over that of `b`.

    `ratio` is given if both are known; `low` and `high` are None if the interval has no such end. The
    p-values are Holm's, over all pairs.
    """

    a: str
    b: str
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    p_adjusted: float
    p_equivalent_adjusted: float
    verdict: Verdict
    blocks: int


def compare_knees(
    ranges: Mapping[str, Sequence[RateRange]],
    *,
    alpha: float = 0.05,
    equivalence_ratio: float = EQUIVALENCE_RATIO,
    family: int | None = None,
) -> list[PairOfKnees]:
    """Compare every pair of designs, block by block. Each needs equally many blocks, in the same order.

    `family` is the number of declared pairs, if some designs have no knees at all.
    """
    if len({len(each) for each in ranges.values()}) > 1:
        raise ValueError(f"as many blocks for each, got { {name: len(own) for name, own in ranges.items()} }")
    pairs = list(combinations(ranges, 2))
    margin = math.log(equivalence_ratio)
    least: dict[tuple[str, str], Vector] = {}
    most: dict[tuple[str, str], Vector] = {}
    tests = []
    for pair in pairs:
        a, b = (ranges[name] for name in pair)
        # The least and the greatest difference between the logarithms of both knees.
        least[pair] = np.array([_apart(x.low, y.high) for x, y in zip(a, b, strict=True)])
        most[pair] = np.array([_apart(x.high, y.low) for x, y in zip(a, b, strict=True)])
        tests.append(
            OneSided(
                below_one=signed_rank(most[pair]).p_less,
                above_one=signed_rank(least[pair]).p_greater,
                below_band_end=signed_rank(most[pair] - margin).p_less,
                above_band_end=signed_rank(least[pair] + margin).p_greater,
            )
        )
    found = []
    for pair, judged in zip(pairs, judge_family(tests, alpha, family or None), strict=True):
        low, high = (walsh_estimate(walsh_averages(ends[pair]), alpha) for ends in (least, most))
        known = max(abs(low.value), abs(high.value)) < FAR / 4
        found.append(
            PairOfKnees(
                a=pair[0],
                b=pair[1],
                ratio=math.exp((low.value + high.value) / 2) if known else None,
                low=_ratio(low.low),
                high=_ratio(high.high),
                confidence=min(low.confidence, high.confidence),
                p_adjusted=judged.p_adjusted,
                p_equivalent_adjusted=judged.p_equivalent_adjusted,
                verdict=VERDICTS[judged.finding],
                blocks=len(least[pair]),
            )
        )
    return found


def _apart(a: float, b: float) -> float:
    """Return the difference of two ends' logarithms; it is far from zero if one end is 0 or infinite."""
    return _logarithm(a) - _logarithm(b)


def _ratio(logarithm: float | None) -> float | None:
    return None if logarithm is None or abs(logarithm) > FAR / 4 else math.exp(logarithm)
