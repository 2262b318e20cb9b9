"""Profiled trials: extra trials that sample the call stacks of both sides.

The records are in `profiles.jsonl` in the run's directory, with the stacks of their windows. Sampling
disturbs the trial, so none of its other figures is used.
"""

from __future__ import annotations

from pathlib import Path

from thunderherd.engine.client import EngineError
from thunderherd.files import temporary_folder
from thunderherd.metrics.table import Side
from thunderherd.records.directory import PROFILES, RunDirectory
from thunderherd.records.profiled_trial import ProfiledTrial, SideSamples
from thunderherd.records.summary import TrialRecord
from thunderherd.run.counting_cost import without_counters
from thunderherd.run.extra_trials import ExtraTrials, MakeTrial, Turn, in_time
from thunderherd.run.progress import Progress
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import count
from thunderherd.trial.trial import ProfileFiles


def profile_run(study: Study, directory: RunDirectory, trial: MakeTrial, show: Progress) -> None:
    """Run the profiled trials that the study asks for and the run's directory lacks. Main thread only."""
    wanted = study.profiling
    if not wanted.is_asked_for:
        return
    trials = profiled(study, directory)
    missing = trials.missing()
    if not missing:
        return
    show.say(f"profiling: extra trials for {count(len(wanted.contenders), 'contender')}")
    # Counting would be sampled, too.
    uncounted = without_counters(study)
    for turn in missing:

        def made(contender: Contender, attempt: int, turn: Turn = turn) -> ProfiledTrial:
            with temporary_folder() as folder:
                files = ProfileFiles(folder, wanted.frequency, wanted.event)
                record = trial(
                    uncounted,
                    contender,
                    block=turn.number,
                    position=turn.position,
                    attempt=attempt,
                    profiles=files,
                )
                return with_samples(record, files)

        trials.make(turn, made, show, "was not sampled")


def profiled(study: Study, directory: RunDirectory) -> ExtraTrials[ProfiledTrial]:
    """Return the profiled trials of a run."""
    return ExtraTrials.of(study, study.profiling, directory, PROFILES, ProfiledTrial)


def with_samples(record: TrialRecord, files: ProfileFiles) -> ProfiledTrial:
    """Return a trial with the samples of its window.

    Invalid if the samples cannot be read, or if the server was read late: the readings delimit the window.
    """
    record = in_time(record)
    if not record.valid:
        return ProfiledTrial(**dict(record))
    sides: dict[Side, list[Path]] = {
        "server": [files.server],
        "client": [files.load(number) for number in range(len(record.loads))],
    }
    window = window_of(record)
    try:
        found = {
            side: SideSamples.of(paths, window, files.ahead_ns) for side, paths in sides.items() if paths
        }
    except EngineError as error:
        return ProfiledTrial(**{**dict(record), "valid": False, "invalid_reasons": [str(error)]})
    return ProfiledTrial(**dict(record), profiles=found)


def window_of(record: TrialRecord) -> tuple[int, int] | None:
    """Return the measured window of a trial on CLOCK_MONOTONIC; None for a whole-life trial."""
    if record.before is None or record.after is None:
        return None
    return record.before.monotonic_ns, record.after.monotonic_ns
