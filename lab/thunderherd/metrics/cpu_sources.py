"""What tells of CPU cost in the place of a metric that a machine does not offer."""

from __future__ import annotations

from thunderherd.metrics.table import BOTH, OF_BOTH, PER_BYTE, PER_REQUEST, TASK_CLOCK, parted

LADDER = ("cpu_cycles", TASK_CLOCK)
"""What CPU cost is counted in, the best first; below both is what the system accounts for."""

OF_THE_SYSTEM = {
    "server": "server_cpu_seconds",
    "client": "client_cpu_seconds",
    f"server{PER_REQUEST}": "server_cpu_per_request",
    f"client{PER_REQUEST}": "client_cpu_per_request",
    f"server{PER_BYTE}": "server_cpu_per_byte",
    f"client{PER_BYTE}": "client_cpu_per_byte",
    f"{BOTH}{PER_BYTE}": "cpu_per_byte",
}
"""The lowest rung, by side and what it is divided by."""


def rungs_below(name: str) -> list[str]:
    """What tells of CPU cost in the place of a metric of cycles or of task-clock, the next rung first; none
    of other metrics."""
    side, _, what = name.partition(".")
    whole, per = parted(what)
    last = OF_THE_SYSTEM.get(f"{side}{per}")
    if whole not in LADDER or (last is None and per not in OF_BOTH):
        return []
    lower = LADDER[LADDER.index(whole) + 1 :]
    return [*(f"{side}.{each}{per}" for each in lower), *([last] if last else [])]
