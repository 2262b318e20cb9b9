"""The ranking of contenders during a run: estimates with intervals, from all valid trials so far.

Nothing is judged by them: noisy blocks are included, and verdicts come only at the planned looks.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from thunderherd.machine import noise
from thunderherd.metrics.table import Better
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.samples import LocationEstimate, hodges_lehmann
from thunderherd.study.loading import Contender, Study

__all__ = ["Group", "RankedContender", "RankingSoFar"]


@dataclass(frozen=True)
class RankedContender:
    """A contender with its estimate, in the metric's own unit."""

    name: str
    base: str
    is_control: bool
    estimate: LocationEstimate


@dataclass(frozen=True)
class Group:
    """Contenders that are compared: of the main table (`where` is empty), or of one point of a sweep.

    The best is first. `waiting` are those without a valid trial yet.
    """

    where: str
    metric: str
    better: Better
    ranked: tuple[RankedContender, ...]
    waiting: tuple[str, ...]


class RankingSoFar:
    """The ranking, updated trial by trial."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.trials = self.invalid = 0
        self.noisy = 0
        """Trials that were noisier than the study allows."""
        self.last: TrialRecord | None = None
        self._contenders = {each.name: each for each in study.contenders}
        self._values: dict[str, list[float]] = {}
        self._estimates: dict[str, LocationEstimate] = {}

    def leave_out(self, absent: Container[str]) -> None:
        """Leave out the contenders of these names, which have no trials."""
        self._contenders = {name: each for name, each in self._contenders.items() if name not in absent}

    def add(self, trial: TrialRecord) -> None:
        """Add a trial."""
        self.trials += 1
        self.last = trial
        if trial.noise is not None and noise.loudness(trial.noise, self.study.noise) > 1:
            self.noisy += 1
        if not trial.valid:
            self.invalid += 1
            return
        contender = self._contenders.get(trial.contender)
        value = (trial.metrics or {}).get(contender.metric) if contender else None
        if value is not None:
            self._values.setdefault(trial.contender, []).append(float(value))
            self._estimates.pop(trial.contender, None)

    def groups(self) -> list[Group]:
        """Return the main table, then each point of each sweep, in the study's order."""
        together: dict[tuple[str | None, str | None], list[Contender]] = {}
        for each in self._contenders.values():
            together.setdefault((each.sweep, each.point), []).append(each)
        return [
            self._group(f"{sweep}={point}" if sweep else "", own) for (sweep, point), own in together.items()
        ]

    def _group(self, where: str, contenders: Sequence[Contender]) -> Group:
        metric, better = contenders[0].metric, contenders[0].better
        known = [each for each in contenders if each.name in self._values]
        ranked = [
            RankedContender(each.name, each.base, each.control_of is not None, self._estimate(each.name))
            for each in known
        ]
        sign = -1 if better == "more" else 1
        order = sorted(ranked, key=lambda each: sign * each.estimate.value)
        waiting = tuple(each.base for each in contenders if each.name not in self._values)
        return Group(where, metric, better, tuple(order), waiting)

    def _estimate(self, name: str) -> LocationEstimate:
        if name not in self._estimates:
            confidence = 1 - self.study.measure.alpha
            self._estimates[name] = hodges_lehmann(self._values[name], confidence)
        return self._estimates[name]
