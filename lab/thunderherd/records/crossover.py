"""`[sweeps.crossover]` of a study, and the crossover in `summary.json`.

A sweep over numbers may search for the size at which two of its contenders change places:

```toml
[sweeps.crossover]
a = "writev"
b = "send_each"
unit = "bytes"                        # of the sweep's numbers
```

This is the first of two stages: it finds the sizes that bracket a crossing. The second stage is a separate
study that `thunderherd crossover` writes. Its sizes are around the crossing, `stage` is "dense", and `coarse`
holds the results of the first stage, so that the second run reports the whole search:

```toml
[sweeps.crossover]
a = "writev"
b = "send_each"
stage = "dense"
coarse_blocks = 12
coarse_trials = { valid = 216, all = 216 }
[[sweeps.crossover.coarse]]
size = 64
standing = "b"                        # b was shown to be ahead at this size
ratio = 1.21                          # cost of a / cost of b
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
    """The result of the first stage at one size."""

    size: float = Field(gt=0, description="position on the axis")
    standing: Standing = Field(
        description='the contender that was significantly ahead: "a", "b", "equivalent" or "undecided"'
    )
    ratio: float = Field(gt=0, description="cost of a / cost of b")
    low: float | None = Field(default=None, gt=0, description="lower end of its interval")
    high: float | None = Field(default=None, gt=0, description="upper end of its interval")
    fitted: float = Field(gt=0, description="monotone estimate of the ratio")


class CoarseTrialsTable(StrictTable):
    """The number of trials of the first stage."""

    valid: int = Field(ge=0, description="valid trials")
    all: int = Field(ge=0, description="all trials")


class CrossoverTable(StrictTable):
    """A table [sweeps.crossover]: two contenders of a sweep over numbers."""

    a: str = Field(description="a contender of the sweep, without @SWEEP=POINT")
    b: str = Field(description="another contender of the sweep")
    stage: Stage = Field(
        default="coarse", description='"coarse" brackets crossings; "dense" fits a line through one'
    )
    unit: str = Field(default="", description='unit of the sweep\'s numbers, such as "bytes"')
    coarse_blocks: int | None = Field(
        default=None, ge=1, description="dense stage: number of blocks of the first stage"
    )
    coarse_trials: CoarseTrialsTable | None = Field(
        default=None, description="dense stage: number of trials of the first stage"
    )
    coarse: list[CoarsePointTable] = Field(
        default=[], description="tables [[sweeps.crossover.coarse]]: results of the first stage"
    )


# In summary.json --------------------------------------------------------------------------------------------


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CrossoverPoint(_Found):
    """One size, of either stage."""

    size: float = Field(description="position on the axis, in `unit` of the crossover")
    stage: Stage = Field(description="the stage that measured it")
    ratio: float = Field(description="cost of a / cost of b; below 1, a is ahead")
    low: float | None = Field(description="lower end of its interval. Null: too few blocks for a bound")
    high: float | None = Field(description="upper end of its interval. Null: too few blocks for a bound")
    standing: Standing = Field(
        description="the contender that is significantly ahead; the verdicts of a stage are one family"
    )
    fitted: float | None = Field(
        default=None, description="monotone estimate of the ratio. Null: a size of the dense stage"
    )


class CrossoverBracket(_Found):
    """Two neighbouring sizes at which different contenders were shown to be ahead."""

    low: float = Field(description="the lower size")
    high: float = Field(description="the higher size")
    before: str = Field(description="the contender that is ahead at the lower size")
    after: str = Field(description="the contender that is ahead at the higher size")


class CrossoverEstimate(_Found):
    """The size at which the straight line through the dense stage crosses equality."""

    value: float = Field(description="the crossing; for a whole-number setting, the first size after it")
    low: float | None = Field(
        description="lower end of Fieller's interval, rounded down for whole numbers. Null: unbounded"
    )
    high: float | None = Field(
        description="upper end of Fieller's interval, rounded up for whole numbers. Null: unbounded"
    )
    confidence: float = Field(description="confidence of the interval")
    blocks: int = Field(description="blocks that the line rests on")
    percent_per_doubling: float = Field(
        description="change of the ratio with each doubling of the size, percent"
    )
    ends: tuple[float, float] = Field(description="ratio on the line at the first and at the last dense size")
    curvature_p: float | None = Field(
        description="two-sided p-value of the hypothesis that the line does not bend. Null: too few "
        "sizes or blocks"
    )


class CrossoverSummary(_Found):
    """Crossover of two contenders of a sweep; of both stages, if the search had two."""

    a: str = Field(description="the first contender, without @SWEEP=POINT")
    b: str = Field(description="the second contender")
    stage: Stage = Field(description="the last stage that was run")
    unit: str = Field(description="unit of the sizes; empty: none")
    whole: bool = Field(description="whether the sizes are whole numbers")
    outcome: Outcome | None = Field(
        description="one or several crossings; none, if the same contender is ahead wherever the two "
        "differ, or if they never differ. Null: unknown, for the reason in `why`"
    )
    ahead: str | None = Field(description="the contender that is ahead everywhere. Null: none is")
    brackets: list[CrossoverBracket] = Field(description="one entry per crossing")
    estimate: CrossoverEstimate | None = Field(
        description="the crossing, estimated by the dense stage. Null: not exactly one crossing, or the "
        "line crosses outside the bracket"
    )
    equivalent: tuple[float, float] | None = Field(
        description="first and last size at which both are shown to be equivalent; for a single "
        "crossing, around it. Null: none"
    )
    points: list[CrossoverPoint] = Field(description="one entry per size, in ascending order")
    blocks: int = Field(description="number of blocks of this stage")
    coarse_blocks: int | None = Field(
        description="number of blocks of the first stage. Null: this is the first stage"
    )
    coarse_trials: tuple[int, int] | None = Field(
        description="valid and all trials of the first stage. Null: this is the first stage"
    )
    next_sizes: list[float] = Field(
        default_factory=list,
        description="sizes that a second stage would measure; empty if it would find no more",
    )
    missing: dict[str, str] = Field(default_factory=dict, description="by size without a figure, the reason")
    why: str | None = Field(description="why there is no outcome. Null: there is one")
