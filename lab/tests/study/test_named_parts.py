"""Further figures of a counter, such as tcp_info.retransmits, are metrics wherever a study names one; and
states are no amounts, wherever that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.summaries import swept
from made.summaries.swept import STUDY, loaded, refused

from thunderherd.engine.catalogue import Counter, CounterPart

CELLS = "way,pool,again\nPre,5,7\nPre,30,8\n"
PARTS = (
    STUDY[: STUDY.index("[[sweeps.paper]]")]
    .replace(
        '["voluntary_switches_per_connection"]',
        '["client.tcp_info.retransmits", "server.memory.kernel_per_connection"]',
    )
    .replace(
        "normalise_connections = 5000",
        """normalise_connections = 5000
counters = ["tcp_info", "memory"]
at_least = { "client.tcp_info.connections" = "load.settings.loops" }""",
    )
    + """
[[sweeps.paper]]
file = "cells.csv"
metric = "client.tcp_info.retransmits"
point = "pool"
contender = "way"
names = { prefork = "Pre" }
value = "again"

[source_csv]
file = "original.csv"
sweeps = ["pool_size"]
[source_csv.columns]
again = { metric = "client.tcp_info.retransmits" }
window = { metric = "server.tcp_info.congestion_window" }
"""
)


def state(name: str, unit: str, **parts: str) -> Counter:
    own = tuple(CounterPart(name=part, unit=unit) for part, unit in parts.items())
    return Counter(
        name=name, summary="", unit=unit, kind="state", countable=True, available=True, parts=own
    )  # fmt: skip


STATES = (
    state("memory", "bytes", peak="bytes", kernel="bytes", sockets="bytes"),
    state(
        "tcp_info",
        "connections",
        connections="connections",
        retransmits="segments",
        congestion_window="segments",
    ),
)


@pytest.fixture(autouse=True)
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's file, and an engine that has counters with parts."""
    (tmp_path / "cells.csv").write_text(CELLS)
    counters = (*swept.CATALOGUE.counters, *STATES)
    monkeypatch.setattr(swept, "CATALOGUE", swept.CATALOGUE.model_copy(update={"counters": counters}))


def test_a_part_is_a_metric_of_sweeps_papers_bounds_and_columns(tmp_path: Path) -> None:
    study = loaded(tmp_path, PARTS)
    assert [(each.metric, each.value) for each in study.paper] == [
        ("client.tcp_info.retransmits", 7),
        ("client.tcp_info.retransmits", 8),
    ]
    assert study.contender("prefork@pool_size=5").at_least.keys() == {"client.tcp_info.connections"}
    assert study.source_csv is not None
    assert study.measure.counters["tcp_info.retransmits"] == "segments"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"client.tcp_info.connections" =', '"client.tcp_info.connection" ='),
        ('metric = "client.tcp_info.retransmits"\npoint', 'metric = "client.tcp_info.retransmit"\npoint'),
        (
            '{ metric = "client.tcp_info.retransmits" }',
            '{ metric = "client.tcp_info.retransmits_per_second" }',
        ),
        ('"client.tcp_info.retransmits", "server', '"client.tcp_info.retransmits_per_request", "server'),
        ("server.memory.kernel_per_connection", "client.memory.kernel_per_connection"),
        ("server.memory.kernel_per_connection", "server.memory_per_request"),
        ("server.memory.kernel_per_connection", "server.memory.peak_per_connection"),
    ],
)
def test_unknown_part_and_rate_of_a_state_are_refused(tmp_path: Path, old: str, new: str) -> None:
    assert old in PARTS
    (problem, *_) = refused(tmp_path, PARTS.replace(old, new))
    assert problem.code == "study.unknown_metric"
