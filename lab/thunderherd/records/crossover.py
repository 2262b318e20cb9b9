"""`[sweeps.crossover]` of a study, and what `summary.json` says of it.

A sweep over numbers may ask where two of its contenders change places:

```toml
[sweeps.crossover]
a = "writev"
b = "send_each"
unit = "bytes"                        # of the sweep's numbers
```

That is the first of two stages: it tells which sizes bracket a crossing. The second stage is a study of its
own, which `thunderherd crossover` writes: its sizes lie around the crossing, `stage` is "dense", and `coarse`
holds what the first stage found, so that the run of the second tells the whole answer:

```toml
[sweeps.crossover]
a = "writev"
b = "send_each"
stage = "dense"
coarse_blocks = 12
coarse_trials = { valid = 216, all = 216 }
[[sweeps.crossover.coarse]]
size = 64
standing = "b"                        # at this size b was shown to be ahead
ratio = 1.21                          # of the cost of a to that of b
low = 1.18
high = 1.25
fitted = 1.20                         # by the monotone estimate
```
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.statistics.standing import Outcome, Standing
from thunderherd.toml.strict import StrictTable

Stage = Literal["coarse", "dense"]

# In a study -------------------------------------------------------------------------------------------------


class CoarsePointTable(StrictTable):
    """What the first stage found at one size."""

    size: float = Field(gt=0, description="where it stands on the axis")
    standing: Standing = Field(description='"a" or "b", who is shown to be ahead; "equivalent"; "undecided"')
    ratio: float = Field(gt=0, description="the cost of a over that of b")
    low: float | None = Field(default=None, gt=0, description="the lower end of its interval")
    high: float | None = Field(default=None, gt=0, description="the upper end of its interval")
    fitted: float = Field(gt=0, description="the monotone estimate of the ratio")


class CoarseTrialsTable(StrictTable):
    """How many trials the first stage had."""

    valid: int = Field(ge=0, description="that counted")
    all: int = Field(ge=0, description="of so many")


class CrossoverTable(StrictTable):
    """A table [sweeps.crossover]: two contenders of a sweep over numbers."""

    a: str = Field(description="a contender of the sweep, without its @SWEEP=POINT")
    b: str = Field(description="another one")
    stage: Stage = Field(
        default="coarse", description='"coarse": brackets crossings; "dense": a line through one'
    )
    unit: str = Field(default="", description='of the sweep\'s numbers, such as "bytes"')
    coarse_blocks: int | None = Field(default=None, ge=1, description="of a dense stage: blocks of the first")
    coarse_trials: CoarseTrialsTable | None = Field(
        default=None, description="of a dense stage: trials of the first"
    )
    coarse: list[CoarsePointTable] = Field(
        default=[], description="tables [[sweeps.crossover.coarse]]: what the first stage found"
    )


# In summary.json --------------------------------------------------------------------------------------------


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CrossoverPoint(_Found):
    """One size, of either stage."""

    size: float
    stage: Stage
    ratio: float = Field(description="the cost of a over that of b: below 1 a is ahead")
    low: float | None
    high: float | None
    standing: Standing = Field(description="by the verdicts of its stage, whose sizes are one family")
    fitted: float | None = Field(default=None, description="the monotone estimate, of the coarse stage")


class CrossoverBracket(_Found):
    """Neighbours among the sizes at which one of both is shown to be ahead, and not the same one."""

    low: float
    high: float
    before: str = Field(description="who is ahead at the lower one")
    after: str = Field(description="who is ahead at the higher one")


class CrossoverEstimate(_Found):
    """Where the straight line through the dense stage is zero."""

    value: float = Field(description="of a whole-number setting the first size beyond the crossing")
    low: float | None = Field(
        description="Fieller's interval, of whole numbers rounded outward; null: it is unbounded"
    )
    high: float | None
    confidence: float
    blocks: int
    percent_per_doubling: float = Field(description="what a doubling of the size adds to the ratio")
    ends: tuple[float, float] = Field(description="the line's ratio at the first and the last dense size")
    curvature_p: float | None = Field(
        description='of "the line does not bend", two-sided; null: too few sizes or blocks to tell'
    )


class CrossoverSummary(_Found):
    """Where two contenders of a sweep change places, with both stages of the search where there were two."""

    a: str
    b: str
    stage: Stage = Field(description="the last that was run")
    unit: str
    whole: bool = Field(description="the sizes are whole numbers")
    outcome: Outcome | None = Field(
        description="one crossing, several; or none: the same one ahead everywhere, where anything is "
        "separated, or nothing is; null: it cannot be told, and why"
    )
    ahead: str | None = Field(description="who is ahead, where it is always the same one")
    brackets: list[CrossoverBracket]
    estimate: CrossoverEstimate | None = Field(
        description="of one crossing, by the dense stage; null: there is none, or it lies outside the bracket"
    )
    equivalent: tuple[float, float] | None = Field(
        description="from which size to which both are shown to be equivalent (of one crossing: around it)"
    )
    points: list[CrossoverPoint] = Field(description="in the order of their sizes")
    blocks: int = Field(description="of this stage")
    coarse_blocks: int | None = Field(description="of the first stage, where this is the second")
    coarse_trials: tuple[int, int] | None = Field(description="of the first stage: valid ones, and all")
    next_sizes: list[float] = Field(
        default_factory=list, description="those that a second stage would look at, where one would find more"
    )
    missing: dict[str, str] = Field(default_factory=dict, description="sizes without a figure, and why")
    why: str | None = Field(description="why it cannot be told, where it cannot")
