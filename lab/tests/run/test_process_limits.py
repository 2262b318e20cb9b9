"""A limit on processes that includes Thunderherd: trials without room are invalid, and the run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made.small_studies import one_block

pytestmark = pytest.mark.usefixtures("use_engine")

POOL = 100
STUDY = (
    one_block("own", workload="bytes", kind="closed", settings="children = 2, loops = 50", all_pairs=True)
    + f"""\
[[contenders]]
name = "few"
design = "iterative"
[[contenders]]
name = "many"
design = "prefork"
settings = {{ pool = {POOL} }}
"""
)
LIMIT = POOL // 2
"""Processes that are enough for a run with one contender, and too few for the other."""
ENTER = """
import json, os, pathlib, sys
from thunderherd.cli.main import run_command
from thunderherd.engine.client import catalogue
from thunderherd.study.loading import load_study
from thunderherd.trial.trial import run_trial
group = pathlib.Path(sys.argv[1])
(group / "cgroup.procs").write_text(str(os.getpid()))
def limit(processes):
    (group / "pids.max").write_text(str(processes))
"""
TRIALS = """
study = load_study("own.toml", "quick", (), catalogue())
def reasons():
    return run_trial(study, study.contender("few"), block=1, position=1, seed=1).invalid_reasons
limit(1)
found = [reasons()]
limit("max")
print(json.dumps([*found, reasons()]))
"""
RUN = f"""
limit({LIMIT})
sys.exit(run_command(["run", "own.toml", "--quick", "--out", "run"]))
"""


@pytest.fixture
def group(make_control_group: Callable[[str], Path]) -> Path:
    """A control group of this test."""
    made = make_control_group("pids")
    if not (made / "pids.max").exists():
        pytest.skip(f"{made} has no limit on processes")
    return made


def in_group(group: Path, code: str, directory: Path, status: int = 0) -> str:
    """Return what a program prints whose processes are in a control group."""
    (directory / "own.toml").write_text(STUDY)
    words = [sys.executable, "-c", ENTER + code, str(group)]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done
    return done.stdout


def test_a_trial_without_room_for_a_process_is_invalid(group: Path, tmp_path: Path) -> None:
    without_room, with_room = json.loads(in_group(group, TRIALS, tmp_path))
    assert len(without_room) == 1 and without_room[0].endswith("[engine.not_started]")
    assert with_room == []


def test_a_run_goes_on_after_such_trials(group: Path, tmp_path: Path) -> None:
    # Its only block is incomplete, so it has no figure.
    in_group(group, RUN, tmp_path, status=3)
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    valid = {
        name: [each["valid"] for each in trials if each["contender"] == name] for name in ("few", "many")
    }
    assert any(valid["few"]) and valid["many"] and not any(valid["many"])
