"""System calls that fail: strace injects errors; every design serves on, or ends with a line that says why.

An injected call is not made: the connection of a failed accept stays in the queue, data stays in the socket.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from made.engines import processes_of

from thunderherd.engine.client import EngineError, Server, catalogue
from thunderherd.engine.lines import Tally
from thunderherd.errors import Refusal

pytestmark = [pytest.mark.usefixtures("use_engine")]

CLIENTS, BYTES = 12, 64
PATIENCE = 20.0
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


FAULTS = {
    "accept finds an aborted connection": Fault(ACCEPTS, "ECONNABORTED", "2+3", True),
    "accept is interrupted": Fault(ACCEPTS, "EINTR", "2+3", True),
    "accept meets a fault of the network": Fault(ACCEPTS, "EPROTO", "2+3", True),
    "accept lacks buffers": Fault(ACCEPTS, "ENOBUFS", "3+4", True),
    "accept lacks memory": Fault(ACCEPTS, "ENOMEM", "3+4", True),
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "1+2", True),
    "a send is interrupted": Fault(SENDS, "EINTR", "1+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "1+2", True),
    "a ring's wait is interrupted": Fault("io_uring_enter", "EINTR", "2+2", True),
    "a receive fails": Fault(RECEIVES, "ENOMEM", "2+3", False),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "2+3", False),
    "a fork fails": Fault(FORKS, "EAGAIN", "3+2", False),
    "watching a socket fails": Fault("epoll_ctl", "ENOMEM", "4+3", False),
    "an option cannot be set": Fault("setsockopt", "ENOBUFS", "3+3", False),
    "no memory is left": Fault("mmap", "ENOMEM", "2+1", False),
}


@pytest.fixture
def strace(copied_engine: Path, tmp_path: Path) -> Iterator[Callable[[Fault], Path]]:
    """Makes an engine whose servers run under strace, which injects a fault; nothing of it is left behind."""
    if shutil.which("strace") is None:
        pytest.skip("strace is missing")
    if subprocess.run(
        ["strace", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("strace may not trace here")

    def under(fault: Fault) -> Path:
        # With -D, the server is the child of the lab, as its parent-death signal wants it.
        injected = f"inject={fault.calls}:error={fault.error}:when={fault.when}"
        traced = (
            f"strace -D -f -qq -A -o {tmp_path}/trace -e trace={fault.calls} -e signal=none -e {injected}"
        )
        path = tmp_path / "traced"
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = serve ]; then exec {traced} {copied_engine} "$@"; fi\n'
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
def test_a_fault_does_not_end_a_server_or_says_why(what: str, strace: Callable[[Fault], Path]) -> None:
    engine = strace(FAULTS[what])
    for design in (each.name for each in catalogue().designs if each.available):
        serves_on_or_says_why(design, FAULTS[what], engine)
    assert injected(engine), "no design makes these calls"


@pytest.mark.parametrize("place", range(1, 8))
def test_each_fork_of_a_pool_may_fail(place: int, strace: Callable[[Fault], Path]) -> None:
    """Each process counts its own: the first of all is that of the server."""
    fault = Fault(FORKS, "EAGAIN", str(place), all_are_served=False)
    engine = strace(fault)
    serves_on_or_says_why("prefork", fault, engine)
    # The supervisor has one, and the server one for each of its pool.
    assert injected(engine) == (place <= 5), "the wrong call failed"


def injected(engine: Path) -> bool:
    """True if a call has failed because strace wanted it to."""
    return "(INJECTED)" in engine.with_name("trace").read_text(errors="replace")


def serves_on_or_says_why(design: str, fault: Fault, engine: Path) -> None:
    settings: dict[str, int] = {"drain": 100_000_000}
    if design == "prefork":
        settings["pool"] = 5
    told = f"{design}, {fault}"
    try:
        with Server(design, workload="bytes", settings=settings, engine=engine) as server:
            answered = [answer(server.ready.port or 0, told) for _ in range(CLIENTS)]
            assert all(answered) or not fault.all_are_served, f"{told}: {answered}"
            tally = settled(server, told)
            assert tally.requests >= sum(answered), f"{told}: {tally}"
            assert tally.connections <= CLIENTS, f"{told}: {tally}"
            summary = server.stop()
            assert summary.died is None, f"{told}: {summary.died}"
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{told}: {error}"
        assert says_why(str(error)), f"{told}: {error}"


def says_why(message: str) -> bool:
    """True if a message names a call, a limit, or what is lacking."""
    words = ("ulimit", "memory", "cannot", "could not", "failed", "buffer", "os error", "killed by SIGABRT")
    return any(word in message for word in words) and "panicked" not in message


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
