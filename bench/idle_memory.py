"""Memory of a connection that is open and idle: 1,000 and 10,000 of them, for every design that can hold them.

Two figures a connection. *Its processes*: what the server's processes have as their own, or their part of what they
share (PSS, proc_pid_smaps(5)). *The kernel*: by how much slabs, kernel stacks and page tables of the whole machine
have grown, which includes the client's end of each connection. One connection was served before the first look, so
that neither holds what every server needs once. `make bench`, or `bench/idle_memory.py --help`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from places import two_places
from thunderherd.catalogue import Design
from thunderherd.engine import EngineError, LoadProcess, Server, catalogue, start_load
from thunderherd.errors import UserError

WORKLOAD = "echo"
COUNTS = (1_000, 10_000)
LEAST_THREADS = 5_000
"""What designs with a thread or process a connection are also tried with, where 10,000 are too many."""
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Memory:
    """In bytes."""

    processes: int
    kernel: int


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("designs", nargs="*", help="only these")
    given = arguments.parse_args()
    print("memory per idle connection, KiB: its processes + the kernel (both ends)\n")
    print(f"{'design':28}" + "".join(f"{count:>22,}" for count in (COUNTS[0], LEAST_THREADS, COUNTS[-1])))
    reasons = []
    for design in catalogue().designs:
        if not design.available or (given.designs and design.name not in given.designs):
            continue
        cells = []
        for count in (COUNTS[0], LEAST_THREADS, COUNTS[-1]):
            if count == LEAST_THREADS and design.waits != "in_the_call":
                cells.append("")
                continue
            try:
                each = measure(design, count)
                cells.append(f"{each.processes / count / 1024:.1f} + {each.kernel / count / 1024:.1f}")
            except (EngineError, UserError) as error:
                cells.append("-")
                reasons.append(f"{design.name}, {count:,}: {error}")
        print(f"{design.name:28}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    for reason in reasons:
        print(f"- {reason}")


def measure(design: Design, count: int) -> Memory:
    """The difference between a server that has served one connection and one that holds `count` of them."""
    server_cpus, client_cpus = two_places()
    with Server(
        design.name, workload=WORKLOAD, primitive="send", settings=settings(design, count), cpus=server_cpus
    ) as server:
        address, server_pid = server.ready.address, server.ready.server_pid
        first = idle_clients(address, 1, client_cpus)
        try:
            wait_for_open(server, 1)
            before = memory(server_pid)
            load = idle_clients(address, count - 1, client_cpus)
            try:
                wait_for_open(server, count)
                after = memory(server_pid)
            finally:
                load.end()
        finally:
            first.end()
    return Memory(after.processes - before.processes, after.kernel - before.kernel)


def settings(design: Design, count: int) -> dict[str, int]:
    """A worker for each connection where workers wait in their calls, one loop where they do not."""
    workers: dict[str, int] = {}
    for setting in design.settings:
        if setting.name in ("pool", "maximum_workers"):
            wanted = count if design.waits == "in_the_call" else 1
            if setting.maximum is not None and wanted > setting.maximum:
                raise UserError(f"{setting.name} is at most {setting.maximum}")
            workers[setting.name] = wanted
    return {**workers, "backlog": 4096, "drain_milliseconds": 0}


def idle_clients(address: str, count: int, cpus: list[int]) -> LoadProcess:
    """Connections that ask once and then think for longer than this benchmark takes."""
    return start_load(
        WORKLOAD,
        address,
        kind="closed_connections",
        settings={"clients": count, "connect": "kept", "loops": 2, "think_microseconds": 600_000_000, "bytes": 64},
        cpus=cpus,
    )


def wait_for_open(server: Server, count: int) -> None:
    """Until so many connections have been served and are open."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        tally = server.snapshot().tally
        if tally.total_errors():
            raise EngineError(", ".join(f"{number} {kind}" for kind, number in tally.errors.items()))
        if tally.requests >= count:
            return
        if time.monotonic() > deadline:
            raise EngineError(f"serves {tally.requests:,} at a time, and the others wait")
        time.sleep(0.05)


def memory(server_pid: int) -> Memory:
    """Of the server's processes, and of the machine's kernel."""
    processes = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            group = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
            if group == server_pid:
                processes += field((folder / "smaps_rollup").read_text(), "Pss:")
        except OSError:
            continue
    meminfo = Path("/proc/meminfo").read_text()
    return Memory(processes, sum(field(meminfo, name) for name in ("Slab:", "KernelStack:", "PageTables:")))


def field(text: str, name: str) -> int:
    """A line of /proc in KiB, as bytes."""
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))


if __name__ == "__main__":
    main()
