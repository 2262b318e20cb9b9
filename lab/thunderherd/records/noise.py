"""The noise during a contender's trials, as `summary.json` has it."""

from __future__ import annotations

from pydantic import Field

from thunderherd.statistics.estimates import Record

SOFTIRQ_RATES, RETRANSMITTED = "softirq_milliseconds_per_second", "retransmitted"
"""The figures that may be missing, as a summary and the table of trials name them."""


class NoiseSummary(Record):
    """Noise during a contender's trials, within their measured windows.

    Each figure is the median over the trials. Time in soft interrupts is counted in ticks, so it is summed
    over all trials instead.
    """

    trials: int = Field(description="number of trials that the figures rest on")
    softirq_milliseconds_per_second: list[float] = Field(
        description="milliseconds in soft interrupts per second of all trials together, by CPU in the "
        "order of /proc/stat; includes packets of other programs. Empty: not recorded, for "
        "the reason in `why`"
    )
    softirq_resolution: float | None = Field(
        default=None,
        description="the value of one tick over all trials together, milliseconds per second: the kernel "
        "counts this time in ticks. Null: not recorded",
    )
    steal_share: float = Field(
        description="share of the machine's CPU time that the hypervisor took away (0 to 1)"
    )
    foreign_share: float = Field(
        description="share of the machine's CPU time used by processes outside the trial (0 to 1)"
    )
    retransmitted: float | None = Field(
        description="TCP segments retransmitted per trial in the network namespaces of both sides. Null: "
        "not counted, for the reason in `why`"
    )
    why: dict[str, str] = Field(default_factory=dict, description="by name of a missing figure, the reason")
