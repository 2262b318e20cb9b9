"""What an open loop tells and other loads do not, and which metrics are latencies."""

from __future__ import annotations

from thunderherd.metrics.table import LATENCY, TIMES

OFFERED = "offered_per_second"
"""What every open loop has, and no other load."""

NO_SCHEDULE = (
    'only an open loop has it (load.kind = "open"): a request is due at one moment and sent at another there'
)


def is_of_open_loop(name: str) -> bool:
    """Whether only a load with a schedule tells it."""
    timed = any(name.startswith(f"{what}_") for what in TIMES if what != LATENCY)
    return timed or name in (OFFERED, "share_of_offered", "waited_share", "never_sent")


def is_latency(name: str) -> bool:
    """Whether it runs from where the kind of its load says."""
    return name.startswith(f"{LATENCY}_")
