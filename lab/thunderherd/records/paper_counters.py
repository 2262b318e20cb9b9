"""The shapes of the source's counters beside this machine's, as `summary.json` has them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from thunderherd.statistics.estimates import Estimate, Record, Spread


class Derived(Record):
    """A figure that follows from an event and others: a rate, a share."""

    metric: str
    value: Estimate | None
    spread: Spread | None = Field(default=None, description="with repetitions: of the runs")


class CountedCell(Record):
    """One event of one contender on one side: what was counted here, beside the source's figure."""

    event: str = Field(description="the source's name for it")
    side: Literal["server", "client"]
    base: str = Field(description="the contender, without its @SWEEP=POINT")
    unit: str = Field(description="the source's unit, of both figures")
    metric: str | None = Field(description="what it is here; null: this program does not count it")
    value: Estimate | None
    spread: Spread | None = Field(default=None, description="with repetitions: of the runs, in this unit")
    why: str | None = Field(description="where there is no value: why not")
    scaled: float | None = Field(
        default=None,
        description="of an extrapolated value: the least share of the time in which it was counted",
    )
    paper: float | None
    derived: Derived | None = Field(
        default=None, description="what perf-stat(1) prints behind it, where the source has that too"
    )
    paper_derived: str = Field(default="", description="the same of the source, as it is printed")


class CountedProgram(Record):
    """One output of perf-stat(1) in the source: a side of one of its designs."""

    side: Literal["server", "client"]
    base: str = Field(description="the contender, without its @SWEEP=POINT")
    program: str = Field(description="the command that was counted")
    figure: str = Field(description="the source's number of it")


class CountedSummary(Record):
    """The source's counters of both sides beside this machine's: events by contenders, for each side."""

    title: str
    sweep: str | None = Field(description="of which the contenders are a point; null: of the main table")
    point: str | None
    events: list[str] = Field(description="in the source's order")
    contenders: list[str] = Field(description="their bases")
    cells: list[CountedCell]
    programs: list[CountedProgram] = Field(
        default_factory=list, description="in the source's order; none where it prints no form of its own"
    )
    notes: dict[str, str] = Field(default_factory=dict, description="by event: what the source gets wrong")
