"""Metrics we do not report for busy-polling servers, whose CPU time includes idle polling.

If the CPU time is read at both edges of a window, all of it belongs to the clients, and the metrics are
reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from thunderherd.metrics.table import CPU_PER_CONNECTION, ELAPSED, OF_A_TALLY, counters_of
from thunderherd.records.summary import TrialRecord
from thunderherd.trial.counters import Seen

__all__ = ["beyond_load", "not_of_load"]

BUSY_POLLS = "the server busy-polls: it also used CPU before its clients came and after they had gone"
ENDS_BY_TIME = "a load of ours that ends by time (load.settings.duration) excludes that"

OF_SERVER = {
    "server_cpu_seconds", CPU_PER_CONNECTION, "server_cpu_per_request", "server_cpu_per_byte", "cpu_per_byte",
}  # fmt: skip
"""Metrics with a fixed name that rest on the server's CPU time."""

OF_MACHINE = {"machine_cpu_seconds", "machine_cpu_per_request", "machine_cpu_per_byte"}
"""Metrics that are read before and after every load."""


def beyond_load(metric: str, seen: Seen, states: Collection[str] = ()) -> str | None:
    """Return why a metric includes idle polling; None if it does not.

    `states` are the counters that report one moment.
    """
    if seen.ready is None or not seen.ready.spins:
        return None
    if metric in OF_MACHINE:
        return BUSY_POLLS
    in_window = bool(seen.loads) and all(load.window is not None for load in seen.loads)
    of_life = seen.server_life is not None or seen.ready.cpu_source == "whole_life"
    if (in_window and not of_life) or not _goes_on(metric, states):
        return None
    return BUSY_POLLS if of_life else f"{BUSY_POLLS}; {ENDS_BY_TIME}"


def not_of_load(trials: Iterable[TrialRecord], states: Collection[str]) -> dict[str, str]:
    """Return metric → reason, for metrics that these trials do not report because of idle polling."""
    return {
        name: why
        for trial in trials
        for name, value in (trial.metrics or {}).items()
        if value is None and (why := beyond_load(name, trial, states))
    }


def _goes_on(metric: str, states: Collection[str]) -> bool:
    """True if a metric rests on the server's CPU time, or on events that accompany it."""
    side, dot, _ = metric.partition(".")
    if not dot:
        return metric in OF_SERVER
    still = {*OF_A_TALLY, ELAPSED, *states}
    return side != "client" and any(part not in still for part in counters_of(metric))
