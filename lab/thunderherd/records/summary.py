"""The shape of `summary.json`, published as docs/generated/reference/summary.schema.json.

Times are in seconds, and each name that is not a plain count includes its unit.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from thunderherd.engine.lines import Connection
from thunderherd.metrics.table import Better, MetricName
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.records.explanation import Explanation
from thunderherd.records.extra_trials import CountingCost, CountingSummary, ProfilingSummary
from thunderherd.records.limits import BoundSummary, MachineLimits, NoBoundSummary
from thunderherd.records.noise import NoiseSummary
from thunderherd.records.paper_counters import CountedSummary
from thunderherd.records.trial import SCHEMA as SCHEMA
from thunderherd.records.trial import Noise as Noise
from thunderherd.records.trial import SchemaNumber as SchemaNumber
from thunderherd.records.trial import TrialForm as TrialForm
from thunderherd.records.trial import TrialMetrics as TrialMetrics
from thunderherd.records.trial import TrialRecord as TrialRecord
from thunderherd.statistics.estimates import Estimate as Estimate
from thunderherd.statistics.estimates import Record as Record
from thunderherd.statistics.estimates import Spread as Spread

Axis = Literal["linear", "logarithmic"]

SUMMARY_SCHEMA = "summary.schema.json"


# summary.json


class LookTaken(Record):
    """A planned look: whether it was taken, and how many comparisons it decided."""

    blocks: int = Field(description="number of accepted blocks at this look")
    alpha: float = Field(description="significance level spent at this look")
    taken: bool = Field(description="whether the look was taken")
    decided: int | None = Field(
        default=None, description="number of comparisons decided at it. Null: it was not taken"
    )


class StudySummary(Record):
    """The study, and how it was run."""

    name: str = Field(description="name of the study")
    asked_for: str = Field(
        default="", description="the study as typed for `thunderherd run`: its name, or the path of its file"
    )
    title: str = Field(description="title of the study")
    question: str = Field(description="the question that the study answers")
    source: str = Field(default="", description="the source that the study reproduces; empty: none")
    size: str = Field(description="size of the run, such as quick or full")
    seed: int = Field(description="seed of the order of trials")
    digest: str = Field(description="SHA-256 of the resolved study, overrides included")
    metric: str = Field(description="the metric of the verdicts in the main table")
    better: Better = Field(description="whether more or less of the metric is better")
    further_metrics: list[str] = Field(
        default_factory=list, description="further metrics that the main table's contenders are compared by"
    )
    baseline: str | None = Field(
        description="the contender whose CPU time is subtracted from the others'. Null: none"
    )
    normalise_connections: int = Field(
        description="CPU times per connection are shown for this many connections"
    )
    counters: dict[str, str] = Field(
        default_factory=dict, description="by counter requested for both sides, its unit"
    )
    states: list[str] = Field(
        default_factory=list, description="those counters that report one moment, not an amount"
    )
    connections_per_trial: int | None = Field(
        description="connections per trial of the study's own load. Null: the load ends by time"
    )
    repetitions: int | None = Field(
        description="number of blocks of a study that shows every run and gives no verdicts. Null: the "
        "study has looks and verdicts"
    )
    blocks: int = Field(description="number of accepted blocks, which the verdicts rest on")
    alpha: float = Field(
        description="two-sided significance level over all looks and the whole family of comparisons"
    )
    equivalence_percent: float = Field(
        description="contenders within this distance of each other count as equivalent, percent"
    )
    family_size: int = Field(description="number of comparisons that are judged together")
    looks: list[LookTaken] = Field(description="the planned looks, in order")
    complete: bool = Field(description="whether the last look was taken, or all was decided earlier")
    cpu_scope: TrialForm | None = Field(
        description="what server_cpu_seconds covers: the window or the whole life. Null: no valid trial"
    )
    cpu_sources: dict[str, str | None] = Field(
        default_factory=dict,
        description="by CPU source of the windows, why no better source was available. Null for a "
        "source: it is the best",
    )
    settings: dict[str, Any] = Field(
        description="settings of load, lab and noise in effect; server settings are those of each contender"
    )
    units: dict[str, str] = Field(
        default={},
        description="units of settings of servers and loads that are quantities, by name: ns, bytes",
    )
    overrides: list[str] = Field(description="the --set options, as typed")
    command: list[str] = Field(description="the command line, by words")
    notes: list[str] = Field(description="warnings that belong next to every figure")
    remarks: list[str] = Field(
        default_factory=list, description="caveats that belong next to each figure of the main table"
    )
    started: str = Field(description="start of the run, local time with offset (ISO 8601)")
    finished: str = Field(description="end of the run, local time with offset (ISO 8601)")


class ClientsPerWorker(Record):
    """The spread of connections over the workers of the pool; each figure is the mean over trials."""

    minimum: float = Field(description="least connections of a worker")
    mean: float = Field(description="mean connections of a worker")
    maximum: float = Field(description="most connections of a worker")
    standard_deviation: float = Field(description="standard deviation over the workers")


class ContenderSummary(Record):
    """A contender. CPU times are in seconds per `normalise_connections` connections.

    At a point of a sweep its name is BASE@SWEEP=POINT; `sweep` and `point` are null in the main table.
    """

    name: str = Field(description="name of the contender; at a point of a sweep, BASE@SWEEP=POINT")
    label: str = Field(description="label in tables and charts")
    base: str = Field(description="the contender without @SWEEP=POINT")
    sweep: str | None = Field(description="the sweep. Null: the main table")
    point: str | None = Field(description="the point of the sweep. Null: the main table")
    row: int | None = Field(description="row in the source's table. Null: the source has no such row")
    control_of: str | None = Field(
        description="the contender that this one varies as a control. Null: it is no control"
    )
    design: str = Field(description="design of its server")
    primitive: str = Field(description="send primitive of its server")
    receive: str = Field(description="receive primitive of its server")
    workload: str = Field(description="its workload")
    settings: dict[str, Any] = Field(description="settings of its server")
    load: dict[str, Any] | None = Field(description="its load. Null: that of the study's settings")
    lab: dict[str, Any] | None = Field(description="its lab. Null: that of the study's settings")
    connections: dict[str, Connection] = Field(
        default_factory=dict,
        description="by side, the kernel's properties of a connection of the last accepted trial; empty "
        "over Unix sockets",
    )
    trial: TrialForm = Field(
        description="window: measured between two snapshots; whole_life: measured from exec to exit"
    )
    scale: str | None = Field(
        default=None, description="how it is smaller than in the source. Null: it is not"
    )
    metric: str = Field(description="the metric of its verdicts")
    blocks: int = Field(description="number of accepted blocks in which its trial was valid")
    metrics: dict[str, Estimate] = Field(
        description="by metric that every one of these blocks has, its estimate in the metric's own unit"
    )
    unknown: dict[str, str] = Field(
        default_factory=dict, description="by metric that cannot be known for this contender, the reason"
    )
    at_least: dict[str, Estimate] = Field(
        default_factory=dict,
        description="by rate that the clients limited, what the contender reached: it can do at least this. "
        "Such a rate is not in `metrics`, and is not compared",
    )
    scaled: dict[str, float] = Field(
        default_factory=dict,
        description="by metric that is extrapolated in one of its trials, because events took turns on "
        "the CPU's few counters, the least share of the time in which they were counted (0 "
        "to 1)",
    )
    runs: list[TrialMetrics] = Field(
        description="the metrics of each run, by block: of all runs if the study has repetitions; of the "
        "first accepted ones if it shows some next to its verdicts; otherwise empty"
    )
    spread: dict[str, Spread] = Field(
        default_factory=dict,
        description="for repeated runs, by metric that every run has, mean and standard deviation",
    )
    cpu_seconds: Estimate | None = Field(
        description="the server's CPU time, seconds per `normalise_connections` connections. Null: no "
        "valid trial, or unknown"
    )
    process_control_seconds: Estimate | None = Field(
        description="the same minus that of the baseline, paired by block; 0 without an interval for the "
        "baseline itself. Null: no baseline, or unknown"
    )
    clients_per_worker: ClientsPerWorker | None = Field(
        description="spread of connections over the workers of the pool. Null: no pool, or not measured"
    )
    worker_connections: list[float] | None = Field(
        description="mean connections of each worker, the most first. Null: no pool, or not measured"
    )
    rank: int | None = Field(
        description="rank by estimate, 1 is best, whether or not the difference is significant. Null: no "
        "estimate"
    )
    letters: str = Field(description="contenders that share a letter do not differ significantly")
    voluntary_switches_per_connection: Estimate | None = Field(
        description="voluntary context switches of the server per connection. Null: not measured"
    )
    connections_per_second: Estimate | None = Field(description="connections per second. Null: not measured")
    client_cpu_seconds: Estimate | None = Field(
        description="the clients' CPU time, seconds per `normalise_connections` connections. Null: not "
        "measured"
    )
    machine_cpu_seconds: Estimate | None = Field(
        description="CPU time of the whole machine, seconds per `normalise_connections` connections. "
        "Null: not measured"
    )
    noise: NoiseSummary | None = Field(
        default=None, description="what else the machine did during its trials. Null: not recorded"
    )
    noise_of_hosts: dict[str, NoiseSummary] = Field(
        default_factory=dict,
        exclude_if=lambda hosts: not hosts,
        description="the same of each host. Absent: both sides were on this machine",
    )


Verdict = Literal["faster", "slower", "equivalent", "undecided"]


class PairSummary(Record):
    """Contender a compared with contender b: ratio of the metric, and verdict on a.

    The ratio is one of costs. If less is better it is a / b. If more is better, as for a rate, it is b / a,
    which is the ratio of times.
    """

    a: str = Field(description="the first contender")
    b: str = Field(description="the second contender")
    sweep: str | None = Field(description="the sweep. Null: the main table")
    point: str | None = Field(description="the point of the sweep. Null: the main table")
    metric: MetricName = Field(description="the metric that is compared")
    ratio: float | None = Field(
        description="estimated ratio of costs; below 1, a is better. Null: no block with both"
    )
    low: float | None = Field(description="lower end of its interval. Null: too few blocks for a bound")
    high: float | None = Field(description="upper end of its interval. Null: too few blocks for a bound")
    confidence: float = Field(description="confidence of the interval")
    simultaneous_low: float | None = Field(
        description="lower end of the interval that holds for all comparisons together. Null: too few "
        "blocks for a bound"
    )
    simultaneous_high: float | None = Field(
        description="upper end of the interval that holds for all comparisons together. Null: too few "
        "blocks for a bound"
    )
    p: float | None = Field(
        description="two-sided p-value of the hypothesis of no difference. Null: no block with both"
    )
    p_adjusted: float | None = Field(
        description="the same, Holm-adjusted over the whole family. Null: no block with both"
    )
    p_equivalent_adjusted: float | None = Field(
        default=None,
        description="p-value of the hypothesis that the two are not equivalent, Holm-adjusted. Null: not "
        "tested",
    )
    verdict: Verdict = Field(description="the verdict on a: faster means better in the metric's direction")
    blocks: int = Field(description="number of blocks with both contenders")
    smallest_detectable_percent: float | None = Field(
        description="smallest difference that this number of blocks detects, percent. Null: too few blocks"
    )
    decided_at: int | None = Field(
        default=None, description="number of blocks of the look that decided it. Null: undecided"
    )


class SweepPoint(Record):
    """A point on the axis of a sweep."""

    name: str = Field(description="name of the point")
    number: float | None = Field(description="position on the axis. Null: the point has only a name")
    here: int | None = Field(
        default=None,
        description="the number that ran instead, in an experiment that is smaller than the source's. "
        "Null: the source's own number ran",
    )

    @property
    def label(self) -> str:
        """The label in tables: `3200 (here 128)`."""
        return self.name if self.here is None else f"{self.name} (here {self.here})"


PROCESS_CONTROL, WORKERS = "process_control_seconds", "worker_connections"
"""Fields of `ContenderSummary` that are no metrics, but that a figure of the source may be compared with."""


class PaperFigure(Record):
    """The source's figure of a metric, for a contender of the main table or at a point of a sweep."""

    metric: str = Field(
        description="the figure that it is compared with: a metric, or process_control_seconds or "
        "worker_connections of a contender"
    )
    base: str = Field(description="the contender, without @SWEEP=POINT")
    sweep: str | None = Field(default=None, description="the sweep. Null: the main table")
    point: str | None = Field(default=None, description="the point of the sweep. Null: the main table")
    system: str | None = Field(
        default=None, description="the source's system, if it measured on several. Null: it has one"
    )
    unit: str = Field(
        default="", description="the source's unit; empty: the unit in which this machine's figure is shown"
    )
    value: float | None = Field(
        description="the source's figure; the mean, if it has several. Null: it has none, for the reason "
        "in `note`"
    )
    runs: list[float] = Field(description="all figures of the source, of each run or each worker")
    note: str | None = Field(default=None, description="a caveat of the figure. Null: none")


class SlopeSummary(Record):
    """The straight line of a metric over a sweep, by least squares within each block. In the metric's own
    unit.

    The slope is what one more on the axis adds. The start is the line's value at zero.
    """

    base: str = Field(description="the contender, without @SWEEP=POINT")
    metric: str = Field(description="name of the metric")
    each: Estimate | None = Field(description="the slope. Null: there is none, for the reason in `why`")
    start: Estimate | None = Field(
        description="the line's value at zero; for whole lives, the cost of starting up. Null: there is "
        "no line"
    )
    each_spread: Spread | None = Field(
        default=None,
        description="for repeated runs, mean and standard deviation of their slopes. Null: the study has "
        "verdicts instead",
    )
    start_spread: Spread | None = Field(
        default=None,
        description="for repeated runs, mean and standard deviation of their starts. Null: the study has "
        "verdicts instead",
    )
    r_squared: Estimate | None = Field(
        default=None,
        description="how straight the line is; 1 if it explains all variation. Null: there is no line",
    )
    r_squared_spread: Spread | None = Field(
        default=None,
        description="for repeated runs, mean and standard deviation of this. Null: the study has "
        "verdicts instead",
    )
    why: str | None = Field(default=None, description="why there is no slope. Null: there is one")


class SweepSummary(Record):
    """A sweep: contenders over the points of an axis. `contenders` of the summary has the figures."""

    name: str = Field(description="name of the sweep")
    title: str = Field(description="title of the sweep")
    key: str | None = Field(
        description="the key of the study that takes the values. Null: the points are tables"
    )
    x_label: str = Field(description="label of the axis")
    axis: Axis = Field(description="scale of the axis")
    metric: str = Field(description="the metric of its verdicts")
    better: Better = Field(description="whether more or less of the metric is better")
    unit: str = Field(description="unit of the metric")
    further_metrics: list[str] = Field(
        default_factory=list, description="further metrics that its contenders are compared by"
    )
    metrics: list[str] = Field(description="metrics that are shown, those of the verdicts first")
    logarithmic: list[str] = Field(
        default_factory=list,
        description="those metrics that are always drawn on a logarithmic axis; if there are some, the "
        "others are drawn on a linear one",
    )
    trial: TrialForm = Field(
        description="window: measured between two snapshots; whole_life: measured from exec to exit"
    )
    points: list[SweepPoint] = Field(description="the points, in order")
    contenders: list[str] = Field(description="the contenders, without @SWEEP=POINT")
    absent: dict[str, str] = Field(description="by contender that this machine cannot run, the reason")
    remarks: list[str] = Field(
        default_factory=list,
        description="caveats that belong next to each figure, such as how the sweep differs from the "
        "source's experiment",
    )
    unavailable: dict[str, str] = Field(
        default_factory=dict,
        description="by metric that is shown but unavailable on this machine, the reason",
    )
    substitutes: dict[str, str] = Field(
        default_factory=dict,
        description="by unavailable metric, the metric shown instead: the next measure of CPU cost",
    )
    slope: str | None = Field(
        default=None,
        description="name of one step on the axis, if the study requests what each adds. Null: it does not",
    )
    note: str | None = Field(default=None, description="a caveat of its figures. Null: none")
    ceiling: str | None = Field(
        default=None,
        description="the contender whose payload rate is the ceiling: the others' rates are shown as "
        "shares of it. Null: none",
    )
    slopes: list[SlopeSummary] = Field(default_factory=list, description="one entry per metric and contender")
    crossover: CrossoverSummary | None = Field(
        default=None, description="crossover of two contenders. Null: the study does not request it"
    )
    counted_points: list[str] = Field(
        default_factory=list,
        description="points with at least two counted contenders; `explanations` of the summary has "
        "their differences",
    )
    uncounted_points: list[str] = Field(
        default_factory=list, description="the other points; empty if there is only one contender"
    )


ClaimVerdict = Literal["supported", "refuted", "no difference that matters", "undecided", "not testable here"]


class ClaimSummary(Record):
    """A claim of the source, its figure, this machine's figure, and the verdict."""

    id: str = Field(description="identifier of the claim")
    statement: str = Field(description="the claim, as a sentence")
    source_note: str | None = Field(description="a note on the claim in the source. Null: none")
    paper_figure: str | None = Field(description="the source's figure, as text. Null: it has none")
    our_figure: str = Field(description="this machine's figure, as text")
    estimate: Estimate | None = Field(
        description="this machine's figure, as an estimate. Null: the claim rests on several figures, or "
        "on none"
    )
    verdict: ClaimVerdict = Field(description="whether this run supports the claim")
    why: str = Field(description="reason of the verdict")
    blocks_needed: int | None = Field(
        default=None,
        description="expected number of blocks in all for a verdict, by the variance of this run's blocks. "
        "Null: it has one, or more than 10,000",
    )
    decided_at: int | None = Field(
        default=None, description="number of blocks at the look that gave the verdict. Null: undecided"
    )
    contrasts: list[dict[str, Any]] = Field(
        default_factory=list, description="the comparisons that the verdict rests on"
    )


class QuestionSummary(Record):
    """A question of the source, answered in sentences from this run's figures and verdicts."""

    id: str = Field(description="identifier of the question")
    text: str = Field(description="the question")
    answer: list[str] = Field(description="the answer, by sentences")
    note: str | None = Field(
        description="the source's answer, and why nothing is judged if nothing is. Null: neither"
    )
    figures: list[dict[str, Any]] = Field(
        default_factory=list,
        description="the contrasts behind the sentences, by name of their placeholders",
    )


class TrialCounts(Record):
    """The number of trials by outcome. The three counts add up to all trials on disk."""

    valid: int = Field(description="valid trials, without those rejected for outside noise")
    invalid: int = Field(description="invalid trials")
    rejected: int = Field(
        description="valid trials rejected for outside noise: those of rejected blocks, and those repeated"
    )
    repeated: int = Field(default=0, description="of the rejected trials, those that were repeated")
    invalid_reasons: dict[str, int] = Field(
        description="by contender and reason, the number of invalid trials"
    )
    accepted_blocks: list[int] = Field(description="in the order in which the looks take them")
    rejected_blocks: list[int] = Field(
        description="blocks rejected for outside noise, never for their outcome"
    )
    noisy_blocks_kept: list[int] = Field(
        description="noisy blocks that were accepted, because too many were noisy and these were the least"
    )
    incomplete_blocks: list[int] = Field(description="blocks with a trial that was invalid at both attempts")
    given_up: dict[str, str] = Field(
        description="by contender that the run gave up because its trials were repeatedly invalid, the reason"
    )
    foreign_share: float | None = Field(
        default=None,
        description="share of the CPU time that other processes used, median of all trials. Null: no trial "
        "recorded it",
    )


class Summary(Record):
    """`summary.json`: every figure of the printed tables and of the report."""

    schema_file: str = Field(
        default=SUMMARY_SCHEMA,
        alias="$schema",
        description="file name of this schema, which is in the same folder",
    )
    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    study: StudySummary
    machine: dict[str, Any] = Field(
        description="what the run was measured on: machine, kernel, settings, tools; null values have "
        "their reasons in `unavailable`"
    )
    limits: MachineLimits | None = Field(
        default=None, description="the machine limits, of the server's host. Null: not measured"
    )
    limits_of_hosts: dict[str, MachineLimits] = Field(
        default_factory=dict,
        description="the same of one host of each machine. Empty: both sides were on this machine",
    )
    bounds: list[BoundSummary] = Field(
        default_factory=list, description="how near the best results are to what the machine limits allow"
    )
    without_bounds: list[NoBoundSummary] = Field(
        default_factory=list, description="tables whose metric no machine limit bounds"
    )
    contenders: list[ContenderSummary] = Field(description="one entry per contender, in the study's order")
    unavailable: dict[str, str] = Field(
        default_factory=dict,
        description="by side and counter that is requested but unavailable on this machine "
        "(server.cpu_cycles), the reason",
    )
    sweeps: list[SweepSummary] = Field(description="one entry per sweep")
    paper: list[PaperFigure] = Field(default_factory=list, description="the source's figures")
    pairs: list[PairSummary] = Field(
        description="one entry per comparison of two contenders in the metric that ranks them, over the "
        "accepted blocks"
    )
    pairs_all_blocks: list[PairSummary] = Field(
        description="these and `further_pairs` over all blocks, the rejected ones included"
    )
    further_pairs: list[PairSummary] = Field(
        default_factory=list,
        description="one entry per comparison in a further metric, over the accepted blocks; `pairs` and "
        "these are one family",
    )
    claims: list[ClaimSummary] = Field(description="one entry per claim of the source")
    questions: list[QuestionSummary] = Field(
        default_factory=list, description="one entry per question of the source"
    )
    counted: CountedSummary | None = Field(
        default=None,
        description="the source's table of counters next to this machine's. Null: the source has none",
    )
    counting: CountingSummary | None = Field(
        default=None, description="results of counted trials. Null: the study requests none"
    )
    counting_cost: CountingCost | None = Field(
        default=None,
        description="how counting events of the processor changed the trials that did. Null: none did, "
        "or it was not measured",
    )
    profiles: ProfilingSummary | None = Field(
        default=None, description="results of profiled trials. Null: the study requests none"
    )
    explanations: list[Explanation] = Field(
        default_factory=list,
        description="why the best contender of each table costs less than each other counted contender",
    )
    trials: TrialCounts = Field(description="how many trials there were, by outcome")

    @property
    def family(self) -> list[PairSummary]:
        """All comparisons, in all metrics."""
        return [*self.pairs, *self.further_pairs]
