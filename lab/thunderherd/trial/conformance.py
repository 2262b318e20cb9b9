"""Runs the cases that any server of a workload must pass, against a command, a running server, or a design.

A server that this run started is started again after a case that failed, so that each case meets a server
that works.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit
from xml.etree import ElementTree

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import ForeignServer, Server
from thunderherd.engine.conform_lines import Conformed
from thunderherd.engine.conformance import Conforming, cases_of
from thunderherd.errors import UserError
from thunderherd.study.foreign import PORT, URL, WEB_PORT, has_paths
from thunderherd.toml.file import show, suggest, unknown

__all__ = ["Conformance", "Tested", "as_json", "as_junit", "conformance", "typed_server"]

SCHEMA = 1
"""The version of the JSON of a conformance."""


@dataclass(frozen=True)
class Tested:
    """A server to be tested, as it was typed."""

    typed: str
    workload: str
    kind: Literal["command", "url", "design"]
    address: str = ""
    """Where a running server listens."""
    path: str | None = None
    """The path of a resource that it has; None for a workload without paths."""
    command: tuple[str, ...] = ()

    @property
    def is_started(self) -> bool:
        """True if this run starts the server."""
        return self.kind != "url"

    @contextlib.contextmanager
    def started(self) -> Iterator[ForeignServer | Server]:
        """Start it, or watch the running one, for the duration of the block. Main thread only."""
        server: ForeignServer | Server
        if self.kind == "design":
            server = Server(self.typed, workload=self.workload)
        elif self.kind == "command":
            server = ForeignServer(self.command, name=self.command[0])
        else:
            server = ForeignServer(name=self.typed, address=self.address)
        with server:
            yield server


@dataclass(frozen=True)
class Conformance:
    """The verdicts of all cases of a server, by number."""

    tested: Tested
    seed: int
    cases: tuple[Conformed, ...]

    def of(self, *verdicts: str) -> list[Conformed]:
        """Return the cases with one of these verdicts."""
        return [each for each in self.cases if each.verdict in verdicts]

    @property
    def failed(self) -> list[Conformed]:
        """The cases of which the server broke a rule that it must keep."""
        return self.of("failed")

    def replay(self, case: Conformed) -> str:
        """Return the command that runs a case again with the same inputs."""
        workload = "" if self.tested.kind == "url" else f" --workload {self.tested.workload}"
        typed = shlex.quote(self.tested.typed)
        return f"thunderherd conform {typed}{workload} --case {case.number} --seed {self.seed}"


def typed_server(typed: str, workload: str | None, catalogue: Catalogue) -> Tested:
    """Return the server that was typed; raise `UserError` if it is none, or if the workload is unknown."""
    workloads = [each.name for each in catalogue.workloads]
    if workload is not None and workload not in workloads:
        raise UserError(unknown("workload", workload, workloads, "conform").at("conform"))
    if found := URL.match(typed):
        return _running(typed, found[1], workload, catalogue)
    chosen = workload or catalogue.defaults.workload
    path = "/" if has_paths(chosen, catalogue) else None
    if typed in [each.name for each in catalogue.designs]:
        return Tested(typed, chosen, "design", path=path)
    if PORT not in typed and " " not in typed.strip():
        designs = [each.name for each in catalogue.designs]
        known = f"a command such as './server {PORT}', a URL, or a design: {', '.join(designs)}"
        message = f"{show(typed)} is no command with {PORT}, no URL and no design"
        hint = suggest(typed, designs, known)
        raise UserError(message, code="conform.unknown_server", hint=hint, where="conform")
    return Tested(typed, chosen, "command", path=path, command=_words(typed))


def _words(typed: str) -> tuple[str, ...]:
    try:
        words = shlex.split(typed)
    except ValueError as error:
        hint = "quote its words as a shell does"
        message = f"{show(typed)} is not a command: {error}"
        raise UserError(message, code="conform.invalid_command", hint=hint, where="conform") from None
    if not words or shutil.which(words[0]) is None:
        message = f"no program {show(words[0] if words else '')}"
        hint = "install it, build it, or give its path"
        raise UserError(message, code="conform.no_program", hint=hint, where="conform")
    return tuple(words)


def _running(typed: str, scheme: str, workload: str | None, catalogue: Catalogue) -> Tested:
    found = catalogue.workload(scheme)
    if found is None:
        schemes = ", ".join(f"{each.name}://" for each in catalogue.workloads)
        message = f"{typed}: no workload has the scheme {scheme}"
        hint = f"allowed: {schemes}"
        raise UserError(message, code="conform.unknown_scheme", hint=hint, where="conform")
    if workload not in (None, scheme):
        message = f"{typed} is of workload {scheme}, not {workload}"
        raise UserError(
            message, code="conform.other_scheme", hint=f"leave --workload {workload} out", where="conform"
        )
    try:
        parts = urlsplit(typed)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        hint = f"such as {scheme}://127.0.0.1:8080/"
        raise UserError(f"{show(typed)} is not a URL", code="conform.invalid_url", hint=hint, where="conform")
    with_paths = has_paths(scheme, catalogue)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = WEB_PORT if with_paths else found.port
    place = f"[{host}]" if ":" in host else host
    return Tested(typed, scheme, "url", f"{place}:{port or usual}", path if with_paths else None)


# Running ----------------------------------------------------------------------------------------------------


@dataclass
class _Run:
    """The cases that are left, and those that were run."""

    left: list[int]
    cases: list[Conformed] = field(default_factory=list)


def conformance(
    server: Tested, *, numbers: Sequence[int] = (), seed: int = 1, patience: float = 5.0
) -> Conformance:
    """Run the cases of these numbers (default: all) against a server. Main thread only.

    Raise `UserError` for a number that the workload has not, and `EngineError` if the server does not start.
    """
    known = [each.number for each in cases_of(server.workload)]
    for number in numbers:
        if number not in known:
            hint = f"known: {', '.join(map(str, known))}"
            message = f"workload {server.workload} has no case {number}"
            raise UserError(message, code="conform.unknown_case", hint=hint, where="conform")
    conforming = Conforming(server.workload, server.path, seed, patience)
    run = _Run([*(dict.fromkeys(numbers) or known)])
    while run.left:
        _run_until_failure(run, server, conforming)
    return Conformance(server, seed, tuple(sorted(run.cases, key=lambda each: each.number)))


def _run_until_failure(run: _Run, tested: Tested, conforming: Conforming) -> None:
    """Start the server, and run the cases that are left until one fails."""
    with tested.started() as server:

        def stop() -> str | None:
            summary = server.stop()
            return summary.died if summary else None

        lines = conforming.run(
            server.ready.address,
            [*run.left],
            stop=stop if tested.is_started else None,
            until_failure=tested.is_started,
        )
        for line in lines:
            run.cases.append(line)
            run.left.remove(line.number)


# For programs -----------------------------------------------------------------------------------------------


def as_json(found: Conformance) -> dict[str, Any]:
    """Return the verdicts for programs."""
    return {
        "schema": SCHEMA,
        "server": found.tested.typed,
        "workload": found.tested.workload,
        "seed": found.seed,
        "failed": [each.number for each in found.failed],
        "cases": [
            {
                **each.model_dump(exclude={"line", "schema_version"}),
                "replay": found.replay(each),
            }
            for each in found.cases
        ],
    }


def as_junit(found: Conformance) -> bytes:
    """Return the verdicts as JUnit XML, which CI systems read."""
    skipped = found.of("not_judged")
    suite = ElementTree.Element(
        "testsuite",
        name=f"thunderherd conform {found.tested.typed}",
        tests=str(len(found.cases)),
        failures=str(len(found.failed)),
        errors="0",
        skipped=str(len(skipped)),
        time=f"{sum(each.elapsed_ns for each in found.cases) / 1e9:.3f}",
    )
    for each in found.cases:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"conform.{found.tested.workload}",
            name=f"{each.number} {each.name}",
            time=f"{each.elapsed_ns / 1e9:.3f}",
        )
        text = f"{each.rule}\nexpected: {each.expected}\ncame: {each.came}\nreplay: {found.replay(each)}"
        if each.verdict == "failed":
            ElementTree.SubElement(case, "failure", message=f"came: {each.came}").text = text
        elif each.verdict == "not_judged":
            ElementTree.SubElement(case, "skipped", message=each.came or "")
        elif each.verdict == "warned":
            ElementTree.SubElement(case, "system-out").text = f"warning: {text}"
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
