"""What a run says while it goes on: time left on a terminal, plain lines elsewhere. All of it on stderr.

The table belongs to stdout, so that it can be sent to a file while the progress is still seen.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from thunderherd.records import TrialRecord

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress(Protocol):
    """Somewhere for a run to say what is going on."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def say(self, text: str) -> None:
        """One line that stays."""

    def plan(self, blocks: int, trials: int) -> None:
        """The next look comes after `blocks` blocks in all; `trials` trials are left until then."""

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        """The trial of `contender` begins, the `position`-th of `of` in its block."""

    def trial_ends(self, trial: TrialRecord) -> None:
        """It has ended and is on disk."""

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        """All trials of a block are on disk; `remark` says what is special about it, if anything."""


def choose(stream: TextIO | None = None) -> Progress:
    """A moving bar where somebody looks (a terminal), plain lines in files, pipes and CI."""
    stream = stream or sys.stderr
    return TerminalProgress(stream) if stream.isatty() else PlainProgress(stream)


NAME_COLUMNS = 24
"""The width that names of contenders get beside the bar, so that it stands still while most of them pass."""

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

    def end(self, contender: str) -> None:
        recent = self._recent.setdefault(contender, deque(maxlen=4))
        recent.append(time.monotonic() - self._began)
        self.trials_left = max(0, self.trials_left - 1)

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

    def plan(self, blocks: int, trials: int) -> None:
        self._blocks = blocks
        self._clock.trials_left = trials

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        self._clock.begin()
        self._place = f"block {block}/{max(block, self._blocks)}: trial {position}/{of}"

    def trial_ends(self, trial: TrialRecord) -> None:
        self._clock.end(trial.contender)
        if not trial.valid:
            self.say(f"block {trial.block}: {trial.contender}: invalid: {'; '.join(trial.invalid_reasons)}")
        elif time.monotonic() - self._said > QUIET_SECONDS and self._clock.trials_left:
            self.say(f"{self._place}, {self._clock.left()}")

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        self.say(block_line(block, self._blocks, trials, remark, self._clock.left()))


def block_line(block: int, blocks: int, trials: Sequence[TrialRecord], remark: str, left: str) -> str:
    """`block 3/11: 9 trials valid, 1 invalid, rejected: 9% of the machine stolen; 14 s left`."""
    valid = sum(trial.valid for trial in trials)
    parts = [f"{valid} {'trial' if valid == 1 else 'trials'} valid"]
    if valid < len(trials):
        parts.append(f"{len(trials) - valid} invalid")
    if remark:
        parts.append(remark)
    if left:
        parts.append(left)
    return f"block {block}/{max(block, blocks)}: {', '.join(parts)}"


class TerminalProgress:
    """A bar with the trial that runs, the blocks so far and the time left; what matters stays above it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._clock = Clock()
        self._blocks = 0
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._done = 0

    def __enter__(self) -> Self:
        # Imported here: only a terminal needs it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f} trials"),
            TextColumn("{task.fields[left]}"),
            console=Console(file=self._stream),
            # Drawn by this thread after each trial: a drawing thread would use CPU in the measured window.
            auto_refresh=False,
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("starting", total=1, left="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def plan(self, blocks: int, trials: int) -> None:
        self._blocks = blocks
        self._clock.trials_left = trials
        self._draw(total=self._done + trials)

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        self._clock.begin()
        place = f"block {block}/{max(block, self._blocks)}, trial {position:>{len(str(of))}}/{of}"
        self._draw(description=f"{place}: {contender:<{NAME_COLUMNS}}")

    def trial_ends(self, trial: TrialRecord) -> None:
        self._clock.end(trial.contender)
        self._done += 1
        if not trial.valid:
            self.say(f"block {trial.block}: {trial.contender}: invalid: {'; '.join(trial.invalid_reasons)}")
        self._draw(completed=self._done)

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        if remark or not all(trial.valid for trial in trials):
            self.say(block_line(block, self._blocks, trials, remark, ""))

    def _draw(
        self, *, description: str | None = None, completed: float | None = None, total: float | None = None
    ) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                description=description,
                completed=completed,
                total=total,
                refresh=True,
                left=self._clock.left(),
            )
