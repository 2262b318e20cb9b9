"""A run's directory: what is written into it while it is measured, and how it is read again.

run.json        what is run: study, seed, machine, command line; written first
trials.jsonl    one line a trial, on disk before the next trial starts; the raw observations
trials.parquet  the same as a table, one row a trial (also trials.csv); written at the end
limits.jsonl    the machine's limits, every round as it was measured, before the first trial
counted.jsonl   the same of trials in which more was counted (`counting`); no figure beside the counts is used
with_counters.jsonl, without_counters.jsonl  pairs of trials that tell what counting costs (`counting_cost`)
profiles.jsonl  trials in which both sides were sampled (`profiling`), and the call stacks of their windows
profiles/       the same folded, and as flame graphs
recordings/     copies of the files that loads name (`recordings`)
unavailable.csv, extrapolated.csv  what is to be known of that table's cells
summary.json    every figure of the printed table and the report
README.md       what these files are, and how to open them (`results_folder`, which writes more)
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from thunderherd.errors import UserError
from thunderherd.records.columns import LISTS, Column, Kind, trial_columns
from thunderherd.records.noise import SOFTIRQ_RATES
from thunderherd.records.profiled_trial import ProfiledTrial
from thunderherd.records.summary import (
    SCHEMA,
    WORKERS,
    ClaimSummary,
    ContenderSummary,
    Estimate,
    PairSummary,
    Record,
    SchemaNumber,
    Summary,
    TrialRecord,
)

if TYPE_CHECKING:
    import polars

# polars is imported where a table is made: whoever only reads a summary does without it.

__all__ = [
    "ClaimSummary",
    "ContenderSummary",
    "Estimate",
    "PairSummary",
    "RunDirectory",
    "RunInfo",
    "SavedRun",
    "Summary",
    "TrialRecord",
    "default_directory",
    "is_begun",
    "load",
]

RUN, TRIALS, SUMMARY = "run.json", "trials.jsonl", "summary.json"
UNAVAILABLE, EXTRAPOLATED = "unavailable.csv", "extrapolated.csv"
COUNTED, LIMITS, PROFILES = "counted.jsonl", "limits.jsonl", "profiles.jsonl"
WITH_COUNTERS, WITHOUT_COUNTERS = "with_counters.jsonl", "without_counters.jsonl"

Trial = TypeVar("Trial", bound=TrialRecord)

LOCK_ATTEMPTS, LOCK_SECONDS = 5, 0.02
"""How often the lock of a run is asked for before it is another run's, and the time between."""

MOST_NAMED = 5
"""Directories that an error names at most."""


class RunInfo(Record):
    """`run.json`, written before the first trial: what a run is, and all that resuming it needs."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    kind: Literal["run"] = "run"
    study: dict[str, Any] = Field(description="the study as resolved, every default filled in")
    digest: str
    seed: int
    overrides: list[str]
    command: list[str]
    started: str
    version: str = Field(description="of Thunderherd")
    machine: dict[str, Any]
    resumed: list[str] = Field(default_factory=list, description="when it was resumed")


def default_directory(study: str, now: datetime | None = None) -> Path:
    """Where a run goes that was given no directory: results/STUDY-YYYYmmdd-HHMMSS."""
    return Path("results") / f"{study}-{now or datetime.now():%Y%m%d-%H%M%S}"


# Writing


class RunDirectory:
    """The directory of a run that is being measured; no two processes may write into one at a time.

    Make it with `create` or `resume`, and close it (it is a context manager).
    """

    def __init__(self, path: Path, info: RunInfo, trials: list[TrialRecord], descriptor: int) -> None:
        self.path = path
        self.info = info
        self.trials = trials
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: Path, info: RunInfo) -> Self:
        """A new directory, or an empty one. Raises `UserError` where something is there already."""
        if is_begun(path):
            raise UserError(
                f"{path} already holds a run; add --resume to go on with it, "
                "or choose another directory with --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{path} exists and is not empty; choose another directory with --out")
        path.mkdir(parents=True, exist_ok=True)
        descriptor = _open_for_appending(path)
        # Last: a directory with a run.json is one that can be resumed.
        write_text(path / RUN, info.model_dump_json(by_alias=True, indent=2) + "\n")
        return cls(path, info, [], descriptor)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """A directory with a run in it. A last line that was not finished is cut off.

        Raises `UserError` where there is no run, where another process still writes, or where a whole line is
        broken.
        """
        info = read_run(path)
        descriptor = _open_for_appending(path)
        try:
            trials, length = _read_trials(path / TRIALS, TrialRecord)
            os.ftruncate(descriptor, length)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, info, trials, descriptor)

    def note_resumption(self, when: str) -> None:
        """Records in run.json that the run goes on."""
        self.info = self.info.model_copy(update={"resumed": [*self.info.resumed, when]})
        write_text(self.path / RUN, self.info.model_dump_json(by_alias=True, indent=2) + "\n")

    def append(self, trial: TrialRecord) -> None:
        """Writes one trial; on disk when this returns."""
        _append(self._descriptor, trial)
        self.trials.append(trial)

    def extra_trials(self, file: str, kind: type[Trial]) -> list[Trial]:
        """The trials beside those that are judged, from a file of theirs. A last line that was not finished
        is cut off."""
        path = self.path / file
        trials, length = _read_trials(path, kind)
        if path.exists():
            os.truncate(path, length)
        return trials

    def append_extra(self, file: str, trial: TrialRecord) -> None:
        """Writes such a trial; on disk when this returns."""
        descriptor = os.open(self.path / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _append(descriptor, trial)
        finally:
            os.close(descriptor)

    def limits(self) -> list[str] | None:
        """The lines of the machine's limits, as the engine said them; None where none are kept yet."""
        path = self.path / LIMITS
        return _read_text(path).splitlines() if path.exists() else None

    def keep_limits(self, lines: Sequence[str]) -> None:
        """Keeps the lines of the machine's limits, all that there are."""
        write_text(self.path / LIMITS, "".join(f"{line}\n" for line in lines))

    def finish(self, summary: Summary) -> None:
        """Writes summary.json and the tidy tables."""
        write_text(self.path / SUMMARY, summary.model_dump_json(by_alias=True, indent=2) + "\n")
        SavedRun(self.path, self.info, self.trials, summary).write_tidy()

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _append(descriptor: int, trial: TrialRecord) -> None:
    line = trial.model_dump_json(by_alias=True).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]
    os.fsync(descriptor)


def _open_for_appending(path: Path) -> int:
    descriptor = os.open(path / TRIALS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    # One who asks whether a run goes on (`followed`) holds the lock for an instant.
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt + 1 < LOCK_ATTEMPTS:
                time.sleep(LOCK_SECONDS)
    else:
        os.close(descriptor)
        raise UserError(f"{path} is being written by another run; wait for it, or end it first")
    _sync_directory(path)
    return descriptor


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step: a reader, and a machine that fails, see the old file or the new one."""
    unfinished = _unfinished(path)
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync_directory(path.parent)


def write_parquet(path: Path, table: polars.DataFrame) -> None:
    """Replaces a file by a table in one step: a reader sees the old file or the new one."""
    unfinished = _unfinished(path)
    table.write_parquet(unfinished)
    unfinished.replace(path)


def _unfinished(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.unfinished")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Reading


class OtherVersionError(UserError):
    """A summary is there, but not of this version: a resumed run writes it anew."""


def load(path: str | Path) -> SavedRun:
    """The results of the run in directory `path`, finished or not. Raises `UserError` where there is none."""
    directory = Path(path)
    info = read_run(directory)
    trials, _ = _read_trials(directory / TRIALS, TrialRecord)
    summary = None
    if (directory / SUMMARY).exists():
        text = _read_text(directory / SUMMARY)
        try:
            summary = Summary.model_validate_json(text)
        except ValidationError as error:
            raise OtherVersionError(
                f"{directory / SUMMARY} is not what this version of Thunderherd writes ({_first(error)}); "
                "a resumed run (--resume) writes it anew from trials.jsonl"
            ) from None
    return SavedRun(directory, info, trials, summary)


def is_begun(path: Path) -> bool:
    """Whether a run has begun in that directory, which can be gone on with."""
    return (path / RUN).exists()


def read_run(path: Path) -> RunInfo:
    """What a run is, without its trials and its summary. Raises `UserError` where there is none."""
    if not is_begun(path):
        what = "no such directory" if not path.exists() else f"it has no {RUN}"
        if path.is_file():
            what = "it is a file, not a directory"
        # Where `thunderherd crossover` wrote, the run of each stage has a directory of its own.
        inside = sorted(found.parent for found in path.glob(f"*/{RUN}"))
        instead = "the directory that `thunderherd run --out` wrote"
        if is_begun(path.parent):
            instead = f"the directory that it is in: {path.parent}"
        if inside:
            instead = f"one of those in it: {', '.join(map(str, inside[:MOST_NAMED]))}"
        raise UserError(f"{path} holds no run: {what}; give {instead}")
    try:
        return RunInfo.model_validate_json(_read_text(path / RUN))
    except ValidationError as error:
        raise UserError(
            f"{path / RUN} is not what this version of Thunderherd writes ({_first(error)}); "
            "start a new run with another --out"
        ) from None


def _read_trials(path: Path, kind: type[Trial]) -> tuple[list[Trial], int]:
    """All trials, and the length in bytes of what is whole.

    A process that is killed leaves at most its last line unfinished; that trial is lost and nothing else. So
    does a machine that loses power: its last line may hold zeros, which no JSON does. Any other line that is
    no trial was not left by an interruption, and raises `UserError`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    trials: list[Trial] = []
    length = 0
    *lines, unfinished = content.split(b"\n")
    if lines and not unfinished and b"\0" in lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        try:
            trials.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise UserError(
                f"{path}:{number}: no trial of this version of Thunderherd: {_first(error)}"
            ) from None
        length += len(line) + 1
    return trials, length


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"


def _types() -> dict[Kind, Any]:
    import polars

    return {
        "text": polars.String,
        "whole": polars.Int64,
        "real": polars.Float64,
        "true or false": polars.Boolean,
        "list of real": polars.List(polars.Float64),
        "list of whole": polars.List(polars.Int64),
    }


@dataclass(frozen=True)
class SavedRun:
    """A run as read from its directory. `summary` is None until the run has ended (or was interrupted)."""

    path: Path
    run: RunInfo
    trials: Sequence[TrialRecord]
    summary: Summary | None

    def frame(self) -> polars.DataFrame:
        """One row a trial, invalid ones included, in the order in which they ran; times in seconds.

        `used` says whether the verdicts rest on it: valid, and of an accepted block (null without a summary).
        """
        import polars

        return polars.DataFrame([self._row(trial) for trial in self.trials], schema=self.columns())

    def profiled(self) -> list[ProfiledTrial]:
        """The trials in which both sides were sampled."""
        return _read_trials(self.path / PROFILES, ProfiledTrial)[0]

    def columns(self) -> dict[str, Any]:
        """The columns of `frame()` and their types: what each trial has, then one for each metric."""
        types = _types()
        return {each.name: types[each.kind] for each in self.described_columns()}

    def described_columns(self) -> list[Column]:
        """The same with their units and meanings."""
        told = (name for trial in self.trials for name in trial.metrics or ())
        return trial_columns(told, self.run.study.get("measure", {}).get("counters", {}))

    @cached_property
    def _contenders(self) -> dict[str, dict[str, Any]]:
        return {contender["name"]: contender for contender in self.run.study.get("contenders", [])}

    def _row(self, trial: TrialRecord) -> dict[str, Any]:
        contender = self._contenders.get(trial.contender, {})
        accepted = self.summary.trials.accepted_blocks if self.summary else None
        row: dict[str, Any] = {
            name: contender.get(name)
            for name in ("base", "sweep", "point", "design", "primitive", "receive", "workload")
        } | {
            name: getattr(trial, name)
            for name in (
                "study", "contender", "block", "position", "attempt", "seed", "started", "wall_seconds",
                "valid", "trial", "cpu_scope", "time_wait_before", WORKERS,
            )
        }  # fmt: skip
        row["invalid_reasons"] = "; ".join(trial.invalid_reasons) or None
        row["used"] = None if accepted is None else trial.valid and trial.block in accepted
        if trial.noise is not None:
            row |= {
                name: getattr(trial.noise, name)
                for name in ("steal_share", "foreign_share", "throttled", "retransmitted")
            }
            row[SOFTIRQ_RATES] = trial.noise.softirq_rates or None
        if trial.metrics is not None:
            row |= trial.metrics
        return row

    def write_tidy(self) -> None:
        """Writes `frame()` as trials.parquet, and as trials.csv (lists as JSON texts)."""
        import polars

        frame = self.frame()
        write_parquet(self.path / "trials.parquet", frame)
        flat = frame.with_columns(
            polars.Series(
                name,
                [None if each is None else json.dumps(each) for each in frame[name].to_list()],
                dtype=polars.String,
            )
            for name in LISTS
        )
        write_text(self.path / "trials.csv", flat.write_csv())
