"""Rounds that a program lost: they are left out for all programs, and the other rounds are reported."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
from collections.abc import Iterator

import pytest

import clients
import nginx
from thunderherd.engine.client import EngineError


def test_ratio_to_wrk_uses_the_rounds_that_both_have() -> None:
    def ran(per_second: float) -> clients.Seen:
        return clients.Seen(per_second, 1.0, 1.0, 1.0, None)

    wrk = {1: ran(100.0), 3: ran(300.0)}
    ours = {1: ran(200.0), 2: ran(7.0), 3: ran(600.0)}
    seen = {clients.WRK: wrk, "ours": ours}
    assert clients.to_wrk(seen, "ours", "per_second") == "2.00"
    assert clients.to_wrk(seen, clients.WRK, "per_second") == "-"
    assert clients.to_wrk({"ours": ours}, "ours", "per_second") == "-", "wrk is not here"
    assert clients.to_wrk({clients.WRK: {4: ran(1.0)}, "ours": ours}, "ours", "per_second") == "-"


def test_ratio_to_nginx_uses_the_rounds_that_all_servers_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def runs(per_second: float, *rounds: int) -> dict[int, nginx.Seen]:
        return {number: nginx.Seen(per_second * number, 5.0, 5.0) for number in rounds}

    seen = {name: runs(100.0, 1, 2, 3) for name in nginx.PEERS} | {"epoll": runs(200.0, 1, 3)}
    nginx.show(seen)
    printed = capsys.readouterr().out
    [row] = [line for line in printed.splitlines() if line.startswith("epoll ")]
    assert row.split()[-2] == row.split()[-3] == "2.00" and "2 rounds" in printed, printed
    with pytest.raises(EngineError):
        nginx.show(seen | {"epoll": runs(200.0, 4)})
    with pytest.raises(EngineError, match="nginx"):
        nginx.show({name: own for name, own in seen.items() if name != "nginx"})


def test_the_reason_why_all_runs_failed_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextlib.contextmanager
    def fails(_: str) -> Iterator[nginx.Listening]:
        raise EngineError("port taken")
        yield

    monkeypatch.setattr(nginx, "nginx", fails)
    monkeypatch.setattr(nginx, "ours", fails)
    monkeypatch.setattr(shutil, "which", lambda program, path=None: f"/usr/bin/{program}")
    with pytest.raises(EngineError, match="nginx"):
        nginx.run(argparse.Namespace(designs=["epoll"], rounds=1, seconds=1))
    assert re.search(r"^nginx: .*: port taken$", capsys.readouterr().out, re.MULTILINE)
