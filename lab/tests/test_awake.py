"""Studies of servers that never sleep: their trials are valid, and their CPU time has its remark."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_studies import head

import thunderherd
from thunderherd.cli import run_command

COUNTED = head("awake", measure='baseline = "epoll"\n')
TIMED = head(
    "awake",
    measure='baseline = "epoll"\n',
    kind="closed_connections",
    load="processes = 1\n",
    settings="clients = 4, milliseconds = 100",
)
CONTENDERS = """[sizes.quick]
repetitions = 1
[[contenders]]
name = "epoll"
design = "epoll"
[[contenders]]
name = "spinning"
design = "epoll"
settings = { wait = "spin" }
[[contenders]]
name = "polling"
design = "polling"
settings = { pool = 2 }
"""


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(("study", "remarked"), [(COUNTED, True), (TIMED, False)], ids=["counted", "timed"])
def test_a_server_that_never_sleeps_is_measured(
    study: str, remarked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "awake.toml", tmp_path / "run"
    file.write_text(study + CONTENDERS)
    assert run_command(["run", str(file), "--out", str(folder), "--seed", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 valid, 0 invalid" in said
    results = thunderherd.load(folder)
    for trial in results.trials:
        warned = any("never sleeps" in each for each in trial.warnings)
        assert warned == (remarked and trial.contender != "epoll"), (trial.contender, trial.warnings)
    assert ("which never sleeps, used its CPU before its clients came" in said) == remarked
