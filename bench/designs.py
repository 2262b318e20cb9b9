"""Every design at 1, 64 and 512 connections kept open, and with a connection for every request.

Requests per second and the server's CPU time per request; server on one CPU, clients on another, one closed load
of an event loop for all. Rounds are interleaved; a figure is the median of its rounds with the least and the most.
Compare within one run only: `make bench`, or `.venv/bin/python bench/designs.py --help`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

from places import middle, shuffled_rounds, two_places
from thunderherd.catalogue import Design
from thunderherd.engine import EngineError, Server, catalogue, start_load
from thunderherd.engine_lines import LoadResult

WORKLOAD = "bytes"
KEPT = (1, 64, 512)
CHURNING = 64
"""Clients that connect for every request."""
TIMEOUT_MILLISECONDS = 2000
"""A connection that no worker takes up says so by this."""


@dataclass(frozen=True)
class Case:
    """One cell of the table."""

    design: Design
    clients: int
    connect: str

    @property
    def name(self) -> str:
        return f"{self.design.name}/{self.connect}/{self.clients}"

    def settings(self) -> dict[str, int]:
        """A pool that can hold all the connections: a worker for each where a worker waits in its calls, a single
        loop, for there is one CPU, where it does not.
        """
        workers = max(self.clients, 2) if self.design.waits == "in_the_call" else 1
        known = {setting.name for setting in self.design.settings}
        wanted = {"pool": workers, "maximum_workers": max(workers, 64)}
        return {name: value for name, value in wanted.items() if name in known}


@dataclass(frozen=True)
class Figure:
    """What one trial came to."""

    per_second: float
    cpu_microseconds: float | None


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("designs", nargs="*", help="only these")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--milliseconds", type=int, default=1000, help="measured time of a trial")
    given = arguments.parse_args()

    cases = {}
    for design in catalogue().designs:
        if given.designs and design.name not in given.designs:
            continue
        if not design.available:
            print(f"{design.name}: not here: {design.reason}")
            continue
        for clients in KEPT:
            case = Case(design, clients, "kept")
            cases[case.name] = case
        case = Case(design, CHURNING, "per_request")
        cases[case.name] = case

    figures: dict[str, list[Figure]] = defaultdict(list)
    refused: dict[str, str] = {}
    for number, name in shuffled_rounds(list(cases), given.rounds):
        if name in refused:
            continue
        try:
            figures[name].append(measure(cases[name], given.milliseconds))
        except EngineError as error:
            refused[name] = str(error)
        print(f"\rround {number + 1} of {given.rounds}: {name:60}", end="", flush=True)
    print("\r" + " " * 90 + "\r", end="")
    show(cases, figures, refused)


def measure(case: Case, milliseconds: int) -> Figure:
    """One trial: a fresh server, all connections made, a warm-up, the window."""
    server_cpus, client_cpus = two_places()
    with Server(
        case.design.name, workload=WORKLOAD, primitive="send", settings=case.settings(), cpus=server_cpus
    ) as server:
        load = start_load(
            WORKLOAD,
            server.ready.address,
            kind="closed_connections",
            settings={
                "clients": case.clients,
                "connect": case.connect,
                "milliseconds": milliseconds,
                "warm_up_milliseconds": milliseconds // 4,
                "timeout_milliseconds": TIMEOUT_MILLISECONDS,
            },
            cpus=client_cpus,
        )
        try:
            load.wait_for_mark(30)
            before = server.snapshot()
            load.wait_for_mark(30)
            after = server.snapshot()
            result = load.wait(30)
        finally:
            load.end()
    check(result)
    assert result.window is not None
    seconds = (result.window.ended_monotonic_ns - result.window.started_monotonic_ns) / 1e9
    requests = after.tally.requests - before.tally.requests
    cpu = None
    if before.cpu_ns is not None and after.cpu_ns is not None and requests:
        cpu = (after.cpu_ns - before.cpu_ns) / requests / 1000
    return Figure(result.window.requests / seconds, cpu)


def check(result: LoadResult) -> None:
    """A figure counts only if every reply came and was right."""
    if result.errors:
        errors = ", ".join(f"{count} {kind}" for kind, count in result.errors.items())
        raise EngineError(f"{errors}; the first: {result.first_error}")


def show(cases: dict[str, Case], figures: dict[str, list[Figure]], refused: dict[str, str]) -> None:
    """The table, and below it what is missing from it and why."""
    head = ["design", *(f"{clients} kept: /s" for clients in KEPT), f"{CHURNING} connecting: /s"]
    print(f"{WORKLOAD}, 4000 bytes a reply; requests per second, median of the rounds (least to most)\n")
    print(f"{head[0]:28}" + "".join(f"{each:>34}" for each in head[1:]))
    rows: dict[str, list[str]] = defaultdict(list)
    for name, case in cases.items():
        rows[case.design.name].append(name)
    for design, names in rows.items():
        cells = [middle([each.per_second for each in figures[name]]) for name in names]
        print(f"{design:28}" + "".join(f"{cell:>34}" for cell in cells))
    print("\nserver CPU per request, microseconds\n")
    print(f"{head[0]:28}" + "".join(f"{each.replace(': /s', ''):>34}" for each in head[1:]))
    for design, names in rows.items():
        cells = [
            middle([each.cpu_microseconds for each in figures[name] if each.cpu_microseconds], 2) for name in names
        ]
        print(f"{design:28}" + "".join(f"{cell:>34}" for cell in cells))
    for name, reason in sorted(refused.items()):
        print(f"- {name}: {reason}")


if __name__ == "__main__":
    main()
