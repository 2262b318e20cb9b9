"""Latency as percentile curves: the requests of all trials that count, put together.

Percentiles of several trials are never averaged: their histograms are added, and the percentile is that of
the sum. That is another figure than the estimate over trials in `summary.json`, where each trial is one
observation; it has no interval, and shows the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunderherd.records.summary import Summary, TrialRecord

__all__ = ["SHARES", "LatencyCurve", "latency_curves"]

STEPS_A_DECADE = 10
DECADES = 6
SHARES = tuple(1 - 10 ** (-step / STEPS_A_DECADE) for step in range(1, STEPS_A_DECADE * DECADES + 1))
"""Closer to each other the nearer they are to 1: ten to each further nine."""


@dataclass(frozen=True)
class LatencyCurve:
    """Of one contender: how many requests were timed; shares of them, and the seconds within which they were
    answered."""

    requests: int
    points: tuple[tuple[float, float], ...]


def latency_curves(summary: Summary, trials: Sequence[TrialRecord]) -> dict[str, LatencyCurve]:
    """By contender, of the valid trials of accepted blocks. A contender is left out where one of its load
    processes kept no histogram, or too few requests were timed for a curve."""
    accepted = {*summary.trials.accepted_blocks}
    kept: dict[str, list[str | None]] = {}
    for trial in trials:
        if trial.valid and trial.block in accepted:
            of_loads = [load.latency.histogram if load.latency else None for load in trial.loads]
            kept.setdefault(trial.contender, []).extend(of_loads)
    curves: dict[str, LatencyCurve] = {}
    whole = {name: texts for name, texts in kept.items() if texts and None not in texts}
    if not whole:
        return curves
    # Imported when it is needed: most runs have no histogram, and a report should do without numpy.
    from thunderherd.statistics.histograms import merged, percentile_curve

    for name, texts in whole.items():
        together = merged(text for text in texts if text is not None)
        points = [(share, nanoseconds / 1e9) for share, nanoseconds in percentile_curve(together, SHARES)]
        if len(points) > 1:
            curves[name] = LatencyCurve(together.get_total_count(), tuple(points))
    return curves
