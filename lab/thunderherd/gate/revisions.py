"""Revisions of a git repository, each built in a separate worktree, which is kept.

```
CACHE/revisions/REPOSITORY/COMMIT-HOW/     the worktree, and the mark .built beside its files
```

HOW stands for the build command, the folder in which it runs, and the variables that compilers obey.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from thunderherd.engine.own_load import run_program
from thunderherd.engine.process import ending_in_words
from thunderherd.errors import UserError
from thunderherd.records.cache import kept_folder

__all__ = ["BuildFailedError", "Revision", "built", "resolved"]

SHORT = 12
"""The digits of a commit in names."""
SUFFIXES = (".built", ".log", ".lock")
"""Endings of the files beside a worktree: the mark of a successful build, its output, and the lock."""
OF_COMPILERS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "RUSTFLAGS", "GOFLAGS", "MAKEFLAGS")
"""Variables that change what compilers make of the same commit."""
LAST_LINES = 5
"""The lines of a failed build that an error shows."""
LONGEST_BUILD = 3600
"""The seconds after which a build, or the copying of the files of a commit, is ended."""


class BuildFailedError(UserError):
    """A revision whose build fails: `git bisect` skips it."""


@dataclass(frozen=True)
class Revision:
    """A commit of a repository, as typed."""

    typed: str
    commit: str
    repository: Path

    @property
    def label(self) -> str:
        """The name in the output: `v1.2 (0123456789ab)`."""
        short = self.commit[:SHORT]
        return short if self.commit.startswith(self.typed) else f"{self.typed} ({short})"


def resolved(typed: str, folder: Path, option: str) -> Revision:
    """Return the commit that a revision names; raise `UserError` if there is none."""
    top = _git(["rev-parse", "--show-toplevel"], folder)
    if top is None:
        raise UserError(
            "no git repository here that git accepts",
            code="gate.no_repository",
            hint="call the command inside the repository of the server; `git status` says what git misses",
            where=f"gate: {option} {typed}",
        )
    repository = Path(top)
    commit = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{typed}^{{commit}}"], repository)
    if commit is None:
        raise UserError(
            f"no such revision '{typed}'",
            code="gate.unknown_revision",
            hint="a tag, a branch or a commit of this repository; `git log --oneline` lists some",
            where=f"gate: {option} {typed}",
        )
    return Revision(typed, commit, repository)


def built(revision: Revision, build: str | None, subfolder: Path) -> Path:
    """Return the folder in which the server of a revision is started; build the revision if needed.

    Parameters
    ----------
    revision
        The commit.
    build
        The shell command that builds the revision. None: there is nothing to build.
    subfolder
        The folder below the top of the repository in which the commands run.
    """
    name = hashlib.sha256(str(revision.repository).encode()).hexdigest()[:SHORT]
    flags = [f"{name}={os.environ.get(name, '')}" for name in OF_COMPILERS]
    how = hashlib.sha256("\0".join([build or "", str(subfolder), *flags]).encode()).hexdigest()[:8]
    place = kept_folder() / "revisions" / name / f"{revision.commit[:SHORT]}-{how}"
    place.parent.mkdir(parents=True, exist_ok=True)
    mark, log, lock = (place.with_name(place.name + suffix) for suffix in SUFFIXES)
    with _locked(lock):
        if mark.exists() and place.is_dir():
            return place / subfolder
        mark.unlink(missing_ok=True)
        _check_out(revision, place)
        if build is not None:
            _run_build(revision, build, place / subfolder, log)
        mark.touch()
    return place / subfolder


def _check_out(revision: Revision, place: Path) -> None:
    """Make the worktree, replacing an unfinished one."""
    # Git locks a worktree until it is complete. It removes or replaces a locked one if `--force` comes twice.
    force = ["--force", "--force"]
    if place.exists():
        _git(["worktree", "remove", *force, str(place)], revision.repository)
        shutil.rmtree(place, ignore_errors=True)
    _git(["worktree", "prune"], revision.repository)
    command = ["git", "worktree", "add", "--detach", *force, str(place), revision.commit]
    status: int | None
    try:
        status, said = run_program(
            command, LONGEST_BUILD, directory=revision.repository, environment=_without_git()
        )
    except TimeoutError:
        status, said = None, f"not complete after {LONGEST_BUILD} s"
    if status != 0:
        raise UserError(
            f"git worktree add failed: {_last(said)}",
            code="gate.worktree_failed",
            hint=f"try it by hand in {revision.repository}",
            where=f"gate: {revision.typed}",
        )


def _run_build(revision: Revision, build: str, folder: Path, log: Path) -> None:
    if not folder.is_dir():
        raise BuildFailedError(
            f"{revision.label} has no folder {folder.name}",
            code="gate.build_failed",
            hint="call the command in a folder that both revisions have",
            where="gate: --build",
        )
    status: int | None
    with log.open("wb") as output:
        try:
            status, _ = run_program(
                ["sh", "-c", build], LONGEST_BUILD, directory=folder, environment=_without_git(), log=output
            )
        except TimeoutError:
            status = None
    if status != 0:
        why = f"ended after {LONGEST_BUILD} s" if status is None else ending_in_words(status)
        last = _last(log.read_text(encoding="utf-8", errors="replace"))
        raise BuildFailedError(
            f"the build of {revision.label} failed ({why}): {last}",
            code="gate.build_failed",
            hint=f"its output is in {log}",
            where=f"gate: --build {build}",
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that two gates do not build one revision at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _without_git() -> dict[str, None]:
    """Return the changes to the environment that unset git's own variables, which a hook or a bisect sets."""
    return dict.fromkeys(name for name in os.environ if name.startswith("GIT_"))


def _environment() -> dict[str, str]:
    """Return the environment without git's own variables."""
    return {name: value for name, value in os.environ.items() if name not in _without_git()}


def _git(words: Sequence[str], folder: Path) -> str | None:
    """Return what git prints; None if it fails."""
    try:
        ended = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False, env=_environment()
        )
    except FileNotFoundError:
        raise UserError(
            "no program git", code="gate.no_git", hint="install git", where="gate: --base-rev"
        ) from None
    return ended.stdout.strip() if ended.returncode == 0 else None


def _last(text: str) -> str:
    """Return the last lines of an output as one line."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-LAST_LINES:]) or "no output"
