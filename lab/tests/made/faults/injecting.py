"""Faults that strace injects into the system calls of the engine, and the fixture that does it.

An injected call is not made: the connection of a failed accept stays in the queue, data stays in the socket.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from made.engines import processes_of

PATIENCE = 60.0
"""Seconds in which a reply or an end has to come."""

ACCEPTS, RECEIVES = "accept,accept4", "read,readv,recvfrom,recvmsg"
SENDS = "sendto,sendmsg,writev"
WAITS = "epoll_wait,epoll_pwait,epoll_pwait2,poll,ppoll,select,pselect6"
FORKS = "clone,clone3,fork,vfork"

BECOMING = ("host", "generate", "count", "profile")
"""Commands of the engine whose children become other programs."""


@dataclass(frozen=True)
class Fault:
    """Calls that fail, how, and which of them: `2+3` is the second, the fifth, and so on, of each thread."""

    calls: str
    error: str
    when: str
    all_are_served: bool = False
    """Whether every client has its reply, since the call can be made again."""
    names: str = ""
    """What a line that says why names besides the error, before it: a regular expression.

    Empty: the calls themselves."""
    or_as: str = ""
    """Another error that a library makes of it."""

    @property
    def why(self) -> re.Pattern[str]:
        """A line that says why: a call or a limit, and behind it the error in the system's words."""
        names = self.names or "|".join(rf"\b{call}\b" for call in self.calls.split(","))
        numbers: list[int] = [getattr(errno, error) for error in (self.error, self.or_as) if error]
        errors = "|".join(re.escape(f"{os.strerror(number)} (os error {number})") for number in numbers)
        return re.compile(f"({names}).*({errors})")


class Strace:
    """Makes engines one of whose commands runs with a fault."""

    def __init__(self, engine: Path, folder: Path) -> None:
        self.real = engine
        self._traced, self._trace = folder / "traced", folder / "trace"

    def __call__(self, fault: Fault, command: str = "serve") -> Path:
        """Return an engine whose `command` has this fault, until the next call."""
        self._trace.unlink(missing_ok=True)
        # With -D, the server is the child of the lab, as its parent-death signal wants it. A program that
        # the engine becomes has no faults (-b). Where it becomes none, other calls need not stop.
        how = "-b execve" if command in BECOMING else "--seccomp-bpf"
        traced = (
            f"strace -D -f -qq {how} -A -o {self._trace} -e trace={fault.calls} -e signal=none "
            f"-e inject={fault.calls}:error={fault.error}:when={fault.when}"
        )
        self._traced.write_text(
            f'#!/bin/sh\nif [ "$1" = {command} ]; then exec {traced} {self.real} "$@"; fi\n'
            f'exec {self.real} "$@"\n'
        )
        self._traced.chmod(0o755)
        # It stays the same engine, whose catalogue is not read again.
        os.utime(self._traced, (0, 0))
        return self._traced

    @property
    def injected(self) -> bool:
        """True if a call has failed because strace wanted it to."""
        return self._trace.exists() and "(INJECTED)" in self._trace.read_text(errors="replace")


@pytest.fixture
def strace(copied_engine: Path, tmp_path: Path) -> Iterator[Strace]:
    """Makes engines that run under strace, which injects a fault; nothing of them is left behind."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing")
    tried = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "true"]
    if subprocess.run(tried, check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    yield Strace(copied_engine, tmp_path)
    deadline = time.monotonic() + PATIENCE
    while (left := processes_of(copied_engine)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "processes are left behind"


def says_why(message: str, fault: Fault) -> bool:
    """True if a line of a message names the call and the error of the fault, and nothing has panicked."""
    lines = re.split(r"\n| / ", message)  # of the engine's stderr, in an exception joined by slashes
    return "panicked" not in message and any(map(fault.why.search, lines))
