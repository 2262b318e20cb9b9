"""Rounds that a program lost: they are left out for all programs, and the other rounds are reported."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
from collections.abc import Iterator

import pytest

import nginx
from thunderherd.engine.client import EngineError


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
