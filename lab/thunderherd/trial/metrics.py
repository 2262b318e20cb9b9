"""Computes one number per metric from the observations of a trial.

A metric with a fixed name is either a figure of a workload, as its declaration says, or computed by the table
`COMPUTED`. A test checks that `metrics` and this table agree.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hdrh.histogram import HdrHistogram

from thunderherd.engine.line_base import (
    LAST,
    PAYLOAD_BEGAN,
    PAYLOAD_BYTES,
    PAYLOAD_ENDED,
    PAYLOAD_NANOSECONDS,
    REQUESTS,
    Counters,
)
from thunderherd.engine.lines import LoadResult, Scheduled, Snapshot, Tally, Times, Validity
from thunderherd.metrics.table import (
    BOTH,
    CONNECTING,
    ELAPSED,
    LATENCY,
    METRICS,
    NANOSECONDS,
    OF_BOTH,
    PER_BYTE,
    PER_REQUEST,
    PER_SECOND,
    PERCENTILES,
    RATIOS,
    TASK_CLOCK,
    TIMES,
    UNITS_OF_TIME,
    rates_of,
)
from thunderherd.records.summary import TrialMetrics
from thunderherd.statistics.histograms import maximum_ns, merged, percentile_ns

Number = int | float


@dataclass(frozen=True)
class Flow:
    """The flow of one direction per second of the window: gigabits as counted by the receiver, and the calls
    of each end."""

    gigabits: float | None
    sends: float | None
    receives: float | None
    to_server: bool


class UsedFor(NamedTuple):
    """CPU time in seconds and the work it paid for: requests, and bytes if these are counted as they pass."""

    seconds: float
    requests: int
    moved: int | None


@dataclass(frozen=True)
class MeasuredWindow:
    """The inputs of metrics with a fixed name: of the window if the trial has one, otherwise of the whole
    lives.

    Times are in seconds.
    """

    work: Tally
    """The server's tally."""
    server_seconds: float
    served: Tally
    """The work that the server's CPU time paid for."""
    client_seconds: float
    machine_seconds: float
    load_requests: int
    """Requests of the whole load."""
    answered: int
    """Requests that were answered in the window."""
    counts_requests: bool
    """False for a load generator that is not ours and reports no requests."""
    opened: int
    """Connections that were opened in the window."""
    elapsed_seconds: float
    times: Mapping[str, Sequence[Times | None]]
    """The times of requests (`metrics.TIMES`), of each load process."""
    schedules: Sequence[Scheduled]
    """The schedules of load processes that are open loops."""
    validities: Sequence[Validity]
    """The checks of load processes with an event loop and a window."""
    figures: Mapping[str, int]
    """The workload's own figures, of all load processes together."""
    replied: int
    """Bytes that the clients received, over the whole load."""
    sent: int
    """Bytes that the clients sent, over the whole load."""
    flow: Flow | None
    """The flow of a load whose bytes are counted in the window."""
    rate_gigabits: float | None
    """The capacity of the link in gigabits per second, if the lab limits it."""
    queueing_bound: float | None
    switches_per_connection: float | None
    listener_holders: int | None
    workers: Sequence[int] | None
    """Connections of each worker of the pool."""
    listen_drops: int

    @property
    def of_server(self) -> UsedFor:
        """The server's CPU time and the work it paid for."""
        return UsedFor(self.server_seconds, self.served.requests, self.through_server(self.served))

    @property
    def of_clients(self) -> UsedFor:
        """The clients' CPU time and the work it paid for."""
        return self._for_clients(self.client_seconds)

    @property
    def of_machine(self) -> UsedFor:
        """CPU time of the whole machine and the work it paid for."""
        return self._for_clients(self.machine_seconds)

    def _for_clients(self, seconds: float) -> UsedFor:
        return UsedFor(seconds, self.load_requests, self.through_clients)

    def through_server(self, work: Tally) -> int | None:
        """Return the bytes in the measured direction by the server's count; None if requests are measured."""
        if self.flow is None:
            return None
        return work.bytes_received if self.flow.to_server else work.bytes_sent

    @property
    def through_clients(self) -> int | None:
        """Bytes that passed the clients over the whole load; None if requests are measured."""
        if self.flow is None:
            return None
        return self.sent if self.flow.to_server else self.replied

    @property
    def requests_per_second(self) -> float | None:
        """Replies per second of the measured time; None if no time passed, or if only bytes were counted."""
        return share(self.counted_requests, self.elapsed_seconds)

    @property
    def counted_requests(self) -> int | None:
        """Requests that were answered in the window; None if nobody counts them."""
        return self.answered if self.counts_requests else None

    def gigabits_per_second(self) -> float | None:
        """Return the payload rate: the receiver's bytes in the window, or payload by its own time."""
        if self.flow is not None:
            return self.flow.gigabits
        payload = self.figures.get(PAYLOAD_BYTES)
        return None if payload is None else share(payload * 8e-9, self.payload_seconds())

    def payload_seconds(self) -> float:
        """Return how long the payload took.

        This is the sum over its requests, but at most the time from the first request's start to the last
        one's end: several clients have requests in flight at the same time. If the workload reports no time
        of its own, the time in which requests were counted.
        """
        together = self.figures.get(PAYLOAD_NANOSECONDS)
        if not together:
            return self.elapsed_seconds
        began, ended = self.figures.get(PAYLOAD_BEGAN), self.figures.get(PAYLOAD_ENDED)
        return (together if began is None or ended is None else min(together, ended - began)) / 1e9

    def bytes_per_request(self) -> float | None:
        """Return the payload of the mean request; None if there was none.

        Of the requests that the workload counts, else the bytes of all replies of the load.
        """
        if PAYLOAD_BYTES in self.figures:
            return share(self.figures[PAYLOAD_BYTES] or None, self.answered)
        return share(self.replied or None, self.load_requests)

    def cpu_per_byte(self, *parts: UsedFor) -> float | None:
        """Return the sum of CPU times per byte.

        Each is divided by the bytes that passed meanwhile if these are counted, else by its own requests.
        """
        if self.flow is not None:
            return total(share(each.seconds, each.moved or 0) for each in parts)
        per_request = total(share(each.seconds, each.requests) for each in parts)
        return share(per_request, self.bytes_per_request() or 0)

    def figure_per_request(self, name: str, unit: str) -> float | None:
        """Return a workload's own figure for the mean request; a time (its name ends in _ns) in this unit."""
        mean = share(self.figures.get(name), self.figures.get(REQUESTS, 0))
        return mean if mean is None or not name.endswith("_ns") else mean / 1e9 * UNITS_OF_TIME[unit]

    def mean_time(self, what: str) -> float | None:
        """Return the mean over all load processes; None if one did not report it."""
        known = self._known(what)
        spent = [None if each.mean_ns is None else each.mean_ns * each.requests for each in known]
        return share(total(spent), sum(each.requests for each in known) * 1e9) if known else None

    def percentile_of_time(self, what: str, name: str) -> float | None:
        """Return a percentile of the summed histograms; None if a load process has no histogram."""
        quantile = float(f"0.{name[1:]}")
        return self._of_histograms(what, f"{name}_ns", lambda histogram: percentile_ns(histogram, quantile))

    def _of_histograms(
        self, what: str, field: str, read: Callable[[HdrHistogram], int | None]
    ) -> float | None:
        """Return a figure as a single load process reports it, or from the merged histograms of several."""
        known = self._known(what)
        if len(known) == 1:
            return share(getattr(known[0], field), 1e9)
        histograms = [each.histogram for each in known if each.histogram is not None]
        if not histograms or len(histograms) < len(known):
            return None
        return share(read(merged(histograms)), 1e9)

    def longest_time(self, what: str) -> float | None:
        """Return the longest time; of several load processes as `percentile_of_time`."""
        return self._of_histograms(what, "maximum_ns", maximum_ns)

    def _known(self, what: str) -> list[Times]:
        """Return the times of each load process; empty if one did not measure them."""
        known = [each for each in self.times[what] if each is not None]
        return known if len(known) == len(self.times[what]) else []

    def offered(self) -> float | None:
        """Return scheduled requests per second; None if no load is an open loop."""
        return float(sum(each.offered_per_second for each in self.schedules)) if self.schedules else None

    def of_schedules(self, *names: str) -> float | None:
        """Return a sum of counts over all open loops; None if there is none."""
        if not self.schedules:
            return None
        return float(sum(getattr(each, name) for each in self.schedules for name in names))

    def share_of_offered(self) -> float | None:
        """Return replies in the window ÷ requests due in it; None if no load is an open loop."""
        return share(float(self.answered), self.of_schedules("due") or 0) if self.schedules else None

    def in_system(self) -> float | None:
        """Return the mean number of requests in flight in the window, over all load processes."""
        seen = [each.in_system for each in self.validities if each.in_system is not None]
        return sum(seen) if seen else None

    def generator_share(self) -> float | None:
        """Return the CPU time of the busiest client thread ÷ the length of the window."""
        threads = [each for validity in self.validities for each in validity.generators if each.elapsed_ns]
        return max((each.cpu_ns / each.elapsed_ns for each in threads), default=None)

    def metrics(self) -> TrialMetrics:
        """Return one number for each metric with a fixed name."""
        return {
            name: self.figure_per_request(each.figure, each.unit) if each.figure else COMPUTED[name](self)
            for name, each in METRICS.items()
        }


Computed = Callable[[MeasuredWindow], Number | None]


def _computed_times(what: str) -> dict[str, Computed]:
    def percentile(name: str) -> Computed:
        return lambda trial: trial.percentile_of_time(what, name)

    return {
        "mean": lambda trial: trial.mean_time(what),
        **{name: percentile(name) for name in PERCENTILES},
        "maximum": lambda trial: trial.longest_time(what),
    }


COMPUTED: Mapping[str, Computed] = {
    "connections": lambda trial: trial.opened,
    "requests": lambda trial: trial.counted_requests,
    "server_cpu_seconds": lambda trial: trial.server_seconds,
    "server_cpu_per_connection": lambda trial: share(trial.server_seconds, trial.served.connections),
    "server_cpu_per_request": lambda trial: share(trial.server_seconds, trial.served.requests),
    "client_cpu_seconds": lambda trial: trial.client_seconds,
    "client_cpu_per_request": lambda trial: share(trial.client_seconds, trial.load_requests),
    "machine_cpu_seconds": lambda trial: trial.machine_seconds,
    "machine_cpu_per_request": lambda trial: share(trial.machine_seconds, trial.load_requests),
    "server_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_server),
    "client_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_clients),
    "cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_server, trial.of_clients),
    "machine_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_machine),
    "elapsed_seconds": lambda trial: trial.elapsed_seconds,
    "connections_per_second": lambda trial: share(trial.opened or None, trial.elapsed_seconds),
    "requests_per_second": lambda trial: trial.requests_per_second,
    "gigabits_per_second": MeasuredWindow.gigabits_per_second,
    "share_of_rate": lambda trial: share(trial.gigabits_per_second(), trial.rate_gigabits or 0),
    # A metric of a block, not of a trial: `ceilings` adds it.
    "share_of_ceiling": lambda trial: None,
    "sends_per_second": lambda trial: trial.flow.sends if trial.flow else None,
    "receives_per_second": lambda trial: trial.flow.receives if trial.flow else None,
    "queueing_bound": lambda trial: trial.queueing_bound,
    "share_of_queueing_bound": lambda trial: share(trial.requests_per_second, trial.queueing_bound or 0),
    **{
        f"{what}_{part}_seconds": computed
        for what in TIMES
        for part, computed in _computed_times(what).items()
    },
    "offered_per_second": MeasuredWindow.offered,
    "share_of_offered": MeasuredWindow.share_of_offered,
    "waited_share": lambda trial: share(trial.of_schedules("waited"), trial.of_schedules("sent") or 0),
    "never_sent": lambda trial: trial.of_schedules("never_sent"),
    "in_system": MeasuredWindow.in_system,
    "generator_share": MeasuredWindow.generator_share,
    "duration_per_message": lambda trial: share(trial.elapsed_seconds, trial.answered),
    "voluntary_switches_per_connection": lambda trial: trial.switches_per_connection,
    "empty_wakeups_per_connection": lambda trial: share(trial.work.empty_wakeups, trial.work.connections),
    "listener_holders": lambda trial: trial.listener_holders,
    "clients_per_worker_sd": lambda trial: statistics.pstdev(trial.workers) if trial.workers else None,
    "clients_per_worker_min": lambda trial: min(trial.workers) if trial.workers else None,
    "clients_per_worker_max": lambda trial: max(trial.workers) if trial.workers else None,
    "listen_drops": lambda trial: trial.listen_drops,
}
"""Metric → its computation, unless it is a workload's own figure."""


def figures_of(loads: Sequence[LoadResult]) -> dict[str, int]:
    """Return the workload's own figures, of all load processes together.

    Counts are added. The payload lasts from the first start to the last end, and the last request is that of
    the last process.
    """
    of_each: dict[str, list[int]] = {}
    for load in loads:
        for name, amount in load.figures.items():
            of_each.setdefault(name, []).append(amount)
    return {
        name: amounts[-1] if name.startswith(LAST) else JOINED.get(name, sum)(amounts)
        for name, amounts in of_each.items()
    }


JOINED: Mapping[str, Callable[[Iterable[int]], int]] = {PAYLOAD_BEGAN: min, PAYLOAD_ENDED: max}
"""Figure → how to combine it over several processes, if it must not be added."""


def flow_of(loads: Sequence[LoadResult], before: Snapshot | None, after: Snapshot | None) -> Flow | None:
    """Return the flow of loads whose bytes are counted in the window; None for other loads.

    The server's part is timed by its snapshots at the edges, the clients' part by their own readings. A load
    generator that is not ours reports bytes and time of its whole run.
    """
    if loads and all(load.measured_by != "requests" and not load.primitive for load in loads):
        return _flow_of_others(loads)
    windows = [load.window for load in loads if load.window and load.measured_by != "requests"]
    counted = [window.counted for window in windows if window.counted]
    if not counted or len(counted) < len(loads):
        return None

    def of_server(name: str) -> float | None:
        if before is None or after is None or before.tally is None or after.tally is None:
            return None
        more = getattr(after.tally, name) - getattr(before.tally, name)
        return share(more * 1e9, after.monotonic_ns - before.monotonic_ns)

    def of_clients(name: str) -> float | None:
        return total(share(getattr(each, name) * 1e9, each.elapsed_ns) for each in counted)

    to_server = loads[0].measured_by == "bytes_to_server"
    sender, receiver = (of_clients, of_server) if to_server else (of_server, of_clients)
    received = receiver("bytes_received")
    return Flow(
        gigabits=None if received is None else received * 8e-9,
        sends=sender("send_calls"),
        receives=receiver("receive_calls"),
        to_server=to_server,
    )


def _flow_of_others(loads: Sequence[LoadResult]) -> Flow:
    """Return the flow of load generators that are not ours."""
    to_server = loads[0].measured_by == "bytes_to_server"
    moved = [load.tally.bytes_sent if to_server else load.tally.bytes_received for load in loads]
    rate = total(share(amount * 8.0, load.elapsed_ns) for amount, load in zip(moved, loads, strict=True))
    return Flow(gigabits=rate, sends=None, receives=None, to_server=to_server)


@dataclass(frozen=True)
class Counting:
    """The divisors of a side's figures.

    These are the requests that it saw, their payload or the bytes that passed it (`moved`) if these are
    counted, and the time in which it was counted. `counters` are the figures that were requested, `states`
    those that report one moment.
    """

    requests: int
    bytes_per_request: float | None = None
    seconds: float | None = None
    counters: Collection[str] = ()
    states: Collection[str] = ()
    moved: int | None = None


def of_side(side: str, figures: Mapping[str, Number | None], by: Counting) -> TrialMetrics:
    """Return one side's figures as metrics: totals, per request, per byte, per second, and ratios."""
    of_each: TrialMetrics = {}
    for figure, amount in figures.items():
        of_each[f"{side}.{figure}"] = amount
        if figure in by.states:
            continue
        per_request = share(amount, by.requests)
        of_each[f"{side}.{figure}{PER_REQUEST}"] = per_request
        per_byte = share(per_request, by.bytes_per_request or 0)
        of_each[f"{side}.{figure}{PER_BYTE}"] = per_byte if by.moved is None else share(amount, by.moved)
        for per in rates_of(figure, by.counters) if figure in by.counters else ():
            time = by.seconds if per == PER_SECOND else figures.get(TASK_CLOCK)
            of_each[f"{side}.{figure}{per}"] = share(amount, time or 0)
    known = {**figures, ELAPSED: by.seconds} if by.seconds is not None else figures
    for name, ratio in RATIOS.items():
        if ratio.above in known and ratio.below in known:
            found = share(known[ratio.above], known[ratio.below] or 0)
            of_each[f"{side}.{name}"] = None if found is None else found * ratio.factor
    return of_each


def of_both(server: TrialMetrics, clients: TrialMetrics) -> TrialMetrics:
    """Return the sum of both sides for each amount that both report, per request and per byte."""
    found: TrialMetrics = {}
    for name, amount in server.items():
        what = name.partition(".")[2]
        if what.endswith(OF_BOTH) and f"client.{what}" in clients:
            found[f"{BOTH}.{what}"] = total([amount, clients[f"client.{what}"]])
    return found


def in_seconds(counters: Counters, units: Mapping[str, str]) -> dict[str, Number | None]:
    """Return counters with times converted from nanoseconds to seconds."""
    return {
        name: value / 1e9 if value is not None and units.get(name) == NANOSECONDS else value
        for name, value in counters.items()
    }


def share(whole: float | None, parts: float) -> float | None:
    """Return `whole / parts`; None if `whole` is unknown or `parts` is 0."""
    return whole / parts if whole is not None and parts > 0 else None


def total(numbers: Iterable[Number | None]) -> Number | None:
    """Return the sum; None if a term is unknown."""
    known = list(numbers)
    return None if any(number is None for number in known) else sum(number or 0 for number in known)


def times_of(loads: Sequence[LoadResult]) -> dict[str, list[Times | None]]:
    """Return the times of each load process, by `metrics.TIMES`."""
    of_schedules = {
        what: [getattr(load.scheduled, what) if load.scheduled else None for load in loads]
        for what in TIMES
        if what not in (LATENCY, CONNECTING)
    }
    return {
        LATENCY: [load.latency for load in loads],
        CONNECTING: [load.connecting for load in loads],
        **of_schedules,
    }
