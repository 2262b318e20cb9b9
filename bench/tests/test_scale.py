"""What very many hosts take: the simulation prints its figures, and finds what it is there for."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from started import bench, refusal

from scale import merging, starting
from scale.real import Calls
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.lines import LoadResult
from thunderherd.statistics import histograms

MILLISECOND = 1_000_000
CALLS = Calls(
    call=[MILLISECOND, 2 * MILLISECOND],
    start_load=[5 * MILLISECOND],
    connected=[MILLISECOND],
    mark=[MILLISECOND],
    late_ns=[0, 50_000],
)


@pytest.fixture(scope="module")
def result(real_engine: Path) -> LoadResult:
    """The result of a real load, with latencies that are the same on every machine."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("THUNDERHERD_ENGINE", str(real_engine))
        settings = {"clients": 4, "connections": "kept", "duration": 200 * MILLISECOND}
        with Server("epoll", workload="echo") as server:
            load = start_load("echo", server.ready.address, kind="closed_connections", settings=settings)
            real = load.wait(60)
    latencies = np.random.default_rng(1).lognormal(np.log(100_000), 0.3, 20_000).astype(np.int64)
    return merging.result_with(real, "real", latencies)


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a load and its server need a CPU each")
def test_every_table_is_printed() -> None:
    printed = bench("scale", "--hosts", "30", "--requests", "300")
    rows = printed.splitlines()
    for name in (*merging.HERDS, *starting.PATHS):
        assert sum(row.startswith(name) for row in rows) >= len(starting.DRIFTS), printed
    assert len([row for row in rows if row.split()[:1] == ["30"] and row[0] == " "]) == 2, printed


@pytest.mark.parametrize("name", merging.HERDS)
def test_merging_is_exact_and_averaging_is_not(result: LoadResult, name: str) -> None:
    results, requests = merging.results_of(result, merging.HERDS[name], hosts=100, requests=2000)
    found = merging.compared(results, requests)
    assert max(each.difference for each in found.values()) <= merging.RESOLUTION
    last = found["p99"]
    if merging.HERDS[name].slow and not merging.HERDS[name].closed:
        assert last.averaged is not None and last.averaged < 0.8 * last.of_all


def test_a_merge_that_loses_requests_fails_the_part(
    result: LoadResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = histograms.merged
    monkeypatch.setattr(
        "thunderherd.engine.merged_loads.merged", lambda texts: real(sorted(texts, key=len)[:1])
    )
    with pytest.raises(EngineError, match="wrong"):
        merging.show(result, hosts=20, requests=1000)


@pytest.mark.parametrize("path", starting.PATHS.values(), ids=starting.PATHS)
def test_the_error_of_a_clock_is_claimed_in_full_but_for_drift(path: starting.Path) -> None:
    for seed in range(5):
        drawn = np.random.default_rng(seed)
        assert starting.simulated(drawn, CALLS, 200, path, 0).too_small == 0.0
        assert starting.simulated(drawn, CALLS, 200, path, 500).too_small > 0.1


def test_two_hundred_milliseconds_are_too_few_for_many_hosts() -> None:
    found = starting.simulated(np.random.default_rng(1), CALLS, 500, starting.symmetrical, 0)
    assert np.ptp(found.starts_before) > 300 * MILLISECOND
    assert np.ptp(found.starts) < 1 * MILLISECOND


def test_the_most_hosts_follow_from_the_time_of_a_call() -> None:
    steady = Calls(call=[MILLISECOND])
    assert starting.most_hosts(steady, lambda hosts: 200 * MILLISECOND) == 200
    looked_at = Calls(call=[MILLISECOND], check_ns=MILLISECOND)
    assert starting.most_hosts(looked_at, lambda hosts: 200 * MILLISECOND) == 13, "13 + 13 × 13 < 200"


def test_the_hosts_of_the_tables_end_with_all_of_them() -> None:
    assert [merging.numbers_up_to(number) for number in (1, 10, 30, 1000)] == [
        [1],
        [1, 10],
        [1, 10, 30],
        [1, 10, 100, 1000],
    ]


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("words", [("--hosts", "0"), ("--hosts", "-3"), ("--requests", "0")])
def test_numbers_that_cannot_be_simulated_are_refused(words: tuple[str, str]) -> None:
    error = refusal("scale", *words)
    assert error.codes == (f"bench.bad_{words[0].removeprefix('--')}",) and " ".join(words) in str(error)
