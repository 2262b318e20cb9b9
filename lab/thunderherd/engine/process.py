"""A process of the engine: its lines, each with a deadline, and its end; and what a line must be like."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from thunderherd.engine.line_base import SCHEMA
from thunderherd.errors import Problem, Refusal, UserError

ENGINE_NAME = "thunderherd-engine"
MISTAKE = 2
"""The engine's exit status for what its user has to change."""
STDERR_BYTES = 4096
"""How much of the end of its stderr goes into a message."""
REFUSAL = re.compile(
    r"^(?P<message>.+) \[(?P<code>[a-z_]+\.[a-z_]+)\]$(?:\nhint: (?P<hint>.+)$)?", re.MULTILINE
)
"""How the engine prints what it refuses on stderr."""
SIGTERM_SECONDS = 3.0
"""How long a process may take to obey SIGTERM before SIGKILL follows."""

Line = TypeVar("Line", bound=BaseModel)


class EngineError(Exception):
    """The engine failed in the middle of its work: the trial that asked is invalid, with this reason."""


class EngineProcess:
    """One process of the engine: its lines, with deadlines, and its end.

    Its stderr goes to a nameless file, which can never fill a pipe and block it. It is a process group of its
    own, so that Ctrl-C reaches Python only, which then ends load and server in their order.
    """

    def __init__(self, command: Sequence[str], what: str, *, control: bool) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "the engine must be started from the main thread: "
                "its parent-death signal fires when the thread that started it ends"
            )
        self.what = what
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self._buffer = b""
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if control else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                process_group=0,
            )
        except OSError as error:
            self._errors.close()
            raise not_started(command[0], error) from None
        assert self._popen.stdout is not None
        self._output = self._popen.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def say(self, text: str) -> None:
        """Writes one line to its stdin. A process that is gone is noticed by the reading that follows."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(text.encode() + b"\n")
            self._popen.stdin.flush()

    def close_input(self) -> None:
        if self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()

    def read_line(self, deadline: float) -> str:
        """The next line, without its end. Fails at `deadline` (`time.monotonic`) and at the end of output."""
        while b"\n" not in self._buffer:
            if not self._fill(deadline):
                self.fail_for_silence(deadline)
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def _fill(self, deadline: float) -> bool:
        """Reads what there is, waiting until there is something; False at the end of output."""
        left = deadline - time.monotonic()
        if left <= 0 or not self._selector.select(left):
            raise EngineError(f"{self.what} gave no answer in time{self.said()}")
        piece = os.read(self._output, 65536)
        self._buffer += piece
        return bool(piece)

    def next_line(self, deadline: float) -> str | None:
        """As `read_line`, of one that says all that it has to say and ends: None at its end, if that is a
        good one."""
        ready = b"\n" in self._buffer or self._fill(deadline)
        if ready:
            return self.read_line(deadline)
        if self.wait(deadline) != 0:
            self.fail_for_silence(deadline)
        return None

    def wait(self, deadline: float) -> int:
        """Its exit status (negative: the signal that killed it)."""
        try:
            return self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise EngineError(f"{self.what} does not end{self.said()}") from None

    def ending(self) -> str | None:
        """How it has ended, in words; None while it runs."""
        status = self._popen.poll()
        return None if status is None else f"{ending_in_words(status)}{self.said()}"

    def end(self, *, at_once: bool = False) -> None:
        """Ends it if it still runs: end of its input, SIGTERM, SIGKILL; reaps it and closes everything.

        `at_once`: without SIGTERM, which a load obeys by awaiting its replies, and telling what it has.
        """
        self.close_input()
        try:
            if not at_once and self._popen.poll() is None:
                self._popen.send_signal(signal.SIGTERM)
                try:
                    self._popen.wait(SIGTERM_SECONDS)
                except subprocess.TimeoutExpired:
                    self._popen.kill()
        finally:
            if self._popen.poll() is None:
                self._popen.kill()
                self._popen.wait()
            self._selector.close()
            if self._popen.stdout is not None:
                self._popen.stdout.close()
            self._errors.close()

    def said(self) -> str:
        """What it wrote to stderr, shortened, for the end of an error message."""
        text = one_line(self._stderr())
        return f"; it said: {text}" if text else ""

    def _stderr(self) -> str:
        if self._errors.closed:
            return ""
        # The process writes at the position that this descriptor shares with it: never move that.
        descriptor = self._errors.fileno()
        start = max(0, os.fstat(descriptor).st_size - STDERR_BYTES)
        return os.pread(descriptor, STDERR_BYTES, start).decode(errors="replace")

    def fail_for_silence(self, deadline: float) -> NoReturn:
        """Its output has ended before the line that was due: why. Raises Refusal or EngineError."""
        status = self.wait(deadline)
        problem = problem_in(self._stderr())
        if status == MISTAKE and problem.message:
            raise Refusal(problem)
        raise EngineError(f"{self.what} failed: {ending_in_words(status)}{self.said()}")


def json_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object that a text is; `EngineError` where it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        raise EngineError(f"{what} said something that is no JSON: {text[:200]!r}") from None
    if not isinstance(found, dict):
        raise EngineError(f"{what} said something that is no JSON object: {text[:200]!r}")
    return found


def understand(model: type[Line], text: str, what: str) -> Line:
    """A line as its model. `UserError`: the engine is of another release. `EngineError`: it is none."""
    found = json_object(text, what)
    if found.get("schema", SCHEMA) != SCHEMA:
        raise UserError(
            f"the engine prints version {found['schema']!r} of its JSON, but this lab reads version {SCHEMA}",
            code="engine.other_version",
            hint="run `make build`",
        )
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the line"
        raise EngineError(f"{what} is not as expected: {where}: {first['msg']}; seen: {text[:200]}") from None


def ending_in_words(status: int) -> str:
    """An exit status as `subprocess` has it, in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def not_started(program: str | Path, error: OSError) -> UserError:
    """The error to raise if the engine's program cannot be started."""
    message = f"{program} cannot be started: {error.strerror}"
    return UserError(message, code="engine.not_started", hint="run `make build`")


def problem_in(stderr: str) -> Problem:
    """What the engine refused, with its code and hint, from what it printed on stderr."""
    if found := REFUSAL.search(stderr):
        message = found["message"].removeprefix(f"{ENGINE_NAME}: ")
        return Problem(message, found["code"], found["hint"] or "")
    return Problem(one_line(stderr).removeprefix(f"{ENGINE_NAME}: "), "engine.refused")


def one_line(text: str) -> str:
    """A text of several lines in one."""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())
