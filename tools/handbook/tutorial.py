"""Runs docs/tutorial.md as a program, and writes the output of each command below it.

One shell runs all commands in order. A `console` block has commands, each behind `$ `, with the output of
each below it. A block behind a line **`NAME`** is the file of that name.
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
from thunderherd.cli.options import NOTHING_MEASURED
from thunderherd.errors import UserError

PAGE = Path("docs/tutorial.md")
PORT = "8888"
SECONDS = 600.0
COLUMNS = "100"

BLOCK = re.compile(r"^```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^\*\*`(?P<name>[\w.]+)`\*\*\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command of the page, and the output that the page shows below it."""

    typed: str
    shown: tuple[str, ...]


def commands(page: str) -> list[Command]:
    """Return all commands of a page, in order."""
    return [each for block in BLOCK.finditer(page) for each in _of_block(block["text"])]


def _of_block(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, *shown = part.rstrip("\n").split("\n")
        yield Command(typed, tuple(shown))


def run(page: str, folder: Path) -> list[list[str]]:
    """Run all commands of a page in a folder; return the output of each.

    Raises UserError if a command fails, anywhere in a pipeline.
    """
    for file in FILE.finditer(page):
        (folder / file["name"]).write_text(file["text"], encoding="utf-8")
    # The reader types the commands in the clone, which has this folder.
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
        raise UserError(f"{PAGE}: the commands took more than {SECONDS:g} s") from None
    pieces = re.split(rf"\n{end} (\d+)\n", done.stdout)
    printed, statuses = pieces[:-1:2], pieces[1::2]
    for command, text, status in zip(typed, printed, statuses, strict=False):
        if status not in _allowed(command):
            raise UserError(f"{PAGE}: `{command}` ended with status {status}:\n{text}\n{done.stderr}")
    if len(statuses) != len(typed):
        raise UserError(
            f"{PAGE}: only {len(statuses)} of {len(typed)} commands ended:\n{done.stdout}\n{done.stderr}"
        )
    return [_lines(text.replace(free, PORT)) for text in printed]


def _allowed(command: str) -> tuple[str, ...]:
    """Return the exit statuses that are no failure of a command."""
    if command.startswith(("thunderherd compare ", "thunderherd run ")):
        return ("0", f"{NOTHING_MEASURED}")  # the machine was too busy for a valid trial
    return ("1",) if command.startswith("diff ") else ("0",)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def written(page: str, printed: list[list[str]]) -> str:
    """Return the page with the new output below each command."""
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
    """Return the lines; refuses a line that reads as a command or as the end of the block."""
    if any(line.startswith(("$ ", "```")) for line in lines):
        raise UserError(f"{PAGE}: a command prints a line that begins with `$ ` or ```")
    return lines


def words(lines: tuple[str, ...] | list[str]) -> set[str]:
    """Return the words of an output, which stay the same from run to run, without its figures."""
    return set(re.findall(r"[A-Za-z_]{4,}", " ".join(lines)))


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
