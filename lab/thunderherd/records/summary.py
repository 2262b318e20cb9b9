"""The shapes of what a run leaves on disk: one line of `trials.jsonl`, and `summary.json`.

These models are the published schemas (`trial.schema.json` and `summary.schema.json` in
`docs/generated/reference`). Times are in seconds, and every name that is not a plain count says its unit.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from thunderherd.engine.lines import Connection, Life, LoadResult, Mark, Ready, ServerSummary, Snapshot
from thunderherd.metrics.table import METRICS, Better
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.records.explanation import Explanation
from thunderherd.records.extra_trials import CountingCost, CountingSummary, ProfilingSummary
from thunderherd.records.limits import BoundSummary, MachineLimits, NoBoundSummary
from thunderherd.records.noise import NoiseSummary
from thunderherd.records.paper_counters import CountedSummary
from thunderherd.statistics.estimates import Estimate as Estimate
from thunderherd.statistics.estimates import Record as Record
from thunderherd.statistics.estimates import Spread as Spread

SchemaNumber = Literal[4]
SCHEMA: SchemaNumber = 4
"""The version of both shapes."""

SUMMARY_SCHEMA = "summary.schema.json"


# One trial


class Noise(Record):
    """What the machine did beside the trial, between the two samples that enclose its measured window."""

    steal_share: float = Field(description="share of the machine's CPU time that the hypervisor took away")
    foreign_share: float = Field(
        description="share of the machine's CPU time used by processes that are not part of the trial"
    )
    wall_seconds: float
    machine_busy_seconds: float = Field(description="CPU time of everything on this machine")
    throttled: int = Field(description="times that this process's control group was throttled")
    foreign_uncertainty: float = Field(
        default=0.0, description="two standard deviations of it: the clock is sampled"
    )
    softirq_seconds: list[float] = Field(
        default_factory=list,
        description="by CPU: time in soft interrupts, whomever their packets were for; counted at the tick",
    )
    retransmitted: int | None = Field(
        default=None,
        description="TCP segments that any socket in the network namespaces of both sides retransmitted; "
        "null: they could not be asked",
    )

    @property
    def softirq_rates(self) -> list[float]:
        """Milliseconds in soft interrupts in each second, by CPU; empty: that was not recorded."""
        return [round(1e3 * seconds / self.wall_seconds, 3) for seconds in self.softirq_seconds]


TrialMetrics = dict[str, int | float | None]
"""One number per metric, by its name in the table of metrics. Null: not measured, or without meaning for this
contender (it has no pool, no connection was opened in the window)."""

CpuScope = Literal["window", "whole_life"]

TrialForm = Literal["window", "whole_life"]
"""A warm-up, then a window between two snapshots; or no warm-up, and both sides counted from exec to exit."""

Axis = Literal["linear", "logarithmic"]


class TrialRecord(Record):
    """One line of `trials.jsonl`: one fresh server, one load, one measured window (or both their whole
    lives)."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    kind: Literal["trial"] = "trial"
    study: str
    contender: str
    block: int = Field(description="from 1")
    position: int = Field(description="place in the block's order, from 1")
    attempt: int = Field(default=1, description="2: the block's trial was invalid and was run once more")
    seed: int
    started: str = Field(description="local time with offset, ISO 8601")
    wall_seconds: float = Field(description="of the whole trial, set-up and warm-up included")
    valid: bool
    invalid_reasons: list[str]
    warnings: list[str] = Field(default_factory=list)
    trial: TrialForm = "window"
    cpu_scope: CpuScope | None = Field(default=None, description="what server_cpu_seconds covers")
    ready: Ready | None = None
    rest_before: Snapshot | None = Field(
        default=None, description="before a load that ends by time; its window lies inside"
    )
    before: Snapshot | None = None
    during: Snapshot | None = Field(default=None, description="near its end, where states are counted")
    after: Snapshot | None = None
    rest_after: Snapshot | None = Field(default=None, description="after a load that ends by time")
    summary: ServerSummary | None = None
    loads: list[LoadResult] = Field(default_factory=list)
    warm_up: list[LoadResult] = Field(default_factory=list)
    marks: list[Mark] = Field(default_factory=list, description="of loads that end by time")
    server_life: Life | None = Field(default=None, description="of a whole-life trial")
    client_lives: list[Life] = Field(default_factory=list, description="of a whole-life trial")
    noise: Noise | None = None
    time_wait_before: int | None = None
    metrics: TrialMetrics | None = Field(
        default=None,
        description="one number per metric; null: not measured, or without meaning for this contender",
        json_schema_extra={
            "properties": {
                each.name: {"description": each.words + (f", {each.unit}" if each.unit else "")}
                for each in METRICS.values()
            }
        },
    )
    worker_connections: list[int] | None = Field(
        default=None, description="connections of each pool worker in the window"
    )


# summary.json


class LookTaken(Record):
    """A planned look: whether it was taken, and how many comparisons were decided at it."""

    blocks: int
    alpha: float
    taken: bool
    decided: int | None = None


class StudySummary(Record):
    """What was asked, and how it was run."""

    name: str
    asked_for: str = Field(
        default="", description="what names it to `thunderherd run`: its name, or the path of its file"
    )
    title: str
    question: str
    source: str = ""
    size: str
    seed: int
    digest: str = Field(description="SHA-256 of the study as resolved, overrides included")
    metric: str
    better: Better
    baseline: str | None
    normalise_connections: int
    counters: dict[str, str] = Field(
        default_factory=dict, description="those that both sides were asked for, and the unit of each"
    )
    states: list[str] = Field(default_factory=list, description="those of them that tell of one moment")
    connections_per_trial: int | None = Field(description="of the study's own load; null: it ends by time")
    repetitions: int | None = Field(
        description="so many blocks and no verdicts: every run is shown; null: blocks are judged at looks"
    )
    blocks: int = Field(description="accepted blocks, which the verdicts rest on")
    alpha: float = Field(description="two-sided, over all looks and the whole family")
    equivalence_percent: float
    family_size: int
    looks: list[LookTaken]
    complete: bool = Field(description="the last look was taken, or all was decided earlier")
    cpu_scope: CpuScope | None
    cpu_sources: dict[str, str | None] = Field(
        default_factory=dict,
        description="where windows have the server's CPU time from, and why from no better source",
    )
    settings: dict[str, Any] = Field(
        description="load, laboratory and noise settings in effect; a contender has its server's"
    )
    overrides: list[str]
    command: list[str]
    notes: list[str] = Field(description="warnings that belong beside every figure")
    remarks: list[str] = Field(default_factory=list, description="beside each figure of its main table")
    started: str
    finished: str


class ClientsPerWorker(Record):
    """The spread of connections over the pool's workers, each figure averaged over trials."""

    minimum: float
    mean: float
    maximum: float
    standard_deviation: float


class ContenderSummary(Record):
    """One contender. CPU figures are seconds for `normalise_connections` connections.

    A contender of a sweep is named BASE@SWEEP=POINT; those of the study's main table have neither.
    """

    name: str
    label: str
    base: str = Field(description="its own name; of a sweep's point, that of the contender which it varies")
    sweep: str | None
    point: str | None
    row: int | None
    control_of: str | None
    design: str
    primitive: str = Field(description="by which its server sends")
    receive: str = Field(description="by which its server receives")
    workload: str
    settings: dict[str, Any]
    load: dict[str, Any] | None = Field(description="null: that of the study's settings")
    lab: dict[str, Any] | None = Field(description="null: that of the study's settings")
    connections: dict[str, Connection] = Field(
        default_factory=dict, description="by side: of the last accepted trial; empty over Unix sockets"
    )
    trial: TrialForm
    scale: str | None = Field(default=None, description="how it is smaller than the source's, where it is")
    metric: str = Field(description="what its verdicts rest on")
    blocks: int = Field(description="accepted blocks in which its trial was valid")
    metrics: dict[str, Estimate] = Field(
        description="every metric that it has in each of these blocks, in the metric's own unit"
    )
    unknown: dict[str, str] = Field(
        default_factory=dict, description="by metric, why nothing tells a figure of what it did"
    )
    scaled: dict[str, float] = Field(
        default_factory=dict,
        description="by metric that is extrapolated in one of its trials, since its events took turns on the "
        "CPU's few counters: the least share of the time in which they were counted",
    )
    runs: list[TrialMetrics] = Field(
        description="the metrics of each run, by block, where runs are repeated in place of verdicts; of the "
        "first accepted ones where a study shows some beside its verdicts"
    )
    spread: dict[str, Spread] = Field(
        default_factory=dict, description="with repetitions: of every metric that each of these runs has"
    )
    cpu_seconds: Estimate | None = Field(description="null: no valid trial, or not known")
    process_control_seconds: Estimate | None = Field(
        description="minus the baseline, paired by block; of the baseline itself 0 without an interval"
    )
    clients_per_worker: ClientsPerWorker | None
    worker_connections: list[float] | None = Field(description="mean per worker, workers sorted, most first")
    rank: int | None = Field(description="1 uses least CPU; by estimate, separated or not")
    letters: str = Field(description="contenders that share a letter are not separated")
    voluntary_switches_per_connection: Estimate | None
    connections_per_second: Estimate | None
    client_cpu_seconds: Estimate | None
    machine_cpu_seconds: Estimate | None
    noise: NoiseSummary | None = Field(
        default=None, description="what the machine did beside its trials; null: none tells of it"
    )


Verdict = Literal["faster", "slower", "equivalent", "undecided"]


class PairSummary(Record):
    """`a` against `b`: ratio of the metric, and the verdict on a (faster: a is better in the metric's
    direction).

    The ratio is that of costs: a / b where less is better; of a rate, where more is, it is b / a, the ratio
    of the times that one takes.
    """

    a: str
    b: str
    sweep: str | None = Field(description="null: a pair of the main table")
    point: str | None
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    simultaneous_low: float | None
    simultaneous_high: float | None
    p: float | None
    p_adjusted: float | None = Field(description="Holm, over the whole family")
    p_equivalent_adjusted: float | None = None
    verdict: Verdict
    blocks: int
    smallest_detectable_percent: float | None
    decided_at: int | None = Field(default=None, description="blocks of the look that decided it")


class SweepPoint(Record):
    """A point of a sweep's axis."""

    name: str
    number: float | None = Field(description="where it stands on the axis; null: it has a name only")
    here: int | None = Field(
        default=None, description="what ran in place of that number, where the source's experiment is scaled"
    )

    @property
    def label(self) -> str:
        """As tables have it: `3200 (here 128)`."""
        return self.name if self.here is None else f"{self.name} (here {self.here})"


PROCESS_CONTROL, WORKERS = "process_control_seconds", "worker_connections"
"""What a figure of the source may stand beside that is no metric: fields of `ContenderSummary`."""


class PaperFigure(Record):
    """The source's figure of a metric, for a contender of the main table or at a point of a sweep."""

    metric: str = Field(
        description="what it stands beside: a metric, or process_control_seconds or worker_connections of a "
        "contender"
    )
    base: str = Field(description="the contender, without its @SWEEP=POINT")
    sweep: str | None = Field(default=None, description="null: of the main table")
    point: str | None = None
    system: str | None = Field(default=None, description="where it ran, if the source has several systems")
    unit: str = Field(default="", description="the source's; empty: that in which ours is shown")
    value: float | None = Field(
        description="the mean, where the source gives several; null: it has none, and the note says why"
    )
    runs: list[float] = Field(
        description="every figure that the source gives for it: of each run, or of each worker"
    )
    note: str | None = None


class SlopeSummary(Record):
    """The straight line of a metric over a sweep, by least squares within each block: what one more on the
    axis adds, and what is there at none. In the metric's own unit."""

    base: str = Field(description="the contender, without its @SWEEP=POINT")
    metric: str
    each: Estimate | None = Field(description="what one more adds: the slope; null: it has none, and why")
    start: Estimate | None = Field(description="the line at zero; of whole lives, what starting up costs")
    each_spread: Spread | None = Field(default=None, description="with repetitions: of the runs' slopes")
    start_spread: Spread | None = Field(default=None, description="with repetitions: of the runs' starts")
    r_squared: Estimate | None = Field(
        default=None, description="how straight it is: 1 where the line explains all that varies"
    )
    r_squared_spread: Spread | None = Field(default=None, description="with repetitions: of the runs' lines")
    why: str | None = Field(default=None, description="where there is no slope: why not")


class SweepSummary(Record):
    """A sweep: contenders over the points of an axis. The figures are those of `contenders` with its name."""

    name: str
    title: str
    key: str | None = Field(description="the key that takes the values, where it is one")
    x_label: str
    axis: Axis
    metric: str = Field(description="what its verdicts rest on")
    better: Better
    unit: str = Field(description="of the metric")
    metrics: list[str] = Field(description="what is shown, its metric first")
    logarithmic: list[str] = Field(
        default_factory=list,
        description="those of them that are drawn with a logarithmic axis in any case; where there are some, "
        "the others have a linear one",
    )
    trial: TrialForm
    points: list[SweepPoint]
    contenders: list[str] = Field(description="their bases; BASE@SWEEP=POINT are the names at a point")
    absent: dict[str, str] = Field(description="declared contenders that this machine cannot run, and why")
    remarks: list[str] = Field(
        default_factory=list,
        description="what belongs beside each of its figures: how it differs from the source's experiment, "
        "and what was copied after all",
    )
    unavailable: dict[str, str] = Field(
        default_factory=dict,
        description="of the metrics that it shows, those that cannot be had here, and why",
    )
    substitutes: dict[str, str] = Field(
        default_factory=dict,
        description="by such a metric, the one that is shown in its place: of CPU cost the next rung",
    )
    slope: str | None = Field(
        default=None, description="what one more on its axis is called, where the study asks what each adds"
    )
    note: str | None = Field(default=None, description="what to know about its figures")
    ceiling: str | None = Field(
        default=None, description="the contender whose payload rate theirs are shares of, where there is one"
    )
    slopes: list[SlopeSummary] = Field(
        default_factory=list, description="of each metric that is shown and each contender"
    )
    crossover: CrossoverSummary | None = Field(default=None, description="null: the study does not ask")
    counted_points: list[str] = Field(
        default_factory=list,
        description="where two contenders or more were counted, so that it can be told why one costs more "
        "than another; `explanations` of the summary have it",
    )
    uncounted_points: list[str] = Field(
        default_factory=list, description="its other points; of one contender alone none are told"
    )


ClaimVerdict = Literal["supported", "refuted", "undecided", "not testable here"]


class ClaimSummary(Record):
    """A sentence of the source, its figure, this machine's figure, and the verdict."""

    id: str
    statement: str
    source_note: str | None
    paper_figure: str | None
    our_figure: str
    estimate: Estimate | None
    verdict: ClaimVerdict
    why: str
    contrasts: list[dict[str, Any]] = Field(default_factory=list)


class QuestionSummary(Record):
    """A question of the source, and sentences that are filled from this run's figures and verdicts."""

    id: str
    text: str
    answer: list[str] = Field(description="sentences")
    note: str | None = Field(description="what the source says; and why nothing is judged, where nothing is")
    figures: list[dict[str, Any]] = Field(
        default_factory=list,
        description="the contrasts behind the sentences, by the names of their placeholders",
    )


class TrialCounts(Record):
    """How many trials there were, and what became of them. The three counts add up to all trials on disk."""

    valid: int
    invalid: int
    rejected: int = Field(description="valid, but of a block that outside noise rejected")
    invalid_reasons: dict[str, int] = Field(description="contender and reason, and how often")
    accepted_blocks: list[int] = Field(description="in the order in which the looks take them")
    rejected_blocks: list[int] = Field(description="rejected for outside noise, never for their outcome")
    noisy_blocks_kept: list[int] = Field(description="noisy, but accepted: too many were, and these least")
    incomplete_blocks: list[int] = Field(description="a trial stayed invalid when it was repeated")
    given_up: dict[str, str] = Field(
        description="contenders whose trials are invalid again and again, and why"
    )


class Summary(Record):
    """`summary.json`: every figure of the printed table and of the report."""

    schema_file: str = Field(
        default=SUMMARY_SCHEMA, alias="$schema", description="this schema, which lies beside it"
    )
    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    study: StudySummary
    machine: dict[str, Any]
    limits: MachineLimits | None = Field(default=None, description="null: they were not measured")
    bounds: list[BoundSummary] = Field(
        default_factory=list, description="how far the best results are from them"
    )
    without_bounds: list[NoBoundSummary] = Field(
        default_factory=list, description="tables that are judged by what no limit bounds, and why"
    )
    contenders: list[ContenderSummary]
    unavailable: dict[str, str] = Field(
        default_factory=dict,
        description="by side and counter that was asked for and cannot be had here (server.cpu_cycles): why",
    )
    sweeps: list[SweepSummary]
    paper: list[PaperFigure] = Field(
        default_factory=list, description="the source's figures, with what is to be known about each"
    )
    pairs: list[PairSummary]
    pairs_all_blocks: list[PairSummary] = Field(description="the same with the rejected blocks kept")
    claims: list[ClaimSummary]
    questions: list[QuestionSummary] = Field(default_factory=list)
    counted: CountedSummary | None = Field(default=None, description="null: the source has no such table")
    counting: CountingSummary | None = Field(
        default=None, description="what was counted in trials of their own; null: the run was asked for none"
    )
    counting_cost: CountingCost | None = Field(
        default=None,
        description="what counting events of the processor changed in the trials that did; null: none "
        "did, or it was not measured",
    )
    profiles: ProfilingSummary | None = Field(default=None, description="null: the run was asked for none")
    explanations: list[Explanation] = Field(
        default_factory=list, description="the best of each table against each other counted contender"
    )
    trials: TrialCounts
