"""Ctrl-C during extra trials, which follow all judged trials: all measured trials are kept."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made.engines import processes_of
from made.interrupted import STUDY
from made.paths import TESTS
from made.stand_in import answered

import thunderherd
from thunderherd.run.runner import RESUME

TRIALS = 5
"""Extra trials of each of two contenders: some are left when a test that waited for a CPU interrupts them."""


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(what: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "nothing came of it in time"
        time.sleep(0.005)


@pytest.mark.parametrize(("key", "file", "word"), [
    ("counting.trials", "counted.jsonl", "counted"),
    pytest.param("profiling.trials", "profiles.jsonl", "sampled", marks=pytest.mark.thorough),
])  # fmt: skip
def test_ctrl_c_in_an_extra_trial_keeps_all_trials(
    key: str, file: str, word: str, copied_engine: Path, tmp_path: Path
) -> None:
    study, run = tmp_path / "small.toml", tmp_path / "run"
    study.write_text(STUDY)
    asked = ["--set", f"{key}={TRIALS}"]
    command = [sys.executable, "-m", "thunderherd", "run", str(study), "--out", str(run), *asked]
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, process_group=0
    ) as process:
        try:
            wait_for(lambda: process.poll() is not None or lines_of(run / file) >= 1)
            wait_for(lambda: process.poll() is not None or processes_of(copied_engine))
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    wait_for(lambda: not processes_of(copied_engine))  # the kernel kills the last ones
    lines = [json.loads(line) for line in (run / file).read_text().splitlines()]
    valid = sum(line["valid"] for line in lines)
    assert 0 < len(lines) < 2 * TRIALS
    assert f"2 trials, {valid} of {2 * TRIALS} {word} trials" in said
    assert f"thunderherd report {run}" in said
    (again,) = [line for line in said.splitlines() if line.startswith(f"{RESUME}thunderherd run")]
    assert again.endswith("--resume")
    loaded = thunderherd.load(run)
    assert loaded.summary is not None
    assert loaded.summary.trials.valid == 2

    # It resumes and ends.
    done = answered(*shlex.split(again.removeprefix(RESUME))[1:])
    assert done.returncode == 0, done.stderr
    assert lines_of(run / file) >= 2 * TRIALS
