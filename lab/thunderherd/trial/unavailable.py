"""What a study asks for and this machine does not offer, with the reason that the trials gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from thunderherd.metrics.table import SIDES, counters_of, made_of, metric_names
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study
from thunderherd.trial.counters import unavailable_of_sides

__all__ = ["not_told", "unavailable_counters", "why_unavailable"]


def unavailable_counters(study: Study, trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Why this machine does not offer a metric, by metric, as the engine said it in the trials."""
    names = metric_names(study.measure.asked)
    reasons: dict[str, str] = {}
    for side, counter, why in dict.fromkeys(_unavailable(trials)):
        for name in made_of(side, counter, names):
            reasons.setdefault(name, why)
    return reasons


def _unavailable(trials: Iterable[TrialRecord]) -> Iterator[tuple[str, str, str]]:
    """Side, counter and reason."""
    for trial in trials:
        for side, counters in unavailable_of_sides(trial).items():
            yield from ((side, name, why) for name, why in counters.items())


def why_unavailable(name: str, study: Study, unavailable: Mapping[str, str]) -> str | None:
    """Why a metric cannot be had: the machine does not offer it, or the engine has no such counter yet."""
    needed = (study.measure.uncounted.get(counter) for counter in counters_of(name))
    return unavailable.get(name) or next((why for why in needed if why), None)


def not_told(study: Study, unavailable: Mapping[str, str]) -> dict[str, str]:
    """By side and counter that is asked for, why it cannot be had."""
    names = (f"{side}.{figure}" for side in SIDES for figure in study.measure.counters_named)
    return {name: why for name in names if (why := why_unavailable(name, study, unavailable))}
