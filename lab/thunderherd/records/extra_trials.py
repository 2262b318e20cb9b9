"""Counts in trials of their own: `[counting]` of a study, and what a summary says of them.

```toml
[counting]
trials = 1                              # of each contender, after all that are judged; 0: none
counters = ["tcp_info"]                 # besides what explains a difference, which is always counted
contenders = ["prefork"]                # all of the main table, and of each sweep its first and last
                                        # point, if left out
```
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.records.apart import ApartTable

CountedSide = Literal["server", "client", "both"]

SYSTEM_CALLS, WAKEUPS, PAGE_FAULTS = "system_calls", "wakeups", "page_faults"
VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES = "voluntary_switches", "involuntary_switches", "context_switches"

SWITCHES = "switches"
"""The unit of switches that are explained without the wake-ups that belong to them."""

WHAT_EXPLAINS = (SYSTEM_CALLS, WAKEUPS, VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES, PAGE_FAULTS)
"""The counters that a difference is explained by."""


class CountingTable(ApartTable):
    """What happens at a request, counted in trials of their own: such counters cost."""

    at_both_ends: ClassVar[bool] = True

    counters: list[str] = Field(
        default=[],
        description="what is counted besides the counters of all trials and what explains a difference ("
        f"{', '.join(WHAT_EXPLAINS)})",
    )
    contenders: list[str] = Field(
        default=[],
        description="whose, such as BASE@SWEEP=POINT; those of the main table, and of each sweep those at "
        "its first and last point, if left out",
    )


# What came out ----------------------------------------------------------------------------------------------


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Count(_Record):
    """What was counted of one thing."""

    per_request: float = Field(description="the mean of the counted trials")
    least: float = Field(description="of the trials, per request")
    most: float = Field(description="of the trials, per request")
    per_byte: float | None = Field(description="of payload; null: none was counted")


class State(_Record):
    """What a counter tells of one moment, near the end of a window."""

    value: float = Field(description="the mean of the counted trials")
    least: float = Field(description="of the trials")
    most: float = Field(description="of the trials")
    unit: str = Field(description="as the engine has it, but times are in seconds")


class SideCounts(_Record):
    """What was counted of one side, or of both together."""

    counts: dict[str, Count] = Field(
        description="by counter; those with several figures also as COUNTER.PART, such as system_calls.read, "
        "where it is not 0; of the tally, such as send_calls; and bytes_copied, between programs and kernel"
    )
    states: dict[str, State] = Field(
        default_factory=dict,
        description="by figure of a counter that tells of a moment, such as tcp_info.retransmits; and of "
        "memory what there was for each connection (memory_per_connection)",
    )
    unavailable: dict[str, str] = Field(
        default_factory=dict, description="counters that could not be read, and why"
    )
    scaled: dict[str, float] = Field(
        default_factory=dict,
        description="counters that are extrapolated; the least share of the time in which each was counted",
    )


class ContenderCounts(_Record):
    """What was counted of a contender; without a side where there is no counted trial, and why."""

    contender: str
    trials: int = Field(description="valid ones, which the counts rest on")
    requests: int = Field(description="that they rest on, of all these trials")
    requests_per_connection: float | None = Field(description="null: no connection was opened in the window")
    sides: dict[CountedSide, SideCounts]
    why: str | None = Field(default=None, description="why it has none")


class CountingSummary(_Record):
    """What was counted in trials of their own. None of their other figures is used anywhere."""

    trials: int = Field(description="of each contender, as asked for")
    counters: list[str] = Field(description="what explains a difference, and those that were asked for")
    contenders: list[ContenderCounts]

    def of(self, contender: str) -> ContenderCounts | None:
        """That of a contender; None where it was not asked for."""
        return next((each for each in self.contenders if each.contender == contender), None)
