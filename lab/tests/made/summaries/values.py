"""Figures in columns, for contrasts."""

from __future__ import annotations

from made.summaries import sweeps as synthetic_sweeps
from thunderherd.study.loading import Study


def values(of: Study) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for trial in synthetic_sweeps.trials(of, seed=3):
        for name, value in (trial.metrics or {}).items():
            if value is not None:
                found.setdefault(name, {}).setdefault(trial.contender, []).append(float(value))
    return found
