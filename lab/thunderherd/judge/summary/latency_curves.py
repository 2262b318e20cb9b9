"""Latency as percentile curves: the requests of all trials that count, put together.

Percentiles of several trials are never averaged: their histograms are added, and the percentile is that of
the sum. It differs from the estimate over trials in `summary.json`, which treats each trial as one
observation. A curve has no interval; it shows the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunderherd.judge.summary.block_rejection import last_attempts
from thunderherd.records.summary import Summary, TrialRecord

__all__ = ["SHARES", "LatencyCurve", "latency_curves"]

STEPS_A_DECADE = 10
DECADES = 6
SHARES = tuple(1 - 10 ** (-step / STEPS_A_DECADE) for step in range(1, STEPS_A_DECADE * DECADES + 1))
"""The shares of a curve, ten to each further nine."""


@dataclass(frozen=True)
class LatencyCurve:
    """The curve of one contender: the number of timed requests, and pairs of share and seconds."""

    requests: int
    points: tuple[tuple[float, float], ...]


def latency_curves(summary: Summary, trials: Sequence[TrialRecord]) -> dict[str, LatencyCurve]:
    """Return the curves by contender, from the valid trials of accepted blocks.

    A contender is left out if one of its load processes recorded no histogram, or if too few requests were
    timed for a curve.
    """
    accepted = {*summary.trials.accepted_blocks}
    kept: dict[str, list[str | None]] = {}
    for trial in last_attempts(trials):
        if trial.valid and trial.block in accepted:
            of_loads = [load.latency.histogram if load.latency else None for load in trial.loads]
            kept.setdefault(trial.contender, []).extend(of_loads)
    curves: dict[str, LatencyCurve] = {}
    whole = {name: texts for name, texts in kept.items() if texts and None not in texts}
    if not whole:
        return curves
    # Imported on use: most runs have no histogram, and a report should not need numpy.
    from thunderherd.statistics.histograms import merged, percentile_curve

    for name, texts in whole.items():
        together = merged(text for text in texts if text is not None)
        points = [(share, nanoseconds / 1e9) for share, nanoseconds in percentile_curve(together, SHARES)]
        if len(points) > 1:
            curves[name] = LatencyCurve(together.get_total_count(), tuple(points))
    return curves
