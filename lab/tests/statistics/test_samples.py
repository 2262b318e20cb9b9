"""The pure functions of samples.py against published answers, scipy and brute force."""

import math
import re
from collections import Counter
from itertools import product

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from thunderherd.statistics.samples import (
    hodges_lehmann,
    robust_spread,
    signed_rank,
    smallest_detectable_effect,
    standard_shift,
)

# Hollander and Wolfe, table 3.1: a depression scale of nine patients, before and after a tranquillizer.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
# Darwin's maize, crossed minus self-fertilised, in eighths of an inch (Fisher, The Design of Experiments).
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def normal_sample(n: int, seed: int = 1, mean: float = 0.0, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng([n, seed]).normal(mean, spread, n)


# The signed-rank test


def test_signed_rank_gives_the_published_answers() -> None:
    depression = signed_rank(AFTER - BEFORE)
    assert (depression.statistic, depression.n, depression.zeros) == (5, 9, 0)
    assert (
        depression.p_less == 0.01953125
    )  # R's documentation of wilcox.test prints V = 40, p-value = 0.01953
    maize = signed_rank(MAIZE)
    assert maize.statistic == 96
    assert maize.p_two_sided == pytest.approx(0.04126, abs=5e-6)


@pytest.mark.parametrize(
    ("n", "critical"),
    [(6, 0), (8, 3), (10, 8), (15, 25), (20, 52), (25, 89), (30, 137), (40, 264), (50, 434)],
)
def test_signed_rank_has_the_critical_values_of_the_printed_tables(n: int, critical: int) -> None:
    def p_with_negative_ranks_of_sum(target: int) -> float:
        sample = np.arange(1.0, n + 1)
        for rank in range(n, 0, -1):
            if rank <= target:
                sample[rank - 1] *= -1
                target -= rank
        return signed_rank(sample).p_two_sided

    assert p_with_negative_ranks_of_sum(critical) <= 0.05 < p_with_negative_ranks_of_sum(critical + 1)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9, 10, 11, 14, 20, 33, 40, 60])
@pytest.mark.parametrize("mean", [0.0, 0.4, -1.0])
def test_signed_rank_agrees_with_scipy_without_ties(n: int, mean: float) -> None:
    sample = normal_sample(n, mean=mean)
    ours = signed_rank(sample)
    for p, alternative in [
        (ours.p_two_sided, "two-sided"),
        (ours.p_greater, "greater"),
        (ours.p_less, "less"),
    ]:
        assert p == pytest.approx(
            scipy.stats.wilcoxon(sample, alternative=alternative, method="exact").pvalue, rel=1e-9
        )


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=10))
def test_signed_rank_agrees_with_the_enumeration_of_all_signs(sample: list[int]) -> None:
    ranks = scipy.stats.rankdata(np.abs(sample))[np.array(sample) != 0]
    signs = np.array(list(product([0, 1], repeat=len(ranks))))
    sums = signs @ ranks
    observed = scipy.stats.rankdata(np.abs(sample))[np.array(sample) > 0].sum()
    ours = signed_rank(sample)
    assert ours.statistic == observed
    assert ours.zeros == sample.count(0)
    assert_allclose(ours.p_greater, (sums >= observed).mean(), rtol=1e-12)
    assert_allclose(ours.p_less, (sums <= observed).mean(), rtol=1e-12)
    assert_allclose(ours.p_two_sided, min(1, 2 * min(ours.p_greater, ours.p_less)), rtol=1e-12)


@pytest.mark.parametrize("n", [30, 60, 90])
def test_signed_rank_of_many_ties_agrees_with_whole_numbers(n: int) -> None:
    sample = np.round(normal_sample(n, mean=0.5) * 4)
    patterns = Counter({0: 1})
    doubled = np.round(2 * scipy.stats.rankdata(np.abs(sample))).astype(int)
    for rank in doubled[sample != 0].tolist():
        patterns = Counter(
            {s: patterns[s] + patterns[s - rank] for s in {*patterns, *(p + rank for p in patterns)}}
        )
    observed = int(doubled[sample > 0].sum())
    exact = sum(count for s, count in patterns.items() if s >= observed) / 2 ** int((sample != 0).sum())
    assert signed_rank(sample).p_greater == pytest.approx(exact, rel=1e-12)


def test_signed_rank_ranks_zeros_and_then_leaves_them_out() -> None:
    # Ranks 1.5 1.5 3 4 5; those of the zeros are left out: -2 keeps rank 3, the positive ones 4 and 5.
    assert signed_rank([0, 0, -2, 3, 4]).statistic == 9
    assert signed_rank([0.0, 0.0, 0.0]).p_two_sided == 1


@pytest.mark.parametrize("sample", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0]]])
def test_signed_rank_refuses_samples_without_finite_numbers(sample: list[float]) -> None:
    with pytest.raises(ValueError, match=re.escape(str(sample))):
        signed_rank(sample)


# The Hodges-Lehmann estimate


def test_hodges_lehmann_gives_the_published_answers() -> None:
    estimate = hodges_lehmann(AFTER - BEFORE, 0.95)  # Hollander and Wolfe, examples 3.3 and 3.4
    assert estimate.value == pytest.approx(-0.46)
    assert [estimate.low, estimate.high] == pytest.approx([-0.786, -0.010])
    assert estimate.confidence == pytest.approx(0.961, abs=5e-4)


def test_hodges_lehmann_of_three() -> None:
    estimate = hodges_lehmann([1.0, 2.0, 9.0], 0.75)  # Walsh averages 1, 1.5, 2, 5, 5.5, 9
    assert (estimate.value, estimate.low, estimate.high, estimate.confidence) == (3.5, 1, 9, 0.75)


@pytest.mark.parametrize("n", range(1, 6))
def test_hodges_lehmann_has_no_bounds_with_too_few_blocks(n: int) -> None:
    estimate = hodges_lehmann(normal_sample(n), 0.95)
    assert (estimate.low, estimate.high, estimate.confidence, estimate.n) == (None, None, 1, n)


@given(st.integers(0, 10_000), st.integers(6, 45), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_interval_holds_what_the_test_does_not_reject(seed: int, n: int, confidence: float) -> None:
    sample = normal_sample(n, seed)
    estimate = hodges_lehmann(sample, confidence)
    if estimate.low is None or estimate.high is None:
        assert 2 ** (1 - n) > 1 - confidence
        return
    assert estimate.low <= estimate.value <= estimate.high
    assert confidence <= estimate.confidence < 1
    for bound, inwards in [(estimate.low, 1e-9), (estimate.high, -1e-9)]:
        assert signed_rank(sample - bound - inwards).p_two_sided > 1 - confidence
        assert signed_rank(sample - bound + inwards).p_two_sided == pytest.approx(1 - estimate.confidence)


def test_hodges_lehmann_refuses_an_invalid_confidence() -> None:
    with pytest.raises(ValueError, match="95"):
        hodges_lehmann([1.0, 2.0], 95)


# Spread and smallest detectable effect


@pytest.mark.parametrize("n", [2, 5, 9, 10, 11, 14, 20, 40])
def test_robust_spread_is_right_on_average(n: int) -> None:
    samples = np.random.default_rng(n).normal(size=(2000, n)) * 3
    assert np.mean([robust_spread(sample) for sample in samples]) == pytest.approx(3, rel=0.07)


def test_robust_spread_endures_a_third_of_wild_values() -> None:
    sample = normal_sample(30)
    wild = np.concatenate([sample[:20], sample[20:] + 1e6])
    assert robust_spread(wild) < 4 * robust_spread(sample)


def test_robust_spread_needs_two_observations() -> None:
    with pytest.raises(ValueError, match=r"1$"):
        robust_spread([1.0])


def test_smallest_detectable_effect_if_every_sign_must_agree() -> None:
    # All 11 differences lie above zero with probability .8, so one does with .8 ** (1 / 11) = .9799.
    assert standard_shift(11, 0.05 / 45, 0.8) == pytest.approx(2.052, abs=0.04)


def test_smallest_detectable_effect_in_percent() -> None:
    sample = normal_sample(40, spread=0.02)
    shift = standard_shift(40, 0.01, 0.8)
    assert shift is not None
    expected = 100 * (math.exp(shift * robust_spread(sample)) - 1)
    assert smallest_detectable_effect(sample, 0.01) == pytest.approx(expected)
    assert smallest_detectable_effect(sample[:9], 0.05 / 45) is None


def test_standard_shift_of_many_observations() -> None:
    at_hundred = standard_shift(100, 0.01, 0.8)
    assert at_hundred is not None
    normal = (2.5758 + 0.8416) / math.sqrt(
        100 * 3 / math.pi
    )  # 3 / pi: the test's asymptotic relative efficiency
    assert at_hundred == pytest.approx(normal, rel=0.04)
    assert standard_shift(101, 0.01, 0.8) == pytest.approx(at_hundred, rel=0.01)
    assert standard_shift(400, 0.01, 0.8) == pytest.approx(at_hundred / 2)
