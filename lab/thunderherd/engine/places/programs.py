"""What may be started on a host: servers and load generators that are not ours, word by word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.files import TEMPORARY

__all__ = ["Allowed", "Program"]

PORT = "[1-9][0-9]{0,4}"
HOST = "{host}"
OF_A_TRIAL = {"{port}": PORT, "{second_port}": PORT, "{dir}": rf"(?:/[^/]+)*/{TEMPORARY}\w+/files"}
"""The words in braces that are known only in a trial, besides `HOST`, and the patterns of their values. The
engine fills in some of them itself."""
IN_BRACES = re.compile("|".join(map(re.escape, (HOST, *OF_A_TRIAL))))


@dataclass(frozen=True)
class Program:
    """A command, its working directory and its variables.

    In their words, `{host}` stands for an address to which loads may be sent, `{port}` and `{second_port}`
    for ports, and `{dir}` for the folder of a trial. All other text must be equal.
    """

    command: tuple[str, ...]
    directory: Path | None
    environment: frozenset[tuple[str, str]] = frozenset()

    def is_started_by(
        self, command: Sequence[str], directory: Path | None, environment: Mapping[str, str], targets: str
    ) -> bool:
        """True if a command is this program. `targets` is a pattern of the addresses for `{host}`."""
        own, given = dict(self.environment), dict(environment)
        return (
            self.directory == directory
            and own.keys() == given.keys()
            and len(self.command) == len(command)
            and all(map(_fits, self.command, command, [targets] * len(command)))
            and all(_fits(own[name], given[name], targets) for name in own)
        )


def _fits(word: str, given: str, targets: str) -> bool:
    """True if a word is this one, whether its words in braces are filled in or not."""
    pattern, end = "", 0
    for found in IN_BRACES.finditer(word):
        values = OF_A_TRIAL.get(found[0], targets)
        pattern += f"{re.escape(word[end : found.start()])}(?:{values}|{re.escape(found[0])})"
        end = found.end()
    return re.fullmatch(pattern + re.escape(word[end:]), given) is not None


@dataclass(frozen=True)
class Allowed:
    """What an agent may do: send loads to `targets`, addresses without ports, and start programs."""

    targets: frozenset[str] = frozenset()
    programs: frozenset[Program] = frozenset()

    def check_program(
        self, command: Sequence[str], directory: Path | None, environment: Mapping[str, str]
    ) -> None:
        """Raise `UserError` if a command with its working directory and variables is none of the programs."""
        targets = _one_of(self.targets)
        if not any(each.is_started_by(command, directory, environment, targets) for each in self.programs):
            variables = "".join(f"{name}={shlex.quote(value)} " for name, value in environment.items())
            raise UserError(
                f"an agent starts only the programs of its study, not {variables}{shlex.join(command)} "
                f"in {directory or 'its own folder'}",
                code="hosts.program_not_allowed",
            )


def _one_of(targets: Collection[str]) -> str:
    """Return a pattern of these addresses, without ports; one of IPv6 may be in brackets."""
    known = [rf"\[{re.escape(each)}\]|{re.escape(each)}" for each in sorted(targets)]
    return f"(?:{'|'.join(known)})" if known else "(?!)"
