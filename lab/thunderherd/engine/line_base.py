"""What the engine's lines have in common, and the methods of some: the base classes of the generated models.

The engine may print more than a model has (unknown keys are ignored), never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field

SchemaNumber = Literal[4]
SCHEMA: SchemaNumber = 4
"""The version of the engine's lines that this lab understands."""

Counters = dict[str, int | None]
"""Counters by name, those with several figures also as `COUNTER.PART`; None: it could not be read."""

CpuSource = Literal["cgroup", "process_clocks", "perf_event", "whole_life"]
Place = Literal["one_cpu", "two_cpus"]
MeasuredBy = Literal["requests", "bytes_to_server", "bytes_to_clients"]

REQUESTS, LAST = "requests", "last_"
"""Among `LoadResult.figures`: the number of valid requests; the prefix of sums over the last one alone."""

PAYLOAD_BYTES, PAYLOAD_NANOSECONDS = "payload_bytes", "payload_ns"
"""Among them: bytes of payload as the workload defines it; the time they took, summed over requests, of which
several may have been in progress at a time."""

PAYLOAD_BEGAN, PAYLOAD_ENDED = "payload_began_ns", "payload_ended_ns"
"""When the payload of the first request began, and when that of the last one ended, by CLOCK_MONOTONIC."""


class EngineLine(BaseModel):
    """A frozen line that tolerates keys which a newer engine adds."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, populate_by_name=True, serialize_by_alias=True
    )


class TallyBase(EngineLine):
    """The methods of a tally."""

    errors: dict[str, int] = Field(default_factory=dict)

    def total_errors(self) -> int:
        """The number of errors of all kinds."""
        return sum(self.errors.values())


class ClosingsBase(EngineLine):
    """The methods of closings."""

    closed_by_load: int
    closed_by_server: int

    @computed_field(  # type: ignore[prop-decorator]
        description="the ends that keep ended connections in TIME_WAIT; none if all were reset"
    )
    @property
    def time_wait(self) -> list[Literal["load", "server"]]:
        """The ends that keep some of them."""
        ends: dict[Literal["load", "server"], int] = {
            "load": self.closed_by_load,
            "server": self.closed_by_server,
        }
        return [end for end, count in ends.items() if count]

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """The closings of several loads."""
        return cls(**{name: sum(getattr(each, name) for each in parts) for name in cls.model_fields})


class MultiplexingBase(EngineLine):
    """The methods of an event that shares the CPU's few counters with others by turns."""

    counted: int
    enabled_ns: int
    running_ns: int

    @property
    def share(self) -> float:
        """The share of the time in which it was counted; 1 if nothing has run."""
        return self.running_ns / self.enabled_ns if self.enabled_ns else 1.0

    @property
    def scaled(self) -> bool:
        """Whether its figure is extrapolated."""
        return self.running_ns < self.enabled_ns

    @property
    def value(self) -> int | None:
        """The count extrapolated to all of the time; None if it was never counted."""
        if not self.scaled:
            return self.counted
        return self.counted * self.enabled_ns // self.running_ns if self.running_ns else None

    def since(self, earlier: Self) -> Self:
        """The count since an earlier reading, which has a share of its own."""
        counted = self.counted - earlier.counted
        enabled, running = self.enabled_ns - earlier.enabled_ns, self.running_ns - earlier.running_ns
        return type(self)(counted=counted, enabled_ns=enabled, running_ns=running)


class Readout(EngineLine):
    """Counters among the keys of a line."""

    counters: Counters
    unavailable: dict[str, str]


class Used(EngineLine):
    """CPU time, switches and faults among the keys of a line."""

    user_ns: int
    system_ns: int
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int


class Account(Used, Readout):
    """A line with both."""


class WindowBase(EngineLine):
    """The methods of a window."""

    started_monotonic_ns: int
    ended_monotonic_ns: int
    requests: int

    @property
    def requests_per_second(self) -> float:
        """Replies per second over the whole window."""
        return 1e9 * self.requests / (self.ended_monotonic_ns - self.started_monotonic_ns)


class LimitPoint(EngineLine):
    """A limit at a place and, if it has sizes, of a size."""

    limit: str
    place: Place
    bytes: int | None = None

    @property
    def point(self) -> tuple[str, Place, int | None]:
        """What identifies it."""
        return self.limit, self.place, self.bytes
