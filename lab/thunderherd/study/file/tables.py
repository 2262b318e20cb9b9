"""The tables and keys of a study file, one strict model for each table.

These models check types and bounds only. `study.checks` looks up whether a design, a setting or a CPU exists.
The descriptions of the fields are printed in error messages and in `docs/generated/reference/study_file.md`.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from thunderherd.engine.catalogue import Defaults, Way
from thunderherd.engine.outputs.parsers import PARSERS
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SCHEDULER_PORT, SERVER, TLS, WORKER
from thunderherd.labs import KINDS, OF_HOSTS, USUAL, with_namespaces
from thunderherd.labs.words import QUANTITIES
from thunderherd.records.crossover import CrossoverTable
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.records.summary import Axis, TrialForm
from thunderherd.study.file.source_tables import PaperCountersTable, PaperTable, SourceCsvTable
from thunderherd.toml.cpus import without_ranges
from thunderherd.toml.quantities import SHARE, TIME, percent_of
from thunderherd.toml.strict import AS_TEXT, StrictTable, quantity_text, table_or

SettingsTable = Annotated[
    dict[str, Any], Field(description="settings and their values, such as { backlog = 1024 }")
]
Cpus = Annotated[
    list[int] | Literal["any"] | None,
    BeforeValidator(without_ranges, json_schema_input_type=list[int] | str | None),
]

SEND = 'the primitive that sends, such as "writev" (default: the engine\'s usual one)'
RECEIVE = 'the primitive that receives, such as "readv" (default: the engine\'s usual one)'
LOAD_PROCESSES = "load processes that run at the same time, on each host of the load, 1 to 64"
TRIAL = (
    '"window": a warm-up, then a measured window; "whole_life": the whole life of the server, exec to exit'
)
NAME = "lower-case letters, digits and _, starting with a letter"
WHOLE = 100 * SHARE.units["%"]
"""100 percent."""
MOST_LOOKS, MOST_BLOCKS, MOST_ENTRIES = 100, 100_000, 1_000
"""The most looks of a size, blocks of a run, and entries of a list of contenders, sweeps or values."""
_PAIR = " and ".join(each.name for each in with_namespaces())


class MeasureTable(StrictTable):
    """The metrics and counters, and the rules by which two contenders differ significantly."""

    metric: str = Field(
        default="",
        description="the metric that contenders are compared by (default: server_cpu_per_request; for a "
        "stream, server_cpu_per_byte)",
    )
    further_metrics: list[str] = Field(
        default=[],
        description="further metrics that the contenders of the main table are compared by, in the same "
        'family of comparisons, such as ["requests_per_second"]',
    )
    baseline: str | None = Field(
        default=None,
        description="the contender of the main table whose cost is subtracted from that of the others",
    )
    normalise_connections: int = Field(
        default=1000,
        ge=1,
        le=10**9,
        description="the number of connections that the main table's costs are scaled to",
    )
    equivalence: Annotated[str, quantity_text(SHARE, 0, WHOLE, above=True, below=True)] = Field(
        default="3%",
        description="the largest difference that does not matter, above 0 and below 100 percent: within it "
        "contenders can be called equivalent",
    )
    alpha: float = Field(
        default=0.05,
        ge=1e-6,
        lt=0.5,
        description="the chance of any false verdict, over all comparisons and looks",
    )
    trial: TrialForm = Field(default="window", description=TRIAL)
    at_least: dict[str, str] = Field(
        default={},
        description="for each metric, the setting of the load that gives its minimum; a trial with less is "
        'invalid, such as { server_reads = "load.settings.repetitions" }',
    )
    limits: Annotated[str, quantity_text(TIME, 0, TIME.units["min"])] = Field(
        default="3s",
        description="the time for measuring the machine limits before the first trial, at most a minute; "
        '"0": not measured',
    )
    overload: Literal["invalid", "counts"] = Field(
        default="invalid",
        description='a trial whose server cannot keep up with an open load is "invalid", or "counts"',
    )
    single_runs: int = Field(
        default=0,
        ge=0,
        le=100,
        description="the number of single trials shown next to each figure: the first accepted ones",
    )
    counters: list[str] = Field(
        default=[],
        description='counters and perf events read on both sides, such as ["cs", "cpu/event=0xc0,umask=0/"]',
    )


class ServerTable(StrictTable):
    """The common part of all servers of the study. A contender's own keys take precedence."""

    workload: str = Field(
        default="",
        description='the protocol that server and clients speak, such as "http" (default: that of '
        "`thunderherd serve`)",
    )
    primitive: str = Field(default="", min_length=1, description=SEND)
    receive: str = Field(default="", min_length=1, description=RECEIVE)
    settings: SettingsTable = Field(default={})

    @property
    def way(self) -> Way:
        """The primitives of the server."""
        return Way(self.primitive, self.receive)


class LoadTable(StrictTable):
    """The clients: which load, in how many processes, with which settings.

    Every process has all of the settings. Without `kind` the load is the first that can end by time. It has a
    window of 500 ms after a warm-up of 100 ms, unless the file gives the number of requests. Its connections
    are persistent if every contender can serve all clients at once.
    """

    kind: str = Field(
        default="", description='the load, such as "open" (default: the first that can end by time)'
    )
    primitive: str = Field(default="", min_length=1, description=SEND)
    receive: str = Field(default="", min_length=1, description=RECEIVE)
    processes: int = Field(default=1, ge=1, le=64, description=LOAD_PROCESSES)
    warm_up_connections: int = Field(
        default=0, ge=0, description="connections before the measured window, of all clients together"
    )
    settings: SettingsTable = Field(default={})
    command: list[str] | None = Field(
        default=None,
        description="instead of our clients, the command of a load generator and its arguments, such as "
        '["wrk", "-t1", "-c{clients}", "-d{duration}", "http://{host}:{port}/"]; {clients} is the number of '
        "clients, {duration} the seconds of load.settings.duration",
    )
    parser: str | None = Field(
        default=None, description=f"how to read what the command prints: {', '.join(PARSERS)}"
    )
    directory: str | None = Field(
        default=None, description="the folder that the command runs in (default: that of the study)"
    )
    environment: dict[str, str] = Field(
        default={}, description='variables for the command, such as { THREADS = "2" }'
    )
    build: list[str] | None = Field(
        default=None,
        description="a command that builds the load generator, once before the run; {build} in it and in "
        "command is a folder that is kept until a file in directory changes",
    )
    version: list[str] | None = Field(
        default=None,
        description='a command that prints the version of the load generator, such as ["ab", "-V"]',
    )
    install: str | None = Field(
        default=None, description="how to get the program if it is missing, for the message that says so"
    )

    @property
    def way(self) -> Way:
        """The primitives of the clients."""
        return Way(self.primitive, self.receive)


class LoadChanges(LoadTable, total=False):
    """The keys of [load] that differ for one contender."""


class LabTable(StrictTable):
    """The place where server and clients run, the link between them, and the CPUs of each side.

    With `placement = "free"` the kernel chooses CPUs. With "apart" the server gets the first CPU that this
    process may use, and the clients get all others. A list of CPUs takes precedence over `placement`. "any"
    undoes a list of the study's.
    """

    kind: str = Field(default=USUAL.name, description=f"the kind of lab: {', '.join(KINDS)}")
    mtu: int | None = Field(
        default=None,
        description=f"lab {_PAIR}: the largest packet in bytes, such as {QUANTITIES['mtu'].in_toml}",
    )
    rate: Annotated[str, AS_TEXT] | None = Field(
        default=None,
        description=f"lab {_PAIR}: the bit rate of either end, such as {QUANTITIES['rate'].in_toml}",
    )
    delay: Annotated[str, AS_TEXT] | None = Field(
        default=None,
        description=f"lab {_PAIR}: the delay that either end adds, such as {QUANTITIES['delay'].in_toml}",
    )
    loss: Annotated[str, AS_TEXT] | None = Field(
        default=None,
        description=f"lab {_PAIR}: the share of packets that either end drops, such as "
        f"{QUANTITIES['loss'].in_toml}",
    )
    congestion: str | None = Field(
        default=None, description='the congestion control of both sides, such as "cubic"'
    )
    server: str | None = Field(
        default=None, description=f'lab "{OF_HOSTS.name}": the host of the server, such as "ssh://alice@a"'
    )
    load: list[str] | None = Field(
        default=None,
        description=f'lab "{OF_HOSTS.name}": the hosts of the load, such as ["ssh://b", "ssh://c"]',
    )
    scheduler: str | None = Field(
        default=None,
        description=f'lab "{OF_HOSTS.name}": the scheduler of a Dask cluster that somebody else has started, '
        f'such as "{TLS}head:{SCHEDULER_PORT}"; the hosts are then its workers, such as "{WORKER}{SERVER}"',
    )
    placement: Literal["free", "apart"] = Field(
        default="free",
        description='"free": the kernel chooses CPUs; "apart": the first CPU for the server, the others for '
        "the clients",
    )
    server_cpus: Cpus = Field(
        default=None, description='CPU numbers of the server, such as [0] or "0-3,6"; or "any"'
    )
    client_cpus: Cpus = Field(
        default=None, description='CPU numbers of the clients, such as [1] or "4-7"; or "any"'
    )
    user: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9_][a-z0-9_-]*$",
        description='the user that servers and clients run as if root runs the study, such as "nobody"',
    )

    @model_validator(mode="before")
    @classmethod
    def _of_hosts(cls, data: object) -> object:
        """A lab that names hosts is of their kind."""
        if isinstance(data, dict) and not {SERVER, LOAD, SCHEDULER}.isdisjoint(data):
            return {"kind": OF_HOSTS.name} | data
        return data


class LabChanges(LabTable, total=False):
    """The keys of [lab] that differ for one contender."""


class NoiseTable(StrictTable):
    """The noise that a block may have, as a share of the machine's CPU time. Noisier blocks are run again."""

    steal: Annotated[str, quantity_text(SHARE, 0, WHOLE)] = Field(
        default="5%",
        description="CPU time that the hypervisor may take away, a share of the machine's, 0 to 100 percent",
    )
    foreign: Annotated[str, quantity_text(SHARE, 0, WHOLE)] = Field(
        default="15%",
        description="CPU time that other processes may use, a share of the machine's, 0 to 100 percent",
    )
    reject_at_most: Annotated[str, quantity_text(SHARE, 0, WHOLE // 4)] = Field(
        default="25%",
        description="the share of blocks that may be rejected for noise, 0 to 25 percent",
    )

    @property
    def steal_percent(self) -> float:
        """The CPU time that the hypervisor may take away, in percent."""
        return percent_of(self.steal)

    @property
    def others_percent(self) -> float:
        """The CPU time that other processes may use, in percent."""
        return percent_of(self.foreign)

    @property
    def reject_at_most_percent(self) -> float:
        """The share of blocks that may be rejected, in percent."""
        return percent_of(self.reject_at_most)


class ScaleTable(StrictTable):
    """The source's experiment made smaller in proportion: a factor divides settings of every contender."""

    factor: int = Field(
        default=1, ge=1, le=10_000, description="the divisor, 1 to 10000; 1 is the source's size"
    )
    divides: list[str] = Field(
        min_length=1,
        description='the settings that are divided, such as ["settings.pool", "load.settings.clients"]',
    )
    time: str | None = Field(
        default=None, description="the one of these settings that is the length of a unit of time, if any"
    )
    of: Annotated[str, quantity_text(TIME, 0, 24 * TIME.units["h"], above=True)] | None = Field(
        default=None, description='the value of `time` in the source\'s experiment, such as "1s"'
    )


class BoundTable(StrictTable):
    """The queueing bound: requests in service at the same time, divided by the mean delay.

    It applies to requests whose delay is a setting, not CPU work.
    """

    at_once: list[str] = Field(
        min_length=1,
        description="settings; the smallest of their values is the number of requests in service at once",
    )
    delays: list[str] = Field(
        min_length=1, description="settings; the mean of their values is the mean delay, in units"
    )
    unit: str = Field(description="the setting that is the length of a unit of delay")
    where: dict[str, bool | int | str] = Field(
        default={},
        description='only contenders with these settings, such as { "settings.busy" = "wall_clock" }',
    )


class SizeTable(StrictTable):
    """The length of a run: after how many blocks it is judged, which parts it runs, and which keys differ.

    A size has either `looks` with `alpha_split`, or `repetitions`. The looks share alpha, so a run may stop
    at any of them. Without these keys the first look is the earliest at which all comparisons can be
    significant. The others have 1.5 and 2 times its blocks; in size full, 2 and 4 times.
    """

    looks: list[Annotated[int, Field(ge=1, le=MOST_BLOCKS)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_LOOKS,
        description="the numbers of blocks after which the run is judged, such as [14, 20, 40] (default: as "
        "many as the comparisons need)",
    )
    alpha_split: list[float] | None = Field(
        default=None,
        min_length=1,
        description="the share of alpha of each look, such as [0.2, 0.3, 0.5]; the sum is 1 (default: equal "
        "shares; of default looks, [0.3, 0.3, 0.4])",
    )
    repetitions: int | None = Field(
        default=None, ge=1, le=1000, description="the number of blocks of a run without verdicts"
    )
    decides: Literal["pairs", "claims"] = Field(
        default="pairs",
        description='the verdicts that end the run: those on the compared "pairs", or on the "claims" of the '
        "source, and then it runs only the contenders that open claims need",
    )
    budget: Annotated[str, quantity_text(TIME, 0, 24 * TIME.units["h"], above=True)] | None = Field(
        default=None,
        description='the time for all trials, such as "60s": no block begins that would exceed it, and the '
        "last look is taken then",
    )
    parts: list[str] | None = Field(
        default=None,
        min_length=1,
        description='the parts that run, such as ["main", "pool_size"] (default: all)',
    )
    points: dict[str, list[Any]] = Field(
        default={},
        description="for each sweep the points that run, such as { pool_size = [5, 15] } (default: all)",
    )
    set: dict[str, Any] = Field(
        default={},
        description='keys with another value in this size, such as { "load.settings.loops" = 250 }',
    )


class ContenderTable(StrictTable):
    """One complete configuration; or a control, which is another contender with other settings."""

    name: str = Field(
        default="",
        pattern=r"^[a-z][a-z0-9_]*$",
        description=f"{NAME}, such as prefork_30 (default: its design or control_of, and its other keys)",
    )
    label: str | None = Field(default=None, description="a few words that name it in tables")
    row: Annotated[int, Field(ge=0)] | Literal["none"] | None = Field(
        default=None, description='its row in the source\'s table, or "none"'
    )
    row_note: str | None = Field(
        default=None, description="a note on the source's row, or the reason why there is none"
    )
    design: str | None = Field(default=None, description='the server design, such as "prefork"')
    command: list[str] | None = Field(
        default=None,
        description="instead of a design, the command of a server of your own and its arguments, such as "
        '["./server", "--port", "{port}"]; it is stopped by SIGTERM. {dir} is a new folder for each '
        "trial, and {dir}/NAME a copy of the file NAME with {port}, {host} and {dir} filled in; {workload} "
        "is its workload, {NAME} the value of load.settings.NAME",
    )
    directory: str | None = Field(
        default=None, description="the folder that the command runs in (default: that of the study)"
    )
    environment: dict[str, str] = Field(
        default={}, description='variables for the command, such as { THREADS = "2" }, besides PORT and HOST'
    )
    ready_line: str | None = Field(
        default=None,
        description="text of the line that the command prints when it is ready (default: it is ready when it "
        "accepts connections)",
    )
    build: list[str] | None = Field(
        default=None,
        description='a command that builds the server, once before the run, such as ["make"]. {build} in it '
        "and in command is a folder that is kept until a file in directory changes",
    )
    version: list[str] | None = Field(
        default=None,
        description='a command that prints the version of the server, such as ["nginx", "-v"]',
    )
    install: str | None = Field(
        default=None, description="how to get the program if it is missing, for the message that says so"
    )
    url: str | None = Field(
        default=None,
        description="instead of a design, the URL of a server that is running, such as http://127.0.0.1:8080/",
    )
    control_of: str | None = Field(
        default=None, description="the contender whose configuration this control starts from"
    )
    workload: str | None = Field(default=None, description="its protocol (default: server.workload)")
    primitive: str | None = Field(
        default=None, description="the server's primitive that sends (default: server.primitive)"
    )
    receive: str | None = Field(
        default=None, description="the server's primitive that receives (default: server.receive)"
    )
    settings: SettingsTable = Field(default={})
    load: LoadChanges = Field(
        default=LoadChanges.model_validate({}), description="the keys of [load] that differ"
    )
    lab: LabChanges = Field(
        default=LabChanges.model_validate({}), description="the keys of [lab] that differ"
    )
    trial: TrialForm | None = Field(
        default=None, description='"window" or "whole_life" (default: that of the sweep or of the study)'
    )


class ChangesTable(StrictTable):
    """The keys of a contender that a sweep may change."""

    design: str = Field(default="", description='the server design, such as "prefork"')
    workload: str = Field(default="", description="its protocol")
    primitive: str = Field(default="", description=SEND)
    receive: str = Field(default="", description=RECEIVE)
    settings: SettingsTable = Field(default={})
    load: LoadChanges = Field(
        default=LoadChanges.model_validate({}), description="the keys of [load] that differ"
    )
    lab: LabChanges = Field(
        default=LabChanges.model_validate({}), description="the keys of [lab] that differ"
    )


class ValueTable(StrictTable):
    """A point of a sweep at which several keys differ."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_.+%-]+$", description="letters, digits and _ . + - %, such as small"
    )
    set: dict[str, Any] = Field(description='keys and their values, such as { "load.settings.loops" = 100 }')


def _kind_of_key(key: object) -> str:
    return "keys" if isinstance(key, list) else "key"


Keys = Annotated[
    Annotated[str, Tag("key")] | Annotated[list[str], Field(min_length=1), Tag("keys")],
    Discriminator(_kind_of_key),
]
"""One key, or several that have the same value at each point."""


def keys_of(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the keys that a sweep's values are for; `key` is as a study file has it."""
    return (key,) if isinstance(key, str) else tuple(key or ())


SweepContender = Annotated[
    Annotated[str, Tag("name")] | Annotated[ContenderTable, Tag("table")], table_or("name")
]


class SweepTable(StrictTable):
    """Contenders at each value of a key. Each contender at each value is a contender BASE@SWEEP=VALUE.

    Contenders are compared with each other at the same value. The title may contain placeholders such as
    `{settings.pool}`, which become the values of this run.
    """

    name: str = Field(
        default="",
        pattern=r"^[a-z][a-z0-9_]*$",
        description=f"{NAME}, such as pool_size (default: the last word of the key)",
    )
    title: str = Field(
        default="", min_length=1, description="a heading of one line (default: By and that word)"
    )
    key: Keys | None = Field(
        default=None,
        description='the key that the values are for, such as "settings.pool"; a list of keys: all of them '
        "get the same value",
    )
    values: list[Any] = Field(
        min_length=1,
        max_length=MOST_ENTRIES,
        description='values of the key, or tables such as { name = "small", set = {...} }',
    )
    contenders: list[SweepContender] = Field(
        default=[],
        min_length=1,
        description="names of contenders, of the main table or of any sweep; or tables [[sweeps.contenders]] "
        "(default: all of the main table)",
    )
    metric: str | None = Field(
        default=None, description="the metric that its contenders are compared by (default: measure.metric)"
    )
    further_metrics: list[str] = Field(
        default=[], description="further metrics that its contenders are compared by"
    )
    metrics: list[str] = Field(default=[], description="further metrics that are shown, without verdicts")
    trial: TrialForm | None = Field(
        default=None, description='"window" or "whole_life" (default: measure.trial)'
    )
    compare: Literal["pairs", "none"] = Field(
        default="pairs", description='"pairs": all contenders at each point are compared; or "none"'
    )
    set: dict[str, Any] = Field(
        default={},
        description='keys with another value at all its points, such as { "load.settings.loops" = 100 }',
    )
    scaled: bool = Field(default=True, description="whether [scale] applies to it")
    source_cpus: int | None = Field(
        default=None,
        ge=1,
        description="the number of CPUs of the source's server; a note appears if this machine differs",
    )
    axis: Axis = Field(default="linear", description='the axis of its points: "linear" or "logarithmic"')
    logarithmic: list[str] = Field(
        default=[],
        description="the metrics whose own axis is logarithmic; if any are named, others are linear",
    )
    x_label: str | None = Field(
        default=None, description="the label of its axis (default: the last word of the key)"
    )
    note: str | None = Field(default=None, description="a note printed below its figures")
    slope: str | None = Field(
        default=None,
        min_length=1,
        description='the name of one unit on its axis, such as "connection": the report shows what each one '
        "adds",
    )
    slope_metrics: list[str] = Field(
        default=[], description="the metrics whose slope is reported (default: all that are shown)"
    )
    ceiling: str | None = Field(
        default=None,
        description="the contender whose payload rate is 100 percent for the others, such as "
        '"bulk@message=131072"',
    )
    crossover: CrossoverTable | None = Field(
        default=None,
        description="a table [sweeps.crossover]: the two contenders that may change places along the axis",
    )
    skip_unavailable: bool = Field(
        default=False,
        description="true: contenders that cannot run on this machine are left out, with a note; false: they "
        "are an error",
    )
    paper: list[PaperTable] = Field(
        default=[], description="tables [[sweeps.paper]]: the source's figures, one table a file"
    )

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that its values are for; empty if the values are tables."""
        return keys_of(self.key)


class ComparisonsTable(StrictTable):
    """The pairs of the main table that are compared. A control is always compared with its contender."""

    all_pairs: bool = Field(default=True, description="whether all pairs except controls are compared")
    pairs: list[list[str]] = Field(
        default=[], description='further pairs of names, such as [["prefork", "prethread"]]'
    )


class StudyForm(StrictTable):
    """The top level of a study file. A study needs a name, and contenders or sweeps."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", description="lower-case letters, digits and -, such as unp-ch30"
    )
    title: str = Field(
        default="",
        min_length=1,
        description="a heading of one line (default: the names of the contenders)",
    )
    question: str = Field(default="", min_length=1, description="the question that the study answers")
    source: str = Field(default="", description="where the question comes from, such as a book or a report")
    claims: str | None = Field(
        default=None, description="a TOML file with the source's claims, in the study's folder"
    )
    inconsistencies: str | None = Field(
        default=None,
        description="a CSV file of mistakes in the source, in the study's folder; its columns: as_printed, "
        "finding, concerns",
    )
    measure: MeasureTable = Field(
        default=MeasureTable(), description="a table [measure]: metric, counters, chance of false verdicts"
    )
    server: ServerTable = Field(
        default=ServerTable(), description="a table [server]: what all servers have in common"
    )
    load: LoadTable = Field(default=LoadTable(), description="a table [load]: the clients")
    lab: LabTable = Field(default=LabTable(), description="a table [lab]: where the trials take place")
    noise: NoiseTable = Field(
        default=NoiseTable(), description="a table [noise]: how much noise a block may have"
    )
    counting: CountingTable = Field(
        default=CountingTable(), description="a table [counting]: extra trials that count events per request"
    )
    counting_cost: CostTable = Field(
        default=CostTable(),
        description="a table [counting_cost]: extra trials that measure what counting costs",
    )
    profiling: ProfilingTable = Field(
        default=ProfilingTable(), description="a table [profiling]: extra trials that sample call stacks"
    )
    scale: ScaleTable | None = Field(
        default=None, description="a table [scale]: the source's experiment made smaller"
    )
    queueing_bound: BoundTable | None = Field(
        default=None, description="a table [queueing_bound]: the most requests a second by arithmetic"
    )
    sizes: dict[str, SizeTable] = Field(
        default={},
        min_length=1,
        description="tables [sizes.NAME]: how long a run is, such as [sizes.quick] (default: quick and full)",
    )
    comparisons: ComparisonsTable = Field(
        default=ComparisonsTable(), description="a table [comparisons]: the pairs that are compared"
    )
    contenders: list[ContenderTable] = Field(
        default=[],
        max_length=MOST_ENTRIES,
        description="tables [[contenders]]: the rows of the main table",
    )
    sweeps: list[SweepTable] = Field(
        default=[],
        max_length=MOST_ENTRIES,
        description="tables [[sweeps]]: contenders at several values of a key",
    )
    paper: list[PaperTable] = Field(
        default=[], description="tables [[paper]]: the source's figures of the main table, one table a file"
    )
    paper_counters: PaperCountersTable | None = Field(
        default=None, description="a table [paper_counters]: the source's counters of both sides"
    )
    source_csv: SourceCsvTable | None = Field(
        default=None, description="a table [source_csv]: the source's own CSV file, written with new figures"
    )

    def with_usual(self, usual: Defaults) -> Self:
        """Return the form with the engine's usual primitives for those that are not given."""
        way = usual.way._asdict().items()
        tables = {"server": self.server, "load": self.load}
        filled = {
            name: table.model_copy(update={key: each for key, each in way if not getattr(table, key)})
            for name, table in tables.items()
        }
        return self.model_copy(update=filled)
