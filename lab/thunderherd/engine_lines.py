"""The engine's lines as Python sees them: one frozen model for each JSON object that the engine prints.

The engine may say more than this (unknown keys are ignored), never less. `schema` must be 1. Times are
integers in nanoseconds, sizes in bytes, everything else a plain count. All tallies and CPU times are
cumulative since the server started: a window is the difference of two snapshots. (`catalogue` has what it
says of itself.)
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1
"""The version of the engine's lines that this laboratory understands."""

CpuSource = Literal["cgroup", "process_clocks", "perf_event", "whole_life"]


class EngineLine(BaseModel):
    """What all lines have in common: frozen, and tolerant of keys that a newer engine adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Tally(EngineLine):
    """What the server counted, over all its processes and threads, lost workers included."""

    connections: int = Field(description="connections accepted")
    closed: int = Field(description="connections closed again")
    requests: int = Field(description="requests answered in full")
    bytes_received: int
    bytes_sent: int
    receive_calls: int
    send_calls: int
    empty_wakeups: int = Field(description="returns from a wait that found nothing to do")
    workers_lost: int = Field(description="workers that died and were not asked to")
    workers_replaced: int
    errors: dict[str, int] = Field(default_factory=dict, description="by kind; kinds never seen are absent")

    def total_errors(self) -> int:
        """All errors of all kinds."""
        return sum(self.errors.values())


class Ready(EngineLine):
    """The server listens and waits. `settings` holds every effective setting by name."""

    line: Literal["ready"] = "ready"
    schema_version: Literal[1] = Field(alias="schema")
    address: str
    port: int
    supervisor_pid: int
    server_pid: int
    design: str
    primitive: str
    workload: str
    settings: dict[str, Any]
    cpu_source: CpuSource
    cpu_source_reason: str | None = Field(default=None, description="why it is no better source than this")
    socket: dict[str, Any] = Field(default_factory=dict)
    cpus: list[int] | None = None

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class Snapshot(EngineLine):
    """Where the server stands now."""

    line: Literal["snapshot"] = "snapshot"
    monotonic_ns: int = Field(description="CLOCK_MONOTONIC when it was taken")
    cpu_ns: int | None = Field(description="CPU of the server tree; null: only the whole life is known")
    tally: Tally
    workers: list[int] | None = Field(default=None, description="connections of each pool worker")
    listen_drops: int = Field(description="connections dropped: the listen queue was full")
    listen_queue: int = Field(default=0, description="connections waiting to be accepted")


class UserSystem(EngineLine):
    """CPU time in user mode and in the kernel, nanoseconds."""

    user_ns: int
    system_ns: int


class ServerSummary(EngineLine):
    """The account of the server's whole life, printed after the last of its processes was reaped."""

    line: Literal["summary"] = "summary"
    cpu_ns: int
    user_ns: int
    system_ns: int
    server_process: UserSystem | None = None
    dead_children: UserSystem | None = None
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    max_resident_kib: int
    tally: Tally
    workers: list[int] | None = None
    listen_drops: int
    died: str | None = Field(default=None, description="how the server died, where it was not asked to stop")


class LoadResult(EngineLine):
    """What one load process (a client with its children) did, all children reaped."""

    line: Literal["load"] = "load"
    schema_version: Literal[1] = Field(alias="schema")
    workload: str
    load: str
    settings: dict[str, Any]
    expected_requests: int
    requests: int = Field(description="replies that came in full and were right")
    connections: int
    bytes_received: int
    elapsed_ns: int
    started_monotonic_ns: int
    ended_monotonic_ns: int
    user_ns: int
    system_ns: int
    voluntary_switches: int = 0
    errors: dict[str, int] = Field(default_factory=dict)
    children_lost: int = 0
    first_error: str | None = None
    interrupted: bool = False

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)
