"""The observations of one trial, and the figures that follow from them: one number per metric, and warnings.

`faults` decides whether the trial is valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thunderherd.engine.line_base import Counters, Used
from thunderherd.engine.lines import Connection, Life, LoadResult, Mark, Ready, ServerSummary, Snapshot, Tally
from thunderherd.labs.kind import HostFacts
from thunderherd.machine import noise
from thunderherd.metrics.table import (
    COPIED_SHARE,
    CPU_PER_CONNECTION,
    ELAPSED,
    HELD,
    NOT_COPIED_SHARE,
    OF_A_TALLY,
    PER_CONNECTION,
    is_of_clients,
)
from thunderherd.records.summary import Noise, TrialForm, TrialMetrics, TrialRecord
from thunderherd.records.trial import HostOfTrial
from thunderherd.study.loading import Contender
from thunderherd.study.resolved import CONNECTIONS, KEPT
from thunderherd.trial.busy_polling import OF_SERVER, beyond_load
from thunderherd.trial.counters import (
    none_came,
    not_available,
    scaled_in_words,
    scaled_of_sides,
    unavailable_of_sides,
)
from thunderherd.trial.metrics import (
    Counting,
    MeasuredWindow,
    Number,
    figures_of,
    flow_of,
    in_seconds,
    of_both,
    of_side,
    share,
    times_of,
    total,
)

OF_WHOLE_LIFE, NOT_EXACT = "covers the server's whole life, warm-up included", "is not exact"
UNKNOWN = "unknown"
"""The CPU source of a server whose processes are unknown."""
NO_CPU_TIME = "the engine did not report the server's CPU time"


@dataclass
class Observation:
    """The observations of a trial so far; None for steps that it did not reach.

    `before` and `after` are the edges of the measured window. `rest_before` and `rest_after` enclose
    everything that the measured load did. They are the same snapshots, except for a load that ends by time,
    whose window is inside.
    """

    contender: Contender
    counters: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()
    """The counters that report one moment: for a window, its end."""
    overload_counts: bool = False
    """True if the study accepts trials whose server did not keep up with an open loop."""
    reasons: list[str] = field(default_factory=list)
    ready: Ready | None = None
    rest_before: Snapshot | None = None
    before: Snapshot | None = None
    during: Snapshot | None = None
    """The snapshot in the last tenth of the window of a load that ends by time, if states are requested."""
    after: Snapshot | None = None
    rest_after: Snapshot | None = None
    summary: ServerSummary | None = None
    server_life: Life | None = None
    warm_up: list[LoadResult] = field(default_factory=list)
    loads: list[LoadResult] = field(default_factory=list)
    client_lives: list[Life] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    samples: tuple[Sequence[noise.Sample], Sequence[noise.Sample]] | None = None
    """Samples of the noise before and after the load, of each machine; that of the server is the first."""
    time_wait_before: int | None = None
    time_wait_limit: int | None = None
    listener_holders: int | None = None
    hosts: Sequence[HostFacts] = ()
    load_hosts: Sequence[str] = ()
    """The places that the load processes take in turn."""
    agreed_start: bool = False
    """True if the load processes agreed on a start."""

    @property
    def is_whole_life(self) -> bool:
        """True if both sides are counted from exec to exit."""
        return self.contender.trial == "whole_life"

    def planned_connections(self) -> int:
        """Return connections of the whole trial, as far as they are known in advance."""
        load = self.contender.load
        warm_up = 0 if self.is_whole_life else load.warm_up_connections
        return warm_up + (load.connections_per_trial or 0)

    # The server

    def cpu_scope(self) -> TrialForm | None:
        """Return the scope of the server's CPU time: the window, or its whole life if not read earlier."""
        if self.ready is None:
            return None
        return "whole_life" if self.is_whole_life or self.ready.cpu_source == "whole_life" else "window"

    def work(self) -> Tally | None:
        """Return the server's tally while its clients were measured; that of its clients if it has none."""
        if self.is_whole_life:
            return self._in_requests(self.summary.tally) if self.summary and self.summary.tally else None
        if self.before is None or self.after is None:
            return None
        if self.before.tally is None or self.after.tally is None:
            return self._work_by_clients(self.before, self.after)
        return self._in_requests(less(self.after.tally, self.before.tally))

    def _work_by_clients(self, before: Snapshot, after: Snapshot) -> Tally | None:
        """Return what the clients counted between two snapshots of a server that counts nothing.

        The snapshots are taken a moment after the edges of a window, so counts of a window are scaled to the
        time between them.
        """
        if not self.loads:
            return None
        windows = [load.window for load in self.loads if load.window is not None]
        if not windows:
            return _received(load.tally for load in self.loads)
        length = elapsed_seconds(self.loads)
        between = (after.monotonic_ns - before.monotonic_ns) / 1e9
        factor = between / length if length > 0 else 1.0
        return _tally(
            connections=sum(each.connections for each in windows) * factor,
            requests=sum(each.requests for each in windows) * factor,
            received=sum(each.counted.bytes_sent for each in windows if each.counted) * factor,
            sent=sum(each.counted.bytes_received for each in windows if each.counted) * factor,
        )

    def _in_requests(self, counted: Tally) -> Tally:
        """Return the tally in requests, for a server that cannot distinguish requests and counts receives.

        It is scaled by receives per request over the server's whole life.
        """
        life = self.summary
        if self.contender.counts_requests or life is None or life.tally is None or not life.tally.requests:
            return counted
        sent = sum(load.tally.requests for load in (*self.warm_up, *self.loads))
        requests = round(counted.requests * sent / life.tally.requests)
        return counted.model_copy(update={"requests": requests})

    def server_cpu(self) -> tuple[float, Tally] | None:
        """Return the server's CPU time in seconds, and the work it paid for."""
        work = self.work()
        if work is None:
            return None
        if self.is_whole_life:
            life = self.server_life
            return None if life is None else ((life.user_ns + life.system_ns) / 1e9, work)
        if self.cpu_scope() == "whole_life":
            if self.summary is None or self.summary.cpu_ns is None or self.summary.tally is None:
                return None
            return self.summary.cpu_ns / 1e9, self._in_requests(self.summary.tally)
        if self.has_unknown_cpu:
            return 0.0, work
        used = _cpu_between(self.before, self.after)
        return None if used is None else (used, work)

    @property
    def has_unknown_cpu(self) -> bool:
        """True if the server was running before, and its processes are unknown."""
        return self.ready is not None and self.ready.cpu_source == UNKNOWN

    def workers(self) -> list[int] | None:
        """Return the connections of each worker of the pool while the clients were measured."""
        if self.is_whole_life:
            return self.summary.workers if self.summary else None
        if self.before is None or self.after is None or any(read_late(self)):
            return None
        return workers_in_window(self.before.workers, self.after.workers)

    def noise(self) -> Noise | None:
        """Return the noise of all machines during the trial, put together."""
        of_machines = self._noise_of_machines()
        return None if of_machines is None else noise.together([*of_machines.values()])

    def of_hosts(self) -> list[HostOfTrial]:
        """Return the hosts with the noise of their machines."""
        of_machines = self._noise_of_machines() or {}
        return [
            HostOfTrial(
                host=each.host,
                roles=list(each.roles),
                clock_ahead_seconds=each.clock_ahead_ns / 1e9,
                clock_error_seconds=each.clock_error_ns / 1e9,
                noise=of_machines.get(each.boot),
            )
            for each in self.hosts
        ]

    def on_host(self, number: int) -> str:
        """Return words with the host of a load process, numbered from 0; empty if it is the only one."""
        hosts = self.load_hosts
        return f", on {hosts[number % len(hosts)]}" if len(hosts) > 1 else ""

    def start_skew_seconds(self) -> float | None:
        """Return the time between the first and the last start of the load; None if none was agreed on."""
        started = [each.started_monotonic_ns for each in self.loads]
        return (max(started) - min(started)) / 1e9 if self.agreed_start and started else None

    def _noise_of_machines(self) -> dict[str, Noise] | None:
        """Return the noise of each machine, by its boot, that of the server first."""
        if self.samples is None:
            return None
        if self.is_whole_life:
            # Both sides ended between the samples, so their CPU time is that of our ended children.
            return self._noise_between(0.0)
        used = _cpu_between(self.rest_before, self.rest_after)
        life = self.summary
        if used is None and life is not None and life.cpu_ns is not None:
            used = life.cpu_ns / 1e9
        if self.has_unknown_cpu:
            used = math.inf  # Whatever others used may have been the server's.
        if used is None or self.rest_before is None or self.rest_after is None:
            return None
        served, of_life = self._requests_between(self.rest_before, self.rest_after), life and life.tally
        if served is not None and of_life and of_life.requests and life and life.cpu_ns:
            # A clock that stops just before a process ends would make the rest look like that of other
            # processes. So the window's share of the whole life is used if it is larger.
            used = max(used, life.cpu_ns / 1e9 * served / of_life.requests)
        return self._noise_between(used)

    def _noise_between(self, server_seconds: float) -> dict[str, Noise]:
        """Return the noise of each machine; the server has used so much CPU time on the first."""
        before, after = self.samples or ((), ())
        pairs = enumerate(zip(before, after, strict=True))
        return {
            pair[0].boot: noise.between(*pair, server_seconds=0.0 if place else server_seconds)
            for place, pair in pairs
        }

    @staticmethod
    def _requests_between(before: Snapshot, after: Snapshot) -> int | None:
        if before.tally is None or after.tally is None:
            return None
        return after.tally.requests - before.tally.requests

    # Metrics

    def metrics(self) -> TrialMetrics | None:
        """Return one number per metric; None if the window was not measured to its end."""
        work, cpu, outside = self.work(), self.server_cpu(), self.noise()
        if work is None or not self.loads or cpu is None or outside is None:
            return None
        seconds, used_for = cpu
        workers = self.workers()
        clients = sum(load.user_ns + load.system_ns for load in self.loads) / 1e9
        requests = sum(load.tally.requests for load in self.loads)
        windows = [load.window for load in self.loads if load.window is not None]
        answered = sum(each.requests for each in windows) if windows else requests
        opened = sum(each.connections for each in windows) if windows else work.connections
        measured = MeasuredWindow(
            work=work,
            server_seconds=seconds,
            served=used_for,
            client_seconds=clients,
            machine_seconds=outside.machine_busy_seconds,
            load_requests=requests,
            answered=answered,
            counts_requests=self.contender.load.generator is None or requests > 0,
            opened=opened,
            elapsed_seconds=elapsed_seconds(self.loads),
            times=times_of(self.loads),
            schedules=[load.scheduled for load in self.loads if load.scheduled is not None],
            validities=[load.validity for load in self.loads if load.validity is not None],
            figures=figures_of(self.loads),
            replied=sum(load.tally.bytes_received for load in self.loads),
            sent=sum(load.tally.bytes_sent for load in self.loads),
            flow=flow_of(self.loads, self.before, self.after),
            rate_gigabits=self.contender.lab.rate_gigabits,
            queueing_bound=self.contender.queueing_bound,
            switches_per_connection=self._switches_per_connection(work),
            listener_holders=self.listener_holders,
            workers=workers,
            listen_drops=self.listen_drops(),
        )
        each, moved = measured.bytes_per_request(), measured.through_server(work)
        by = Counting(work.requests, each, self._server_seconds(), self.counters, self.states, moved)
        server = {**of_side("server", self._of_server(), by), **self._held_per_connection()}
        by = replace(by, requests=requests, moved=measured.through_clients, seconds=self._client_seconds())
        client = of_side("client", self._of_clients(), by)
        if server[OF_SERVER_COPIED] is None or read_late(self):
            server[OF_SERVER_COPIED] = self._copied_share_of_life()
        found: TrialMetrics = {**measured.metrics(), **server, **client, **of_both(server, client)}
        missing = [
            name
            for name in found
            if left_out(name, self) or beyond_load(name, self, self.states) or self._is_unknown(name)
        ]
        return found | dict.fromkeys(missing)

    def _is_unknown(self, metric: str) -> bool:
        """True if a metric rests on what is unknown of a server, or of both ends, that are not ours."""
        has_own_server = self.contender.own_server is not None
        return (
            (self.has_unknown_cpu and metric in OF_SERVER)
            or (has_own_server and metric in OF_OUR_SERVERS)
            or (has_own_server and self.contender.load.generator is not None and metric in OF_CONNECTIONS)
        )

    def _server_seconds(self) -> float:
        """Return the time in which the server's counters reached their values.

        For a whole life, its length. For a load that ends by time, from before the first reading to after the
        second. For a load that ends by count, the load without the idle time around it, in which nothing is
        counted.
        """
        if self.server_life is not None:
            return self.server_life.elapsed_ns / 1e9
        if self.before is not None and self.after is not None and self.before is not self.rest_before:
            return ((self.after.read_ns or self.after.monotonic_ns) - self.before.monotonic_ns) / 1e9
        return elapsed_seconds(self.loads)

    def _client_seconds(self) -> float:
        """Return the time in which the clients' counters reached their values.

        Lives do not all start at the same moment.
        """
        if not self.client_lives:
            return counted_seconds(self.loads)
        spans = [(each.started_monotonic_ns, each.elapsed_ns) for each in self.client_lives]
        began = [start for start, _ in spans if start is not None]
        if len(began) < len(spans):  # Lines of an older engine.
            return max(lasted for _, lasted in spans) / 1e9
        return (max((start or 0) + lasted for start, lasted in spans) - min(began)) / 1e9

    def _held_per_connection(self) -> dict[str, Number | None]:
        """Return the growth of the server's memory per open connection, from idle to near the window's end.

        None if it was not read at both moments, or if no connection was open.
        """
        found: dict[str, Number | None] = {}
        for name in (name for name in HELD if name in self.counters):
            grown = None
            if self.rest_before is not None and self.during is not None:
                more = _difference(self.rest_before.counters.get(name), self.during.counters.get(name))
                grown = share(more, self._opened_between(self.rest_before, self.during))
            found[f"server.{name}{PER_CONNECTION}"] = grown
        return found

    def _opened_between(self, idle: Snapshot, busy: Snapshot) -> int:
        """Return how many more connections were open at the later snapshot.

        If the server does not count them, those that persist in the whole load.
        """
        if idle.tally is not None and busy.tally is not None:
            opened = [each.tally.connections - each.tally.closed for each in (idle, busy) if each.tally]
            return opened[1] - opened[0]
        kept = self.contender.load.settings.get(CONNECTIONS) == KEPT
        return self.contender.load.processes * self.contender.load.clients if kept else 0

    def _switches_per_connection(self, work: Tally) -> float | None:
        """Return voluntary switches per connection.

        They are those of the window if counted there, else of the whole life. A window needs a pool, whose
        workers can be read while they live.
        """
        if not work.connections or self.contender.own_server:
            return None
        if not self.is_whole_life and SWITCHES in self.counters and self.workers() is not None:
            return share(self._counted_by_server().get(SWITCHES), work.connections)
        life = self.server_life or self.summary
        of_life = self.summary.tally if self.summary else None
        return share(life.voluntary_switches, of_life.connections) if life and of_life else None

    def _copied_share_of_life(self) -> float | None:
        """Return the copied share of the server's zero-copy sends over its whole life.

        It is None if no completion was read. Blocking sockets read completions only when many sends are in
        flight, and when a connection ends. A window with few sends has none. The kernel copies no differently
        then, nor if the window's completions were read late.
        """
        tally = self.summary.tally if self.summary else None
        return share(tally.completions_copied, tally.completions) if tally else None

    def listen_drops(self) -> int:
        if self.is_whole_life:
            return (self.summary.listen_drops or 0) if self.summary else 0
        if self.before is None or self.after is None:
            return 0
        return (self.after.listen_drops or 0) - (self.before.listen_drops or 0)

    def _counted_by_server(self) -> Counters:
        if self.server_life is not None:
            return {name: self.server_life.counters.get(name) for name in self.counters}
        if self.before is None or self.after is None:
            return {}
        return {name: self._in_window(name, self.before, self.after) for name in self.counters}

    def _in_window(self, name: str, before: Snapshot, after: Snapshot) -> int | None:
        if name in self.states:
            return (self.during or after).counters.get(name)
        if name in before.multiplexing and name in after.multiplexing:
            return after.multiplexing[name].since(before.multiplexing[name]).value
        return _difference(before.counters.get(name), after.counters.get(name))

    def _of_server(self) -> Mapping[str, Number | None]:
        life = self.server_life
        work = self.work()
        return {
            **(_of_life(life, life.elapsed_ns) if life else {}),
            **self._tally_of_server(work),
            **in_seconds(self._counted_by_server(), self.counters),
        }

    def _tally_of_server(self, work: Tally | None) -> dict[str, Number | None]:
        if work is None:
            return {}
        return dict.fromkeys(OF_A_TALLY) if self.contender.own_server else _of_tally(work)

    def _of_clients(self) -> Mapping[str, Number | None]:
        figures: list[Mapping[str, Number | None]] = []
        if self.client_lives:
            for life in self.client_lives:
                counted = {name: life.counters.get(name) for name in self.counters}
                figures.append({**_of_life(life, life.elapsed_ns), **in_seconds(counted, self.counters)})
        else:
            for load in self.loads:
                counted = {name: load.counters.get(name) for name in self.counters}
                figures.append({**_of_life(load, load.elapsed_ns), **in_seconds(counted, self.counters)})
        added = {name: total(each[name] for each in figures) for name in figures[0]}
        # A state is not an amount, and each load process sees all connections: take the largest.
        for name in self.states & figures[0].keys():
            known = [value for each in figures if (value := each[name]) is not None]
            added[name] = max(known, default=None)
        tallies = [_of_tally(load.tally) for load in self.loads]
        added |= {name: total(each[name] for each in tallies) for name in OF_A_TALLY}
        # Load processes run at the same time.
        return {**added, ELAPSED: max(each[ELAPSED] or 0 for each in figures)}

    def missing(self) -> str:
        """Return the reason why `metrics` has no figures, in words."""
        if self.before is None and not self.is_whole_life:
            return "it was not reached"
        if self.samples is None:
            return "it was not closed"
        if not self.loads:
            return "there was no load in it"
        if self.server_cpu() is None:
            return NO_CPU_TIME
        return "the engine reported too little to compute its figures"

    # Warnings

    def warnings(self) -> list[str]:
        """Return the caveats of a valid trial's figures."""
        caveats = []
        is_told = self.is_whole_life or self.has_unknown_cpu
        if self.ready is not None and self.ready.cpu_source_reason is not None and not is_told:
            whole_life = self.cpu_scope() == "whole_life"
            what = OF_WHOLE_LIFE if whole_life else NOT_EXACT
            caveats.append(f"CPU time {what}: {self.ready.cpu_source_reason}")
        waiting, limit = self.time_wait_before, self.time_wait_limit
        if waiting is not None and limit is not None and waiting + self.planned_connections() > limit:
            caveats.append(
                f"the table of TIME_WAIT sockets was full (net.ipv4.tcp_max_tw_buckets = {limit}): "
                "further ones were dropped at once"
            )
        caveats += _slow_to_connect(self.noise())
        if self._is_bulk():
            remarks = [f"congestion control: {each.remark}" for each in self._connections() if each.remark]
            caveats += dict.fromkeys(remarks)
        missing = unavailable_of_sides(self)
        caveats += not_available(missing["server"], "")
        of_clients = {
            name: why for name, why in missing["client"].items() if missing["server"].get(name) != why
        }
        caveats += not_available(of_clients, " for the clients")
        caveats += [*scaled_in_words(scaled_of_sides(self)), *none_came(self)]
        if any(read_late(self)) and stands_late(self.contender.metric):
            caveats.append(READ_LATE)
        return caveats

    def _is_bulk(self) -> bool:
        """True if so many bytes move at once that the congestion control paces them."""
        if any(load.measured_by != "requests" for load in self.loads):
            return True
        requests = sum(load.tally.requests for load in self.loads)
        moved = sum(load.tally.bytes_received + load.tally.bytes_sent for load in self.loads)
        return moved > BULK_BYTES * requests

    def _connections(self) -> Iterator[Connection]:
        """Yield the kernel's properties of connections, on both sides."""
        for each in (self.summary, *self.loads):
            if each is not None and each.connection is not None:
                yield each.connection


def _slow_to_connect(noise: Noise | None) -> Iterator[str]:
    """Yield what kept connections from being opened at once, also by a server that does not say so itself."""
    if noise is not None and noise.dropped_connections:
        yield (
            "full listen queues dropped connections, whose clients tried again after a second or more "
            "(noise.dropped_connections in trials.jsonl; those of other programs count, too)"
        )
    elif noise is not None and noise.retransmitted_syns:
        yield (
            "SYNs of the trial, or of other programs in its network namespaces, were sent again: those "
            "connections were opened a second or more late (noise.retransmitted_syns in trials.jsonl)"
        )


BULK_BYTES = 65_536
"""The bytes of a request and its reply above which a remark on the congestion control is a warning."""

LATE_SHARE = 0.1
"""How late the server may be read at an edge of the window of a load that ends by time, as a share of the
window."""

TOO_BUSY = "the machine was too busy for so short a window"

READ_LATE = (
    f"the server was read more than {LATE_SHARE:.0%} of the window late: its own figures are left out, those "
    "of the clients are not affected"
)
"""The warning of a valid trial whose server was read late."""

OF_OUR_SERVERS = {"listen_drops", "empty_wakeups_per_connection"}
"""Metrics with a fixed name that rest on the tally of a server."""

OF_CONNECTIONS = {"connections", "connections_per_second", CPU_PER_CONNECTION}
"""Metrics with a fixed name that rest on a number of connections, which programs of others do not report."""

SWITCHES = "voluntary_switches"
OF_SERVER_COPIED = f"server.{COPIED_SHARE}"


def read_late(seen: Observation | TrialRecord) -> list[str]:
    """Return, in words, the edges of the window at which the server was read too late for its figures."""
    window_ns, ends = _readings(seen)
    or_slow = ", or its hosts answered too slowly" if seen.hosts else ""
    return [
        f"the server was read {late_ns / 1e6:.0f} ms after the {window_ns / 1e6:.0f} ms window {what}: "
        f"{TOO_BUSY}{or_slow}"
        for what, late_ns in ends.items()
        if late_ns > LATE_SHARE * window_ns
    ]


def late_by_ns(seen: Observation | TrialRecord) -> int:
    """Return how late the server was read, at the later of both edges; 0 without a window."""
    return max(_readings(seen)[1].values(), default=0)


def _readings(seen: Observation | TrialRecord) -> tuple[int, dict[str, int]]:
    """Return the length of the window, and edge → how late the server was read, in nanoseconds.

    Without a window there are no edges.
    """
    windows = [result.window for result in seen.loads if result.window is not None]
    if not windows or seen.before is None or seen.after is None:
        return 0, {}
    started = max(window.started_monotonic_ns for window in windows)
    ended = min(window.ended_monotonic_ns for window in windows)
    return ended - started, {
        "began": seen.before.monotonic_ns - started,
        "ended": seen.after.monotonic_ns - ended,
    }


HELD_PER_CONNECTION = {f"server.{name}{PER_CONNECTION}" for name in HELD}


def stands_late(metric: str) -> bool:
    """True if a metric is valid even if the server was read late.

    These are metrics of the clients, copied shares, and memory held by connections that are open at a
    reading.
    """
    is_share = metric.endswith((f".{COPIED_SHARE}", f".{NOT_COPIED_SHARE}"))
    return is_of_clients(metric) or is_share or metric in HELD_PER_CONNECTION


def left_out(metric: str, seen: Observation | TrialRecord) -> bool:
    """True if a trial does not report a metric because its server was read late."""
    return not stands_late(metric) and bool(read_late(seen))


def connections_of(trial: TrialRecord) -> dict[str, Connection]:
    """Return side → the kernel's properties of a connection, for sides with a TCP connection."""
    ends = [("server", trial.summary), *(("client", load) for load in trial.loads)]
    return {side: each.connection for side, each in ends if each is not None and each.connection is not None}


def elapsed_seconds(loads: Sequence[LoadResult]) -> float:
    """Return the time from the first client's start to the last one's end, or that of their windows."""
    spans = [load.window or load for load in loads]
    first = min(span.started_monotonic_ns for span in spans)
    return (max(span.ended_monotonic_ns for span in spans) - first) / 1e9


def counted_seconds(loads: Sequence[LoadResult]) -> float:
    """Return the time from the first reading of the load processes' use to the last.

    It includes work after the last reply.
    """
    began = min(load.counted_from_ns or load.started_monotonic_ns for load in loads)
    return (max(load.counted_to_ns or load.ended_monotonic_ns for load in loads) - began) / 1e9


def workers_in_window(before: Sequence[int] | None, after: Sequence[int] | None) -> list[int] | None:
    """Return the connections of each worker between two snapshots; None without a pool.

    A slot that was added later (for a replaced worker) starts from 0.
    """
    if before is None or after is None:
        return None
    earlier = [*before, *[0] * (len(after) - len(before))]
    return [now - then for now, then in zip(after, earlier, strict=False)]


def _difference(earlier: int | None, later: int | None) -> int | None:
    return None if earlier is None or later is None else later - earlier


def _cpu_between(earlier: Snapshot | None, later: Snapshot | None) -> float | None:
    """Return the server's CPU time in seconds between two snapshots; None if a snapshot lacks it."""
    if earlier is None or later is None or earlier.cpu_ns is None or later.cpu_ns is None:
        return None
    return (later.cpu_ns - earlier.cpu_ns) / 1e9


def less(later: Tally, earlier: Tally) -> Tally:
    """Return the counts between two tallies; errors and lost workers are those of the later tally."""
    kept = {"workers_lost", "workers_replaced", "errors"}
    return later.model_copy(
        update={
            name: getattr(later, name) - getattr(earlier, name)
            for name in Tally.model_fields
            if name not in kept
        }
    )


def _received(tallies: Iterable[Tally]) -> Tally:
    """Return the tally of a server, from those of its clients."""
    every = list(tallies)
    return _tally(
        connections=sum(each.connections for each in every),
        requests=sum(each.requests for each in every),
        received=sum(each.bytes_sent for each in every),
        sent=sum(each.bytes_received for each in every),
    )


def _tally(*, connections: float, requests: float, received: float, sent: float) -> Tally:
    """Return a tally with these counts; all others are unknown, and 0."""
    known = {
        "connections": round(connections),
        "requests": round(requests),
        "bytes_received": round(received),
        "bytes_sent": round(sent),
    }
    return Tally.model_validate({name: 0 for name in Tally.model_fields if name != "errors"} | known)


def _of_tally(tally: Tally) -> dict[str, Number | None]:
    """Return the figures of `metrics.OF_A_TALLY`."""
    return {name: getattr(tally, name) for name in OF_A_TALLY}


def _of_life(used: Used, elapsed_ns: int) -> dict[str, Number | None]:
    """Return the figures of `metrics.OF_A_LIFE`."""
    return {
        ELAPSED: elapsed_ns / 1e9,
        "user_seconds": used.user_ns / 1e9,
        "system_seconds": used.system_ns / 1e9,
        **{
            name: getattr(used, name)
            for name in (SWITCHES, "involuntary_switches", "minor_faults", "major_faults")
        },
    }
