"""The tables of a study file about its source.

They are `[[paper]]` and `[[sweeps.paper]]`, `[paper_counters]`, and `[source_csv]`.

`[paper_counters]` describes the source's counters of server and client, which the report shows next to ours.
Its file has a line for each event, design and side:

```toml
[paper_counters]
title = "perf stat, four connections"
file = "perf_stat.csv"
sweep = "whole_life"        # our contenders at a point of this sweep; default: the main table
point = "4"
designs = { single_threaded = "single", multi_threaded = "thread_per_client" }
events = { task-clock = "task_clock", page-faults = "page_faults", elapsed = "elapsed_seconds" }
reasons = { cpu-cycles = "needs hardware events" }
columns = { side = "role" } # if the file has other column names; see also `derived`
```

The report shows every event of the file. An event that `events` does not map has "-" on our side, with the
reason.

`[source_csv]` describes the source's own CSV file. A run writes the same file with this machine's figures:

```toml
[source_csv]
file = "results.csv"
sweeps = ["sizes_1", "sizes_8"]
[source_csv.columns]
impl = { names = { two_copy = "a1", one_copy = "a2" } }
threads = { key = "load.settings.clients" }
latency_us = { metric = "duration_per_message", unit = "us" }
```

Each line is a contender at a point of these sweeps. Contenders without a name in the source are left out.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Tag

from thunderherd.toml.strict import StrictTable, table_or

PAPER_UNIT = 'the source\'s unit, such as "µs" (default: the unit of the metric)'

PaperColumns = Annotated[
    Annotated[str, Tag("name")] | Annotated[dict[str, str], Tag("table")], table_or("name")
]


class PaperFigureTable(StrictTable):
    """The source's figures of one metric, in a file with a column for each of several metrics."""

    value: str = Field(description="the column with the figures")
    unit: str = Field(default="", description=PAPER_UNIT)
    note: str | None = Field(
        default=None, description="a note on these figures (default: the note of the table)"
    )


PaperFigures = Annotated[
    Annotated[str, Tag("column")] | Annotated[PaperFigureTable, Tag("table")], table_or("column")
]


class PaperTable(StrictTable):
    """The source's figures for the main table or a sweep, in a CSV file in the study's folder.

    A wide file has a column for each contender (`columns`), or for each system on which the source ran it. A
    long file has a line for each contender (`contender`, `names`). Its figures are in the column `value` for
    one `metric`, or in several columns for several metrics (`figures`). For a sweep, both forms have a line
    for each `point`. Several lines for the same contender are several runs, or several workers.
    """

    file: str = Field(description="a CSV file in the study's folder")
    metric: str = Field(
        default="",
        description='the metric of the figures, such as "requests_per_second"; in the main table also '
        "process_control_seconds or worker_connections",
    )
    unit: str = Field(default="", description=PAPER_UNIT)
    figure: str | None = Field(
        default=None, description='its name in the list of inconsistencies, such as "fig30_2"'
    )
    point: str | None = Field(default=None, description="for a sweep: the column with the points")
    columns: dict[str, PaperColumns] | None = Field(
        default=None,
        description='wide file: for each contender its column, or { "a system" = "its column" }',
    )
    contender: str | None = Field(default=None, description="long file: the column that names contenders")
    names: dict[str, str] | None = Field(
        default=None,
        description="long file: for each contender its name in that column (default in the main table: its "
        "row)",
    )
    value: str | None = Field(default=None, description="long file: the column with the figures")
    figures: dict[str, PaperFigures] | None = Field(
        default=None,
        min_length=1,
        description="long file: for each of several metrics its column, or a table such as "
        '{ value = "its column", unit = "us" }; metrics with a dot need quotes',
    )
    where: dict[str, str] = Field(
        default={}, description='only lines with these fields, such as { delay = "small" }'
    )
    note: str | None = Field(default=None, description="a note on these figures")


class CountersColumns(StrictTable):
    """The column names of the file of counters."""

    design: str = Field(default="design", description="the column with the design")
    side: str = Field(default="role", description="the column with server or client")
    event: str = Field(default="event", description="the column with the event")
    value: str = Field(default="value", description="the column with the figure")
    unit: str = Field(default="unit", description="the column with the unit")
    derived: str | None = Field(
        default=None,
        description="the column with what perf-stat(1) prints after an event; with program and figure too, "
        "the report shows outputs in the form of perf-stat(1), next to ours",
    )
    program: str | None = Field(default=None, description="the column with the command that was counted")
    figure: str | None = Field(default=None, description="the column with the source's number of an output")

    @property
    def has_form(self) -> bool:
        """True if the report shows outputs in the form of perf-stat(1)."""
        return None not in (self.derived, self.program, self.figure)


class PaperCountersTable(StrictTable):
    """The source's counters of both sides, and the matching counters of the study."""

    title: str = Field(min_length=1, description="a heading of one line")
    file: str = Field(description="a CSV file in the study's folder, a line for each event, design and side")
    sweep: str | None = Field(
        default=None, description="the sweep of our contenders (default: the main table)"
    )
    point: str | None = Field(default=None, description='the point of that sweep, such as "4"')
    designs: dict[str, str] = Field(
        min_length=1, description="for each design of the file our contender, without @SWEEP=POINT"
    )
    events: dict[str, str] = Field(
        default={},
        description='for each event of the file our counter, such as { task-clock = "task_clock" }',
    )
    reasons: dict[str, str] = Field(
        default={}, description="for events without a counter: the reason, in a few words"
    )
    columns: CountersColumns = Field(default=CountersColumns(), description="the column names of the file")


class CsvColumn(StrictTable):
    """The content of a column: the source's name of the contender, a setting, or a metric."""

    names: dict[str, str] | None = Field(
        default=None, description="for each contender its name in the source"
    )
    key: str | None = Field(default=None, description='a setting, such as "load.settings.clients"')
    metric: str | None = Field(default=None, description='a metric, such as "gigabits_per_second"')
    unit: str = Field(default="", description='the unit of a metric that is a time: "s", "ms", "us" or "ns"')


class SourceCsvTable(StrictTable):
    """The source's own CSV file, written with the figures of this run."""

    file: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\.csv$",
        description="the name of the file in the run's folder, such as results.csv",
    )
    sweeps: list[str] = Field(min_length=1, description="the sweeps whose contenders are the lines")
    columns: dict[str, CsvColumn] = Field(min_length=1, description="a table for each column, in their order")
