"""The folder of a trial, for a server that is not ours: its configuration, made from templates.

`{dir}` in its command is the folder. `{dir}/NAME` is also a copy of the file NAME of the command's directory,
if there is one, with `{port}`, `{host}`, `{dir}` and the settings of the load filled in. Another free port is
`{second_port}`.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from thunderherd.engine.places.place import Place
from thunderherd.files import read_bytes, temporary_folder
from thunderherd.machine.users import find_user
from thunderherd.study.file.placeholders import DIR, HOST, PORT, SECOND_PORT, filled, template_name
from thunderherd.study.resolved import OwnProgram

__all__ = ["Filled", "filled_in", "template_of"]

LARGEST_TEMPLATE = 1 << 26
"""The largest file that is copied, bytes."""


@dataclass(frozen=True)
class Filled:
    """The command, environment and address of a server for one trial, and its second port, if it has one."""

    command: list[str]
    environment: dict[str, str]
    address: str
    second_port: str


@contextlib.contextmanager
def filled_in(
    server: OwnProgram,
    listen: str,
    settings: Mapping[str, str],
    user: str | None = None,
    place: Place | None = None,
) -> Iterator[Filled]:
    """Fill in a command for a trial. A command with `{dir}` has a folder, which is removed at the end.

    `listen` is HOST:0; `settings` has the placeholders of the load's settings. The engine chooses the port if
    only words of the command name it. The folder belongs to `user`, who runs the server at `place` (default:
    on this machine).
    """
    words = [*server.command, *server.environment.values()]
    needs_folder = any(DIR in word for word in words)
    # The engine fills in the command alone.
    needs_port = any(name in value for value in server.environment.values() for name in (PORT, HOST))
    if not needs_folder and not needs_port and not any(SECOND_PORT in word for word in words):
        yield _filled(server, settings, listen, "")
        return
    host = listen.rpartition(":")[0]
    ports = [str(port) for port in (place or Place()).ask(free_ports, 2)]
    values = {**settings, PORT: ports[0], SECOND_PORT: ports[1], HOST: host}
    with contextlib.ExitStack() as held:
        if needs_folder:
            # The outer folder stays this user's: what belongs to another is never swept.
            folder = held.enter_context(temporary_folder()) / "files"
            folder.mkdir()
            values[DIR] = str(folder)
            _fill_folder(folder, words, server.directory, values)
            if user is not None:
                _give(folder, user)
        yield _filled(server, values, f"{host}:{ports[0]}", ports[1])


def _filled(server: OwnProgram, values: Mapping[str, str], address: str, second_port: str) -> Filled:
    return Filled(
        [filled(word, values) for word in server.command],
        {name: filled(value, values) for name, value in server.environment.items()},
        address,
        second_port,
    )


def _fill_folder(
    folder: Path, words: Iterable[str], directory: Path | None, values: Mapping[str, str]
) -> None:
    """Make a copy of each template, with its placeholders filled in."""
    # A server may give up its privileges before it reads its files.
    for each in (folder.parent, folder):
        each.chmod(0o755)
    for word in words:
        if template := template_of(word, directory):
            target = folder / template.name
            # Bytes that are not UTF-8 stay as they are.
            text = read_bytes(template, LARGEST_TEMPLATE).decode(errors="surrogateescape")
            target.write_bytes(filled(text, values).encode(errors="surrogateescape"))
            target.chmod(template.stat().st_mode & 0o777)


def _give(folder: Path, name: str) -> None:
    """Give a folder to a user: its files first, since its owner may put links in their place."""
    user = find_user(name)
    if user is None:  # The engine refuses to run the server.
        return
    for path in (*folder.iterdir(), folder):
        os.chown(path, user.number, user.group, follow_symlinks=False)


def template_of(word: str, directory: Path | None) -> Path | None:
    """Return the file that a word `...{dir}/NAME` is a copy of; None if there is none."""
    name = template_name(word)
    path = (directory or Path()) / (name or "")
    return path if name and path.is_file() else None


def free_ports(number: int) -> list[int]:
    """Return ports that nobody uses now. If another process takes one, the trial is invalid and repeated."""
    with contextlib.ExitStack() as held:
        found = [held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(number)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]
