"""Profiles: samples of the call stacks of both sides, in trials of their own after all that are judged.

The trials are in `profiles.jsonl` of a run's directory, with the stacks of their windows. Sampling disturbs,
so no other figure of these trials is used.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from thunderherd.engine.client import EngineError
from thunderherd.records.directory import PROFILES, RunDirectory
from thunderherd.records.extra_trials import ProfiledSide
from thunderherd.records.profiled_trial import ProfiledTrial, SideSamples
from thunderherd.records.summary import TrialRecord
from thunderherd.run.extra_trials import ExtraTrials, MakeTrial, Place, in_time
from thunderherd.run.progress import Progress
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import count
from thunderherd.trial.trial import ProfileFiles


def profile_run(study: Study, directory: RunDirectory, trial: MakeTrial, show: Progress) -> None:
    """Makes the profiled trials that the study asks for and the run's directory lacks. Call it from the main
    thread."""
    wanted = study.profiling
    if not wanted.is_asked_for:
        return
    trials = profiled(study, directory)
    missing = trials.missing()
    if not missing:
        return
    show.say(f"samples {count(len(wanted.contenders), 'contender')}, in trials of their own")
    asked = _without_counters(study)
    for place in missing:

        def made(contender: Contender, attempt: int, place: Place = place) -> ProfiledTrial:
            with tempfile.TemporaryDirectory(prefix="thunderherd-profile-") as folder:
                files = ProfileFiles(Path(folder), wanted.frequency, wanted.event)
                record = trial(
                    asked,
                    contender,
                    block=place.number,
                    position=place.position,
                    attempt=attempt,
                    profiles=files,
                )
                return with_samples(record, files)

        trials.make(place, made, show, "was not sampled")


def profiled(study: Study, directory: RunDirectory) -> ExtraTrials[ProfiledTrial]:
    """The profiled trials of a run."""
    return ExtraTrials.of(study, study.profiling, directory, PROFILES, ProfiledTrial)


def with_samples(record: TrialRecord, files: ProfileFiles) -> ProfiledTrial:
    """A trial with what was sampled in its window; not valid where that cannot be read, nor where the server
    was read late, as its readings are where the window is cut."""
    record = in_time(record)
    if not record.valid:
        return ProfiledTrial(**dict(record))
    sides: dict[ProfiledSide, list[Path]] = {
        "server": [files.of_server().output],
        "client": [files.of_load(place).output for place in range(len(record.loads))],
    }
    window = window_of(record)
    try:
        found = {side: SideSamples.of(paths, window) for side, paths in sides.items() if paths}
    except EngineError as error:
        return ProfiledTrial(**{**dict(record), "valid": False, "invalid_reasons": [str(error)]})
    return ProfiledTrial(**dict(record), profiles=found)


def window_of(record: TrialRecord) -> tuple[int, int] | None:
    """What is measured of a trial, by CLOCK_MONOTONIC; None of a whole life, of which all is."""
    if record.before is None or record.after is None:
        return None
    return record.before.monotonic_ns, record.after.monotonic_ns


def _without_counters(study: Study) -> Study:
    """The study with nothing counted besides: that would be sampled, too."""
    measure = study.measure.model_copy(update={"counters": {}, "states": ()})
    return study.model_copy(update={"measure": measure})
