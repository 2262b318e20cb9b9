"""What a run in progress keeps of a trial in memory; the whole trial is on disk.

A trial has histograms, counts of both sides and all settings, which take ten times as much memory as the
figures that blocks, looks and the live view need. The summary reads the whole trials again.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from pydantic import BaseModel

from thunderherd.engine.lines import LoadResult, Scheduled, Snapshot, Validity
from thunderherd.records.trial import Noise, TrialRecord
from thunderherd.trial.load_validity import is_client_limited
from thunderherd.trial.observation import read_late

__all__ = ["outline"]

Model = TypeVar("Model", bound=BaseModel)

ON_DISK = {
    "ready", "rest_before", "before", "during", "after", "rest_after", "summary", "loads", "warm_up", "marks",
    "server_life", "client_lives", "time_wait_before", "worker_connections",
}  # fmt: skip
"""The fields of a trial that an outline lacks."""


def outline(trial: TrialRecord) -> TrialRecord:
    """Return the trial without what only the summary needs.

    Blocks, looks and claims come to the same as with the whole trial: whether its server was read late, and
    whether its clients were the limit, can still be told.
    """
    kept: dict[str, Any] = {name: value for name, value in trial if name not in ON_DISK}
    if trial.metrics is not None:
        # Each trial makes these names anew.
        kept["metrics"] = {sys.intern(name): value for name, value in trial.metrics.items()}
    if trial.noise is not None:
        kept["noise"] = _bare(Noise, **dict(trial.noise))
    is_late = bool(read_late(trial))
    if is_late:
        kept["before"], kept["after"] = _moment(trial.before), _moment(trial.after)
    if is_late or is_client_limited(trial.loads):
        kept["loads"] = [_outline_of_load(each) for each in trial.loads]
    return _bare(TrialRecord, **kept)


def _outline_of_load(load: LoadResult) -> LoadResult:
    """Return a load with its window and its failed checks. What it lacks cannot be read by mistake."""
    failed = [each for each in load.validity.checks if each.holds is False] if load.validity else []
    return _bare(
        LoadResult,
        measured_by=load.measured_by,
        window=load.window,
        scheduled=None if load.scheduled is None else _bare(Scheduled),
        validity=_bare(Validity, checks=failed),
    )


def _moment(snapshot: Snapshot | None) -> Snapshot | None:
    """Return the time of a snapshot alone."""
    return None if snapshot is None else _bare(Snapshot, monotonic_ns=snapshot.monotonic_ns)


def _bare(kind: type[Model], /, **values: Any) -> Model:
    """Return a model of these values, unchecked, without the set of their names, which takes 2 KB."""
    return kind.model_construct(_fields_set=set(), **values)
