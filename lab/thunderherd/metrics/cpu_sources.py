"""Metrics of CPU cost that replace one which this machine does not offer."""

from __future__ import annotations

from thunderherd.metrics.table import BOTH, OF_BOTH, PER_BYTE, PER_REQUEST, TASK_CLOCK, parted

COUNTERS = ("cpu_cycles", TASK_CLOCK)
"""The counters of CPU cost, the best first. What the system accounts for comes after them."""

OF_THE_SYSTEM = {
    "server": "server_cpu_seconds",
    "client": "client_cpu_seconds",
    f"server{PER_REQUEST}": "server_cpu_per_request",
    f"client{PER_REQUEST}": "client_cpu_per_request",
    f"server{PER_BYTE}": "server_cpu_per_byte",
    f"client{PER_BYTE}": "client_cpu_per_byte",
    f"{BOTH}{PER_BYTE}": "cpu_per_byte",
}
"""The last CPU source: the system's accounting, by side and what it is divided by."""


def cpu_sources_below(name: str) -> list[str]:
    """Return the metrics that may replace one of cycles or of task-clock, the next best first.

    Other metrics have no replacement.
    """
    side, _, what = name.partition(".")
    whole, per = parted(what)
    last = OF_THE_SYSTEM.get(f"{side}{per}")
    if whole not in COUNTERS or (last is None and per not in OF_BOTH):
        return []
    lower = COUNTERS[COUNTERS.index(whole) + 1 :]
    return [*(f"{side}.{each}{per}" for each in lower), *([last] if last else [])]
