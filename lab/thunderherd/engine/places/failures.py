"""Failures of the engine, and of programs that it runs."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Self

from thunderherd.errors import REMEDIES, Problem, UserError


class EngineError(Exception):
    """A failure of the engine during its work, which makes the trial invalid with this reason.

    If what the engine started failed, `message`, `code` and `hint` are those that the engine printed.
    """

    code = "engine.failed"
    hint = ""
    message = ""

    @classmethod
    def of(cls, what: str, problem: Problem) -> Self:
        """Return the failure of what was started, as the engine printed it."""
        error = cls(f"{what}: {problem.message}")
        if problem.hint:
            error.code, error.hint, error.message = problem.code, problem.hint, problem.message
        return error

    @property
    def reason(self) -> str:
        """Message and hint in one line, for the reasons of a trial."""
        return f"{self}; {self.hint}" if self.hint else str(self)


class NoRoomError(EngineError):
    """The engine could not be started now, and may be later. The message ends with the code in brackets."""

    code = "engine.not_started"


NO_ROOM = (errno.EAGAIN, errno.ENOMEM)
"""Errors of a machine or control group that has no room for another process now."""


def not_started(program: str | Path, error: OSError) -> EngineError | UserError:
    """Return the error to raise if the engine's program cannot be started.

    Another attempt can succeed if there was no room for a process: `NoRoomError`. Otherwise `UserError`.
    """
    message = f"{program} cannot be started: {error.strerror}"
    if error.errno in NO_ROOM:
        return NoRoomError(f"{message}, as at a limit on processes or memory [{NoRoomError.code}]")
    return UserError(message, code=NoRoomError.code, hint=hint_of_start(error))


NOT_BUILT = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
"""Errors of a program that is not there, or that is none."""


def hint_of_start(error: OSError) -> str:
    """Return what to do if the engine's program cannot be started; empty if nothing is known."""
    return "run `make build`" if error.errno in NOT_BUILT else REMEDIES.get(error.errno or 0, "")
