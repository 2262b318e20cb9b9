"""A source's figures beside a sweep's: several systems, every metric that the sweep shows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made.summaries.swept import STUDY, loaded, refused


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("thunderherd.machine.noise.local_ports", lambda: 20_000)


def test_the_source_may_have_several_systems(tmp_path: Path) -> None:
    wide = STUDY.replace(
        'columns = { prefork = "row2" }', 'columns = { prefork = { "BSD/OS" = "row2", "Solaris" = "other" } }'
    )
    study = loaded(tmp_path, wide)
    found = [(each.system, each.point, each.value) for each in study.paper]
    assert found == [
        ("BSD/OS", "5", 1.5), ("BSD/OS", "30", 3.5), ("Solaris", "30", 9)
    ]  # fmt: skip


def test_the_source_may_have_figures_of_every_metric_that_a_sweep_shows(tmp_path: Path) -> None:
    second = """
[[sweeps.paper]]
file = "paper.csv"
metric = "voluntary_switches_per_connection"
unit = "a thousand"
point = "children"
columns = { control = "other" }
"""
    paper = loaded(tmp_path, STUDY + second).paper
    found = [(each.metric, each.sweep, each.base, each.point, each.value, each.unit) for each in paper]
    assert found == [
        ("server_cpu_per_connection", "pool_size", "prefork", "5", 1.5, ""),
        ("server_cpu_per_connection", "pool_size", "prefork", "30", 3.5, ""),
        ("voluntary_switches_per_connection", "pool_size", "control", "30", 9, "a thousand"),
    ]
    twice = second.replace("voluntary_switches_per_connection", "server_cpu_per_connection")
    assert "has a table already" in " ".join(refused(tmp_path, STUDY + twice))


def test_a_run_of_another_metric_keeps_the_sources_figures_apart(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY, "sweeps.pool_size.metric=requests_per_second")
    assert study.sweeps[0].metric == "requests_per_second"
    assert {each.metric for each in study.paper} == {"server_cpu_per_connection"}
