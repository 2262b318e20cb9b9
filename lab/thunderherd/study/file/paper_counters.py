"""`[paper_counters]` of a study: the source's counters of server and client, to be shown beside ours.

Its file is in long form, a line for each event, design and side:

```toml
[paper_counters]
title = "perf stat, four connections"
file = "perf_stat.csv"
sweep = "whole_life"                  # our contenders at this point of a sweep; else the main table's
point = "4"
designs = { single_threaded = "single", multi_threaded = "thread_per_client" }
events = { task-clock = "task_clock", page-faults = "page_faults", elapsed = "elapsed_seconds" }
reasons = { cpu-cycles = "counted once the hardware events are there" }
columns = { side = "role" }           # where its head has other words than these; see derived
```

Every event of the file is shown. One that `events` does not map shows "-" here, with the reason.
"""

from __future__ import annotations

from pydantic import Field

from thunderherd.toml.strict import Table


class CountersColumns(Table):
    """How the file's head calls them."""

    design: str = Field(default="design", description="its column with the designs")
    side: str = Field(default="role", description="its column that says server or client")
    event: str = Field(default="event", description="its column with the events")
    value: str = Field(default="value", description="its column with the figures")
    unit: str = Field(default="unit", description="its column with their units")
    derived: str | None = Field(
        default=None,
        description="its column with what perf-stat(1) prints behind an event; with it, program and figure, "
        "its outputs are shown in their own form, ours beside them",
    )
    program: str | None = Field(default=None, description="its column with the command that was counted")
    figure: str | None = Field(default=None, description="its column with the source's number of an output")

    @property
    def has_form(self) -> bool:
        """Whether outputs are shown in their own form."""
        return None not in (self.derived, self.program, self.figure)


class PaperCountersTable(Table):
    """The source's counters, and what they are here."""

    title: str = Field(min_length=1, description="one line")
    file: str = Field(description="a CSV file beside the study, a line for each event, design and side")
    sweep: str | None = Field(default=None, description="the sweep of which our contenders are a point")
    point: str | None = Field(default=None, description='the point, such as "4"')
    designs: dict[str, str] = Field(
        min_length=1, description="for each design of the file our contender, without @SWEEP=POINT"
    )
    events: dict[str, str] = Field(
        default={}, description='for events of the file our counter, such as { task-clock = "task_clock" }'
    )
    reasons: dict[str, str] = Field(
        default={}, description="for events that are not counted here: why, in a few words"
    )
    columns: CountersColumns = Field(default=CountersColumns(), description="the file's own column names")
