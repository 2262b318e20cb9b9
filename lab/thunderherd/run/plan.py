"""Which trial of a run comes next, and how many are left until its next look.

A pure function of the study, its seed and the trials on disk: the run itself goes by it, and so does whoever
watches the run from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunderherd.judge.summary.selection import (
    ATTEMPTS,
    Block,
    Selection,
    blocks_of,
    given_up,
    most_blocks,
    select,
)
from thunderherd.judge.summary.verdicts import is_decided, verdicts
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.comparisons import block_order
from thunderherd.study.loading import Study

__all__ = ["Next", "Plan", "next_in_block", "plan"]


@dataclass(frozen=True)
class Plan:
    """The block that is to be run or finished (None: the run is over), how many blocks there are at the next
    look, and how many trials are left until then."""

    number: int | None
    blocks: int
    trials_left: int


@dataclass(frozen=True)
class Next:
    """A trial that is to be made: of whom, its place in the order of its block, and which attempt."""

    contender: str
    position: int
    attempt: int


def plan(study: Study, trials: Sequence[TrialRecord]) -> Plan:
    """What is to come after these trials."""
    selection = select(study, trials)
    begun = {block.number: block for block in blocks_of(trials)}
    look = selection.next_look
    if look is None or _is_over(study, selection, begun):
        return Plan(None, len(begun), 0)
    active = [each.name for each in study.contenders if each.name not in selection.given_up]
    number = 1
    while number in begun and begun[number].is_finished(active):
        number += 1
    block = begun.get(number, Block(number))
    missing = look.blocks - len(selection.accepted)
    done_here = sum(block.succeeded(name) for name in active)
    blocks = min(missing, most_blocks(look, study.noise.reject_at_most_percent) - number + 1)
    return Plan(number, number + blocks - 1, blocks * len(active) - done_here)


def _is_over(study: Study, selection: Selection, blocks: dict[int, Block]) -> bool:
    """Whether nothing is left to be measured: all is decided or tried, or no look can be reached."""
    if len(selection.given_up) == len(study.contenders) or selection.exhausted:
        return True
    return bool(selection.reached) and is_decided(verdicts(study, selection, blocks))


def next_in_block(study: Study, seed: int, number: int, trials: Sequence[TrialRecord]) -> Next | None:
    """What a block lacks next, in its order; then once more what was invalid. None: it is finished."""
    blocks = blocks_of(trials)
    block = next((each for each in blocks if each.number == number), Block(number))
    order = block_order([each.name for each in study.contenders], seed, number)
    lost = given_up(study, blocks)
    for attempt in range(1, ATTEMPTS + 1):
        for position, name in enumerate(order, start=1):
            if name not in lost and not block.succeeded(name) and block.attempts(name) < attempt:
                return Next(name, position, attempt)
    return None
