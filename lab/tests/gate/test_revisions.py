"""Two revisions of a real git repository, built in worktrees that are kept by commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made.interrupted import eventually, left_of
from made.refusals import refused

from thunderherd.gate import revisions
from thunderherd.gate.revisions import BuildFailedError, built, resolved

BUILD = "echo built >> count && cp source server"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_engine: Path) -> Path:
    """A repository with the tag v1 and a later commit."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [each for each in os.environ if each.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "server"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number, tag in ((1, "v1"), (2, "")):
        (folder / "source").write_text(f"version {number}\n")
        git(folder, "add", "source")
        git(
            folder,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "--quiet",
            "-m",
            f"version {number}",
        )
        if tag:
            git(folder, "tag", tag)
    return folder


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_each_revision_is_built_once_in_its_own_folder(repository: Path) -> None:
    (repository / "source").write_text("not committed\n")
    folders = [built(resolved(each, repository, "--base-rev"), BUILD, Path()) for each in ("v1", "HEAD")]
    assert [(each / "server").read_text() for each in folders] == ["version 1\n", "version 2\n"]
    again = built(resolved("v1", repository, "--base-rev"), BUILD, Path())
    assert again == folders[0] and (again / "count").read_text() == "built\n"
    other = built(resolved("v1", repository, "--base-rev"), "cp source other", Path())
    assert other != again and (other / "other").exists()
    assert (repository / "source").read_text() == "not committed\n"


def test_another_folder_or_compiler_is_built_anew(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (repository / name).mkdir()
        (repository / name / "source").write_text(f"server {name}\n")
    git(repository, "add", "a", "b")
    git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "two servers")
    head = resolved("HEAD", repository, "--head-rev")
    folders = [built(head, BUILD, Path(name)) for name in ("a", "b")]
    assert [(each / "server").read_text() for each in folders] == ["server a\n", "server b\n"]
    monkeypatch.setenv("CFLAGS", "-O0")
    slow = built(head, BUILD, Path("a"))
    assert slow != folders[0] and (slow / "count").read_text() == "built\n"


def test_a_failed_build_says_why_and_is_tried_again(repository: Path) -> None:
    revision = resolved("v1", repository, "--base-rev")
    (problem,) = refused(built, revision, "echo no compiler here; exit 3", Path())
    assert problem.code == "gate.build_failed" and "exit status 3" in problem.message
    assert "no compiler here" in problem.message
    with pytest.raises(BuildFailedError):
        built(revision, "echo no compiler here; exit 3", Path())
    assert (built(revision, BUILD, Path()) / "server").exists()


def test_a_build_that_takes_too_long_ends_with_all_that_it_started(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, a shell may need a second until both of its lines are there.
    monkeypatch.setattr(revisions, "LONGEST_BUILD", 3)
    mark = repository.parent / "pids"
    build = f"sleep 50 & echo $! >> {mark}; echo $$ >> {mark}; wait"
    (problem,) = refused(built, resolved("v1", repository, "--base-rev"), build, Path())
    assert problem.code == "gate.build_failed" and "ended after 3 s" in problem.message
    pids = [int(line) for line in mark.read_text().split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive


def test_a_gate_that_is_killed_leaves_no_build(repository: Path) -> None:
    mark = f"61.{os.getpid()}"
    words = ("--base-rev", "v1", "--build", f"sleep {mark} & sleep {mark}", "--serve", "./server {port}")
    command = [sys.executable, "-m", "thunderherd", "gate", *words]
    with subprocess.Popen(command, cwd=repository, stderr=subprocess.DEVNULL) as gate:
        eventually(lambda: sum(each.startswith("sleep") for each in left_of(mark)) == 2)
        gate.kill()
    eventually(lambda: not left_of(mark), 8)


def test_the_log_of_a_build_has_all_that_it_printed_and_nothing_else(repository: Path) -> None:
    place = built(resolved("v1", repository, "--base-rev"), "echo one; printf two >&2", Path())
    assert place.with_name(f"{place.name}.log").read_text() == "one\ntwo"


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_an_unfinished_build_is_done_again(repository: Path) -> None:
    revision = resolved("v1", repository, "--base-rev")
    place = built(revision, BUILD, Path())
    place.with_name(f"{place.name}.built").unlink()  # as after a kill
    (place / "half").write_text("left over")
    again = built(revision, BUILD, Path())
    assert again == place and not (again / "half").exists() and (again / "server").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_worktree_that_git_had_not_completed_is_made_again(is_there: bool, repository: Path) -> None:
    revision = resolved("v1", repository, "--base-rev")
    place = built(revision, BUILD, Path())
    place.with_name(f"{place.name}.built").unlink()
    git(repository, "worktree", "lock", str(place))  # git does so until it is complete
    if not is_there:
        shutil.rmtree(place)
    assert (built(revision, BUILD, Path()) / "server").exists()


@pytest.mark.parametrize("typed", ["no-such-tag", "--help", "", "v1; true"])
def test_a_revision_that_does_not_exist_is_refused(typed: str, repository: Path) -> None:
    (problem,) = refused(resolved, typed, repository, "--base-rev")
    assert problem.code == "gate.unknown_revision"


def test_outside_a_repository_the_error_says_so(tmp_path: Path) -> None:
    (problem,) = refused(resolved, "HEAD", tmp_path, "--base-rev")
    assert problem.code == "gate.no_repository"


def test_variables_of_git_do_not_lead_elsewhere(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git bisect run` and hooks set some."""
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert (built(resolved("v1", repository, "--base-rev"), BUILD, Path()) / "server").exists()
