"""The shape of one line of `trials.jsonl`, published as docs/generated/reference/trial.schema.json.

Times are in seconds, and each name that is not a plain count includes its unit.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from thunderherd.engine.lines import Life, LoadResult, Mark, Ready, ServerSummary, Snapshot
from thunderherd.metrics.table import METRICS
from thunderherd.statistics.estimates import Record

SchemaNumber = Literal[4]
SCHEMA: SchemaNumber = 4
"""The version of this shape and of that of summary.json."""


class Noise(Record):
    """Other activity of the machine between the two samples around the measured window."""

    steal_share: float = Field(
        description="share of the machine's CPU time that the hypervisor took away (0 to 1)"
    )
    foreign_share: float = Field(
        description="share of the machine's CPU time used by processes outside the trial (0 to 1)"
    )
    wall_seconds: float = Field(description="time between the two samples, seconds")
    machine_busy_seconds: float = Field(description="CPU time of everything on this machine, seconds")
    throttled: int = Field(
        description="how often a CPU quota stopped the control groups of this process or the server"
    )
    throttled_seconds: float = Field(
        default=0.0, description="for how long, seconds, the sum over the CPUs of these groups"
    )
    foreign_uncertainty: float = Field(
        default=0.0,
        description="two standard deviations of `foreign_share`: the machine's CPU clock is sampled",
    )
    softirq_seconds: list[float] = Field(
        default_factory=list,
        description="time in soft interrupts, seconds, by CPU; includes packets of other programs, and "
        "is counted in ticks. Empty: not recorded",
    )
    retransmitted: int | None = Field(
        default=None,
        description="TCP segments retransmitted in the network namespaces of both sides. Null: not over "
        "TCP, or the counts could not be read",
    )
    retransmitted_syns: int | None = Field(
        default=None,
        description="the SYNs among them: before the first, the kernel waits a second for an answer. "
        "Null: not recorded",
    )
    dropped_connections: int | None = Field(
        default=None,
        description="connections that listeners in these network namespaces dropped, mostly because the "
        "queue was full. Null: not recorded",
    )

    @property
    def softirq_rates(self) -> list[float]:
        """Milliseconds in soft interrupts per second, by CPU; empty if they were not recorded."""
        return [round(1e3 * seconds / self.wall_seconds, 3) for seconds in self.softirq_seconds]


class HostOfTrial(Record):
    """A host of a trial whose server and load are on several."""

    host: str = Field(description="address of the host, as the study names it")
    roles: list[Literal["server", "load"]] = Field(description="what runs there")
    clock_ahead_seconds: float = Field(
        description="how far its CLOCK_MONOTONIC was ahead of that of the machine of the lab. Times in this "
        "file are of that machine"
    )
    clock_error_seconds: float = Field(description="by how much that may be wrong")
    noise: Noise | None = Field(
        default=None,
        description="what else the host did during the window; hosts of one machine have the same. Null: "
        "not reached",
    )


TrialMetrics = dict[str, int | float | None]
"""One number per metric, by name. Null: not measured, or not applicable to this contender (it has no pool, no
connection was opened in the window)."""

TrialForm = Literal["window", "whole_life"]
"""window: a warm-up, then a window between two snapshots. whole_life: no warm-up; both sides are counted from
exec to exit."""


class TrialRecord(Record):
    """One line of `trials.jsonl`: a fresh server, a load, and a measured window (or both whole lives)."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    kind: Literal["trial"] = "trial"
    study: str = Field(description="name of the study")
    contender: str = Field(description="name of the contender; at a point of a sweep, BASE@SWEEP=POINT")
    block: int = Field(description="number of the block, from 1")
    position: int = Field(description="position in the order of the block, from 1")
    attempt: int = Field(default=1, description="1, or 2 for the repetition of an invalid or noisy trial")
    seed: int = Field(description="seed of the order of trials")
    started: str = Field(description="start of the trial, local time with offset (ISO 8601)")
    wall_seconds: float = Field(
        description="duration of the whole trial, seconds, including set-up and warm-up"
    )
    valid: bool = Field(
        description="whether the trial is valid: every reply was right and both sides' counts agree"
    )
    invalid_reasons: list[str] = Field(description="why the trial is invalid; empty if it is valid")
    warnings: list[str] = Field(default_factory=list, description="caveats of a valid trial's figures")
    trial: TrialForm = Field(
        default="window",
        description="window: a warm-up, then a window between two snapshots; whole_life: both sides are "
        "counted from exec to exit",
    )
    cpu_scope: TrialForm | None = Field(
        default=None,
        description="what server_cpu_seconds covers: the window, or the server's whole life, if its CPU "
        "time cannot be read earlier. Null: the server did not start",
    )
    ready: Ready | None = Field(
        default=None, description="the engine's line when the server was ready. Null: it did not start"
    )
    rest_before: Snapshot | None = Field(
        default=None,
        description="the server's snapshot before a load that ends by time, whose window begins later. "
        "Null: another load, or not reached",
    )
    before: Snapshot | None = Field(
        default=None,
        description="the server's snapshot at the start of the window. Null: a whole-life trial, or not "
        "reached",
    )
    during: Snapshot | None = Field(
        default=None,
        description="the server's snapshot in the last tenth of the window, for counters that report one "
        "moment. Null: the study has none, or not reached",
    )
    after: Snapshot | None = Field(
        default=None,
        description="the server's snapshot at the end of the window. Null: a whole-life trial, or not "
        "reached",
    )
    rest_after: Snapshot | None = Field(
        default=None,
        description="the server's snapshot after a load that ends by time, whose window ended earlier. "
        "Null: another load, or not reached",
    )
    summary: ServerSummary | None = Field(
        default=None, description="the engine's account of the server's whole life. Null: not reached"
    )
    loads: list[LoadResult] = Field(default_factory=list, description="the result of each load process")
    warm_up: list[LoadResult] = Field(
        default_factory=list, description="the result of each load process of the warm-up"
    )
    marks: list[Mark] = Field(
        default_factory=list,
        description="for a load that ends by time, the engine's lines at the edges of the window",
    )
    server_life: Life | None = Field(
        default=None,
        description="of a whole-life trial, what the server used from exec to exit. Null: another trial, "
        "or not reached",
    )
    client_lives: list[Life] = Field(
        default_factory=list,
        description="of a whole-life trial, what each load process used from exec to exit",
    )
    noise: Noise | None = Field(
        default=None,
        description="what else the machine did during the window; of several hosts, amounts are added, and "
        "shares are those of the noisiest. Null: not reached",
    )
    hosts: list[HostOfTrial] = Field(
        default_factory=list,
        exclude_if=lambda hosts: not hosts,
        description="the hosts, that of the server first. Absent: both sides were on this machine",
    )
    start_skew_seconds: float | None = Field(
        default=None,
        exclude_if=lambda skew: skew is None,
        description="the time between the first and the last start of load processes that agreed on a start; "
        "it may be wrong by the errors of the clocks. Absent: they agreed on none",
    )
    time_wait_before: int | None = Field(
        default=None, description="sockets in TIME_WAIT before the trial. Null: not read"
    )
    metrics: TrialMetrics | None = Field(
        default=None,
        description="one number per metric, by name. Null as a whole: the window was not measured. Null "
        "for a metric: not measured, or not applicable to this contender",
        json_schema_extra={
            "properties": {
                each.name: {"description": each.words + (f", {each.unit}" if each.unit else "")}
                for each in METRICS.values()
            }
        },
    )
    worker_connections: list[int] | None = Field(
        default=None,
        description="connections of each worker of the pool in the window. Null: no pool, or not measured",
    )
