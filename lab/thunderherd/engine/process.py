"""A process of the engine: reading its lines, each with a deadline, and ending it."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from thunderherd.engine.line_base import SCHEMA
from thunderherd.engine.places.channel import Channel
from thunderherd.engine.places.executable import ENGINE_NAME
from thunderherd.engine.places.failures import EngineError
from thunderherd.errors import Problem, Refusal, UserError

FAILURE = 1
"""The engine's exit status after a failure, whose reason it prints."""
MISTAKE = 2
"""The engine's exit status after a mistake of its user."""
REFUSAL = re.compile(
    r"^(?P<message>.+) \[(?P<code>[a-z_]+\.[a-z_]+)\]$(?:\nhint: (?P<hint>.+)$)?", re.MULTILINE
)
"""The engine's error message on stderr: message, code and hint."""
SIGTERM_SECONDS = 3.0
"""The time in which a process that reports a failure ends."""

Line = TypeVar("Line", bound=BaseModel)


class EngineProcess:
    """A process of the engine, or of a program that it runs: its lines, with deadlines, and its end."""

    def __init__(self, channel: Channel, what: str) -> None:
        self.what = what
        self._channel = channel
        self._buffer = b""

    def write_line(self, text: str) -> None:
        """Write one line to its stdin. If the process has ended, the next reading reports that."""
        self._channel.write(text.encode() + b"\n")

    def close_input(self) -> None:
        """Close its stdin, which asks a process under control to end."""
        self._channel.close_input()

    def read_line(self, deadline: float) -> str:
        """Return the next line; raise at `deadline` (`time.monotonic`) and at the end of output."""
        while b"\n" not in self._buffer:
            if not self._fill(deadline):
                self.fail_at_end(deadline)
        line, self._buffer = self._buffer.split(b"\n", 1)
        return self._channel.translated(line.decode(errors="replace"))

    def _fill(self, deadline: float) -> bool:
        """Wait for output and read it; return False at its end."""
        piece = self._channel.read(deadline - time.monotonic())
        if piece is None:
            raise EngineError(f"{self.what} did not reply in time{self.stderr_note()}")
        self._buffer += piece
        return bool(piece)

    def next_line(self, deadline: float) -> str | None:
        """Return the next line like `read_line`; None after a successful end of the process."""
        ready = b"\n" in self._buffer or self._fill(deadline)
        if ready:
            return self.read_line(deadline)
        if self.wait(deadline) != 0:
            self.fail_at_end(deadline)
        return None

    def wait(self, deadline: float) -> int:
        """Wait for its end and return its exit status; negative: the signal that killed it."""
        status = self._channel.wait(deadline - time.monotonic())
        if status is None:
            raise EngineError(f"{self.what} does not end{self.stderr_note()}")
        return status

    def ending(self) -> str | None:
        """Describe how it ended; None while it runs."""
        status = self._channel.wait(0.0)
        return None if status is None else f"{ending_in_words(status)}{self.stderr_note()}"

    def end(self, *, at_once: bool = False) -> None:
        """End it if it still runs, and close all files.

        With `at_once` it gets no SIGTERM, after which a load would await its replies and print its result.
        """
        self._channel.end(at_once=at_once)

    def stderr_note(self) -> str:
        """Return the end of its stderr, for the end of an error message."""
        text = one_line(self._channel.errors())
        return f"; stderr: {text}" if text else ""

    def fail_at_end(self, deadline: float) -> NoReturn:
        """Raise the reason why its output ended early: `Refusal`, or `EngineError`."""
        status = self.wait(deadline)
        errors = self._channel.errors()
        problem = problem_in(errors)
        if status == MISTAKE and problem.message:
            raise Refusal(problem)
        if status == FAILURE and errors.startswith(f"{ENGINE_NAME}: "):
            raise EngineError.of(self.what, problem)
        raise EngineError(f"{self.what} failed: {ending_in_words(status)}{self.stderr_note()}")


def json_value(text: str) -> Any:
    """Parse JSON; raise ValueError or RecursionError if the text is none."""
    found = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        # Python's parser takes half a character, which can be written nowhere (UnicodeEncodeError).
        json.dumps(found, ensure_ascii=False).encode()
    return found


def json_object(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object; raise `EngineError` if the text is not one."""
    try:
        found = json_value(text)
    except (ValueError, RecursionError):
        raise EngineError(f"{what}: not JSON: {text[:200]!r}") from None
    if not isinstance(found, dict):
        raise EngineError(f"{what}: not a JSON object: {text[:200]!r}")
    return found


def understand(model: type[Line], text: str, what: str) -> Line:
    """Parse a line as a model.

    Raise `UserError` if the line is of another version of the engine, and `EngineError` if it is invalid.
    """
    found = json_object(text, what)
    if found.get("schema", SCHEMA) != SCHEMA:
        raise UserError(
            f"the engine prints version {found['schema']!r} of its JSON, this lab reads version {SCHEMA}",
            code="engine.other_version",
            hint="run `make build`",
        )
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise EngineError(f"{what} is invalid: {where}: {first['msg']}: {text[:200]}") from None


def ending_in_words(status: int) -> str:
    """Describe an exit status of `subprocess`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def problem_in(stderr: str) -> Problem:
    """Parse the engine's error message, its code and its hint from its stderr."""
    if found := REFUSAL.search(stderr):
        message = found["message"].removeprefix(f"{ENGINE_NAME}: ")
        return Problem(message, found["code"], found["hint"] or "")
    return Problem(one_line(stderr).removeprefix(f"{ENGINE_NAME}: "), "engine.refused")


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())
