"""A process: what is written to it, what it prints, and its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from thunderherd.engine.places.failures import not_started
from thunderherd.errors import UserError

STDERR_BYTES = 4096
"""The maximum length of stderr in a message, from its end."""
KILL_SECONDS = 12.0
"""The time between SIGTERM and SIGKILL. A supervisor waits 5 s for the end of its server, and 5 s more for
that of what it kills. If it were killed before, nobody here would wait for the end of its server."""
Environment = Mapping[str, str | None]
"""Variables that differ from those of this process; None: it is not set."""
PIECE = 1 << 16
"""The most bytes that are read at once."""

starter = threading.main_thread()
"""The thread that starts processes. It must live as long as they do: a parent-death signal fires when the
thread that started a process ends."""


class Channel(ABC):
    """A process of this machine or another, its input and output."""

    look_seconds = 0.1
    """The longest wait for its output between two looks at its stderr."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Write to its input. If the process has ended, the next reading shows that."""

    @abstractmethod
    def close_input(self) -> None:
        """Close its input, which asks a process under control to end."""

    @abstractmethod
    def read(self, seconds: float) -> bytes | None:
        """Return what it has printed; empty at the end of its output. None: nothing came within `seconds`."""

    def translated(self, line: str) -> str:
        """Return a line of its output in which all readings of a clock are of this machine's clock."""
        return line

    @abstractmethod
    def wait(self, seconds: float) -> int | None:
        """Wait for its end and return its exit status; negative: the signal that killed it.

        None if it runs longer than `seconds`.
        """

    @abstractmethod
    def end(self, *, at_once: bool = False) -> None:
        """End it if it still runs: close its input, SIGTERM, SIGKILL. Then reap it and close all files.

        With `at_once` it gets no SIGTERM, after which a load would await its replies and print its result.
        """

    @abstractmethod
    def errors(self) -> str:
        """Return the end of its stderr; empty after `end`."""

    @abstractmethod
    def errors_size(self) -> int:
        """Return the number of bytes of its stderr; 0 after `end`."""


class LocalChannel(Channel):
    """A process of this machine.

    Its stderr goes to an unnamed file, since a full pipe would block the process, or with `merged` to its
    output. It has a separate process
    group: Ctrl-C then reaches only Python, which ends load and server in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        control: bool,
        directory: Path | None = None,
        environment: Environment | None = None,
        merged: bool = False,
    ) -> None:
        if threading.current_thread() is not starter:
            raise RuntimeError(
                "the engine must be started from one thread, which is the main thread: "
                "its parent-death signal fires when the thread that started it ends"
            )
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
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
                stderr=subprocess.STDOUT if merged else self._errors,
                process_group=0,
                cwd=directory,
                env=_environment(environment) if environment else None,
            )
        except OSError as error:
            self._selector.close()
            self._errors.close()
            if directory is not None and str(error.filename) == str(directory):
                message = f"nothing can run in {directory}: {error.strerror}"
                raise UserError(message, code="engine.no_directory") from None
            raise not_started(command[0], error) from None
        assert self._popen.stdout is not None
        self._output = self._popen.stdout.fileno()
        os.set_blocking(self._output, False)
        self._selector.register(self._output, selectors.EVENT_READ)

    def write(self, data: bytes) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(data)
            self._popen.stdin.flush()

    def close_input(self) -> None:
        if self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()

    def read(self, seconds: float) -> bytes | None:
        if seconds <= 0 or not self._selector.select(seconds):
            return None
        return os.read(self._output, PIECE)

    def wait(self, seconds: float) -> int | None:
        try:
            return self._popen.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def end(self, *, at_once: bool = False) -> None:
        self.close_input()
        # A process that cannot print into a full pipe would not end.
        if self._popen.stdout is not None:
            self._popen.stdout.close()
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
            self._errors.close()

    def errors(self) -> str:
        if self._errors.closed:
            return ""
        # The process shares this descriptor's position and writes there, so it must not be moved.
        descriptor = self._errors.fileno()
        start = max(0, os.fstat(descriptor).st_size - STDERR_BYTES)
        return os.pread(descriptor, STDERR_BYTES, start).decode(errors="replace")

    def errors_size(self) -> int:
        return 0 if self._errors.closed else os.fstat(self._errors.fileno()).st_size


def _environment(changes: Environment) -> dict[str, str]:
    return {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
