"""The theory of simple servers, compared with simulations and known answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from proving.queueing import (
    mean_wait,
    requests_needed,
    set_up_delay,
    stalled_share,
    stalled_wait,
    standard_error_of_mean_wait,
    wait_moments,
)


def waits(gaps: NDArray[np.float64], services: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the waits at one server in order of arrival, by the gaps before the requests (Lindley).

    A wait is the sum of all steps, less the least sum so far.
    """
    steps = np.concatenate([[0.0], services[:-1] - gaps[1:]])
    total = np.cumsum(steps)
    found: NDArray[np.float64] = total - np.minimum.accumulate(np.minimum(total, 0.0))
    return found


def test_recursion_of_waits_matches_a_queue() -> None:
    gaps, services = np.array([0, 1, 1, 5, 1.0]), np.array([3, 1, 1, 2, 1.0])
    assert waits(gaps, services).tolist() == [0, 2, 2, 0, 1]


@pytest.mark.parametrize("utilisation", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_known_answers_of_one_server_with_constant_service(utilisation: float) -> None:
    service = 0.2
    rate = utilisation / service
    expected = utilisation * service / 2 / (1 - utilisation)
    assert mean_wait(rate, service) == pytest.approx(expected)
    # Kleinrock, section 5.7, of the second moment.
    second = 2 * expected**2 + rate * service**3 / 3 / (1 - utilisation)
    assert wait_moments(rate, service)[2] == pytest.approx(second)


@pytest.mark.parametrize("utilisation", [0.3, 0.5, 0.7])
def test_moments_and_standard_error_match_a_simulation(utilisation: float) -> None:
    rows, requests = 400, 8000
    random = np.random.default_rng(1)
    gaps = random.exponential(1 / utilisation, (rows, requests + 500))
    seen = np.array([waits(each, np.ones(requests + 500))[500:] for each in gaps])
    means = seen.mean(axis=1)
    error = standard_error_of_mean_wait(utilisation, 1, requests)
    _, first, second, third = wait_moments(utilisation, 1)
    assert abs(means.mean() - first) < 4 * error / np.sqrt(rows)
    assert (seen**2).mean() == pytest.approx(second, rel=0.03)
    assert (seen**3).mean() == pytest.approx(third, rel=0.06)
    # A standard deviation of so many has a standard error of 1 / √(2 · 400), 3.5 %.
    assert means.std(ddof=1) == pytest.approx(error, rel=0.14)


@pytest.mark.parametrize("utilisation", [0.3, 0.7])
def test_a_wake_up_delays_all_of_a_busy_period(utilisation: float) -> None:
    random = np.random.default_rng(3)
    gaps = random.exponential(1 / utilisation, 400_000)
    set_up, ready, now = 0.4, 0.0, 0.0
    latencies = []
    for gap in gaps:
        now += gap
        ready = (now + set_up if ready <= now else ready) + 1
        latencies.append(ready - now)
    expected = 1 + mean_wait(utilisation, 1) + set_up_delay(utilisation, set_up)
    assert np.mean(latencies) == pytest.approx(expected, rel=0.015)


def test_requests_needed_reach_the_standard_error() -> None:
    requests = requests_needed(0.01, 3.0, 0.2)
    assert standard_error_of_mean_wait(3.0, 0.2, requests) <= 0.01
    assert standard_error_of_mean_wait(3.0, 0.2, requests - 1) > 0.01


def test_an_overloaded_server_has_no_mean() -> None:
    with pytest.raises(ValueError, match=r"\b1(\.0)?$"):
        mean_wait(5, 0.2)


@pytest.mark.parametrize("utilisation", [0.0, 0.3, 0.6])
def test_stalled_waits_match_the_fluid_limit(utilisation: float) -> None:
    """Simulates a stall as a request that takes as long as the stall, and precedes all later requests."""
    stall, every, stalls = 50.0, 500.0, 400
    random = np.random.default_rng(2)
    service = utilisation / 20 if utilisation else 1e-6
    arrivals = np.cumsum(random.exponential(1 / 20, int(20 * every * stalls)))
    begins = np.arange(1, stalls) * every
    moments = np.concatenate([begins, arrivals])
    order = np.argsort(moments, kind="stable")
    services = np.concatenate([np.full(begins.size, stall), np.full(arrivals.size, service)])[order]
    seen = waits(np.diff(moments[order], prepend=0.0), services)[order >= begins.size]
    for share in (0.9, 0.95, 0.99):
        expected = stalled_wait(share, stall, every, utilisation)
        if expected:
            assert np.quantile(seen, share) == pytest.approx(expected, rel=0.02), share
    for wait in (5.0, 25.0, 45.0):
        expected = stalled_share(wait, stall, every, utilisation)
        assert (seen > wait).mean() == pytest.approx(expected, rel=0.05), wait


def test_a_wait_and_its_share_are_the_inverse_of_each_other() -> None:
    for share in (0.9, 0.99, 0.999):
        wait = stalled_wait(share, 50, 500, 0.4)
        assert stalled_share(wait, 50, 500, 0.4) == pytest.approx(1 - share)
    assert stalled_wait(0.5, 50, 500, 0.4) == 0
    assert stalled_share(50, 50, 500, 0.4) == 0


def test_a_backlog_that_grows_has_no_answer() -> None:
    with pytest.raises(ValueError, match=r"\b500\b.*\b300\b"):
        stalled_wait(0.99, 300, 500, 0.5)
