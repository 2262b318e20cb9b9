"""What counting costs: rate and CPU time per request with counters on against off, in the same rounds.

Sets of counters: those that studies have in every trial, those that explain a difference (`[counting]` of a
study) and each of them alone, tcp_info, the memory of a control group, and the processor's events together.
A round has each set once and none of them once, in an order of its own; a ratio is of one round, the time of
a request with counters to that without. Only the server is counted. Off is off: no tracepoint is switched on
in a trial that does not count.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence

from common import Figures, measure, ratio, shuffled_rounds, spread, two_places
from thunderherd.catalogue import SettingValue
from thunderherd.counting_form import WHAT_EXPLAINS
from thunderherd.engine import EngineError, Server, catalogue, start_load
from thunderherd.errors import UserError

WORKLOAD = "bytes"
NONE = "no counters"
DESIGNS = ("epoll", "fork_per_client", "thread_per_client")
"""One that makes nothing for a connection, and two that copy every event for each."""
CLIENTS = 8
IN_EVERY_TRIAL = ("task_clock", "context_switches", "cpu_migrations", "page_faults")
"""What studies count beside figures that are judged."""
PROCESSOR = (
    "cpu_cycles", "instructions", "branch_instructions", "branch_misses", "cache_references", "cache_misses",
)  # fmt: skip
WARM_UP_MILLISECONDS = 100
OTHER_SECONDS = 0.5
"""Of a trial, beside its window and warm-up: start and end of the processes, and of events, which last."""


def options(parser: argparse.ArgumentParser) -> None:
    """What may be asked of it."""
    parser.add_argument("designs", nargs="*", help=f"default: {', '.join(DESIGNS)}")
    parser.add_argument("--rounds", type=int, default=6, help="trials of each (default: %(default)s)")
    parser.add_argument(
        "--milliseconds", type=int, default=300, help="window of a trial (default: %(default)s)"
    )
    parser.add_argument(
        "--counters", nargs="+", metavar="COUNTERS", help="only these sets, such as system_calls,wakeups"
    )


def seconds(given: argparse.Namespace) -> float:
    """How long it will take."""
    trials = len(given.designs or DESIGNS) * (len(sets(given)) + 1) * given.rounds
    return float(trials * ((given.milliseconds + WARM_UP_MILLISECONDS) / 1000 + OTHER_SECONDS))


def sets(given: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """The sets of counters, by what they are called."""
    if given.counters:
        return {each: tuple(each.split(",")) for each in given.counters}
    return {
        "in every trial": IN_EVERY_TRIAL,
        "what explains": WHAT_EXPLAINS,
        **{each: (each,) for each in WHAT_EXPLAINS},
        "tcp_info": ("tcp_info",),
        "memory": ("memory",),
        "processor": PROCESSOR,
    }


def unavailable(counters: Sequence[str]) -> str | None:
    """Why this machine does not have one of these; None where it has all."""
    listed = {each.name: each for each in catalogue().counters}
    reasons = (each.reason for name in counters if (each := listed.get(name)) and not each.available)
    return next(reasons, None)


def run(given: argparse.Namespace) -> None:
    """Measures, and prints a table for each design."""
    asked = sets(given)
    missing = {name: why for name, counters in asked.items() if (why := unavailable(counters))}
    here = {name: counters for name, counters in asked.items() if name not in missing}
    for design in given.designs or DESIGNS:
        figures: dict[str, dict[int, Figures]] = defaultdict(dict)
        reasons = dict(missing)
        for number, name in shuffled_rounds([NONE, *here], given.rounds, f"{design}, "):
            try:
                figures[name][number] = trial(design, here.get(name, ()), given.milliseconds)
            except (EngineError, UserError) as error:
                reasons[name] = str(error)
        show(design, [NONE, *asked], figures, reasons)
    print(
        "\nratios: the time of a request with counters to that without, by the rate and by the server's CPU"
    )


def trial(design: str, counters: Sequence[str], milliseconds: int) -> Figures:
    """A connection for every request, which is when an event has to be copied for each that is made."""
    server_cpus, client_cpus = two_places()
    clients: dict[str, SettingValue] = {
        "clients": CLIENTS,
        "connections": "per_request",
        "milliseconds": milliseconds,
        "warm_up_milliseconds": WARM_UP_MILLISECONDS,
    }
    with Server(design, workload=WORKLOAD, cpus=server_cpus, counters=counters) as server:
        load = start_load(
            WORKLOAD, server.ready.address, kind="closed_connections", settings=clients, cpus=client_cpus
        )
        return measure(server, load, clients)


def show(
    design: str, names: Sequence[str], figures: dict[str, dict[int, Figures]], reasons: dict[str, str]
) -> None:
    """A row for each set; at its end what is missing, and why."""
    print(f"\n{design}, a connection for every request, {CLIENTS} at a time")
    print(
        f"{'counters':24}{'requests per second':>30}{'server CPU each, µs':>28}{'by rate':>20}{'by CPU':>20}"
    )
    for name in names:
        seen = list(figures[name].values())
        if not seen:
            print(f"{name:24}{reasons.get(name, 'no trial')}")
            continue
        pairs = [
            (each, figures[NONE][number])
            for number, each in figures[name].items()
            if number in figures[NONE] and name != NONE
        ]
        rates = [plain.per_second / counted.per_second for counted, plain in pairs]
        times = [
            counted.server_microseconds / plain.server_microseconds
            for counted, plain in pairs
            if counted.server_microseconds and plain.server_microseconds
        ]
        cpu = [each.server_microseconds for each in seen if each.server_microseconds is not None]
        by_rate, by_cpu = (ratio(each) if each else "-" for each in (rates, times))
        lost = f"  trials lost: {reasons[name]}" if name in reasons else ""
        rate = spread([each.per_second for each in seen])
        print(f"{name:24}{rate:>30}{spread(cpu, 1):>28}{by_rate:>20}{by_cpu:>20}{lost}")
