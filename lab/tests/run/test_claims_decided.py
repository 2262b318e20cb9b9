"""A study that runs until its claims are decided, with real servers: `thunderherd claims STUDY --decide`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made.small_studies import head

from thunderherd.engine.client import catalogue
from thunderherd.judge.claims.claims import contenders_of
from thunderherd.judge.summary.open_claims import claims_before_a_look, for_claims
from thunderherd.records.directory import load
from thunderherd.run.runner import RESUME
from thunderherd.show.sentences.claims_so_far import claims_expected
from thunderherd.study.loading import load_study
from thunderherd.text.figures import duration

STUDY = (
    head("deciding", measure='baseline = "a_pool"\n').replace(
        'name = "deciding"\n', 'name = "deciding"\nclaims = "claims.toml"\n', 1
    )
    + """\
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[sizes.claims]
decides = "claims"
looks = [12, 40]
alpha_split = [0.5, 0.5]
[[contenders]]
name = "a_pool"
design = "prefork"
settings = { pool = 3 }
[[contenders]]
name = "its_twin"
design = "prefork"
settings = { pool = 3 }
[[contenders]]
name = "forks"
design = "fork_per_client"
[[contenders]]
name = "unused"
design = "iterative"
"""
)
TEST = '[[claims]]\nid = "{}"\nstatement = "{}"\nmetric = "server_cpu_per_connection"\ntests = [{}]\n'
CLAIMS = 'study = "deciding"\nsource = "invented"\nmargin_percent = 50\n' + "".join(
    TEST.format(name, statement, f'{{ label = "a difference", weights = {{ {one} = 1, {other} = -1 }} }}')
    for name, statement, one, other in (
        ("T1", "A fork costs more than a pool.", "forks", "a_pool"),
        ("T2", "A pool costs more than forks: false on purpose.", "a_pool", "forks"),
        ("T3", "A pool costs more than its twin: they are equal.", "a_pool", "its_twin"),
    )
)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the command, interrupt it, resume it as it says; return the results and what it then printed."""
    folder = tmp_path_factory.mktemp("deciding")
    (folder / "deciding.toml").write_text(STUDY)
    (folder / "claims.toml").write_text(CLAIMS)
    out = folder / "results"
    command = [sys.executable, "-m", "thunderherd", "claims", str(folder / "deciding.toml"), "--decide"]
    with subprocess.Popen(
        [*command, "--seed", "7", "--out", str(out)], stderr=subprocess.PIPE, text=True, process_group=0
    ) as begun:
        try:
            until, trials = time.monotonic() + 60, out / "trials.jsonl"
            while begun.poll() is None and time.monotonic() < until and not has_lines(trials):
                time.sleep(0.01)
            os.killpg(begun.pid, signal.SIGINT)
            _, said = begun.communicate(timeout=60)
        finally:
            begun.kill()
    assert begun.returncode == 130, said
    again = shlex.split(said.splitlines()[-1].removeprefix(RESUME))
    assert again == ["thunderherd", *command[3:], "--out", str(out), "--resume"]
    ended = subprocess.run(
        [*command[:3], *again[1:]], capture_output=True, text=True, check=False, timeout=240
    )
    assert ended.returncode == 0, ended.stderr
    return out, ended


def has_lines(path: Path) -> bool:
    return path.exists() and b"\n" in path.read_bytes()


def test_the_resumed_run_keeps_its_seed_and_trials(
    decided: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    info = json.loads((decided[0] / "run.json").read_text())
    assert info["seed"] == 7 and len(info["resumed"]) == 1
    trials = load(decided[0]).trials
    assert len({(each.contender, each.block, each.attempt) for each in trials}) == len(trials)


def test_each_claim_has_its_verdict(decided: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    summary = json.loads((decided[0] / "summary.json").read_text())
    assert {each["id"]: each["verdict"] for each in summary["claims"]} == {
        "T1": "supported",
        "T2": "refuted",
        "T3": "no difference that matters",
    }
    assert summary["study"]["complete"] and not summary["pairs"]


def test_blocks_have_only_the_contenders_of_open_claims(
    decided: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    results = load(decided[0])
    assert results.summary is not None
    looks = [each.blocks for each in results.summary.study.looks if each.taken]
    blocks = {each.block for each in results.trials}
    assert len(blocks) == looks[-1], "the run ends at the look that decides its last claim"
    took_part = {name: {each.block for each in results.trials if each.contender == name} for name in NAMES}
    assert not took_part["unused"]
    at = {each.id: each.decided_at for each in results.summary.claims}
    assert len(took_part["its_twin"]) == at["T3"]
    assert len(took_part["forks"]) == max(at["T1"] or 0, at["T2"] or 0)


NAMES = ("a_pool", "its_twin", "forks", "unused")


def test_the_command_says_how_far_it_is_and_ends_with_the_claims(
    decided: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, ended = decided
    progress = [line for line in ended.stderr.splitlines() if line.startswith("after ")]
    assert [int(line.split()[1]) for line in progress][:2] == [6, 12]
    assert [line.split()[0] for line in ended.stdout.splitlines() if line[:1] == "T"] == ["T1", "T2", "T3"]


def test_an_earlier_run_tells_before_the_start_what_each_claim_needs(
    decided: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    results = load(decided[0])
    assert results.summary is not None
    study = for_claims(load_study(str(decided[0].parent / "deciding.toml"), "claims", [], catalogue()))
    claims, expected = claims_before_a_look(study, results.trials)
    assert {each.id: each.verdict for each in expected} == dict.fromkeys(("T1", "T2", "T3"), "undecided")
    needed = {each.id: each.blocks_needed for each in expected}
    assert all(each is not None and each <= study.looks[-1].blocks for each in needed.values()), needed
    lines = claims_expected(claims, expected, dict.fromkeys(NAMES, 2.0), study.looks[-1].blocks)
    for line, (name, blocks) in zip(lines, needed.items(), strict=False):
        contenders = contenders_of([each for each in claims if each.id == name])
        assert (
            f"{name} needs about {blocks} blocks ({duration(2.0 * (blocks or 0) * len(contenders))})" in line
        )
    assert len(lines) == 4
    few = claims_expected(claims, expected, dict.fromkeys(NAMES, 2.0), 2)
    assert all("the run ends after 2" in line for line in few[:3]), "more blocks than the last look has"


def test_the_command_says_so_before_its_first_block(
    decided: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "thunderherd", "claims", str(decided[0].parent / "deciding.toml")]
    more = [str(decided[0]), "--decide", "--budget", "1s", "--out", str(tmp_path / "again")]
    ended = subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stderr.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("block "))
    assert [line.split()[0] for line in lines[:first] if " needs about " in line] == ["T1", "T2", "T3"]


def test_a_run_without_trials_says_nothing_of_the_claims(
    decided: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for each in ("run.json", "summary.json"):
        (tmp_path / "empty" / each).write_bytes((decided[0] / each).read_bytes())
    command = [sys.executable, "-m", "thunderherd", "claims", str(decided[0].parent / "deciding.toml")]
    more = [str(tmp_path / "empty"), "--decide", "--out", str(tmp_path / "again")]
    ended = subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 2 and "claims.no_trials" in ended.stderr
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["--budget", "1h"], "claims.option_without_decide"),
        ([], "claims.no_directory"),
        (["results", "--decide"], "results.no_run"),
        (["--decide", "--resume"], "claims.resume_without_out"),
        (["--decide", "--budget", "soon"], None),
    ],
)
def test_mistakes_end_before_the_first_trial(typed: list[str], code: str | None, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "thunderherd", "claims", "unp-ch30", *typed]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2, ended.stderr
    assert code is None or f"[{code}]" in ended.stderr
    assert "Traceback" not in ended.stderr and "hint:" in ended.stderr
    assert not [*tmp_path.iterdir()]


def test_a_study_without_such_a_size_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "thunderherd", "claims", "self-test", "--decide"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2 and "hint:" in ended.stderr
