"""Very many persistent connections of a load: how long they take to make, and their memory.

One thread of the load `closed_connections`, with either back end, opens 10,000 and 100,000 connections to the
designs `epoll` and `io_uring`. If a process may not have so many descriptors, as few loads as possible share
the connections, to the processes of `reuseport`. There are four figures, in KiB a connection:

*Own*: growth of the load's private memory after all connections were made, before the first request.
*When answered*: the load's largest resident memory, after one reply to every client.
*Server*: growth of the private memory of the server's processes and of their part of shared memory (PSS).
*Kernel*: growth of slabs, stacks and page tables of the whole machine. It includes both ends of each
connection, and everything else that the machine does meanwhile.
"""

from __future__ import annotations

import argparse
import resource
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from common import (
    MILLISECOND,
    SECOND,
    processes_of,
    show_lost,
    shuffled_rounds,
    spread,
    two_places,
    until_done,
)
from thunderherd.engine.client import EngineError, LoadProcess, Server, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError

WORKLOAD = "echo"
DESIGNS = ("epoll", "io_uring")
DIVIDED = "reuseport"
"""The design whose processes share the connections."""
BACK_ENDS = ("epoll", "io_uring")
COUNTS = (10_000, 100_000)
CONNECTIONS_OF_AN_ADDRESS = 14_000
"""Half of the usual local ports. With more, the kernel searches long for a free port."""
FOREVER = 3600 * SECOND
"""Clients send one request, and then wait for longer than a trial takes."""
PATIENCE_SECONDS = 120.0
OTHER_DESCRIPTORS = 1_000
"""Descriptors for everything but clients' connections, and for connections that are closing."""
SECONDS_A_CONNECTION = 0.0004


@dataclass(frozen=True)
class Memory:
    """Memory in bytes."""

    processes: int
    kernel: int


@dataclass(frozen=True)
class Made:
    """The figures of a trial: seconds to make all connections, and KiB of each."""

    seconds: float
    own: float
    answered: float
    kernel: float
    server: float


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--rounds", type=int, default=1, help="trials of each (default: %(default)s)")
    parser.add_argument("--connections", type=int, help="number of connections (default: 10,000 and 100,000)")


def cases_of(given: argparse.Namespace) -> dict[str, tuple[str, str, int]]:
    """Return each design with each back end and number of connections, by name."""
    return {
        f"{design} {back_end} {count:,}": (design, back_end, count)
        for count in ([given.connections] if given.connections else COUNTS)
        for design in (DESIGNS if processes_for(count) == 1 else (DIVIDED,))
        for back_end in BACK_ENDS
    }


def processes_for(count: int) -> int:
    """Return how many processes so many connections need, by the limit of descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 if most == resource.RLIM_INFINITY else -(-count // max(most - OTHER_DESCRIPTORS, 1))


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    counts = [count for _, _, count in cases_of(given).values()]
    return float(given.rounds * sum(2 + window(count) + count * SECONDS_A_CONNECTION for count in counts))


def run(given: argparse.Namespace) -> None:
    """Measure and print the table."""
    cases = cases_of(given)
    seen: dict[str, list[Made]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for _, name in shuffled_rounds(list(cases), given.rounds):
        try:
            seen[name].append(trial(*cases[name]))
        except (EngineError, UserError) as error:
            reasons[name] = str(error)
    print("KiB a connection; `kernel` has both ends\n")
    print(
        f"{'design':10}{'back end':10}{'loads':>6}{'connections':>12}{'seconds to make':>19}{'own':>19}"
        f"{'when answered':>19}{'server':>19}{'kernel':>19}"
    )
    for name, (design, back_end, count) in cases.items():
        print(f"{design:10}{back_end:10}{processes_for(count):>6}{count:>12,}", end="")
        made = seen[name]
        if not made:
            print(f"  {reasons[name]}")
            continue
        print(
            f"{spread([each.seconds for each in made], 2):>19}{spread([each.own for each in made], 2):>19}"
            f"{spread([each.answered for each in made], 2):>19}"
            f"{spread([each.server for each in made], 2):>19}{spread([each.kernel for each in made], 1):>19}"
        )
    show_lost({name: reason for name, reason in reasons.items() if seen[name]})


def window(count: int) -> float:
    """Return the length of a window in which every client gets a reply, and the memory is read."""
    return 1 + count * SECONDS_A_CONNECTION / 4


def trial(design: str, back_end: str, count: int) -> Made:
    """Measure so many connections to a server, from as few loads as possible."""
    server_cpus, client_cpus = two_places()
    processes = processes_for(count)
    common: dict[str, SettingValue] = {"clients": 8, "connections": "kept", "bytes": 64}
    # Loads that start together reach their windows one after another, as their connections are made.
    milliseconds = int(1000 * window(count)) + 1000 * (processes - 1)
    settings: dict[str, SettingValue] = {
        **common, "clients": -(-count // processes), "back_end": back_end,
        "timeout": int(PATIENCE_SECONDS) * SECOND,
        "source_addresses": -(-count // CONNECTIONS_OF_AN_ADDRESS),
        "duration": milliseconds * MILLISECOND, "think": FOREVER,
    }  # fmt: skip
    count = processes * -(-count // processes)
    # The kernel divides connections among processes at random: twice as many processes have room enough.
    pool = {"pool": 2 * processes} if processes > 1 else {}
    own = {"backlog": 4096, "drain": 0, **pool}
    with Server(design, workload=WORKLOAD, settings=own, cpus=server_cpus) as server, ExitStack() as started:

        def load(settings: Mapping[str, SettingValue]) -> LoadProcess:
            running = start_load(
                WORKLOAD, server.ready.address, kind="closed_connections", settings=settings, cpus=client_cpus
            )
            started.callback(running.end)
            return running

        # A first request, so that memory both programs touch once is not counted.
        load({**common, "loops": 1}).wait(PATIENCE_SECONDS)
        before, answered = memory(server.ready.server_pid), server.snapshot().tally.requests
        loads = [load(settings) for _ in range(processes)]
        held, after = 0, before
        for _ in until_done(PATIENCE_SECONDS):
            tally = server.snapshot().tally
            if tally.requests - answered >= count:
                held, after = tally.connections - tally.closed, memory(server.ready.server_pid)
                break
        results = [each.wait(2 * PATIENCE_SECONDS) for each in loads]
    for result in results:
        if result.tally.errors:
            raise EngineError(f"{result.tally.errors}: {result.first_error}")
    if held < count:
        raise EngineError(
            f"{held:,} connections were held at a time; the window is too short on this machine"
        )
    made = [each.memory.connected for each in results if each.memory and each.memory.connected]
    peaks = [each.memory.peak_resident_bytes for each in results if each.memory]
    windows = [each.window for each in results if each.window]
    if not len(made) == len(windows) == processes:
        raise EngineError("the kernel does not report a process's memory, or a load did not reach its window")
    began = min(each.started_monotonic_ns for each in results)
    return Made(
        (max(each.started_monotonic_ns for each in windows) - began) / 1e9,
        sum(each.bytes for each in made) / count / 1024,
        sum(peaks) / count / 1024,
        (after.kernel - before.kernel) / count / 1024,
        (after.processes - before.processes) / count / 1024,
    )


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
