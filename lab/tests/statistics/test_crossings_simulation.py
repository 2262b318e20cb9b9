"""How often the search for a crossover is right if the truth is known: both stages, by simulation.

`pytest lab/tests/statistics/test_crossings_simulation.py -s` prints the figures that the methodology quotes.
The seeds are fixed. Each bound is about four standard errors of the simulation away from the expected value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import scipy
from made.simulations import report
from numpy.typing import NDArray

from thunderherd.search.crossover_study import ALPHA
from thunderherd.statistics.crossings import grid, line_crossing, read, second_stage, standings
from thunderherd.statistics.standing import Standing

Array = NDArray[np.float64]
Truth = Callable[[Array], Array]
"""The mean log ratio over sizes."""

LOW, HIGH = 64, 4 * 2**20
SIZES = np.array(grid(LOW, HIGH, 9, whole=True))
BLOCKS = 12
RUNS = 400


def line(at: float, slope: float) -> Truth:
    """Return a line that is zero at a size, with this slope per doubling."""
    return lambda sizes: slope * np.log2(sizes / at)


def two_costs(a: tuple[float, float], b: tuple[float, float]) -> Truth:
    """Return the log ratio of two contenders, each with a fixed cost and one per byte.

    It is level, then falls, then is level again.
    """
    return lambda sizes: np.log((a[0] + a[1] * sizes) / (b[0] + b[1] * sizes))


def kink(at: float, before: float, after: float) -> Truth:
    """Return a straight line that bends at its zero."""
    return lambda sizes: np.where(sizes < at, before, after) * np.log2(sizes / at)


def zero_of(truth: Truth) -> float:
    return math.exp(
        scipy.optimize.brentq(
            lambda place: float(truth(np.exp([place]))[0]), math.log(LOW / 8), math.log(HIGH * 8)
        )
    )


# Noise ------------------------------------------------------------------------------------------------------

Noise = Callable[[np.random.Generator, tuple[int, ...]], Array]


def normal(deviation: float) -> Noise:
    """The noise of the log ratio at one size in one block."""
    return lambda generator, shape: generator.normal(0, deviation, shape)


def bursts(deviation: float) -> Noise:
    """Return skewed noise of both contenders, with rare large bursts and the same standard deviation."""

    def drawn(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        both = generator.standard_exponential((2, *shape)) ** 3
        spread = math.sqrt(2 * (math.factorial(6) - math.factorial(3) ** 2))
        noise: Array = (both[0] - both[1]) * deviation / spread
        return noise

    return drawn


def shared(deviation: float) -> Noise:
    """Return noise half of whose variance all sizes of a block share, like one contender's bad minute."""

    def drawn(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        own, common = generator.normal(0, deviation, shape), generator.normal(0, deviation, (*shape[:-1], 1))
        noise: Array = (own + common) / math.sqrt(2)
        return noise

    return drawn


# The procedure on arrays ------------------------------------------------------------------------------------


def one_sided(log_ratios: Array) -> Array:
    """Return p of "above zero" by the signed-rank test over the last axis but one, for arrays."""
    blocks = log_ratios.shape[-2]
    patterns = np.array([1.0])
    for rank in range(1, blocks + 1):
        patterns = np.convolve(patterns, np.eye(1, rank + 1, rank)[0] + np.eye(1, rank + 1)[0]) / 2
    at_least = np.cumsum(patterns[::-1])[::-1]
    ranks = scipy.stats.rankdata(np.abs(log_ratios), axis=-2)
    p: Array = at_least[(ranks * (log_ratios > 0)).sum(axis=-2).astype(int)]
    return p


def corrected(p: Array) -> Array:
    """Return Holm's p over the last axis."""
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    ascending = np.maximum.accumulate(np.minimum(1, np.take_along_axis(p, order, -1) * factors), axis=-1)
    found: Array = np.empty_like(p)
    np.put_along_axis(found, order, ascending, -1)
    return found


def all_standings(log_ratios: Array) -> list[list[Standing]]:
    """Return the standings of many runs (runs x blocks x sizes)."""
    above, below = one_sided(log_ratios), one_sided(-log_ratios)
    different = corrected(np.minimum(1, 2 * np.minimum(above, below))) <= ALPHA
    margin = math.log(1.03)
    inside = np.maximum(one_sided(log_ratios + margin), one_sided(margin - log_ratios))
    equivalent = corrected(np.minimum(1, 2 * inside)) <= ALPHA
    letters = np.where(
        equivalent, "equivalent", np.where(~different, "undecided", np.where(above < below, "b", "a"))
    )
    return letters.tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Answer:
    outcome: str
    low: float | None = None
    high: float | None = None
    bends: bool = False
    bracket: tuple[float, float] | None = None


def answers(truth: Truth, noise: Noise, *, runs: int = RUNS, seed: int = 1) -> list[Answer]:
    """Simulate the whole search many times, at sizes that need not be whole, so nothing is rounded."""
    generator = np.random.default_rng(seed)
    coarse = truth(SIZES) + noise(generator, (runs, BLOCKS, SIZES.size))
    found = []
    seen = all_standings(coarse)
    chosen = [
        second_stage(SIZES, log_ratios, shown, blocks=BLOCKS, whole=False)
        for log_ratios, shown in zip(coarse, seen, strict=True)
    ]
    grids = np.array([sizes or SIZES[:7] for sizes in chosen])
    dense = truth(grids)[:, None, :] + noise(generator, (runs, BLOCKS, grids.shape[1]))
    for shown, sizes, log_ratios, closer in zip(seen, chosen, dense, all_standings(dense), strict=True):
        if sizes is None:
            pattern = read(SIZES.tolist(), shown)
            found.append(Answer(pattern.outcome))
            continue
        both = [*zip(SIZES.tolist(), shown, strict=True), *zip(sizes, closer, strict=True)]
        both.sort(key=lambda each: each[0])
        pattern = read([size for size, _ in both], [each for _, each in both])
        if pattern.outcome != "one":
            found.append(Answer(pattern.outcome))
            continue
        (bracket,) = pattern.brackets
        ends = (bracket.low, bracket.high)
        crossing = line_crossing(sizes, log_ratios)
        if crossing.value is None or not ends[0] <= crossing.value <= ends[1]:
            found.append(Answer("one", bracket=ends))
            continue
        bends = crossing.curvature_p is not None and crossing.curvature_p <= 0.05
        found.append(Answer("one", crossing.low, crossing.high, bends, ends))
    return found


def share(count: int, of: int) -> float:
    return count / of if of else math.nan


@dataclass(frozen=True)
class Rates:
    """The outcomes of many searches.

    They are: how many reported one crossing, how many of these gave an interval, how many of these hold the
    truth; how many brackets hold it; the median width of an interval, as a ratio of its ends.
    """

    one: float
    several: float
    bounded: float
    covered: float
    bracketed: float
    width: float


def rates(truth: Truth, found: list[Answer]) -> Rates:
    at = zero_of(truth)
    ones = [each for each in found if each.outcome == "one"]
    bounded = [(each.low, each.high) for each in ones if each.low is not None and each.high is not None]
    brackets = [each.bracket for each in ones if each.bracket]
    return Rates(
        one=share(len(ones), len(found)),
        several=share(sum(each.outcome == "several" for each in found), len(found)),
        bounded=share(len(bounded), len(ones)),
        covered=share(sum(low <= at <= high for low, high in bounded), len(bounded)),
        bracketed=share(sum(low <= at <= high for low, high in brackets), len(brackets)),
        width=float(np.median([high / low for low, high in bounded])) if bounded else math.nan,
    )


def tell(what: str, of: Rates) -> None:
    print(
        f"  {what}: one crossing {100 * of.one:.0f} %, several {100 * of.several:.1f} %; with an interval "
        f"{100 * of.bounded:.0f} %; it holds the truth {100 * of.covered:.1f} %, the bracket "
        f"{100 * of.bracketed:.1f} %; ends apart by a factor of {of.width:.2f}"
    )


def test_array_standings_match_the_scalar_function() -> None:
    generator = np.random.default_rng(0)
    truth = np.array([0.2, 0.1, 0.05, 0.02, 0.0, 0.0, -0.02, -0.05, -0.2])
    noise = np.array([0.05, 0.05, 0.02, 0.005, 0.005, 0.05, 0.005, 0.05, 0.05])
    log_ratios = truth + generator.normal(0, 1, (60, BLOCKS, 9)) * noise
    assert all_standings(log_ratios) == [standings(each, alpha=ALPHA) for each in log_ratios]


STRAIGHT = {
    "steep, little noise: 20 % a doubling, 1 % noise": (line(10_000, -0.2), normal(0.01)),
    "10 % a doubling, 3 % noise": (line(3_000, -0.1), normal(0.03)),
    "10 % a doubling, 10 % noise": (line(3_000, 0.1), normal(0.1)),
    "5 % a doubling, 10 % noise": (line(50_000, -0.05), normal(0.1)),
    "shallow, much noise: 5 % a doubling, 20 % noise": (line(20_000, -0.05), normal(0.2)),
    "near an end: three quarters of the range's last size": (line(3 * 2**20, -0.25), normal(0.05)),
    "near the other end: 1.4 times the first": (line(90, 0.25), normal(0.05)),
    "on a size of the first stage": (line(float(SIZES[4]), -0.1), normal(0.05)),
    "10 % noise with bursts": (line(3_000, -0.1), bursts(0.1)),
    "10 % noise, half of it shared within a block": (line(3_000, -0.1), shared(0.1)),
}


@pytest.mark.parametrize("what", STRAIGHT)
def test_coverage_of_a_straight_line(what: str) -> None:
    truth, noise = STRAIGHT[what]
    found = rates(truth, answers(truth, noise))
    print("\n95 % interval, the log ratio being a straight line")
    tell(what, found)
    assert found.covered >= 0.95 - 4 * math.sqrt(0.95 * 0.05 / RUNS)
    assert found.covered <= 0.95 + 4 * math.sqrt(0.95 * 0.05 / RUNS)
    assert found.several <= 0.025
    assert found.bracketed >= 0.95
    assert found.bounded >= 0.8


def test_a_crossing_too_near_an_end_to_be_shown() -> None:
    """At the last size the other is ahead by 3 %, which the first stage can hardly show.

    If the second stage shows it, it was lucky, and so was the line through the same blocks.
    """
    truth = line(2.5 * 2**20, -0.05)
    found = answers(truth, normal(0.1))
    seen = rates(truth, found)
    print("\nA crossing too near an end")
    tell("5 % a doubling, 10 % noise, at 2.5 of 4 MiB", seen)
    missed = seen.one * seen.bounded * (1 - seen.covered)
    report("of all searches, told an interval that does not hold the truth", missed, "at most 5")
    assert seen.one < 0.2
    assert missed <= 0.05


BENT = {
    "two fixed costs and two costs a byte, steep": (two_costs((4, 0.2 / 4000), (1, 1 / 4000)), 0.03, 0.9),
    "... shallow": (two_costs((1.1, 0.9 / 4000), (1, 1 / 4000)), 0.03, 0.9),
    "... the crossing where the curve begins to fall": (
        two_costs((1.05, 0.8 / 20_000), (1, 1 / 20_000)),
        0.03,
        0.75,
    ),
    "a kink at the crossing, 5 % and 15 % a doubling": (kink(8_000, -0.05, -0.15), 0.03, 0.8),
    "a kink at the crossing, 10 % and 20 % a doubling": (kink(8_000, -0.1, -0.2), 0.1, 0.75),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", BENT)
def test_coverage_of_a_bent_line(what: str) -> None:
    """The interval assumes a straight line over the second stage; the bracket does not."""
    truth, deviation, at_least = BENT[what]
    found = answers(truth, normal(deviation))
    seen = rates(truth, found)
    straight = rates(truth, [each for each in found if not each.bends])
    print("\n95 % interval, the log ratio being no straight line")
    tell(what, seen)
    report("said to bend", share(sum(each.bends for each in found), len(found)), "5 where it is straight")
    report("holds the truth where it is not said", straight.covered, "95 where it is straight")
    assert seen.covered >= at_least
    assert seen.bracketed >= 0.95


@pytest.mark.parametrize(
    ("what", "truth", "noise"),
    [
        ("no difference at any size, 10 % noise", lambda sizes: 0 * sizes, normal(0.1)),
        ("no difference, bursts", lambda sizes: 0 * sizes, bursts(0.1)),
        ("A ahead by 2 % everywhere, 10 % noise", lambda sizes: 0 * sizes - 0.02, normal(0.1)),
        ("A ahead by 20 % everywhere, 10 % noise", lambda sizes: 0 * sizes - 0.2, normal(0.1)),
        ("a lead of 30 % that vanishes", lambda sizes: -0.3 / (1 + sizes / 4_000), normal(0.1)),
        ("a lead of 30 % that vanishes, 2 % noise", lambda sizes: -0.3 / (1 + sizes / 4_000), normal(0.02)),
    ],
)
def test_crossings_are_rarely_found_if_there_is_none(what: str, truth: Truth, noise: Noise) -> None:
    runs = 1000
    wrong = sum(each.outcome in ("one", "several") for each in answers(truth, noise, runs=runs))
    print("\nNo crossing in the range")
    report(f"{what}: one or more told", share(wrong, runs), "at most 5")
    assert share(wrong, runs) <= 0.05


@pytest.mark.parametrize(
    ("what", "truth"),
    [
        ("10 % a doubling, 10 % noise", line(3_000, -0.1)),
        (
            "a long stretch of no difference around it",
            lambda sizes: -0.05 * _dead(np.log2(sizes / 16_384), 4),
        ),
    ],
)
def test_several_crossings_are_rarely_found_if_there_is_one(what: str, truth: Truth) -> None:
    runs = 1000
    found = answers(truth, normal(0.1), runs=runs)
    print("\nOne crossing in the range")
    report(f"{what}: several told", share(sum(e.outcome == "several" for e in found), runs), "at most 5")
    assert sum(each.outcome == "several" for each in found) <= 0.05 * runs


def _dead(octaves: Array, width: float) -> Array:
    found: Array = np.sign(octaves) * np.maximum(0, np.abs(octaves) - width)
    return found


@pytest.mark.thorough
def test_several_crossings_are_found() -> None:
    """A wave over the whole range, with two and a half periods: five crossings."""

    def wave(sizes: Array) -> Array:
        found: Array = 0.2 * np.cos(math.pi * np.log2(sizes / LOW) / 4)
        return found

    found = answers(wave, normal(0.05), runs=200)
    told = share(sum(each.outcome == "several" for each in found), 200)
    print("\nSeveral crossings in the range")
    report("several told", told, "100")
    assert told >= 0.99
