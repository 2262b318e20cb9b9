"""The benchmark of a load's layers: each is compared with the one before it and with the first."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest

import layers
from common import duration
from layers import Cost
from thunderherd.engine.client import EngineError, Server


def costs(*microseconds: float) -> dict[int, Cost]:
    """One window a round."""
    return {number: Cost(1e6 / each, each, 1.0) for number, each in enumerate(microseconds)}


def test_differences_are_of_one_round(capsys: pytest.CaptureFixture[str]) -> None:
    bare = costs(5, 50, 6, 7, 8, 5.5)
    session = {at: Cost(1, each.microseconds + 1, 1.0) for at, each in bare.items() if at != 2}
    layers.show({"bare": bare, "session": session}, {"session": "a reason", "checks": "another"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["requests", "a", "second"]
    by_name = {line[:18].strip(): line for line in lines[1:]}
    assert "1,000" in by_name["+ session"] and by_name["bare loop"].rstrip().endswith("-")
    assert by_name["+ Little's law"].endswith("another") and by_name["+ histogram"].endswith("no trial")
    assert lines[-1].startswith("+ session: ") and lines[-1].endswith(": a reason")


def test_six_rounds_have_an_interval() -> None:
    bare = costs(5, 50, 6, 7, 8, 5.5)
    more = {at: Cost(1, each.microseconds + 0.1 * at, 1.0) for at, each in bare.items()}
    middle, interval = layers.more(more, bare).split()
    assert middle == "250" and interval == "(0..500)"


def test_a_window_without_a_reply_is_no_trial() -> None:
    assert layers.cost(1000, 2_000_000_000, 5_000_000) == Cost(500, 5.0, 0.0025)
    with pytest.raises(EngineError):
        layers.cost(0, 1, 1)


def test_open_load_is_measured_at_its_rate_or_refused(use_engine: object) -> None:
    given = argparse.Namespace(clients=8, bytes=1, milliseconds=1000)
    cpus = sorted(os.sched_getaffinity(0))

    def measured(kind: str, address: str) -> Cost:
        for _ in range(15):  # On a busy machine a window may have too few replies for its rate.
            with contextlib.suppress(EngineError):
                return layers.of_the_load(kind, address, cpus, given, 400)
        return layers.of_the_load(kind, address, cpus, given, 400)

    with Server("epoll", workload=layers.WORKLOAD) as server:
        open_loop = measured("open", server.ready.address)
        closed = measured("closed_connections", server.ready.address)
        assert open_loop.per_second == pytest.approx(400, rel=0.5) and open_loop.microseconds > 0
        assert closed.microseconds > 0
    with (
        Server("epoll", workload=layers.WORKLOAD, settings={"compute": 5_000_000}) as slow,
        # The last: a busy machine does not answer what the window has left before the load's timeout.
        pytest.raises(EngineError, match=r"never_sent|achieved_rate|after the window"),
    ):
        given.milliseconds = 300
        layers.of_the_load("open", slow.ready.address, cpus, given, 1000)


def test_the_cost_of_a_server_is_per_request_of_a_whole_load(use_engine: object) -> None:
    given = argparse.Namespace(clients=8, milliseconds=200)
    cost = layers.server_cost(Path("unused"), "epoll", 64, layers.OURS, given)
    assert 0 < cost < 1000
    with pytest.raises(EngineError):
        layers.server_cost(Path("no such program"), "epoll", 64, layers.BARE, given)


def test_a_build_by_cargo_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cargo(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        assert "building engine/benches/layers" in capsys.readouterr().err
        line = {"executable": "/built", "target": {"name": "layers"}}
        return subprocess.CompletedProcess(command, 0, json.dumps(line), "")

    monkeypatch.setattr(layers, "missing", lambda: None)
    monkeypatch.setattr(layers.subprocess, "run", cargo)
    assert layers.built.__wrapped__() == Path("/built")


def test_less_than_a_minute_is_printed_in_seconds() -> None:
    assert [duration(each) for each in (0.4, 2.2, 59.2, 150)] == [
        "1 second", "3 seconds", "1.0 minutes", "2.5 minutes"
    ]  # fmt: skip
