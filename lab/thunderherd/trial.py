"""One trial: a fresh server, a warm-up, a measured window, and the reasons why it may not count.

The window lies between two snapshots of the server, each taken once its CPU stands still, so that what
one request left to be done is inside and what the warm-up left is outside. Correctness comes before
statistics: one wrong reply, one connection too few, one overflow of the listen queue, and the trial is
invalid and says why.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from thunderherd import noise
from thunderherd.catalogue import SettingValue
from thunderherd.engine import EngineError, LoadProcess, Server, start_load
from thunderherd.engine_lines import LoadResult, Ready, ServerSummary, Snapshot
from thunderherd.records import CpuScope, Noise, TrialMetrics, TrialRecord
from thunderherd.study import Contender, LoadPlan, Study
from thunderherd.study_checks import ports_allowed

SETTLE_INTERVAL_SECONDS = 0.02
"""Between the two snapshots that must agree."""
SETTLE_SECONDS = 2.0
"""How long a server may take to come to rest."""
STILL_CPU_NS = 20_000
"""CPU that counts as standing still: a thousandth of the interval, what a timer or two may take."""
LOAD_SECONDS = 60.0
SECONDS_A_REQUEST = 0.05
"""A load is given up after LOAD_SECONDS and this much for each of its requests."""


def run_trial(
    study: Study,
    contender: Contender,
    *,
    block: int,
    position: int,
    seed: int,
    attempt: int = 1,
    engine: Path | None = None,
) -> TrialRecord:
    """Runs one trial and returns its record, valid or with the reasons why not.

    Raises `UserError` only for what no further trial could do better (settings that the engine refuses).
    Must be called from the main thread.
    """
    began = time.monotonic()
    started = datetime.now().astimezone().isoformat(timespec="milliseconds")
    trial = _Trial(study, contender, engine)
    try:
        trial.run()
    except EngineError as error:
        trial.reasons.append(str(error))
    metrics = trial.metrics()
    reasons = [*trial.reasons, *trial.faults()]
    if metrics is None and not reasons:
        reasons.append(f"the window was not measured: {trial.missing()}")
    return TrialRecord(
        study=study.name,
        contender=contender.name,
        block=block,
        position=position,
        attempt=attempt,
        seed=seed,
        started=started,
        wall_seconds=time.monotonic() - began,
        valid=not reasons,
        invalid_reasons=reasons,
        warnings=trial.warnings(),
        cpu_scope=trial.cpu_scope(),
        ready=trial.ready,
        before=trial.before,
        after=trial.after,
        summary=trial.summary,
        loads=trial.loads,
        warm_up=trial.warm_up,
        noise=trial.noise(),
        time_wait_before=trial.time_wait_before,
        metrics=metrics,
        worker_connections=trial.worker_connections() if metrics is not None else None,
    )


@dataclass
class _Trial:
    """What a trial has found out so far; everything stays None that it did not come to."""

    study: Study
    contender: Contender
    engine: Path | None
    reasons: list[str] = field(default_factory=list)
    ready: Ready | None = None
    before: Snapshot | None = None
    after: Snapshot | None = None
    summary: ServerSummary | None = None
    warm_up: list[LoadResult] = field(default_factory=list)
    loads: list[LoadResult] = field(default_factory=list)
    samples: tuple[noise.Sample, noise.Sample] | None = None
    time_wait_before: int | None = None

    def run(self) -> None:
        """From the fork of the server to the account of its life."""
        study, contender = self.study, self.contender
        with Server(
            contender.design,
            workload=contender.workload,
            primitive=contender.primitive,
            settings=contender.settings,
            cpus=study.lab.server_cpus,
            engine=self.engine,
        ) as server:
            self.ready = server.ready
            self._count_ports(server.ready.port)
            warm_up = warm_up_settings(study.load)
            if warm_up is not None:
                self.warm_up = self._load(server.ready.address, [warm_up])
            settle(server)
            quiet = noise.sample(server.ready.supervisor_pid)
            self.before = server.snapshot()
            self.loads = self._load(server.ready.address, [study.load.settings] * study.load.clients)
            self.after = settle(server)
            self.samples = (quiet, noise.sample(server.ready.supervisor_pid))
            self.summary = server.stop()

    def _load(self, address: str, clients: Sequence[Mapping[str, SettingValue]]) -> list[LoadResult]:
        """Starts all clients at once and waits for all; none is left behind."""
        seconds = LOAD_SECONDS + SECONDS_A_REQUEST * self.study.load.requests_per_trial
        with contextlib.ExitStack() as started:
            running: list[LoadProcess] = []
            for settings in clients:
                running.append(
                    start_load(
                        self.contender.workload,
                        address,
                        kind=self.study.load.kind,
                        settings=settings,
                        cpus=self.study.lab.client_cpus,
                        engine=self.engine,
                    )
                )
                started.callback(running[-1].end)
            deadline = time.monotonic() + seconds
            return [client.wait(deadline - time.monotonic()) for client in running]

    def planned(self) -> int:
        """Connections of the whole trial."""
        return self.study.load.warm_up_connections + self.study.load.requests_per_trial

    def _count_ports(self, port: int) -> None:
        """Ports used up by earlier connections would make this trial slower than the ones before it."""
        self.time_wait_before = noise.time_wait_count()
        planned = self.planned()
        waiting = noise.time_wait_of_port(port)
        allowed = ports_allowed()
        if waiting + planned > allowed:
            self.reasons.append(
                f"{waiting} sockets in TIME_WAIT and {planned} planned connections to one port are more than "
                f"half of the local ports ({allowed}): lower load.settings.{self.study.load.requests[-1]}, "
                "or widen net.ipv4.ip_local_port_range"
            )

    # What came of it

    def cpu_scope(self) -> CpuScope | None:
        """What the server's CPU covers: the window or, where no clock allows that, its whole life."""
        if self.ready is None:
            return None
        return "whole_life" if self.ready.cpu_source == "whole_life" else "window"

    def warnings(self) -> list[str]:
        """What does not forbid to count this trial but belongs beside its figures."""
        said = []
        if self.ready is not None and self.ready.cpu_source_reason is not None:
            whole_life = self.cpu_scope() == "whole_life"
            what = "that of the server's whole life, warm-up included" if whole_life else "not exact"
            said.append(f"CPU is {what}: {self.ready.cpu_source_reason}")
        limit = noise.time_wait_limit()
        if self.time_wait_before is not None and self.time_wait_before + self.planned() > limit:
            said.append(
                f"the table of TIME_WAIT sockets was full (net.ipv4.tcp_max_tw_buckets = {limit}): "
                "further ones were dropped at once"
            )
        return said

    def server_cpu(self) -> tuple[float, int] | None:
        """The server's CPU in seconds, and the number of connections that it was used for."""
        if self.before is None or self.after is None:
            return None
        if self.cpu_scope() == "whole_life":
            if self.summary is None:
                return None
            return self.summary.cpu_ns / 1e9, self.summary.tally.connections
        if self.before.cpu_ns is None or self.after.cpu_ns is None:
            return None
        connections = self.after.tally.connections - self.before.tally.connections
        return (self.after.cpu_ns - self.before.cpu_ns) / 1e9, connections

    def noise(self) -> Noise | None:
        """What the machine did beside it."""
        cpu = self.server_cpu()
        if self.samples is None or cpu is None or self.before is None or self.after is None:
            return None
        used = cpu[0]
        if self.summary is not None and self.summary.tally.connections:
            # A clock that stops before a process has quite ended would make the rest of it look foreign.
            # So the window's share of the whole life stands in where it is more.
            in_window = self.after.tally.connections - self.before.tally.connections
            used = max(used, self.summary.cpu_ns / 1e9 * in_window / self.summary.tally.connections)
        return noise.between(*self.samples, server_seconds=used)

    def metrics(self) -> TrialMetrics | None:
        """One number per metric; None when the window was not reached or not closed."""
        cpu, outside = self.server_cpu(), self.noise()
        if self.before is None or self.after is None or not self.loads or cpu is None or outside is None:
            return None
        connections = self.after.tally.connections - self.before.tally.connections
        elapsed = elapsed_seconds(self.loads)
        workers = self.worker_connections()
        switches = self.summary.voluntary_switches if self.summary else None
        all_connections = self.summary.tally.connections if self.summary else 0
        return dict(
            connections=connections,
            requests=sum(load.requests for load in self.loads),
            server_cpu_seconds=cpu[0],
            server_cpu_per_connection=cpu[0] / cpu[1] if cpu[1] else None,
            client_cpu_seconds=sum(load.user_ns + load.system_ns for load in self.loads) / 1e9,
            machine_cpu_seconds=outside.machine_busy_seconds,
            elapsed_seconds=elapsed,
            connections_per_second=connections / elapsed if elapsed > 0 else 0.0,
            voluntary_switches_per_connection=(
                switches / all_connections if switches is not None and all_connections else None
            ),
            clients_per_worker_sd=statistics.pstdev(workers) if workers else None,
            clients_per_worker_min=min(workers) if workers else None,
            clients_per_worker_max=max(workers) if workers else None,
            listen_drops=self.after.listen_drops - self.before.listen_drops,
        )

    def worker_connections(self) -> list[int] | None:
        """Connections of each pool worker in the window."""
        if self.before is None or self.after is None:
            return None
        return workers_in_window(self.before.workers, self.after.workers)

    def missing(self) -> str:
        """In words, what `metrics` would have needed and the trial does not have."""
        if self.before is None:
            return "it was not reached"
        if self.after is None or self.samples is None:
            return "it was not closed"
        if not self.loads:
            return "there was no load in it"
        if self.server_cpu() is None:
            return "the engine did not tell the server's CPU time"
        return "the engine gave too little to tell its figures"

    def faults(self) -> list[str]:
        """Everything that forbids to count this trial, in the order in which one would look for a cause."""
        return [*self._load_faults(), *self._server_faults(), *self._tally_faults()]

    def _load_faults(self) -> Iterator[str]:
        for what, results in (("warm-up", self.warm_up), ("load", self.loads)):
            for result in results:
                errors = ", ".join(f"{count} {kind}" for kind, count in result.errors.items() if count)
                if errors:
                    first = f" (first: {result.first_error})" if result.first_error else ""
                    yield f"{what}: errors: {errors}{first}"
                if result.interrupted:
                    yield f"{what}: interrupted"
                if result.children_lost:
                    yield f"{what}: {result.children_lost} client processes died"
                if result.requests != result.expected_requests:
                    yield f"{what}: {result.requests} right replies of {result.expected_requests}"

    def _server_faults(self) -> Iterator[str]:
        last = self.summary or self.after
        if last is not None:
            errors = ", ".join(f"{count} {kind}" for kind, count in last.tally.errors.items() if count)
            if errors:
                yield f"server: errors: {errors}"
            if last.tally.workers_lost:
                yield f"server: {last.tally.workers_lost} workers died"
        if self.summary is not None and self.summary.died:
            yield f"server: {self.summary.died}"
        if self.before is not None and self.after is not None:
            drops = self.after.listen_drops - self.before.listen_drops
            if drops > 0:
                yield (
                    f"listen queue overflowed: {drops} connections dropped; raise server.settings.backlog "
                    "or net.core.somaxconn"
                )

    def _tally_faults(self) -> Iterator[str]:
        """The two ends must have counted the same."""
        if self.before is None or self.after is None or not self.loads:
            return
        served = self.after.tally.requests - self.before.tally.requests
        asked = sum(load.requests for load in self.loads)
        if served != asked:
            yield f"server counted {served} requests in the window, its clients {asked}"
        accepted = self.after.tally.connections - self.before.tally.connections
        opened = sum(load.connections for load in self.loads)
        if accepted != opened:
            yield f"server counted {accepted} connections in the window, its clients {opened}"
        planned = self.study.load.requests_per_trial
        expected = sum(load.expected_requests for load in self.loads)
        if expected != planned:
            yield f"the clients planned {expected} requests, the study {planned}"


def settle(server: Server) -> Snapshot:
    """Waits until the server has nothing left to do, and returns the snapshot that says so.

    At rest: no connection is open, and over some 20 ms neither the tally moved nor the CPU (where it can be
    read while the server lives). A process that is ready to run but gets no CPU stands still too; the
    connection that it still has to close tells it from one that is done. What a lost worker had open is never
    closed: then standing still is enough, the trial is invalid anyway. Raises `EngineError` when that does
    not come about within two seconds.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    earlier = server.snapshot()
    while True:
        time.sleep(SETTLE_INTERVAL_SECONDS)
        now = server.snapshot()
        used = (now.cpu_ns or 0) - (earlier.cpu_ns or 0)
        open_now = now.tally.connections - now.tally.closed
        done = open_now == 0 or now.tally.workers_lost > 0
        if done and used <= STILL_CPU_NS and now.tally == earlier.tally:
            return now
        if time.monotonic() > deadline:
            raise EngineError(
                f"server did not come to rest within {SETTLE_SECONDS:g} s: {used / 1e6:.3f} ms of CPU "
                f"in the last {SETTLE_INTERVAL_SECONDS * 1000:g} ms, {open_now} connections open"
            )
        earlier = now


def warm_up_settings(load: LoadPlan) -> dict[str, SettingValue] | None:
    """The load's settings for one process that makes about `load.warm_up_connections`; None for 0.

    The last of the settings that make up the number of requests is changed, and rounded up.
    """
    if load.warm_up_connections <= 0:
        return None
    *others, last = load.requests
    each = math.prod(int(load.settings[name]) for name in others)
    return {**load.settings, last: math.ceil(load.warm_up_connections / each)}


def elapsed_seconds(loads: Sequence[LoadResult]) -> float:
    """From the first client's start to the last client's end."""
    first = min(load.started_monotonic_ns for load in loads)
    return (max(load.ended_monotonic_ns for load in loads) - first) / 1e9


def workers_in_window(before: Sequence[int] | None, after: Sequence[int] | None) -> list[int] | None:
    """Connections of each pool worker between two snapshots; None without a pool.

    A slot that came later (a replaced worker's) starts from 0.
    """
    if before is None or after is None:
        return None
    earlier = [*before, *[0] * (len(after) - len(before))]
    return [now - then for now, then in zip(after, earlier, strict=False)]
