"""The soak in a short form: every design among hostile clients, and a server that must be found at fault."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from started import bench

import soak
from thunderherd.engine.client import catalogue

pytestmark = pytest.mark.usefixtures("use_engine")

SHORT = ("--seconds", "0.3", "--idle", "40", "--resets", "0", "--stop", "60")
"""So little that a soak mostly waits. On a busy machine a server may take long to stop."""


def test_every_design_outlasts_hostile_clients() -> None:
    printed = bench("soak", *SHORT)
    rows = {row[0]: row for row in map(str.split, printed.splitlines()) if row}
    designs = [each.name for each in catalogue().designs if each.available]
    for number, name in enumerate(designs):
        _, workload, honest, _, _, _, refused, *_ = rows[name]
        assert workload == [*soak.TALKS][number % len(soak.TALKS)]
        assert int(honest.replace(",", "")) > 0 and int(refused.replace(",", "")) > 0, printed


def test_each_workload_is_spoken() -> None:
    assert {*soak.TALKS} == {each.name for each in catalogue().workloads}


def test_connections_of_a_ring_that_are_reset_leave_nothing() -> None:
    rings = [each for each in catalogue().designs if each.name == soak.RING and each.available]
    if not rings:
        pytest.skip(f"{soak.RING} is not available here")
    assert [*soak._reset_often(rings[0], 200, random.Random(1))] == []


def test_the_bounds_are_those_of_the_documents() -> None:
    page = Path(__file__).parents[2] / "docs" / "reliability.md"
    words = " ".join(page.read_text(encoding="utf-8").split())
    per_thread = f"{1000 * soak.OF_A_THREAD:g} KB for each thread"
    assert f"at most {soak.MOST_MEMORY:g} MB of memory, and {per_thread}" in words
    assert f"within {soak.LONGEST_STOP:g} s" in words


def test_a_server_that_idle_clients_hold_or_that_takes_too_much_memory_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(soak, "IDLE_TIMEOUT", 0)
    monkeypatch.setattr(soak, "PATIENCE", 0.3)
    monkeypatch.setattr(soak, "MOST_MEMORY", 0.1)
    (one_at_a_time, *_) = catalogue().designs
    faults = [*soak._soak(one_at_a_time, "http", 3.0, 0.0, random.Random(1))]
    assert any("honest client" in each for each in faults)
    assert any("to stop" in each for each in faults)
    assert any("MB, more than 0.1 MB" in each for each in faults)
