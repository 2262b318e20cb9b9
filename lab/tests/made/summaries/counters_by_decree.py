"""A stand-in for the processor's counters: the counts come from a table, not from a CPU.

It writes the lines of an engine for trials that never happened: windows and whole lives, with readings of
the counters that the study asks for. From there on all is the program's own: `Observation` makes metrics of
the lines, `summarise` a summary of the trials, and claims are judged. So what a machine without such counters
cannot show is shown here: that the same code decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from made.summaries import summary as synthetic_summary
from thunderherd.engine.lines import (
    Life,
    LoadResult,
    Multiplexing,
    Ready,
    ServerSummary,
    Snapshot,
    Tally,
    Window,
)
from thunderherd.judge.summary.summarise import summarise
from thunderherd.machine.noise import Sample
from thunderherd.machine.tcp_sockets import TcpCounts
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.study.loading import Contender, Study
from thunderherd.trial.observation import Observation

SECOND = 1_000_000_000
STARTED = "2025-01-02T03:04:05+00:00"
OF_A_PROCESSOR = (
    "cpu_cycles", "instructions", "bus_cycles", "branch_instructions", "branch_misses", "cache_misses",
    "llc_load_misses", "l1_dcache_load_misses",
)  # fmt: skip

Decree = Callable[[Contender, str, str], float]
"""How much a side ("server", "client") of a contender has of a counter, in the counter's own unit."""


@dataclass
class Counters:
    """The invented machine: `decree` gives the counts. `hidden` are counters that it does not
    have, and why; `shares` those that are counted for so much of the time alone. `requests` are those of a
    trial, of which each has `payload` bytes."""

    decree: Decree
    hidden: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    requests: Callable[[Contender], int] = lambda contender: 1000
    payload: Callable[[Contender], int] = lambda contender: 4096
    seconds: Callable[[Contender], float] = lambda contender: 0.35
    noise: float = 0.02
    """Variation of the counts from trial to trial, as a share."""

    def summary(self, study: Study, seed: int = 5) -> Summary:
        """What the program makes of a run on this machine."""
        return summarise(
            study, self.trials(study, seed), synthetic_summary.MACHINE, seed=seed, started=STARTED
        )

    def trials(self, study: Study, seed: int = 5) -> list[TrialRecord]:
        """Every trial of every block."""
        generator = np.random.default_rng(seed)
        return [
            self.trial(study, contender, block, position, float(np.exp(generator.normal(0, self.noise))))
            for block in range(1, study.looks[0].blocks + 1)
            for position, contender in enumerate(study.contenders, start=1)
        ]

    def trial(
        self, study: Study, contender: Contender, block: int, position: int, noise: float
    ) -> TrialRecord:
        """One that is valid."""
        seen = self.observation(study, contender, noise)
        return TrialRecord.model_construct(
            study=study.name, contender=contender.name, block=block, position=position, attempt=1, seed=5,
            started=STARTED, wall_seconds=1.0, valid=True, invalid_reasons=[], warnings=seen.warnings(),
            trial=contender.trial, cpu_scope=seen.cpu_scope(), ready=seen.ready, summary=seen.summary,
            rest_before=seen.rest_before, before=seen.before, during=None, after=seen.after,
            rest_after=seen.rest_after, loads=seen.loads, warm_up=[], marks=[], server_life=seen.server_life,
            client_lives=seen.client_lives, noise=seen.noise(), time_wait_before=0, metrics=seen.metrics(),
            worker_connections=None,
        )  # fmt: skip

    def observation(self, study: Study, contender: Contender, noise: float) -> Observation:
        """What such a trial would have seen."""
        measure = study.measure
        names = measure.counters_asked
        seen = Observation(contender, measure.counters, frozenset(measure.states))
        requests, elapsed = self.requests(contender), int(self.seconds(contender) * SECOND)
        tally = _tally(requests, self.payload(contender))
        told = {name: self.hidden.get(name) for name in names}
        server = self._readout(contender, "server", names, noise)
        client = self._readout(contender, "client", names, noise)
        used = {
            "user_ns": 1_000_000, "system_ns": 2_000_000, "voluntary_switches": requests,
            "involuntary_switches": 0, "minor_faults": 10, "major_faults": 0,
        }  # fmt: skip
        seen.ready = Ready.model_construct(counters=told, cpu_source="cgroup", cpu_source_reason=None)
        seen.summary = ServerSummary.model_construct(
            **used, **_nothing(), cpu_ns=3_000_000, tally=tally, workers=None, listen_drops=0,
            connection=None,
        )  # fmt: skip
        whole = seen.is_whole_life
        window = Window(
            started_monotonic_ns=SECOND, ended_monotonic_ns=SECOND + elapsed, requests=requests, connections=0
        )
        figures = {
            "payload_bytes": requests * self.payload(contender),
            "payload_ns": elapsed,
            "requests": requests,
        }
        seen.loads = [
            LoadResult.model_construct(
                **used, **(_nothing() if whole else client), tally=tally, elapsed_ns=elapsed,
                measured_by="requests", started_monotonic_ns=SECOND, ended_monotonic_ns=SECOND + elapsed,
                connection=None, latency=None, window=None if whole else window, figures=figures,
            )
        ]  # fmt: skip
        if whole:
            seen.server_life = Life.model_construct(**used, **server, elapsed_ns=2 * elapsed, status=0)
            seen.client_lives = [Life.model_construct(**used, **client, elapsed_ns=elapsed, status=0)]
        else:
            seen.before = seen.rest_before = _snapshot(SECOND, 0, _tally(0, 0), _zero(server))
            seen.after = seen.rest_after = _snapshot(SECOND + elapsed, 3_000_000, tally, server)
        seen.samples = ([_sample(0.0)], [_sample(1.0)])
        return seen

    def _readout(self, contender: Contender, side: str, names: list[str], noise: float) -> dict[str, Any]:
        """Readings of a side's counters, as a line has them."""
        counters: dict[str, int | None] = {}
        multiplexing: dict[str, Multiplexing] = {}
        for name in names:
            if name in self.hidden:
                counters[name] = None
                continue
            counters[name] = round(self.decree(contender, side, name) * noise)
            if name in OF_A_PROCESSOR or name in self.shares:
                running = round(SECOND * self.shares.get(name, 1.0))
                counted = round((counters[name] or 0) * running / SECOND)
                multiplexing[name] = Multiplexing(counted=counted, enabled_ns=SECOND, running_ns=running)
        unavailable = {name: self.hidden[name] for name in names if name in self.hidden}
        return {"counters": counters, "multiplexing": multiplexing, "unavailable": unavailable}


def _nothing() -> dict[str, Any]:
    """The readings of a line without counters; those of a whole life are in its own line."""
    return {"counters": {}, "multiplexing": {}, "unavailable": {}}


def _zero(readout: Mapping[str, Any]) -> dict[str, Any]:
    """The same before anything was counted."""
    none = Multiplexing(counted=0, enabled_ns=0, running_ns=0)
    return {
        "counters": {name: None if value is None else 0 for name, value in readout["counters"].items()},
        "multiplexing": dict.fromkeys(readout["multiplexing"], none),
        "unavailable": readout["unavailable"],
    }


def _snapshot(at_ns: int, cpu_ns: int, tally: Tally, readout: Mapping[str, Any]) -> Snapshot:
    return Snapshot.model_construct(
        monotonic_ns=at_ns,
        cpu_ns=cpu_ns,
        tally=tally,
        workers=None,
        listen_drops=0,
        listen_queue=0,
        **readout,
    )


def _tally(requests: int, payload: int) -> Tally:
    return Tally(
        connections=1 if requests else 0, closed=1 if requests else 0, requests=requests,
        bytes_received=requests * payload, bytes_sent=requests * payload, bytes_not_copied=0,
        receive_calls=requests, send_calls=requests, completions=0, completions_copied=0, empty_wakeups=0,
        workers_lost=0, workers_replaced=0,
    )  # fmt: skip


def _sample(at: float) -> Sample:
    return Sample(
        monotonic=at, cpus=2, tasks=at, interrupts=0.0, steal=0.0, own=at, children=0.0, supervisor=0.0,
        throttled=0, softirqs=[0.0, 0.0], tcp=TcpCounts(0, 0, 0),
    )  # fmt: skip
