"""A server under test, as it was typed: a command, the URL of a running server, or a design."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import OwnServer, Place, Server
from thunderherd.errors import UserError
from thunderherd.labs import loopback
from thunderherd.study.file.placeholders import PORT
from thunderherd.study.file.urls import server_url
from thunderherd.study.own_programs import (
    URL,
    address_of,
    command_words,
    has_paths,
    is_command,
    program_meant,
    url_meant,
    url_problem,
)
from thunderherd.study.resolved import OwnProgram
from thunderherd.toml.file import LISTS, show, suggest, unknown
from thunderherd.trial.folder import filled_in

__all__ = ["Subject", "typed_server"]

PATH = re.compile(r"/[!-~]{0,1023}")
"""A path as a request line has it."""


@dataclass(frozen=True)
class Subject:
    """A server under test, as it was typed."""

    typed: str
    workload: str
    kind: Literal["command", "url", "design"]
    address: str = ""
    """Where a running server listens."""
    path: str | None = None
    """The path of a resource that it has; None for a workload without paths."""
    server: OwnProgram | None = None
    """How a command is started."""
    placeholders: tuple[tuple[str, str], ...] = ()
    """The placeholders of a load's settings, and their values, for the files and variables of a command."""
    user: str | None = None
    """The user that it runs as. None: the one who runs this program."""
    listen: str = loopback.KIND.listen
    """Where a command listens, with a port of the kernel's choice."""
    place: Place = field(default_factory=Place, compare=False)
    """Where the server runs, and the clients of its cases."""

    def __hash__(self) -> int:
        """The server is no part: it has a dictionary."""
        return hash((self.typed, self.workload, self.address, self.path, self.listen))

    @property
    def is_started(self) -> bool:
        """True if this run starts the server."""
        return self.kind != "url"

    @contextlib.contextmanager
    def started(self) -> Iterator[OwnServer | Server]:
        """Start it, or watch the running one, for the duration of the block. Main thread only."""
        with contextlib.ExitStack() as held:
            server: OwnServer | Server
            if self.kind == "design":
                server = Server(self.typed, workload=self.workload, user=self.user)
            elif self.kind == "command":
                assert self.server is not None, "a command has its words"
                made = held.enter_context(
                    filled_in(self.server, self.listen, dict(self.placeholders), self.user, self.place)
                )
                server = OwnServer(
                    made.command,
                    name=made.command[0],
                    address=made.address,
                    ready_line=self.server.ready_line,
                    directory=self.server.directory,
                    environment=made.environment,
                    user=self.user,
                    place=self.place,
                )
            else:
                server = OwnServer(name=self.typed, address=self.address, place=self.place)
            held.enter_context(server)
            yield server


def typed_server(
    typed: str,
    workload: str | None,
    catalogue: Catalogue,
    *,
    path: str | None = None,
    command: str = "conform",
) -> Subject:
    """Return the server that was typed, with the path of a resource that it has (default: the URL's, or /).

    `command` is the one that it was typed after. Raise `UserError` if it is no server, if the workload is
    unknown, or if it has no paths.
    """
    workloads = [each.name for each in catalogue.workloads]
    if workload is not None and workload not in workloads:
        raise UserError(unknown("workload", workload, workloads, "conform").at(command))
    if URL.match(typed):
        if path is not None:
            message = "a URL has its path"
            hint = f"give it in the URL, such as http://127.0.0.1:8080{path}"
            raise UserError(message, code="conform.path_of_url", hint=hint, where=f"conform: --path {path}")
        return _running(typed, workload, catalogue, command)
    chosen = workload or catalogue.defaults.workload
    path = _path(path, chosen, catalogue)
    if typed in [each.name for each in catalogue.designs]:
        return Subject(typed, chosen, "design", path=path)
    if not is_command(typed):
        designs = [each.name for each in catalogue.designs]
        known = f"a command such as './server {PORT}', a URL, or a design: {', '.join(designs)}"
        message = f"{show(typed)} is no command with {PORT}, no URL and no design"
        hint = url_meant(typed) or suggest(typed, designs, known, LISTS["design"])
        raise UserError(message, code="conform.unknown_server", hint=hint, where=command)
    return Subject(typed, chosen, "command", path=path, server=_server(typed, command))


def _server(typed: str, command: str) -> OwnProgram:
    words = command_words(typed, "conform", command)
    if not words or shutil.which(words[0]) is None:
        message = f"no program {show(words[0] if words else '')}"
        hint = program_meant(words, Path.cwd())
        raise UserError(message, code="conform.no_program", hint=hint, where=command)
    return OwnProgram(command=words, directory=Path.cwd())


def _path(path: str | None, workload: str, catalogue: Catalogue) -> str | None:
    if not has_paths(workload, catalogue):
        if path is not None:
            raise UserError(
                f"workload {workload} has no paths",
                code="conform.no_paths",
                hint="leave --path out, or give --workload http",
                where=f"conform: --path {path}",
            )
        return None
    if path is not None and not PATH.fullmatch(path):
        raise UserError(
            f"{show(path)} is no path",
            code="conform.invalid_path",
            hint="such as --path /index.html",
            where="conform: --path",
        )
    return path or "/"


def _running(typed: str, workload: str | None, catalogue: Catalogue, command: str) -> Subject:
    parts = server_url(typed)
    if problem := url_problem(typed, workload, catalogue, "conform"):
        raise UserError(problem.at(command))
    assert parts is not None, "it has no problem"
    path = parts.path if has_paths(parts.scheme, catalogue) else None
    return Subject(typed, parts.scheme, "url", address_of(parts, catalogue), path)
