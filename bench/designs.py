"""Every design with 1, 64 and 512 persistent connections, and with a connection for every request.

The server runs on one CPU. The clients run on another, in one event loop that is the same for all designs.
Each trial starts a new server, opens all connections, and warms up until all are in service. Then it measures
a window. Rounds are interleaved. Compare figures within one run only.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from common import (
    MILLISECOND,
    Figures,
    NotInServiceError,
    chosen_designs,
    measure,
    milliseconds,
    shuffled_rounds,
    spread,
    two_places,
    workers,
)
from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError

WORKLOAD = "bytes"
CASES = ((1, "kept"), (64, "kept"), (512, "kept"), (64, "per_request"))
"""Numbers of clients, and how they use connections."""
LONGEST_WARM_UP_MILLISECONDS = 8000
"""Hundreds of processes on one CPU need seconds until each has accepted a connection. The warm-up is
doubled, up to this limit, until every connection is in service."""
OTHER_SECONDS = 0.35
"""Time of a trial outside its window and warm-up, to start and end the processes."""


@dataclass(frozen=True)
class Case:
    """A design with a number of clients."""

    design: Design
    clients: int
    connections: str

    @property
    def name(self) -> str:
        return f"{self.design.name}, {title(self.clients, self.connections)}"


def title(clients: int, connections: str) -> str:
    """Describe the clients' connections."""
    if connections == "kept":
        return f"{clients} connection{'s' if clients > 1 else ''} kept open"
    return f"a connection for every request, {clients} at a time"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", help="designs to measure (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="trials of each (default: %(default)s)")
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="500ms",
        metavar="TIME",
        help="window of a trial (default: %(default)s)",
    )


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    trials = len(chosen_designs(given.designs)) * len(CASES) * given.rounds
    return float(trials * (1.25 * given.milliseconds / 1000 + OTHER_SECONDS))


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    designs = chosen_designs(given.designs)
    cases = {case.name: case for design in designs for case in (Case(design, *each) for each in CASES)}
    figures: dict[str, list[Figures]] = defaultdict(list)
    reasons: dict[str, list[str]] = defaultdict(list)
    warm_ups = dict.fromkeys(cases, given.milliseconds // 4)
    for _, name in shuffled_rounds(list(cases), given.rounds):
        try:
            figure, warm_ups[name] = patient_trial(cases[name], given.milliseconds, warm_ups[name])
            figures[name].append(figure)
        except (EngineError, UserError) as error:
            reasons[name].append(str(error))
    for each in CASES:
        show(
            title(*each),
            [case for case in cases.values() if (case.clients, case.connections) == each],
            figures,
            reasons,
        )
    print("* the clients used more CPU than the server, so the rate is the clients' limit")


def patient_trial(case: Case, milliseconds: int, warm_up: int) -> tuple[Figures, int]:
    """Measure a case with longer and longer warm-ups; return the figures and the last warm-up."""
    while True:
        try:
            return trial(case, milliseconds, warm_up), warm_up
        except NotInServiceError:
            warm_up *= 2
            if warm_up > LONGEST_WARM_UP_MILLISECONDS:
                raise


def trial(case: Case, milliseconds: int, warm_up: int) -> Figures:
    """Measure a case; `milliseconds` is the length of the window, `warm_up` the time before it."""
    server_cpus, client_cpus = two_places()
    clients: dict[str, SettingValue] = {
        "clients": case.clients,
        "connections": case.connections,
        "duration": milliseconds * MILLISECOND,
        "warm_up": warm_up * MILLISECOND,
        "timeout": 2 * (milliseconds + warm_up) * MILLISECOND,
    }
    settings = workers(case.design, case.clients)
    with Server(case.design.name, workload=WORKLOAD, settings=settings, cpus=server_cpus) as server:
        load = start_load(
            WORKLOAD, server.ready.address, kind="closed_connections", settings=clients, cpus=client_cpus
        )
        return measure(server, load, clients)


def show(
    heading: str, cases: Sequence[Case], figures: dict[str, list[Figures]], reasons: dict[str, list[str]]
) -> None:
    """Print a table, the fastest first; at the end the designs without figures, with the reason."""
    what = "connections" if "every request" in heading else "requests"
    print(f"\n{heading}\n{'design':26}{what + ' per second':>32}{'server CPU each, µs':>26}")

    def rate(case: Case) -> float:
        return statistics.median([each.per_second for each in figures[case.name]])

    for case in sorted((case for case in cases if figures[case.name]), key=rate, reverse=True):
        seen = figures[case.name]
        cpu = [each.server_microseconds for each in seen if each.server_microseconds is not None]
        clients = [each.client_microseconds for each in seen]
        mark = "*" if cpu and statistics.median(clients) > statistics.median(cpu) else " "
        rates = spread([each.per_second for each in seen])
        lost = (
            f"  {len(reasons[case.name])} trials lost: {reasons[case.name][-1]}" if reasons[case.name] else ""
        )
        print(f"{case.design.name:26}{rates:>32}{mark}{spread(cpu, 1):>25}{lost}")
    for case in cases:
        if not figures[case.name]:
            print(f"{case.design.name:26}{reasons[case.name][-1]}")
