"""Real limits on CPUs, memory and processes: `doctor` names them, and a run stays within them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from made.interrupted import STUDY
from made.refusals import codes_printed

from thunderherd.machine.room import NEEDED

CPU = min(os.sched_getaffinity(0))
PROGRAM = (sys.executable, "-m", "thunderherd")
ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
"""A script of sh that runs its words in the control group that is its name."""

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one CPU may be used anyway"),
]


@pytest.fixture(params=[pytest.param("taskset", marks=pytest.mark.thorough), "cpuset"])
def on_one_cpu(request: pytest.FixtureRequest, make_control_group: Callable[[str], Path]) -> Sequence[str]:
    """The words before a command that keep it on `CPU`."""
    if request.param == "taskset":
        if shutil.which("taskset") is None:
            pytest.skip("no taskset is installed")
        return ("taskset", "-c", str(CPU))
    group = make_control_group("cpuset")
    try:
        if (group.parent / "cpuset.mems").exists():  # version 1 wants it, and in version 2 it may be empty
            (group / "cpuset.mems").write_text((group.parent / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text(str(CPU))
    except OSError as error:
        pytest.skip(f"{group} cannot be kept to a CPU: {error.strerror}")
    return ("sh", "-c", ENTER, str(group))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(STUDY)
    return tmp_path


def ran(before: Sequence[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        [*before, *PROGRAM, *words], cwd=folder, env=own, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip


def findings(before: Sequence[str], folder: Path) -> dict[str, str]:
    """Return name → observation of each finding of `doctor`."""
    ended = ran(before, folder, "doctor", "--json")
    # 1: a bundled study cannot run.
    assert ended.returncode in (0, 1), ended
    examined: dict[str, Any] = json.loads(ended.stdout)["examinations"]
    return {each["name"]: each["seen"] for part in examined.values() for each in part["findings"]}


def test_doctor_names_the_cpus_that_are_left(on_one_cpu: Sequence[str], here: Path) -> None:
    assert findings(on_one_cpu, here)["CPUs"].startswith(f"1 usable ({CPU}) of "), "of those of the machine"


def test_a_run_stays_on_the_cpus_that_are_left(on_one_cpu: Sequence[str], here: Path) -> None:
    ended = ran(on_one_cpu, here, "run", "small.toml", "--out", "run")
    assert ended.returncode == 0, ended
    assert json.loads((here / "run/run.json").read_text())["machine"]["cpu"]["usable"] == [CPU]
    summary = json.loads((here / "run/summary.json").read_text())
    assert (summary["trials"]["valid"], summary["machine"]["cpu"]["usable"]) == (2, [CPU])


def test_a_cpu_that_is_kept_from_a_run_is_refused(on_one_cpu: Sequence[str], here: Path) -> None:
    other = max(os.sched_getaffinity(0))
    ended = ran(on_one_cpu, here, "run", "small.toml", "--out", "run", "--lab", f"server_cpus=[{other}]")
    assert ended.returncode == 2 and codes_printed(ended.stderr) == ["study.unavailable_cpu"], ended
    assert f"allowed: {CPU}" in ended.stderr and not (here / "run").exists()


@pytest.mark.parametrize(
    ("controller", "files", "what"),
    [
        ("memory", ("memory.max", "memory.limit_in_bytes"), "memory"),
        pytest.param("pids", ("pids.max",), "processes and threads", marks=pytest.mark.thorough),
    ],
)
def test_doctor_names_the_limit_of_a_control_group(
    controller: str, files: Sequence[str], what: str, make_control_group: Callable[[str], Path], here: Path
) -> None:
    """That a run stays within such a limit, or is refused, is tested in test_surroundings."""
    group = make_control_group(controller)
    limits = [group / name for name in files if (group / name).exists()]
    if not limits:
        pytest.skip(f"{group} has no limit on {controller}")
    # Room for the examination itself, which is less than a run.
    limits[0].write_text(str(4 * NEEDED[what]))
    seen = findings(("sh", "-c", ENTER, str(group)), here)
    assert any(str(limits[0]) in each for each in seen.values()), seen
