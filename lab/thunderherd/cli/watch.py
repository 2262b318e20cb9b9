"""The command `watch`: a run in another terminal, as it stands; ends with the run."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from thunderherd.records.summary import TrialRecord
    from thunderherd.run.follow import Followed
    from thunderherd.run.live_view import LiveView, PlainView
    from thunderherd.run.plan import Plan
    from thunderherd.study.loading import Study

__all__ = ["watch"]

SECONDS = 1.0
"""Between two looks."""


def watch(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory into which a run is being written.")
    ],
) -> None:
    """Watch a run in another terminal: ranking so far, intervals, time left, the trial in flight, noise."""
    from thunderherd.run.follow import Followed
    from thunderherd.run.live_view import LiveView, PlainView

    followed = Followed(directory)
    where = step_aside(followed.study)
    stream = sys.stdout
    view: LiveView | PlainView
    view = LiveView(followed.study, stream) if stream.isatty() else PlainView(followed.study, stream)
    try:
        with view:
            follow(followed, view, where)
    except KeyboardInterrupt:
        print("watch: ended; the run goes on" if followed.is_running() else "watch: ended", file=sys.stderr)
        raise
    _conclude(followed, view)


def step_aside(study: Study) -> str:
    """Takes this process away from the CPUs that are measured, where there are others, and behind all else
    that wants to run; says where it is."""
    measured = {*(study.lab.server_cpus or ()), *(study.lab.client_cpus or ())}
    here = os.sched_getaffinity(0)
    others = here - measured
    told = "shares CPUs with what is measured"
    if measured and others:
        os.sched_setaffinity(0, others)
        told = f"runs on CPU {', '.join(map(str, sorted(others)))}, where nothing is measured"
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        told += ", and only when nothing else wants to"
    return told


def follow(followed: Followed, view: LiveView | PlainView, where: str) -> None:
    """Looks until the run ends."""
    from thunderherd.run.live_view import LiveView
    from thunderherd.run.plan import next_in_block
    from thunderherd.text.figures import count

    view.begins(followed.new_trials())
    if not isinstance(view, LiveView):
        study, there = followed.study, count(len(followed.trials), "trial")
        view.say(f"{study.name} ({study.size}), seed {followed.seed}: {there} so far")
    told, planned = None, _planned(followed, view)
    began, starting = time.monotonic(), time.process_time()
    # Asked before the lines are read: what a run wrote before it ended is seen.
    running = True
    while running:
        running = followed.is_running()
        new = followed.new_trials()
        for place, trial in enumerate(new, start=1 + len(followed.trials) - len(new)):
            so_far = followed.trials[:place]
            view.trial_ends(trial)
            if next_in_block(followed.study, followed.seed, trial.block, so_far) is None:
                view.block_ends(trial.block, last_of_block(so_far, trial.block), "")
        if new:
            planned = _planned(followed, view)
        if planned.number is None and (extra := followed.extra_trials()) != told and running:
            view.say(f"extra trials: {extra or 'begin'}")
            told = extra
        if isinstance(view, LiveView):
            used = time.process_time() - starting
            share = used / max(SECONDS, time.monotonic() - began)
            view.about = (
                f"This view {where}; it takes {share:.1%} of a CPU (its start took {starting:.1f} s)."
            )
            view.draw()
        if running:
            time.sleep(SECONDS)


def _planned(followed: Followed, view: LiveView | PlainView) -> Plan:
    """What is still to come by what is there, told to the view: a block's line has their number."""
    from thunderherd.run.plan import next_in_block, plan

    planned = plan(followed.study, followed.trials)
    view.plan(planned.blocks, planned.trials_left)
    if planned.number is not None:
        following = next_in_block(followed.study, followed.seed, planned.number, followed.trials)
        if following is not None:
            names = len(followed.study.contenders)
            view.trial_begins(planned.number, following.contender, following.position, names)
    return planned


def last_of_block(trials: Sequence[TrialRecord], number: int) -> list[TrialRecord]:
    """The last attempt of each contender in a block."""
    from thunderherd.judge.summary.selection import blocks_of

    return [trial for block in blocks_of(trials) if block.number == number for trial in block.trials.values()]


def _conclude(followed: Followed, view: LiveView | PlainView) -> None:
    """Says how it ended, and what to type next."""
    from thunderherd.run.live_view import standing_line
    from thunderherd.text.figures import count

    if line := standing_line(view.standings):
        print(line)
    where = shlex.quote(str(followed.path))
    trials = count(len(followed.trials), "trial")
    if followed.has_summary():
        print(f"ended: {trials}; see: thunderherd table {where}")
    else:
        print(f"not running: {trials}, and no summary; go on with it as its run said, by --resume")
