"""Hostile clients against every design, beside honest ones whose replies must stay right.

Hostile clients send a byte a second, keep connections idle by the thousand, reset them, half-close them, send
requests without an end, or never read their reply. The server tallies what it refuses, and none of its
processes takes more than 32 MB, or 32 KB for each thread. Afterwards it has as many processes and descriptors
as before, and SIGINT stops it at once. The designs serve the workloads in turn. Further connections of a ring
are reset in the middle of streams.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from common import SEED, chosen_designs
from talks import TALKS, Talk
from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import EngineError, Server

SECONDS = 60.0
IDLE, HONEST, HOSTILE = 8, 2, 2
"""Connections that are idle; honest clients; hostile clients of each other kind."""
CROWD = 2000
"""More idle connections by default. A design with as many clients at a time as it has workers gets none."""
SELECT, MOST_OF_SELECT = "select(2)", 500
"""A system call that cannot wait for a descriptor above 1023; so many connections leave some to others. After
a pause on a busy machine, a server accepts hundreds at once, most of them already reset."""
MOST_MEMORY, OF_A_THREAD = 32.0, 0.032
"""The bound for the memory of each process of a server, MB; and for each thread that is made for a client."""
PATIENCE = 10.0
"""The longest time for an honest reply. An idle client holds a worker of a pool until the idle timeout."""
IDLE_TIMEOUT = 100_000_000
"""Of a pool, nanoseconds. Without it, idle clients hold every worker for ever."""
OF_A_GROWING_POOL = {"minimum_spare": 5, "maximum_spare": 5, "maintenance": 100_000_000}
"""Such a pool returns to one size only if it may keep no more free workers than it must."""
UNREAD = (0.1, 1.0)
"""The least and the most seconds for which a client reads nothing."""
SETTLED_SECONDS = 1.0
"""A server that has kept its descriptors and processes for so long has made all that it begins with."""
GONE_SECONDS = 10.0
"""The time in which a server returns to what it had before, or stops."""
LONGEST_STOP = 2.0
"""The bound for the time from SIGINT to the end of a server, seconds."""
RESETS = 100_000
RING, STREAM = "io_uring", "stream"
"""The design and the workload of as many connections that are reset."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", metavar="DESIGN", help="designs (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"time of each design, seconds (default {SECONDS:g})"
    )
    parser.add_argument(
        "--idle", type=int, default=CROWD, help=f"idle connections to each design (default {CROWD})"
    )
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the clients (default {SEED})")
    parser.add_argument(
        "--workload", choices=[*TALKS], help="workload of all designs (default: another one for each)"
    )
    parser.add_argument(
        "--resets",
        type=int,
        default=RESETS,
        help=f"further connections of {RING} that are reset in the middle of a {STREAM} (default {RESETS})",
    )
    parser.add_argument(
        "--stop",
        type=float,
        default=LONGEST_STOP,
        help=f"most seconds from SIGINT to the end of a server (default {LONGEST_STOP:g})",
    )


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    designs = chosen_designs(given.designs)
    resets = given.resets / 2500 if RING in {each.name for each in designs} else 0.0
    return float(len(designs) * (given.seconds + 2) + resets)


def run(given: argparse.Namespace) -> None:
    """Meet every design with hostile clients, and print what held."""
    print(
        f"{'':24} {'':13} honest replies   slowest   idle   hostile   refused  descriptors  processes  memory"
        "   stop",
        flush=True,
    )
    failed = False
    with _more_files():
        for number, design in enumerate(chosen_designs(given.designs)):
            workload = given.workload or [*TALKS][number % len(TALKS)]
            draw = random.Random(given.seed)
            faults = [*_soak(design, workload, given.seconds, given.stop, draw, given.idle)]
            if design.name == RING and given.resets:
                faults += _reset_often(design, given.resets, random.Random(given.seed))
            for fault in faults:
                print(f"{design.name}, {workload}: {fault}", flush=True)
            failed |= bool(faults)
    sys.exit(failed)


@contextmanager
def _more_files() -> Iterator[None]:
    """Raise this process's limit of open files while the block runs."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


@dataclass
class Met:
    """What the clients of a server have met."""

    talk: Talk
    port: int
    ends: float
    answered: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def goes_on(self) -> bool:
        """True while the clients go on: until the end, or on a busy machine until one has its reply."""
        now = time.monotonic()
        return now < self.ends or (not self.answered["honest"] and now < self.ends + PATIENCE)

    def left(self, most: float) -> float:
        """Return the seconds until the end, a few at least and so many at most."""
        return min(most, max(0.1, self.ends - time.monotonic()))

    def connected(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)


def honest(met: Met, draw: random.Random) -> None:
    """Make one request after another, each on a new connection, and check the replies."""
    while met.goes_on():
        began = time.monotonic()
        try:
            with met.connected() as client:
                client.sendall(met.talk.request)
                is_late = time.monotonic() - began > IDLE_TIMEOUT / 1e9
                received = b""
                while not met.talk.length or len(received) < met.talk.length:
                    part = client.recv(65536)
                    if not part:
                        break
                    received += part
        except OSError as error:
            met.wrong.append(f"an honest client: {error}")
            continue
        if is_late and not received:
            # It had no CPU between connecting and its request, so its server took it for an idle client.
            continue
        if not met.talk.right(received):
            met.wrong.append(f"an honest client has {len(received):,} bytes, {received[:80]!r}")
        met.answered["honest"] += 1
        met.slowest = max(met.slowest, time.monotonic() - began)
        time.sleep(draw.uniform(0, 0.02))


def slow(met: Met, draw: random.Random) -> None:
    """Send a request, a byte a second."""
    with met.connected() as client:
        for byte in met.talk.request * 100:
            if not met.goes_on():
                return
            client.send(bytes([byte]))
            time.sleep(met.left(1.0))


def idle(met: Met, draw: random.Random) -> None:
    """Keep a connection, and say nothing."""
    with met.connected() as client:
        client.settimeout(met.left(float("inf")))
        client.recv(1)


def resets(met: Met, draw: random.Random) -> None:
    """Reset connections in the middle of a request or a reply."""
    with met.connected() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(draw.choice((b"", met.talk.begins, met.talk.unread)))
        if draw.random() < 0.5:
            time.sleep(draw.uniform(0, 0.01))


def half_open(met: Met, draw: random.Random) -> None:
    """Send no more, and stay."""
    with met.connected() as client:
        client.send(draw.choice((b"", met.talk.begins, met.talk.request)))
        client.shutdown(socket.SHUT_WR)
        time.sleep(draw.uniform(0, 0.2))


def endless(met: Met, draw: random.Random) -> None:
    """Send a request without an end, and read nothing."""
    beginning, again = met.talk.endless
    with met.connected() as client:
        until = time.monotonic() + met.left(draw.uniform(*UNREAD))
        client.settimeout(met.left(UNREAD[1]))
        client.send(beginning)
        while time.monotonic() < until:
            client.send(again)


def unread(met: Met, draw: random.Random) -> None:
    """Request a large reply, and read none of it."""
    with met.connected() as client:
        client.settimeout(met.left(UNREAD[1]))
        client.send(met.talk.unread)
        time.sleep(met.left(draw.uniform(*UNREAD)))


def garbage(met: Met, draw: random.Random) -> None:
    """Send bytes that are no request."""
    with met.connected() as client:
        client.send(draw.randbytes(draw.randrange(1, 20_000)))
        client.settimeout(met.left(1.0))
        client.recv(4096)


Kind = Callable[[Met, random.Random], None]
KINDS: Sequence[tuple[Kind, int]] = (
    (honest, HONEST),
    (idle, IDLE),
    *((kind, HOSTILE) for kind in (slow, resets, half_open, endless, unread, garbage)),
)


def _client(kind: Kind, met: Met, draw: random.Random) -> None:
    """Be a client of one kind until the end, once at least; a server may do as it wants with hostile ones."""
    while True:
        with suppress(OSError):
            kind(met, draw)
        if kind is not honest:
            met.answered[kind.__name__] += 1
        if not met.goes_on():
            return


def _soak(
    design: Design, workload: str, length: float, longest_stop: float, draw: random.Random, idle: int = CROWD
) -> Iterator[str]:
    talk = TALKS[workload]
    settings = {**talk.settings, "drain": 100_000_000}
    if design.serves_one_by_one:
        settings["idle_timeout"] = IDLE_TIMEOUT
    crowd = min(idle, MOST_OF_SELECT) if any(each.name == SELECT for each in design.rests_on) else idle
    if design.serves_one_by_one:
        crowd = 0
    if OF_A_GROWING_POOL.keys() <= {each.name for each in design.settings}:
        settings |= OF_A_GROWING_POOL
    try:
        with Server(design.name, workload=workload, settings=settings) as server:
            port, first = server.ready.port, server.ready.server_pid
            assert port is not None
            warm = Met(talk, port, time.monotonic() + 0.3)
            _together(warm, draw, [(honest, 1)])
            before = _settled(first, None)
            with _crowd(port, crowd) as kept:
                met = Met(talk, port, time.monotonic() + length)
                _together(met, draw, KINDS)
                held = len(kept())
            after = _settled(first, before)
            stopped = _interrupted(server.ready.supervisor_pid, first)
            summary = server.stop()
    except EngineError as error:
        yield str(error)
        return
    hostile = met.answered.total() - met.answered["honest"]
    refused = summary.tally.total_errors()
    peak = summary.max_resident_kib * 1024 / 1e6
    print(
        f"{design.name:24} {workload:13} {met.answered['honest']:14,} {met.slowest:7.2f} s {held:6,} "
        f"{hostile:9,} {refused:9,} {before[0]:6} {after[0]:5}  {before[1]:4} {after[1]:4} {peak:5.0f} MB "
        f"{1e3 * stopped:4.0f} ms",
        flush=True,
    )
    yield from dict.fromkeys(met.wrong)
    if summary.died:
        yield f"it {summary.died}"
    if held < crowd:
        yield f"of {crowd:,} idle connections it has closed {crowd - held:,}"
    if not refused:
        yield "it tallied nothing that it refused"
    bound = MOST_MEMORY + (OF_A_THREAD * crowd if design.makes == "thread" else 0)
    if peak > bound:
        yield f"a process took {peak:.0f} MB, more than {bound:g} MB"
    if after != before:
        yield f"{before[0]} descriptors of {before[1]} processes have become {after[0]} of {after[1]}"
    if stopped > longest_stop:
        yield f"it took {stopped:.1f} s to stop, more than {longest_stop:g} s"
    if not met.answered["honest"]:
        yield "no honest client had a reply"


def _interrupted(supervisor: int, first: int) -> float:
    """Send SIGINT to a server; return the seconds until its first process is gone."""
    began = time.monotonic()
    os.kill(supervisor, signal.SIGINT)
    while Path(f"/proc/{first}").exists() and time.monotonic() - began < GONE_SECONDS:
        time.sleep(0.001)
    return time.monotonic() - began


def _reset_often(design: Design, number: int, draw: random.Random) -> Iterator[str]:
    """Reset so many connections in the middle of streams; yield what the server keeps of them."""
    talk = TALKS[STREAM]
    settings = {**talk.settings, "drain": 100_000_000}
    try:
        with Server(design.name, workload=STREAM, settings=settings) as server:
            port, first = server.ready.port, server.ready.server_pid
            assert port is not None
            _together(Met(talk, port, time.monotonic() + 0.3), draw, [(honest, 1)])
            before = _settled(first, None)
            met = Met(talk, port, float("inf"))

            def some(draw: random.Random) -> None:
                for _ in range(number // IDLE):
                    with suppress(OSError):
                        resets(met, draw)

            draws = [random.Random(draw.random()) for _ in range(IDLE)]
            _run_all([threading.Thread(target=some, args=(each,)) for each in draws])
            after = _settled(first, before)
            summary = server.stop()
    except EngineError as error:
        yield str(error)
        return
    print(f"{design.name:24} {STREAM:13} {summary.tally.connections:,} connections, most reset", flush=True)
    if summary.died:
        yield f"it {summary.died}"
    if after != before:
        yield f"after resets, {before[0]} descriptors have become {after[0]}"


@contextmanager
def _crowd(port: int, number: int) -> Iterator[Callable[[], list[socket.socket]]]:
    """Keep so many idle connections while the block runs; what it gets returns those that are open still."""

    def is_open(client: socket.socket) -> bool:
        try:
            client.setblocking(False)
            return bool(client.recv(1))
        except BlockingIOError:
            return True
        except OSError:
            return False

    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            for _ in range(number)
        ]
        yield lambda: [*filter(is_open, clients)]


def _together(met: Met, draw: random.Random, kinds: Sequence[tuple[Kind, int]]) -> None:
    """Run so many clients of each kind until the end."""
    threads = [
        threading.Thread(target=_client, args=(kind, met, random.Random(draw.random())))
        for kind, number in kinds
        for _ in range(number)
    ]
    _run_all(threads)


def _run_all(threads: Sequence[threading.Thread]) -> None:
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def _settled(first: int, wanted: tuple[int, int] | None) -> tuple[int, int]:
    """Return the numbers of descriptors and processes, once they are as wanted, or stay for a while."""
    deadline, found, since = time.monotonic() + GONE_SECONDS, (0, 0), time.monotonic()
    while time.monotonic() < deadline:
        family = _family(first)
        now = (sum(map(_descriptors, family)), len(family))
        if now == wanted:
            return now
        if now != found:
            found, since = now, time.monotonic()
        elif wanted is None and time.monotonic() - since > SETTLED_SECONDS:
            return found
        time.sleep(0.05)
    return found


def _family(first: int) -> list[int]:
    """Return a server's process and its descendants."""
    found = [first]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _descriptors(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0
