"""What a study file may contain: one strict model for each of its tables.

These models know shapes and bounds only. Whether a design, a setting or a CPU exists is looked up in
`study.py`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from thunderherd.engine.catalogue import USUAL_LOAD, USUAL_WAY, Way
from thunderherd.labs import KINDS, USUAL, with_namespaces
from thunderherd.labs.words import QUANTITIES
from thunderherd.records.crossover import CrossoverTable
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.records.summary import Axis, TrialForm
from thunderherd.study.file.source_tables import PaperCountersTable, PaperTable, SourceCsvTable
from thunderherd.toml.strict import StrictTable, table_or

SettingsTable = Annotated[
    dict[str, Any], Field(description="a table of settings, such as { backlog = 1024 }")
]


LOAD_KIND = f'the load, such as "{USUAL_LOAD}"'
PRIMITIVE = f'the primitive that sends, such as "{USUAL_WAY.primitive}"'
RECEIVE = f'the primitive that receives, such as "{USUAL_WAY.receive}"'
LOAD_PROCESSES = "load processes that run at the same time, 1 to 64"
LOAD_WARM_UP = "connections before the window, all clients together"
LAB_KIND = f"where server and clients are: {', '.join(KINDS)}"
_PAIR = f"of {' and '.join(each.name for each in with_namespaces())}"
LAB_MTU = f"{_PAIR}: the most bytes of a packet, such as {QUANTITIES['mtu'].in_toml}"
LAB_RATE = f"{_PAIR}: what either end sends at most, such as {QUANTITIES['rate'].in_toml}"
LAB_DELAY = f"{_PAIR}: how long either end holds what it sends, such as {QUANTITIES['delay'].in_toml}"
LAB_LOSS = f"{_PAIR}: what either end loses of what it sends, such as {QUANTITIES['loss'].in_toml}"
LAB_CONGESTION = 'congestion control of both sides, such as "cubic"'
SERVER_CPUS = 'a list of CPU numbers, such as [0]; or "any"'
CLIENT_CPUS = 'a list of CPU numbers, such as [1]; or "any"'
Cpus = list[int] | Literal["any"] | None


class MeasureTable(StrictTable):
    """What is compared, and when two contenders count as different."""

    metric: str = Field(description='the metric that verdicts rest on, such as "server_cpu_per_connection"')
    baseline: str | None = Field(
        default=None, description="the contender of the main table that its others are measured from"
    )
    normalise_connections: int = Field(
        default=1000, ge=1, description="figures are shown for this many connections"
    )
    equivalence_percent: float = Field(
        default=3.0, gt=0, lt=100, description="differences below this many percent do not matter"
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="chance of a false verdict, over all comparisons"
    )
    trial: TrialForm = Field(
        default="window",
        description='"window": a warm-up, then a measured window; "whole_life": all from exec to exit',
    )
    at_least: dict[str, str] = Field(
        default={},
        description="metrics that a trial is invalid with less of, and the setting of the load that says how "
        'much: { server_reads = "load.settings.repetitions" }',
    )
    limits_milliseconds: int = Field(
        default=3000,
        ge=0,
        le=60_000,
        description="how long a run measures the machine's limits first; 0: not",
    )
    overload: Literal["invalid", "counts"] = Field(
        default="invalid", description="what a trial is whose server does not keep up with an open loop"
    )
    single_runs: int = Field(
        default=0, ge=0, le=100, description="so many single runs, the first accepted, stand beside figures"
    )
    counters: list[str] = Field(
        default=[], description='counters or events of both sides, such as ["cs", "cpu/event=0xc0,umask=0/"]'
    )


class ServerTable(StrictTable):
    """What every server of the study has in common; what a contender says itself wins."""

    workload: str = Field(description='the protocol, such as "bytes"')
    primitive: str = Field(default=USUAL_WAY.primitive, description=PRIMITIVE)
    receive: str = Field(default=USUAL_WAY.receive, description=RECEIVE)
    settings: SettingsTable = Field(default={})

    @property
    def way(self) -> Way:
        """How the server moves its bytes."""
        return Way(self.primitive, self.receive)


class LoadTable(StrictTable):
    """Who asks, and how often.

    Each of the processes has all of the settings. `warm_up_connections` of all clients together come before
    the measured window.
    """

    kind: str = Field(description=LOAD_KIND)
    primitive: str = Field(default=USUAL_WAY.primitive, description=PRIMITIVE)
    receive: str = Field(default=USUAL_WAY.receive, description=RECEIVE)
    processes: int = Field(ge=1, le=64, description=LOAD_PROCESSES)
    warm_up_connections: int = Field(default=0, ge=0, description=LOAD_WARM_UP)
    settings: SettingsTable = Field(default={})

    @property
    def way(self) -> Way:
        """How the clients move their bytes."""
        return Way(self.primitive, self.receive)


class LoadChanges(StrictTable):
    """Where a contender's load differs from the study's."""

    kind: str | None = Field(default=None, description=LOAD_KIND)
    primitive: str | None = Field(default=None, description=PRIMITIVE)
    receive: str | None = Field(default=None, description=RECEIVE)
    processes: int | None = Field(default=None, ge=1, le=64, description=LOAD_PROCESSES)
    warm_up_connections: int | None = Field(default=None, ge=0, description=LOAD_WARM_UP)
    settings: SettingsTable = Field(default={})


class LabTable(StrictTable):
    """Where server and clients are, what joins them, and which CPUs run what.

    Of placement, `free` leaves that to the kernel; `apart` gives the server the first CPU that this process
    may use and the clients all others. A list of CPUs wins over either, and so does "any", which undoes
    a list of the study's.
    """

    kind: str = Field(default=USUAL.name, description=LAB_KIND)
    mtu: int | None = Field(default=None, description=LAB_MTU)
    rate: str | None = Field(default=None, description=LAB_RATE)
    delay: str | None = Field(default=None, description=LAB_DELAY)
    loss: str | None = Field(default=None, description=LAB_LOSS)
    congestion: str | None = Field(default=None, description=LAB_CONGESTION)
    placement: Literal["free", "apart"] = Field(default="free", description='"free" or "apart"')
    server_cpus: Cpus = Field(default=None, description=SERVER_CPUS)
    client_cpus: Cpus = Field(default=None, description=CLIENT_CPUS)


class LabChanges(StrictTable):
    """Where a contender's lab differs from the study's."""

    kind: str | None = Field(default=None, description=LAB_KIND)
    mtu: int | None = Field(default=None, description=LAB_MTU)
    rate: str | None = Field(default=None, description=LAB_RATE)
    delay: str | None = Field(default=None, description=LAB_DELAY)
    loss: str | None = Field(default=None, description=LAB_LOSS)
    congestion: str | None = Field(default=None, description=LAB_CONGESTION)
    placement: Literal["free", "apart"] | None = Field(default=None, description='"free" or "apart"')
    server_cpus: Cpus = Field(default=None, description=SERVER_CPUS)
    client_cpus: Cpus = Field(default=None, description=CLIENT_CPUS)


class NoiseTable(StrictTable):
    """How much noise from outside a block may have before it is run again, of the machine's CPU time."""

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


class ScaleTable(StrictTable):
    """The experiment made smaller in proportion: every contender has these settings divided by the factor."""

    factor: int = Field(default=1, ge=1, le=10_000, description="what is divided by; 1 is the source's size")
    divides: list[str] = Field(
        min_length=1, description='settings, such as ["settings.pool", "load.settings.clients"]'
    )
    time: str | None = Field(
        default=None, description="one of them that says how long a unit of time is, if any does"
    )
    of: int | None = Field(default=None, ge=1, description="what `time` is at the source's size")


class BoundTable(StrictTable):
    """What arithmetic allows, whatever the machine: requests in service at once / mean delay.

    For requests that last as long as they ask for, not as long as a CPU needs for them.
    """

    at_once: list[str] = Field(
        min_length=1, description="settings of which the least says how many are in service at once"
    )
    delays: list[str] = Field(min_length=1, description="settings whose mean is the mean delay, in units")
    unit_microseconds: str = Field(description="the setting that says how long a unit of delay is")
    where: dict[str, bool | int | str] = Field(
        default={}, description='only contenders with these, such as { "settings.busy" = "wall_clock" }'
    )


class SizeTable(StrictTable):
    """How long the study is: after how many blocks it looks, what it runs, and which keys differ.

    Looks share alpha out, so that stopping at one is honest; `repetitions` stand in their place.
    """

    looks: list[int] | None = Field(
        default=None, min_length=1, description="numbers of blocks, such as [14, 20, 40]"
    )
    alpha_split: list[float] | None = Field(
        default=None, min_length=1, description="shares of alpha, one a look, such as [0.2, 0.3, 0.5]"
    )
    repetitions: int | None = Field(
        default=None, ge=1, le=1000, description="so many blocks and no verdicts, in place of looks"
    )
    parts: list[str] | None = Field(
        default=None, min_length=1, description='what it runs, such as ["main", "pool_size"]; all if left out'
    )
    points: dict[str, list[Any]] = Field(
        default={}, description="of a sweep only these points, such as { pool_size = [5, 15] }"
    )
    set: dict[str, Any] = Field(
        default={}, description='keys of this size, such as { "load.settings.loops" = 250 }'
    )


class ContenderTable(StrictTable):
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
    workload: str | None = Field(default=None, description="where it differs from server.workload")
    primitive: str | None = Field(default=None, description="where it differs from server.primitive")
    receive: str | None = Field(default=None, description="where it differs from server.receive")
    settings: SettingsTable = Field(default={})
    load: LoadChanges = Field(default=LoadChanges(), description="keys of [load] that differ")
    lab: LabChanges = Field(default=LabChanges(), description="keys of [lab] that differ")
    trial: TrialForm | None = Field(default=None, description='"window" or "whole_life"')


class ChangesTable(StrictTable):
    """The keys of a contender that a sweep may give another value."""

    design: str = Field(default="", description='a server design, such as "prefork"')
    primitive: str = Field(default="", description=PRIMITIVE)
    receive: str = Field(default="", description=RECEIVE)
    settings: SettingsTable = Field(default={})
    load: LoadChanges = Field(default=LoadChanges(), description="keys of [load]")
    lab: LabChanges = Field(default=LabChanges(), description="keys of [lab]")


class ValueTable(StrictTable):
    """A point of a sweep at which several keys differ."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.+-]+$", description="letters, digits and _ . + -, such as small")
    set: dict[str, Any] = Field(description='keys, such as { "load.settings.loops" = 100 }')


def _kind_of_key(key: object) -> str:
    return "keys" if isinstance(key, list) else "key"


Keys = Annotated[
    Annotated[str, Tag("key")] | Annotated[list[str], Field(min_length=1), Tag("keys")],
    Discriminator(_kind_of_key),
]
"""A key; or several that take each value together."""


def keys_of(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The keys that a sweep's values are of: `key` as a study says it, none, one or several."""
    return (key,) if isinstance(key, str) else tuple(key or ())


SweepContender = Annotated[
    Annotated[str, Tag("name")] | Annotated[ContenderTable, Tag("table")], table_or("name")
]


class SweepTable(StrictTable):
    """Contenders over the values of a key: each at each value is a contender of its own, BASE@SWEEP=VALUE.

    It is compared with the others at its value. Its title may have `{settings.pool}`: what they have there.
    """

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="small letters, digits and _, such as pool_size"
    )
    title: str = Field(min_length=1, description="one line")
    key: Keys | None = Field(
        default=None,
        description='what the values are of, such as "settings.pool"; or a list of keys that take each value '
        "together",
    )
    values: list[Any] = Field(
        min_length=1, description='values of the key, or tables such as { name = "small", set = {...} }'
    )
    contenders: list[SweepContender] = Field(
        min_length=1,
        description="names of [[contenders]] or of another sweep's, or tables [[sweeps.contenders]]",
    )
    metric: str | None = Field(default=None, description="what its verdicts rest on, if not the study's")
    metrics: list[str] = Field(default=[], description="further metrics that are shown")
    trial: TrialForm | None = Field(default=None, description='"window" or "whole_life"')
    compare: Literal["pairs", "none"] = Field(
        default="pairs", description='"pairs" of its contenders at each point, or "none"'
    )
    set: dict[str, Any] = Field(
        default={}, description='keys at all its points, such as { "load.settings.loops" = 100 }'
    )
    scaled: bool = Field(default=True, description="whether [scale] applies to it")
    source_cpus: int | None = Field(
        default=None, ge=1, description="CPUs of the source's server; shown where it has others here"
    )
    axis: Axis = Field(default="linear", description='"linear" or "logarithmic"')
    logarithmic: list[str] = Field(
        default=[], description="metrics with a logarithmic axis; where some are named, others' are linear"
    )
    x_label: str | None = Field(default=None, description="a word for its axis")
    note: str | None = Field(default=None, description="what to know about its figures; stands below them")
    slope: str | None = Field(
        default=None,
        min_length=1,
        description='what one more on its axis is called, such as "connection": what each adds is then told',
    )
    slope_metrics: list[str] = Field(
        default=[], description="what the slope is told of; each metric that is shown if left out"
    )
    ceiling: str | None = Field(
        default=None,
        description='the contender whose payload rate theirs are shares of, such as "bulk@message=131072"',
    )
    crossover: CrossoverTable | None = Field(
        default=None, description="a table [sweeps.crossover]: where two of its contenders change places"
    )
    skip_unavailable: bool = Field(
        default=False, description="leave out what this machine cannot run, with a note"
    )
    paper: list[PaperTable] = Field(default=[], description="tables [[sweeps.paper]], one a file")

    @property
    def keys(self) -> tuple[str, ...]:
        """What the values are of; none where they are tables."""
        return keys_of(self.key)


class ComparisonsTable(StrictTable):
    """The family of comparisons; a control is always compared with the contender that it is control of."""

    all_pairs: bool = Field(default=True, description="every pair of contenders that are no controls")
    pairs: list[list[str]] = Field(
        default=[], description='pairs of names, such as [["prefork", "prethread"]]'
    )


class StudyForm(StrictTable):
    """A whole study file."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", description="small letters, digits and -, such as unp-ch30"
    )
    title: str = Field(min_length=1, description="one line")
    question: str = Field(min_length=1, description="what the study finds out")
    source: str = Field(default="", description="where the question comes from")
    claims: str | None = Field(default=None, description="a TOML file of claims beside the study")
    inconsistencies: str | None = Field(default=None, description="a CSV file beside it: as_printed, finding")
    measure: MeasureTable = Field(description="a table [measure]")
    server: ServerTable = Field(description="a table [server]")
    load: LoadTable = Field(description="a table [load]")
    lab: LabTable = Field(default=LabTable(), description="a table [lab]")
    noise: NoiseTable = Field(default=NoiseTable(), description="a table [noise]")
    counting: CountingTable = Field(default=CountingTable(), description="a table [counting]")
    counting_cost: CostTable = Field(default=CostTable(), description="a table [counting_cost]")
    profiling: ProfilingTable = Field(default=ProfilingTable(), description="a table [profiling]")
    scale: ScaleTable | None = Field(default=None, description="a table [scale]")
    queueing_bound: BoundTable | None = Field(default=None, description="a table [queueing_bound]")
    sizes: dict[str, SizeTable] = Field(min_length=1, description="tables such as [sizes.quick]")
    comparisons: ComparisonsTable = Field(default=ComparisonsTable(), description="a table [comparisons]")
    contenders: list[ContenderTable] = Field(default=[], description="tables [[contenders]]")
    sweeps: list[SweepTable] = Field(default=[], description="tables [[sweeps]]")
    paper: list[PaperTable] = Field(default=[], description="tables [[paper]], one a file")
    paper_counters: PaperCountersTable | None = Field(default=None, description="a table [paper_counters]")
    source_csv: SourceCsvTable | None = Field(default=None, description="a table [source_csv]")
