"""The requests of `gate`: what the user typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thunderherd.search.request import CompareRequest, Request

__all__ = ["BASE", "HEAD", "Criterion", "GateRequest", "StudyGateRequest"]

BASE, HEAD = "base", "head"
"""The names of the two contenders."""
USUAL_POWER = 0.9


@dataclass(frozen=True)
class Criterion:
    """A metric, and by how much head may be slower in it."""

    metric: str
    margin_percent: float


@dataclass(frozen=True, kw_only=True)
class GateRequest(CompareRequest):
    """The gate of two servers: `contenders` are base and head, as typed."""

    command = "gate"

    criteria: tuple[Criterion, ...]
    power: float = USUAL_POWER
    """The chance to find the smallest slowdown that the output names."""
    labels: tuple[str, str] | None = None
    """The names of base and head in the output. None: as typed."""
    directories: tuple[Path, Path] | None = None
    """The folders in which the commands of base and head run. None: the current one."""


@dataclass(frozen=True, kw_only=True)
class StudyGateRequest(Request):
    """The gate of a study with two contenders."""

    command = "gate"

    study: str
    size: str
    margin_percent: float
    power: float = USUAL_POWER
    margins: tuple[Criterion, ...] = ()
    """The metrics with another margin."""
    base: str | None = None
    """The contender that is the base. None: the first."""
    budget: str | None = None
