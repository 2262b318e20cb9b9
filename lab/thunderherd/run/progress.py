"""What a run says while it goes on: in plain lines here, on a terminal as a view (`live_view`). On stderr.

The table belongs to stdout, so that it can be sent to a file while the progress is still seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from thunderherd.records.summary import TrialRecord
from thunderherd.text.figures import count


class Progress(Protocol):
    """Somewhere for a run to say what is going on."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def say(self, text: str) -> None:
        """One line that stays."""

    def begins(self, trials: Sequence[TrialRecord]) -> None:
        """The run begins, or goes on with these trials."""

    def plan(self, blocks: int, trials: int) -> None:
        """The next look comes after `blocks` blocks in all; `trials` trials are left until then."""

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        """The trial of `contender` begins, the `position`-th of `of` in its block."""

    def trial_ends(self, trial: TrialRecord) -> None:
        """It has ended and is on disk."""

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        """All trials of a block are on disk; `remark` says what is special about it, if anything."""


QUIET_SECONDS = 60.0
"""How long plain lines may keep silent while a block goes on."""


class Clock:
    """Time left, from how long the trials of each contender took of late: a point of a sweep may take long.

    Every block has each contender once, so each counts the same; one that was not seen yet counts as the
    others.
    """

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._began = time.monotonic()
        self.trials_left = 0

    def begin(self) -> None:
        self._began = time.monotonic()

    def end(self, contender: str, at_least: float = 0.0) -> None:
        """A trial ended now, or of late: it took `at_least` so many seconds."""
        self.took(contender, max(at_least, time.monotonic() - self._began))
        self.trials_left = max(0, self.trials_left - 1)

    def took(self, contender: str, seconds: float) -> None:
        """A trial of the contender took so long."""
        self._recent.setdefault(contender, deque(maxlen=4)).append(seconds)

    def usual(self, contender: str) -> float | None:
        """How long its trials took of late; None where none has ended."""
        recent = self._recent.get(contender)
        return sum(recent) / len(recent) if recent else None

    def left(self) -> str:
        """`14 s left`; empty before the first trial has ended, and after the last."""
        if not self._recent or not self.trials_left:
            return ""
        means = [sum(recent) / len(recent) for recent in self._recent.values()]
        return f"{duration(self.trials_left * sum(means) / len(means))} left"


def duration(seconds: float) -> str:
    """`14 s`, `3 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


class PlainProgress:
    """One line a block: `block 3/11: 10 trials valid, 14 s left`; and one a minute in a block that takes
    long."""

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
        print(text, file=self._stream, flush=True)
        self._said = time.monotonic()

    def begins(self, trials: Sequence[TrialRecord]) -> None:
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
        """How long a trial took at least; here it is seen to begin and to end."""
        return 0.0

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        self.say(block_line(block, self._blocks, trials, remark, self._clock.left()))


def invalid_line(trial: TrialRecord) -> str:
    """`block 3: prefork: invalid: ...`, with all reasons."""
    return f"block {trial.block}: {trial.contender}: invalid: {'; '.join(trial.invalid_reasons)}"


def block_line(block: int, blocks: int, trials: Sequence[TrialRecord], remark: str, left: str) -> str:
    """`block 3/11: 9 trials valid, 1 invalid, rejected: 9% of the machine stolen; 14 s left`."""
    valid = sum(trial.valid for trial in trials)
    parts = [f"{count(valid, 'trial')} valid"]
    if valid < len(trials):
        parts.append(f"{len(trials) - valid} invalid")
    if remark:
        parts.append(remark)
    if left:
        parts.append(left)
    return f"block {block}/{max(block, blocks)}: {', '.join(parts)}"
