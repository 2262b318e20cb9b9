"""Other runs on this machine are found by their engines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from thunderherd.machine.busy import other_runs

ENGINE = """
import subprocess, sys
engine = subprocess.Popen([sys.argv[1], "serve", "epoll", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE)
engine.stdout.readline()
print("listens", flush=True)
sys.stdin.read()
engine.kill()
engine.wait()
"""


def test_another_run_is_found_and_ones_own_is_not(use_engine: Path) -> None:
    words = [sys.executable, "-c", ENGINE, str(use_engine)]
    # A process of a session of its own, as another terminal's, whose parent is not this one.
    daemon = ["setsid", "--fork", *words]
    own = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert own.stdout is not None and own.stdout.readline() == "listens\n"
        engine = Path(f"/proc/{own.pid}/task/{own.pid}/children").read_text().split()
        assert engine and not {*map(int, engine)} & {*other_runs()}
        other = subprocess.Popen(daemon, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "listens\n"
        other.wait()
        # There may be engines of other tests, which end at any time.
        assert len(other_runs()) > 0
        other.stdin.close()
        other.stdout.close()
    finally:
        own.communicate(timeout=20)


@pytest.mark.parametrize("text", ["", "1 (a b) S"])
def test_a_process_that_ends_meanwhile_is_no_fault(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/comm").write_text("thunderherd-eng\n")
    (tmp_path / "7/stat").write_text(text)
    monkeypatch.setattr("thunderherd.machine.proc.PROC", tmp_path)
    assert other_runs() == [7]
