"""What is known of the machine's limits: what `thunderherd limits --json` and `summary.json` say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.line_base import Place

SchemaNumber = Literal[1]
SCHEMA: SchemaNumber = 1
"""The version of the shape of `thunderherd limits --json`."""

Unit = Literal["nanoseconds", "bytes_per_second"]
NANOSECOND = 1e-9
"""In seconds: limits that are times are in nanoseconds, what they bound and explain in seconds."""


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class LimitFigure(_Record):
    """What a limit came to: the median of its rounds, with an interval of order statistics."""

    limit: str = Field(description="its name, or that of a difference of limits")
    place: Place
    bytes: int | None = Field(description="its size; null: it has none")
    unit: Unit
    value: float = Field(description="the median of the rounds")
    low: float | None = Field(description="null: so few rounds give no bound at this confidence")
    high: float | None
    confidence: float
    rounds: int
    best: float | None = Field(
        description="of all rounds: the shortest time, or the most bytes a second; null: of a difference, "
        "whose least is that of the round in which what is taken off was disturbed most"
    )
    page_faults: float = Field(
        default=0.0, description="of one, the median of the rounds: they are in its price"
    )
    derived: bool = Field(default=False, description="a difference of two others, round by round")


class LimitReason(_Record):
    """A limit that was not measured, or not to the end, and why."""

    limit: str
    place: Place
    bytes: int | None
    reason: str


NOISE_LINE: Literal["limits_noise"] = "limits_noise"


class LimitsNoise(_Record):
    """What else the machine did while its limits were measured: the last line of `limits.jsonl`, which is not
    the engine's."""

    line: Literal["limits_noise"] = NOISE_LINE
    steal_share: float = Field(description="share of the machine's CPU time that the hypervisor took away")
    foreign_share: float = Field(description="share of it used by processes that have no part in this")
    foreign_uncertainty: float = Field(description="two standard deviations of it: the clock is sampled")
    throttled: int = Field(description="times that this process's control group was throttled")
    disturbed: str = Field(description="what of it was more than a study allows a trial; empty: nothing")
    measured: int = Field(description="how often they were measured; these are the least disturbed")

    @staticmethod
    def is_line(text: str) -> bool:
        """Whether a line is this one."""
        return text.startswith(f'{{"line":"{NOISE_LINE}"')


class MachineLimits(_Record):
    """What one thing costs on this machine when nothing else is done: the price list."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    cpus: list[int] = Field(description="of the one that measured, and of other ends that had one of theirs")
    settings: dict[str, int] = Field(description="how it was measured, as the engine was told")
    figures: list[LimitFigure]
    unavailable: list[LimitReason] = Field(default_factory=list)
    noise: LimitsNoise | None = Field(
        default=None, description="what the machine did meanwhile; null: of a run that did not look"
    )

    @property
    def disturbed(self) -> str:
        """In a sentence, that the machine was not quiet when they were measured; empty where it was, or where
        nobody looked."""
        if self.noise is None or not self.noise.disturbed:
            return ""
        times = "" if self.noise.measured == 1 else f" at the quieter of {self.noise.measured} times"
        return (
            f"The machine's limits were measured{times} with {self.noise.disturbed}: as prices they may be "
            "too high, and what they bound is farther from its bound than it seems"
        )

    def figure(self, limit: str, place: Place = "one_cpu", bytes: int | None = None) -> LimitFigure | None:
        """That of a limit at a place and of a size; None where it was not measured."""
        wanted = (limit, place, bytes)
        return next((each for each in self.figures if (each.limit, each.place, each.bytes) == wanted), None)

    def sizes(self, limit: str) -> list[LimitFigure]:
        """Those of a limit that has sizes, the smallest first."""
        found = [each for each in self.figures if each.limit == limit and each.bytes is not None]
        return sorted(found, key=lambda each: each.bytes or 0)


class BoundSummary(_Record):
    """The best result of a metric as a share of what the machine's limits allow at most."""

    metric: str
    sweep: str | None = Field(description="null: of the main table")
    contender: str = Field(description="the one with the best result of those that this bounds")
    value: float = Field(description="its result, in the metric's own unit")
    bound: float = Field(description="in that unit: no result is better, as far as the limits go")
    share: float = Field(
        description="of the bound, of what is the better the more there is; else the bound's share of the "
        "result. 1: at the bound; above 1: better than the bound"
    )
    limit: str = Field(description="the limit that it follows from")
    why: str = Field(description="how it follows, in words")


class NoBoundSummary(_Record):
    """What a table is judged by, where no limit of the machine bounds it."""

    metric: str
    sweep: str | None = Field(description="null: of the main table")
    why: str = Field(description="why there is no bound")
