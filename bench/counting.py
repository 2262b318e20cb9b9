"""Cost of counting: rate and CPU time per request with counters and without, in the same rounds.

There are two kinds of counter sets. The first kind is counted in every judged trial: what the lab reads in
any study (`by default`), and what each bundled study requests in addition (`[measure] counters`). These must
be cheap, so they have many rounds and a verdict in words. The second kind is counted in extra trials: the
counters that explain a difference (`[counting]` of a study), together and each alone, tcp_info, the memory of
a control group, and the processor's events together.

A round has each set once and the reference once, in random order. A ratio is of one round: the time of a
request with the set to that with the reference. By rate, the reference of the first kind counts nothing: the
server's CPU time is not read before its end either. By CPU time, and for the second kind, the reference is
what every trial counts by default. Both sides count, as in the trials of a study. Without counters, no
tracepoint is enabled.

For the first kind, perf(1) also counts the instructions per request if it can. On shared CPUs, rates vary by
a tenth from trial to trial, and instructions can decide what time cannot. `nothing, again` is the reference
once more: it must show no difference.
"""

from __future__ import annotations

import argparse
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import instructions
from common import (
    MILLISECOND,
    PATIENCE_SECONDS,
    Figures,
    measure,
    milliseconds,
    ratio,
    shuffled_rounds,
    spread,
    two_places,
)
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import EngineError, Server, catalogue, start_load
from thunderherd.engine.counter_names import called, names_in
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.machine.counting_cost import cost_of_counting
from thunderherd.records.extra_trials import WHAT_EXPLAINS
from thunderherd.study.file.names import bundled_studies

WORKLOAD = "bytes"
NOTHING = "nothing at all"
AGAIN = "nothing, again"
DEFAULT = "by default"
DESIGNS = ("epoll", "fork_per_client", "thread_per_client")
"""One design that starts nothing for a connection, and two whose processes or threads inherit every event."""
CLIENTS = 8
PROCESSOR = (
    "cpu_cycles", "instructions", "branch_instructions", "branch_misses", "cache_references", "cache_misses",
)  # fmt: skip
WARM_UP_MILLISECONDS = 100
LOOPS = 150
"""Requests of each client when instructions are counted. They are few, since the instructions of a fork
vary from server to server, with the layout of its memory, and not within one server. More rounds help,
more requests do not."""
OTHER_SECONDS = 0.1
"""Time of a trial outside its window and warm-up, to start and end the processes."""
HEAVY_SECONDS = 0.8
"""Additional time if many events are opened and closed."""
BOUND = 0.01
"""The largest cost of the default set, as a share of the time of a request."""

Sets = Mapping[str, tuple[str, ...] | None]
"""The counters of each set, by name; None: neither counters nor CPU time."""


@dataclass(frozen=True)
class Kind:
    """Sets that are compared with each other."""

    title: str
    sets: Sets
    reference: str
    rounds: int
    seconds: float
    """Time of a trial outside its window."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", help=f"designs (default: {', '.join(DESIGNS)})")
    parser.add_argument(
        "--rounds",
        type=int,
        default=32,
        help="trials of each set of judged trials, and of --counters (default: %(default)s)",
    )
    parser.add_argument(
        "--other-rounds",
        type=int,
        default=6,
        help="trials of each set of extra trials; 0 leaves them out (default: %(default)s)",
    )
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="300ms",
        metavar="TIME",
        help="window of a trial (default: %(default)s)",
    )
    parser.add_argument(
        "--counters",
        nargs="*",
        metavar="COUNTERS",
        help="measure only the default and these sets, such as system_calls,wakeups",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="run server and clients on one CPU: more switches per request, steadier rates",
    )


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    designs = len(given.designs or DESIGNS)
    return float(
        sum(
            designs * len(each.sets) * each.rounds * (given.milliseconds / 1000 + each.seconds)
            for each in kinds(given)
        )
    )


def kinds(given: argparse.Namespace) -> list[Kind]:
    """Return the requested kinds of sets."""
    light = WARM_UP_MILLISECONDS / 1000 + OTHER_SECONDS
    off: Sets = {NOTHING: None}
    if given.counters is not None:
        named = {each: names_in(each) for each in given.counters}
        return [Kind("these counters", {**off, DEFAULT: (), **named}, NOTHING, given.rounds, light)]
    of_all = Kind("in every trial", {**off, **in_every_trial(catalogue())}, NOTHING, given.rounds, light)
    of_their_own = {
        DEFAULT: (),
        "what explains": WHAT_EXPLAINS,
        **{each: (each,) for each in WHAT_EXPLAINS},
        "tcp_info": ("tcp_info",),
        "memory": ("memory",),
        "processor": PROCESSOR,
    }
    apart = Kind("in extra trials", of_their_own, DEFAULT, given.other_rounds, light + HEAVY_SECONDS)
    return [each for each in (of_all, apart) if each.rounds]


def in_every_trial(offered: Catalogue) -> dict[str, tuple[str, ...]]:
    """Return the counters of the judged trials of bundled studies.

    Studies with the same counters share a set. The default set comes first; some studies have no other.
    """
    by_counters: dict[tuple[str, ...], list[str]] = {}
    for name, path in bundled_studies().items():
        requested = tomllib.loads(path.read_text(encoding="utf-8"))["measure"].get("counters", [])
        counters = tuple(dict.fromkeys(called(each, offered) for each in requested))
        by_counters.setdefault(counters, []).append(name)
    by_counters.pop((), None)
    return {DEFAULT: (), **{", ".join(names): counters for counters, names in by_counters.items()}}


def unavailable(counters: Sequence[str], design: str, offered: Catalogue) -> dict[str, str]:
    """Return the counters that this machine does not have, with the reason.

    A server that is to count them reports the reasons: it also knows the events by name, which no list has.
    Raises `UserError` for an unknown name.
    """
    if not counters:
        return {}
    with Server(design, workload=WORKLOAD, counters=counters) as server:
        reasons = server.ready.counters
    found = {each: reasons.get(called(each, offered)) for each in counters}
    return {each: reason for each, reason in found.items() if reason is not None}


def run(given: argparse.Namespace) -> None:
    """Measure and print a table for each kind and design, then the cost of each set in words."""
    for kind in kinds(given):
        costs: dict[str, dict[str, str]] = defaultdict(dict)
        for design in given.designs or DESIGNS:
            for name, cost in compare(kind, design, given).items():
                costs[name][design] = cost
        about = "the time of a request with them to that without, by the rate and by the server's CPU"
        print(f"\nratios: {about}")
        if kind.reference == NOTHING:
            print(f"\nwhat counting costs, by the rate, against {NOTHING}, in percent")
            show_costs(costs)
            show_work(kind, given)


def show_costs(costs: Mapping[str, Mapping[str, str]]) -> None:
    """Print what each set costs each design."""
    for name, of_designs in costs.items():
        print(f"{name}:")
        for design, cost in of_designs.items():
            print(f"    {design:24}{cost}")


def show_work(kind: Kind, given: argparse.Namespace) -> None:
    """Measure and print what each set costs in instructions. Both sides share a CPU, which never idles."""
    if (reason := instructions.why_not()) is not None:
        print(f"\nno instructions per request: {reason}")
        return
    costs: dict[str, dict[str, str]] = defaultdict(dict)
    sets = {**kind.sets, AGAIN: None}
    for design in given.designs or DESIGNS:
        seen: dict[str, dict[int, float]] = defaultdict(dict)
        for number, name in shuffled_rounds(list(sets), kind.rounds, f"{design}, instructions, "):
            try:
                seen[name][number] = work(design, sets[name])
            except (EngineError, UserError) as error:
                costs[name][design] = f"unavailable: {error}"
        for name in sets:
            both = [
                seen[name][number] / seen[NOTHING][number] for number in seen[name] if number in seen[NOTHING]
            ]
            if name != NOTHING and design not in costs[name]:
                costs[name][design] = cost_in_words(both)
        plain = statistics.median(seen[NOTHING].values())
        print(f"\n{design}: {plain:,.0f} instructions per request, of both sides")
    print(f"\nwhat counting costs in instructions, compared with {NOTHING}, in percent")
    show_costs(costs)


def work(design: str, counters: Sequence[str] | None) -> float:
    """Measure the instructions per request of all processes on the CPU of both sides."""
    cpus = two_places()[0]
    clients: dict[str, SettingValue] = {"clients": CLIENTS, "connections": "per_request", "loops": LOOPS}
    with serving(design, counters) as server, instructions.counting(cpus) as reading:
        load = start_load(
            WORKLOAD,
            server.ready.address,
            kind="closed_connections",
            settings=clients,
            cpus=cpus,
            counters=counters or (),
        )
        try:
            result = load.wait(PATIENCE_SECONDS)
        finally:
            load.end()
    if result.tally.errors:
        raise EngineError(f"requests failed; the first: {result.first_error}")
    return reading.instructions / result.tally.requests


def serving(design: str, counters: Sequence[str] | None) -> Server:
    """Start a server with these counters; None: without counters, and CPU time is read only at its end."""
    # An option of `serve`, which the lab never sets.
    settings: dict[str, SettingValue] = {"cpu_source": "whole_life"} if counters is None else {}
    return Server(design, workload=WORKLOAD, settings=settings, cpus=two_places()[0], counters=counters or ())


def compare(kind: Kind, design: str, given: argparse.Namespace) -> dict[str, str]:
    """Measure the sets of a kind with one design; print the table, and return each cost by rate in words."""
    offered = catalogue()
    figures: dict[str, dict[int, Figures]] = defaultdict(dict)
    reasons: dict[str, str] = {}
    missing: dict[str, dict[str, str]] = {}
    here: dict[str, tuple[str, ...] | None] = {}
    for name, counters in kind.sets.items():
        try:
            missing[name] = without = unavailable(counters or (), design, offered)
        except (EngineError, UserError) as error:
            reasons[name] = str(error)
            continue
        here[name] = None if counters is None else tuple(each for each in counters if each not in without)
        if without and not here[name]:
            reasons[name] = next(iter(without.values()))
    names = [name for name in kind.sets if name not in reasons]
    for number, name in shuffled_rounds(names, kind.rounds, f"{design}, "):
        try:
            figures[name][number] = trial(design, here[name], given.milliseconds, given.together)
        except (EngineError, UserError) as error:
            reasons[name] = str(error)
    show(kind, design, figures, reasons)
    for name, without in missing.items():
        for each, reason in without.items() if here[name] else ():
            print(f"{name}: without {each}: {reason}")
    return {
        name: cost_in_words(by_rate(figures[name], figures[kind.reference]))
        for name in kind.sets
        if name != kind.reference
    }


def trial(design: str, counters: Sequence[str] | None, milliseconds: int, together: bool) -> Figures:
    """Measure a set. Every request has a connection, since each new process or thread inherits events."""
    client_cpus = two_places()[0 if together else 1]
    clients: dict[str, SettingValue] = {
        "clients": CLIENTS,
        "connections": "per_request",
        "duration": milliseconds * MILLISECOND,
        "warm_up": WARM_UP_MILLISECONDS * MILLISECOND,
    }
    with serving(design, counters) as server:
        load = start_load(
            WORKLOAD,
            server.ready.address,
            kind="closed_connections",
            settings=clients,
            cpus=client_cpus,
            counters=counters or (),
        )
        return measure(server, load, clients)


def by_rate(counted: Mapping[int, Figures], plain: Mapping[int, Figures]) -> list[float]:
    """Return the ratios of the time of a request with counters to that without, of the rounds with both."""
    return [plain[number].per_second / each.per_second for number, each in counted.items() if number in plain]


def by_cpu(counted: Mapping[int, Figures], plain: Mapping[int, Figures]) -> list[float]:
    """Return the same ratios of the server's CPU time per request."""
    pairs = [(each, plain[number]) for number, each in counted.items() if number in plain]
    return [
        with_them.server_microseconds / without.server_microseconds
        for with_them, without in pairs
        if with_them.server_microseconds and without.server_microseconds
    ]


def cost_in_words(ratios: Sequence[float], bound: float = BOUND) -> str:
    """Write whether a set costs less than the bound, as `under 1 % (0.1 %, -0.4 to 0.6)`.

    The verdict is decided if the whole 95 % interval (Hodges-Lehmann, of the logarithms) is on one side.
    """
    cost = cost_of_counting("time", ratios)
    if cost is None:
        return "not decided (no trial)"
    most = f"{100 * bound:g} %"
    middle = f"{_percent(cost.value)} %"
    if cost.low is None or cost.high is None:
        few = f"too few rounds for a 95 % interval: {len(ratios)}"
        return f"not decided whether under {most} ({middle}; {few})"
    span = f"({middle}, {_percent(cost.low)} to {_percent(cost.high)})"
    if cost.high < 1 + bound:
        return f"under {most} {span}"
    return f"over {most} {span}" if cost.low > 1 + bound else f"not decided whether under {most} {span}"


def _percent(ratio: float) -> str:
    text = f"{100 * (ratio - 1):.1f}"
    return "0.0" if text == "-0.0" else text


def show(
    kind: Kind, design: str, figures: Mapping[str, Mapping[int, Figures]], reasons: Mapping[str, str]
) -> None:
    """Print a row for each set, with the reason for lost trials at the end."""
    print(f"\n{design}, a connection for every request, {CLIENTS} at a time; {kind.title}")
    print(
        f"{'counters':24}{'requests per second':>30}{'server CPU each, µs':>28}{'by rate':>20}{'by CPU':>20}"
    )
    for name in kind.sets:
        seen = figures.get(name, {})
        if not seen:
            print(f"{name:24}{reasons.get(name, 'no trial')}")
            continue
        rates = by_rate(seen, figures.get(kind.reference, {})) if name != kind.reference else []
        times = by_cpu(seen, figures.get(DEFAULT, {})) if name != DEFAULT else []
        cpu = [each.server_microseconds for each in seen.values() if each.server_microseconds is not None]
        ratios = "".join(f"{ratio(each) if each else '-':>20}" for each in (rates, times))
        lost = f"  trials lost: {reasons[name]}" if name in reasons else ""
        rate = spread([each.per_second for each in seen.values()])
        print(f"{name:24}{rate:>30}{spread(cpu, 1):>28}{ratios}{lost}")
