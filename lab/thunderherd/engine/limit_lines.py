"""The engine's lines of the machine's limits, as `engine_lines` has those of servers and loads."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from thunderherd.engine.lines import EngineLine, SchemaNumber

Place = Literal["one_cpu", "two_cpus"]
"""Where a limit is measured: all of it on one CPU, or with an end on each of two."""


class Limits(EngineLine):
    """The machine's limits are being measured; the lines of the rounds follow."""

    line: Literal["limits"] = "limits"
    schema_version: SchemaNumber = Field(alias="schema")
    cpus: list[int] = Field(description="of the one that measures, and of other ends that have one of theirs")
    settings: dict[str, int]

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class LimitPoint(EngineLine):
    """A limit at a place and, where it has sizes, of a size."""

    limit: str
    place: Place
    bytes: int | None

    @property
    def point(self) -> tuple[str, Place, int | None]:
        """What tells it from others."""
        return self.limit, self.place, self.bytes


class LimitRound(LimitPoint):
    """So many times, one after another, in one round."""

    line: Literal["limit_round"] = "limit_round"
    round: int
    times: int = Field(ge=1)
    elapsed_ns: int
    page_faults: int = Field(description="meanwhile, of the one that measures and those that it waited for")


class LimitUnavailable(LimitPoint):
    """There is no round of it, or no further one."""

    line: Literal["limit_unavailable"] = "limit_unavailable"
    reason: str
