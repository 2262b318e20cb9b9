"""docs/tutorial.md as a program: its files are written, its commands run in their order by one shell, and
what they print is put below them.

A block `console` has commands, each behind `$ `, and below each what it printed. A block behind a line
**`NAME`** is the file of that name.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from handbook.markdown import ROOT
from thunderherd.errors import UserError

PAGE = Path("docs/tutorial.md")
PORT = "8888"
SECONDS = 600.0
COLUMNS = "100"

BLOCK = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^\*\*`(?P<name>[\w.]+)`\*\*\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command of the page and the lines that the page shows below it."""

    typed: str
    shown: tuple[str, ...]


def commands(page: str) -> list[Command]:
    """All commands of a page, in their order."""
    return [each for block in BLOCK.finditer(page) for each in _of_block(block["text"])]


def _of_block(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, *shown = part.rstrip("\n").split("\n")
        yield Command(typed, tuple(shown))


def run(page: str, folder: Path) -> list[list[str]]:
    """Runs all commands of a page in a folder; returns what each printed.

    Raises UserError for a command that fails, anywhere in a pipeline; that files differ is no failure.
    """
    for file in FILE.finditer(page):
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    # Where the reader is: in the clone.
    (folder / "engine").symlink_to(ROOT / "engine")
    free = _free_port()
    typed = [each.typed for each in commands(page)]
    end = "== end of a command =="
    script = "set -m -o pipefail\n" + "".join(
        f"{command.replace(PORT, free)}\nprintf '\\n{end} %s\\n' $?\n" for command in typed
    )
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": COLUMNS,
        "NO_COLOR": "1",
    }
    try:
        done = subprocess.run(
            ["bash"],
            input=script,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{PAGE}: its commands took more than {SECONDS:g} s") from None
    said = re.split(rf"\n{end} (\d+)\n", done.stdout)
    printed, statuses = said[:-1:2], said[1::2]
    for command, text, status in zip(typed, printed, statuses, strict=False):
        if status != ("1" if command.startswith("diff ") else "0"):
            raise UserError(f"{PAGE}: `{command}` ended with status {status}:\n{text}\n{done.stderr}")
    if len(statuses) != len(typed):
        raise UserError(
            f"{PAGE}: only {len(statuses)} of {len(typed)} commands ended:\n{done.stdout}\n{done.stderr}"
        )
    return [_lines(text.replace(free, PORT)) for text in printed]


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def written(page: str, printed: list[list[str]]) -> str:
    """The page with what was printed below each command."""
    outputs = iter(printed)

    def block(found: re.Match[str]) -> str:
        lines = [
            line
            for each in _of_block(found["text"])
            for line in (f"$ {each.typed}", *_fitting(next(outputs)))
        ]
        return "```console\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, page)


def _fitting(lines: list[str]) -> list[str]:
    """Lines as they are; one that would be taken for a command or the block's end is not to be."""
    if any(line.startswith(("$ ", "```")) for line in lines):
        raise UserError(f"{PAGE}: a command prints a line that begins like a command or ends the block")
    return lines


def words(lines: tuple[str, ...] | list[str]) -> set[str]:
    """What of an output is alike from run to run: its words, not its figures."""
    return set(re.findall(r"[A-Za-z_]{4,}", " ".join(lines)))


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
