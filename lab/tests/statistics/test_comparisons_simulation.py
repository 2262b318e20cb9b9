"""The whole procedure if the truth is known: false positives, power and coverage, by simulation.

`pytest lab/tests/statistics/test_comparisons_simulation.py -s` prints the figures that the methodology
quotes. The seeds are fixed. Each bound is at least four standard errors of the simulation away from the
expected value, so a failure means that the procedure has changed.
"""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy
from made.simulations import report
from numpy.typing import NDArray

from thunderherd.statistics.comparisons import (
    Look,
    PairResult,
    compare_at_looks,
    compare_family,
    first_look_blocks,
    planned_looks,
)
from thunderherd.statistics.samples import hodges_lehmann, signed_rank, standard_shift
from thunderherd.statistics.verdicts import Verdict, all_decided, holm

Array = NDArray[np.float64]

LOOKS = planned_looks([10, 20, 40], 0.05, [0.2, 0.3, 0.5])
FIVE_PERCENT = math.log(1.05)


def ends(log_ratios: Array, equivalence_ratio: float = 1.03) -> list[PairResult]:
    """Return the results of runs (one a row) that stop at the first look that decides."""
    ended = []
    for run in log_ratios:
        costs = np.exp(run).tolist()
        for look in LOOKS:
            values = {"a": costs[: look.blocks], "b": [1.0] * look.blocks}
            results = compare_at_looks(values, [("a", "b")], LOOKS, equivalence_ratio=equivalence_ratio)
            if all_decided(results):
                break
        ended += results
    return ended


def share(results: list[PairResult], verdict: Verdict) -> float:
    return sum(result.verdict is verdict for result in results) / len(results)


def held(result: PairResult, truth: float) -> bool:
    assert result.low is not None
    assert result.high is not None
    return result.low <= truth <= result.high


def machine_noise(generator: np.random.Generator, runs: int, trials: int) -> Array:
    """Return the log cost of successive trials: 9 % noise, two thirds of its variance a slow drift.

    The drift is autoregressive, .95 from one trial to the next, like that of temperature and neighbours.
    """
    steps = generator.standard_normal((runs, trials))
    drift = np.empty_like(steps)
    drift[:, 0] = steps[:, 0]
    for trial in range(1, trials):
        drift[:, trial] = 0.95 * drift[:, trial - 1] + math.sqrt(1 - 0.95**2) * steps[:, trial]
    own = generator.standard_normal((runs, trials))
    noise: Array = 0.09 * (math.sqrt(2 / 3) * drift + math.sqrt(1 / 3) * own)
    return noise


def in_blocks(noise: Array, generator: np.random.Generator) -> Array:
    """Return within-block log ratios of two contenders that alternate in random order."""
    return np.where(generator.random(noise[:, ::2].shape) < 0.5, 1, -1) * (noise[:, ::2] - noise[:, 1::2])


def p_values(log_ratios: Array) -> Array:
    """Return the two-sided signed-rank p over the last axis, for whole arrays without ties."""
    blocks = log_ratios.shape[-1]
    patterns = np.array([1.0])
    for rank in range(1, blocks + 1):
        patterns = np.convolve(patterns, np.eye(1, rank + 1, rank)[0] + np.eye(1, rank + 1)[0]) / 2
    at_most = np.cumsum(patterns)
    positive = (scipy.stats.rankdata(np.abs(log_ratios), axis=-1) * (log_ratios > 0)).sum(axis=-1).astype(int)
    smaller = np.minimum(positive, len(patterns) - 1 - positive)
    p: Array = np.minimum(1, 2 * at_most[smaller])
    return p


def test_false_positives_of_all_three_looks_together() -> None:
    print("\nOne pair, looks at 10, 20 and 40 blocks, no true difference")
    generator = np.random.default_rng(1)
    runs = 5_000
    bursts = generator.standard_exponential((2, runs, 40)) ** 3 * 0.05
    for what, log_ratios in {
        "normal noise": generator.normal(0, 0.09, (runs, 40)),
        "skewed noise, with bursts": bursts[0] - bursts[1],
        "drifting noise": in_blocks(machine_noise(generator, runs, 80), generator),
    }.items():
        wrong = np.any([p_values(log_ratios[:, : look.blocks]) <= look.alpha for look in LOOKS], axis=0)
        report(f"{what}, declared different at any look", float(wrong.mean()), "at most 5")
        assert wrong.mean() <= 0.05 + 0.012
        # The arrays give the same as the functions that a run uses.
        results = ends(log_ratios[:60], equivalence_ratio=1 + 1e-9)
        assert [result.verdict is not Verdict.UNDECIDED for result in results] == wrong[:60].tolist()


@pytest.mark.thorough
def test_power() -> None:
    print("\nOne pair, looks at 10, 20 and 40 blocks, true difference 5 %")
    generator = np.random.default_rng(2)
    drifting = in_blocks(machine_noise(generator, 1000, 80), generator)
    for what, log_ratios, least in [
        ("9 % noise of which two thirds drift, found", FIVE_PERCENT + drifting, 0.88),
        ("9 % independent noise of the ratio, found", generator.normal(FIVE_PERCENT, 0.09, (1000, 40)), 0.80),
        (
            "9 % independent noise of each trial, found",
            generator.normal(FIVE_PERCENT, 0.127, (1000, 40)),
            0.45,
        ),
    ]:
        results = ends(log_ratios)
        covered = float(np.mean([held(result, 1.05) for result in results]))
        ratios = [result.ratio for result in results if result.verdict is Verdict.SLOWER]
        report(what, share(results, Verdict.SLOWER), f"above {100 * least:.0f}")
        report("    interval at the look that ended the run holds 5 %", covered, "at least 95")
        report("    difference shown where found, on average", float(np.mean(ratios)) - 1, "true: 5")
        assert share(results, Verdict.SLOWER) > least
        assert share(results, Verdict.FASTER) < 0.01
        assert covered >= 0.95 - 0.03


def test_five_against_five_back_to_back_is_worse() -> None:
    print("\nThe same drifting noise, five trials of one, then five of the other, t-test at 5 %")
    noise = machine_noise(np.random.default_rng(3), 10_000, 10)

    def found(effect: float) -> float:
        return float(
            (scipy.stats.ttest_ind(noise[:, :5] + effect, noise[:, 5:], axis=1).pvalue < 0.05).mean()
        )

    report("no difference, declared different", found(0.0), "should be 5")
    report("5 % difference, declared different", found(FIVE_PERCENT), "the false ones included")
    assert 0.10 < found(0.0) < 0.20
    assert found(FIVE_PERCENT) < 0.40


def test_false_equivalence() -> None:
    print("\nOne pair, looks at 10, 20 and 40 blocks, true difference exactly the margin of 3 %")
    log_ratios = np.random.default_rng(4).normal(math.log(1.03), 0.04, (1000, 40))
    wrong = share(ends(log_ratios), Verdict.EQUIVALENT)
    report("declared equivalent", wrong, "at most 2.5")
    assert wrong <= 0.025 + 0.02


@pytest.mark.parametrize("blocks", [11, 20, 40])
def test_coverage(blocks: int) -> None:
    samples = np.random.default_rng(blocks).normal(0, 0.09, (4000, blocks))
    estimates = [hodges_lehmann(sample, 0.95) for sample in samples]
    covered = np.mean([estimate.low <= 0 <= estimate.high for estimate in estimates])  # type: ignore[operator]
    said = estimates[0].confidence
    report(f"\n95 % interval of {blocks} blocks holds the truth", float(covered), f"said: {100 * said:.1f}")
    assert covered == pytest.approx(said, abs=0.014)


@pytest.mark.parametrize(("blocks", "alpha"), [(11, 0.05), (14, 0.01), (20, 0.015), (40, 0.025)])
def test_smallest_detectable_effect(blocks: int, alpha: float) -> None:
    corrected = alpha / 46
    shift = standard_shift(blocks, corrected, 0.8)
    assert shift is not None
    samples = np.random.default_rng(7).normal(shift, 1, (4000, blocks))
    found = float((p_values(samples) <= corrected).mean())
    print(f"\n{blocks} blocks, alpha {alpha:g} over 46 comparisons: {shift:.2f} standard deviations")
    report("a shift of that size is found", found, "80")
    assert found == pytest.approx(0.8, abs=0.04)


# Families: ten contenders, 45 pairs


@pytest.mark.parametrize(("slower", "looks"), [(0, [14, 20, 40]), (5, [14, 20, 40]), (0, [11])])
def test_family_wise_error(slower: int, looks: list[int]) -> None:
    """`slower` of ten contenders cost 1, 2, ... times 50 % more; the others are truly equal."""
    split = [0.2, 0.3, 0.5] if len(looks) == 3 else [1.0]
    planned = planned_looks(looks, 0.05, split)
    generator = np.random.default_rng([slower, len(looks)])
    runs = 1500
    effects = np.maximum(0, np.arange(10) - (9 - slower)) * math.log(1.5)
    costs = generator.normal(0, 0.06, (runs, looks[-1], 10)) + effects
    pairs = list(combinations(range(10), 2))
    log_ratios = np.stack([costs[:, :, a] - costs[:, :, b] for a, b in pairs], axis=1)
    equal = np.array([effects[a] == effects[b] for a, b in pairs])

    rejected = np.zeros((runs, len(pairs)), dtype=bool)
    for look in planned:
        p = p_values(log_ratios[:, :, : look.blocks])
        rejected |= np.array([holm(list(family)) for family in p]) <= look.alpha
    wrong = float(rejected[:, equal].any(axis=1).mean())
    print(f"\nTen contenders, 45 pairs, looks at {looks}, {equal.sum()} pairs truly equal")
    report("one or more of them declared different", wrong, "at most 5")
    assert wrong <= 0.05 + 0.023
    if slower:
        report("pairs that differ by 50 % or more found", float(rejected[:, ~equal].mean()), "100")
        assert rejected[:, ~equal].mean() > 0.99

    # The arrays above give the same as the functions that a run uses.
    for run in range(8):
        values = {str(name): np.exp(costs[run, :, name]).tolist() for name in range(10)}
        named = [(str(a), str(b)) for a, b in pairs]
        results = compare_at_looks(values, named, planned, equivalence_ratio=1 + 1e-9)
        assert [result.verdict is not Verdict.UNDECIDED for result in results] == rejected[run].tolist()
        assert signed_rank(log_ratios[run, 0]).p_two_sided == pytest.approx(p_values(log_ratios[run, 0]))


def test_simultaneous_coverage() -> None:
    runs, share = 4000, 0.05 / 45
    costs = np.random.default_rng(5).normal(0, 0.03, (runs, 20, 10))
    pairs = list(combinations(range(10), 2))
    # An interval holds the truth if and only if its test does not reject the truth.
    inside = np.stack([p_values(costs[:, :, a] - costs[:, :, b]) > share for a, b in pairs], axis=1)
    covered = float(inside.all(axis=1).mean())
    print("\nTen contenders, 45 pairs, 20 blocks, one look")
    report("all 45 simultaneous intervals hold the truth", covered, "at least 95")
    assert covered >= 0.95 - 0.014

    for run in range(40):
        values = {str(name): np.exp(costs[run, :, name]).tolist() for name in range(10)}
        results = compare_family(values, [(str(a), str(b)) for a, b in pairs], alpha=0.05)
        bounds = [(result.simultaneous_low, result.simultaneous_high) for result in results]
        assert [low <= 1 <= high for low, high in bounds] == inside[run].tolist()  # type: ignore[operator]


@pytest.mark.parametrize("blocks", [11, 20, 40])
@pytest.mark.parametrize(("noise", "at_most"), [("normal", 0.05), ("exponential", 0.10)])
def test_equal_spreads_called_different(blocks: int, noise: str, at_most: float) -> None:
    """The contrast of two deviations (`of = "deviation"`) of contenders that spread alike."""
    runs = 4000
    drawn = getattr(np.random.default_rng(6), {"normal": "standard_normal"}.get(noise, noise))
    values = drawn(size=(runs, blocks, 2))
    distances = np.abs(values - np.median(values, axis=1, keepdims=True))
    wrong = float((p_values(distances[:, :, 0] - distances[:, :, 1]) <= 0.05).mean())
    print(f"\nTwo contenders of equal spread, {blocks} blocks, {noise} noise")
    report("their spreads declared different", wrong, f"at most {100 * at_most:.0f}")
    assert wrong <= at_most + 0.015


@pytest.mark.thorough
def test_a_comparison_in_several_metrics_that_a_time_budget_ends() -> None:
    """Two and three equal contenders, six metrics that move together, a last look at any block.

    This is what `compare` does: all pairs in all metrics are one family, and the clock ends the run.
    """
    print("\nEqual contenders in six correlated metrics, one or more called different in any")
    generator = np.random.default_rng(9)
    runs, metrics = 400, 6
    for contenders in (2, 3):
        pairs = list(combinations(range(contenders), 2))
        family = [(f"{metric} of {a}", f"{metric} of {b}") for metric in range(metrics) for a, b in pairs]
        first = first_look_blocks(len(family), 0.05, 0.3)
        planned = planned_looks([first, math.ceil(1.5 * first), 2 * first], 0.05, [0.3, 0.3, 0.4])
        wrong = 0
        for _ in range(runs):
            # Half of the variance is shared by all metrics of a trial.
            shared = generator.normal(0, 0.09, (contenders, 1, 2 * first))
            own = generator.normal(0, 0.09, (contenders, metrics, 2 * first))
            costs = np.exp(shared + own)
            stop = int(generator.integers(first - 3, 2 * first + 1))
            taken = [look for look in planned if look.blocks <= stop]
            left = sum(look.alpha for look in planned[len(taken) :])
            if left and (not taken or stop > taken[-1].blocks):
                taken.append(Look(stop, left))
            values = {
                f"{metric} of {each}": costs[each, metric, :stop].tolist()
                for each in range(contenders)
                for metric in range(metrics)
            }
            results = compare_at_looks(values, family, taken)
            wrong += any(result.verdict in (Verdict.FASTER, Verdict.SLOWER) for result in results)
        report(f"{contenders} contenders, {len(family)} comparisons", wrong / runs, "at most 5")
        assert wrong / runs <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
