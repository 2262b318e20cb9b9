"""The bounds of a server's CPU time: known answers, and cases without a bound."""

from __future__ import annotations

from typing import Any

import pytest
from made.summaries.bounded import CALLED, LIMITS, bound, figure

from thunderherd.records.limits import BoundSummary, MachineLimits
from thunderherd.study.loading import Study


@pytest.fixture
def study(small_study: Study) -> Study:
    return small_study


def test_server_cpu_is_bounded_by_counted_system_calls(study: Study) -> None:
    metric = "server_cpu_per_connection"
    found = bound(study, metric, {metric: 50e-6, **CALLED})
    # One send, two receives, accept and close: 5 x 200 ns.
    assert found is not None and (found.limit, found.bound) == ("system_call", pytest.approx(1e-6))
    assert found.share == pytest.approx(0.02) and found.why.startswith("5 calls ")
    twice = bound(study, metric, {metric: 50e-6, **CALLED, "requests": 2000.0})
    assert twice is not None and twice.bound == pytest.approx(8 * 200e-9), (
        "accept and close once, the rest twice"
    )
    assert bound(study, metric, {metric: 50e-6}) is None, "its calls were not counted"
    assert bound(study, metric, {metric: 50e-6, **CALLED}, calls=False) is None, "a ring makes none for each"


OF_TCP = LIMITS.model_copy(
    update={
        "figures": [*LIMITS.figures, figure("tcp_exchange", 10_000), figure("tcp_accept_close", 7_000)],
    }
)


def test_server_cpu_is_bounded_by_tcp_exchanges_and_acceptance(study: Study) -> None:
    metric = "server_cpu_per_connection"

    def of(limits: MachineLimits = OF_TCP, **changes: Any) -> BoundSummary:
        found = bound(
            study, metric, {metric: 50e-6, **CALLED} | changes.pop("but", {}), limits=limits, **changes
        )
        assert found is not None
        return found

    # Half an exchange, an acceptance, and the one of five calls that is in neither.
    found = of()
    assert (found.limit, found.bound) == ("tcp_exchange", pytest.approx(5e-6 + 7e-6 + 200e-9))
    exchange, acceptance, other = found.why.split("; ")
    assert exchange.endswith(", 5 µs") and acceptance.endswith(", 7 µs")
    assert other.startswith("1 other call, ") and " 200 ns" in other
    thrice = of(but={"requests": 3000.0})
    assert thrice.bound == pytest.approx(3 * 5.2e-6 + 7e-6) and "5 µs, 3 times;" in thrice.why
    # Without TCP, without a send for each request, or if several requests may come in one receive.
    assert of(lab={"kind": "unix"}).limit == "system_call"
    accepted = pytest.approx(7e-6 + 2.5 * 200e-9)
    seldom = of(but={"server.send_calls_per_request": 0.5})
    assert (seldom.limit, seldom.bound) == ("tcp_accept_close", accepted)
    pipelined = of(load={"settings": {**study.load.settings, "pipeline": 4}})
    assert (pipelined.limit, pipelined.bound) == ("tcp_accept_close", pytest.approx(7e-6 + 3 * 200e-9))
    # The kernel of a ring does the same work, but is not entered for each part of it.
    ring = of(calls=False)
    assert ring.bound == pytest.approx(5e-6 + 7e-6 - 4 * 200e-9) and " call" not in ring.why
    # With what it creates; per request of a persistent connection; of all connections of a task's clock.
    forked = of(name="fork_per_client", but={metric: 500e-6})
    assert (forked.limit, forked.bound) == ("fork_exit_wait", pytest.approx(100e-6 + 12.2e-6))
    metric = "server_cpu_per_request"
    kept = of(but={"connections": 0.0})
    assert (kept.limit, kept.bound) == ("tcp_exchange", pytest.approx(5.2e-6))
    metric = "server.task_clock"
    assert of(but={metric: 0.1}).bound == pytest.approx(1000 * 12.2e-6)


def test_server_cpu_per_request_is_bounded_by_its_share_of_system_calls(study: Study) -> None:
    metric = "server_cpu_per_request"
    found = bound(study, metric, {metric: 50e-6, **CALLED, "requests": 2000.0})
    assert found is not None and found.bound == pytest.approx(4 * 200e-9), "three calls, and half of two"
    kept = {name: value for name, value in CALLED.items() if name != "connections"}
    calls = bound(study, metric, {metric: 50e-6, **kept})
    assert calls is not None and calls.bound == pytest.approx(3 * 200e-9)
    forked = bound(study, metric, {metric: 500e-6, **CALLED, "requests": 2000.0}, name="fork_per_client")
    assert forked is not None and forked.bound == pytest.approx(50e-6 + 4 * 200e-9)
    assert bound(study, metric, {metric: 50e-6, **kept}, calls=False) is None


def test_server_cpu_is_bounded_by_processes_and_threads_per_connection(study: Study) -> None:
    metric = "server_cpu_per_connection"
    found = bound(study, metric, {metric: 125e-6, **CALLED}, name="fork_per_client")
    assert found is not None
    assert (found.limit, found.share) == ("fork_exit_wait", pytest.approx(101 / 125))
    thread = bound(study, metric, {metric: 42e-6, **CALLED}, makes="thread")
    assert thread is not None and (thread.limit, thread.share) == ("thread_creation", pytest.approx(0.5))


def test_a_task_clock_is_at_least_its_system_calls(study: Study) -> None:
    metric = "server.task_clock"
    found = bound(study, metric, {metric: 0.1, **CALLED}, name="fork_per_client")
    assert found is not None and (found.limit, found.bound) == ("system_call", pytest.approx(1e-3))
    life = bound(study, metric, {metric: 0.1, **CALLED}, trial="whole_life")
    window = bound(study, metric, {metric: 0.1, **CALLED})
    assert life is not None and window is not None
    assert life.why.startswith(f"{window.why}; "), "a whole life says what else is not priced"
