"""The estimator of a crossover: standings, the monotone estimate, Fieller's interval, the second stage.

test_crossings_simulation.py says how often it is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from thunderherd.statistics.crossings import (
    Bracket,
    Crossing,
    equivalent_stretch,
    fieller,
    grid,
    line_crossing,
    monotone,
    read,
    second_stage,
    standings,
)
from thunderherd.statistics.standing import Standing

Array = NDArray[np.float64]

SIZES = (64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0)


def ramp(at: float, slope: float, sizes: Sequence[float] = SIZES) -> Array:
    """Return log ratios on a straight line that is zero at a size, with this slope per doubling."""
    return slope * (np.log2(sizes) - math.log2(at))


def measured(truth: Array, *, noise: float = 0.03, blocks: int = 12, seed: int = 1) -> Array:
    return truth + np.random.default_rng(seed).normal(0, noise, (blocks, truth.size))


def close(one: float | None, other: float | None, tolerance: float = 1e-6) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance)


# What standings say -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "outcome", "brackets", "ahead"),
    [
        ("bbbbaaa", "one", [(4096, 16384)], None),
        ("bb..a.a", "one", [(256, 16384)], None),
        ("bb==aaa", "one", [(256, 16384)], None),
        (".b=...a", "one", [(256, 262144)], None),
        ("bbabbbb", "several", [(256, 1024), (1024, 4096)], None),
        ("abababa", "several", [(a, 4 * a) for a in SIZES[:-1]], None),
        ("aaaaaaa", "everywhere", [], "a"),
        ("bbbbbbb", "everywhere", [], "b"),
        ("..=.aaa", "where_separated", [], "a"),
        ("b......", "where_separated", [], "b"),
        (".......", "nowhere_separated", [], None),
        ("==...==", "nowhere_separated", [], None),
    ],
)
def test_outcome_and_brackets_follow_from_the_standings(
    shown: str, outcome: str, brackets: list[tuple[float, float]], ahead: str | None
) -> None:
    pattern = read(SIZES, spelt(shown))
    assert (pattern.outcome, pattern.ahead) == (outcome, ahead)
    assert [(each.low, each.high) for each in pattern.brackets] == brackets
    assert all(each.before != each.after for each in pattern.brackets)


def spelt(shown: str) -> list[Standing]:
    known: dict[str, Standing] = {"a": "a", "b": "b", "=": "equivalent", ".": "undecided"}
    return [known[letter] for letter in shown]


@pytest.mark.parametrize(
    ("shown", "ends", "stretch"),
    [
        ("bb==aaa", (256, 16384), (1024, 4096)),
        ("bb.=aaa", (256, 16384), (4096, 4096)),
        ("b=.=aaa", (64, 16384), None),
        ("=b..aa=", (256, 16384), None),
        ("=======", (64, 262144), (64, 262144)),
    ],
)
def test_stretch_is_equivalent_if_every_size_of_it_is(
    shown: str, ends: tuple[float, float], stretch: tuple[float, float] | None
) -> None:
    assert equivalent_stretch(SIZES, spelt(shown), *ends) == stretch


def test_standings_are_the_verdicts_on_the_family_of_all_sizes() -> None:
    truth = np.array([0.4, 0.2, 0.0, 0.0, -0.2, -0.4, -0.5])
    noise = np.array([0.02, 0.02, 0.004, 0.3, 0.02, 0.02, 0.02])
    found = standings(truth + np.random.default_rng(3).normal(0, 1, (12, 7)) * noise, alpha=0.025)
    assert found == spelt("bb=.aaa")


def test_noise_around_zero_is_no_crossing() -> None:
    # The estimates change sign at nearly every size, and none of that is shown.
    log_ratios = measured(np.zeros(7), noise=0.2)
    assert len(set(np.sign(log_ratios.mean(axis=0)))) == 2
    assert read(SIZES, standings(log_ratios)).outcome == "nowhere_separated"


# The monotone estimate --------------------------------------------------------------------------------------


def by_formula(values: Array, weights: Array) -> Array:
    """Return the rising isotonic estimate by its max-min formula (Barlow and others 1972, 1.9).

    Of all weighted means from i' <= i to j >= i it takes the least over j, and of these the greatest over i'.
    """
    count = values.size
    means = np.array(
        [
            [
                np.average(values[i : j + 1], weights=weights[i : j + 1]) if j >= i else np.nan
                for j in range(count)
            ]
            for i in range(count)
        ]
    )
    return np.array([max(means[i, k:].min() for i in range(k + 1)) for k in range(count)])


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.booleans())
@settings(max_examples=100)
def test_the_monotone_estimate_is_that_of_the_formula(values: list[float], rises: bool) -> None:
    # With one block, its values are the estimates, all of the same weight.
    sizes = [2.0**place for place in range(len(values))]
    found = monotone(sizes, [values], rises=rises)
    signed = np.array(values) if rises else -np.array(values)
    expected = by_formula(signed, np.ones(signed.size))
    assert np.allclose(found.fitted, expected if rises else -expected, atol=1e-9)


def test_noisy_sizes_weigh_less() -> None:
    noise = np.array([0.01, 0.01, 0.3, 0.01])
    log_ratios = np.array([0.3, 0.1, 0.4, -0.1]) + np.random.default_rng(5).normal(0, 1, (20, 4)) * noise
    found = monotone([1, 2, 4, 8], log_ratios)
    assert not found.rises
    assert found.fitted[1] == found.fitted[2] and found.fitted[1] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("values", "crossing"),
    [
        ([3.0, 1.0, -1.0, -3.0], 2 * math.sqrt(2)),
        ([-3.0, -1.0, 3.0, 4.0], 2 * 2**0.25),
        ([2.0, 0.0, 0.0, -1.0], 2 * math.sqrt(2)),
        ([1.0, 0.0, -1.0, -1.0], 2.0),
        ([1.0, 2.0, 3.0, 4.0], None),
        ([0.0, 0.0, 0.0, 1.0], None),
        ([0.0, 0.0, 0.0, 0.0], None),
    ],
)
def test_zeros_of_the_monotone_estimate(values: list[float], crossing: float | None) -> None:
    assert close(monotone([1, 2, 4, 8], [values]).crossing, crossing)


# Fieller's interval -----------------------------------------------------------------------------------------


def test_fieller_of_a_worked_example() -> None:
    """The example of D. Colquhoun's program FIELLER, after Finney.

    a = 14 (3) over b = 7 (2), independent, 10 degrees of freedom, 90 %: g = 0.268164, limits 1.051413 and
    4.414296.
    """
    t = 1.812461
    assert t**2 * 4 / 7**2 == pytest.approx(0.268164, abs=1e-6)  # its g
    found = fieller(14, 7, 9, 0, 4, t)
    assert found.value == 2
    assert found.low == pytest.approx(1.051413, abs=1e-6)
    assert found.high == pytest.approx(4.414296, abs=1e-6)


def test_interval_ends_where_the_t_test_of_the_line_gives_five_percent() -> None:
    """The definition of the set, computed another way: blocks' lines from scipy, tested at the ends."""
    log_ratios = measured(ramp(6000, 0.05), noise=0.05)
    found = line_crossing(SIZES, log_ratios)
    places = np.log(SIZES)
    lines = [scipy.stats.linregress(places, block) for block in log_ratios]
    for end in (found.low, found.high):
        assert end is not None
        at_end = [line.intercept + line.slope * math.log(end) for line in lines]
        assert scipy.stats.ttest_1samp(at_end, 0).pvalue == pytest.approx(0.05, abs=1e-9)
    assert found.value is not None
    mean = scipy.stats.linregress(places, log_ratios.mean(axis=0))
    assert found.value == pytest.approx(math.exp(-mean.intercept / mean.slope))
    assert found.slope == pytest.approx(mean.slope * math.log(2))
    assert found.line == pytest.approx((mean.intercept + mean.slope * places[[0, -1]]).tolist())


def test_a_slope_that_is_not_separated_from_zero_leaves_the_interval_unbounded() -> None:
    level = measured(ramp(6000, 0.0005), noise=0.1)
    found = line_crossing(SIZES, level)
    slopes = [scipy.stats.linregress(np.log(SIZES), block).slope for block in level]
    assert scipy.stats.ttest_1samp(slopes, 0).pvalue > 0.05
    assert (found.low, found.high, found.is_bounded) == (None, None, False)
    # With the same slopes and much less confidence it is bounded: only the slope decides.
    assert line_crossing(SIZES, level, confidence=0.01).is_bounded


@given(
    a=st.floats(-10, 10),
    b=st.floats(-10, 10),
    variances=st.tuples(st.floats(0.01, 4), st.floats(0.01, 4)),
    correlation=st.floats(-0.99, 0.99),
    t=st.floats(0.5, 5),
)
def test_the_set_is_bounded_if_and_only_if_the_lower_mean_is_separated(
    a: float, b: float, variances: tuple[float, float], correlation: float, t: float
) -> None:
    assume(abs(abs(b) - t * math.sqrt(variances[1])) > 1e-3)
    covariance = correlation * math.sqrt(math.prod(variances))
    found = fieller(a, b, variances[0], covariance, variances[1], t)
    separated = abs(b) > t * math.sqrt(variances[1])
    assert (found.low is not None) == (found.high is not None) == separated
    if found.low is None or found.high is None or found.value is None:
        return
    assert found.low <= found.value <= found.high

    def distance(ratio: float) -> float:
        variance = variances[0] - 2 * ratio * covariance + ratio**2 * variances[1]
        return abs(a - ratio * b) / math.sqrt(variance)

    assert distance(found.low) == pytest.approx(t, rel=1e-3)
    assert distance(found.high) == pytest.approx(t, rel=1e-3)


def test_a_line_without_noise_crosses_at_one_size() -> None:
    found = line_crossing(SIZES, np.tile(ramp(5000, -0.1), (4, 1)))
    assert close(found.value, 5000) and close(found.low, 5000) and close(found.high, 5000)
    assert found.curvature_p == 1.0


def test_a_level_line_crosses_nowhere() -> None:
    found = line_crossing(SIZES, np.full((4, 7), 0.2))
    assert (found.low, found.high) == (None, None)


def test_bend_of_the_line_is_detected() -> None:
    bent = ramp(4096, 0.1) + 0.02 * (np.log2(SIZES) - 12) ** 2
    found, straight = (line_crossing(SIZES, measured(each)) for each in (bent, ramp(4096, 0.1)))
    assert found.curvature_p is not None and found.curvature_p < 1e-6
    assert straight.curvature_p is not None and straight.curvature_p > 0.05


# Properties -------------------------------------------------------------------------------------------------

CASES = {
    "at": st.floats(300, 50_000),
    "slope": st.floats(0.02, 0.3),
    "noise": st.floats(0.005, 0.1),
    "seed": st.integers(0, 10_000),
}


def everything(sizes: Sequence[float], log_ratios: Array) -> tuple[Crossing, float | None, Sequence[float]]:
    shown = standings(log_ratios)
    dense = second_stage(sizes, log_ratios, shown, blocks=12, whole=False) or ()
    return line_crossing(sizes, log_ratios), monotone(sizes, log_ratios).crossing, dense


@given(**CASES)
@settings(max_examples=40)
def test_swapping_contenders_gives_the_same_crossing(
    at: float, slope: float, noise: float, seed: int
) -> None:
    log_ratios = measured(ramp(at, slope), noise=noise, seed=seed)
    ours, theirs = everything(SIZES, log_ratios), everything(SIZES, -log_ratios)
    for name in ("value", "low", "high", "curvature_p"):
        assert close(getattr(ours[0], name), getattr(theirs[0], name))
    assert ours[0].slope == pytest.approx(-theirs[0].slope)
    assert close(ours[1], theirs[1])
    assert ours[2] == pytest.approx(theirs[2])
    exchanged = {"a": "b", "b": "a"}
    assert [exchanged.get(each, each) for each in standings(log_ratios)] == standings(-log_ratios)
    one, other = (read(SIZES, standings(each)) for each in (log_ratios, -log_ratios))
    assert [(each.low, each.high, each.before) for each in one.brackets] == [
        (each.low, each.high, exchanged[each.before]) for each in other.brackets
    ]


@given(factor=st.floats(1e-3, 1e3), **CASES)
@settings(max_examples=40)
def test_the_unit_of_the_sizes_does_not_matter(
    factor: float, at: float, slope: float, noise: float, seed: int
) -> None:
    log_ratios = measured(ramp(at, slope), noise=noise, seed=seed)
    ours = everything(SIZES, log_ratios)
    scaled = everything([size * factor for size in SIZES], log_ratios)
    for name in ("value", "low", "high"):
        one, other = getattr(ours[0], name), getattr(scaled[0], name)
        assert close(None if one is None else one * factor, other)
    assert close(None if ours[1] is None else ours[1] * factor, scaled[1])
    assert [each * factor for each in ours[2]] == pytest.approx(list(scaled[2]))


@given(st.permutations(range(12)), st.integers(0, 1000))
@settings(max_examples=20)
def test_the_order_of_the_blocks_does_not_matter(order: list[int], seed: int) -> None:
    log_ratios = measured(ramp(3000, 0.08), seed=seed)
    ours, theirs = everything(SIZES, log_ratios), everything(SIZES, log_ratios[order])
    assert close(ours[0].value, theirs[0].value) and close(ours[0].low, theirs[0].low)
    assert ours[2] == pytest.approx(theirs[2])


# The second stage -------------------------------------------------------------------------------------------


def stage(
    log_ratios: Array, *, whole: bool = False, sizes: Sequence[float] = SIZES
) -> tuple[float, ...] | None:
    return second_stage(sizes, log_ratios, standings(log_ratios), blocks=12, whole=whole)


def test_second_stage_narrows_around_the_crossing_with_less_noise() -> None:
    widths = []
    for noise in (0.01, 0.1):
        dense = stage(measured(ramp(6000, 0.1), noise=noise))
        assert dense is not None
        assert dense[0] < 6000 < dense[-1]
        assert len(dense) == 7 and np.allclose(np.diff(np.log(dense)), np.diff(np.log(dense))[0])
        widths.append(dense[-1] / dense[0])
    # Never closer than half a step of the first stage, a factor of 4, within which that stage knows nothing.
    assert widths[0] == pytest.approx(2) and widths[1] > 2.3


def test_second_stage_stays_within_the_bracket() -> None:
    log_ratios = measured(ramp(6000, 0.02), noise=0.06)
    shown = standings(log_ratios)
    (bracket,) = read(SIZES, shown).brackets
    dense = stage(log_ratios)
    assert dense is not None
    assert bracket.low <= dense[0] * (1 + 1e-9) and dense[-1] <= bracket.high * (1 + 1e-9)


@pytest.mark.parametrize(
    "truth",
    [ramp(1e9, 0.1), np.zeros(7), np.array([0.3, 0.3, -0.3, -0.3, 0.3, 0.3, 0.3])],
    ids=["one is ahead everywhere", "neither anywhere", "several crossings"],
)
def test_no_second_stage_without_a_crossing(truth: Array) -> None:
    assert stage(measured(truth)) is None


def test_second_stage_covers_an_end_where_a_lead_vanishes() -> None:
    log_ratios = measured(ramp(150_000, 0.05), noise=0.1, seed=7)
    shown = standings(log_ratios)
    assert read(SIZES, shown).outcome == "where_separated"
    dense = stage(log_ratios)
    assert dense is not None and dense[0] < 150_000 <= dense[-1] <= SIZES[-1] * (1 + 1e-9)


def test_no_second_stage_at_an_end_that_is_equivalent() -> None:
    truth = np.array([0.3, 0.2, 0.1, 0.01, 0.0, -0.001, -0.002])
    log_ratios = measured(truth, noise=0.005)
    assert standings(log_ratios) == spelt("bbb====")
    assert stage(log_ratios) is None


@given(low=st.integers(1, 10**6), length=st.integers(1, 10**6), points=st.integers(2, 12))
def test_a_grid_of_whole_numbers(low: int, length: int, points: int) -> None:
    found = grid(low, low + length, points, whole=True)
    assert found[0] == low and found[-1] == low + length
    assert all(each.is_integer() for each in found) and list(found) == sorted(set(found))
    assert len(found) == min(points, length + 1) or len(found) > points // 2


def test_a_grid_over_very_many_numbers_takes_no_more_memory_than_its_points() -> None:
    assert grid(1, 10**12, 3, whole=True) == (1, 10**6, 10**12)


@given(at=st.floats(1.2, 60), seed=st.integers(0, 200))
@settings(max_examples=60)
def test_whole_numbers_of_a_second_stage(at: float, seed: int) -> None:
    """Each once, within the bracket, at least three if it has as many; none between neighbours."""
    sizes = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    log_ratios = measured(ramp(at, 0.2, sizes), seed=seed)
    pattern = read(sizes, standings(log_ratios))
    assume(pattern.outcome == "one")
    (bracket,) = pattern.brackets
    dense = stage(log_ratios, whole=True, sizes=sizes)
    if bracket.high - bracket.low <= 1:
        assert dense is None
        return
    assert dense is not None
    assert all(each.is_integer() for each in dense) and list(dense) == sorted(set(dense))
    assert bracket.low <= dense[0] and dense[-1] <= bracket.high
    assert len(dense) >= min(3, bracket.high - bracket.low + 1)


# What makes no sense ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "log_ratios", "value"),
    [
        ([64], [[0.1]], r"\[64"),
        ([], [], r"\[\]"),
        ([0, 64], [[0.1, 0.2]], r"\[0"),
        ([64, 64], [[0.1, 0.2]], r"\[64.*64"),
        ([64, 16], [[0.1, 0.2]], r"\[64.*16"),
        ([64, math.inf], [[0.1, 0.2]], "inf"),
        ([64, 128], [0.1, 0.2], r"\(2,\)"),
        ([64, 128], [[0.1, 0.2, 0.3]], r"\(1, 3\)"),
        ([64, 128], np.empty((0, 2)), r"\(0, 2\)"),
        ([64, 128], [[0.1, 0.2], [0.1, math.nan]], "nan .* 2 .* 128: "),
        ([64, 128], [[-math.inf, 0.2]], "-inf .* 1 .* 64: "),
    ],
)
def test_impossible_sizes_and_ratios_are_refused(
    sizes: list[float], log_ratios: list[list[float]], value: str
) -> None:
    for estimate in (line_crossing, monotone):
        with pytest.raises(ValueError, match=value):
            estimate(sizes, log_ratios)


def test_one_block_shows_nothing_and_bounds_nothing() -> None:
    one = measured(ramp(5000, 0.1), blocks=1)
    assert set(standings(one)) == {"undecided"}
    assert stage(one) is None
    found = line_crossing(SIZES, one)
    assert found.value is not None and not found.is_bounded and found.curvature_p is None


def test_two_blocks_are_enough_for_an_interval_but_not_for_a_bend() -> None:
    found = line_crossing(SIZES, measured(ramp(5000, 0.1), blocks=2, noise=0.001))
    assert found.is_bounded and found.curvature_p is None


def test_ties_and_zeros() -> None:
    zeros = np.zeros((12, 7))
    assert set(standings(zeros)) == {"equivalent"}
    assert stage(zeros) is None
    assert line_crossing(SIZES, zeros).low is None
    tied = np.tile(np.array([0.3, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3]), (12, 1))
    assert read(SIZES, standings(tied)).brackets == (Bracket(1024, 16384, "b", "a"),)
    assert close(line_crossing(SIZES, tied).value, 4096)
    dense = stage(tied)
    assert dense is not None and dense[0] < 4096 < dense[-1]


def test_crossing_that_overflows_is_none() -> None:
    found = line_crossing([1, 2], [[1.0, 1.0 + 1e-9], [1.0, 1.0 + 1.1e-9]])
    assert (found.value, found.low, found.high) == (None, None, None)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_a_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(ValueError, match=f"{confidence}$"):
        line_crossing(SIZES, measured(ramp(5000, 0.1)), confidence)
