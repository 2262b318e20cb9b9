"""Shows a run of another terminal until that ends, at the lowest priority and off the measured CPUs."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from thunderherd.judge.summary.block_rejection import blocks_of
from thunderherd.records.summary import TrialRecord
from thunderherd.run.follow import Followed
from thunderherd.run.live_view import LiveView, PlainView, ranking_line
from thunderherd.run.plan import Plan, next_in_block, plan
from thunderherd.study.loading import Study
from thunderherd.text.figures import count

__all__ = ["step_aside", "watch_run"]

SECONDS = 1.0
"""Interval between two looks."""


def watch_run(directory: Path) -> None:
    """Show a run until it ends, then print how it ended and what to type next."""
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
    """Keep this process off the measured CPUs, if there are others, and at the lowest priority.

    Returns where it runs, for the view.
    """
    measured = {*(study.lab.server_cpus or ()), *(study.lab.client_cpus or ())}
    here = os.sched_getaffinity(0)
    others = here - measured
    where = "shares CPUs with the trials"
    if measured and others:
        os.sched_setaffinity(0, others)
        where = f"runs on CPU {', '.join(map(str, sorted(others)))}, where nothing is measured"
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        where += ", and only when nothing else wants to"
    return where


def follow(followed: Followed, view: LiveView | PlainView, where: str) -> None:
    """Update the view until the run ends."""
    view.begins(followed.new_trials())
    if not isinstance(view, LiveView):
        study, there = followed.study, count(len(followed.trials), "trial")
        view.say(f"{study.name} ({study.size}), seed {followed.seed}: {there} so far")
    last_extra, planned = None, _planned(followed, view)
    began, starting = time.monotonic(), time.process_time()
    # Checked before the lines are read, so that none that the run wrote before its end is missed.
    running = True
    while running:
        running = followed.is_running()
        new = followed.new_trials()
        for place, trial in enumerate(new, start=1 + len(followed.trials) - len(new)):
            so_far = followed.trials[:place]
            view.trial_ends(trial)
            block = trial.block
            if next_in_block(followed.study, followed.seed, block, so_far, planned.settled) is None:
                view.block_ends(trial.block, last_of_block(so_far, trial.block), "")
        if new:
            planned = _planned(followed, view)
        if planned.number is None and (extra := followed.extra_trials()) != last_extra and running:
            view.say(f"extra trials: {extra or 'begin'}")
            last_extra = extra
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
    """Return the plan of the remaining trials, and pass it to the view."""
    planned = plan(followed.study, followed.trials)
    view.plan(planned.blocks, planned.trials_left)
    if planned.number is not None:
        following = next_in_block(
            followed.study, followed.seed, planned.number, followed.trials, planned.settled
        )
        if following is not None:
            names = len(followed.study.contenders)
            view.trial_begins(planned.number, following.contender, following.position, names)
    return planned


def last_of_block(trials: Sequence[TrialRecord], number: int) -> list[TrialRecord]:
    """Return the last attempt of each contender in a block."""
    return [trial for block in blocks_of(trials) if block.number == number for trial in block.trials.values()]


def _conclude(followed: Followed, view: LiveView | PlainView) -> None:
    """Print how the run ended, and what to type next."""
    if line := ranking_line(view.ranking):
        print(line)
    where = shlex.quote(str(followed.path))
    trials = count(len(followed.trials), "trial")
    if followed.has_summary():
        print(f"ended: {trials}; see: thunderherd table {where}")
    else:
        print(f"not running: {trials}, and no summary; continue it with --resume, as the run printed")
