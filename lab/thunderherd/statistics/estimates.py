"""What figures of several trials come to: an estimate with its interval, a mean with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Self

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """Frozen, and strict about its keys: a misspelt key is an error, not a silence."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class Estimate(Record):
    """An estimate with its interval. A null end: so few blocks give no bound at this confidence."""

    value: float
    low: float | None
    high: float | None
    confidence: float | None = None
    blocks: int | None = None


class Spread(Record):
    """Mean and spread of repeated runs, in the metric's own unit; the deviation of a single run is null."""

    mean: float
    standard_deviation: float | None = Field(description="of the sample, n - 1")
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """That of these runs, one at least."""
        return cls(
            mean=fmean(values),
            standard_deviation=stdev(values) if len(values) > 1 else None,
            minimum=min(values),
            maximum=max(values),
        )
