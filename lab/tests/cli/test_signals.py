"""Signals that end programs end each command as Ctrl-C does, and nothing of it is left."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from made.engines import processes_of
from made.interrupted import STUDY, begins, ended_by

from thunderherd.cli.main import run_command

pytestmark = pytest.mark.usefixtures("use_engine")

REAL_TIME = signal.SIGRTMIN + 3
"""It has no name."""


# Those that the commands below have not got.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM])
def test_each_signal_that_ends_programs_ends_a_run_as_ctrl_c_does(number: int, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(STUDY.replace("repetitions = 1", "repetitions = 500"))
    trials = tmp_path / "run/trials.jsonl"

    def has_trials() -> bool:
        # A signal between a trial and the next finds it on disk, and perhaps not yet counted.
        return trials.exists() and trials.read_bytes().count(b"\n") > 1

    words = ("run", "small.toml", "--out", "run")
    status, said = ended_by(number, words, tmp_path, has_trials, echo=True)
    assert status == 130, said
    assert "stopped: " in said and "resume: thunderherd run" in said, said
    assert (tmp_path / "run/summary.json").exists()


RUBRIC = """
[conformance]
points_per_case = 0
[cost]
needs = []
[[cost.steps]]
at_most = 2
points = 1
"""

COMMANDS: dict[str, tuple[int, str, str]] = {
    "compare": (signal.SIGHUP, "load", "epoll prefork --budget 30s --out out"),
    "knee": (signal.SIGTERM, "load", "epoll --p99 50ms --quick --out out"),
    "crossover": (REAL_TIME, "load", "send_each writev --over bytes=64..64KiB --out out"),
    "grade": (signal.SIGTERM, "load", "epoll --reference prefork --rubric rubric.toml --out out"),
    "baseline": (signal.SIGHUP, "load", "save first epoll --reference prefork --budget 30s"),
    "conform": (REAL_TIME, "conform", "epoll --workload bytes"),
    "limits": (signal.SIGHUP, "limits", "--duration 60s"),
    "replay": (signal.SIGTERM, "load", "kept.thd --measure"),
    "doctor": (signal.SIGTERM, "list", ""),
}
"""For each command a signal, the command of the engine during which it comes, and further words."""
CAN_BE_RESUMED = ("compare", "knee", "crossover")
START_ANEW = {
    "grade": "start anew: type the command again, with another --out; this one cannot be resumed",
    "baseline": "start anew: type the command again; this one cannot be resumed",
    "replay": "start anew: type the command again; this one cannot be resumed",
}
"""The commands that keep their trials but cannot be resumed, and what they advise."""


def pack_a_run(folder: Path) -> None:
    """Make kept.thd, of a run that takes a few seconds."""
    study, out = folder / "small.toml", folder / "before"
    study.write_text(STUDY.replace("repetitions = 1", "repetitions = 4"))
    assert run_command(["run", str(study), "--quick", "--out", str(out)]) == 0
    assert run_command(["capsule", str(out), "--output", str(folder / "kept.thd")]) == 0


def kept_in(said: Sequence[str]) -> Path:
    """Return the directory that an interrupted command says it kept its trials in."""
    return Path(next(found[1] for line in said if (found := re.match(r"stopped: .* kept in (.+)", line))))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_ends_a_command_as_ctrl_c_does(
    name: str, begun: Path, copied_engine: Path, tmp_path: Path
) -> None:
    number, when, more = COMMANDS[name]
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    if name == "replay":
        pack_a_run(tmp_path)
        begun.write_text("")
    status, said = ended_by(number, (name, *more.split()), tmp_path, lambda: begins(when, begun))
    assert status == 130 and "Traceback" not in said, (status, said)
    if name in CAN_BE_RESUMED:
        assert "stopped: " in said, said
        assert f"resume: thunderherd {name} {more} --resume" in said.splitlines(), said
    if name in START_ANEW:
        assert START_ANEW[name] in said.splitlines() and "resume: " not in said, said
        assert (tmp_path / kept_in(said.splitlines()) / "trials.jsonl").exists(), said
    deadline = time.monotonic() + 60
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.02)  # the kernel kills the last ones
    assert processes_of(copied_engine) == {}
