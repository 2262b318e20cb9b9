"""A process of the engine: reading its lines, each with a deadline, and ending it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TypeVar

from pydantic import BaseModel, ValidationError

from thunderherd.engine.line_base import SCHEMA
from thunderherd.errors import REMEDIES, Problem, Refusal, UserError

ENGINE_NAME = "thunderherd-engine"
FAILURE = 1
"""The engine's exit status after a failure, whose reason it prints."""
MISTAKE = 2
"""The engine's exit status after a mistake of its user."""
STDERR_BYTES = 4096
"""The maximum length of stderr in a message, from its end."""
REFUSAL = re.compile(
    r"^(?P<message>.+) \[(?P<code>[a-z_]+\.[a-z_]+)\]$(?:\nhint: (?P<hint>.+)$)?", re.MULTILINE
)
"""The engine's error message on stderr: message, code and hint."""
SIGTERM_SECONDS = 3.0
"""The time in which a process that reports a failure ends."""
KILL_SECONDS = 12.0
"""The time between SIGTERM and SIGKILL. A supervisor waits 5 s for the end of its server, and 5 s more for
that of what it kills. If it were killed before, nobody here would wait for the end of its server."""

Line = TypeVar("Line", bound=BaseModel)


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


class EngineProcess:
    """One process of the engine: its lines, with deadlines, and its end.

    Its stderr goes to an unnamed file, since a full pipe would block the process. It has a separate process
    group: Ctrl-C then reaches only Python, which ends load and server in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        what: str,
        *,
        control: bool,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "the engine must be started from the main thread: "
                "its parent-death signal fires when the thread that started it ends"
            )
        self.what = what
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self._buffer = b""
        try:
            # It has a descriptor. Without room for one, no process is left behind.
            self._selector = selectors.DefaultSelector()
        except OSError as error:
            self._errors.close()
            raise not_started(command[0], error) from None
        try:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if control else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                process_group=0,
                cwd=directory,
                env={**os.environ, **environment} if environment else None,
            )
        except OSError as error:
            self._selector.close()
            self._errors.close()
            raise not_started(command[0], error) from None
        assert self._popen.stdout is not None
        self._output = self._popen.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector.register(self._output, selectors.EVENT_READ)

    def write_line(self, text: str) -> None:
        """Write one line to its stdin. If the process has ended, the next reading reports that."""
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(text.encode() + b"\n")
            self._popen.stdin.flush()

    def close_input(self) -> None:
        if self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()

    def read_line(self, deadline: float) -> str:
        """Return the next line; raise at `deadline` (`time.monotonic`) and at the end of output."""
        while b"\n" not in self._buffer:
            if not self._fill(deadline):
                self.fail_at_end(deadline)
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def _fill(self, deadline: float) -> bool:
        """Wait for output and read it; return False at its end."""
        left = deadline - time.monotonic()
        if left <= 0 or not self._selector.select(left):
            raise EngineError(f"{self.what} did not reply in time{self.stderr_note()}")
        piece = os.read(self._output, 65536)
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
        try:
            return self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise EngineError(f"{self.what} does not end{self.stderr_note()}") from None

    def ending(self) -> str | None:
        """Describe how it ended; None while it runs."""
        status = self._popen.poll()
        return None if status is None else f"{ending_in_words(status)}{self.stderr_note()}"

    def end(self, *, at_once: bool = False) -> None:
        """End it if it still runs: close its input, SIGTERM, SIGKILL. Then reap it and close all files.

        With `at_once` it gets no SIGTERM, after which a load would await its replies and print its result.
        """
        self.close_input()
        try:
            if not at_once and self._popen.poll() is None:
                self._popen.send_signal(signal.SIGTERM)
                try:
                    self._popen.wait(KILL_SECONDS)
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

    def stderr_note(self) -> str:
        """Return the end of its stderr, for the end of an error message."""
        text = one_line(self._stderr())
        return f"; stderr: {text}" if text else ""

    def _stderr(self) -> str:
        if self._errors.closed:
            return ""
        # The process shares this descriptor's position and writes there, so it must not be moved.
        descriptor = self._errors.fileno()
        start = max(0, os.fstat(descriptor).st_size - STDERR_BYTES)
        return os.pread(descriptor, STDERR_BYTES, start).decode(errors="replace")

    def fail_at_end(self, deadline: float) -> NoReturn:
        """Raise the reason why its output ended early: `Refusal`, or `EngineError`."""
        status = self.wait(deadline)
        problem = problem_in(self._stderr())
        if status == MISTAKE and problem.message:
            raise Refusal(problem)
        if status == FAILURE and self._stderr().startswith(f"{ENGINE_NAME}: "):
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


def problem_in(stderr: str) -> Problem:
    """Parse the engine's error message, its code and its hint from its stderr."""
    if found := REFUSAL.search(stderr):
        message = found["message"].removeprefix(f"{ENGINE_NAME}: ")
        return Problem(message, found["code"], found["hint"] or "")
    return Problem(one_line(stderr).removeprefix(f"{ENGINE_NAME}: "), "engine.refused")


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())
