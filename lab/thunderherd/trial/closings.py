"""At which end ended connections stay in TIME_WAIT: whoever closes first pays for it, and a comparison of
contenders that differ in it is one of that too."""

from __future__ import annotations

from collections.abc import Iterable

from thunderherd.engine.lines import Closings
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study

__all__ = ["closing_notes", "where_kept"]

LEAST = 0.05
"""A smaller share of the connections that were looked at is not told: some of thousands are no property."""

AT_CLIENTS, AT_SERVER, NOWHERE = "at the clients", "at the server", "at neither end, being reset"


def closing_notes(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Where they stay, and whose, unless it is at the clients of all, as it is where nobody says otherwise
    and no server closes after its reply. Trials whose loads do not tell have no say."""
    bases = {contender.name: contender.base for contender in study.contenders}
    seen: dict[str, list[Closings]] = {}
    for trial in trials:
        told = [load.closings for load in trial.loads if load.closings is not None]
        seen.setdefault(bases[trial.contender], []).extend(told)
    whose: dict[str, list[str]] = {}
    for base, parts in seen.items():
        if parts:
            whose.setdefault(where_kept(Closings.together(parts)), []).append(base)
    if set(whose) <= {AT_CLIENTS}:
        return []
    each = [where + (f" ({', '.join(names)})" if len(whose) > 1 else "") for where, names in whose.items()]
    return [f"ended connections stay in TIME_WAIT {'; '.join(each)}"]


def where_kept(closings: Closings) -> str:
    """`at the clients`; where they differ, with the share of each: `90 % at the clients, 10 % at the server`.

    Some must have been looked at, as of what an engine tells.
    """
    counts = {
        AT_CLIENTS: closings.closed_by_load,
        AT_SERVER: closings.closed_by_server,
        NOWHERE: closings.reset_by_load + closings.reset_by_server,
    }
    every = sum(counts.values())
    told = {where: count / every for where, count in counts.items() if count >= LEAST * every}
    if len(told) == 1:
        return next(iter(told))
    return ", ".join(f"{100 * share:.0f} % {where}" for where, share in told.items())
