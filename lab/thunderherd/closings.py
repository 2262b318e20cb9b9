"""At which end ended connections stay in TIME_WAIT: whoever closes first pays for it, and a comparison of
contenders that differ in it is one of that too."""

from __future__ import annotations

from collections.abc import Iterable

from thunderherd.records import TrialRecord
from thunderherd.study import Study

__all__ = ["closing_notes"]

WHERE = {
    (): "at neither end, being reset",
    ("load",): "at the clients",
    ("server",): "at the server",
    ("load", "server"): "at both ends",
}
USUAL = {("load",)}


def closing_notes(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Where they stay, and whose, unless it is at the clients of all, as it is where nobody says otherwise
    and no server closes after its reply. Trials whose loads do not tell have no say."""
    bases = {contender.name: contender.base for contender in study.contenders}
    ends: dict[str, set[str]] = {}
    for trial in trials:
        for load in trial.loads:
            if load.closings is not None:
                ends.setdefault(bases[trial.contender], set()).update(load.closings.time_wait)
    whose: dict[tuple[str, ...], list[str]] = {}
    for base, own in ends.items():
        whose.setdefault(tuple(sorted(own)), []).append(base)
    if set(whose) <= USUAL:
        return []
    told = [
        WHERE[where] + (f" ({', '.join(names)})" if len(whose) > 1 else "") for where, names in whose.items()
    ]
    return [f"ended connections stay in TIME_WAIT {'; '.join(told)}"]
