"""What a study becomes: frozen models in which nothing is left to be guessed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.catalogue import Makes
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.engine.sizes import with_path
from thunderherd.errors import UserError
from thunderherd.labs import USUAL
from thunderherd.labs.words import QUANTITIES, in_words
from thunderherd.metrics.table import AskedCounters, Better
from thunderherd.records.crossover import CrossoverTable
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.records.summary import Axis, PaperFigure, SweepPoint, TrialForm
from thunderherd.study.file.source_tables import PaperCountersTable, SourceCsvTable
from thunderherd.study.source_figures import Inconsistency, notes_about
from thunderherd.toml.file import unknown

Settings = dict[str, SettingValue]

SEEDS = ("arrival_seed", "request_seed")
"""The settings of a load from which follows what it does when; each of several processes has its own."""

LARGEST_SEED = 2**64 - 1
"""Behind it seeds begin at 0 again."""

SOURCES = "source_addresses"
"""The setting of a load that says how many local addresses its clients connect from."""

CONNECTIONS, KEPT, PIPELINE = "connections", "kept", "pipeline"
"""The setting of a load that says whether a client makes a connection for each request or keeps one for
all, and its word for that; and the one that says how many requests of a connection may be under way."""


class _Resolved(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Measure(_Resolved):
    """What is compared. `alpha` is the chance of a false verdict, over the whole family and all looks.

    `single_runs` is how many stand beside judged figures. `limits_milliseconds` is how long a run measures
    the machine's limits before its first trial; 0: not. `counters` are read on both sides in every trial;
    each figure of theirs with its unit, as the engine has it; `states` are those that tell of one moment, and
    have no difference over a window. `overload` is what a trial is whose server did not keep up with an open
    loop.
    """

    metric: str
    better: Better
    baseline: str | None
    normalise_connections: int
    equivalence_percent: float
    alpha: float
    single_runs: int = 0
    limits_milliseconds: int = 0
    counters: dict[str, str]
    states: tuple[str, ...] = Field(default=(), exclude=True)
    overload: Literal["invalid", "counts"] = "invalid"

    @property
    def counters_asked(self) -> list[str]:
        """What the engine is asked for: the counters, without the further figures of some."""
        return list(dict.fromkeys(name.partition(".")[0] for name in self.counters))

    @property
    def asked(self) -> AskedCounters:
        """The requested counters, from which the metrics of the study follow."""
        return AskedCounters(tuple(self.counters), frozenset(self.states))


class LoadPlan(_Resolved):
    """The load of a trial: so many load `processes` at once, each with these settings.

    `requests` names the settings whose product is the number of requests of one process, the last of them
    the number of each client; `duration` the setting that ends it by time where it is not 0. The engine says
    so. Whoever does not `store` what comes has primitives that leave it to the kernel, uncopied if possible;
    one that `completes` its sends asks the kernel not to copy them. `files` are those that settings name,
    from the study's `folder` on, with the SHA-256 of what they hold; `named_files` the settings that may.
    """

    kind: str
    primitive: str
    receive: str
    stores: bool = True
    completes: bool = False
    workload: str
    processes: int
    settings: Settings
    warm_up_connections: int
    files: dict[str, str] = {}
    folder: Path = Field(default=Path(), exclude=True)
    named_files: tuple[str, ...] = Field(default=(), exclude=True)
    requests: tuple[str, ...] = Field(exclude=True)
    duration: str | None = Field(default=None, exclude=True)
    without_primitives: tuple[str, str] | None = Field(default=None, exclude=True)

    @property
    def uses_primitives(self) -> bool:
        """Whether primitives move its bytes; else what is submitted does so itself, and the engine is told of
        none."""
        return self.without_primitives is None or self.without_primitives not in self.settings.items()

    @property
    def sources(self) -> int:
        """Local addresses that its clients connect from, each of which has all local ports."""
        return int(self.settings.get(SOURCES, 1))

    @property
    def is_timed(self) -> bool:
        """Whether it ends by time: the number of its requests is not known beforehand."""
        return bool(self.duration and self.settings.get(self.duration))

    @property
    def told(self) -> Settings:
        """The settings that its processes are started with: those of a load that ends by time do not say how
        many requests each client makes, which the engine refuses."""
        overruled = self.requests[-1:] if self.is_timed else ()
        told = {name: value for name, value in self.settings.items() if name not in overruled}
        named = (name for name in self.named_files if name in told)
        return told | {name: with_path(str(told[name]), self.folder) for name in named}

    @property
    def each_told(self) -> list[Settings]:
        """`told` for each of its processes: seeds count on from the study's, since processes with the same
        seed would do the same at the same moments. Each says its own in its result."""
        seeds = {name: int(self.settings[name]) for name in SEEDS if name in self.settings}
        own: list[Settings] = [
            {name: (seed + place) % (LARGEST_SEED + 1) for name, seed in seeds.items()}
            for place in range(self.processes)
        ]
        return [self.told | each for each in own]

    @property
    def requests_per_trial(self) -> int | None:
        """Requests in the measured window, all clients together; None where the load ends by time."""
        if self.is_timed:
            return None
        return self.processes * math.prod(int(self.settings[name]) for name in self.requests)

    @property
    def requests_at_once(self) -> int | None:
        """Requests that may be under way at the same time, each client waiting for its replies before it asks
        again; None where the load does not say."""
        if not self.requests:
            return None
        clients = math.prod(int(self.settings[name]) for name in self.requests[:-1])
        return self.processes * clients * int(self.settings.get(PIPELINE, 1))

    @property
    def connections_per_trial(self) -> int | None:
        """Connections that the measured load opens, all clients together; None where that is not known
        beforehand."""
        if self.settings.get(CONNECTIONS) != KEPT:
            return self.requests_per_trial
        clients, most = self.processes * int(self.settings.get("clients", 1)), self.requests_per_connection
        if not most:
            return clients
        if self.is_timed or not self.requests:
            return None
        return clients * math.ceil(int(self.settings[self.requests[-1]]) / most)

    @property
    def requests_per_connection(self) -> int:
        """After so many requests a client makes a new connection; 0: it keeps the first."""
        return int(self.settings.get("requests_per_connection", 0))

    @property
    def connections_by(self) -> tuple[str, ...]:
        """The settings that the number of connections of one process follows from."""
        if self.settings.get(CONNECTIONS) == KEPT and not self.requests_per_connection:
            return tuple(name for name in ("clients",) if name in self.settings)
        return self.requests


class Lab(_Resolved):
    """Where server and clients are: a kind of `labs`, what joins them (the engine's settings of a pair of
    interfaces, none without one), and CPU numbers, of which None lets the kernel choose."""

    kind: str = USUAL.name
    settings: dict[str, int] = {}
    server_cpus: tuple[int, ...] | None
    client_cpus: tuple[int, ...] | None

    @property
    def network(self) -> str:
        """In words, what is the same for all that run in the same lab, on whatever CPUs."""
        return in_words(self.kind, self.settings)

    @property
    def rate_gigabits(self) -> float | None:
        """What either end sends at most in a second, in 10⁹ bits; None where nothing bounds it."""
        return self.settings.get(QUANTITIES["rate"].setting, 0) / 1e9 or None


class Contender(_Resolved):
    """One complete configuration; `settings` holds a value for everything that its server can be told.

    A point of a sweep is a contender too, named BASE@SWEEP=POINT; `sweep` and `point` of the others are None.
    `stores` and `completes` are as those of the load, for its server. `copies` is how often a byte on its way
    from one program to the other is copied at least, `spins` whether an end never sleeps, `makes` what its
    server makes anew for every connection, `calls` whether that makes a system call for whatever it does.
    `scale` says in words how it is smaller than the source's experiment, where it is; `queueing_bound` is the
    most requests a second that arithmetic allows it, where the study says how to reckon; `at_least` what a
    trial must have of some metrics to be valid.
    `counts_requests` is whether its server counts as many requests as its clients make; the engine says so.
    """

    name: str
    label: str
    base: str
    sweep: str | None
    point: str | None
    row: int | None
    design: str
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
    queueing_bound: float | None = None
    at_least: dict[str, float] = {}
    calls: bool = Field(default=True, exclude=True)
    counts_requests: bool = Field(default=True, exclude=True)
    control_of: str | None

    def configured(self) -> dict[str, object]:
        """What it is configured with, by key."""
        return {
            "design": self.design,
            "lab.kind": self.lab.kind,
            "lab.network": self.lab.network,
            **{f"lab.{key}": self.lab.settings.get(each.setting) for key, each in QUANTITIES.items()},
            "primitive": self.primitive,
            "receive": self.receive,
            **{f"settings.{name}": value for name, value in self.settings.items()},
            "load.primitive": self.load.primitive,
            "load.receive": self.load.receive,
            "load.processes": self.load.processes,
            **{f"load.settings.{name}": value for name, value in self.load.settings.items()},
        }


class Comparison(_Resolved):
    """A pair of the declared family, by names: of the main table, or at one point of a sweep."""

    a: str
    b: str
    metric: str
    better: Better
    sweep: str | None = None
    point: str | None = None


class Sweep(_Resolved):
    """Contenders over the points of an axis; `contenders` are their bases, those that can run here.

    `key` is what its points are values of, several where those take each value together. `absent` are
    declared contenders that this machine cannot run, by name, and why. `remarks` say how its figures differ
    from the source's experiment and belong beside each. `slope` is what one more on the axis is called, where
    what each adds is told; `crossover` names two contenders, where it is told at which point they change
    places. `ceiling` names the contender whose payload rate theirs are shares of.
    """

    name: str
    title: str
    key: str | tuple[str, ...] | None
    x_label: str
    axis: Axis
    logarithmic: tuple[str, ...] = ()
    metric: str
    better: Better
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


class Look(_Resolved):
    """A planned look at the data after that many blocks, with the part of alpha that it may spend."""

    blocks: int
    alpha: float


class Noise(_Resolved):
    """Percent of the machine's CPU time that make a block noisy; percent of blocks that may be rejected."""

    steal_percent: float
    foreign_percent: float
    reject_at_most_percent: float


class Study(_Resolved):
    """A study with everything resolved.

    `contenders` holds those of the main table, then those of each sweep's points. `paper` holds the source's
    figures for the main table, then those for each sweep, of what this size runs. `absent` names the
    declared ones that do not take part in this run, and why. `comparisons` is the declared family. With
    `repetitions` there are so many blocks and no verdicts: one look that spends no alpha. `digest` is the
    SHA-256 of all that follows from the file, the size and the overrides, but not of where the file lies.
    `notes` belong beside every figure. `counting`, `counting_cost` and `profiling` name those
    with trials of their own after all else.
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
    load: LoadPlan
    lab: Lab
    noise: Noise
    counting: CountingTable = CountingTable()
    counting_cost: CostTable = CostTable(trials=0)
    profiling: ProfilingTable = ProfilingTable()
    notes: tuple[str, ...]
    inconsistencies: tuple[Inconsistency, ...]
    path: Path = Field(exclude=True)
    claims_path: Path | None = Field(exclude=True)
    paper_counters: PaperCountersTable | None = Field(default=None, exclude=True)
    source_csv: SourceCsvTable | None = Field(default=None, exclude=True)
    overrides: tuple[str, ...] = Field(exclude=True)
    digest: str = ""

    def contender(self, name: str) -> Contender:
        """The contender of that name; UserError when there is none."""
        for contender in self.contenders:
            if contender.name == name:
                return contender
        raise UserError(f"{self.name}: {unknown('contender', name, (each.name for each in self.contenders))}")

    @property
    def main(self) -> tuple[Contender, ...]:
        """The contenders of the main table; a study of sweeps alone has none."""
        return tuple(contender for contender in self.contenders if contender.sweep is None)

    def notes_about(self, subject: str) -> str | None:
        """What the source gets wrong about "row 7", "claim H66" or another subject; None if nothing."""
        return notes_about(self.inconsistencies, subject)
