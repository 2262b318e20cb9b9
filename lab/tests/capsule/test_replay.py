"""A run that is packed, checked, computed again, and measured again, with the real engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from made.engines import processes_of
from made.interrupted import begins, ended_by
from made.small_studies import head

from thunderherd.capsule.container import Manifest, pack, unpack
from thunderherd.capsule.machines import changes, machine_differences
from thunderherd.capsule.replay import recomputed
from thunderherd.capsule.verdicts import Compared, reproduced
from thunderherd.claims.claim_file import load_claims
from thunderherd.engine.client import catalogue
from thunderherd.run.follow import NOT_KEPT
from thunderherd.study.loading import Study, load_study

STUDY = (
    head("packed").replace('name = "packed"\n', 'name = "packed"\nclaims = "claims.toml"\n', 1)
    + """\
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[[contenders]]
name = "pool"
design = "prefork"
settings = { pool = 3 }
[[contenders]]
name = "forks"
design = "fork_per_client"
"""
)
CLAIMS = """\
study = "packed"
source = "invented"
[[claims]]
id = "T1"
statement = "A fork costs more than a pool."
metric = "server_cpu_per_connection"
tests = [{ label = "a difference", weights = { forks = 1, pool = -1 } }]
"""


def thunderherd(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thunderherd", *words]
    own = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the capsule run.thd of a run whose study is gone."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "packed.toml").write_text(STUDY)
    (folder / "claims.toml").write_text(CLAIMS)
    ended = thunderherd(folder, "run", "packed.toml", "--out", "mine", "--seed", "5")
    assert ended.returncode == 0, ended.stderr
    ended = thunderherd(folder, "capsule", "mine", "-o", "run.thd")
    assert ended.returncode == 0, ended.stderr
    for each in ("packed.toml", "claims.toml"):
        (folder / each).unlink()
    return folder


def test_it_is_a_zip_archive_of_some_kilobytes(packed: Path) -> None:
    with zipfile.ZipFile(packed / "run.thd") as archive:
        names = set(archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
    assert {"run.json", "trials.jsonl", "summary.json", "study/packed.toml", "study/claims.toml"} <= names
    assert (packed / "run.thd").stat().st_size < 1_000_000
    assert manifest["study"] == "packed" and manifest["engine"]["sha256"]
    assert {"rustc", "profile", "target", "flags"} <= {*manifest["engine"]["build"]}


@pytest.mark.parametrize("link", ["study/more.toml", "summary.md", "study"])
def test_a_link_is_not_packed(link: str, packed: Path, tmp_path: Path) -> None:
    """It may lead to a file that is nobody else's business."""
    shutil.copytree(packed / "mine", tmp_path / "mine")
    secret, place = tmp_path / "secret", tmp_path / "mine" / link
    if link == "study":
        place.rename(secret)
    else:
        secret.write_text("secret")
        place.unlink(missing_ok=True)
    place.symlink_to(secret)
    ended = thunderherd(tmp_path, "capsule", "mine", "-o", "run.thd")
    assert ended.returncode == 2 and "capsule.link" in ended.stderr and not (tmp_path / "run.thd").exists()


def test_a_name_that_replay_would_refuse_is_not_packed(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "mine", tmp_path / "mine")
    (tmp_path / "mine/study/été.toml").write_text("")
    ended = thunderherd(tmp_path, "capsule", "mine", "-o", "run.thd")
    assert ended.returncode == 2 and "capsule.unsafe_name" in ended.stderr


def test_a_pipe_is_not_replaced_by_a_capsule(packed: Path, tmp_path: Path) -> None:
    """As root, /dev/null would be one."""
    os.mkfifo(tmp_path / "pipe")
    ended = thunderherd(packed, "capsule", "mine", "-o", str(tmp_path / "pipe"))
    assert ended.returncode != 0 and "Traceback" not in ended.stderr and "pipe" in ended.stderr
    assert "hint: choose another place" in ended.stderr
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 1


def test_a_link_that_was_typed_leads_to_the_capsule(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run.thd")
    ended = thunderherd(packed, "capsule", "mine", "-o", str(tmp_path / "link"))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "link").is_symlink() and zipfile.is_zipfile(tmp_path / "run.thd")


def test_every_verdict_is_computed_again(packed: Path, tmp_path: Path) -> None:
    unpack(packed / "run.thd", tmp_path)
    saved, found = recomputed(tmp_path)
    assert saved.summary is not None and len(found) > len(saved.summary.family) + 1
    assert all(each.before == each.now for each in found)
    ended = thunderherd(packed, "replay", "run.thd")
    assert ended.returncode == 0 and "0 differ" in ended.stdout, ended.stderr


def test_a_verdict_that_does_not_follow_from_the_trials_is_shown(packed: Path, tmp_path: Path) -> None:
    """The manifest is right, since whoever altered the summary packed it again."""
    manifest = unpack(packed / "run.thd", tmp_path / "run")
    path = tmp_path / "run/summary.json"
    summary = json.loads(path.read_text())
    wanted = summary["claims"][0]["verdict"] = "refuted"
    path.write_text(json.dumps(summary))
    files = {each.path: tmp_path / "run" / each.path for each in manifest.files}
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "altered.thd")
    ended = thunderherd(packed, "replay", str(tmp_path / "altered.thd"))
    assert ended.returncode == 1 and wanted in ended.stdout and "1 differ" in ended.stdout


def test_figures_that_do_not_follow_from_the_trials_are_shown(packed: Path, tmp_path: Path) -> None:
    manifest = unpack(packed / "run.thd", tmp_path / "run")
    path = tmp_path / "run/summary.json"
    summary = json.loads(path.read_text())
    summary["contenders"][0]["metrics"]["server_cpu_per_connection"]["value"] *= 3
    summary["study"]["name"] += "\x1b]0;owned\x07"
    path.write_text(json.dumps(summary))
    files = {each.path: tmp_path / "run" / each.path for each in manifest.files}
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "altered.thd")
    ended = thunderherd(packed, "replay", str(tmp_path / "altered.thd"))
    assert ended.returncode == 1 and "1 differ" in ended.stdout, ended.stdout + ended.stderr
    assert "\x1b" not in ended.stdout


def test_a_run_without_a_study_is_refused(packed: Path, tmp_path: Path) -> None:
    manifest = unpack(packed / "run.thd", tmp_path / "run")
    path = tmp_path / "run/run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "study": {}}))
    files = {each.path: tmp_path / "run" / each.path for each in manifest.files}
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "altered.thd")
    ended = thunderherd(packed, "replay", str(tmp_path / "altered.thd"))
    assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended.stderr


def test_it_is_measured_again_with_its_seed(packed: Path) -> None:
    ended = thunderherd(packed, "replay", "run.thd", "--measure", "--out", "again")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads((packed / "again/run.json").read_text())["seed"] == 5
    assert "Reproduced with the study of the capsule" in ended.stdout
    compared = thunderherd(packed, "diff", "run.thd", "again")
    assert compared.returncode == 0 and "Settings: no differences" in compared.stdout


def test_a_signal_ends_a_replay_that_measures(packed: Path, begun: Path, copied_engine: Path) -> None:
    words = ("replay", "run.thd", "--measure", "--out", "stopped")
    status, said = ended_by(signal.SIGRTMIN + 3, words, packed, lambda: begins("load", begun))
    assert status == 130 and "stopped: " in said and "Traceback" not in said, (status, said)
    deadline = time.monotonic() + 60
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(copied_engine) == {}


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        ([("b wins", "b wins"), ("undecided", "b wins")], "Reproduced"),
        ([("b wins", "b wins"), ("b wins", "a wins")], "Not reproduced"),
        ([("undecided", "undecided"), ("not testable here", "b wins")], "Undecided"),
        ([(None, "b wins")], "Undecided"),
        ([], "Undecided"),
    ],
)
def test_a_result_is_reproduced_if_verdicts_held_and_none_did_not(
    pairs: list[tuple[str | None, str | None]], answer: str
) -> None:
    found = [Compared(str(number), *pair) for number, pair in enumerate(pairs)]
    assert reproduced(found).startswith(f"{answer} with the study")


def test_a_summary_that_was_altered_fails_although_it_is_measured_again(packed: Path, tmp_path: Path) -> None:
    manifest = unpack(packed / "run.thd", tmp_path / "run")
    path = tmp_path / "run/summary.json"
    summary = json.loads(path.read_text())
    summary["contenders"][0]["metrics"]["server_cpu_per_connection"]["value"] *= 3
    path.write_text(json.dumps(summary))
    files = {each.path: tmp_path / "run" / each.path for each in manifest.files}
    pack(files, Manifest(version="0.0.1", study="packed", engine={}, files=[]), tmp_path / "altered.thd")
    ended = thunderherd(tmp_path, "replay", "altered.thd", "--measure", "--out", "again")
    assert ended.returncode == 1 and "1 differ" in ended.stdout, ended.stdout + ended.stderr
    assert "version 0.0.1" in ended.stdout


def test_a_file_of_this_machine_is_not_sent(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("bytes\n4\n8\n")
    manifest = unpack(packed / "run.thd", tmp_path / "run")
    study = tmp_path / "run/study/packed.toml"
    sizes = f'sizes = "{catalogue().file_prefix}{tmp_path / "mine.csv"}"'
    assert "bytes = 4000" in study.read_text()
    study.write_text(study.read_text().replace("bytes = 4000", sizes))
    files = {each.path: tmp_path / "run" / each.path for each in manifest.files}
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "evil.thd")
    ended = thunderherd(tmp_path, "replay", "evil.thd", "--measure", "--out", "again")
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "replay.file_outside" in ended.stderr and not (tmp_path / "again").exists()


def test_commands_of_a_stranger_run_only_if_allowed(tmp_path: Path) -> None:
    study = STUDY.replace('design = "fork_per_client"', 'command = ["sh", "-c", "touch executed; exit 1"]')
    study = study.replace('claims = "claims.toml"\n', "").replace('workload = "bytes"', 'workload = "bytes"')
    (tmp_path / "run/study").mkdir(parents=True)
    (tmp_path / "run/study/packed.toml").write_text(study)
    (tmp_path / "other.toml").write_text(STUDY.replace('claims = "claims.toml"\n', ""))
    ended = thunderherd(tmp_path, "run", "other.toml", "--out", "mine", "--set", "sizes.quick.looks=[10]")
    assert ended.returncode == 0, ended.stderr
    files = {
        each.name: each for each in (tmp_path / "mine").iterdir() if each.suffix in (".json", ".jsonl")
    } | {"study/packed.toml": tmp_path / "run/study/packed.toml"}
    files.pop("summary.schema.json", None)
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "evil.thd")
    ended = thunderherd(tmp_path, "replay", "evil.thd", "--measure", "--out", "again")
    assert ended.returncode == 2 and "replay.commands_not_allowed" in ended.stderr, ended.stderr
    assert not [*tmp_path.rglob("executed")]


def test_hosts_of_a_stranger_are_refused(packed: Path, tmp_path: Path) -> None:
    study = (packed / "mine/study/packed.toml").read_text()
    (tmp_path / "packed.toml").write_text(
        study.replace("[load]", '[lab]\nserver = "ssh://a.example"\n[load]')
    )
    files = {name: packed / "mine" / name for name in ("run.json", "trials.jsonl", "summary.json")}
    files |= {
        "study/claims.toml": packed / "mine/study/claims.toml",
        "study/packed.toml": tmp_path / "packed.toml",
    }
    pack(files, Manifest(version="1", study="packed", engine={}, files=[]), tmp_path / "evil.thd")
    ended = thunderherd(tmp_path, "replay", "evil.thd", "--measure", "--out", "again")
    assert ended.returncode == 2 and "replay.hosts_not_allowed" in ended.stderr, ended.stderr
    assert "ssh://a.example" in ended.stderr


def test_differences_of_machines_are_sorted_by_what_matters() -> None:
    there = {
        "cpu": {"model": "a", "cache": "1"},
        "engine": {"sha256": "1"},
        "libc": "x",
        "sysctls": {"net.a": 1},
    }
    here = {
        "cpu": {"model": "b", "cache": "2"},
        "engine": {"sha256": "2"},
        "libc": "y",
        "sysctls": {"net.a": 2},
    }
    names = [name for name, _, _ in machine_differences(there, here)]
    assert names == ["engine.sha256", "cpu.model", "sysctls.net.a", "libc", "cpu.cache"]
    assert machine_differences(there, there) == []
    assert changes(there, here) == ["CPU a, now b", "engine's hash 1, now 2"]


def test_what_hosts_do_at_the_time_is_no_difference_of_machines() -> None:
    def of_host(**changed: object) -> dict[str, object]:
        host = {"clock_ahead_ns": 1, "clock_error_ns": 1, "idle": {"agent_percent": 1}}
        machine = {"load_average": [1.0], "kernel": "6.1"}
        machine |= {name: value for name, value in changed.items() if name in machine}
        host |= {name: value for name, value in changed.items() if name in host}
        return {"labs": {"server on a.b": {"hosts": {"ssh://a.b": {**host, "machine": machine}}}}}

    there = of_host()
    for volatile in ({"clock_ahead_ns": 2}, {"clock_error_ns": 2}, {"idle": {"agent_percent": 2}}):
        assert machine_differences(there, of_host(**volatile)) == []
    assert machine_differences(there, of_host(load_average=[2.0])) == []
    assert len(machine_differences(there, of_host(kernel="6.2"))) == 1


@pytest.mark.parametrize("name", ["unp-ch30", "cse232-a2", "cse638-pa02", "css503-p4", "erss-hw4"])
def test_a_kept_study_has_the_conditions_of_its_claims(name: str) -> None:
    """Claims are judged again from what run.json keeps, such as by how much a point was made smaller."""
    study = load_study(name, "claims", (), catalogue())
    kept = json.loads(json.dumps(study.model_dump(mode="json")))
    contenders = [{**each, "load": {"requests": (), **each["load"]}} for each in kept["contenders"]]
    read = Study.model_validate(
        {
            **NOT_KEPT,
            **kept,
            "overrides": [],
            "contenders": contenders,
            "load": {"requests": (), **kept["load"]},
        }
    )
    read = read.model_copy(update={"path": study.path, "claims_path": study.claims_path})
    before, after = ({each.id: each.obstacle() for each in load_claims(one)} for one in (study, read))
    assert after == before
    assert None in before.values()
