"""The resolved study: frozen models in which every setting has a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from thunderherd.engine.catalogue import Makes
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import THIS, HostAddress, parse_host
from thunderherd.labs import USUAL
from thunderherd.labs.kind import Role
from thunderherd.labs.words import QUANTITIES, Ends, in_words
from thunderherd.metrics.table import AskedCounters, Better
from thunderherd.records.crossover import CrossoverTable
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.records.summary import Axis, PaperFigure, SweepPoint, TrialForm
from thunderherd.study.file.placeholders import RESERVED
from thunderherd.study.file.source_tables import PaperCountersTable, SourceCsvTable
from thunderherd.study.file.tables import NoiseTable
from thunderherd.study.source_figures import Inconsistency, notes_about
from thunderherd.toml.file import show, unknown
from thunderherd.toml.quantities import NoQuantity, Quantity, percent_of, quantity_of

Settings = dict[str, SettingValue]

SEEDS = ("arrival_seed", "request_seed")
"""The seeds of a load: each of several processes gets its own."""

LARGEST_SEED = 2**64 - 1
"""The largest seed; the next one is 0."""

SOURCES = "source_addresses"
"""The setting of a load that is the number of local addresses of its clients."""

CONNECTIONS, KEPT, PIPELINE = "connections", "kept", "pipeline"
"""The setting of a load that chooses a connection for each request or a persistent connection, its value for
persistent connections, and the setting for the number of outstanding requests of a connection."""

CLOSING, BY_RESET = "closing", "reset"
"""The setting of a load that chooses how its clients end their connections, and its value for RST."""


class _Resolved(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, serialize_by_alias=True)


class Measure(_Resolved):
    """[measure], resolved.

    `limits` is a time in nanoseconds. `counters` has each figure of the requested counters with the engine's
    unit. `states` are those of them that describe one moment, and so have no difference over a window.
    """

    metric: str
    better: Better
    further_metrics: tuple[str, ...] = ()
    baseline: str | None
    normalise_connections: int
    equivalence: str
    alpha: float
    single_runs: int = 0
    limits: int = 0
    counters: dict[str, str]
    states: tuple[str, ...] = Field(default=(), exclude=True)
    overload: Literal["invalid", "counts"] = "invalid"

    @property
    def equivalence_percent(self) -> float:
        """The largest difference that does not matter, in percent."""
        return percent_of(self.equivalence)

    @property
    def counters_asked(self) -> list[str]:
        """The requested counters, without the further figures that some of them have."""
        return list(dict.fromkeys(name.partition(".")[0] for name in self.counters))

    @property
    def asked(self) -> AskedCounters:
        """The requested counters, from which the metrics of the study follow."""
        return AskedCounters(tuple(self.counters), frozenset(self.states))


class OwnProgram(_Resolved):
    """A server or load generator that is not ours: its command, or the address at which it is running.

    `url` is as typed. `directory` is that of the command. `build` and `version` are commands, too; `built` is
    the folder for what is built. A contender with `install`, how to get the program, may be left out.
    """

    command: tuple[str, ...] = ()
    directory: Path | None = Field(default=None, exclude=True)
    environment: dict[str, str] = {}
    ready_line: str | None = None
    build: tuple[str, ...] = ()
    built: Path | None = Field(default=None, exclude=True)
    version: tuple[str, ...] = ()
    url: str | None = None
    address: str | None = None
    install: str | None = Field(default=None, exclude=True)


RATE = "rate"
"""The setting with the requests per second of an open loop."""


def _share(whole: int, place: int, places: int) -> int:
    """Return the share of a number at one of several places, numbered from 0; the shares add up to it."""
    return whole // places + (place < whole % places)


class LoadPlan(_Resolved):
    """The load of a trial: `processes` at the same time, each with all `settings`.

    Several `hosts` run as many processes each, and share the clients and the rate of each process.

    From the engine's catalogue come `requests`, the settings whose product is the number of requests of a
    process (the last is the number per client); `duration`, the setting that ends the load by time unless it
    is 0; `warm_up` and `clients_by`, the settings for the warm-up before that time and for the number of
    clients; `stores`, false if the receive primitive leaves the bytes in the kernel; and `completes`, true if
    the send primitive reports completions. `own_way` has the primitives that are not the engine's usual ones,
    `given` the settings that are not defaults. `files` maps paths below the study's `folder` to the SHA-256
    of the files; `named_files` maps settings to these paths.

    With `generator` the clients are a load generator that is not ours. Its command has placeholders for
    settings (`placeholders`), of which `times` are times. `parser` reads its output.
    """

    kind: str
    primitive: str
    receive: str
    stores: bool = True
    completes: bool = False
    workload: str
    processes: int
    hosts: int = Field(default=1, exclude_if=lambda hosts: hosts == 1)
    settings: Settings
    generator: OwnProgram | None = None
    parser: str | None = None
    warm_up_connections: int
    files: dict[str, str] = {}
    folder: Path = Field(default=Path(), exclude=True)
    named_files: dict[str, str] = Field(default={}, exclude=True)
    requests: tuple[str, ...] = Field(exclude=True)
    duration: str | None = Field(default=None, exclude=True)
    warm_up: str | None = Field(default=None, exclude=True)
    clients_by: str | None = Field(default=None, exclude=True)
    times: frozenset[str] = Field(default=frozenset(), exclude=True)
    own_way: dict[str, str] = Field(default={}, exclude=True)
    given: frozenset[str] = Field(default=frozenset(), exclude=True)

    @property
    def clients(self) -> int:
        """The number of clients of a process."""
        return int(self.settings[self.clients_by]) if self.clients_by else 1

    @property
    def sources(self) -> int:
        """The number of local addresses of its clients; each address has all local ports."""
        return int(self.settings.get(SOURCES, 1))

    @property
    def is_timed(self) -> bool:
        """True if it ends by time, so that its number of requests is not known beforehand."""
        return bool(self.duration and self.settings.get(self.duration))

    @property
    def has_window(self) -> bool:
        """True if its clients report when the measured window begins and ends."""
        return self.is_timed and self.generator is None

    @property
    def engine_settings(self) -> Settings:
        """The settings that the engine gets.

        A load that ends by time has no number of requests per client: the engine refuses both together.
        """
        overruled = self.requests[-1:] if self.is_timed else ()
        return self.located({k: value for k, value in self.settings.items() if k not in overruled})

    def located(self, settings: Mapping[str, SettingValue], file: Callable[[Path], Path] = Path) -> Settings:
        """Return settings with the path of each file as `file` returns it for the path on this machine."""
        found = dict(settings)
        for name in found.keys() & self.named_files.keys():
            path = self.named_files[name]
            before = str(self.settings[name]).removesuffix(path)
            found[name] = f"{before}{file((self.folder / path).resolve())}"
        return found

    @property
    def placeholders(self) -> dict[str, str]:
        """The placeholders of commands for the settings, with their values: times in seconds, sizes in bytes.

        `{clients}` and `{duration}` are the number of clients and the length, whatever the load calls them.
        """
        settings = {**self.settings, **{name: self.engine_settings[name] for name in self.named_files}}
        duration = settings.get(self.duration or "", 0)
        values = {
            "clients": str(self.clients),
            "duration": f"{int(duration) / 1e9:g}",
            **{name: self._written(name, value) for name, value in settings.items()},
        }
        return {f"{{{name}}}": value for name, value in values.items() if name not in RESERVED}

    def _written(self, name: str, value: SettingValue) -> str:
        if name in self.times:
            return f"{int(value) / 1e9:g}"
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def each_settings(self) -> list[Settings]:
        """The settings that the engine gets for each process, with consecutive seeds.

        With equal seeds the processes would do the same at the same moments. The hosts take turns.
        """
        return [self.engine_settings | self._of_place(place) for place in range(self.processes * self.hosts)]

    def _of_place(self, place: int) -> Settings:
        """Return the settings in which a process differs from others."""
        own: Settings = {}
        for name in (each for each in SEEDS if each in self.settings):
            own[name] = (int(self.settings[name]) + place) % (LARGEST_SEED + 1)
        if self.hosts > 1:
            for name in (each for each in (self.clients_by, RATE) if each in self.settings):
                own[str(name)] = _share(int(self.settings[str(name)]), place % self.hosts, self.hosts)
        return own

    @property
    def requests_per_trial(self) -> int | None:
        """The number of requests in the measured window, of all clients; None if not known beforehand."""
        if self.is_timed or self.generator is not None:
            return None
        return self.processes * math.prod(int(self.settings[name]) for name in self.requests)

    @property
    def requests_at_once(self) -> int | None:
        """The most outstanding requests of all clients together; None if unknown."""
        if not self.requests:
            return None
        return self.processes * self.clients * int(self.settings.get(PIPELINE, 1))

    @property
    def connections_per_trial(self) -> int | None:
        """The number of connections that the load opens, of all clients; None if not known beforehand."""
        if self.settings.get(CONNECTIONS) != KEPT:
            return self.requests_per_trial
        clients, most = self.processes * self.clients, self.requests_per_connection
        if not most:
            return clients
        if self.is_timed or not self.requests:
            return None
        return clients * math.ceil(int(self.settings[self.requests[-1]]) / most)

    @property
    def requests_per_connection(self) -> int:
        """The number of requests after which a client makes a new connection; 0: never."""
        return int(self.settings.get("requests_per_connection", 0))

    @property
    def connections_by(self) -> tuple[str, ...]:
        """The settings that determine the number of connections of a process."""
        if self.settings.get(CONNECTIONS) == KEPT and not self.requests_per_connection:
            return (self.clients_by,) if self.clients_by else ()
        return self.requests


class Lab(_Resolved):
    """The place of server and clients: the kind of lab, the engine's settings of what joins them, and CPUs.

    With CPUs of None the kernel chooses.
    """

    kind: str = USUAL.name
    settings: dict[str, int] = {}
    server_cpus: tuple[int, ...] | None
    client_cpus: tuple[int, ...] | None
    user: str | None = None
    """The user that both sides run as. None: the one who runs the study."""
    server: str | None = Field(default=None, exclude_if=lambda host: host is None)
    load: tuple[str, ...] = Field(default=(), exclude_if=lambda hosts: not hosts)
    """The addresses of the hosts of both sides."""
    scheduler: str | None = Field(default=None, exclude_if=lambda address: address is None)
    """The scheduler of a Dask cluster that somebody else has started, if the hosts are its workers."""

    @property
    def ends(self) -> Ends:
        """The hosts of both sides."""
        server = None if self.server is None else parse_host(self.server)
        return Ends(
            server,
            tuple(map(parse_host, self.load)),
            server_cpus=self.server_cpus or (),
            client_cpus=self.client_cpus or (),
            scheduler=self.scheduler,
        )

    @property
    def network(self) -> str:
        """The lab in words without its CPUs, equal for all contenders that share a site."""
        return in_words(self.kind, self.settings, self.ends)

    @property
    def rate_gigabits(self) -> float | None:
        """The bit rate limit of either end in Gbit/s; None if there is none."""
        return self.settings.get("rate", 0) / 1e9 or None


class Contender(_Resolved):
    """One complete configuration, with a value for every setting of its server.

    A contender at a point of a sweep has the name BASE@SWEEP=POINT; for others `sweep` and `point` are None.

    From the engine's catalogue come `stores` and `completes`, as in `LoadPlan`, for the server; `copies`, the
    least number of copies of a byte between the two programs; `spins`, whether an end busy-polls; `makes`,
    what the server creates for every connection; `calls`, whether the server makes a system call for each
    operation; and `counts_requests`, whether the server counts as many requests as its clients make.

    A server of the user's own is `own_server`, which records call `foreign`, and has no design. A run goes
    without a contender that `may_be_left_out` if it cannot run.

    From the study come `scale`, how much smaller it is than the source's experiment, in words;
    `divided_by`, the factors by which its settings and those of its load are smaller;
    `queueing_bound`, the most requests a second by arithmetic; and `at_least`, the minimum of metrics in a
    valid trial.
    """

    name: str
    label: str
    base: str
    sweep: str | None
    point: str | None
    row: int | None
    design: str
    own_server: OwnProgram | None = Field(
        default=None, validation_alias=AliasChoices("foreign", "own_server"), serialization_alias="foreign"
    )
    primitive: str
    receive: str
    stores: bool = True
    completes: bool = False
    copies: int = 2
    spins: bool = False
    makes: Makes | None = None
    workload: str
    settings: Settings
    load: LoadPlan
    lab: Lab
    trial: TrialForm
    metric: str
    better: Better
    scale: str | None = None
    divided_by: dict[str, int] = Field(default={}, exclude_if=lambda factors: not factors)
    queueing_bound: float | None = None
    at_least: dict[str, float] = {}
    calls: bool = Field(default=True, exclude=True)
    counts_requests: bool = Field(default=True, exclude=True)
    may_be_left_out: bool = Field(default=False, exclude=True)
    control_of: str | None

    @property
    def programs(self) -> Iterator[tuple[Role, HostAddress, OwnProgram]]:
        """Yield side, host and program of its server and load generator, if not ours and started by a run."""
        ends, here = self.lab.ends, parse_host(THIS)
        if self.own_server is not None and self.own_server.command:
            yield "server", ends.server or here, self.own_server
        if self.load.generator is not None:
            yield "load", (*ends.load, here)[0], self.load.generator

    def configured(self) -> dict[str, object]:
        """Return its configuration by key."""
        return {
            "design": self.design,
            "command": self.own_server and self.own_server.command,
            "url": self.own_server and self.own_server.url,
            "lab.kind": self.lab.kind,
            "lab.network": self.lab.network,
            **{f"lab.{key}": self.lab.settings.get(key) for key in QUANTITIES},
            "primitive": self.primitive,
            "receive": self.receive,
            **{f"settings.{name}": value for name, value in self.settings.items()},
            "load.command": self.load.generator and self.load.generator.command,
            "load.primitive": self.load.primitive,
            "load.receive": self.load.receive,
            "load.processes": self.load.processes,
            **{f"load.settings.{name}": value for name, value in self.load.settings.items()},
        }


class Comparison(_Resolved):
    """A pair of contenders that are compared, of the main table or at one point of a sweep."""

    a: str
    b: str
    metric: str
    better: Better
    sweep: str | None = None
    point: str | None = None


class Sweep(_Resolved):
    """A sweep, resolved: the fields have the meanings of the study file's keys.

    `contenders` are the names before @ of those that run on this machine. `absent` has the declared
    contenders that this machine cannot run, with the reasons. `remarks` are notes on how its figures differ
    from the source's experiment.
    """

    name: str
    title: str
    key: str | tuple[str, ...] | None
    x_label: str
    axis: Axis
    logarithmic: tuple[str, ...] = ()
    metric: str
    better: Better
    further_metrics: tuple[str, ...] = ()
    metrics: tuple[str, ...]
    trial: TrialForm
    points: tuple[SweepPoint, ...]
    contenders: tuple[str, ...]
    absent: dict[str, str]
    remarks: tuple[str, ...] = ()
    slope: str | None = None
    slope_metrics: tuple[str, ...] = ()
    crossover: CrossoverTable | None = None
    ceiling: str | None = None
    note: str | None = None


LEFT_OUT = "left out: "
"""The beginning of a note on contenders that this machine cannot run."""


def notes_of_left_out(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each reason, with the contenders that are left out for it."""
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(name for name, why in reasons.items() if why == reason)
        yield f"{LEFT_OUT}{names}: {reason}"


class Look(_Resolved):
    """A planned look after a number of blocks, with its share of alpha."""

    blocks: int
    alpha: float


class Study(_Resolved):
    """A study in one size, resolved.

    `contenders` has those of the main table, then those at each sweep's points. `absent` has the declared
    contenders that do not take part in this run, with the reasons. `paper` has the source's figures of the
    parts that run, `comparisons` the pairs that are compared. With `repetitions` there is one look, which
    spends no alpha. `decides` says which verdicts end the run. After `budget_seconds` no block begins.
    `counting`, `counting_cost` and `profiling` name the contenders with extra trials. `notes` belong to every
    figure. `units` has the units of settings that are quantities, by name. `digest` is the SHA-256 of the
    resolved study without its path.
    """

    name: str
    title: str
    question: str
    source: str
    size: str
    measure: Measure
    contenders: tuple[Contender, ...]
    sweeps: tuple[Sweep, ...]
    paper: tuple[PaperFigure, ...]
    absent: dict[str, str]
    comparisons: tuple[Comparison, ...]
    looks: tuple[Look, ...]
    repetitions: int | None
    decides: Literal["pairs", "claims"] = "pairs"
    budget_seconds: float | None = None
    load: LoadPlan
    lab: Lab
    noise: NoiseTable
    counting: CountingTable = CountingTable()
    counting_cost: CostTable = CostTable(trials=0)
    profiling: ProfilingTable = ProfilingTable()
    notes: tuple[str, ...]
    inconsistencies: tuple[Inconsistency, ...]
    units: dict[str, str] = {}
    path: Path = Field(exclude=True)
    claims_path: Path | None = Field(exclude=True)
    paper_counters: PaperCountersTable | None = Field(default=None, exclude=True)
    source_csv: SourceCsvTable | None = Field(default=None, exclude=True)
    overrides: tuple[str, ...] = Field(exclude=True)
    digest: str = ""

    def quantity(self, name: str) -> Quantity:
        """Return the kind of quantity of a setting."""
        return quantity_of(self.units.get(name))

    def read(self, name: str, value: object) -> object:
        """Return the value of a setting as the study has it, a quantity as a number of its smallest unit."""
        try:
            return self.quantity(name).read(value) if name in self.units and isinstance(value, str) else value
        except NoQuantity:
            return value

    def written(self, name: str, value: object) -> str:
        """Return the value of a setting as a study file has it, a quantity without quotes."""
        if name in self.units and isinstance(value, int):
            return self.quantity(name).write(value)
        return show(value)

    def contender(self, name: str) -> Contender:
        """Return the contender of that name; raise UserError if there is none."""
        for contender in self.contenders:
            if contender.name == name:
                return contender
        found = unknown("contender", name, (each.name for each in self.contenders))
        raise UserError(found.at(self.name))

    @property
    def hosts(self) -> list[str]:
        """The hosts on which it measures, and the scheduler that knows them."""
        labs = [each.lab for each in self.contenders]
        named = [each for lab in labs for each in (lab.scheduler, lab.server, *lab.load)]
        return [each for each in dict.fromkeys(named) if each and each != THIS]

    @property
    def main(self) -> tuple[Contender, ...]:
        """The contenders of the main table; none if the study has only sweeps."""
        return tuple(contender for contender in self.contenders if contender.sweep is None)

    def only(self, names: Collection[str], why: str) -> Study:
        """Return the study with these contenders alone, without extra trials; the others are absent.

        `why` is the reason.
        """
        kept = [each for each in self.contenders if each.name in names]
        sweeps = []
        for sweep in self.sweeps:
            own = [each for each in kept if each.sweep == sweep.name]
            # The axis keeps the points that this machine cannot run: the source has figures there.
            lost = {name.rpartition("=")[2] for name in sweep.absent}
            shown = {*(each.point for each in own), *lost}
            points = tuple(point for point in sweep.points if point.name in shown)
            bases = tuple(name for name in sweep.contenders if name in {each.base for each in own})
            if own:
                sweeps.append(sweep.model_copy(update={"points": points, "contenders": bases}))
        dropped = {each.name: why for each in self.contenders if each.name not in names}
        return self.model_copy(
            update={
                "contenders": tuple(kept),
                "sweeps": tuple(sweeps),
                "absent": {**self.absent, **dropped},
                "counting": CountingTable(),
                "counting_cost": CostTable(trials=0),
                "profiling": ProfilingTable(),
            }
        )

    def without(self, reasons: Mapping[str, str]) -> Study:
        """Return the study without contenders that this machine cannot run, by name with the reasons.

        It is as if their programs had been missing, but has the same digest.
        """
        if not reasons:
            return self
        kept = tuple(each for each in self.contenders if each.name not in reasons)
        names = {each.name for each in kept}
        sweeps = []
        for sweep in self.sweeps:
            bases = {each.base for each in kept if each.sweep == sweep.name}
            own = {each.name for each in self.contenders if each.sweep == sweep.name}
            lost = {name: why for name, why in reasons.items() if name in own}
            bases_left = tuple(base for base in sweep.contenders if base in bases)
            changes = {"contenders": bases_left, "absent": {**sweep.absent, **lost}}
            sweeps.append(sweep.model_copy(update=changes))
        extra = {
            key: table.model_copy(update={"contenders": [each for each in table.contenders if each in names]})
            for key, table in (
                ("counting", self.counting),
                ("counting_cost", self.counting_cost),
                ("profiling", self.profiling),
            )
        }
        return self.model_copy(
            update={
                "contenders": kept,
                "sweeps": tuple(sweeps),
                "absent": {**self.absent, **reasons},
                "comparisons": tuple(each for each in self.comparisons if {each.a, each.b} <= names),
                "notes": (*self.notes, *notes_of_left_out(reasons)),
                **extra,
            }
        )

    def notes_about(self, subject: str) -> str | None:
        """Return the inconsistencies of the source about "row 7", "claim H66" or another subject."""
        return notes_about(self.inconsistencies, subject)
