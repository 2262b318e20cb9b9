"""The folder of a trial, for a server that is not ours: its configuration, made from templates.

`{dir}` in its command is the folder. `{dir}/NAME` is also a copy of the file NAME of the command's directory,
if there is one, with `{port}`, `{host}` and `{dir}` filled in.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thunderherd.study.foreign import PORT, filled
from thunderherd.study.resolved import Foreign

__all__ = ["HOST", "Filled", "filled_in"]

DIR, HOST = "{dir}", "{host}"


@dataclass(frozen=True)
class Filled:
    """The command, environment and address of a server for one trial."""

    command: list[str]
    environment: dict[str, str]
    address: str


@contextlib.contextmanager
def filled_in(server: Foreign, listen: str) -> Iterator[Filled]:
    """Make the folder of a trial, fill it, and remove it at the end; without `{dir}` there is none.

    `listen` is HOST:0. Without a folder the engine chooses the port.
    """
    words = [*server.command, *server.environment.values()]
    if not any(DIR in word for word in words):
        yield Filled([*server.command], {**server.environment}, listen)
        return
    host = listen.rpartition(":")[0]
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="thunderherd-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        # A server may give up its privileges before it reads its files.
        folder.chmod(0o755)
        values = {DIR: made, PORT: str(port), HOST: host}
        for word in words:
            if template := _template(word, server.directory):
                target = folder / template.name
                target.write_text(filled(template.read_text(encoding="utf-8"), values), encoding="utf-8")
                target.chmod(template.stat().st_mode & 0o777)
        yield Filled(
            [filled(word, values) for word in server.command],
            {name: filled(value, values) for name, value in server.environment.items()},
            f"{host}:{port}",
        )


def _template(word: str, directory: Path | None) -> Path | None:
    """Return the file that a word `...{dir}/NAME` is a copy of; None if there is none."""
    name = word.rpartition(f"{DIR}/")[2] if f"{DIR}/" in word else ""
    path = (directory or Path()) / name
    return path if name and "/" not in name and path.is_file() else None


def _free_port() -> int:
    """Return a port that nobody uses now. If another process takes it, the trial is invalid and repeated."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
