"""Faults of a trial that no fake engine shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from thunderherd.machine import noise
from thunderherd.study.loading import Study
from thunderherd.trial.faults import SERVER_THROTTLED, THROTTLED, faults_of, server_failed
from thunderherd.trial.observation import Observation

BEFORE = noise.Sample(
    monotonic=100.0, cpus=2, tasks=10.0, interrupts=1.0, steal=3.0, own=1.0, children=5.0, supervisor=0.0,
    throttled=4, throttled_seconds=7.0,
)  # fmt: skip


@pytest.mark.parametrize(("stopped", "is_fault"), [(0.0, False), (0.005, False), (0.02, True), (3.0, True)])
@pytest.mark.parametrize("is_server", [True, False])
def test_a_cpu_quota_that_stops_a_side_makes_a_trial_invalid(
    stopped: float, is_fault: bool, is_server: bool, small_study: Study
) -> None:
    after = replace(
        BEFORE, monotonic=101.0, throttled=5, throttled_seconds=7.0 + stopped,
        server_throttled_seconds=stopped if is_server else 0.0,
    )  # fmt: skip
    seen = Observation(small_study.contenders[0], samples=([BEFORE], [after]))
    found = {each for each in faults_of(seen) if each in (THROTTLED, SERVER_THROTTLED)}
    assert found == ({SERVER_THROTTLED if is_server else THROTTLED} if is_fault else set())


@pytest.mark.parametrize(
    ("reason", "is_servers"),
    [
        ("server: killed by signal 11", True),
        ("server: errors: 3 reset", True),
        ("server counted 5 requests in the window, its clients 6", True),
        ("load: errors: 2 refused (first: connect)", True),
        ("load: no reply in the window", False),
        (SERVER_THROTTLED, False),
        ("listen queue overflowed: 3 connections dropped", False),
    ],
)
def test_a_reason_says_whether_the_server_failed(reason: str, is_servers: bool) -> None:
    assert server_failed(["load: interrupted", reason]) == is_servers
