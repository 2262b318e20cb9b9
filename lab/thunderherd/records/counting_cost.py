"""What counting the processor's events costs, in pairs of trials of their own: `[counting_cost]` of a study,
and what a summary says of them.

```toml
[counting_cost]
trials = 6                  # pairs of trials of each contender, after all that are judged; 0: none
contenders = ["prefork"]    # up to three of the main table if left out
```
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.records.apart import ApartTable

PAIRS = 6
"""The fewest of which the signed ranks give an interval of 95 %."""
MOST_CONTENDERS = 3
"""Where none is named."""


class CostTable(ApartTable):
    """What counting the processor's events costs, where the study's trials count some: pairs of trials, one
    with all of `measure.counters`, one without any."""

    trials: int = Field(
        default=PAIRS, ge=0, le=100, description="such pairs of each contender after all others; 0: none"
    )
    contenders: list[str] = Field(
        default=[],
        description=f"whose, such as BASE@SWEEP=POINT; if left out {MOST_CONTENDERS} of the main table at "
        "most, and of a study of sweeps alone of those at each sweep's last point",
    )


# What came out ----------------------------------------------------------------------------------------------


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CostRatio(_Record):
    """A metric of trials with counters, by that of trials without: of pairs, their Hodges-Lehmann ratio."""

    metric: str
    value: float = Field(description="1: counting changes nothing; 1.5: half as much again")
    low: float | None = Field(description="null: so few pairs give no interval at this confidence")
    high: float | None
    confidence: float
    least: float = Field(description="of all pairs")
    most: float = Field(description="of all pairs")
    pairs: int

    def is_beyond(self, percent: float) -> bool:
        """Whether it differs from 1 by more than so many percent, as far as its interval tells; of pairs that
        are too few for one, all of them."""
        low = self.least if self.low is None else self.low
        high = self.most if self.high is None else self.high
        return low > 1 + percent / 100 or high < 1 - percent / 100


class ContenderCost(_Record):
    """What counting costs a contender."""

    contender: str
    ratios: list[CostRatio] = Field(description="by metric; empty where no pair came about, and why")
    why: str | None = None

    def ratio(self, metric: str) -> CostRatio | None:
        """That of a metric; None where trials without counters have no such metric."""
        return next((each for each in self.ratios if each.metric == metric), None)


class CountingCost(_Record):
    """What counting the processor's events changed in trials that counted them."""

    events: list[str] = Field(description="events of the processor that judged trials counted")
    counters: list[str] = Field(description="all that they counted besides what every trial does")
    pairs: int = Field(description="of each contender, as asked for")
    contenders: list[ContenderCost]
