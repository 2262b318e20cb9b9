"""Servers and load generators that are not ours, before the first trial: built, found, and their versions."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thunderherd.engine.own_load import run_program
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.places.place import Place
from thunderherd.engine.process import ending_in_words, one_line
from thunderherd.errors import Problem, UserError
from thunderherd.files import read_bytes
from thunderherd.labs.kind import Site
from thunderherd.records.directory import RunInfo
from thunderherd.study.loading import Contender, Study
from thunderherd.study.resolved import OwnProgram
from thunderherd.trial.folder import template_of

__all__ = ["as_begun", "prepared", "without_unfit"]

BUILD_SECONDS = 600.0
VERSION_SECONDS = 10.0
LONGEST = 400
"""The most characters of a version or of the end of an output."""
LARGEST_HASHED = 1 << 26
"""The most bytes of a file of a command that is hashed."""


def prepared(
    study: Study, unfit: dict[str, Problem] | None = None, sites: Mapping[str, Site] | None = None
) -> dict[str, Any]:
    """Build each server and load generator that a command starts; return what a run records, by contender.

    These are its command, the SHA-256 of its program and of the other files that its command names, and its
    version. If its version cannot be had, `warnings` says why. A load generator has the contender's name and
    " load". Builds run as the caller, who owns their files, and version commands as the servers do. Without
    `sites`, programs of hosts are left out.

    Raise `UserError` if one cannot be built or found. If its study says how to install it, `unfit` receives
    the problem instead, by the contender's name.
    """
    found: dict[str, Any] = {}
    failed: dict[str, Problem] = {}
    built: dict[tuple[Path | None, tuple[str, ...]], UserError | None] = {}
    for contender, name, server, place in _programs(study, sites):
        if name not in found and name not in failed:
            try:
                found[name] = _prepared(name, server, built, contender.lab.user, place)
            except UserError as error:
                if unfit is None or server.install is None:
                    raise
                failed[name] = Problem(error.problems[0].message, error.problems[0].code, server.install)
        if unfit is not None and name in failed:
            unfit.setdefault(contender.name, failed[name])
    return found


def _prepared(
    name: str,
    server: OwnProgram,
    built: dict[tuple[Path | None, tuple[str, ...]], UserError | None],
    user: str | None,
    place: Place,
) -> dict[str, Any]:
    """Build a program unless `built` has the outcome, and return what a run records of it."""
    if server.url is not None:
        return {"url": server.url}
    if server.build:
        key = (server.directory, server.build)
        if key not in built:
            try:
                _build(name, server)
                built[key] = None
            except UserError as error:
                built[key] = error
        if (failed := built[key]) is not None:
            raise failed
    return {
        "command": shlex.join(server.command),
        "sha256": place.ask(_hash, name, server.command[0]),
        "files": place.ask(_files, server),
        **_version(name, server, user, place),
    }


def without_unfit(study: Study, unfit: Mapping[str, Problem]) -> Study:
    """Return the study without contenders that cannot run; raise `UserError` if no other is left."""
    if unfit and all(each.name in unfit for each in study.contenders):
        raise UserError(*dict.fromkeys(each.at(name) for name, each in _by_base(study, unfit).items()))
    return study.without({name: str(each) for name, each in unfit.items()})


def _by_base(study: Study, unfit: Mapping[str, Problem]) -> dict[str, Problem]:
    return {each.base: unfit[each.name] for each in study.contenders}


def as_begun(study: Study, info: RunInfo) -> Study:
    """Return the study without the contenders that were left out when its run began."""
    if study.digest != info.digest:
        return study
    names, absent = {each.name for each in study.contenders}, info.study.get("absent", {})
    return study.without({name: why for name, why in absent.items() if name in names})


def _programs(
    study: Study, sites: Mapping[str, Site] | None
) -> Iterator[tuple[Contender, str, OwnProgram, Place]]:
    """Yield each server and load generator that is not ours, with its contender, its name and its place."""
    for contender in study.contenders:
        if contender.own_server is not None and contender.own_server.url is not None:
            yield contender, contender.base, contender.own_server, Place()
        site = (sites or {}).get(contender.lab.network)
        for side, _, program in contender.programs if site or not contender.lab.ends.are_hosts else ():
            name = contender.base if side == "server" else f"{contender.base} load"
            place = Place() if site is None else site.server if side == "server" else site.clients[0]
            yield contender, name, program, place


DONE = ".built"
"""The file that marks a folder in which a build has succeeded."""


def _build(name: str, server: OwnProgram) -> None:
    if server.built is not None and any(str(server.built) in word for word in server.build):
        if (server.built / DONE).exists():
            return
        server.built.mkdir(parents=True, exist_ok=True)
    status, output = _run(name, "build", server.build, server, BUILD_SECONDS)
    if status != 0:
        raise UserError(
            f"the build failed: {ending_in_words(status)}{': ' if output else ''}{_end(output)}",
            code="run.build_failed",
            hint=f"type {shlex.join(server.build)} in {server.directory}",
            where=name,
        )
    if server.built is not None and server.built.is_dir():
        (server.built / DONE).touch()


def _version(name: str, server: OwnProgram, user: str | None, place: Place) -> dict[str, Any]:
    """Return what its version command printed, and a warning if that failed."""
    if not server.version:
        return {"version": None}
    status, output = _run(name, "version", server.version, server, VERSION_SECONDS, user, place)
    warnings = {"warnings": [f"version: {ending_in_words(status)}"]} if status != 0 else {}
    return {"version": _end(output), **warnings}


def _run(
    name: str,
    what: str,
    command: Sequence[str],
    server: OwnProgram,
    seconds: float,
    user: str | None = None,
    place: Place | None = None,
) -> tuple[int, str]:
    """Run a command, as this user if one is given; return its exit status and the end of its output."""
    try:
        return run_program(
            command,
            seconds,
            directory=server.directory,
            environment=server.environment,
            user=user,
            place=place,
        )
    except TimeoutError:
        raise _failed(name, what, f"did not end within {seconds:g} s", command) from None
    except EngineError as error:
        raise _failed(name, what, f"failed: {error}", command) from None


def _failed(name: str, what: str, why: str, command: Sequence[str]) -> UserError:
    hint = shlex.join(command)
    return UserError(f"the {what} {why}", code=f"run.{what}_failed", hint=hint, where=name)


def _hash(name: str, program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise UserError(
            f"no program {program}", code="run.no_program", hint="build it, or give its path", where=name
        )
    return hashlib.sha256(read_bytes(Path(path))).hexdigest()


def _files(server: OwnProgram) -> dict[str, str | None]:
    """Return the SHA-256 of each file that a word of the command names; None if the file is too large.

    `{dir}/NAME` names the file NAME, from which each trial's copy is made.
    """
    found: dict[str, str | None] = {}
    for word in server.command[1:]:
        with contextlib.suppress(OSError, ValueError):  # a word may be no path, or too long for one
            path = template_of(word, server.directory) or (server.directory or Path()) / word
            if word and path.is_file():
                is_small = path.stat().st_size <= LARGEST_HASHED
                found[word] = hashlib.sha256(path.read_bytes()).hexdigest() if is_small else None
    return found


def _end(text: str) -> str:
    return one_line(text)[-LONGEST:]
