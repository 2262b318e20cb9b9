"""From what was measured in a trial to one number per metric. Those with a fixed name that are a figure of a
workload's own say so where they are declared; the others are computed by a table of their names: what is
declared in `metrics` and not computed here, or the other way round, fails a test."""

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
    """What went one way in a second of the window: bits (10⁹) as the receiving end has counted them, and the
    calls of either end."""

    gigabits: float | None
    sends: float | None
    receives: float | None
    to_server: bool


class UsedFor(NamedTuple):
    """CPU time, seconds, and what it was used for: so many requests, and so many bytes where these are
    counted as they pass."""

    seconds: float
    requests: int
    moved: int | None


@dataclass(frozen=True)
class MeasuredWindow:
    """What the metrics with a fixed name follow from: of the window where the trial has one, otherwise of the
    whole lives. Times are in seconds."""

    work: Tally
    """What the server counted."""
    server_seconds: float
    served: Tally
    """The work that the server's CPU time was used for."""
    client_seconds: float
    machine_seconds: float
    asked: int
    """Requests of the whole load."""
    answered: int
    """Those of them that were answered in the window."""
    opened: int
    """Connections that were opened in the window."""
    elapsed_seconds: float
    times: Mapping[str, Sequence[Times | None]]
    """What is timed request by request (`metrics.TIMES`), of each load process."""
    schedules: Sequence[Scheduled]
    """Of load processes that are open loops."""
    validities: Sequence[Validity]
    """Of load processes with an event loop and a window."""
    figures: Mapping[str, int]
    """What the workload has measured itself, of all load processes together."""
    replied: int
    """Bytes that the clients got, of all requests of the whole load."""
    sent: int
    """Bytes that they sent in it."""
    flow: Flow | None
    """Of a load whose bytes are counted in the window."""
    rate_gigabits: float | None
    """What the link carries at most in a second, where the lab bounds it."""
    queueing_bound: float | None
    switches_per_connection: float | None
    listener_holders: int | None
    workers: Sequence[int] | None
    """Connections of each worker of the pool."""
    listen_drops: int

    @property
    def of_server(self) -> UsedFor:
        """The server's CPU time, and what it was used for."""
        return UsedFor(self.server_seconds, self.served.requests, self.through_server(self.served))

    @property
    def of_clients(self) -> UsedFor:
        """The clients' CPU time, and what it was used for."""
        return self._for_clients(self.client_seconds)

    @property
    def of_machine(self) -> UsedFor:
        """CPU time of everything on the machine, and what it was used for."""
        return self._for_clients(self.machine_seconds)

    def _for_clients(self, seconds: float) -> UsedFor:
        return UsedFor(seconds, self.asked, self.through_clients)

    def through_server(self, work: Tally) -> int | None:
        """Bytes that passed the server's end, the way that is measured, of what it counted; None where
        requests are."""
        if self.flow is None:
            return None
        return work.bytes_received if self.flow.to_server else work.bytes_sent

    @property
    def through_clients(self) -> int | None:
        """Bytes that passed the clients' end in the whole load, the way that is measured; None where requests
        are."""
        if self.flow is None:
            return None
        return self.sent if self.flow.to_server else self.replied

    @property
    def requests_per_second(self) -> float | None:
        """None where no time went by."""
        return share(self.answered, self.elapsed_seconds)

    def gigabits_per_second(self) -> float | None:
        """What the receiver got in the window, where bytes are counted in it; else the payload of the
        requests that count, by the time that it took."""
        if self.flow is not None:
            return self.flow.gigabits
        payload = self.figures.get(PAYLOAD_BYTES)
        return None if payload is None else share(payload * 8e-9, self.payload_seconds())

    def payload_seconds(self) -> float:
        """How long the payload took: as long as its requests together, but no longer than from the beginning
        of the first to the end of the last, since those of several clients are under way at a time. Of one
        client, whose requests follow each other, it is the sum. The time in which requests were
        counted, where the workload does not tell its own."""
        together = self.figures.get(PAYLOAD_NANOSECONDS)
        if not together:
            return self.elapsed_seconds
        began, ended = self.figures.get(PAYLOAD_BEGAN), self.figures.get(PAYLOAD_ENDED)
        return (together if began is None or ended is None else min(together, ended - began)) / 1e9

    def bytes_per_request(self) -> float | None:
        """Payload of the mean request: of those that count by the workload's own definition, else the bytes
        of the replies, of all requests of the load. None where there was none."""
        if PAYLOAD_BYTES in self.figures:
            return share(self.figures[PAYLOAD_BYTES] or None, self.answered)
        return share(self.replied or None, self.asked)

    def cpu_per_byte(self, *parts: UsedFor) -> float | None:
        """The sum of some CPU times of a byte: each by the bytes that passed meanwhile, where these are
        counted; else by its own requests."""
        if self.flow is not None:
            return total(share(each.seconds, each.moved or 0) for each in parts)
        per_request = total(share(each.seconds, each.requests) for each in parts)
        return share(per_request, self.bytes_per_request() or 0)

    def figure_per_request(self, name: str, unit: str) -> float | None:
        """A figure of the workload's own, of the mean request that counts; a time, whose name ends so, in
        this unit."""
        mean = share(self.figures.get(name), self.figures.get(REQUESTS, 0))
        return mean if mean is None or not name.endswith("_ns") else mean / 1e9 * UNITS_OF_TIME[unit]

    def mean_time(self, what: str) -> float | None:
        """Of all load processes together; None where one of them did not tell it."""
        known = self._known(what)
        spent = [None if each.mean_ns is None else each.mean_ns * each.requests for each in known]
        return share(total(spent), sum(each.requests for each in known) * 1e9) if known else None

    def percentile_of_time(self, what: str, name: str) -> float | None:
        """Of several load processes that of the sum of their histograms; None where one told none."""
        quantile = float(f"0.{name[1:]}")
        return self._of_histograms(what, f"{name}_ns", lambda histogram: percentile_ns(histogram, quantile))

    def _of_histograms(
        self, what: str, field: str, read: Callable[[HdrHistogram], int | None]
    ) -> float | None:
        """What a single load process tells itself, and of several is read from their histograms."""
        known = self._known(what)
        if len(known) == 1:
            return share(getattr(known[0], field), 1e9)
        histograms = [each.histogram for each in known if each.histogram is not None]
        if not histograms or len(histograms) < len(known):
            return None
        return share(read(merged(histograms)), 1e9)

    def longest_time(self, what: str) -> float | None:
        """The longest of all; of several load processes as `percentile_of_time`."""
        return self._of_histograms(what, "maximum_ns", maximum_ns)

    def _known(self, what: str) -> list[Times]:
        """That of each load process; none where one of them did not measure it."""
        known = [each for each in self.times[what] if each is not None]
        return known if len(known) == len(self.times[what]) else []

    def offered(self) -> float | None:
        """Requests a second by the schedule, of an open loop."""
        return float(sum(each.offered_per_second for each in self.schedules)) if self.schedules else None

    def of_schedules(self, *names: str) -> float | None:
        """A sum of counts over all open loops; None of others."""
        if not self.schedules:
            return None
        return float(sum(getattr(each, name) for each in self.schedules for name in names))

    def share_of_offered(self) -> float | None:
        """Of the requests that were due in the window, as many as replies came in it."""
        return share(float(self.answered), self.of_schedules("due") or 0) if self.schedules else None

    def in_system(self) -> float | None:
        """Mean number of requests under way in the window, all load processes together."""
        seen = [each.in_system for each in self.validities if each.in_system is not None]
        return sum(seen) if seen else None

    def generator_share(self) -> float | None:
        """CPU time of the busiest thread that asks, by the window."""
        threads = [each for validity in self.validities for each in validity.generators if each.elapsed_ns]
        return max((each.cpu_ns / each.elapsed_ns for each in threads), default=None)

    def metrics(self) -> TrialMetrics:
        """One number for each metric with a fixed name."""
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
    "requests": lambda trial: trial.answered,
    "server_cpu_seconds": lambda trial: trial.server_seconds,
    "server_cpu_per_connection": lambda trial: share(trial.server_seconds, trial.served.connections),
    "server_cpu_per_request": lambda trial: share(trial.server_seconds, trial.served.requests),
    "client_cpu_seconds": lambda trial: trial.client_seconds,
    "client_cpu_per_request": lambda trial: share(trial.client_seconds, trial.asked),
    "machine_cpu_seconds": lambda trial: trial.machine_seconds,
    "server_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_server),
    "client_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_clients),
    "cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_server, trial.of_clients),
    "machine_cpu_per_byte": lambda trial: trial.cpu_per_byte(trial.of_machine),
    "elapsed_seconds": lambda trial: trial.elapsed_seconds,
    "connections_per_second": lambda trial: share(trial.opened or None, trial.elapsed_seconds),
    "requests_per_second": lambda trial: trial.requests_per_second,
    "gigabits_per_second": MeasuredWindow.gigabits_per_second,
    "share_of_rate": lambda trial: share(trial.gigabits_per_second(), trial.rate_gigabits or 0),
    # Of a block, not of a trial: `ceilings` puts it beside the others.
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
"""How each is computed that is no figure of a workload's own."""


def figures_of(loads: Sequence[LoadResult]) -> dict[str, int]:
    """What the workload has measured itself, of all load processes together: sums are added, the payload is
    that from the first beginning to the last end, and the last request that of the last process."""
    of_each: dict[str, list[int]] = {}
    for load in loads:
        for name, amount in load.figures.items():
            of_each.setdefault(name, []).append(amount)
    return {
        name: amounts[-1] if name.startswith(LAST) else JOINED.get(name, sum)(amounts)
        for name, amounts in of_each.items()
    }


JOINED: Mapping[str, Callable[[Iterable[int]], int]] = {PAYLOAD_BEGAN: min, PAYLOAD_ENDED: max}
"""How figures of several processes become one that are no sums."""


def flow_of(loads: Sequence[LoadResult], before: Snapshot | None, after: Snapshot | None) -> Flow | None:
    """Of loads whose bytes are counted in the window: the server's part by the clock of its snapshots at the
    edges, the clients' by that of their own readings. None of other loads."""
    windows = [load.window for load in loads if load.window and load.measured_by != "requests"]
    counted = [window.counted for window in windows if window.counted]
    if not counted or len(counted) < len(loads):
        return None

    def of_server(name: str) -> float | None:
        if before is None or after is None:
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


@dataclass(frozen=True)
class Counting:
    """What the figures of a side are divided by: the requests that it saw, their payload, or the bytes that
    passed it (`moved`) where these are counted; the time in which it was counted; and which figures are
    `counters` that were asked for, and which of these `states`."""

    requests: int
    bytes_per_request: float | None = None
    seconds: float | None = None
    counters: Collection[str] = ()
    states: Collection[str] = ()
    moved: int | None = None


def of_side(side: str, figures: Mapping[str, Number | None], by: Counting) -> TrialMetrics:
    """The figures of one side under their names as metrics, each amount divided by what it may be, and their
    ratios."""
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
    """What the two sides have together of each amount that both tell, of a request and of a byte."""
    found: TrialMetrics = {}
    for name, amount in server.items():
        what = name.partition(".")[2]
        if what.endswith(OF_BOTH) and f"client.{what}" in clients:
            found[f"{BOTH}.{what}"] = total([amount, clients[f"client.{what}"]])
    return found


def in_seconds(counters: Counters, units: Mapping[str, str]) -> dict[str, Number | None]:
    """Counters as metrics have them: times in seconds."""
    return {
        name: value / 1e9 if value is not None and units.get(name) == NANOSECONDS else value
        for name, value in counters.items()
    }


def share(whole: float | None, parts: float) -> float | None:
    """A part of a whole; None where the whole is not known, or there are no parts."""
    return whole / parts if whole is not None and parts > 0 else None


def total(numbers: Iterable[Number | None]) -> Number | None:
    """The sum; None where one of them is not known."""
    known = list(numbers)
    return None if any(number is None for number in known) else sum(number or 0 for number in known)


def times_of(loads: Sequence[LoadResult]) -> dict[str, list[Times | None]]:
    """What each load process has timed, by `metrics.TIMES`."""
    of_schedules = {
        what: [getattr(load.scheduled, what) if load.scheduled else None for load in loads]
        for what in TIMES
        if what != LATENCY
    }
    return {LATENCY: [load.latency for load in loads], **of_schedules}
