"""What `thunderherd knee` writes: knee.json."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.statistics.knees import Outcome
from thunderherd.statistics.knees import Verdict as KneeVerdict

SchemaNumber = Literal[1]
SCHEMA: SchemaNumber = 1

Stage = Literal["search", "confirmation"]
"""Of a search, the run between far rates, and that of rates around the knees which the first has found."""


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class KneePoint(_Found):
    """One rate of a design, over the blocks that count."""

    rate: int = Field(description="requests a second that were asked for")
    latency_seconds: float | None = Field(
        description="the percentile; null: in many trials the server did not keep up"
    )
    low: float | None = Field(description="its interval; null: too few trials for one, or beyond")
    high: float | None
    trials: int = Field(description="that count")
    overloaded: int = Field(description="of these, those whose server did not keep up with the rate")
    stage: Stage = Field(default="search", description="the run that has it")


class DesignKnee(_Found):
    """The highest rate at which a design meets the goal."""

    name: str
    outcome: Outcome | None = Field(
        description='"one"; "none" in this range; "all" of it meets the goal; "unclear": the blocks do not '
        "agree on that; null: it cannot be told, and why"
    )
    rate: float | None = Field(description="requests a second; null unless there is one")
    low: float | None = Field(description="its interval; null: it reaches beyond the rates of the run")
    high: float | None
    confidence: float | None
    blocks: int
    between_rates: int = Field(
        description="blocks in which it is known to lie between two rates of the run, and no better"
    )
    points: list[KneePoint]
    left_out: dict[int, str] = Field(
        description="rates that say nothing, as the load did not measure its server there, and why"
    )
    why: str | None = Field(description="why it cannot be told, where it cannot")
    stage: Stage = Field(
        default="search",
        description="whose trials the answer rests on; a confirmation's did not choose its rates",
    )
    searched_rate: float | None = Field(
        default=None, description="of a knee that is confirmed, what the search had come to"
    )
    unconfirmed: str | None = Field(
        default=None, description="why a knee is the search's, though others around it were tried"
    )


class KneePair(_Found):
    """Two designs, block by block."""

    a: str
    b: str
    ratio: float | None = Field(description="the knee of a over that of b; null: one is not known")
    low: float | None
    high: float | None
    confidence: float
    p_adjusted: float = Field(description='of "the knees are equal": Holm over all pairs')
    p_equivalent_adjusted: float | None = Field(
        default=None,
        description='of "they are not equivalent": Holm over all pairs; null: of an older search',
    )
    verdict: KneeVerdict
    blocks: int


class KneeSummary(_Found):
    """The answer of a search for knees."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    workload: str
    metric: str = Field(description="the percentile, such as latency_p99_seconds")
    goal_seconds: float
    alpha: float
    equivalence_percent: float
    seed: int
    command: list[str]
    capacities: dict[str, float] | None = Field(
        description="requests a second in a closed loop, from which the rates follow; null: they were given"
    )
    notes: list[str]
    designs: list[DesignKnee]
    pairs: list[KneePair]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)
