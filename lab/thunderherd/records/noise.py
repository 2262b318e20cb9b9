"""What the machine did beside a contender's trials, as `summary.json` has it."""

from __future__ import annotations

from pydantic import Field

from thunderherd.statistics.estimates import Record

SOFTIRQ_RATES, RETRANSMITTED = "softirq_milliseconds_per_second", "retransmitted"
"""The figures that may be missing, as a summary and the tidy table call them."""


class NoiseSummary(Record):
    """Over a contender's trials, each between the two samples that enclose its measured window: medians, but
    of what is counted in ticks."""

    trials: int
    softirq_milliseconds_per_second: list[float] = Field(
        description="by CPU in the order of /proc/stat: time in soft interrupts, whomever their packets were "
        "for, in each second of all trials together; empty: it was not recorded, and why"
    )
    softirq_resolution: float | None = Field(
        default=None,
        description="what one tick in all trials together comes to, in the same unit: the kernel counts that "
        "time in ticks; null: not recorded",
    )
    steal_share: float = Field(description="share of the machine's CPU time that the hypervisor took away")
    foreign_share: float = Field(description="share of it used by processes that are not part of the trial")
    retransmitted: float | None = Field(
        description="TCP segments that sockets of both sides' network namespaces retransmitted, in a trial; "
        "null: they were not counted, and why"
    )
    why: dict[str, str] = Field(
        default_factory=dict, description="by the name of a figure that is missing: the reason"
    )
