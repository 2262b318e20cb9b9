"""The command `knee`: what each design can do at all, then its latency at shares of that, and the answer.

```
DIR/probe.toml, DIR/probe/   a short closed loop, where no rates are given: between which rates to look
DIR/knee.toml, DIR/knee/     the designs at their rates, in blocks
DIR/confirm.toml, DIR/confirm/   the same at rates close around the knees that this finds; not with --quick
DIR/knee.json                the answer (docs/generated/reference/knee.schema.json)
DIR/knee.svg, DIR/knee.png   latency over rate
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from thunderherd.errors import UserError
from thunderherd.search.knee_study import (
    CLOSED,
    OPEN,
    Asked,
    Goal,
    confirmation_study,
    goal_of,
    knee_study,
    probe_study,
    requests_per_second,
    sketched_study,
    typed_keys,
)
from thunderherd.search.stages import SIZE, Stages

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.judge.summary.knee import Known
    from thunderherd.records.knee import KneeSummary
    from thunderherd.records.summary import Summary
    from thunderherd.study.loading import Study

ANSWER = "knee.json"


class _Run(NamedTuple):
    """A run at several rates: its stage and its summary."""

    stage: str
    summary: Summary


def find_knees(
    asked: Asked,
    *,
    fixed: Sequence[str],
    seed: int | None,
    out: Path | None,
    resume: bool,
    command: Sequence[str],
) -> int:
    """Runs the search, prints the answer, draws it, writes the report; the exit status of the command.

    The parameters are those of `crossover_run.find_crossover`. The status is 0 for an answer, "none in this
    range" among them; 1 where a design has none, as the load did not measure it.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.records.directory import default_directory

    offered, goal = catalogue(), goal_of(asked)
    directory = out or default_directory("knee")
    first = "probe" if asked.rates is None else "knee"
    # What the words alone show to be wrong is said before anything runs.
    text = probe_study(asked, offered) if asked.rates is None else knee_study(asked, offered, None)
    stages = Stages(
        directory, offered, tuple(fixed), tuple(command), resume, first, typed_keys(asked, offered)
    )
    stages.check_place()
    stages.check("knee", sketched_study(asked, offered) if asked.rates is None else text)
    capacities = None
    if asked.rates is None:
        probe = replace(stages, fixed=tuple(each for each in fixed if _is_of_both(each, offered)))
        probe.check("probe", text)
        summary = probe.stage("probe", text, seed)
        seed, capacities = summary.study.seed, _capacities(directory / "probe")
        text = knee_study(asked, offered, capacities)
    last = stages.stage("knee", text, seed)
    first_run, ends = _Run("knee", last), {} if asked.quick else _ends(stages, goal)
    runs = [first_run]
    if ends:
        again = confirmation_study(asked, offered, ends)
        runs.append(_Run("confirm", stages.stage("confirm", again, last.study.seed)))
    found = _answer(stages, goal, runs, capacities)
    _show(found, runs, directory)
    return 0 if all(each.outcome is not None for each in found.designs) else 1


def _is_of_both(override: str, offered: Catalogue) -> bool:
    """Whether a `key=value` is not of the open loop alone."""
    name = override.partition("=")[0].strip().rpartition(".")[2]
    of_open, of_closed = (
        {each.name for each in load.settings} if (load := offered.load(kind)) else set()
        for kind in (OPEN, CLOSED)
    )
    return name not in of_open - of_closed


def _capacities(run: Path) -> dict[str, float]:
    """Requests a second of each design in a closed loop. Raises UserError for one that answered none rightly.

    Nothing is judged by them, so whether its server was read in time, or its client was the slower end, does
    not matter.
    """
    from thunderherd.records.directory import load

    trials = load(run).trials
    found = {}
    for name in dict.fromkeys(trial.contender for trial in trials):
        own = [trial for trial in trials if trial.contender == name]
        right = [trial for trial in own if not any(each.tally.errors for each in trial.loads)]
        rates = [rate for trial in right if (rate := requests_per_second(trial.loads))]
        if not rates:
            reason = "; ".join(own[-1].invalid_reasons)
            raise UserError(f"knee: {name} did not work in a closed loop: {reason}; its trials are in {run}")
        found[name] = median(rates)
    return found


def _ends(stages: Stages, goal: Goal) -> dict[str, tuple[int, int]]:
    """Between which rates knees are to be looked for again."""
    from thunderherd.judge.summary.knee import around

    return around(_known(stages, "knee", goal)[1][1])


def _known(stages: Stages, stage: str, goal: Goal, family: int | None = None) -> tuple[Study, Known]:
    """What the trials of a stage tell."""
    from thunderherd.judge.summary.knee import knees
    from thunderherd.records.directory import load
    from thunderherd.study.loading import load_study

    study = load_study(str(stages.directory / f"{stage}.toml"), SIZE, stages.fixed, stages.catalogue)
    return study, knees(study, load(stages.directory / stage).trials, goal.seconds, family=family)


def _answer(
    stages: Stages, goal: Goal, runs: Sequence[_Run], capacities: dict[str, float] | None
) -> KneeSummary:
    """The answer, which is written too."""
    from thunderherd.judge.summary.knee import confirmed
    from thunderherd.records.directory import write_text
    from thunderherd.records.knee import KneeSummary

    directory, last = stages.directory, runs[0].summary
    study, known = _known(stages, runs[0].stage, goal)
    for run in runs[1:]:
        known = confirmed(known, _known(stages, run.stage, goal, math.comb(len(study.sweeps), 2))[1])
    pairs, designs = known
    notes = list(last.study.notes)
    if study.contenders[0].load.settings.items() & stages.catalogue.never_sleeps.items():
        notes.append("the load never sleeps, so that it is not late by a wake-up")
    notes += [f"again: {note}" for run in runs[1:] for note in run.summary.study.notes if note not in notes]
    if capacities:
        told = ", ".join(f"{name} {rate:,.0f}" for name, rate in capacities.items())
        notes.insert(0, f"rates are shares of what a closed loop came to, in requests a second: {told}")
    found = KneeSummary(
        workload=study.contenders[0].workload,
        metric=goal.metric,
        goal_seconds=goal.seconds,
        alpha=study.measure.alpha,
        equivalence_percent=study.measure.equivalence_percent,
        seed=last.study.seed,
        command=list(stages.command),
        capacities=capacities,
        notes=notes,
        designs=designs,
        pairs=pairs,
    )
    write_text(directory / ANSWER, found.model_dump_json(indent=2, by_alias=True) + "\n")
    return found


def _show(found: KneeSummary, runs: Sequence[_Run], directory: Path) -> None:
    """Prints the answer; writes the reports of the runs, and the picture."""
    from thunderherd.show.charts.knee import write_pictures
    from thunderherd.show.charts.style import colours_of
    from thunderherd.show.report.page import write_report
    from thunderherd.show.sentences.knee import print_knees
    from thunderherd.text.layout import make_console

    console = make_console()
    try:
        # First, as in `run`: whoever reads the answer may leave early (`| head`).
        reports = [write_report(directory / run.stage) for run in runs]
        pictures = write_pictures(found, directory, colours_of(*(run.summary for run in runs)))
    finally:
        print_knees(found, console)
    console.print(f"Answer    {directory / ANSWER}", soft_wrap=True)
    if pictures:
        console.print(f"Picture   {', '.join(map(str, pictures))}", soft_wrap=True)
    console.print(f"Report    {', '.join(map(str, reports))}", soft_wrap=True)
