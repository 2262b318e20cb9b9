"""The choice of blocks that count, by a pure function of the study and the trials on disk.

A block counts if each of its contenders has a valid trial in it and outside noise did not reject it. A look
takes the first such blocks. Further blocks replace those that noise rejected, until the study allows no more
rejections. Then the least noisy of the rejected are taken after all, and the summary says so. A block is
never rejected for its outcome.

An invalid trial is repeated once, at the end of its block, and so are noisy ones if they are few. Of two
valid attempts the later one counts. If a trial stays invalid, the block is incomplete and is replaced like a
noisy one. A contender that keeps failing would leave no complete block: it is given up,
and the others go on without it. The blocks that it spoilt then count for them, but in further looks only. A
look that was reached keeps its blocks.

A size may have a time budget. If it does not suffice for another block, the last look is taken at once, with
the blocks there are and all alpha that is left. A clock ends the run, not an outcome, so no error rate grows.
Before the first look nothing can be decided, so until then a quarter more time is allowed.

A run that decides claims leaves contenders out once no open claim needs them. Such a contender is settled: it
keeps the values of its blocks, and later blocks do without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from thunderherd.machine import noise
from thunderherd.records.summary import TrialRecord

if TYPE_CHECKING:
    from thunderherd.study.loading import Look, Study

ATTEMPTS = 2
"""The most attempts of a trial in its block."""
FEW_NOISY = 0.25
"""The largest share of a block's trials, at least one, that is repeated for noise.

More are not worth the time.
"""
EXTENSION = 1.25
"""The factor on a time budget before the first look."""
GIVE_UP_BLOCKS = 3
"""The fewest failed blocks before a contender is given up ..."""
GIVE_UP_SHARE = 0.25
"""... which must also be more than this share of the blocks so far."""


@dataclass
class Block:
    """The trials of one block that count: the last valid attempt of each contender, or its last one."""

    number: int
    trials: dict[str, TrialRecord] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    """The number of attempts of each contender."""
    wall_seconds: float = 0.0
    """The time of its trials, repeated ones included."""

    def add(self, trial: TrialRecord) -> None:
        """Add an attempt."""
        self.wall_seconds += trial.wall_seconds
        name = trial.contender
        self.tried[name] = max(trial.attempt, self.attempts(name))
        if name not in self.trials or (trial.valid, trial.attempt) >= (
            self.trials[name].valid,
            self.trials[name].attempt,
        ):
            self.trials[name] = trial

    def attempts(self, contender: str) -> int:
        """Return the contender's number of attempts in this block."""
        return self.tried.get(contender, 0)

    def noisy(self, limits: noise.NoiseLimits) -> list[str]:
        """Return the contenders whose valid trials are noisier than allowed, if they are few."""
        found = [
            name
            for name, trial in self.trials.items()
            if trial.valid and trial.noise is not None and noise.loudness(trial.noise, limits) > 1
        ]
        return found if len(found) <= max(1, FEW_NOISY * len(self.trials)) else []

    def is_finished(self, contenders: Iterable[str]) -> bool:
        """Return whether nothing is left to run in it."""
        return all(self.succeeded(name) or self.attempts(name) >= ATTEMPTS for name in contenders)

    def is_complete(self, contenders: Iterable[str]) -> bool:
        """Return whether each of `contenders`, of whom there are some, has a valid trial in it."""
        names = [*contenders]
        return bool(names) and all(map(self.succeeded, names))

    def has_repetitions_left(self, limits: noise.NoiseLimits) -> bool:
        """Return whether a noisy trial is still to be repeated."""
        return any(self.attempts(name) < ATTEMPTS for name in self.noisy(limits))

    def succeeded(self, contender: str) -> bool:
        """Return whether the contender has a valid trial in it."""
        return contender in self.trials and self.trials[contender].valid

    def loudness(self, limits: noise.NoiseLimits) -> float:
        """Return the noise of its loudest trial as a multiple of what is allowed: noisy above 1."""
        recorded = [trial.noise for trial in self.trials.values() if trial.noise is not None]
        return max((noise.loudness(each, limits) for each in recorded), default=0.0)


@dataclass(frozen=True)
class Reached:
    """A look that has its blocks.

    `run` is the number of complete blocks that had run by then, including noisy ones.
    """

    look: Look
    run: int


@dataclass(frozen=True)
class Selection:
    """The numbers of the blocks that count, and of those that do not.

    The looks take the first elements of `accepted`, in its order. `complete` is in the order of completion: a
    block that a contender spoilt becomes complete once that contender is given up.
    """

    accepted: tuple[int, ...]
    rejected: tuple[int, ...]
    noisy_kept: tuple[int, ...]
    incomplete: tuple[int, ...]
    complete: tuple[int, ...]
    given_up: dict[str, str]
    settled: frozenset[str]
    """The contenders that later blocks do without."""
    reached: tuple[Reached, ...]
    next_look: Look | None
    exhausted: bool
    """The next look cannot be reached within the blocks that the study allows."""
    looks: tuple[Look, ...]
    """The planned looks; if the time was up, those reached and the last one."""
    time_was_up: bool

    def counted(self) -> tuple[int, ...]:
        """Return the blocks behind the figures: those of the last look reached, else all accepted ones."""
        return self.accepted[: self.reached[-1].look.blocks] if self.reached else self.accepted


def blocks_of(trials: Iterable[TrialRecord]) -> list[Block]:
    """Return the blocks that were begun, by number."""
    found: dict[int, Block] = {}
    for trial in trials:
        found.setdefault(trial.block, Block(trial.block)).add(trial)
    return [found[number] for number in sorted(found)]


def last_attempts(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that count in their blocks, without those that were repeated."""
    return [each for block in blocks_of(trials) for each in block.trials.values()]


def most_blocks(look: Look, reject_at_most_percent: float) -> int:
    """Return how many blocks a look may use in all, so that at most that share of them is rejected."""
    # The small addition keeps 12 / 0.75 = 16 from becoming 15.999...
    return max(look.blocks, math.floor(look.blocks / (1 - reject_at_most_percent / 100) + 1e-9))


def given_up(study: Study, blocks: Sequence[Block]) -> dict[str, str]:
    """Return the contenders that are no longer tried, each with its last reason."""
    lost: dict[str, str] = {}
    for contender in study.contenders:
        failures = 0
        for count, block in enumerate(blocks, start=1):
            if block.attempts(contender.name) < ATTEMPTS or block.succeeded(contender.name):
                continue
            failures += 1
            if failures >= GIVE_UP_BLOCKS and failures > GIVE_UP_SHARE * count:
                reasons = "; ".join(block.trials[contender.name].invalid_reasons)
                lost[contender.name] = f"invalid in {failures} of {count} blocks; last: {reasons}"
                break
    return lost


Settling = Callable[[Sequence[Block], Container[str]], frozenset[str]]
"""Returns the contenders that no verdict needs any more, from the blocks of the looks and those given up."""


def select(study: Study, trials: Iterable[TrialRecord], settling: Settling | None = None) -> Selection:
    """Return which blocks on disk count, and which look comes next.

    It goes block by block, as the run did. A look keeps the blocks that were complete when it was reached,
    for the contenders that were neither given up nor settled by then.
    """
    blocks = blocks_of(trials)
    loudness = {block.number: block.loudness(study.noise) for block in blocks}
    chosen = _Chosen(loudness, settling)
    chosen.settle([], ())
    for count in range(1, len(blocks) + 1):
        chosen.go_on(study, blocks[:count])
    lost = given_up(study, blocks)
    names = _remaining(study, {*lost, *chosen.left_out})
    planned = tuple(study.looks)
    time_was_up = len(chosen.reached) < len(planned) and _is_time_up(study, names, blocks, chosen.reached)
    if time_was_up:
        planned = chosen.end(study, planned, [block for block in blocks if block.is_complete(names)])
    incomplete = [each.number for each in blocks if each.is_finished(names) and not each.is_complete(names)]
    loud = {number for number, of in loudness.items() if of > 1}
    return Selection(
        accepted=tuple(chosen.accepted),
        rejected=tuple(sorted(loud.intersection(chosen.complete).difference(chosen.accepted))),
        noisy_kept=tuple(sorted(chosen.kept)),
        incomplete=tuple(incomplete),
        complete=tuple(chosen.complete),
        given_up=lost,
        settled=chosen.left_out,
        reached=tuple(chosen.reached),
        next_look=planned[len(chosen.reached)] if len(chosen.reached) < len(planned) else None,
        exhausted=chosen.exhausted,
        looks=planned,
        time_was_up=time_was_up,
    )


def _is_time_up(
    study: Study, names: Sequence[str], blocks: Sequence[Block], reached: Sequence[object]
) -> bool:
    """Return whether the trials so far leave no time for another block of mean length."""
    allowed = seconds_allowed(study, reached)
    if allowed is None or not blocks or not all(block.is_finished(names) for block in blocks):
        return False
    used = sum(block.wall_seconds for block in blocks)
    return used + used / len(blocks) > allowed


def seconds_allowed(study: Study, reached: Sequence[object]) -> float | None:
    """Return the time budget, before the first look with its extension; None if there is none."""
    if study.budget_seconds is None:
        return None
    return study.budget_seconds * (1 if reached else EXTENSION)


def _remaining(study: Study, lost: Container[str]) -> list[str]:
    return [contender.name for contender in study.contenders if contender.name not in lost]


@dataclass
class _Chosen:
    """The selection from the blocks so far; looks that were reached do not change."""

    loudness: Mapping[int, float]
    """The noise of each block (`Block.loudness`)."""
    settling: Settling | None = None
    left_out: frozenset[str] = frozenset()
    """The contenders that are settled."""
    settled: list[int] = field(default_factory=list)
    """The blocks of the looks reached."""
    kept: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    complete: list[int] = field(default_factory=list)
    """In the order of completion."""
    reached: list[Reached] = field(default_factory=list)
    exhausted: bool = False

    def end(self, study: Study, planned: tuple[Look, ...], complete: Sequence[Block]) -> tuple[Look, ...]:
        """Take the last look with the blocks there are; return the looks taken, or those planned if none was.

        If too many were noisy, the least noisy are taken after all.
        """
        rejected = study.noise.reject_at_most_percent / 100
        loud = {block.number: self.loudness[block.number] for block in complete}
        left_out = sorted(loud.keys() - {*self.accepted}, key=lambda number: (loud[number], number))
        missing = math.ceil(len(loud) * (1 - rejected) - 1e-9) - len(self.accepted)
        self.kept += left_out[: max(0, missing)]
        self.accepted += left_out[: max(0, missing)]
        taken, left = planned[: len(self.reached)], planned[len(self.reached) :]
        if len(self.accepted) <= len(self.settled):
            return taken or planned
        last = left[0].model_copy(
            update={"blocks": len(self.accepted), "alpha": sum(look.alpha for look in left)}
        )
        self.settled = list(self.accepted)
        self.reached.append(Reached(last, run=len(self.complete)))
        return (*taken, last)

    def go_on(self, study: Study, blocks: Sequence[Block]) -> None:
        """Add the last of `blocks` to the selection."""
        lost = given_up(study, blocks)
        names = _remaining(study, {*lost, *self.left_out})
        finished = [block for block in blocks if names and block.is_finished(names)]
        complete = [block for block in finished if block.is_complete(names)]
        self.complete += [each.number for each in complete if each.number not in self.complete]
        self.accepted, self.exhausted = list(self.settled), False
        self.kept = [number for number in self.kept if number in self.settled]
        for look in study.looks[len(self.reached) :]:
            if not self._take(study, look, finished, complete):
                break
            self.settled = list(self.accepted)
            self.reached.append(Reached(look, run=len(self.complete)))
            by_number = {block.number: block for block in blocks}
            self.settle([by_number[number] for number in self.settled], lost)

    def settle(self, blocks: Sequence[Block], lost: Container[str]) -> None:
        """Settle the contenders that no verdict needs after a look at these blocks."""
        if self.settling is not None:
            self.left_out |= self.settling(blocks, lost)

    def _take(self, study: Study, look: Look, finished: Sequence[Block], complete: Sequence[Block]) -> bool:
        """Accept blocks for the next look; return whether they are enough."""
        limit = most_blocks(look, study.noise.reject_at_most_percent)
        loud = {block.number: self.loudness[block.number] for block in complete if block.number <= limit}
        left = [number for number in loud if number not in self.accepted]
        self.accepted += [number for number in left if loud[number] <= 1][: look.blocks - len(self.accepted)]
        if len(self.accepted) < look.blocks and sum(each.number <= limit for each in finished) == limit:
            noisy = [number for number in left if number not in self.accepted]
            quietest = sorted(noisy, key=lambda number: (loud[number], number))
            taken = quietest[: look.blocks - len(self.accepted)]
            self.accepted += taken
            self.kept += taken
            self.exhausted = len(self.accepted) < look.blocks
        return len(self.accepted) >= look.blocks
