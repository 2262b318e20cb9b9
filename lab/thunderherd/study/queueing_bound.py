"""The bounds that a study declares: the queueing bound, and the minimum of a metric in a trial.

The queueing bound is the most requests a second that a contender can answer, whatever the machine. In a mean
delay it answers as many requests as can be in service at once. That is one for each worker, but not more than
there are clients: each client waits for its reply before its next request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from thunderherd.engine.setting_rules import SettingValue
from thunderherd.metrics.table import AskedCounters
from thunderherd.study.checks.names import check_metric
from thunderherd.study.file.tables import BoundTable, MeasureTable
from thunderherd.study.resolved import LoadPlan, Settings
from thunderherd.toml.file import KeyPath, Problems, unknown

OF_LOAD = "load.settings."
"""The prefix of keys that are settings of the load; those of a server begin with `settings.`."""


def check_bound(table: BoundTable | None, known: Sequence[str], problems: Problems) -> None:
    """Check that every key is a setting of a server or of the load."""
    for key, place in _keys(table) if table else ():
        if key not in known:
            problems.add(("queueing_bound", *place), unknown("setting", key, known))


def _keys(table: BoundTable) -> Iterator[tuple[str, KeyPath]]:
    for name in ("at_once", "delays"):
        yield from ((key, (name, index)) for index, key in enumerate(getattr(table, name)))
    yield table.unit, ("unit",)
    yield from ((key, ("where", key)) for key in table.where)


def queueing_bound(table: BoundTable | None, settings: Settings, load: LoadPlan) -> float | None:
    """Return the most requests a second; None if the study declares no bound for such a contender.

    Only those settings of `at_once` count that the contender has: without a pool it serves every client.
    """
    if table is None:
        return None
    values: Mapping[str, SettingValue] = {
        **{f"settings.{name}": value for name, value in settings.items()},
        **{f"{OF_LOAD}{name}": value for name, value in load.settings.items()},
    }
    if any(values.get(key) != wanted for key, wanted in table.where.items()):
        return None
    at_once = [
        int(values[key]) * (load.processes if key.startswith(OF_LOAD) else 1)
        for key in table.at_once
        if key in values
    ]
    delays = [int(values[key]) for key in table.delays if key in values]
    if not at_once or not any(delays) or table.unit not in values:
        return None
    seconds = sum(delays) / len(delays) * int(values[table.unit]) / 1e9
    return min(at_once) / seconds


def check_at_least(
    measure: MeasureTable, known: Sequence[str], asked: AskedCounters, problems: Problems
) -> None:
    """Check that `at_least` has metrics, and for each a setting of the load."""
    of_load = [key for key in known if key.startswith(OF_LOAD)]
    for name, key in measure.at_least.items():
        check_metric(name, ("measure", "at_least", name), asked, problems)
        if key not in of_load:
            problems.add(("measure", "at_least", name), unknown("setting of the load", key, of_load))


def at_least(table: Mapping[str, str], load: LoadPlan) -> dict[str, float]:
    """Return for each metric its minimum in a trial with this load, from settings that the load has."""
    found = {name: load.settings.get(key.removeprefix(OF_LOAD)) for name, key in table.items()}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}
