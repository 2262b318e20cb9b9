"""Searches for a crossover whose truth is known, and their sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from made.summaries.crossed import both_stages, sweep_of
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.crossover import sentences

AT = 9000.0


def line(at: float = AT, slope: float = -0.1) -> Callable[[float], float]:
    return lambda size: slope * math.log2(size / at)


TRUTHS: dict[str, tuple[Callable[[float], float], float]] = {
    "one": (line(), 0.03),
    "reversed": (line(slope=0.1), 0.03),
    "shallow": (line(slope=-0.03), 0.12),
    "bent": (lambda size: -0.05 * max(-2.0, math.log2(size / AT)) ** 2 * math.copysign(1, size - AT), 0.02),
    "level": (
        lambda size: -0.05 * math.copysign(max(0.0, abs(math.log2(size / 16384)) - 4), size - 16384),
        0.01,
    ),
    "several": (lambda size: 0.3 * math.cos(math.pi * math.log2(size / 64) / 5), 0.03),
    "everywhere": (lambda size: -0.2, 0.03),
    "onset": (lambda size: -0.1 * max(0.0, math.log2(size / 20_000)), 0.02),
    "nowhere": (lambda size: 0.0, 0.1),
    "equivalent": (lambda size: 0.001, 0.01),
}


@cache
def searched(what: str) -> tuple[Summary, ...]:
    """Return the summaries of a search, of one stage or two."""
    truth, noise = TRUTHS[what]
    with TemporaryDirectory() as directory:
        return tuple(both_stages(Path(directory), truth, noise=noise))


def told(what: str) -> list[str]:
    last = searched(what)[-1]
    return sentences(last, sweep_of(last))


def has(text: str, *parts: object) -> bool:
    """Return whether the text has all of these, in this order."""
    return re.search(".*".join(re.escape(str(part)) for part in parts), text, re.DOTALL) is not None


def changed(found: CrossoverSummary, **estimate: object) -> Summary:
    """Return the summary of the second stage with another estimate."""
    summary = searched("one")[-1]
    at = (
        None
        if estimate.get("none")
        else found.estimate.model_copy(update=estimate)
        if found.estimate
        else None
    )
    sweep = sweep_of(summary).model_copy(update={"crossover": found.model_copy(update={"estimate": at})})
    return summary.model_copy(update={"sweeps": [sweep]})
