"""System calls that fail: strace injects errors; every design serves on, or ends with a line that says why.

An injected call is not made: the connection of a failed accept stays in the queue, data stays in the socket.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from made.engines import processes_of

from thunderherd.engine.client import EngineError, LoadProcess, Server, catalogue, start_load
from thunderherd.engine.lines import Tally
from thunderherd.errors import Refusal

pytestmark = [pytest.mark.usefixtures("use_engine")]

CLIENTS, BYTES, POOL = 12, 64, 5
PATIENCE = 60.0
"""Seconds in which a reply or an end has to come."""

ACCEPTS, RECEIVES = "accept,accept4", "read,readv,recvfrom,recvmsg"
SENDS, WAITS = "sendto,sendmsg,writev", "epoll_wait,epoll_pwait,epoll_pwait2,poll,ppoll,select,pselect6"
FORKS = "clone,clone3,fork,vfork"


@dataclass(frozen=True)
class Fault:
    """Calls that fail, how, and which of them: `2+3` is the second, the fifth, and so on, of each thread."""

    calls: str
    error: str
    when: str
    all_are_served: bool
    """Whether every client has its reply, since the call can be made again."""
    names: str = ""
    """What a line that says why names besides the error, before it: a call or a limit, a regular expression.

    Empty: the fault has several places, and not each of them names its call."""


FAULTS = {
    "accept finds an aborted connection": Fault(ACCEPTS, "ECONNABORTED", "2+3", True),
    "accept is interrupted": Fault(ACCEPTS, "EINTR", "2+3", True),
    "accept meets a fault of the network": Fault(ACCEPTS, "EPROTO", "2+3", True),
    "accept lacks buffers": Fault(ACCEPTS, "ENOBUFS", "3+4", True),
    "accept lacks memory": Fault(ACCEPTS, "ENOMEM", "3+4", True),
    "accept finds no descriptor": Fault(ACCEPTS, "EMFILE", "3+4", True),
    "accept does not exist": Fault(ACCEPTS, "ENOSYS", "1+", False, "accept4"),
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "1+2", True),
    "a send is interrupted": Fault(SENDS, "EINTR", "1+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "1+2", True),
    "a ring's wait is interrupted": Fault("io_uring_enter", "EINTR", "2+2", True),
    "a receive fails": Fault(RECEIVES, "ENOMEM", "2+3", False),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "2+3", False),
    "a fork fails": Fault(FORKS, "EAGAIN", "3+2", False, "ulimit -u"),
    "watching a socket fails": Fault("epoll_ctl", "ENOMEM", "4+3", False),
    "an option cannot be set": Fault("setsockopt", "ENOBUFS", "3+3", False, "listening on"),
    "no memory is left": Fault("mmap", "ENOMEM", "2+1", False, "mapped|io_uring"),
}


class Strace(Protocol):
    """Makes an engine one of whose commands runs with a fault."""

    def __call__(self, fault: Fault, command: str = "serve") -> Path: ...


@pytest.fixture
def strace(copied_engine: Path, tmp_path: Path) -> Iterator[Strace]:
    """Makes an engine whose servers run under strace, which injects a fault; nothing of it is left behind."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing")
    if subprocess.run(
        ["strace", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("strace may not trace here")

    def under(fault: Fault, command: str = "serve") -> Path:
        # With -D, the server is the child of the lab, as its parent-death signal wants it.
        injected = f"inject={fault.calls}:error={fault.error}:when={fault.when}"
        traced = (
            f"strace -D -f -qq -A -o {tmp_path}/trace -e trace={fault.calls} -e signal=none -e {injected}"
        )
        path = tmp_path / "traced"
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = {command} ]; then exec {traced} {copied_engine} "$@"; fi\n'
            f'exec {copied_engine} "$@"\n'
        )
        path.chmod(0o755)
        return path

    yield under
    deadline = time.monotonic() + PATIENCE
    while (left := processes_of(copied_engine)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, "processes are left behind"


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_does_not_end_a_server_or_says_why(what: str, strace: Strace) -> None:
    engine = strace(FAULTS[what])
    for design in (each.name for each in catalogue().designs if each.available):
        serves_on_or_says_why(design, FAULTS[what], engine)
    assert injected(engine), "no design makes these calls"


@pytest.mark.parametrize("design", ["prefork", "prethread", "fork_per_client", "thread_per_client"])
@pytest.mark.parametrize("place", range(1, 8))
def test_each_fork_may_fail(place: int, design: str, strace: Strace) -> None:
    """Each process counts its own: the first of all is that of the server."""
    fault = Fault(FORKS, "EAGAIN", str(place), False, "ulimit -u")
    engine = strace(fault)
    serves_on_or_says_why(design, fault, engine)
    # The supervisor has one, and the server one for each of its pool, or for each client.
    most = CLIENTS if design.endswith("per_client") else POOL
    assert injected(engine) == (place <= most), "the wrong call failed"


OF_LOADS = {
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "2+2", True),
    "a send is interrupted": Fault(SENDS, "EINTR", "1+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "1+2", True),
    "a receive fails": Fault(RECEIVES, "ENOMEM", "9+9", False),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "3+5", False),
    "the network is down": Fault("connect", "ENETUNREACH", "2+3", False),
    "no socket is left": Fault("socket", "EMFILE", "3+3", False),
    "a fork fails": Fault(FORKS, "EAGAIN", "2+2", False, "ulimit -u"),
    "an option cannot be set": Fault("setsockopt", "ENOBUFS", "3+3", False),
    "no memory is left": Fault("mmap", "ENOMEM", "2+1", False),
}


@pytest.mark.parametrize("what", OF_LOADS)
def test_a_fault_of_a_load_is_in_its_result_or_ends_it(what: str, strace: Strace) -> None:
    fault = OF_LOADS[what]
    engine = strace(fault, "load")
    with Server("epoll", workload="bytes") as server:
        for load in catalogue().loads:
            told = f"{load.name}, {fault}"
            names = {each.name for each in load.settings}
            wanted = {"clients": 4, "children": 4, "loops": 20, "duration": 300_000_000, "rate": 200}
            settings = {name: value for name, value in wanted.items() if name in names}
            if "loops" in settings:
                settings.pop("duration", None)
            try:
                running = start_load(
                    "bytes", server.ready.address, kind=load.name, settings=settings, engine=engine
                )
                with contextlib.closing(Ending(running)):
                    result = running.wait(PATIENCE)
            except (EngineError, Refusal) as error:
                assert not fault.all_are_served, f"{told}: {error}"
                assert says_why(str(error), fault), f"{told}: {error}"
                continue
            failed = result.tally.errors or result.tally.workers_lost
            assert not failed or not fault.all_are_served, f"{told}: {result.tally}"
            assert not result.tally.errors or result.first_error, f"{told}: {result.tally}"
            assert result.tally.requests or failed, f"{told}: {result.tally}"
    assert injected(engine), "no load makes these calls"


@dataclass(frozen=True)
class Ending:
    """A load that is ended in any case."""

    load: LoadProcess

    def close(self) -> None:
        """End it."""
        self.load.end()


def injected(engine: Path) -> bool:
    """True if a call has failed because strace wanted it to."""
    return "(INJECTED)" in engine.with_name("trace").read_text(errors="replace")


def serves_on_or_says_why(design: str, fault: Fault, engine: Path) -> None:
    settings: dict[str, int] = {"drain": 100_000_000}
    if design in ("prefork", "prethread"):
        settings["pool"] = POOL
    told = f"{design}, {fault}"
    try:
        with Server(design, workload="bytes", settings=settings, engine=engine) as server:
            answered = [answer(server.ready.port or 0, told) for _ in range(CLIENTS)]
            assert all(answered) or not fault.all_are_served, f"{told}: {answered}"
            tally = settled(server, told)
            assert sum(answered) <= tally.requests <= tally.connections <= CLIENTS, f"{told}: {tally}"
            # The end of the server closes this file.
            with os.fdopen(os.dup(server._running()._errors.fileno()), "rb") as errors:
                summary = server.stop()
                printed = os.pread(errors.fileno(), 4096, 0).decode()
            # A later thread of a pool may fail after the first ones have served.
            ended = (None,) if fault.all_are_served else (None, "exited with status 1")
            assert summary.died in ended, f"{told}: {summary.died}"
            assert not summary.died or says_why(printed, fault), f"{told}: {printed!r}"
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{told}: {error}"
        assert says_why(str(error), fault), f"{told}: {error}"


def says_why(message: str, fault: Fault) -> bool:
    """True if a line of a message has the error of the fault in the system's words, behind what it names."""
    number: int = getattr(errno, fault.error)
    why = re.compile(f"({fault.names}).*{re.escape(f'{os.strerror(number)} (os error {number})')}")
    lines = re.split(r"\n| / ", message)  # of the engine's stderr, in an exception joined by slashes
    return "panicked" not in message and any(map(why.search, lines))


def answer(port: int, told: str) -> bool:
    """Make one request on a new connection; return whether its reply came, which must then be right."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(f"{BYTES}\n".encode())
            received = b""
            while len(received) < BYTES:
                part = client.recv(4096)
                if not part:
                    return False
                received += part
            assert len(received) == BYTES, f"{told}: {received!r}"
            return True
    except TimeoutError:
        raise AssertionError(f"{told}: no reply, and no end of the connection, in {PATIENCE:g} s") from None
    except OSError:
        return False


def settled(server: Server, told: str) -> Tally:
    """Return the tally once every connection has been closed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        tally = server.snapshot().tally
        assert tally is not None
        if tally.connections == tally.closed:
            return tally
        assert time.monotonic() < deadline, f"{told}: connections stay open: {tally}"
        time.sleep(0.02)
