"""The tables of a study file about its source: `[[paper]]`, `[[sweeps.paper]]`, `[paper_counters]`,
`[source_csv]`.

`[paper_counters]` names the source's counters of server and client, which are shown next to ours. Its file is
in long form, a line for each event, design and side:

```toml
[paper_counters]
title = "perf stat, four connections"
file = "perf_stat.csv"
sweep = "whole_life"        # our contenders at this point of a sweep; default: those of the main table
point = "4"
designs = { single_threaded = "single", multi_threaded = "thread_per_client" }
events = { task-clock = "task_clock", page-faults = "page_faults", elapsed = "elapsed_seconds" }
reasons = { cpu-cycles = "counted once the hardware events are there" }
columns = { side = "role" } # if the file's head has other words; see derived
```

Every event of the file is shown. An event that `events` does not map shows "-" on our side, with the reason.

`[source_csv]` describes the source's own CSV, which a run writes anew with this machine's figures:

```toml
[source_csv]
file = "results.csv"
sweeps = ["sizes_1", "sizes_8"]
[source_csv.columns]
impl = { names = { two_copy = "a1", one_copy = "a2" } }
threads = { key = "load.settings.clients" }
latency_us = { metric = "duration_per_message", unit = "us" }
```

A line is one contender at one point of these sweeps. Contenders for which the source has no name are left
out.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Tag

from thunderherd.toml.strict import StrictTable, table_or

PAPER_UNIT = 'the source\'s unit, such as "µs"; left out where it is that of ours'

PaperColumns = Annotated[
    Annotated[str, Tag("name")] | Annotated[dict[str, str], Tag("table")], table_or("name")
]


class PaperFigureTable(StrictTable):
    """The source's figures of one metric, in a column of a file that has several."""

    value: str = Field(
        description='the column with the figures; a metric with a dot is written "client.context_switches"'
    )
    unit: str = Field(default="", description=PAPER_UNIT)
    note: str | None = Field(
        default=None, description="what to know about these figures, in the place of the table's note"
    )


PaperFigures = Annotated[
    Annotated[str, Tag("column")] | Annotated[PaperFigureTable, Tag("table")], table_or("column")
]


class PaperTable(StrictTable):
    """The source's figures, of one metric or of several: in a CSV file beside the study, of the main table or
    of a sweep.

    Wide: a column for each contender (`columns`), or for each of the systems on which the source ran it.
    Long: a line for each contender (`contender`, `names`), with the figures of one `metric` in the column
    `value`, or with those of several in a column for each (`figures`). Of a sweep either has a line for each
    `point`. Several lines for the same are several runs, or several workers.
    """

    file: str = Field(description="a CSV file beside the study")
    metric: str = Field(
        default="",
        description='what they stand beside: a metric, such as "requests_per_second"; in the main table also '
        "process_control_seconds or worker_connections",
    )
    unit: str = Field(default="", description=PAPER_UNIT)
    figure: str | None = Field(
        default=None, description='what the list of inconsistencies calls it, such as "fig30_2"'
    )
    point: str | None = Field(default=None, description="of a sweep: its column with the points")
    columns: dict[str, PaperColumns] | None = Field(
        default=None,
        description='wide: for each contender the column with its figures, or { "a system" = "its column" }',
    )
    contender: str | None = Field(default=None, description="long: its column that tells contenders apart")
    names: dict[str, str] | None = Field(
        default=None,
        description="long: for each contender what that column says for it; in the main table its row, if "
        "left out",
    )
    value: str | None = Field(default=None, description="long: its column with the figures")
    figures: dict[str, PaperFigures] | None = Field(
        default=None,
        min_length=1,
        description="long: for each of several metrics its column, or a table such as "
        '{ value = "its column", unit = "us" }',
    )
    where: dict[str, str] = Field(
        default={}, description='only lines with these, such as { delay = "small" }'
    )
    note: str | None = Field(default=None, description="what to know about these figures")


class CountersColumns(StrictTable):
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


class PaperCountersTable(StrictTable):
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


class CsvColumn(StrictTable):
    """What stands in a column: the source's name of the contender, a setting, or a metric."""

    names: dict[str, str] | None = Field(default=None, description="by contender, what the source calls it")
    key: str | None = Field(default=None, description='a setting, such as "load.settings.clients"')
    metric: str | None = Field(default=None, description='such as "gigabits_per_second"')
    unit: str = Field(default="", description='of a metric that is a time: "s", "ms", "us", "ns"')


class SourceCsvTable(StrictTable):
    """A table `[source_csv]`."""

    file: str = Field(
        pattern=r"^[A-Za-z0-9_.-]+\.csv$", description="its name in the directory of the results"
    )
    sweeps: list[str] = Field(min_length=1, description="the sweeps whose contenders are its lines")
    columns: dict[str, CsvColumn] = Field(min_length=1, description="by their heads, in their order")
