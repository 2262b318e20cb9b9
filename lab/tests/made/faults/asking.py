"""Servers with a fault, and clients that ask them: each is served, or the server says why not."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from made.engines import processes_of
from made.faults.injecting import PATIENCE, Fault, Strace, says_why
from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import EngineError, Place, Server, catalogue
from thunderherd.engine.lines import Tally
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import Refusal

CLIENTS, BYTES, POOL = 12, 64, 5
DRAIN = 100_000_000
SEGMENT = 536
"""The largest segment of a client with a small buffer: any host takes as many bytes (RFC 9293, 3.7.1)."""

Ask = Callable[[int, str], bool]
"""A client of a port, and what is told if it fails: whether it had its reply, which must then be right."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a server."""

    clients: int = CLIENTS
    workload: str = "bytes"
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    ask: Ask | None = None
    """None: a few bytes."""
    primitive: str | None = None
    receive: str | None = None


def settings_of(design: Design, pool: int = POOL) -> dict[str, SettingValue]:
    """The settings of a design with a small pool, if it has one."""
    has = {each.name for each in design.settings}
    wanted: dict[str, SettingValue] = {
        "pool": pool,
        "start_workers": 2,
        "minimum_spare": 2,
        "maximum_spare": pool,
        "maximum_workers": pool,
    }
    given = {name: value for name, value in wanted.items() if name in has}
    return {"drain": DRAIN, **given}


def available() -> list[Design]:
    """The designs that can run here."""
    return [each for each in catalogue().designs if each.available]


def serves_on_or_says_why(
    design: Design, fault: Fault, strace: Strace, asked: Asked | None = None, pool: int = POOL
) -> None:
    """Check that a server with a fault serves its clients, or ends with a line that says why.

    Its tally has each request once and no reply is wrong. Of those that it does not serve, the tally has an
    error. Afterwards it has no more descriptors than without a fault.
    """
    asked = asked or Asked()
    told = f"{design.name}, {fault}, {asked.primitive}, {asked.receive}"
    settings = {**settings_of(design, pool), **asked.settings}
    try:
        with server_of(design, asked, settings, strace(fault)) as server:
            answered = [(asked.ask or answer)(server.ready.port or 0, told) for _ in range(asked.clients)]
            assert all(answered) or not fault.all_are_served, f"{told}: {answered}"
            tally = settled(server, told, all_are_served=all(answered))
            assert sum(answered) <= tally.requests, f"{told}: {tally}"
            assert tally.requests <= tally.connections <= asked.clients, f"{told}: {tally}"
            assert all(answered) or tally.errors or tally.workers_lost, f"{told}: {tally}"
            if not tally.workers_lost:
                most = at_rest(design, asked, strace.real)
                assert comes_to_rest(strace.real, most), f"{told}: descriptors are left open"
            # The end of the server closes this file.
            with os.fdopen(os.dup(server._running()._channel._errors.fileno()), "rb") as errors:
                summary = server.stop()
                printed = os.pread(errors.fileno(), 4096, 0).decode()
            # A later thread of a pool may fail after the first ones have served.
            ended = (None,) if fault.all_are_served else (None, "exited with status 1")
            assert summary.died in ended, f"{told}: {summary.died}"
            assert not summary.died or says_why(printed, fault), f"{told}: {printed!r}"
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{told}: {error}"
        assert says_why(str(error), fault), f"{told}: {error}"


def server_of(design: Design, asked: Asked, settings: Mapping[str, SettingValue], engine: Path) -> Server:
    """Return the server that is asked."""
    return Server(
        design.name,
        workload=asked.workload,
        primitive=asked.primitive,
        receive=asked.receive,
        settings=settings,
        place=Place(engine),
    )


AT_REST: dict[tuple[str | None, ...], int] = {}
"""The most descriptors of a process of each server that has served its clients without a fault."""


def at_rest(design: Design, asked: Asked, engine: Path) -> int:
    """Return that number, which is measured once."""
    key = (design.name, asked.workload, asked.primitive, asked.receive)
    if key not in AT_REST:
        with server_of(design, asked, {**settings_of(design), **asked.settings}, engine) as server:
            assert all(
                (asked.ask or answer)(server.ready.port or 0, design.name) for _ in range(asked.clients)
            )
            settled(server, design.name)
            # A thread may end a little later than its connection.
            time.sleep(0.1)
            AT_REST[key] = descriptors(engine)
    return AT_REST[key]


def comes_to_rest(engine: Path, most: int) -> bool:
    """Wait until no process of an engine has more than so many descriptors."""
    deadline = time.monotonic() + PATIENCE
    while descriptors(engine) > most:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def descriptors(engine: Path) -> int:
    """The most descriptors that a process of an engine has open."""
    counts = [0]
    for process in processes_of(engine):
        try:
            counts.append(sum(1 for _ in Path(f"/proc/{process}/fd").iterdir()))
        except OSError:  # it has ended
            continue
    return max(counts)


def answer(port: int, told: str) -> bool:
    """Request a few bytes on a new connection."""
    return receives(port, f"{BYTES}\n".encode(), BYTES, told) is not None


def receives(port: int, request: bytes, length: int, told: str, buffer: int | None = None) -> bytes | None:
    """Send a request on a new connection; return the reply, or None if the connection ends before it.

    With a receive `buffer` of so many bytes, a server cannot send the reply at once.
    """
    try:
        with socket.socket() as client:
            client.settimeout(PATIENCE)
            if buffer is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
                # With larger segments, the server's kernel would wait until one of them fits into the window.
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
            client.connect(("127.0.0.1", port))
            client.sendall(request)
            received = b""
            while len(received) < length:
                part = client.recv(65536)
                if not part:
                    return None
                received += part
            assert len(received) == length, f"{told}: {len(received)} bytes instead of {length}"
            return received
    except TimeoutError:
        raise AssertionError(f"{told}: no reply, and no end of the connection, in {PATIENCE:g} s") from None
    except OSError:
        return None


def settled(server: Server, told: str, *, all_are_served: bool = True) -> Tally:
    """Return the tally once every connection is closed, and clients without a reply are errors in it.

    On a busy machine, a client may see its end before the server has counted it.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        tally = server.snapshot().tally
        assert tally is not None
        if tally.connections == tally.closed and (all_are_served or tally.errors or tally.workers_lost):
            return tally
        assert time.monotonic() < deadline, f"{told}: connections stay open, or no error is counted: {tally}"
        time.sleep(0.02)
