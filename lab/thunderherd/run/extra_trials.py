"""Trials beside those that are judged, made after all of these: what counted and profiled ones share.

They lie in a file of the run's directory, in the form of `trials.jsonl` or in one that adds to it; a run that
is gone on with makes those that it lacks. What goes wrong with one never ends the run: what was measured
before stands all the same. One whose server was read late tells nothing of its server, which is what it was
made for: it is not valid, whatever the study judges by, and its second attempt has a longer window.
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
"""A trial that is not valid is made once more."""

LONGER = 2
"""After a trial whose server was read late, its window is made so long that this many times as late is in
time."""
LONGEST_MILLISECONDS = 10_000
"""No window is made longer than this."""


class MakeTrial(Protocol):
    """How a trial of the run is made."""

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
class Place:
    """Which trial: the contender, its number from 1, and its place in the order of all of that number."""

    contender: str
    number: int
    position: int


@dataclass(frozen=True)
class ExtraTrials(Generic[Trial]):
    """The trials that a table of a study asks for, in their file."""

    study: Study
    table: ExtraTrialsTable
    directory: RunDirectory
    file: str
    kind: type[Trial]
    done: list[Trial]
    """All that were made, invalid ones too."""

    @classmethod
    def of(
        cls, study: Study, table: ExtraTrialsTable, directory: RunDirectory, file: str, kind: type[Trial]
    ) -> ExtraTrials[Trial]:
        """With those that lie there already."""
        return cls(study, table, directory, file, kind, [*map(in_time, directory.extra_trials(file, kind))])

    def missing(self) -> list[Place]:
        """Those that are still to be made, in their order."""
        names, seed = self.table.contenders, self.directory.info.seed
        return [
            Place(name, number, position)
            for number in range(1, self.table.trials + 1)
            for position, name in enumerate(block_order(names, seed, number), start=1)
            if _attempts(self.done, name, number) < ATTEMPTS
        ]

    @property
    def wanted(self) -> int:
        """How many the table asks for."""
        return self.table.trials * len(self.table.contenders)

    def valid(self) -> int:
        """How many of these are there, and valid."""
        return len({(each.contender, each.block) for each in self.done if each.valid})

    def make(
        self, place: Place, make: Callable[[Contender, int], Trial], show: Progress, failed: str
    ) -> None:
        """Makes one, a second time where it is not valid, and keeps it.

        `make` is given the contender and the number of the attempt; `failed` says of a contender what it was
        not, such as "was not counted".
        """
        for attempt in range(_attempts(self.done, place.contender, place.number) + 1, ATTEMPTS + 1):
            contender = self.study.contender(place.contender)
            for earlier in _of(self.done, place.contender, place.number)[-1:]:
                contender = lengthened(contender, earlier)
            try:
                made = in_time(make(contender, attempt))
            except UserError as error:
                made = self._refused(place, str(error))
            self.directory.append_extra(self.file, made)
            self.done.append(made)
            if made.valid or made.attempt == ATTEMPTS:
                break
        if not self.done[-1].valid:
            reasons = "; ".join(self.done[-1].invalid_reasons)
            show.say(f"{place.contender} {failed}: {reasons}")

    def _refused(self, place: Place, why: str) -> Trial:
        """The record of a trial that could not begin, nor ever will."""
        return self.kind(
            study=self.study.name,
            contender=place.contender,
            block=place.number,
            position=place.position,
            attempt=ATTEMPTS,
            seed=self.directory.info.seed,
            started=datetime.now().astimezone().isoformat(timespec="milliseconds"),
            wall_seconds=0,
            valid=False,
            invalid_reasons=[why],
        )


def in_time(trial: Trial) -> Trial:
    """The trial, which is not valid where its server was read late."""
    late = read_late(trial) if trial.valid else []
    return trial.model_copy(update={"valid": False, "invalid_reasons": late[:1]}) if late else trial


def lengthened(contender: Contender, earlier: TrialRecord) -> Contender:
    """The contender with a window so long that its server would not have been read late, had it been read as
    many milliseconds after its ends as in an earlier trial; as it is, where that was in time."""
    load, late = contender.load, late_by_ns(earlier)
    if not read_late(earlier) or load.duration is None:
        return contender
    now = int(load.settings[load.duration])
    needed = math.ceil(LONGER * late / LATE_SHARE / 1e6)
    settings = {**load.settings, load.duration: max(now, min(needed, LONGEST_MILLISECONDS))}
    return contender.model_copy(update={"load": load.model_copy(update={"settings": settings})})


def _attempts(trials: Sequence[TrialRecord], name: str, number: int) -> int:
    """How often a trial was tried; all that there are, where one was valid."""
    found = _of(trials, name, number)
    return ATTEMPTS if any(each.valid for each in found) else len(found)


def _of(trials: Sequence[TrialRecord], name: str, number: int) -> list[TrialRecord]:
    """The attempts at a trial."""
    return [each for each in trials if (each.contender, each.block) == (name, number)]
