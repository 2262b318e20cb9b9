"""The best results of a run as shares of what the machine's limits allow at most.

Each bound is one that cannot be passed but by doing less than it says: METHODOLOGY.md has them in words.
Where no limit bounds what a table is judged by, or it is not known how a contender stands to it, there is
none, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from thunderherd.engine.line_base import Place
from thunderherd.labs import has_tcp
from thunderherd.metrics.table import CPU_PER_CONNECTION, PAYLOAD_RATE, PERCENTILES, SIDES, TASK_CLOCK
from thunderherd.metrics.table import metric as metric_named
from thunderherd.records.limits import NANOSECOND, BoundSummary, LimitFigure, MachineLimits, NoBoundSummary
from thunderherd.records.summary import PROCESS_CONTROL, ContenderSummary
from thunderherd.study.loading import Contender, Study
from thunderherd.study.resolved import PIPELINE

__all__ = ["best_of_bounds", "without_bounds"]

COPY, CONNECTION, TRANSFER, ROUND_TRIP = "memcpy", "tcp_connection", "tcp_transfer", "pipe_round_trip"
"""The limits that rates and round trips are held against."""

SAME = ("duration_per_message", "round_trip_microseconds")
"""Metrics that are bounded as rates are that stand beside them."""

CALL = "system_call"
"""The limit that is the least which each system call of a server costs it."""

EXCHANGE, ACCEPTANCE = "tcp_exchange", "tcp_accept_close"
"""The limits that are the least which a request and a connection of TCP cost a server alone. Of an exchange
each end has half, as both do the same in it: receive a byte and send one."""

CALLS_OF_A_BARE_ONE = CALLS_OF_A_CONNECTION = 2
"""System calls that are in each of these: one that receives and one that sends; accept and close, which a
server makes for every connection besides those by which it receives and sends."""

MADE = {
    "process": ("fork_exit_wait", "a process for every connection, forked, ended and waited for"),
    "thread": ("thread_creation", "a thread for every connection, made and joined"),
}
"""By what a design makes for every connection: the limit that is its price, and that in words."""

PLACES: tuple[tuple[Place, str], ...] = (("one_cpu", "on one CPU"), ("two_cpus", "across two CPUs"))
"""Where both ends of a round trip may be, and that in words."""


class Bound(NamedTuple):
    """The best that a metric may be, in its own unit; the limit that it follows from, and how."""

    value: float
    limit: str
    why: str


@dataclass(frozen=True)
class _Case:
    """A contender and its figures, on a machine with these limits and so many CPUs for both of its ends;
    process control is that of so many connections."""

    contender: Contender
    figures: Mapping[str, float]
    limits: MachineLimits
    cpus: int
    connections: int

    @property
    def cpus_in_words(self) -> str:
        return f"on {self.cpus} CPUs" if self.cpus != 1 else "on one CPU"

    def is_at_least(self, name: str, least: float) -> bool:
        """Whether a figure is known and no less."""
        return self.figures.get(name, float("-inf")) >= least

    @property
    def is_asked_in_turn(self) -> bool:
        """Whether one client alone waits for each reply before it sends another request, and both ends sleep
        until there is something to do."""
        return self.contender.load.requests_at_once == 1 and not self.contender.spins


def best_of_bounds(
    study: Study,
    contenders: Iterable[ContenderSummary],
    limits: MachineLimits | None,
    cpus: Sequence[int],
) -> list[BoundSummary]:
    """Of each metric that is shown and each limit that bounds it: the contender with the best result.

    `cpus` are those that this process may use, which both ends of a contender share that is not pinned.
    """
    best: dict[tuple[str | None, str, str], BoundSummary] = {}
    for case, summary in _cases(study, contenders, limits, cpus):
        for name in _shown(study, summary.sweep):
            bound = _bound(case, name)
            if isinstance(bound, str) or bound.value <= 0 or case.figures[name] <= 0:
                continue
            value, more = case.figures[name], name != PROCESS_CONTROL and metric_named(name).better == "more"
            found = BoundSummary(
                metric=name,
                sweep=summary.sweep,
                contender=summary.name,
                value=value,
                bound=bound.value,
                share=value / bound.value if more else bound.value / value,
                limit=bound.limit,
                why=bound.why,
            )
            key = (summary.sweep, name, bound.limit)
            other = best.get(key)
            if other is None or (found.value > other.value) == more:
                best[key] = found
    return list(best.values())


def without_bounds(
    study: Study,
    contenders: Iterable[ContenderSummary],
    limits: MachineLimits | None,
    cpus: Sequence[int],
) -> list[NoBoundSummary]:
    """Of each table, the main one and those of sweeps, whose own metric has no bound: why."""
    judged: dict[str | None, str] = {None: study.measure.metric} if study.main else {}
    judged |= {sweep.name: sweep.metric for sweep in study.sweeps}
    bounded: set[str | None] = set()
    reasons: dict[str | None, str] = {}
    for case, summary in _cases(study, contenders, limits, cpus):
        if (metric := judged.get(summary.sweep)) is None:
            continue
        found = _bound(case, metric)
        if isinstance(found, str):
            reasons.setdefault(summary.sweep, found)
        elif found.value > 0 and case.figures[metric] > 0:
            bounded.add(summary.sweep)
    missing = "there is no result" if limits is not None else NOT_MEASURED
    return [
        NoBoundSummary(metric=metric, sweep=sweep, why=reasons.get(sweep, missing))
        for sweep, metric in judged.items()
        if sweep not in bounded
    ]


def _cases(
    study: Study, contenders: Iterable[ContenderSummary], limits: MachineLimits | None, cpus: Sequence[int]
) -> Iterator[tuple[_Case, ContenderSummary]]:
    """The contenders that have figures; none without limits."""
    for summary in contenders if limits is not None else ():
        figures = {name: interval.value for name, interval in summary.metrics.items()}
        control = summary.process_control_seconds
        if control is not None and summary.name != study.measure.baseline and summary.sweep is None:
            figures[PROCESS_CONTROL] = control.value
        contender = study.contender(summary.name)
        if figures and limits is not None:
            of_each = _cpus_of(contender, cpus)
            yield _Case(contender, figures, limits, of_each, study.measure.normalise_connections), summary


def _shown(study: Study, sweep: str | None) -> tuple[str, ...]:
    """The metrics of a table, the one that it is judged by first; others that only say the same in another
    way are left out."""
    if sweep is None:
        return study.measure.metric, PROCESS_CONTROL
    first, *others = next(each.metrics for each in study.sweeps if each.name == sweep)
    return first, *(name for name in others if name not in SAME)


def _bound(case: _Case, name: str) -> Bound | str:
    """That of a metric of a contender, or why it has none."""
    if name not in case.figures:
        return "there is no result"
    if name in BOUNDS:
        return BOUNDS[name](case)
    return "no limit that is measured bounds it: they are times of bare operations, and rates of copying"


def _cpus_of(contender: Contender, usable: Sequence[int]) -> int:
    """How many CPUs both ends may use together."""
    sides = (contender.lab.server_cpus, contender.lab.client_cpus)
    return len({cpu for side in sides for cpu in (usable if side is None else side)})


# One for each metric ----------------------------------------------------------------------------------------
# Each says what the best is that the metric may be, or why nothing bounds it.

NOT_MEASURED = "the machine's limits were not measured"
# Two segments, as a request and its reply have: a reply acknowledges what it answers (tcp(7)).
BYTE_CARRIED = "a byte through a bare connection, with its acknowledgement,"
NO_TCP = "the limits are those of TCP, and its sockets are none"


def _unknown(limit: str, limits: MachineLimits) -> str:
    reasons = (each.reason for each in limits.unavailable if each.limit == limit)
    return f"the limit {limit} was not measured: {next(reasons, 'it was left out')}"


def _payload(case: _Case) -> Bound | str:
    """What copies it, or what asks for it, whichever allows less."""
    found = [each for each in (_copied(case), _asked_for(case)) if isinstance(each, Bound)]
    return min(found, key=lambda each: each.value) if found else _copied(case)


def _asked_for(case: _Case) -> Bound | str:
    """As many requests as there can be, each of which brings as much as those that were made."""
    rate, requests = (case.figures.get(name) for name in (PAYLOAD_RATE, "requests_per_second"))
    found = _requests(case)
    if isinstance(found, str):
        return found
    if not rate or not requests:
        return "what a request brings was not counted"
    each = rate / requests
    return found._replace(
        value=found.value * each, why=f"{found.why}, and brings {each / 8e-9:,.0f} bytes of payload"
    )


def _copied(case: _Case) -> Bound | str:
    """Every byte is copied where it is sent and where it is received, in blocks as large as a send call's."""
    block, copies = _bytes_of_a_send(case), case.contender.copies
    if not copies:
        return "neither end copies what is moved"
    if not block:
        return "how much a send call carries was not counted"
    found = _around(case.limits.sizes(COPY), block)
    if found is None:
        return _unknown(COPY, case.limits)
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


def _round_trip_of_a_stream(case: _Case) -> Bound | str:
    """How long it takes one client alone to move what it counts as payload, all of which is copied."""
    rate = case.figures.get(PAYLOAD_RATE)
    if case.contender.load.requests_at_once != 1:
        return "several requests are under way at the same time"
    if not rate:
        return "what it moved was not counted"
    found = _copied(case)
    if isinstance(found, str):
        return found
    return found._replace(value=case.figures["round_trip_microseconds"] * rate / found.value)


def _connections(case: _Case) -> Bound | str:
    """Both sides' work of a connection that is made, accepted and closed, on all CPUs that they have."""
    price = case.limits.figure(CONNECTION)
    if not has_tcp(case.contender.lab.kind):
        return NO_TCP
    if price is None:
        return _unknown(CONNECTION, case.limits)
    rate = case.cpus / (price.value * NANOSECOND)
    return Bound(
        rate, CONNECTION, f"a bare connection takes {price.value / 1e3:.3g} µs of a CPU, {case.cpus_in_words}"
    )


def _requests(case: _Case) -> Bound | str:
    if case.is_asked_in_turn:
        round_trip = _round_trip(case)
        return round_trip if isinstance(round_trip, str) else _inverse(round_trip)
    opened, requests = case.figures.get("connections"), case.figures.get("requests")
    if opened is not None and requests and opened >= requests:
        return _connections(case)
    # What gathers the messages of several requests in a call needs fewer transfers than two a request.
    price = case.limits.figure(TRANSFER, bytes=1)
    each_sends = all(case.is_at_least(f"{side}.send_calls_per_request", 1.0) for side in SIDES)
    if not has_tcp(case.contender.lab.kind):
        return NO_TCP
    if not each_sends:
        return "a send call may carry several requests, or was not counted"
    if price is None:
        return _unknown(TRANSFER, case.limits)
    return Bound(
        case.cpus / (price.value * NANOSECOND),
        TRANSFER,
        f"{BYTE_CARRIED} takes {price.value / 1e3:.3g} µs of a CPU, {case.cpus_in_words}",
    )


def _inverse(bound: Bound) -> Bound:
    return bound._replace(value=1 / bound.value)


def _time_per_request(case: _Case) -> Bound | str:
    """Of all clients together: what is left of a second for each request."""
    found = _requests(case)
    return found if isinstance(found, str) else _inverse(found)


def _latency(case: _Case) -> Bound | str:
    """Of one request: the round trip of two ends that sleep meanwhile, where they do; else what carries a
    byte and its acknowledgement, since of one request nothing is done before what comes first in it."""
    if case.is_asked_in_turn:
        return _round_trip(case)
    price = case.limits.figure(TRANSFER, bytes=1)
    if not has_tcp(case.contender.lab.kind):
        return NO_TCP
    if not all(case.is_at_least(f"{side}.send_calls_per_request", 1.0) for side in SIDES):
        return "a send call may carry several requests, or was not counted"
    if price is None:
        return _unknown(TRANSFER, case.limits)
    return Bound(price.value * NANOSECOND, TRANSFER, f"{BYTE_CARRIED} takes {price.value / 1e3:.3g} µs")


def _round_trip(case: _Case) -> Bound | str:
    """The cheapest way to another process and back that sleeps meanwhile, where both may be."""
    if case.contender.spins:
        return "an end never sleeps, and the limits are those of ends that do"
    if not case.is_asked_in_turn:
        return (
            "several clients keep a server awake, and how much of both ends' work is done at the same time "
            "is not known"
        )
    server, clients = case.contender.lab.server_cpus, case.contender.lab.client_cpus
    apart = server is not None and clients is not None and not set(server) & set(clients)
    places = [
        (found.value, words)
        for place, words in PLACES
        if not (apart and place == "one_cpu") and not (case.cpus == 1 and place == "two_cpus")
        if (found := case.limits.figure(ROUND_TRIP, place))
    ]
    if not places:
        return _unknown(ROUND_TRIP, case.limits)
    nanoseconds, words = min(places)
    return Bound(
        nanoseconds * NANOSECOND,
        ROUND_TRIP,
        f"a byte there and back by pipes, {words}: {nanoseconds / 1e3:.3g} µs",
    )


def _server_cpu(case: _Case) -> Bound | str:
    """What its server does for a connection, and what it made for every connection."""
    served, made = _served(case), _made(case)
    if made is None or isinstance(made, str):
        return served
    if isinstance(served, str):
        return made
    return Bound(made.value + served.value, made.limit, f"{made.why}, and {served.why}")


def _served(case: _Case) -> Bound | str:
    """Of a connection with its requests."""
    opened, requests = case.figures.get("connections"), case.figures.get("requests")
    if not opened or not requests:
        return "no connection was opened in the window"
    return _work(case, requests / opened, connections=1)


def _work(case: _Case, requests: float, *, connections: int) -> Bound | str:
    """What its server does for so many requests and connections, each of which costs at least what a bare one
    of a byte does; its other calls, as counted, at the price of an empty one."""
    counted, empty, bare = _counted_calls(case), case.limits.figure(CALL), []
    if exchange := _exchange(case):
        bare.append(
            (EXCHANGE, exchange.value / 2, requests, "a byte received and one sent by a bare connection")
        )
    if isinstance(counted, str) and not bare:
        return counted
    if empty is None:
        return _unknown(CALL, case.limits)
    acceptance = case.limits.figure(ACCEPTANCE) if has_tcp(case.contender.lab.kind) else None
    if connections and acceptance is not None:
        bare.append((ACCEPTANCE, acceptance.value, connections, "a bare connection accepted and closed"))
    calls = 0.0 if isinstance(counted, str) else counted * requests + CALLS_OF_A_CONNECTION * connections
    total, said = 0.0, []
    for _, price, times, words in bare:
        # A server whose kernel works without a call for each does not pay for its entry.
        each = max(0.0, price - CALLS_OF_A_BARE_ONE * empty.value) if isinstance(counted, str) else price
        calls = max(0.0, calls - CALLS_OF_A_BARE_ONE * times)
        total += each * times
        said.append(f"{words}, {each / 1e3:.3g} µs" + ("" if times == 1 else f", {_amount(times)} times"))
    if calls:
        what = (
            "calls (accept, receive, send, close)" if not bare else f"other call{'' if calls == 1 else 's'}"
        )
        said.append(f"its {_amount(calls)} {what}, each at the {empty.value:.3g} ns of an empty one")
    limit = bare[0][0] if bare else CALL
    return Bound((total + calls * empty.value) * NANOSECOND, limit, "; ".join(said))


def _amount(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def _exchange(case: _Case) -> LimitFigure | None:
    """The price of a request with its reply, where its server receives and sends for each request anew: not
    where several may come and go in a call, and not without TCP."""
    of_each = all(
        case.is_at_least(f"server.{name}_per_request", 1.0) for name in ("send_calls", "receive_calls")
    )
    pipelined = int(case.contender.load.settings.get(PIPELINE, 1)) > 1
    if pipelined or not of_each or not has_tcp(case.contender.lab.kind):
        return None
    return case.limits.figure(EXCHANGE)


def _counted_calls(case: _Case) -> float | str:
    """Those by which its server receives and sends a request, or why they are not known."""
    if not case.contender.calls:
        return "its server waits for completions, and has the kernel work without a system call for each"
    counted = [case.figures.get(f"server.{name}_per_request") for name in ("send_calls", "receive_calls")]
    known = [each for each in counted if each is not None]
    return sum(known) if len(known) == len(counted) else "its system calls were not counted"


def _server_cpu_per_request(case: _Case) -> Bound | str:
    """The same for a request; over connections that are kept only what is its own."""
    if opened := case.figures.get("connections"):
        found, share = _server_cpu(case), opened / (case.figures.get("requests") or opened)
        if isinstance(found, str):
            return found
        part = "" if share == 1 else f"; a request is {share:.3g} of a connection"
        return found._replace(value=found.value * share, why=f"{found.why}{part}")
    return _work(case, 1, connections=0)


def _made(case: _Case) -> Bound | str | None:
    """What a design makes for every connection; None: nothing."""
    if case.contender.makes is None:
        return None
    limit, words = MADE[case.contender.makes]
    price = case.limits.figure(limit)
    if price is None:
        return _unknown(limit, case.limits)
    return Bound(price.value * NANOSECOND, limit, f"{words}: {price.value / 1e3:.3g} µs")


def _process_control(case: _Case) -> Bound | str:
    """What it makes, as all else is taken to cost what it costs the baseline."""
    made = _made(case)
    if made is None:
        return "it makes nothing for a connection, and need not cost more than the baseline"
    if isinstance(made, str):
        return made
    why = f"{made.why}; as far as all else costs what it costs the baseline"
    return made._replace(value=made.value * case.connections, why=why)


def _task_clock(case: _Case) -> Bound | str:
    """Of all connections. What is made for each is no part of it: perf misses what a task does as it ends."""
    served, opened = _served(case), case.figures.get("connections")
    if isinstance(served, str) or not opened:
        return served
    words = f"{served.why}; of {opened:,.0f} connection{'' if opened == 1 else 's'}"
    if case.contender.trial == "whole_life":
        words += "; its start, its end and what it computes have no price"
    return served._replace(value=served.value * opened, why=words)


TIMES_OF_A_REQUEST = ("latency", "service_time")
FIGURES_OF_A_TIME = ("mean", *PERCENTILES, "maximum")

BOUNDS: Mapping[str, Callable[[_Case], Bound | str]] = {
    PAYLOAD_RATE: _payload,
    "connections_per_second": _connections,
    "requests_per_second": _requests,
    "duration_per_message": _time_per_request,
    "round_trip_microseconds": _round_trip_of_a_stream,
    **{f"{what}_{figure}_seconds": _latency for what in TIMES_OF_A_REQUEST for figure in FIGURES_OF_A_TIME},
    CPU_PER_CONNECTION: _server_cpu,
    "server_cpu_per_request": _server_cpu_per_request,
    PROCESS_CONTROL: _process_control,
    f"server.{TASK_CLOCK}": _task_clock,
}
"""By metric. What is not here is not bounded by a limit that is measured."""
