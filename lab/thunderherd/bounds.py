"""The best results of a run as shares of what the machine's limits allow at most.

Each bound is one that cannot be passed but by doing less than it says: METHODOLOGY.md has them in words.
Where no limit bounds a metric, or it is not known how a contender stands to it, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from thunderherd.labs import KINDS
from thunderherd.limits_form import BoundSummary, LimitFigure, MachineLimits
from thunderherd.metrics import CPU_PER_CONNECTION, PAYLOAD_RATE, SIDES
from thunderherd.metrics import metric as metric_named
from thunderherd.records import ContenderSummary
from thunderherd.study import Contender, Study

__all__ = ["best_of_bounds"]

COPY, CONNECTION, TRANSFER, ROUND_TRIP = "memcpy", "tcp_connection", "tcp_transfer", "pipe_round_trip"
"""The limits that rates and round trips are held against."""

MADE = {
    "process": ("fork_exit_wait", "a process for every connection, forked, ended and waited for"),
    "thread": ("thread_creation", "a thread for every connection, made and joined"),
}
"""By what a design makes for every connection: the limit that is its price, and that in words."""

NANOSECOND = 1e-9


class Bound(NamedTuple):
    """The best that a metric may be, in its own unit; the limit that it follows from, and how."""

    value: float
    limit: str
    why: str


@dataclass(frozen=True)
class _Case:
    """A contender and its figures, on a machine with these limits and so many CPUs for both of its ends."""

    contender: Contender
    figures: Mapping[str, float]
    limits: MachineLimits
    cpus: int

    @property
    def cpus_in_words(self) -> str:
        return f"on {self.cpus} CPUs" if self.cpus != 1 else "on one CPU"

    def is_at_least(self, name: str, least: float) -> bool:
        """Whether a figure is known and no less."""
        return self.figures.get(name, float("-inf")) >= least

    @property
    def has_tcp(self) -> bool:
        return KINDS[self.contender.lab.kind].has_tcp

    @property
    def is_asked_in_turn(self) -> bool:
        """Whether one client alone waits for each reply before it asks again, and both ends sleep until
        there is something to do."""
        return self.contender.load.clients_at_once == 1 and not self.contender.spins


def best_of_bounds(
    study: Study,
    contenders: Iterable[ContenderSummary],
    limits: MachineLimits | None,
    cpus: Sequence[int],
) -> list[BoundSummary]:
    """Of each metric that is shown and each limit that bounds it: the contender with the best result.

    `cpus` are those that this process may use, which both ends of a contender share that is not pinned.
    """
    if limits is None:
        return []
    shown: dict[str | None, tuple[str, ...]] = {None: (study.measure.metric,)}
    shown.update((sweep.name, sweep.metrics) for sweep in study.sweeps)
    best: dict[tuple[str | None, str, str], BoundSummary] = {}
    for summary in contenders:
        figures = {name: interval.value for name, interval in summary.metrics.items()}
        contender = study.contender(summary.name)
        case = _Case(contender, figures, limits, _cpus_of(contender, cpus))
        for name in shown.get(summary.sweep, ()):
            bound = BOUNDS[name](case) if name in figures and name in BOUNDS else None
            if bound is None or bound.value <= 0 or figures[name] <= 0:
                continue
            more = metric_named(name).better == "more"
            found = BoundSummary(
                metric=name,
                sweep=summary.sweep,
                contender=summary.name,
                value=figures[name],
                bound=bound.value,
                share=figures[name] / bound.value if more else bound.value / figures[name],
                limit=bound.limit,
                why=bound.why,
            )
            key = (summary.sweep, name, bound.limit)
            other = best.get(key)
            if other is None or (found.value > other.value) == more:
                best[key] = found
    return list(best.values())


def _cpus_of(contender: Contender, usable: Sequence[int]) -> int:
    """How many CPUs both ends may use together."""
    sides = (contender.lab.server_cpus, contender.lab.client_cpus)
    return len({cpu for side in sides for cpu in (usable if side is None else side)})


# One for each metric ----------------------------------------------------------------------------------------


def _payload(case: _Case) -> Bound | None:
    """Every byte is copied where it is sent and where it is received, in blocks as large as a send call's."""
    block, copies = _bytes_of_a_send(case), case.contender.copies
    found = _around(case.limits.sizes(COPY), block) if block else None
    if found is None or not copies:
        return None
    rate = found.value * case.cpus / copies
    times = "twice" if copies == 2 else "once"
    return Bound(
        8e-9 * rate,
        COPY,
        f"every byte copied {times} {case.cpus_in_words}, in blocks of {found.bytes:,} bytes at "
        f"{found.value / 1e9:.3g} GB/s each",
    )


def _bytes_of_a_send(case: _Case) -> float | None:
    """What a send call carries in the mean, of the end that sends more; None where that is not counted."""
    sides = [(case.figures.get(f"{side}.bytes_sent", 0.0), side) for side in SIDES]
    sent, side = max(sides)
    calls = case.figures.get(f"{side}.send_calls", 0.0)
    return sent / calls if sent and calls else None


def _around(figures: Sequence[LimitFigure], size: float) -> LimitFigure | None:
    """Of the sizes next to `size`, below and above, the one with the greater figure."""
    below = [each for each in figures if (each.bytes or 0) <= size][-1:]
    above = [each for each in figures if (each.bytes or 0) >= size][:1]
    return max([*below, *above], key=lambda each: each.value, default=None)


def _connections(case: _Case) -> Bound | None:
    """Both sides' work of a connection that is made, accepted and closed, on all CPUs that they have."""
    price = case.limits.figure(CONNECTION)
    if price is None or not case.has_tcp:
        return None
    rate = case.cpus / (price.value * NANOSECOND)
    return Bound(
        rate, CONNECTION, f"a bare connection takes {price.value / 1e3:.3g} µs of a CPU, {case.cpus_in_words}"
    )


def _requests(case: _Case) -> Bound | None:
    if case.is_asked_in_turn:
        round_trip = _round_trip(case)
        return round_trip and round_trip._replace(value=1 / round_trip.value)
    opened, requests = case.figures.get("connections"), case.figures.get("requests")
    if opened is not None and requests and opened >= requests:
        return _connections(case)
    # What gathers the messages of several requests in a call needs fewer transfers than two a request.
    price = case.limits.figure(TRANSFER, bytes=1)
    each_sends = all(case.is_at_least(f"{side}.send_calls_per_request", 1.0) for side in SIDES)
    if price is None or not case.has_tcp or not each_sends:
        return None
    return Bound(
        case.cpus / (2 * price.value * NANOSECOND),
        TRANSFER,
        f"a byte there and one back take 2 × {price.value / 1e3:.3g} µs of a CPU through a bare connection, "
        f"{case.cpus_in_words}",
    )


def _round_trip(case: _Case) -> Bound | None:
    """The cheapest way to another process and back that sleeps meanwhile, where both may be."""
    if not case.is_asked_in_turn:
        return None
    server, clients = case.contender.lab.server_cpus, case.contender.lab.client_cpus
    apart = server is not None and clients is not None and not set(server) & set(clients)
    places = [
        (found.value, words)
        for place, words in (("one_cpu", "on one CPU"), ("two_cpus", "across two CPUs"))
        if not (apart and place == "one_cpu") and not (case.cpus == 1 and place == "two_cpus")
        if (found := case.limits.figure(ROUND_TRIP, "one_cpu" if place == "one_cpu" else "two_cpus"))
    ]
    if not places:
        return None
    nanoseconds, words = min(places)
    return Bound(
        nanoseconds * NANOSECOND,
        ROUND_TRIP,
        f"a byte there and back by pipes, {words}: {nanoseconds / 1e3:.3g} µs",
    )


def _server_cpu(case: _Case) -> Bound | None:
    """A design that makes something for every connection pays for that at least."""
    if case.contender.makes is None:
        return None
    limit, words = MADE[case.contender.makes]
    price = case.limits.figure(limit)
    if price is None:
        return None
    return Bound(price.value * NANOSECOND, limit, f"{words}: {price.value / 1e3:.3g} µs")


BOUNDS: Mapping[str, Callable[[_Case], Bound | None]] = {
    PAYLOAD_RATE: _payload,
    "connections_per_second": _connections,
    "requests_per_second": _requests,
    "latency_mean_seconds": _round_trip,
    "latency_p50_seconds": _round_trip,
    CPU_PER_CONNECTION: _server_cpu,
}
"""By metric. What is not here is not bounded by a limit that is measured."""
