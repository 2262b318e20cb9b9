"""A run's directory: writing it during the run, and reading it again.

```
run.json        the run: study, seed, machine, command line; written first
trials.jsonl    the raw observations, one line per trial, on disk before the next trial starts
trials.parquet  the same as a table, one row per trial (also trials.csv); written at the end
limits.jsonl    the machine limits, every round as measured, before the first trial
counted.jsonl   extra trials with more counters (`counting`); only their counts are used
with_counters.jsonl, without_counters.jsonl  pairs of extra trials that measure what counting costs
profiles.jsonl  extra trials that sample both sides (`profiling`), with the call stacks of their windows
profiles/       the same stacks, folded and as flame graphs
recordings/     copies of the files that loads replay (`recordings`)
study/          copies of the study and the files of its source (`recordings`)
unavailable.csv, extrapolated.csv  why cells of the table are empty, and which are extrapolated
summary.json    every figure of the printed tables and the report
README.md       what these files are, and how to open them (`results_folder`, which writes more)
```
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatch
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from thunderherd.errors import UserError
from thunderherd.files import (
    UNFINISHED,
    no_formula,
    open_for_appending,
    read_bytes,
    read_text,
    write_bytes,
    write_text,
)
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

# Functions that make a table import polars themselves: reading a summary is faster without it.

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
    "check_unused",
    "default_directory",
    "is_begun",
    "load",
]

RUN, TRIALS, SUMMARY = "run.json", "trials.jsonl", "summary.json"
UNAVAILABLE, EXTRAPOLATED = "unavailable.csv", "extrapolated.csv"
COUNTED, LIMITS, PROFILES = "counted.jsonl", "limits.jsonl", "profiles.jsonl"
WITH_COUNTERS, WITHOUT_COUNTERS = "with_counters.jsonl", "without_counters.jsonl"

Trial = TypeVar("Trial", bound=TrialRecord)
Outline = Callable[[TrialRecord], TrialRecord]
"""Returns what a run in progress keeps of a trial in memory."""

LOCK_ATTEMPTS, LOCK_SECONDS = 5, 0.02
"""How often to try for a run's lock before another run is assumed to hold it, and the time between."""

ANOTHER = "choose another directory with --out"

MOST_NAMED = 5
"""Most directories that an error lists."""


class _Part(BaseModel):
    """What is read of a document that another version may have written: the rest may be anything."""

    model_config = ConfigDict(extra="allow")


class _NamedPart(_Part):
    name: str = ""


class _Measured(_Part):
    counters: dict[str, Any] = {}


class _StudyPart(_NamedPart):
    absent: dict[str, str] = {}
    contenders: list[_NamedPart] = []
    measure: _Measured = _Measured()


class _ServerPart(_Part):
    files: dict[str, Any] = {}
    warnings: list[str] = []


class _LabPart(_Part):
    hosts: dict[str, Any] = {}


class _MachinePart(_Part):
    servers: dict[str, _ServerPart] = {}
    labs: dict[str, _LabPart] = {}


def _read_as(part: type[_Part]) -> AfterValidator:
    """Check what is read of a document, which stays as it is."""

    def checked(document: dict[str, Any]) -> dict[str, Any]:
        part.model_validate(document)
        return document

    return AfterValidator(checked)


class RunInfo(Record):
    """`run.json`, written before the first trial: what the run is, and everything needed to resume it."""

    schema_version: SchemaNumber = Field(default=SCHEMA, alias="schema")
    kind: Literal["run"] = "run"
    study: Annotated[dict[str, Any], _read_as(_StudyPart)] = Field(
        description="the resolved study, with every default filled in"
    )
    digest: str = Field(description="SHA-256 of the resolved study, overrides included")
    seed: int = Field(description="seed of the order of trials")
    overrides: list[str] = Field(description="the --set options, as typed")
    command: list[str] = Field(description="the command line, by words")
    started: str = Field(description="start of the run, local time with offset (ISO 8601)")
    version: str = Field(description="version of Thunderherd")
    machine: Annotated[dict[str, Any], _read_as(_MachinePart)] = Field(
        description="what the run is measured on; null values have their reasons in `unavailable`"
    )
    resumed: list[str] = Field(
        default_factory=list, description="when the run was resumed, local times with offset (ISO 8601)"
    )
    notes: list[str] = Field(
        default_factory=list, description="what disturbed the run; the summary's notes have it, too"
    )


_reserved: list[Path] = []
"""The directories, and the folders around them, that this process has made and may not have used."""


def default_directory(study: str, now: datetime | None = None) -> Path:
    """Makes the default directory of a run, results/STUDY-YYYYmmdd-HHMMSS, and returns its path.

    Of runs that start in one second, the second has the suffix -2. `release_unused` removes it if it stays
    empty.
    """
    folder = Path("results")
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        _reserved.append(folder.absolute())
    name = f"{study}-{now or datetime.now():%Y%m%d-%H%M%S}"
    for number in count(1):
        path = folder / (name if number == 1 else f"{name}-{number}")
        # Only one of several processes makes a directory.
        with suppress(FileExistsError):
            path.mkdir()
            break
    _reserved.append(path.absolute())
    return path


def release_unused() -> None:
    """Removes the default directories of this process in which nothing was written, as after a refusal."""
    while _reserved:
        # A directory that is in use is not empty.
        with suppress(OSError):
            _reserved.pop().rmdir()


# Writing


def _whole(trial: TrialRecord) -> TrialRecord:
    return trial


class RunDirectory:
    """The directory of a run in progress. Only one process can write to it at a time.

    Make it with `create` or `resume`, and close it (it is a context manager).
    """

    def __init__(
        self, path: Path, info: RunInfo, trials: list[TrialRecord], descriptor: int, outline: Outline
    ) -> None:
        self.path = path
        self.info = info
        self.trials = trials
        """Of each trial on disk, what `outline` keeps; `read_trials` has the whole trials."""
        self._descriptor = descriptor
        self._outline = outline

    @classmethod
    def create(cls, path: Path, info: RunInfo, outline: Outline = _whole) -> Self:
        """Makes a new directory, or takes an empty one. Raises `UserError` if it is not empty."""
        check_unused(path)
        path.mkdir(parents=True, exist_ok=True)
        descriptor = _open_for_appending(path)
        try:
            # Another run may have begun and ended meanwhile.
            check_unused(path)
            # Written last: a directory with a run.json can be resumed. One without it is as good as empty.
            write_text(path / RUN, info.model_dump_json(by_alias=True, indent=2) + "\n")
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, info, [], descriptor, outline)

    @classmethod
    def resume(cls, path: Path, outline: Outline = _whole) -> Self:
        """Opens the directory of a run to continue it. Cuts off an unfinished last line.

        Raises `UserError` if there is no run, if another process is writing to it, or if a line is malformed.
        """
        info = read_run(path)
        descriptor = _open_for_appending(path)
        try:
            trials, length = _read_trials(path / TRIALS, TrialRecord, outline)
            os.ftruncate(descriptor, length)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, info, trials, descriptor, outline)

    def note_resumption(self, when: str) -> None:
        """Records in run.json that the run was resumed."""
        self._change(resumed=[*self.info.resumed, when])

    def note(self, text: str) -> None:
        """Records a note in run.json, which a resumed run keeps."""
        self._change(notes=[*self.info.notes, text])

    def _change(self, **fields: list[str]) -> None:
        self.info = self.info.model_copy(update=fields)
        write_text(self.path / RUN, self.info.model_dump_json(by_alias=True, indent=2) + "\n")

    def append(self, trial: TrialRecord) -> None:
        """Writes one trial; it is on disk when this returns."""
        _append(self._descriptor, trial, self.path / TRIALS)
        self.trials.append(self._outline(trial))

    def read_trials(self) -> list[TrialRecord]:
        """Reads the whole trials, which take some 65 KB of memory each."""
        return _read_trials(self.path / TRIALS, TrialRecord)[0]

    def extra_trials(self, file: str, kind: type[Trial]) -> list[Trial]:
        """Reads the extra trials of a file. Cuts off an unfinished last line."""
        path = self.path / file
        trials, length = _read_trials(path, kind)
        if path.exists():
            descriptor = open_for_appending(path)
            try:
                os.ftruncate(descriptor, length)
            finally:
                os.close(descriptor)
        return trials

    def append_extra(self, file: str, trial: TrialRecord) -> None:
        """Writes one extra trial; it is on disk when this returns."""
        descriptor = open_for_appending(self.path / file)
        try:
            _append(descriptor, trial, self.path / file)
        finally:
            os.close(descriptor)

    def limits(self) -> list[str] | None:
        """The lines of the machine limits; None before they are kept."""
        path = self.path / LIMITS
        return _read_text(path).removesuffix("\n").split("\n") if path.exists() else None

    def keep_limits(self, lines: Sequence[str]) -> None:
        """Writes the lines of the machine limits."""
        write_text(self.path / LIMITS, "".join(f"{line}\n" for line in lines))

    def finish(self, summary: Summary, trials: Sequence[TrialRecord]) -> SavedRun:
        """Writes summary.json and the tables of the whole trials; returns the run."""
        write_text(self.path / SUMMARY, summary.model_dump_json(by_alias=True, indent=2) + "\n")
        saved = SavedRun(self.path, self.info, trials, summary)
        saved.write_tidy()
        return saved

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_unused(path: Path) -> None:
    """Raises `UserError` unless a directory is missing, empty, or what an interrupted `create` left."""
    if is_begun(path):
        raise UserError(
            "the directory already has a run",
            code="run.directory_taken",
            hint=f"add --resume to continue it, or {ANOTHER}",
            where=str(path),
        )
    if path.exists() and not path.is_dir():
        raise UserError("it is not a directory", code="run.not_a_directory", hint=ANOTHER, where=str(path))
    inside = {each.name: each for each in path.iterdir()} if path.exists() else {}
    inside = {name: each for name, each in inside.items() if not fnmatch(name, f".{RUN}.{UNFINISHED}")}
    trials = inside.pop(TRIALS, None)
    if inside or (trials and trials.lstat().st_size):
        raise UserError(
            "the directory is not empty", code="run.directory_not_empty", hint=ANOTHER, where=str(path)
        )


def _append(descriptor: int, trial: TrialRecord, path: Path) -> None:
    line = trial.model_dump_json(by_alias=True).encode() + b"\n"
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    except OSError as error:
        # It names a full disk.
        error.filename = str(path)
        raise


def _open_for_appending(path: Path) -> int:
    descriptor = open_for_appending(path / TRIALS)
    # `thunderherd watch` holds the lock for an instant to see whether the run is in progress.
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt + 1 < LOCK_ATTEMPTS:
                time.sleep(LOCK_SECONDS)
    else:
        os.close(descriptor)
        raise UserError(
            "another run is writing to the directory",
            code="run.in_progress",
            hint="wait for it, or stop it first",
            where=str(path),
        )
    # The lock is held, so these are of processes that were killed.
    for left in path.glob(f".*.{UNFINISHED}"):
        left.unlink(missing_ok=True)
    return descriptor


# Reading


class OtherVersionError(UserError):
    """A summary of another version of Thunderherd. A resumed run writes it anew."""


def load(path: str | Path) -> SavedRun:
    """Reads the results of the run in `path`, finished or not. Raises `UserError` if there is no run."""
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
                f"not a summary of this version of Thunderherd ({_first(error)})",
                code="results.other_version",
                hint="resume the run (--resume): this writes it anew from trials.jsonl",
                where=str(directory / SUMMARY),
            ) from None
    return SavedRun(directory, info, trials, summary)


def is_begun(path: Path) -> bool:
    """True if the directory has a run, which can be resumed."""
    return (path / RUN).exists()


def read_run(path: Path) -> RunInfo:
    """Reads run.json, without trials and summary. Raises `UserError` if there is no run."""
    if not is_begun(path):
        what = "no such directory" if not path.exists() else f"the directory has no {RUN}"
        if path.is_file():
            what = "a file, not a directory"
        # `thunderherd crossover` writes the run of each stage to a subdirectory.
        inside = sorted(found.parent for found in path.glob(f"*/{RUN}"))
        instead = "the directory that `thunderherd run --out` wrote"
        if is_begun(path.parent):
            instead = f"the directory of the run: {path.parent}"
        if inside:
            instead = f"one of its runs: {', '.join(map(str, inside[:MOST_NAMED]))}"
        raise UserError(
            f"no run here: {what}", code="results.no_run", hint=f"give {instead}", where=str(path)
        )
    try:
        return RunInfo.model_validate_json(_read_text(path / RUN))
    except ValidationError as error:
        raise UserError(
            f"not a run of this version of Thunderherd ({_first(error)})",
            code="results.other_version",
            hint="start a new run with another --out",
            where=str(path / RUN),
        ) from None


def _read_trials(
    path: Path, kind: type[Trial], outline: Callable[[Trial], Trial] | None = None
) -> tuple[list[Trial], int]:
    """All trials of a file, or their outlines, and the length of its complete lines in bytes.

    A killed process leaves at most an unfinished last line; a loss of power may leave zeros there. That trial
    is lost, and only that one. Any other malformed line raises `UserError`.
    """
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise _unreadable(path, error) from None
    trials: list[Trial] = []
    length = 0
    # Line by line: to split it would need as much memory again.
    for number, line in enumerate(io.BytesIO(content), start=1):
        is_last = length + len(line) == len(content)
        if not line.endswith(b"\n") or (is_last and b"\0" in line):
            break
        try:
            trial = kind.model_validate_json(line[:-1])
        except ValidationError as error:
            raise UserError(
                f"not a trial of this version of Thunderherd: {_first(error)}",
                code="results.broken_line",
                where=f"{path}:{number}",
            ) from None
        trials.append(trial if outline is None else outline(trial))
        length += len(line)
    return trials, length


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(f"cannot be read: {reason}", code="results.unreadable", where=str(path))


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
    """A run as read from its directory. `summary` is None until the run has ended or was interrupted."""

    path: Path
    run: RunInfo
    trials: Sequence[TrialRecord]
    summary: Summary | None

    def frame(self) -> polars.DataFrame:
        """One row per trial, invalid ones included, in the order in which they ran. Times in seconds.

        `used` is whether the figures rest on the trial: valid, in an accepted block, and not repeated (null
        without a summary).
        """
        import polars

        return polars.DataFrame([self._row(trial) for trial in self.trials], schema=self.columns())

    def profiled(self) -> list[ProfiledTrial]:
        """The profiled trials."""
        return _read_trials(self.path / PROFILES, ProfiledTrial)[0]

    def columns(self) -> dict[str, Any]:
        """The columns of `frame()` and their types."""
        types = _types()
        return {each.name: types[each.kind] for each in self.described_columns()}

    def described_columns(self) -> list[Column]:
        """The columns of `frame()` with their units and meanings."""
        reported = (name for trial in self.trials for name in trial.metrics or ())
        return trial_columns(reported, self.run.study.get("measure", {}).get("counters", {}))

    @cached_property
    def _contenders(self) -> dict[str, dict[str, Any]]:
        return {contender["name"]: contender for contender in self.run.study.get("contenders", [])}

    @cached_property
    def _last_valid(self) -> dict[tuple[int, str], int]:
        """The last valid attempt of each contender in each block."""
        return {(trial.block, trial.contender): trial.attempt for trial in self.trials if trial.valid}

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
                "valid", "trial", "cpu_scope", "time_wait_before", "start_skew_seconds", WORKERS,
            )
        }  # fmt: skip
        for column, role in (("server_host", "server"), ("load_hosts", "load")):
            row[column] = " ".join(each.host for each in trial.hosts if role in each.roles) or None
        row["invalid_reasons"] = "; ".join(trial.invalid_reasons) or None
        counts = trial.valid and trial.attempt == self._last_valid[trial.block, trial.contender]
        row["used"] = None if accepted is None else counts and trial.block in accepted
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
        write_bytes(self.path / "trials.parquet", parquet_of(frame))
        flat = frame.with_columns(
            polars.Series(
                name,
                [None if each is None else json.dumps(each) for each in frame[name].to_list()],
                dtype=polars.String,
            )
            for name in LISTS
        )
        write_text(self.path / "trials.csv", csv_of(flat))


def parquet_of(frame: polars.DataFrame) -> bytes:
    """Return a data frame as Parquet. If polars wrote the file, a full disk would be an error of polars."""
    frame.write_parquet(content := io.BytesIO())
    return content.getvalue()


def csv_of(frame: polars.DataFrame) -> str:
    """Writes a table as CSV in which a spreadsheet finds no formula."""
    import polars

    texts = polars.selectors.string()
    rows = frame.with_columns(texts.map_elements(no_formula, return_dtype=polars.String))
    # A trial names its metrics. Two heads may be the same text, which a table of polars does not allow.
    heads = io.StringIO()
    csv.writer(heads, lineterminator="\n").writerow(map(no_formula, frame.columns))
    return heads.getvalue() + rows.write_csv(include_header=False)
