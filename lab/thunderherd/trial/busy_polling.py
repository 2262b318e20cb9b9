"""What is not told of a server that never sleeps: its CPU time goes on while no client is there, and so does
what is counted with it. Only where it is read as a window begins and ends are both of its clients."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from thunderherd.metrics.table import CPU_PER_CONNECTION, ELAPSED, OF_A_TALLY, counters_of
from thunderherd.records.summary import TrialRecord
from thunderherd.trial.counters import Seen

__all__ = ["beyond_load", "not_of_load"]

NEVER_SLEEPS = "the server never sleeps, and used CPU before its clients came and after they had gone, too"
ENDS_BY_TIME = "a load that ends by time (load.settings.milliseconds) leaves that out"

OF_SERVER = {
    "server_cpu_seconds", CPU_PER_CONNECTION, "server_cpu_per_request", "server_cpu_per_byte", "cpu_per_byte",
}  # fmt: skip
"""Metrics of a fixed name that rest on the server's CPU time."""

OF_MACHINE = {"machine_cpu_seconds", "machine_cpu_per_byte"}
"""Those that are read before every load, and after it."""


def beyond_load(metric: str, seen: Seen, states: Collection[str] = ()) -> str | None:
    """Why a metric has more in it than what was done for the clients; None where that is not so.

    `states` are the counters that tell of one moment.
    """
    if seen.ready is None or not seen.ready.spins:
        return None
    if metric in OF_MACHINE:
        return NEVER_SLEEPS
    in_window = bool(seen.loads) and all(load.window is not None for load in seen.loads)
    of_life = seen.server_life is not None or seen.ready.cpu_source == "whole_life"
    if (in_window and not of_life) or not _goes_on(metric, states):
        return None
    return NEVER_SLEEPS if of_life else f"{NEVER_SLEEPS}; {ENDS_BY_TIME}"


def not_of_load(trials: Iterable[TrialRecord], states: Collection[str]) -> dict[str, str]:
    """By metric that these trials do not tell for that reason, the reason."""
    return {
        name: why
        for trial in trials
        for name, value in (trial.metrics or {}).items()
        if value is None and (why := beyond_load(name, trial, states))
    }


def _goes_on(metric: str, states: Collection[str]) -> bool:
    """Whether a metric rests on the server's CPU time, or on what is counted while that goes by."""
    side, dot, _ = metric.partition(".")
    if not dot:
        return metric in OF_SERVER
    still = {*OF_A_TALLY, ELAPSED, *states}
    return side != "client" and any(part not in still for part in counters_of(metric))
