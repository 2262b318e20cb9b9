"""Follow a run started by another process by reading its output files. Read-only."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from thunderherd.errors import UserError
from thunderherd.files import open_regular, read_bytes
from thunderherd.records.directory import (
    COUNTED,
    PROFILES,
    SUMMARY,
    TRIALS,
    WITH_COUNTERS,
    WITHOUT_COUNTERS,
    read_run,
)
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study
from thunderherd.trial.outline import outline

__all__ = ["Followed"]

EXTRA = {
    COUNTED: "counted",
    WITH_COUNTERS: "with counters",
    WITHOUT_COUNTERS: "without",
    PROFILES: "sampled",
}
"""The files of extra trials, and the word for each."""

NOT_KEPT: dict[str, Any] = {"path": Path(), "claims_path": None}
"""Fields of a study that run.json does not keep, and that watching a run does not need."""


@dataclass
class Followed:
    """A run's directory, and how far it has been read. Raises `UserError` if there is no run."""

    path: Path
    study: Study = field(init=False)
    seed: int = field(init=False)
    trials: list[TrialRecord] = field(default_factory=list)
    """The trials read so far, as a run in progress keeps them."""
    _offset: int = 0

    def __post_init__(self) -> None:
        info = read_run(self.path)
        self.seed = info.seed
        try:
            self.study = Study.model_validate(_completed(info.study, info.overrides))
        except (ValidationError, KeyError, TypeError, AttributeError) as error:
            number = f" ({error.error_count()} differences)" if isinstance(error, ValidationError) else ""
            raise UserError(
                f"another version of Thunderherd wrote this study{number}",
                code="results.other_version",
                hint="watch it with the version of Thunderherd that runs it",
                where=str(self.path),
            ) from None

    def new_trials(self) -> list[TrialRecord]:
        """Return the trials whose lines were completed since the last call."""
        try:
            with open_regular(self.path / TRIALS) as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return []
        *lines, _ = content.split(b"\n")
        found = []
        for line in lines:
            if b"\0" in line:
                break  # Left by a loss of power: a resumed run cuts it off.
            try:
                found.append(TrialRecord.model_validate_json(line))
            except ValidationError:
                place = f"{self.path / TRIALS}:{len(self.trials) + len(found) + 1}"
                raise UserError(
                    "not a trial of this version of Thunderherd", code="results.broken_line", where=place
                ) from None
            self._offset += len(line) + 1
        self.trials += map(outline, found)
        return found

    def is_running(self) -> bool:
        """True if a process holds the run's lock.

        The check holds a shared lock for an instant; a run that starts at that instant waits for it.
        """
        try:
            with open_regular(self.path / TRIALS) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def extra_trials(self) -> str:
        """Return the extra trials so far, such as `3 counted, 1 sampled`; empty if there are none."""
        parts = []
        for file, word in EXTRA.items():
            try:
                lines = read_bytes(self.path / file).count(b"\n")
            except FileNotFoundError:
                continue
            if lines:
                parts.append(f"{lines} {word}")
        return ", ".join(parts)

    def has_summary(self) -> bool:
        """True if a summary was written after the last trial."""
        try:
            written, last = ((self.path / name).stat().st_mtime_ns for name in (SUMMARY, TRIALS))
        except FileNotFoundError:
            return False
        return written >= last


def _completed(study: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Return the study from run.json, with the missing fields filled in."""

    def with_load(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "load": {"requests": (), **found["load"]}}

    contenders = [with_load(each) for each in study.get("contenders", [])]
    return {**NOT_KEPT, "overrides": overrides, **with_load(study), "contenders": contenders}
