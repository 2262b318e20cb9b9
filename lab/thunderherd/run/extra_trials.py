"""Extra trials, which follow all judged trials: what counted, paired and profiled trials share.

Each kind has its file in the run's directory, in the format of `trials.jsonl` or one that extends it. A
resumed run makes the trials that are missing. A failed extra trial never ends the run: the judged trials
remain valid.

An extra trial exists to measure its server. If the server was read late, the trial is invalid whatever the
study's metric is, and its second attempt has a longer window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol

from thunderherd.errors import UserError
from thunderherd.records.directory import RunDirectory, Trial
from thunderherd.records.extra_trials import ExtraTrialsTable
from thunderherd.records.summary import TrialRecord
from thunderherd.run.progress import Progress
from thunderherd.statistics.comparisons import block_order
from thunderherd.study.loading import Contender, Study
from thunderherd.trial.observation import LATE_SHARE, late_by_ns, read_late
from thunderherd.trial.trial import ProfileFiles

ATTEMPTS = 2
"""The maximum number of attempts at a trial: an invalid one is repeated once."""

LONGER = 2
"""Safety factor for the window of the second attempt, after the server was read late: the window would allow
a reading this many times as late."""
LONGEST_NS = 10_000_000_000
"""The longest window of a second attempt."""
STEP_NS = 1_000_000
"""The smallest step of the length of a window."""


class MakeTrial(Protocol):
    """A function that runs one trial of the run."""

    def __call__(
        self,
        study: Study,
        contender: Contender,
        *,
        block: int,
        position: int,
        attempt: int,
        profiles: ProfileFiles | None = None,
    ) -> TrialRecord: ...


@dataclass(frozen=True)
class Turn:
    """The turn of a trial: contender, number from 1, and position in the order of that number."""

    contender: str
    number: int
    position: int


@dataclass(frozen=True)
class ExtraTrials(Generic[Trial]):
    """The extra trials that one table of a study asks for, and their file."""

    study: Study
    table: ExtraTrialsTable
    directory: RunDirectory
    file: str
    kind: type[Trial]
    done: list[Trial]
    """All trials that were made, including invalid ones."""

    @classmethod
    def of(
        cls, study: Study, table: ExtraTrialsTable, directory: RunDirectory, file: str, kind: type[Trial]
    ) -> ExtraTrials[Trial]:
        """Return the extra trials of a run, including those on disk."""
        return cls(study, table, directory, file, kind, [*map(in_time, directory.extra_trials(file, kind))])

    def missing(self) -> list[Turn]:
        """Return the trials still to be made, in their order."""
        names, seed = self.table.contenders, self.directory.info.seed
        return [
            Turn(name, number, position)
            for number in range(1, self.table.trials + 1)
            for position, name in enumerate(block_order(names, seed, number), start=1)
            if _attempts(self.done, name, number) < ATTEMPTS
        ]

    @property
    def wanted(self) -> int:
        """The number of trials that the table requests."""
        return self.table.trials * len(self.table.contenders)

    def valid(self) -> int:
        """Return the number of these that exist and are valid."""
        return len({(each.contender, each.block) for each in self.done if each.valid})

    def make(self, turn: Turn, make: Callable[[Contender, int], Trial], show: Progress, failed: str) -> None:
        """Make one trial and keep it; repeat it once if it is invalid.

        `make` is called with the contender and the number of the attempt. `failed` completes the progress
        line of a contender whose trial stayed invalid, such as "was not counted".
        """
        for attempt in range(_attempts(self.done, turn.contender, turn.number) + 1, ATTEMPTS + 1):
            contender = self.study.contender(turn.contender)
            for earlier in _of(self.done, turn.contender, turn.number)[-1:]:
                contender = lengthened(contender, earlier)
            try:
                made = in_time(make(contender, attempt))
            except UserError as error:
                made = self._refused(turn, str(error))
            self.directory.append_extra(self.file, made)
            self.done.append(made)
            if made.valid or made.attempt == ATTEMPTS:
                break
        if not self.done[-1].valid:
            reasons = "; ".join(self.done[-1].invalid_reasons)
            show.say(f"{turn.contender} {failed}: {reasons}")

    def _refused(self, turn: Turn, why: str) -> Trial:
        """Return the record of a trial that the engine refused; it is not attempted again."""
        return self.kind(
            study=self.study.name,
            contender=turn.contender,
            block=turn.number,
            position=turn.position,
            attempt=ATTEMPTS,
            seed=self.directory.info.seed,
            started=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            wall_seconds=0,
            valid=False,
            invalid_reasons=[why],
        )


def in_time(trial: Trial) -> Trial:
    """Return the trial, marked invalid if its server was read late."""
    late = read_late(trial) if trial.valid else []
    return trial.model_copy(update={"valid": False, "invalid_reasons": late[:1]}) if late else trial


def lengthened(contender: Contender, earlier: TrialRecord) -> Contender:
    """Return the contender with a window long enough for a reading as late as that of an earlier trial.

    Unchanged if the server of that trial was read in time.
    """
    load, late = contender.load, late_by_ns(earlier)
    if not read_late(earlier) or load.duration is None:
        return contender
    now = int(load.settings[load.duration])
    needed = math.ceil(LONGER * late / LATE_SHARE / STEP_NS) * STEP_NS
    settings = {**load.settings, load.duration: max(now, min(needed, LONGEST_NS))}
    return contender.model_copy(update={"load": load.model_copy(update={"settings": settings})})


def _attempts(trials: Sequence[TrialRecord], name: str, number: int) -> int:
    """Return how often a trial was attempted; ATTEMPTS once it was valid, so that it is not repeated."""
    found = _of(trials, name, number)
    return ATTEMPTS if any(each.valid for each in found) else len(found)


def _of(trials: Sequence[TrialRecord], name: str, number: int) -> list[TrialRecord]:
    """Return all attempts at a trial."""
    return [each for each in trials if (each.contender, each.block) == (name, number)]
