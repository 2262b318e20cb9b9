"""The progress of a run on stderr: plain lines (this module), or a live view on a terminal (`live_view`).

Results go to stdout, so that they can be redirected while the progress stays visible.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from thunderherd.records.summary import TrialRecord
from thunderherd.text.figures import count, duration
from thunderherd.text.printable import printable


class Progress(Protocol):
    """A destination for the progress of a run."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def say(self, text: str) -> None:
        """Print a line that stays."""

    def begins(self, trials: Sequence[TrialRecord], absent: Container[str] = ()) -> None:
        """Note that the run begins, or resumes with these trials, without the contenders `absent`."""

    def plan(self, blocks: int, trials: int) -> None:
        """Note that the next look is after `blocks` blocks in total, `trials` trials from now."""

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        """Note that the trial of `contender` begins, number `position` of `of` in its block."""

    def trial_ends(self, trial: TrialRecord) -> None:
        """Note that the trial has ended and is on disk."""

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        """Note that all trials of a block are on disk; `remark` reports noise, if any."""


QUIET_SECONDS = 60.0
"""The longest time without a plain line during a block."""


class Clock:
    """Estimates the time left from the recent durations of each contender's trials.

    Every block has each contender once, so each has the same weight. A contender without a trial is assumed
    to take as long as the mean of the others.
    """

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._began = time.monotonic()
        self.trials_left = 0

    def begin(self) -> None:
        self._began = time.monotonic()

    def end(self, contender: str, at_least: float = 0.0) -> None:
        """Record the end of a trial, which took the time since `begin`, but at least `at_least` seconds."""
        self.took(contender, max(at_least, time.monotonic() - self._began))
        self.trials_left = max(0, self.trials_left - 1)

    def took(self, contender: str, seconds: float) -> None:
        """Record the duration of a trial."""
        self._recent.setdefault(contender, deque(maxlen=4)).append(seconds)

    def usual(self, contender: str) -> float | None:
        """Return the mean duration of the contender's recent trials; None before the first."""
        recent = self._recent.get(contender)
        return sum(recent) / len(recent) if recent else None

    def left(self) -> str:
        """Return `14 s left`; empty before the first trial has ended, and after the last."""
        if not self._recent or not self.trials_left:
            return ""
        means = [sum(recent) / len(recent) for recent in self._recent.values()]
        return f"{duration(self.trials_left * sum(means) / len(means))} left"


class PlainProgress:
    """Plain lines: `block 3/11: 10 trials valid, 14 s left` after each block.

    A block that takes long also prints a line each minute.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._clock = Clock()
        self._blocks = 0
        self._place = ""
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str) -> None:
        print(printable(text), file=self._stream, flush=True)
        self._said = time.monotonic()

    def begins(self, trials: Sequence[TrialRecord], absent: Container[str] = ()) -> None:
        for trial in trials:
            self._clock.took(trial.contender, trial.wall_seconds)

    def plan(self, blocks: int, trials: int) -> None:
        self._blocks = blocks
        self._clock.trials_left = trials

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        self._clock.begin()
        self._place = f"block {block}/{max(block, self._blocks)}: trial {position}/{of}"

    def trial_ends(self, trial: TrialRecord) -> None:
        self._clock.end(trial.contender, self._at_least(trial))
        if not trial.valid:
            self.say(invalid_line(trial))
        elif time.monotonic() - self._said > QUIET_SECONDS and self._clock.trials_left:
            self.say(f"{self._place}, {self._clock.left()}")

    def _at_least(self, trial: TrialRecord) -> float:
        """Return the least duration of a trial: 0, since its start and its end are both seen."""
        return 0.0

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        self.say(block_line(block, self._blocks, trials, remark, self._clock.left()))


def invalid_line(trial: TrialRecord) -> str:
    """Return `block 3: prefork: invalid: ...`, with all reasons."""
    return f"block {trial.block}: {trial.contender}: invalid: {'; '.join(trial.invalid_reasons)}"


def block_line(block: int, blocks: int, trials: Sequence[TrialRecord], remark: str, left: str) -> str:
    """Return `block 3/11: 9 trials valid, 1 invalid, noisy (a: 9% stolen by ...), 14 s left`."""
    valid = sum(trial.valid for trial in trials)
    parts = [f"{count(valid, 'trial')} valid"]
    if valid < len(trials):
        parts.append(f"{len(trials) - valid} invalid")
    if remark:
        parts.append(remark)
    if left:
        parts.append(left)
    return f"block {block}/{max(block, blocks)}: {', '.join(parts)}"
