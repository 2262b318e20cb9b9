"""One trial: a fresh server, a warm-up, a measured window; or a server and its clients over their whole
lives.

The window is between two snapshots of the idle server. Work that a request leaves behind is inside, work left
by the warm-up is outside. A load that ends by time reports when its window begins and ends; the snapshots are
taken at these moments. `observation` computes the figures.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from thunderherd.engine.client import (
    EngineError,
    LoadProcess,
    OwnServer,
    Place,
    Sampling,
    Server,
    start_load,
    start_together,
)
from thunderherd.engine.lines import LoadResult, Ready, Snapshot
from thunderherd.engine.own_load import OwnLoad
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.labs import USUAL
from thunderherd.labs.kind import Site
from thunderherd.records.summary import TrialRecord
from thunderherd.study.checks.machine import ports_allowed
from thunderherd.study.file.placeholders import HOST, PORT, SECOND_PORT, filled
from thunderherd.study.loading import Contender, LoadPlan, Study
from thunderherd.study.resolved import OwnProgram
from thunderherd.text.figures import count
from thunderherd.trial.faults import faults_of
from thunderherd.trial.folder import filled_in
from thunderherd.trial.listener_holders import holders_of_listener
from thunderherd.trial.load_validity import validity_warnings
from thunderherd.trial.observation import Observation
from thunderherd.trial.runnable import runnable_ns

SETTLE_INTERVAL_SECONDS = 0.02
"""The time between two snapshots that must agree."""
SETTLE_SECONDS = 2.0
"""Time limit for a server to become idle."""
OWN_SERVER_SETTLE_SECONDS = 0.5
"""The same for a server that is not ours, which is then measured all the same."""
BUSY_SHARE, BUSY_SECONDS = 0.5, 0.1
"""A server without clients that is runnable for more than this share of so much time busy-polls."""
NOT_IDLE = "did not become idle"
STILL_CPU_NS = 20_000
"""CPU time of an idle server in an interval: a thousandth of it, for a timer or two."""
LOAD_SECONDS = 60.0
SECONDS_A_REQUEST = 0.05
"""A load is given up after LOAD_SECONDS plus this much for each of its requests, or plus its duration if it
ends by time."""
LAST_TENTH = 0.1
"""The last part of a window, in which counters that report one moment are read."""


def run_trial(
    study: Study,
    contender: Contender,
    *,
    block: int,
    position: int,
    seed: int,
    attempt: int = 1,
    engine: Path | None = None,
    site: Site | None = None,
    profiles: ProfileFiles | None = None,
) -> TrialRecord:
    """Run one trial and return its record, valid or with the reasons why not. Main thread only.

    `site` is that of the contender's lab; the default is where this process runs. With `profiles`, both sides
    are sampled instead of counted; a whole-life trial then has no figures.

    Raises `UserError` only if another attempt could not succeed either (the engine refuses a setting).
    """
    began = time.monotonic()
    started = datetime.now().astimezone().isoformat(timespec="milliseconds")
    measure, site = study.measure, site or Site(USUAL, engine)
    seen = Observation(
        contender,
        measure.counters,
        frozenset(measure.states),
        overload_counts=measure.overload == "counts",
        hosts=site.hosts(),
        load_hosts=[each.host for each in site.clients],
    )
    trial = _Trial(contender, measure.counters_asked, site, seen, profiles)
    try:
        if seen.is_whole_life:
            trial.run_whole_life()
        else:
            trial.run_window()
        if profiles:
            profiles.fetch()
    except EngineError as error:
        seen.reasons.append(error.reason)
    metrics = seen.metrics()
    reasons = [*seen.reasons, *faults_of(seen)]
    if metrics is None and not reasons and not (profiles and seen.is_whole_life):
        reasons.append(f"the window was not measured: {seen.missing()}")
    timed = seen.before is not seen.rest_before
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
        warnings=[*seen.warnings(), *validity_warnings(seen)],
        trial=contender.trial,
        cpu_scope=seen.cpu_scope(),
        ready=seen.ready,
        rest_before=seen.rest_before if timed else None,
        before=seen.before,
        during=seen.during,
        after=seen.after,
        rest_after=seen.rest_after if timed else None,
        summary=seen.summary,
        loads=seen.loads,
        warm_up=seen.warm_up,
        marks=seen.marks,
        server_life=seen.server_life,
        client_lives=seen.client_lives,
        noise=seen.noise(),
        hosts=seen.of_hosts(),
        start_skew_seconds=seen.start_skew_seconds(),
        time_wait_before=seen.time_wait_before,
        metrics=metrics,
        worker_connections=seen.workers() if metrics is not None else None,
    )


@dataclass(frozen=True)
class ProfileFiles:
    """The sampling of a trial, and the existing directory for its call stacks."""

    folder: Path
    frequency: int
    event: str
    places: dict[Path, Place] = field(default_factory=dict)
    """Where each file is written."""

    @property
    def server(self) -> Path:
        """The file of the server."""
        return self.folder / "server.jsonl"

    def load(self, number: int) -> Path:
        """Return the file of a load process, numbered from 0."""
        return self.folder / f"load-{number}.jsonl"

    def sampling(self, file: Path, place: Place) -> Sampling:
        """Return the sampling of a process at a place that has this file."""
        self.places[file] = place
        return Sampling(place.output(file), self.frequency, self.event)

    def fetch(self) -> None:
        """Bring the files of hosts to this machine."""
        for file, place in self.places.items():
            place.fetch(file)

    def ahead_ns(self, file: Path) -> int:
        """Return how far the clock of a file is ahead of this machine's."""
        return self.places[file].time_there(0) if file in self.places else 0


class _Trial:
    """Runs a contender and records the observations."""

    def __init__(
        self,
        contender: Contender,
        counters: Sequence[str],
        site: Site,
        seen: Observation,
        profiles: ProfileFiles | None,
    ) -> None:
        self.contender, self.counters, self.site, self.seen, self.profiles = (
            contender, counters, site, seen, profiles,
        )  # fmt: skip
        self.second_port = ""
        self.busy: list[bool] = []

    def run_window(self) -> None:
        """Run a trial with a window, from the fork of the server to the account of its life."""
        seen, load = self.seen, self.contender.load
        with self._server() as server:
            seen.ready = server.ready
            self._count_ports(server.ready)
            warm_up = warm_up_settings(load)
            if warm_up is not None:
                with self._started(server.ready.address, [warm_up]) as running:
                    seen.warm_up = self._results(running)
            self._settled(server)
            quiet = self.site.samples(server.ready)
            try:
                seen.rest_before = seen.before = server.snapshot()
                with self._measured(server.ready.address) as running:
                    if load.has_window:
                        self._snapshots_at_marks(server, running)
                    seen.loads = self._results(running)
                seen.reasons += self._unreached(server.ready.address)
                seen.rest_after = self._settled(server)
            finally:
                # If a load failed, a CPU quota may be the reason.
                seen.samples = (quiet, self.site.samples(server.ready))
            if self.busy and all(self.busy):
                seen.ready = server.ready.model_copy(update={"spins": True})
            if not load.has_window:
                seen.after = seen.rest_after
            if server.ready.server_pid is not None:
                seen.listener_holders = self.site.server.ask(
                    holders_of_listener, server.ready.server_pid, server.ready.address
                )
            seen.summary = server.stop()

    def run_whole_life(self) -> None:
        """Run a trial without warm-up; server and clients are counted from exec to exit."""
        seen = self.seen
        quiet = self.site.samples()
        with self._server() as server:
            seen.ready = server.ready
            self._count_ports(server.ready)
            with self._started(server.ready.address, self._clients(), sampled=True) as running:
                seen.loads = self._results(running)
                seen.client_lives = [client.life for client in running if client.life is not None]
            seen.summary = server.stop()
            seen.server_life = server.life
        seen.samples = (quiet, self.site.samples())

    def _unreached(self, address: str) -> list[str]:
        """Return why load processes could not connect, as far as it is known."""
        clients = [self._client_place(number) for number in range(len(self.seen.loads))]
        failed = {
            client.host: client
            for client, each in zip(clients, self.seen.loads, strict=True)
            if each.tally.connections == 0 and each.tally.errors
        }
        return [why for each in failed.values() if (why := self.site.why_unreached(each, address))]

    def _settled(self, server: Server | OwnServer) -> Snapshot:
        """Return the snapshot of an idle server.

        If neither end is ours, add to `busy` whether the server is runnable most of the time.
        """
        found, pid = settle(server), server.ready.server_pid
        if isinstance(server, OwnServer) and self.contender.load.generator is not None and pid is not None:
            before, began_ns = self.site.server.ask(runnable_ns, pid), time.monotonic_ns()
            time.sleep(BUSY_SECONDS)
            lasted_ns = time.monotonic_ns() - began_ns
            self.busy.append(self.site.server.ask(runnable_ns, pid) - before > BUSY_SHARE * lasted_ns)
        return found

    @contextlib.contextmanager
    def _server(self) -> Iterator[Server | OwnServer]:
        """Start the server, and end it when the block ends."""
        with contextlib.ExitStack() as held:
            own_server = self.contender.own_server
            server: Server | OwnServer = self._own_server(own_server, held) if own_server else self._ours()
            held.enter_context(server)
            yield server

    def _ours(self) -> Server:
        contender = self.contender
        return Server(
            contender.design,
            workload=contender.workload,
            primitive=contender.primitive,
            receive=contender.receive,
            settings=contender.settings,
            cpus=contender.lab.server_cpus,
            listen=self.site.listen,
            user=self.contender.lab.user,
            counters=self.counters,
            whole_life=self.counts_lives,
            sampling=self._sampling(self.site.server),
            place=self.site.server,
        )

    def _own_server(self, server: OwnProgram, held: contextlib.ExitStack) -> OwnServer:
        """Return a server that is not ours. Its folder lasts until `held` is closed."""
        placeholders = self.contender.load.placeholders
        place, user = self.site.server, self.contender.lab.user
        made = held.enter_context(filled_in(server, self.site.listen, placeholders, user, place))
        self.second_port = made.second_port
        return OwnServer(
            made.command,
            name=self.contender.base,
            address=server.address or made.address,
            ready_line=server.ready_line,
            directory=server.directory,
            environment=made.environment,
            cpus=self.contender.lab.server_cpus if server.command else None,
            user=user,
            counters=self.counters,
            sampling=self._sampling(place) if server.command else None,
            place=place,
        )

    def _sampling(self, place: Place, load: int | None = None) -> Sampling | None:
        """Return the sampling of the server, or of a load process by its number; None if there is none."""
        if self.profiles is None:
            return None
        file = self.profiles.server if load is None else self.profiles.load(load)
        return self.profiles.sampling(file, place)

    @property
    def counts_lives(self) -> bool:
        """True if both sides are counted from exec to exit."""
        return self.seen.is_whole_life and self.profiles is None

    def _client_place(self, number: int) -> Place:
        """Return where a load process runs, numbered from 0."""
        return self.site.clients[number % len(self.site.clients)]

    def _clients(self) -> list[Mapping[str, SettingValue]]:
        return [*self.contender.load.each_settings]

    @contextlib.contextmanager
    def _measured(self, address: str) -> Iterator[Sequence[LoadProcess | OwnLoad]]:
        """Start the clients of the window: ours, or a load generator that is not ours."""
        load = self.contender.load
        if load.generator is None:
            with self._started(address, self._clients(), sampled=True) as running:
                yield running
            return
        host, _, port = address.rpartition(":")
        values = {**load.placeholders, HOST: host, PORT: port, SECOND_PORT: self.second_port}
        with contextlib.ExitStack() as started:
            generators: list[OwnLoad] = []
            for number in range(load.processes):
                generators.append(
                    OwnLoad(
                        [filled(word, values) for word in load.generator.command],
                        parser=load.parser or "",
                        workload=self.contender.workload,
                        address=address,
                        directory=load.generator.directory,
                        environment={
                            name: filled(value, values) for name, value in load.generator.environment.items()
                        },
                        user=self.contender.lab.user,
                        cpus=self.contender.lab.client_cpus,
                        counters=self.counters,
                        sampling=self._sampling(self._client_place(number), number),
                        place=self._client_place(number),
                    )
                )
                started.callback(generators[-1].end)
            yield generators

    @contextlib.contextmanager
    def _started(
        self, address: str, clients: Sequence[Mapping[str, SettingValue]], *, sampled: bool = False
    ) -> Iterator[list[LoadProcess]]:
        """Start all clients at once; end those still running when the block ends.

        On several hosts they first open their connections, and then agree on a start.
        """
        together = len(clients) > 1 and len(self.site.clients) > 1 and not self.counts_lives
        load = self.contender.load
        with contextlib.ExitStack() as started:
            running: list[LoadProcess] = []
            for number, settings in enumerate(clients):
                place = self._client_place(number)
                running.append(
                    start_load(
                        self.contender.workload,
                        address,
                        kind=load.kind,
                        primitive=load.own_way.get("primitive"),
                        receive=load.own_way.get("receive"),
                        settings=load.located(settings, place.file),
                        cpus=self.contender.lab.client_cpus,
                        user=self.contender.lab.user,
                        counters=self.counters,
                        whole_life=self.counts_lives,
                        sampling=self._sampling(place, number) if sampled else None,
                        awaits_start=together,
                        place=place,
                    )
                )
                started.callback(running[-1].end)
            if together:
                deadline = time.monotonic() + longest_seconds(load)
                for each in running:
                    each.connected(deadline - time.monotonic())
                self.seen.agreed_start = sampled
                start_together(running)
            yield running

    def _results(self, running: Sequence[LoadProcess | OwnLoad]) -> list[LoadResult]:
        deadline = time.monotonic() + longest_seconds(self.contender.load)
        return [client.wait(deadline - time.monotonic()) for client in running]

    def _snapshots_at_marks(
        self, server: Server | OwnServer, running: Sequence[LoadProcess | OwnLoad]
    ) -> None:
        """Take the snapshots at the edges of the window of a load that ends by time.

        The window begins when all clients count and ends when the first stops counting.
        """
        seconds = longest_seconds(self.contender.load)
        ours = [each for each in running if isinstance(each, LoadProcess)]
        begun = [client.mark(seconds) for client in ours]
        if None in begun:
            return
        self.seen.before = server.snapshot()
        if self.seen.states:
            self._look_at_states(server, max(mark.monotonic_ns for mark in begun if mark is not None))
        ended = ours[0].mark(seconds)
        if ended is None:
            return
        self.seen.after = server.snapshot()
        self.seen.marks = [mark for mark in (*begun, ended) if mark is not None]

    def _look_at_states(self, server: Server | OwnServer, began_ns: int) -> None:
        """Take a snapshot in the last tenth of the window: at its end the clients close their
        connections."""
        load = self.contender.load
        lasts_ns = int(load.settings[load.duration]) if load.duration else 0
        # The engine's marks are on CLOCK_MONOTONIC, too.
        left_ns = began_ns + lasts_ns * (1 - LAST_TENTH) - time.monotonic_ns()
        time.sleep(max(0.0, left_ns / 1e9))
        self.seen.during = server.snapshot()

    def _count_ports(self, ready: Ready) -> None:
        """Mark the trial invalid if ports still used by earlier connections would slow it down."""
        self.seen.time_wait_before = self.site.time_wait(ready)
        self.seen.time_wait_limit = self.site.time_wait_limit()
        ports, load = self.site.local_ports(), self.contender.load
        if ports is None:
            return
        planned = self.seen.planned_connections()
        waiting = self.site.time_wait_in_the_way(ready)
        allowed = ports_allowed(ports * load.sources)
        if waiting + planned > allowed:
            self.seen.reasons.append(
                f"{waiting} sockets in TIME_WAIT and {planned} planned connections to one port are more than "
                f"half of the local ports ({allowed}): lower "
                f"load.settings.{load.connections_by[-1] if load.connections_by else 'rate'}, raise "
                "load.settings.source_addresses, or widen net.ipv4.ip_local_port_range"
            )


def longest_seconds(load: LoadPlan) -> float:
    """Return how long a load may take before it is given up."""
    if load.is_timed and load.duration is not None:
        lasts = sum(int(load.settings.get(name, 0)) for name in (load.duration, load.warm_up) if name)
        return LOAD_SECONDS + lasts / 1e9
    return LOAD_SECONDS + SECONDS_A_REQUEST * (load.requests_per_trial or 0)


def settle(server: Server | OwnServer) -> Snapshot:
    """Wait until the server is idle and return its snapshot.

    Idle: no connection is open, and over some 20 ms neither the tally nor the CPU time changed. CPU time is
    ignored if it cannot be read while the server lives, or if the server busy-polls.

    A process that is ready to run but gets no CPU also uses none; its connection, still open, distinguishes
    it from an idle one. Connections of a lost worker are never closed. The CPU time then decides alone; the
    trial is invalid anyway. Raises `EngineError` after two seconds.

    A server that is not ours has no tally, and may have work of its own, such as collecting garbage: only its
    CPU time is looked at, and after half a second no longer.
    """
    if isinstance(server, OwnServer):
        return _settle_own_server(server)
    deadline = time.monotonic() + SETTLE_SECONDS
    earlier = server.snapshot()
    while True:
        time.sleep(SETTLE_INTERVAL_SECONDS)
        now = server.snapshot()
        used = (now.cpu_ns or 0) - (earlier.cpu_ns or 0)
        assert now.tally is not None, "our servers count"
        open_now = now.tally.connections - now.tally.closed
        done = open_now == 0 or now.tally.workers_lost > 0
        still = used <= STILL_CPU_NS or server.ready.spins
        if done and still and now.tally == earlier.tally:
            return now
        if time.monotonic() > deadline:
            raise EngineError(
                f"server {NOT_IDLE} within {SETTLE_SECONDS:g} s: {used / 1e6:.3f} ms of CPU "
                f"in the last {SETTLE_INTERVAL_SECONDS * 1000:g} ms, {count(open_now, 'connection')} open"
            )
        earlier = now


def _settle_own_server(server: OwnServer) -> Snapshot:
    deadline = time.monotonic() + OWN_SERVER_SETTLE_SECONDS
    earlier = server.snapshot()
    while True:
        time.sleep(SETTLE_INTERVAL_SECONDS)
        now = server.snapshot()
        if (now.cpu_ns or 0) - (earlier.cpu_ns or 0) <= STILL_CPU_NS or time.monotonic() > deadline:
            return now
        earlier = now


def warm_up_settings(load: LoadPlan) -> dict[str, SettingValue] | None:
    """Return the load's settings for one process that makes about `load.warm_up_connections`; None for 0.

    Changes the last of the settings whose product is the number of requests, rounded up. A load that ends by
    time ends by that number instead.
    """
    if load.warm_up_connections <= 0 or not load.requests:
        return None
    *others, last = load.requests
    each = math.prod(int(load.settings[name]) for name in others)
    untimed = {name: 0 for name in (load.duration, load.warm_up) if name in load.settings}
    return {**load.settings, **untimed, last: math.ceil(load.warm_up_connections / each)}
