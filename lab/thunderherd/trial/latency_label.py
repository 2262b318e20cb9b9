"""From when a latency runs: what belongs beside every figure of one, since the two are not the same thing."""

from __future__ import annotations

from collections.abc import Iterable

from thunderherd.metrics.open_loop import is_latency
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study

MEANINGS = {
    "sent": "of a closed loop: from when a request was sent, which its client did not do before it had the "
    "reply to the last one; a server that stalls is then asked less, and that hides the stall",
    "intended": "of an open loop: from when a request was due, whether or not earlier ones were answered",
}
"""By where the engine says that a latency starts."""


def latency_notes(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Which kind of latency the study shows; of whom, where it has both."""
    if not any(is_latency(name) for name in _shown(study)):
        return []
    bases = {contender.name: contender.base for contender in study.contenders}
    found: dict[str, dict[str, None]] = {}
    for trial in trials:
        starts = {load.latency.starts for load in trial.loads if load.latency is not None}
        for start in starts:
            found.setdefault(start, {})[bases[trial.contender]] = None
    whose = {
        start: "latency is" if len(found) == 1 else f"latency of {', '.join(names)} is"
        for start, names in found.items()
    }
    return [f"{whose[start]} {MEANINGS[start]}" for start in MEANINGS if start in found]


def _shown(study: Study) -> list[str]:
    of_sweeps = [name for sweep in study.sweeps for name in (sweep.metric, *sweep.metrics)]
    return [study.measure.metric, *of_sweeps]
