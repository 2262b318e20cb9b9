"""Base classes of the generated models of the engine's lines, with their methods.

The engine may print more keys than a model has (unknown keys are ignored), never fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field

SchemaNumber = Literal[4]
SCHEMA: SchemaNumber = 4
"""The version of the engine's lines that this lab reads."""

Counters = dict[str, int | None]
"""Counters by name, parts as `COUNTER.PART`; None if it could not be read."""

Place = Literal["one_cpu", "two_cpus"]
MeasuredBy = Literal["requests", "bytes_to_server", "bytes_to_clients"]

REQUESTS, LAST = "requests", "last_"
"""Keys of `LoadResult.figures`: the number of valid requests; the prefix of figures of the last one alone."""

PAYLOAD_BYTES, PAYLOAD_NANOSECONDS = "payload_bytes", "payload_ns"
"""Keys of `LoadResult.figures`: bytes of payload as the workload defines it, and their time.

The time is summed over requests, of which several may be in progress at a time."""

PAYLOAD_BEGAN, PAYLOAD_ENDED = "payload_began_ns", "payload_ended_ns"
"""Keys of `LoadResult.figures`: when the first request's payload began, and the last one's ended.

Both are times of CLOCK_MONOTONIC."""


class EngineLine(BaseModel):
    """A frozen line that ignores keys of a newer engine."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, populate_by_name=True, serialize_by_alias=True
    )


class TallyBase(EngineLine):
    """The methods of a tally."""

    errors: dict[str, int] = Field(default_factory=dict)

    def total_errors(self) -> int:
        """Return the number of errors of all kinds."""
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
        """The ends that keep ended connections in TIME_WAIT."""
        ends: dict[Literal["load", "server"], int] = {
            "load": self.closed_by_load,
            "server": self.closed_by_server,
        }
        return [end for end, count in ends.items() if count]

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Add the closings of several loads."""
        return cls(**{name: sum(getattr(each, name) for each in parts) for name in cls.model_fields})


class MultiplexingBase(EngineLine):
    """The methods of an event that takes turns with others on the CPU's few counters."""

    counted: int
    enabled_ns: int
    running_ns: int

    @property
    def share(self) -> float:
        """The share of the time in which it was counted; 1 if nothing has run."""
        return self.running_ns / self.enabled_ns if self.enabled_ns else 1.0

    @property
    def scaled(self) -> bool:
        """True if its figure is extrapolated."""
        return self.running_ns < self.enabled_ns

    @property
    def value(self) -> int | None:
        """The count extrapolated to all of the time; None if it was never counted."""
        if not self.scaled:
            return self.counted
        return self.counted * self.enabled_ns // self.running_ns if self.running_ns else None

    def since(self, earlier: Self) -> Self:
        """Return the count since an earlier reading, with its own share of the time."""
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
    """Counters, CPU time, switches and faults among the keys of a line."""


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
    """A limit at a place and, if the limit has sizes, of one size."""

    limit: str
    place: Place
    bytes: int | None = None

    @property
    def point(self) -> tuple[str, Place, int | None]:
        """Its key: the limit, the place and the size."""
        return self.limit, self.place, self.bytes
