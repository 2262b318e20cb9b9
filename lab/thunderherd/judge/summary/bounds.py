"""The best results of a run as shares of what the machine's limits allow.

A contender can only exceed its bound by doing less work than the bound assumes; METHODOLOGY.md says what each
assumes. If no limit bounds the metric that judges a table, or if a contender's work is unknown, the summary
says why there is no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from thunderherd.engine.line_base import Place
from thunderherd.labs import has_tcp
from thunderherd.metrics.table import PAYLOAD_RATE, SIDES, BoundRule
from thunderherd.metrics.table import metric as metric_named
from thunderherd.records.limits import NANOSECOND, BoundSummary, LimitFigure, MachineLimits, NoBoundSummary
from thunderherd.records.summary import PROCESS_CONTROL, ContenderSummary
from thunderherd.study.loading import Contender, Study
from thunderherd.study.resolved import PIPELINE

__all__ = ["best_of_bounds", "without_bounds"]

COPY, CONNECTION, TRANSFER, ROUND_TRIP = "memcpy", "tcp_connection", "tcp_transfer", "pipe_round_trip"
"""The limits that bound rates and round trips."""

RESTATED: tuple[BoundRule, ...] = ("request_time", "stream_round_trip")
"""The rules of metrics that restate a rate of the same table; only tables that they judge show them."""

CALL = "system_call"
"""The limit that each system call of a server costs at least."""

EXCHANGE, ACCEPTANCE = "tcp_exchange", "tcp_accept_close"
"""The limits that a TCP request and a TCP connection cost a server alone at least.

Each end does half of an exchange, since both do the same: receive a byte and send one.
"""

CALLS_OF_A_BARE_ONE = CALLS_OF_A_CONNECTION = 2
"""The system calls in each of these limits.

An exchange has one that receives and one that sends. A connection has accept and close, besides the calls
that receive and send over it.
"""

MADE = {
    "process": ("fork_exit_wait", "a process for every connection, forked, ended and waited for"),
    "thread": ("thread_creation", "a thread for every connection, created and joined"),
}
"""The limit that is the price of what a design creates for every connection, and words for it."""

PLACES: tuple[tuple[Place, str], ...] = (("one_cpu", "on one CPU"), ("two_cpus", "across two CPUs"))
"""The CPUs on which both ends of a round trip may run, and words for them."""


class Bound(NamedTuple):
    """The best possible value of a metric in its own unit, its limit, and how it follows."""

    value: float
    limit: str
    why: str


@dataclass(frozen=True)
class _Case:
    """A contender with its figures, the machine's limits, and the number of CPUs for both ends.

    Process control is that of `connections` connections.
    """

    contender: Contender
    figures: Mapping[str, float]
    limits: MachineLimits
    cpus: int
    connections: int

    @property
    def cpus_in_words(self) -> str:
        return f"on {self.cpus} CPUs" if self.cpus != 1 else "on one CPU"

    def is_at_least(self, name: str, least: float) -> bool:
        """Return whether a figure is known and not below `least`."""
        return self.figures.get(name, float("-inf")) >= least

    @property
    def has_one_request_at_a_time(self) -> bool:
        """True if a single client waits for each reply before its next request, and both ends sleep."""
        return self.contender.load.requests_at_once == 1 and not self.contender.spins


def best_of_bounds(
    study: Study,
    contenders: Iterable[ContenderSummary],
    limits: MachineLimits | None,
    cpus: Sequence[int],
) -> list[BoundSummary]:
    """Return, for each metric that is shown and each limit that bounds it, the best contender.

    `cpus` are those that this process may use; both ends of an unpinned contender share them.
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
    """Return the tables whose own metric has no bound, each with the reason.

    These are the main table and those of sweeps.
    """
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
    """Yield the contenders that have figures; none without limits."""
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
    """Return the metrics that a table shows, its own metric first.

    Other metrics that restate a rate are left out.
    """
    if sweep is None:
        return study.measure.metric, PROCESS_CONTROL
    first, *others = next(each.metrics for each in study.sweeps if each.name == sweep)
    return first, *(name for name in others if metric_named(name).bound not in RESTATED)


def _bound(case: _Case, name: str) -> Bound | str:
    """Return the bound of a contender's metric, or why it has none."""
    if name not in case.figures:
        return "there is no result"
    if name == PROCESS_CONTROL:
        return _process_control(case)
    rule = metric_named(name).bound
    return RULES[rule](case) if rule else "no measured limit bounds it"


def _cpus_of(contender: Contender, usable: Sequence[int]) -> int:
    """Return how many CPUs both ends may use together."""
    sides = (contender.lab.server_cpus, contender.lab.client_cpus)
    return len({cpu for side in sides for cpu in (usable if side is None else side)})


# One for each metric ----------------------------------------------------------------------------------------
# Each function returns the best possible value of its metrics, or why nothing bounds them.

NOT_MEASURED = "the machine's limits were not measured"
# Two segments, as for a request and its reply: a reply acknowledges its request (tcp(7)).
BYTE_CARRIED = "a byte over a bare connection, with its acknowledgement,"
NO_TCP = "the limits are of TCP, which its connections do not use"


def _unknown(limit: str, limits: MachineLimits) -> str:
    reasons = (each.reason for each in limits.unavailable if each.limit == limit)
    return f"the limit {limit} was not measured: {next(reasons, 'it was left out')}"


def _payload(case: _Case) -> Bound | str:
    """Return the smaller of two bounds: copying the payload, and making the requests that move it."""
    found = [each for each in (_by_copying(case), _by_requests(case)) if isinstance(each, Bound)]
    return min(found, key=lambda each: each.value) if found else _by_copying(case)


def _by_requests(case: _Case) -> Bound | str:
    """Return the bound by the highest rate of requests, each moving as much payload as in the trials."""
    rate, requests = (case.figures.get(name) for name in (PAYLOAD_RATE, "requests_per_second"))
    found = _requests(case)
    if isinstance(found, str):
        return found
    if not rate or not requests:
        return "the payload of a request was not counted"
    each = rate / requests
    return found._replace(
        value=found.value * each, why=f"{found.why}; each request moves {each / 8e-9:,.0f} bytes of payload"
    )


def _by_copying(case: _Case) -> Bound | str:
    """Return the bound by copying each byte on sending and receiving, in blocks as large as a send call's."""
    block, copies = _bytes_of_a_send(case), case.contender.copies
    if not copies:
        return "neither end copies the payload"
    if not block:
        return "the bytes of a send call were not counted"
    found = _around(case.limits.sizes(COPY), block)
    if found is None:
        return _unknown(COPY, case.limits)
    rate = found.value * case.cpus / copies
    times = "twice" if copies == 2 else "once"
    return Bound(
        8e-9 * rate,
        COPY,
        f"each byte is copied {times} {case.cpus_in_words}, in blocks of {found.bytes:,} bytes at "
        f"{found.value / 1e9:.3g} GB/s each",
    )


def _bytes_of_a_send(case: _Case) -> float | None:
    """Return the mean bytes per send call of the end that sends more; None if that was not counted."""
    sides = [(case.figures.get(f"{side}.bytes_sent", 0.0), side) for side in SIDES]
    sent, side = max(sides)
    calls = case.figures.get(f"{side}.send_calls", 0.0)
    return sent / calls if sent and calls else None


def _around(figures: Sequence[LimitFigure], size: float) -> LimitFigure | None:
    """Return the greater figure of the sizes next to `size`, below and above."""
    below = [each for each in figures if (each.bytes or 0) <= size][-1:]
    above = [each for each in figures if (each.bytes or 0) >= size][:1]
    return max([*below, *above], key=lambda each: each.value, default=None)


def _stream_round_trip(case: _Case) -> Bound | str:
    """Return the time that one client alone needs to move its payload, all of which is copied."""
    rate = case.figures.get(PAYLOAD_RATE)
    if case.contender.load.requests_at_once != 1:
        return "several requests are in progress at once"
    if not rate:
        return "its payload was not counted"
    found = _by_copying(case)
    if isinstance(found, str):
        return found
    return found._replace(value=case.figures["round_trip_microseconds"] * rate / found.value)


def _connections(case: _Case) -> Bound | str:
    """Return the bound by both ends' work to open, accept and close a connection, on all their CPUs."""
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
    if case.has_one_request_at_a_time:
        round_trip = _round_trip(case)
        return round_trip if isinstance(round_trip, str) else _inverse(round_trip)
    opened, requests = case.figures.get("connections"), case.figures.get("requests")
    if opened is not None and requests and opened >= requests:
        return _connections(case)
    # A call that gathers the messages of several requests needs fewer than two transfers per request.
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


def _request_time(case: _Case) -> Bound | str:
    """Return the time per request over all clients: the inverse of their rate."""
    found = _requests(case)
    return found if isinstance(found, str) else _inverse(found)


def _latency(case: _Case) -> Bound | str:
    """Return the bound of one request's latency.

    If both ends sleep while idle it is the round trip. Otherwise it is the time of a byte and its
    acknowledgement, since the steps of one request cannot overlap.
    """
    if case.has_one_request_at_a_time:
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
    """Return the fastest round trip to another process that sleeps meanwhile, on CPUs where both may run."""
    if case.contender.spins:
        return "an end busy-polls, and the limit is of ends that sleep"
    if not case.has_one_request_at_a_time:
        return (
            "several clients keep the server busy, so the work of both ends may overlap by an unknown amount"
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
        f"a byte there and back through pipes, {words}: {nanoseconds / 1e3:.3g} µs",
    )


def _server_cpu(case: _Case) -> Bound | str:
    """Return what a server's work for a connection costs, with what it creates for each."""
    served, made = _served(case), _made(case)
    if made is None or isinstance(made, str):
        return served
    if isinstance(served, str):
        return made
    return Bound(made.value + served.value, made.limit, f"{made.why}, and {served.why}")


def _served(case: _Case) -> Bound | str:
    """Return the cost of serving a connection with its requests."""
    opened, requests = case.figures.get("connections"), case.figures.get("requests")
    if not opened or not requests:
        return "no connection was opened in the window"
    return _work(case, requests / opened, connections=1)


def _work(case: _Case, requests: float, *, connections: int) -> Bound | str:
    """Return the least cost of a server's work for these requests and connections.

    Each costs at least what a bare one of a byte costs. Its other counted calls cost what an empty call
    costs.
    """
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
    total, reasons = 0.0, []
    for _, price, times, words in bare:
        # A server that makes no system call per operation does not pay for entering the kernel.
        each = max(0.0, price - CALLS_OF_A_BARE_ONE * empty.value) if isinstance(counted, str) else price
        calls = max(0.0, calls - CALLS_OF_A_BARE_ONE * times)
        total += each * times
        reasons.append(f"{words}, {each / 1e3:.3g} µs" + ("" if times == 1 else f", {_amount(times)} times"))
    if calls:
        what = (
            "calls (accept, receive, send, close)" if not bare else f"other call{'' if calls == 1 else 's'}"
        )
        reasons.append(f"{_amount(calls)} {what}, each at {empty.value:.3g} ns, the price of an empty call")
    limit = bare[0][0] if bare else CALL
    return Bound((total + calls * empty.value) * NANOSECOND, limit, "; ".join(reasons))


def _amount(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def _exchange(case: _Case) -> LimitFigure | None:
    """Return the price of a request with its reply.

    None without TCP, or if a call may serve several requests.
    """
    of_each = all(
        case.is_at_least(f"server.{name}_per_request", 1.0) for name in ("send_calls", "receive_calls")
    )
    pipelined = int(case.contender.load.settings.get(PIPELINE, 1)) > 1
    if pipelined or not of_each or not has_tcp(case.contender.lab.kind):
        return None
    return case.limits.figure(EXCHANGE)


def _counted_calls(case: _Case) -> float | str:
    """Return the system calls that receive and send a request, or why they are unknown."""
    if not case.contender.calls:
        return "its server makes no system call for each operation, but waits for completions"
    counted = [case.figures.get(f"server.{name}_per_request") for name in ("send_calls", "receive_calls")]
    known = [each for each in counted if each is not None]
    return sum(known) if len(known) == len(counted) else "its system calls were not counted"


def _server_cpu_per_request(case: _Case) -> Bound | str:
    """Return the bound per request; over persistent connections, only a request's own work."""
    if opened := case.figures.get("connections"):
        found, share = _server_cpu(case), opened / (case.figures.get("requests") or opened)
        if isinstance(found, str):
            return found
        part = "" if share == 1 else f"; times {share:.3g} connections a request"
        return found._replace(value=found.value * share, why=f"{found.why}{part}")
    return _work(case, 1, connections=0)


def _made(case: _Case) -> Bound | str | None:
    """Return the price of what a design creates per connection; None if it creates nothing."""
    if case.contender.makes is None:
        return None
    limit, words = MADE[case.contender.makes]
    price = case.limits.figure(limit)
    if price is None:
        return _unknown(limit, case.limits)
    return Bound(price.value * NANOSECOND, limit, f"{words}: {price.value / 1e3:.3g} µs")


def _process_control(case: _Case) -> Bound | str:
    """Return the price of what it creates, assuming that the rest costs what it costs the baseline."""
    made = _made(case)
    if made is None:
        return "it creates nothing for a connection, so it may cost as little as the baseline"
    if isinstance(made, str):
        return made
    why = f"{made.why}; if all else costs as much as for the baseline"
    return made._replace(value=made.value * case.connections, why=why)


def _task_clock(case: _Case) -> Bound | str:
    """Return the bound of all connections, without what is created for each.

    perf does not count what a task does while it ends.
    """
    served, opened = _served(case), case.figures.get("connections")
    if isinstance(served, str) or not opened:
        return served
    words = f"{served.why}; for {opened:,.0f} connection{'' if opened == 1 else 's'}"
    if case.contender.trial == "whole_life":
        words += "; its start, its end and its computing are not priced"
    return served._replace(value=served.value * opened, why=words)


RULES: Mapping[BoundRule, Callable[[_Case], Bound | str]] = {
    "payload": _payload,
    "connection_rate": _connections,
    "request_rate": _requests,
    "request_time": _request_time,
    "stream_round_trip": _stream_round_trip,
    "latency": _latency,
    "server_cpu_per_connection": _server_cpu,
    "server_cpu_per_request": _server_cpu_per_request,
    "task_clock": _task_clock,
}
"""The function of each rule in the table of metrics, which finds the bound of a contender."""
