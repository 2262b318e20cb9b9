"""The soak in a short form: designs among hostile clients, and a server that has to be found at fault."""

from __future__ import annotations

import random

import pytest
from started import bench

import soak
from thunderherd.engine.client import catalogue

pytestmark = pytest.mark.usefixtures("use_engine")


def test_designs_outlast_hostile_clients() -> None:
    some = [each.name for each in catalogue().designs if each.available][::8]
    # On a busy machine, a reply may take more than a second, and the end of a server longer.
    printed = bench("soak", *some, "--seconds", "3", "--stop", "60")
    for name, workload in zip(some, soak.TALKS, strict=False):
        (row,) = (line.split() for line in printed.splitlines() if line.startswith(name + " "))
        assert row[1] == workload
        assert int(row[2].replace(",", "")) > 0 and int(row[6].replace(",", "")) > 0, printed


def test_each_workload_is_spoken() -> None:
    assert {*soak.TALKS} == {each.name for each in catalogue().workloads}


def test_connections_of_a_ring_that_are_reset_leave_nothing() -> None:
    rings = [each for each in catalogue().designs if each.name == soak.RING and each.available]
    if not rings:
        pytest.skip(f"{soak.RING} is not available here")
    assert [*soak._reset_often(rings[0], 200, random.Random(1))] == []


def test_a_server_that_idle_clients_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "IDLE_TIMEOUT", 0)
    monkeypatch.setattr(soak, "PATIENCE", 0.3)
    (one_at_a_time, *_) = catalogue().designs
    faults = [*soak._soak(one_at_a_time, "http", 3.0, 0.0, random.Random(1))]
    assert any("honest client" in each for each in faults)
    assert any("to stop" in each for each in faults)
