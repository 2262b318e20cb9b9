"""Counts what happens at a request, in trials of their own after all that are judged: such counters cost.

The trials are in `counted.jsonl` of a run's directory, in the form of `trials.jsonl`; a run that is gone on
with makes those that it lacks. None of them is judged or shown: the only figures that are taken from them are
what was counted (`counts`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from thunderherd.catalogue import USUAL_DESIGN, Catalogue, figures_of_counters, states_of_counters
from thunderherd.counting_form import CountingSummary
from thunderherd.counts import counting_summary
from thunderherd.engine import EngineError, Server, catalogue
from thunderherd.errors import UserError
from thunderherd.figures import count
from thunderherd.progress import Progress
from thunderherd.records import TrialRecord
from thunderherd.results import RunDirectory
from thunderherd.statistics import block_order
from thunderherd.study import Contender, Study

ATTEMPTS = 2
"""A counted trial that is not valid is made once more."""
MOST_REQUESTS = 2000
"""In the window of a counted trial, about."""


class MakeTrial(Protocol):
    """How a trial of the run is made."""

    def __call__(
        self, study: Study, contender: Contender, *, block: int, position: int, attempt: int
    ) -> TrialRecord: ...


def count_run(
    study: Study, directory: RunDirectory, engine: Path, trial: MakeTrial, show: Progress
) -> CountingSummary | None:
    """Makes the counted trials that the study asks for and the run's directory lacks, and says what they
    counted; None where it asks for none. Call it from the main thread."""
    wanted = study.counting
    if not wanted.trials or not wanted.contenders:
        return None
    asked, done = with_counters(study, catalogue(engine)), directory.counted()
    missing = [
        (number, position, name)
        for number in range(1, wanted.trials + 1)
        for position, name in enumerate(block_order(wanted.contenders, directory.info.seed, number), start=1)
        if _attempts(done, name, number) < ATTEMPTS
    ]
    if missing:
        show.say(f"counts what {count(len(wanted.contenders), 'contender')} did, in trials of their own")
        with _events_held(asked, engine, show):
            for number, position, name in missing:
                for attempt in range(_attempts(done, name, number) + 1, ATTEMPTS + 1):
                    try:
                        contender = shortened(study.contender(name))
                        made = trial(asked, contender, block=number, position=position, attempt=attempt)
                    except UserError as error:  # what was measured before stands all the same
                        made = _refused(study, name, number, position, directory.info.seed, str(error))
                    directory.append_counted(made)
                    done.append(made)
                    if made.valid or made.attempt == ATTEMPTS:
                        break
                if not done[-1].valid:
                    show.say(f"{name} was not counted: {'; '.join(done[-1].invalid_reasons)}")
    return counted_so_far(study, done, catalogue(engine))


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


def counted_so_far(study: Study, trials: Sequence[TrialRecord], offered: Catalogue) -> CountingSummary | None:
    """What these counted trials say; None where the study asks for none."""
    if not study.counting.trials or not study.counting.contenders:
        return None
    lending = {each.name for each in offered.primitives if each.lends}
    return counting_summary(study.counting, study.contenders, trials, lending)


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


def _attempts(trials: Sequence[TrialRecord], name: str, number: int) -> int:
    """How often a trial was tried; all that there are, where one was valid."""
    found = [each for each in trials if (each.contender, each.block) == (name, number)]
    return ATTEMPTS if any(each.valid for each in found) else len(found)


def _refused(study: Study, name: str, block: int, position: int, seed: int, why: str) -> TrialRecord:
    """The record of a trial that could not begin, nor ever will."""
    return TrialRecord(
        study=study.name,
        contender=name,
        block=block,
        position=position,
        attempt=ATTEMPTS,
        seed=seed,
        started=datetime.now().astimezone().isoformat(timespec="milliseconds"),
        wall_seconds=0,
        valid=False,
        invalid_reasons=[why],
    )
