"""Counts what happens at a request, in trials of their own after all that are judged: such counters cost.

The trials are in `counted.jsonl` of a run's directory, in the form of `trials.jsonl`. None of them is judged
or shown: the only figures that are taken from them are what was counted (`counts`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from thunderherd.engine.catalogue import USUAL_DESIGN, Catalogue
from thunderherd.engine.client import EngineError, Server, catalogue
from thunderherd.engine.counter_names import figures_of_counters, states_of_counters
from thunderherd.errors import UserError
from thunderherd.judge.why.counts import counting_summary
from thunderherd.records.directory import COUNTED, RunDirectory
from thunderherd.records.extra_trials import CountingSummary
from thunderherd.records.summary import TrialRecord
from thunderherd.run.extra_trials import ExtraTrials, MakeTrial, Place
from thunderherd.run.progress import Progress
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import count

MOST_REQUESTS = 2000
"""In the window of a counted trial, about."""


def count_run(study: Study, directory: RunDirectory, engine: Path, trial: MakeTrial, show: Progress) -> None:
    """Makes the counted trials that the study asks for and the run's directory lacks. Call it from the main
    thread."""
    if not study.counting.is_asked_for:
        return
    asked, trials = with_counters(study, catalogue(engine)), counted(study, directory)
    missing = trials.missing()
    if not missing:
        return
    show.say(f"counts what {count(len(study.counting.contenders), 'contender')} did, in trials of their own")
    with _events_held(asked, engine, show):
        for place in missing:

            def made(contender: Contender, attempt: int, place: Place = place) -> TrialRecord:
                return trial(
                    asked, shortened(contender), block=place.number, position=place.position, attempt=attempt
                )

            trials.make(place, made, show, "was not counted")


def counted(study: Study, directory: RunDirectory) -> ExtraTrials[TrialRecord]:
    """The counted trials of a run."""
    return ExtraTrials.of(study, study.counting, directory, COUNTED, TrialRecord)


@contextlib.contextmanager
def _events_held(study: Study, engine: Path, show: Progress) -> Iterator[None]:
    """Keeps the tracepoints of these counters switched on by a server that nobody asks.

    The kernel waits for all CPUs (synchronize_rcu) whenever the last user of a tracepoint is gone: of nearly
    a hundred, after each trial, that takes longer than the trial.
    """
    holder = Server(
        USUAL_DESIGN,
        workload=study.contenders[0].workload,
        counters=study.measure.counters_asked,
        engine=engine,
    )
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(holder)
        except (EngineError, UserError) as error:
            show.say(f"counted trials take longer than they need: {error}")
        yield


def counted_so_far(study: Study, directory: RunDirectory, offered: Catalogue) -> CountingSummary | None:
    """What the counted trials of a run say; None where the study asks for none."""
    if not study.counting.is_asked_for:
        return None
    lending = {each.name for each in offered.primitives if each.lends}
    asked = study.counting.counters
    units = figures_of_counters(asked, offered)
    states = {name: units[name] for name in states_of_counters(asked, offered)}
    return counting_summary(study.counting, study.contenders, counted(study, directory).done, lending, states)


def with_counters(study: Study, offered: Catalogue) -> Study:
    """The study with everything counted that counted trials have besides."""
    counters, measure = study.counting.counters, study.measure
    states = dict.fromkeys([*measure.states, *states_of_counters(counters, offered)])
    more = {
        "counters": {**measure.counters, **figures_of_counters(counters, offered)},
        "states": tuple(states),
    }
    return study.model_copy(update={"measure": measure.model_copy(update=more)})


def shortened(contender: Contender) -> Contender:
    """The contender with no more requests in a window than counting takes: what happens at each is the same.

    A whole life keeps its length, as its start is a part of its figures; so does a load that ends by time,
    and one whose trials must have a number of something.
    """
    load = contender.load
    requests = load.requests_per_trial
    if contender.trial == "whole_life" or contender.at_least or requests is None or requests <= MOST_REQUESTS:
        return contender
    last = load.requests[-1]
    fewer = max(1, math.ceil(int(load.settings[last]) * MOST_REQUESTS / requests))
    settings = {**load.settings, last: fewer}
    return contender.model_copy(update={"load": load.model_copy(update={"settings": settings})})
