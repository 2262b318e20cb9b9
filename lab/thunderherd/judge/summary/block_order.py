"""The blocks of a run in the order of measurement, and each trial's distance from its contender's median.

A drift over the run, or an effect of the place within a block, would show here. Blocks are randomised, so
such an effect falls on all contenders alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from thunderherd.judge.summary.block_rejection import last_attempts
from thunderherd.records.summary import Summary, TrialMetrics, TrialRecord

__all__ = [
    "UNKNOWN",
    "BlockSeen",
    "FiguresOfBlocks",
    "TrialSeen",
    "blocks_seen",
    "figures_of_blocks",
    "trials_seen",
]

FiguresOfBlocks = Mapping[str, Mapping[int, TrialMetrics]]
"""The metrics of the trial that counts, by contender and block."""

UNKNOWN: FiguresOfBlocks = MappingProxyType({})
"""The figures of a run whose trials are not at hand."""

COUNTS, KEPT, REJECTED, INCOMPLETE = (
    "counts",
    "counts although noisy",
    "rejected for outside noise",
    "incomplete",
)
UNUSED = "not used by any look"


@dataclass(frozen=True)
class TrialSeen:
    """A valid trial with a figure of the metric that judges its contender."""

    contender: str
    block: int
    position: int
    of: int
    """The trials of its block, without repeated ones."""
    value: float
    """The figure, in the metric's own unit."""
    ratio: float
    """The figure / the median of its contender's trials that count."""
    state: str
    """The state of its block."""


@dataclass(frozen=True)
class BlockSeen:
    """A block. Shares of CPU time are those of its loudest trial; None if no trial recorded them."""

    number: int
    state: str
    order: tuple[str, ...]
    repeated: int
    invalid: int
    steal_share: float | None
    foreign_share: float | None


def states_of(summary: Summary) -> dict[int, str]:
    """Return the state of each block."""
    trials = summary.trials
    states = dict.fromkeys(trials.accepted_blocks, COUNTS)
    states |= dict.fromkeys(trials.noisy_blocks_kept, KEPT)
    states |= dict.fromkeys(trials.incomplete_blocks, INCOMPLETE)
    return states | dict.fromkeys(trials.rejected_blocks, REJECTED)


def trials_seen(summary: Summary, trials: Sequence[TrialRecord]) -> list[TrialSeen]:
    """Return the valid trials in the order in which they ran.

    Contenders without a positive median are left out.
    """
    metrics = {each.name: each.metric for each in summary.contenders}
    states = states_of(summary)
    found = [
        (trial, float(value))
        for trial in trials
        if trial.valid and (value := (trial.metrics or {}).get(metrics.get(trial.contender, ""))) is not None
    ]
    counted = {(each.contender, each.block): each.attempt for each in last_attempts(trials)}
    of_contender: dict[str, list[float]] = {}
    for counting in (True, False):
        for trial, value in found:
            counts = counted[trial.contender, trial.block] == trial.attempt
            if (counts and states.get(trial.block) in (COUNTS, KEPT)) is counting:
                of_contender.setdefault(trial.contender, []).append(value)
        if counting:
            usual = {name: median(values) for name, values in of_contender.items()}
            of_contender = {}
    # If no trial of a contender counts, its median is that of all its trials.
    usual = {name: median(values) for name, values in of_contender.items()} | usual
    sizes = _sizes(trials)
    return [
        TrialSeen(
            contender=trial.contender,
            block=trial.block,
            position=trial.position,
            of=sizes[trial.block],
            value=value,
            ratio=value / usual[trial.contender],
            state=states.get(trial.block, UNUSED),
        )
        for trial, value in found
        if usual[trial.contender] > 0
    ]


def _sizes(trials: Sequence[TrialRecord]) -> dict[int, int]:
    """Return the last place of each block."""
    sizes: dict[int, int] = {}
    for trial in trials:
        sizes[trial.block] = max(sizes.get(trial.block, 1), trial.position)
    return sizes


def figures_of_blocks(summary: Summary, trials: Sequence[TrialRecord]) -> FiguresOfBlocks:
    """Return the metrics of the blocks that the figures rest on.

    A repeated trial counts if it is valid.
    """
    counting = {*summary.trials.accepted_blocks[: summary.study.blocks]}
    found: dict[str, dict[int, TrialMetrics]] = {}
    for trial in trials:
        if trial.valid and trial.block in counting and trial.metrics is not None:
            found.setdefault(trial.contender, {})[trial.block] = trial.metrics
    return found


def blocks_seen(summary: Summary, trials: Sequence[TrialRecord]) -> list[BlockSeen]:
    """Return every block that was begun, by number."""
    states = states_of(summary)
    blocks: dict[int, list[TrialRecord]] = {}
    for trial in trials:
        blocks.setdefault(trial.block, []).append(trial)
    found = []
    for number, of_block in sorted(blocks.items()):
        recorded = [trial.noise for trial in of_block if trial.noise is not None]
        first = sorted((trial for trial in of_block if trial.attempt == 1), key=lambda trial: trial.position)
        found.append(
            BlockSeen(
                number=number,
                state=states.get(number, UNUSED),
                order=tuple(trial.contender for trial in first),
                repeated=len(of_block) - len(first),
                invalid=sum(not trial.valid for trial in of_block),
                steal_share=max((noise.steal_share for noise in recorded), default=None),
                foreign_share=max((noise.foreign_share for noise in recorded), default=None),
            )
        )
    return found
