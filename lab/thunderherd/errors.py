"""Mistakes of the user, as opposed to failures of the program: each has a stable code."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the user's command line or file."""

    message: str
    """The mistake with the value seen; under fifteen words if possible."""
    code: str = ""
    """The area and the kind of mistake: `study.unknown_design`. Rewording a message never changes it."""
    hint: str = ""
    """The words to type instead."""
    where: str = ""
    """FILE:LINE, or `COMMAND: OPTION` with the value typed."""

    def at(self, where: str) -> Self:
        """The same problem at another place."""
        return replace(self, where=where)

    @property
    def line(self) -> str:
        """Place, message and code in one line; the hint belongs on the next."""
        return (
            (f"{self.where}: " if self.where else "")
            + self.message
            + (f" [{self.code}]" if self.code else "")
        )

    def __str__(self) -> str:
        """Place, message and hint in one line, without the code."""
        place, hint = f"{self.where}: " if self.where else "", f"; {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class UserError(Exception):
    """One or more problems that the user can solve.

    The command line prints each in a line and its hint on the next, without a stack trace. It exits with
    `exit_status`. With `--json` it also prints `{"errors": [...]}` on stdout.
    """

    exit_status = 2

    def __init__(self, *problems: Problem | str, code: str = "", hint: str = "", where: str = "") -> None:
        self.problems = tuple(
            each if isinstance(each, Problem) else Problem(each, code, hint, where) for each in problems
        )
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each problem."""
        return tuple(each.code for each in self.problems)


SPACE = "free some space, or choose another place with --out; --resume continues a run"

REMEDIES = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "the whole system has no descriptor left (sysctl fs.file-max)",
}
"""Hints by the number of a system's error, for what a machine or a user can run out of."""


class Refusal(UserError):
    """The engine refused what it was given, and would refuse it again."""
