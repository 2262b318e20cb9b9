"""The arithmetic of the knee against known answers of M/M/1, whose response times are exponential.

At rate L of a server that does M a second the 99th percentile is ln(100) / (M - L).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.statistics.knees import (
    AtRate,
    RateRange,
    TypicalLatency,
    compare_knees,
    knee,
    knee_of_block,
    typical_latency,
)

CAPACITY, GOAL = 10_000.0, 0.002
TRUTH = CAPACITY - math.log(100) / GOAL
"""The knee for p99 = 2 ms: 7,697 a second."""


def at(rate: float, capacity: float = CAPACITY) -> AtRate:
    """Return trials of M/M/1 without noise; none at its capacity or beyond."""
    if rate >= capacity:
        return AtRate(rate, None, overloaded=True)
    return AtRate(rate, math.log(100) / (capacity - rate))


def exactly(rate: float) -> RateRange:
    return RateRange(rate, rate)


def test_overloaded_trials_count_as_the_largest_latency() -> None:
    def typical(overloaded: int, trials: int = 6) -> TypicalLatency:
        kept = [AtRate(1000, 0.001 * (1 + each), False) for each in range(trials - overloaded)]
        return typical_latency([*kept, *[AtRate(1000, 0.0001, True)] * overloaded])

    whole, one, three = (typical(overloaded) for overloaded in (0, 1, 3))
    assert whole.value and one.value and whole.value < one.value < 0.006
    assert whole.high is not None and one.high is None and one.low is not None
    assert three == TypicalLatency(None, three.low, None)
    assert typical(6) == typical_latency([]) == TypicalLatency(None, None, None)


def test_the_knee_of_a_known_queue() -> None:
    found = knee_of_block([at(rate) for rate in range(1000, 12_000, 100)], GOAL)
    assert found.low == found.high == pytest.approx(TRUTH, rel=1e-3)
    coarse = knee_of_block([at(rate) for rate in (4000, 6000, 7000, 8000, 9000)], GOAL)
    assert 0.98 * TRUTH < coarse.low == coarse.high < TRUTH, "a chord lies above the curve"


def test_knee_before_an_overloaded_rate_lies_between_two_rates() -> None:
    rates = (2000, 7000, 12_000)
    assert knee_of_block([at(rate) for rate in rates], GOAL) == RateRange(7000, 12_000)
    # However small the percentile of a trial that did not keep up.
    trials = [AtRate(2000, 0.0005), AtRate(7000, 0.001), AtRate(12_000, 0.0001, overloaded=True)]
    assert knee_of_block(trials, GOAL) == RateRange(7000, 12_000)


def test_knee_below_or_above_all_rates_is_a_range() -> None:
    assert knee_of_block([at(rate) for rate in (8000, 9000)], GOAL) == RateRange(0, 8000)
    assert knee_of_block([at(rate) for rate in (12_000, 13_000)], GOAL) == RateRange(0, 12_000)
    assert knee_of_block([at(rate) for rate in (1000, 2000)], GOAL) == RateRange(2000, math.inf)


def test_a_single_bad_trial_of_a_low_rate_is_weighed_against_its_neighbours() -> None:
    trials = [at(1000), AtRate(2000, 0.004), *(at(rate) for rate in (3000, 4000, 5000, 6000, 7000, 8000))]
    assert knee_of_block(trials, GOAL).low > 7000


@given(
    st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=8),
    st.floats(1e-6, 1.0),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_every_block_has_an_answer_within_its_rates(
    latencies: list[float], goal: float, overloaded: list[bool]
) -> None:
    rates = [100.0 * 2**place for place in range(len(latencies))]
    trials = [AtRate(*each) for each in zip(rates, latencies, overloaded, strict=False)]
    found = knee_of_block(trials, goal)
    assert found == knee_of_block(trials[::-1], goal)
    assert 0 <= found.low <= found.high
    assert found.low <= rates[-1]
    assert found.high >= rates[0]


def test_impossible_blocks_are_refused() -> None:
    for trials, goal, wrong in (
        ([at(1000)], GOAL, r"\[1000"),
        ([at(1000), at(1000)], GOAL, r"\[1000.*1000"),
        ([at(1000), at(1000), at(2000)], GOAL, r"\[1000.*1000.*2000"),
        ([AtRate(1000, None), at(2000)], GOAL, "1000"),
        ([AtRate(1000, 0.0), at(2000)], GOAL, r"0\.0 .*1000"),
        ([at(1000), at(2000)], 0.0, r"0\.0"),
    ):
        with pytest.raises(ValueError, match=wrong):
            knee_of_block(trials, goal)
    with pytest.raises(ValueError):
        knee([])
    with pytest.raises(ValueError, match="'a': 1, 'b': 0"):
        compare_knees({"a": [exactly(1.0)], "b": []})


def test_the_estimate_over_blocks() -> None:
    found = knee([exactly(rate) for rate in (950, 1000, 1010, 990, 1005, 1000, 1100, 995)])
    assert found.outcome == "one"
    assert found.value == pytest.approx(1000, rel=0.01)
    assert 950 <= found.low < 1000 < found.high <= 1100
    assert found.confidence >= 0.95
    few = knee([exactly(1000)] * 3)
    assert (few.low, few.high, few.outcome) == (0.0, math.inf, "one")


def test_knees_between_two_rates_give_no_narrower_interval() -> None:
    found = knee([RateRange(1000, 2000)] * 8)
    assert found.value == pytest.approx(math.sqrt(2) * 1000)
    assert (found.low, found.high) == (pytest.approx(1000), pytest.approx(2000))
    assert found.between == 8


def test_outcomes_over_blocks() -> None:
    below, above = RateRange(0, 1000), RateRange(8000, math.inf)
    assert knee([below] * 8).outcome == "none"
    assert knee([below] * 8).high == pytest.approx(1000)
    assert knee([above] * 8).outcome == "all"
    assert knee([above] * 8).low == pytest.approx(8000)
    assert knee([below, above] * 4).outcome == "unclear"
    one = knee([above, *[exactly(5000)] * 9])
    assert (one.outcome, one.value) == ("one", pytest.approx(5000))


def test_comparison_of_knees_uses_only_certain_ranges() -> None:
    many = 12
    ranges = {
        "slow": [exactly(1000 * (1 + 0.01 * block)) for block in range(many)],
        "fast": [exactly(1500 * (1 + 0.01 * block)) for block in range(many)],
        "twin": [exactly(1000 * (1 + 0.01 * block)) for block in range(many)],
        "beyond": [RateRange(2000, math.inf)] * many,
        "vague": [RateRange(900, 1600)] * many,
    }
    found = {(pair.a, pair.b): pair for pair in compare_knees(ranges)}
    assert len(found) == 10
    assert found["slow", "fast"].verdict == "lower"
    assert found["slow", "fast"].ratio == pytest.approx(1 / 1.5)
    assert found["slow", "twin"].verdict == "equivalent"
    assert found["slow", "beyond"].verdict == "lower"
    assert found["slow", "beyond"].ratio is None
    assert found["fast", "vague"].verdict == "undecided"
    assert found["slow", "vague"].verdict == "undecided"
    assert found["beyond", "vague"].verdict == "higher"
    assert all(
        pair.verdict == "undecided" for pair in compare_knees({"a": ranges["beyond"], "b": ranges["beyond"]})
    )


# Simulation -------------------------------------------------------------------------------------------------

RATES = (4000, 5500, 6500, 7200, 7800, 8400, 9000)
BLOCKS = 10


def simulated(generator: np.random.Generator, rate: float, seconds: float) -> AtRate:
    """Return a trial of M/M/1 in steady state: Lindley's recursion, as a running minimum."""
    warm, count = 2000, generator.poisson(rate * seconds)
    gaps = generator.exponential(1 / rate, warm + count)
    services = generator.exponential(1 / CAPACITY, warm + count)
    walk = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    responses = walk - np.minimum.accumulate(walk) + services
    return AtRate(rate, float(np.quantile(responses[warm:], 0.99)))


@pytest.mark.parametrize(
    ("seconds", "runs", "least", "bias"),
    [(0.5, 100, 0.7, 0.025), pytest.param(4.0, 60, 0.9, 0.006, marks=pytest.mark.thorough)],
)
def test_the_interval_holds_the_knee_of_a_simulated_queue(
    seconds: float, runs: int, least: float, bias: float
) -> None:
    """Ten blocks of seven rates of M/M/1, whose knee is known. Short windows see too few long queues."""
    generator, held, errors = np.random.default_rng(7), 0, []
    for _ in range(runs):
        blocks = [
            knee_of_block([simulated(generator, rate, seconds) for rate in RATES], GOAL)
            for _ in range(BLOCKS)
        ]
        found = knee(blocks)
        held += found.low <= TRUTH <= found.high
        errors.append((found.value or math.nan) / TRUTH - 1)
    print(f"{seconds:g} s: held in {held / runs:.1%}, off by {np.median(errors):+.2%}")
    assert held / runs >= least
    assert abs(float(np.median(errors))) < bias
