"""Plans the next trial of a run, and counts the trials until its next look.

A pure function of the study, its seed and the trials on disk. The run and `thunderherd watch` both use it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from thunderherd.judge.summary.block_rejection import (
    ATTEMPTS,
    Block,
    Selection,
    blocks_of,
    given_up,
    most_blocks,
    seconds_allowed,
)
from thunderherd.judge.summary.open_claims import is_decided, selected
from thunderherd.judge.summary.pair_summaries import verdicts
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.comparisons import block_order
from thunderherd.study.loading import Study

__all__ = ["Next", "Plan", "next_in_block", "plan"]


@dataclass(frozen=True)
class Plan:
    """The next steps of a run: the block to run or finish, the blocks at the next look, the trials until it.

    `number` is None when the run is over. `settled` are the contenders that the block does without.
    """

    number: int | None
    blocks: int
    trials_left: int
    settled: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Next:
    """The next trial: its contender, its position in the order of the block, and the attempt."""

    contender: str
    position: int
    attempt: int


def plan(study: Study, trials: Sequence[TrialRecord]) -> Plan:
    """Return the plan after these trials."""
    selection = selected(study, trials)
    begun = {block.number: block for block in blocks_of(trials)}
    look = selection.next_look
    if look is None or _is_over(study, selection, begun):
        return Plan(None, len(begun), 0)
    left_out = {*selection.given_up, *selection.settled}
    active = [each.name for each in study.contenders if each.name not in left_out]
    number = 1
    while number in begun and begun[number].is_finished(active):
        number += 1
    if number - 1 in begun and number not in begun and begun[number - 1].has_repetitions_left(study.noise):
        # The run was interrupted before them.
        number -= 1
    block = begun.get(number, Block(number))
    missing = look.blocks - len(selection.accepted)
    done_here = sum(block.succeeded(name) for name in active)
    blocks = min(missing, most_blocks(look, study.noise.reject_at_most_percent) - number + 1)
    if (allowed := seconds_allowed(study, selection.reached)) is not None and (
        ended := [each for each in begun.values() if each.number < number]
    ):
        used = sum(each.wall_seconds for each in ended)
        # As many as the time budget leaves room for, at their mean length.
        blocks = max(1, min(blocks, int((allowed - used) * len(ended) / used)))
    return Plan(number, number + blocks - 1, blocks * len(active) - done_here, selection.settled)


def _is_over(study: Study, selection: Selection, blocks: dict[int, Block]) -> bool:
    """True if the run has ended: all is decided or attempted, or no look can be reached."""
    left_out = {*selection.given_up, *selection.settled}
    if left_out.issuperset(each.name for each in study.contenders):
        return True
    if selection.exhausted or selection.time_was_up:
        return True
    return bool(selection.reached) and is_decided(study, selection, verdicts(study, selection, blocks))


def next_in_block(
    study: Study, seed: int, number: int, trials: Sequence[TrialRecord], settled: Container[str] = ()
) -> Next | None:
    """Return the next trial of a block, which does without `settled`; None if the block is finished.

    First the trials that are missing, in the order of the block, then one repetition of each invalid trial,
    and of each noisy one if they are few.
    """
    blocks = blocks_of(trials)
    block = next((each for each in blocks if each.number == number), Block(number))
    order = block_order([each.name for each in study.contenders], seed, number)
    lost = given_up(study, blocks)
    noisy = block.noisy(study.noise)
    for attempt in range(1, ATTEMPTS + 1):
        for position, name in enumerate(order, start=1):
            if (
                name not in lost
                and name not in settled
                and (name in noisy or not block.succeeded(name))
                and block.attempts(name) < attempt
            ):
                return Next(name, position, attempt)
    return None
