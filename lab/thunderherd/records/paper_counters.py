"""The source's counters next to this machine's, as `summary.json` has them."""

from __future__ import annotations

from pydantic import Field

from thunderherd.metrics.table import Side
from thunderherd.statistics.estimates import Estimate, Record, Spread


class Derived(Record):
    """A figure derived from an event and others, such as a rate or a share."""

    metric: str = Field(description="name of the metric")
    value: Estimate | None = Field(
        description="estimate on this machine, in the metric's own unit. Null: not measured"
    )
    spread: Spread | None = Field(
        default=None,
        description="for repeated runs, mean and standard deviation of the runs. Null: the study has "
        "verdicts instead",
    )


class CountedCell(Record):
    """One event of one contender on one side: this machine's count next to the source's figure."""

    event: str = Field(description="the source's name of the event")
    side: Side = Field(description="the side that was counted")
    base: str = Field(description="the contender, without @SWEEP=POINT")
    unit: str = Field(description="the source's unit, which both figures have")
    metric: str | None = Field(
        description="the metric of this machine's figure. Null: this program does not count the event"
    )
    value: Estimate | None = Field(
        description="this machine's estimate. Null: unavailable, for the reason in `why`"
    )
    spread: Spread | None = Field(
        default=None,
        description="for repeated runs, mean and standard deviation of the runs, in the same unit. Null: "
        "the study has verdicts instead",
    )
    why: str | None = Field(description="why there is no value. Null: there is one")
    scaled: float | None = Field(
        default=None,
        description="for an extrapolated value, the least share of the time in which the event was "
        "counted (0 to 1). Null: counted all the time",
    )
    paper: float | None = Field(description="the source's figure. Null: the source has none")
    derived: Derived | None = Field(
        default=None,
        description="the figure that perf-stat(1) prints after the count. Null: the source does not have it",
    )
    paper_derived: str = Field(
        default="", description="the source's derived figure, as printed there; empty: it has none"
    )


class CountedProgram(Record):
    """One output of perf-stat(1) in the source: one side of one of its designs."""

    side: Side = Field(description="the side that was counted")
    base: str = Field(description="the contender, without @SWEEP=POINT")
    program: str = Field(description="the command that perf-stat(1) counted")
    figure: str = Field(description="the number of the figure in the source")


class CountedSummary(Record):
    """The source's counters of both sides next to this machine's, as a table of events by contenders."""

    title: str = Field(description="title of the table")
    sweep: str | None = Field(description="the sweep whose point the contenders are. Null: the main table")
    point: str | None = Field(description="the point of that sweep. Null: the main table")
    events: list[str] = Field(description="the events, in the source's order")
    contenders: list[str] = Field(description="the contenders, without @SWEEP=POINT")
    cells: list[CountedCell] = Field(description="one entry per event, contender and side")
    programs: list[CountedProgram] = Field(
        default_factory=list,
        description="outputs of perf-stat(1), in the source's order; empty if the source prints none",
    )
    notes: dict[str, str] = Field(default_factory=dict, description="by event, an error of the source")
