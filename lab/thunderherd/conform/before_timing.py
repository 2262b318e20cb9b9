"""The cases that a study's load needs, run against servers that are not ours before they are timed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from thunderherd.conform.server import Subject
from thunderherd.conform.verdicts import Conformance, conformance
from thunderherd.engine.conform_lines import ConformCase
from thunderherd.engine.conformance import cases_of
from thunderherd.engine.places.failures import EngineError
from thunderherd.errors import Problem, UserError
from thunderherd.labs.kind import Site
from thunderherd.study.file.placeholders import DIR, filled
from thunderherd.study.loading import Contender, Study
from thunderherd.study.own_programs import PATH
from thunderherd.study.resolved import CONNECTIONS, KEPT, PIPELINE, OwnProgram
from thunderherd.trial.caveats import NO_CONFORM

__all__ = ["check_servers", "needed_cases"]

PLAIN_WORD = re.compile(r"[\w@%+=:,./{}-]+")
"""A word of a command that needs no quotes within the quotes around a command."""
METHOD, BODIES = "method", {"body": "", "body_file": "none"}
"""The settings of a request's method, and of its body with the value of each for none."""


def needed_cases(contender: Contender, cases: Sequence[ConformCase]) -> list[ConformCase]:
    """Return the cases without which the figures of a contender's load would be wrong."""
    settings = contender.load.settings
    does = {
        "any_load": True,
        "kept_connections": settings.get(CONNECTIONS) == KEPT,
        "pipelining": int(settings.get(PIPELINE, 1)) > 1,
        "request_body": any(settings.get(name, none) != none for name, none in BODIES.items()),
        "head": settings.get(METHOD) == "HEAD",
    }
    return [each for each in cases if each.needed_by is not None and does[each.needed_by]]


def check_servers(
    study: Study,
    say: Callable[[str], None],
    unfit: dict[str, Problem] | None = None,
    sites: Mapping[str, Site] | None = None,
) -> dict[str, list[int]]:
    """Run the needed cases against each server that is not ours; return their numbers, by contender.

    A server on a host of `sites` is checked there; all others are checked on this machine.

    A load generator that is not ours speaks its own protocol, so its server is not checked. Raise `UserError`
    for the first server that does not start, or case that fails. If the engine has no room for a server now,
    it is left to the trials. If a server does not start, and its study says how to install it, `unfit`
    receives the problem instead, by the contender's name.
    """
    passed: dict[str, list[int]] = {}
    for subject, contenders in _servers(study, sites or {}).items():
        known = cases_of(subject.workload)
        needed = {case.number for each in contenders for case in needed_cases(each, known)}
        name = contenders[0].base
        say(f"{name}: checking its replies before it is timed")
        try:
            found = _conformance(subject, tuple(sorted(needed)))
        except EngineError as error:
            install = subject.server.install if subject.server is not None else None
            if error.hint and install is not None and unfit is not None:
                problem = Problem(error.message, error.code, install)
                unfit.update({each.name: problem for each in contenders})
                continue
            if error.hint:
                hint = f"{error.hint}; {NO_CONFORM} leaves it to the trials"
                raise UserError(error.message, code=error.code, hint=hint, where=name) from None
            say(f"{name}: {error}")
            continue
        on = f" on {subject.place.host}" if subject.place.host else ""
        for case in found.failed:
            raise UserError(
                f"fails conformance case {case.number}, {case.name}: "
                f"expected {case.expected}; actual {case.actual}",
                code="conform.server_fails",
                hint=f"replay it{on}: {_replay(found, case.number)}; {NO_CONFORM} skips this check",
                where=name,
            )
        for each in contenders:
            passed[each.base] = sorted({*passed.get(each.base, ()), *needed})
    return passed


@lru_cache(maxsize=64)
def _conformance(subject: Subject, numbers: tuple[int, ...]) -> Conformance:
    """Run the cases once for all stages of a search."""
    return conformance(subject, numbers=numbers, plain=True, any_status=True)


def _servers(study: Study, sites: Mapping[str, Site]) -> dict[Subject, list[Contender]]:
    """Return the servers that are not ours, each with the contenders that it serves."""
    found: dict[Subject, list[Contender]] = {}
    for subject, contender in _each_server(study, sites):
        found.setdefault(subject, []).append(contender)
    return found


def _each_server(study: Study, sites: Mapping[str, Site]) -> Iterator[tuple[Subject, Contender]]:
    for each in study.contenders:
        server = each.own_server
        if server is None or each.load.generator is not None:
            continue
        path = each.load.settings.get(PATH)
        values, site = each.load.placeholders, sites.get(each.lab.network)
        server = server.model_copy(update={"command": tuple(filled(word, values) for word in server.command)})
        typed = server.url or _as_typed(server.command)
        subject = Subject(
            typed,
            each.workload,
            "url" if server.url else "command",
            server.address or "",
            str(path) if path else None,
            server,
            tuple(_used(values, server).items()),
            each.lab.user,
        )
        yield (
            replace(subject, listen=site.listen, place=site.server) if site and site.hosts() else subject,
            each,
        )


def _used(values: Mapping[str, str], server: OwnProgram) -> dict[str, str]:
    """Return the placeholders that matter once the command is filled in: all, if it has templates."""
    if any(DIR in word for word in server.command):
        return dict(values)
    texts = " ".join(server.environment.values())
    return {name: value for name, value in values.items() if name in texts}


def _as_typed(command: Sequence[str]) -> str:
    """Return a command as a user types it: no quotes around {port}."""
    return " ".join(word if PLAIN_WORD.fullmatch(word) else shlex.quote(word) for word in command)


def _replay(found: Conformance, number: int) -> str:
    server = found.subject.server
    case = next(each for each in found.cases if each.number == number)
    folder = server.directory if server is not None and server.command else None
    inside = "" if folder in (None, Path.cwd()) else f"cd {shlex.quote(str(folder))} && "
    known = dict(found.subject.placeholders)
    variables = "".join(
        f"{name}={shlex.quote(filled(value, known))} "
        for name, value in (server.environment if server is not None else {}).items()
    )
    return f"{inside}{variables}{found.replay(case)}"
