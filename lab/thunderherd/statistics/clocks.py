"""How far a clock is ahead of another, from readings of it through a path whose delay is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Reading(NamedTuple):
    """A reading of a distant clock between two of the own clock, in nanoseconds."""

    before_ns: int
    there_ns: int
    after_ns: int


@dataclass
class Clock:
    """How far a distant clock is ahead of the own one, and by how much that may be wrong."""

    ahead_ns: int = 0
    error_ns: int = 0


def compared(readings: Iterable[Reading]) -> Clock:
    """Return what the quickest reading says; raise ValueError if there is none.

    The distant clock was read at some time between the readings of the own one. Their middle is wrong by
    half of the time between them at most, however the delay is divided between both ways. The error does not
    cover what either clock drifts afterwards.
    """
    quickest = min(readings, key=lambda each: each.after_ns - each.before_ns, default=None)
    if quickest is None:
        raise ValueError("a clock is compared by one or more readings, got none")
    took_ns = quickest.after_ns - quickest.before_ns
    return Clock(quickest.there_ns - (quickest.before_ns + quickest.after_ns) // 2, -(-took_ns // 2))
