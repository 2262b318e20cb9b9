"""The machine limits: the output of `thunderherd limits --json`, and the part of `summary.json` on limits."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.line_base import Place

SchemaNumber = Literal[1]
SCHEMA: SchemaNumber = 1
"""The version of the output of `thunderherd limits --json`."""

Unit = Literal["nanoseconds", "bytes_per_second"]
NANOSECOND = 1e-9
"""A nanosecond in seconds: limits are in nanoseconds, the metrics that they bound are in seconds."""


class _Record(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class LimitFigure(_Record):
    """A measured limit: the median of its rounds, with an interval from order statistics."""

    limit: str = Field(description="name of the limit, or of the difference between two limits")
    place: Place = Field(description="whether both ends ran on the same CPU or on two")
    bytes: int | None = Field(description="size of the operation, bytes. Null: the limit has no sizes")
    unit: Unit = Field(description="unit of `value`, `low`, `high` and `best`")
    value: float = Field(description="median of the rounds")
    low: float | None = Field(
        description="lower end of the interval. Null: too few rounds for a bound at this confidence"
    )
    high: float | None = Field(
        description="upper end of the interval. Null: too few rounds for a bound at this confidence"
    )
    confidence: float = Field(description="confidence of the interval")
    rounds: int = Field(description="number of rounds")
    best: float | None = Field(
        description="best of all rounds: the shortest time, or the most bytes per second. Null for a "
        "difference: its least value comes from the round in which the subtracted limit was "
        "disturbed most"
    )
    page_faults: float = Field(
        default=0.0,
        description="page faults per operation, median of the rounds; their cost is part of `value`",
    )
    derived: bool = Field(
        default=False, description="true: the difference between two other limits, taken round by round"
    )


class LimitReason(_Record):
    """A limit that could not be measured, or not completely, and why."""

    limit: str = Field(description="name of the limit")
    place: Place = Field(description="whether both ends were to run on the same CPU or on two")
    bytes: int | None = Field(description="size of the operation, bytes. Null: the limit has no sizes")
    reason: str = Field(description="why it could not be measured")


NOISE_LINE: Literal["limits_noise"] = "limits_noise"


class LimitsNoise(_Record):
    """Other activity of the machine during the measurement of its limits.

    This is the last line of a machine in `limits.jsonl`; the lab writes it, the others come from the engine.
    """

    line: Literal["limits_noise"] = Field(
        default=NOISE_LINE, description="marks this line among those of the engine"
    )
    steal_share: float = Field(
        description="share of the machine's CPU time that the hypervisor took away (0 to 1)"
    )
    foreign_share: float = Field(
        description="share of the machine's CPU time used by processes outside the measurement (0 to 1)"
    )
    foreign_uncertainty: float = Field(
        description="two standard deviations of `foreign_share`: the machine's CPU clock is sampled"
    )
    throttled: int = Field(description="how often the control group of this process was throttled")
    disturbed: str = Field(
        description="the noise that exceeds what a study allows a trial, in words; empty: none"
    )
    measured: int = Field(
        description="how often the limits were measured; the figures are those of the quietest measurement"
    )

    @staticmethod
    def is_line(text: str) -> bool:
        """True if a line of `limits.jsonl` is this one."""
        return text.startswith(f'{{"line":"{NOISE_LINE}"')


HOST_LINE: Literal["limits_host"] = "limits_host"


class LimitsHost(_Record):
    """The host whose lines of `limits.jsonl` follow. The first lines are those of the server's host."""

    line: Literal["limits_host"] = Field(
        default=HOST_LINE, description="marks this line among those of the engine"
    )
    host: str = Field(description="the host of the load, as studies name it")

    @staticmethod
    def is_line(text: str) -> bool:
        """True if a line of `limits.jsonl` is this one."""
        return text.startswith(f'{{"line":"{HOST_LINE}"')


class MachineLimits(_Record):
    """The least that each operation costs on this machine: the price list of explanations and bounds."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    cpus: list[int] = Field(
        description="the CPU that measured, then the second CPU of measurements with a peer, if they had one"
    )
    settings: dict[str, int] = Field(description="settings of the measurement, by name")
    figures: list[LimitFigure] = Field(description="one entry per limit, place and size")
    unavailable: list[LimitReason] = Field(
        default_factory=list, description="limits that could not be measured"
    )
    noise: LimitsNoise | None = Field(
        default=None,
        description="what else the machine did meanwhile. Null: not recorded (runs of earlier versions)",
    )

    @property
    def disturbed(self) -> str:
        """A sentence that reports noise during the measurement; empty if the machine was quiet or noise was
        not recorded."""
        if self.noise is None or not self.noise.disturbed:
            return ""
        times = "" if self.noise.measured == 1 else f" (the quieter of {self.noise.measured} measurements)"
        return (
            f"The machine was noisy while its limits were measured{times}: {self.noise.disturbed}. The "
            "limits may be too high; results are then farther from their bounds than shown"
        )

    def figure(self, limit: str, place: Place = "one_cpu", bytes: int | None = None) -> LimitFigure | None:
        """The figure of a limit at a place and size; None if it was not measured."""
        wanted = (limit, place, bytes)
        return next((each for each in self.figures if (each.limit, each.place, each.bytes) == wanted), None)

    def sizes(self, limit: str) -> list[LimitFigure]:
        """The figures of a limit with sizes, the smallest size first."""
        found = [each for each in self.figures if each.limit == limit and each.bytes is not None]
        return sorted(found, key=lambda each: each.bytes or 0)


class BoundSummary(_Record):
    """The best result of a metric, compared with the best that the machine limits allow."""

    metric: str = Field(description="name of the metric")
    sweep: str | None = Field(description="the sweep that the result belongs to. Null: the main table")
    contender: str = Field(
        description="the contender with the best result among those that the bound applies to"
    )
    value: float = Field(description="its result, in the metric's own unit")
    bound: float = Field(description="the best possible result by the machine limits, in the same unit")
    share: float = Field(
        description="how near the result is to the bound: result / bound if more is better, bound / "
        "result if less is better. 1: at the bound; above 1: better than the bound"
    )
    limit: str = Field(description="the limit that the bound follows from")
    why: str = Field(description="how the bound follows from the limit, in words")


class NoBoundSummary(_Record):
    """A table whose metric no machine limit bounds."""

    metric: str = Field(description="name of the metric")
    sweep: str | None = Field(description="the sweep that the table shows. Null: the main table")
    why: str = Field(description="why there is no bound")
