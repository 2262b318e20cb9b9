"""Estimates over several trials: a value with its interval, a mean with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Self

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A frozen record that rejects unknown keys, so that a misspelt key is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class Estimate(Record):
    """An estimate with its interval. A null end: too few blocks for a bound at this confidence."""

    value: float
    low: float | None
    high: float | None
    confidence: float | None = None
    blocks: int | None = None


class Spread(Record):
    """Mean and spread of repeated runs, in the metric's own unit; a single run has no deviation (null)."""

    mean: float
    standard_deviation: float | None = Field(description="of the sample, n - 1")
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Compute the spread of one or more runs."""
        return cls(
            mean=fmean(values),
            standard_deviation=stdev(values) if len(values) > 1 else None,
            minimum=min(values),
            maximum=max(values),
        )
