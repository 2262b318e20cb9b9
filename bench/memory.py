"""Memory of an idle connection, and the request rate of other connections meanwhile.

Designs that do not wait in the call hold 1,000 and 10,000 idle connections. Designs that need a process or a
thread for each hold 1,000 and 5,000. There are two figures a connection. *Processes*: the private memory of
the server's processes and their part of shared memory (PSS, proc_pid_smaps(5)). *Kernel*: the growth of
slabs, stacks and page tables of the whole machine. This includes the client's end of each connection and
everything else that the machine does meanwhile. Both figures are differences from the same server with few
busy connections.
"""

from __future__ import annotations

import argparse
import resource
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from common import (
    MILLISECOND,
    SECOND,
    Figures,
    chosen_designs,
    measure,
    milliseconds,
    processes_of,
    shuffled_rounds,
    spread,
    two_places,
    until_done,
    workers,
)
from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import EngineError, LoadProcess, Server, start_load
from thunderherd.engine.lines import Tally
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError

WORKLOAD = "echo"
BUSY = 8
"""Busy connections, besides the idle ones."""
FOREVER = 600 * SECOND
"""Idle clients send one request, and then wait for longer than a trial takes."""
COUNTS = {"in_the_call": (1_000, 5_000), "for_readiness": (1_000, 10_000), "for_completion": (1_000, 10_000)}
PATIENCE_SECONDS = 120.0
"""Time limit for making all connections. poll and select check all of them for each new one."""
STANDSTILL_SECONDS = 5.0
"""After so many seconds without progress, the other connections count as never served."""
SECONDS_A_CONNECTION = 0.0005
OTHER_SECONDS = 1.0


@dataclass(frozen=True)
class Memory:
    """Memory in bytes."""

    processes: int
    kernel: int


@dataclass(frozen=True)
class Held:
    """Idle connections: KiB of each, and the figures of the busy connections meanwhile."""

    processes: float
    kernel: float
    beside: Figures


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", help="designs to measure (default: all)")
    parser.add_argument("--rounds", type=int, default=1, help="trials of each (default: %(default)s)")
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="500ms",
        metavar="TIME",
        help="window of the rate (default: %(default)s)",
    )
    parser.add_argument("--connections", type=int, help="number of idle connections (default: by design)")


def cases_of(given: argparse.Namespace) -> dict[str, tuple[Design, int]]:
    """Return each design with each number of idle connections, by name."""
    return {
        f"{design.name}, {count:,} idle connections": (design, count)
        for design in chosen_designs(given.designs)
        for count in ([given.connections] if given.connections else COUNTS[design.waits])
    }


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    counts = [count for _, count in cases_of(given).values()]
    each = OTHER_SECONDS + 2 * 1.25 * given.milliseconds / 1000
    return float(given.rounds * (sum(counts) * SECONDS_A_CONNECTION + len(counts) * each))


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    cases = cases_of(given)
    seen: dict[str, list[Held]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for _, name in shuffled_rounds(list(cases), given.rounds):
        try:
            seen[name].append(trial(*cases[name], given.milliseconds))
        except (EngineError, UserError) as error:
            reasons[name] = str(error)
    print(f"limits of this machine: {limits()}")
    print(f"the rate is that of {BUSY} busy connections\n")
    print(
        f"{'design':26}{'idle':>7}{'KiB in its processes':>24}{'KiB in the kernel':>24}"
        f"{'requests per second':>26}{'CPU each, µs':>20}"
    )
    for name, (design, count) in cases.items():
        print(f"{design.name:26}{count:>7,}", end="")
        held = seen[name]
        if not held:
            print(f"  {reasons[name]}")
            continue
        cpu = [
            each.beside.server_microseconds for each in held if each.beside.server_microseconds is not None
        ]
        print(
            f"{spread([each.processes for each in held], 2):>24}"
            f"{spread([each.kernel for each in held], 1):>24}"
            f"{spread([each.beside.per_second for each in held]):>26}{spread(cpu, 1):>20}"
        )


def trial(design: Design, count: int, milliseconds: int) -> Held:
    """Measure a server with a few busy connections, then with `count` idle connections as well."""
    server_cpus, client_cpus = two_places()
    settings = {**workers(design, count + BUSY), "backlog": 4096, "drain": 0}
    with Server(design.name, workload=WORKLOAD, settings=settings, cpus=server_cpus) as server:

        def clients(number: int, **settings: int) -> dict[str, SettingValue]:
            return {"clients": number, "connections": "kept", "bytes": 64, **settings}

        def load(settings: dict[str, SettingValue]) -> LoadProcess:
            return start_load(
                WORKLOAD, server.ready.address, kind="closed_connections", settings=settings, cpus=client_cpus
            )

        patience = int(PATIENCE_SECONDS) * SECOND
        # A parent that accepts for its children first starts thousands of them.
        load(clients(BUSY, loops=1, timeout=patience)).wait(PATIENCE_SECONDS)
        busy = clients(BUSY, duration=milliseconds * MILLISECOND, warm_up=milliseconds // 4 * MILLISECOND)
        measure(server, load(busy), busy)
        before = memory(server.ready.server_pid)
        answered = server.snapshot().tally.requests
        idle = load(clients(count, loops=2, think=FOREVER, timeout=patience))
        try:
            wait_until_held(server, answered, count)
            after = memory(server.ready.server_pid)
            beside = measure(server, load(busy), busy)
            still = server.snapshot().tally
            held = still.connections - still.closed
            if held < count:
                raise EngineError(f"lost {count - held:,} of the idle connections: {errors(still)}")
        finally:
            idle.end()
    return Held(
        (after.processes - before.processes) / count / 1024,
        (after.kernel - before.kernel) / count / 1024,
        beside,
    )


def wait_until_held(server: Server, answered: int, count: int) -> None:
    """Wait for `count` more served and open connections. Raises `EngineError` if they stop coming."""
    before, moved = server.snapshot().tally, 0.0
    for waited in until_done(PATIENCE_SECONDS):
        tally = server.snapshot().tally
        held = tally.connections - tally.closed
        if held >= count and tally.requests - answered >= count:
            return
        if tally != before:
            before, moved = tally, waited
        if tally.total_errors() or waited - moved > STANDSTILL_SECONDS:
            reason = errors(tally) if tally.total_errors() else "the others wait"
            raise EngineError(f"holds {held:,} connections at a time; {reason}")
    held = before.connections - before.closed
    raise EngineError(f"held {held:,} connections after {PATIENCE_SECONDS:g} s, still rising")


def errors(tally: Tally) -> str:
    """Describe the server's errors."""
    return ", ".join(f"{number:,} {kind}" for kind, number in tally.errors.items()) or "no errors"


def limits() -> str:
    """Describe the limits of this machine and user that concern connections."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    parts = [
        f"{'any number of' if limit < 0 else format(limit, ',')} {what}"
        for limit, what in (
            (descriptors, "descriptors a process (ulimit -Hn)"),
            (processes, "processes and threads (ulimit -u)"),
        )
    ]
    for name in ("kernel.pid_max", "kernel.threads-max", "vm.max_map_count", "net.core.somaxconn"):
        parts.append(f"{name} {int(Path('/proc/sys', *name.split('.')).read_text()):,}")
    return ", ".join(parts)


def memory(group: int) -> Memory:
    """Read the memory of the server's process group and of the kernel."""
    processes = 0
    for folder in processes_of(group):
        try:
            processes += _field((folder / "smaps_rollup").read_text(), "Pss:")
        except OSError:
            continue
    meminfo = Path("/proc/meminfo").read_text()
    return Memory(processes, sum(_field(meminfo, name) for name in ("Slab:", "KernelStack:", "PageTables:")))


def _field(text: str, name: str) -> int:
    """Read a line of /proc in KiB, as bytes."""
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))
