"""The shape of knee.json, which `thunderherd knee` writes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.statistics.knees import Outcome
from thunderherd.statistics.knees import Verdict as KneeVerdict

SchemaNumber = Literal[1]
SCHEMA: SchemaNumber = 1

Stage = Literal["search", "confirmation"]
"""search: the run over widely spaced rates; confirmation: the run over rates around the knees it found."""


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class KneePoint(_Found):
    """One rate of a design, over the accepted blocks."""

    rate: int = Field(description="requested rate, requests per second")
    latency_seconds: float | None = Field(
        description="the percentile of latency, seconds. Null: the server did not keep up in many trials"
    )
    low: float | None = Field(description="lower end of its interval. Null: too few trials, or unbounded")
    high: float | None = Field(description="upper end of its interval. Null: too few trials, or unbounded")
    trials: int = Field(description="number of valid trials")
    overloaded: int = Field(description="number of these in which the server did not keep up with the rate")
    stage: Stage = Field(default="search", description="the run that measured it")


class DesignKnee(_Found):
    """The knee of a design: the highest rate at which it meets the goal."""

    name: str = Field(description="name of the design")
    outcome: Outcome | None = Field(
        description='"one": a knee was found; "none": no rate of the range meets the goal; "all": every '
        'rate meets it; "unclear": the blocks disagree. Null: unknown, for the reason in '
        "`why`"
    )
    rate: float | None = Field(description='the knee, requests per second. Null: the outcome is not "one"')
    low: float | None = Field(
        description="lower end of its interval. Null: below the rates of the run, or no knee"
    )
    high: float | None = Field(
        description="upper end of its interval. Null: above the rates of the run, or no knee"
    )
    confidence: float | None = Field(description="confidence of the interval. Null: no interval")
    blocks: int = Field(description="number of blocks that the outcome rests on")
    between_rates: int = Field(
        description="number of blocks in which the knee is known only to be between two rates of the run"
    )
    points: list[KneePoint] = Field(description="one entry per rate")
    left_out: dict[int, str] = Field(
        description="by rate at which the load did not measure its server, the reason; these rates are "
        "ignored"
    )
    why: str | None = Field(description="why there is no outcome. Null: there is one")
    stage: Stage = Field(
        default="search",
        description="the run that the outcome rests on; the trials of a confirmation did not choose its "
        "rates",
    )
    searched_rate: float | None = Field(
        default=None,
        description="for a confirmed knee, the knee of the search, requests per second. Null: not confirmed",
    )
    unconfirmed: str | None = Field(
        default=None,
        description="why the knee is that of the search although a confirmation was run. Null: it is "
        "confirmed, or no confirmation was run",
    )


class KneePair(_Found):
    """Two designs, compared block by block."""

    a: str = Field(description="the first design")
    b: str = Field(description="the second design")
    ratio: float | None = Field(description="knee of a / knee of b. Null: one of them is unknown")
    low: float | None = Field(description="lower end of its interval. Null: unbounded, or no ratio")
    high: float | None = Field(description="upper end of its interval. Null: unbounded, or no ratio")
    confidence: float = Field(description="confidence of the interval")
    p_adjusted: float = Field(
        description="p-value of the hypothesis that the knees are equal, Holm-adjusted over all pairs"
    )
    p_equivalent_adjusted: float | None = Field(
        default=None,
        description="p-value of the hypothesis that the knees are not equivalent, Holm-adjusted over all "
        "pairs. Null: a search by an earlier version",
    )
    verdict: KneeVerdict = Field(description="the verdict on a compared with b")
    blocks: int = Field(description="number of blocks with both knees")


class KneeSummary(_Found):
    """The result of a search for knees."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    workload: str = Field(description="name of the workload")
    metric: str = Field(description="the percentile, such as latency_p99_seconds")
    goal_seconds: float = Field(description="the highest latency that meets the goal, seconds")
    alpha: float = Field(description="significance level of the verdicts over all pairs")
    equivalence_percent: float = Field(
        description="knees within this distance of each other count as equivalent, percent"
    )
    seed: int = Field(description="seed of the order of trials")
    command: list[str] = Field(description="the command line, by words")
    capacities: dict[str, float] | None = Field(
        description="by design, its rate in a closed loop, requests per second; the rates of the search "
        "follow from these. Null: the user gave the rates"
    )
    notes: list[str] = Field(description="warnings that belong next to every figure")
    designs: list[DesignKnee] = Field(description="one entry per design")
    pairs: list[KneePair] = Field(description="one entry per pair of designs")

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)
