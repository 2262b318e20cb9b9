"""What a study file may contain: one strict model for each of its tables.

These models know shapes and bounds only. Whether a design, a setting or a CPU exists is looked up in
`study.py`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.counters_form import PaperCountersTable

SettingsTable = Annotated[
    dict[str, Any], Field(description="a table of settings, such as { backlog = 1024 }")
]


class Table(BaseModel):
    """Strict: true is no number, 3 is no text, and a key that is not listed is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class MeasureTable(Table):
    """What is compared, and when two contenders count as different."""

    metric: str = Field(description='the metric that verdicts rest on, such as "server_cpu_per_connection"')
    baseline: str = Field(description="the contender that the others are measured from")
    normalise_connections: int = Field(ge=1, description="figures are shown for this many connections")
    equivalence_percent: float = Field(
        default=3.0, gt=0, lt=100, description="differences below this many percent do not matter"
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="chance of a false verdict, over all comparisons"
    )
    counters: list[str] = Field(
        default=[], description='counters that both sides are asked for, such as ["context_switches"]'
    )


class ServerTable(Table):
    """What every server of the study has in common."""

    workload: str = Field(description='the protocol, such as "bytes"')
    primitive: str = Field(description='the way of moving bytes, such as "send"')
    settings: SettingsTable = Field(default={})


class LoadTable(Table):
    """Who asks, and how often.

    `warm_up_connections` of all clients together come before the measured window.
    """

    kind: str = Field(description='the load, such as "closed"')
    clients: int = Field(ge=1, le=64, description="load processes that run at the same time, 1 to 64")
    warm_up_connections: int = Field(
        default=0, ge=0, description="connections before the window, all clients together"
    )
    settings: SettingsTable = Field(default={})


class LabTable(Table):
    """Which CPUs run what.

    `free` leaves that to the kernel; `apart` gives the server the first CPU that this process may use and the
    clients all others. A list of CPUs wins over either.
    """

    placement: Literal["free", "apart"] = Field(default="free")
    server_cpus: list[int] | None = Field(default=None, description="a list of CPU numbers, such as [0]")
    client_cpus: list[int] | None = Field(default=None, description="a list of CPU numbers, such as [1]")


class NoiseTable(Table):
    """How much noise from outside a block may have before it is run again."""

    steal_percent: float = Field(
        default=5.0,
        ge=0,
        le=100,
        description="CPU time the hypervisor took away, percent of the machine, 0 to 100",
    )
    foreign_percent: float = Field(
        default=15.0, ge=0, le=100, description="CPU used by others, percent of the machine, 0 to 100"
    )
    reject_at_most_percent: float = Field(
        default=25.0, ge=0, le=25, description="blocks that may be rejected for noise, 0 to 25 percent"
    )


class SizeTable(Table):
    """How long the study is: after how many blocks it looks, and which keys differ."""

    looks: list[int] = Field(min_length=1, description="numbers of blocks, such as [14, 20, 40]")
    alpha_split: list[float] = Field(
        min_length=1, description="shares of alpha, one a look, such as [0.2, 0.3, 0.5]"
    )
    set: dict[str, Any] = Field(
        default={}, description='keys of this size, such as { "load.settings.loops" = 250 }'
    )


class ContenderTable(Table):
    """One complete configuration, or a control: another contender with other settings."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="small letters, digits and _, such as prefork_30"
    )
    label: str | None = Field(default=None, description="a few words for tables")
    row: Annotated[int, Field(ge=0)] | Literal["none"] | None = Field(
        default=None, description='the row of the paper\'s table, or "none" if it has none'
    )
    row_note: str | None = Field(
        default=None, description="what to know about the paper's row, or why there is none"
    )
    design: str | None = Field(default=None, description='a server design, such as "prefork"')
    control_of: str | None = Field(
        default=None, description="the contender whose configuration this one varies"
    )
    primitive: str | None = Field(default=None, description="where it differs from server.primitive")
    settings: SettingsTable = Field(default={})


class ComparisonsTable(Table):
    """The family of comparisons; a control is always compared with the contender that it is control of."""

    all_pairs: bool = Field(default=True, description="every pair of contenders that are no controls")
    pairs: list[list[str]] = Field(
        default=[], description='pairs of names, such as [["prefork", "prethread"]]'
    )


class StudyForm(Table):
    """A whole study file."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", description="small letters, digits and -, such as unp-ch30"
    )
    title: str = Field(min_length=1, description="one line")
    question: str = Field(min_length=1, description="what the study finds out")
    source: str = Field(default="", description="where the question comes from")
    paper_table: str | None = Field(
        default=None, description="a CSV file beside the study: row, process_control_cpu_s"
    )
    claims: str | None = Field(default=None, description="a TOML file of claims beside the study")
    inconsistencies: str | None = Field(
        default=None, description="a CSV file beside the study: as_printed, finding"
    )
    measure: MeasureTable = Field(description="a table [measure]")
    server: ServerTable = Field(description="a table [server]")
    load: LoadTable = Field(description="a table [load]")
    lab: LabTable = Field(default=LabTable(), description="a table [lab]")
    noise: NoiseTable = Field(default=NoiseTable(), description="a table [noise]")
    sizes: dict[str, SizeTable] = Field(min_length=1, description="tables such as [sizes.quick]")
    comparisons: ComparisonsTable = Field(default=ComparisonsTable(), description="a table [comparisons]")
    contenders: list[ContenderTable] = Field(min_length=1, description="tables [[contenders]]")
    paper_counters: PaperCountersTable | None = Field(default=None, description="a table [paper_counters]")
