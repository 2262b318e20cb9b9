"""Counted trials: extra trials that count what happens during a request.

They follow all judged trials, because these counters cost CPU time. Their records are in `counted.jsonl` in
the run's directory, in the format of `trials.jsonl`. Only their counts are used, no other figure.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import EngineError, Place, Server, catalogue
from thunderherd.engine.counter_names import figures_of_counters, states_of_counters
from thunderherd.errors import UserError
from thunderherd.judge.why.counts import counting_summary
from thunderherd.records.directory import COUNTED, RunDirectory
from thunderherd.records.extra_trials import CountingSummary
from thunderherd.records.summary import TrialRecord
from thunderherd.run.extra_trials import ExtraTrials, MakeTrial, Turn
from thunderherd.run.progress import Progress
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import count

NOT_COUNTED = "was not counted"

MOST_REQUESTS = 2000
"""About the most requests in the window of a counted trial."""


def count_run(study: Study, directory: RunDirectory, engine: Path, trial: MakeTrial, show: Progress) -> None:
    """Run the counted trials that the study asks for and the run's directory lacks. Main thread only."""
    if not study.counting.is_asked_for:
        return
    counting_study, trials = with_counters(study, catalogue(engine)), counted(study, directory)
    missing = trials.missing()
    if not missing:
        return
    show.say(f"counting: extra trials for {count(len(study.counting.contenders), 'contender')}")
    with _events_held(counting_study, engine, show):
        for turn in missing:

            def made(contender: Contender, attempt: int, turn: Turn = turn) -> TrialRecord:
                return trial(
                    counting_study,
                    shortened(contender),
                    block=turn.number,
                    position=turn.position,
                    attempt=attempt,
                )

            trials.make(turn, made, show, NOT_COUNTED)


def counted(study: Study, directory: RunDirectory) -> ExtraTrials[TrialRecord]:
    """Return the counted trials of a run."""
    return ExtraTrials.of(study, study.counting, directory, COUNTED, TrialRecord)


@contextlib.contextmanager
def _events_held(study: Study, engine: Path, show: Progress) -> Iterator[None]:
    """Keep the tracepoints of these counters enabled, by an idle server that counts them.

    When the last user of a tracepoint goes away, the kernel waits for all CPUs (synchronize_rcu). With nearly
    a hundred tracepoints, that would take longer than the trial itself.
    """
    holder = Server(
        catalogue(engine).defaults.design,
        workload=study.contenders[0].workload,
        counters=study.measure.counters_asked,
        place=Place(engine),
    )
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(holder)
        except (EngineError, UserError) as error:
            show.say(f"counting: each trial takes longer, tracepoints are not kept enabled: {error}")
        yield


def counted_so_far(study: Study, directory: RunDirectory, offered: Catalogue) -> CountingSummary | None:
    """Summarise the counted trials of a run; None if the study asks for none."""
    if not study.counting.is_asked_for:
        return None
    lending = {each.name for each in offered.primitives if each.lends}
    counters = study.counting.counters
    units = figures_of_counters(counters, offered)
    states = {name: units[name] for name in states_of_counters(counters, offered)}
    return counting_summary(study.counting, study.contenders, counted(study, directory).done, lending, states)


def with_counters(study: Study, offered: Catalogue) -> Study:
    """Return the study with the counters of counted trials added to its own."""
    counters, measure = study.counting.counters, study.measure
    states = dict.fromkeys([*measure.states, *states_of_counters(counters, offered)])
    more = {
        "counters": {**measure.counters, **figures_of_counters(counters, offered)},
        "states": tuple(states),
    }
    return study.model_copy(update={"measure": measure.model_copy(update=more)})


def shortened(contender: Contender) -> Contender:
    """Return the contender with at most `MOST_REQUESTS` requests in a window: every request does the same.

    Some loads keep their length: that of a whole-life trial, whose start-up is part of its figures; a load
    that ends by time; and a load whose trials must reach a minimum (`at_least`).
    """
    load = contender.load
    requests = load.requests_per_trial
    if contender.trial == "whole_life" or contender.at_least or requests is None or requests <= MOST_REQUESTS:
        return contender
    last = load.requests[-1]
    fewer = max(1, math.ceil(int(load.settings[last]) * MOST_REQUESTS / requests))
    settings = {**load.settings, last: fewer}
    return contender.model_copy(update={"load": load.model_copy(update={"settings": settings})})
