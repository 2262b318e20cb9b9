"""The search for knees: the capacity of each design, its latency at shares of that, and the answer.

```
DIR/probe.toml, DIR/probe/       a short closed loop, if no rates are given: the range of rates
DIR/knee.toml, DIR/knee/         the designs at their rates, in blocks
DIR/confirm.toml, DIR/confirm/   the same close around the knees that this finds; not with --quick
DIR/knee.json                    the answer (docs/generated/reference/knee.schema.json)
DIR/knee.svg, DIR/knee.png       latency over rate
```
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from thunderherd.search.knee_study import CLOSED, OPEN, Goal, KneeStudies, goal_of, requests_per_second
from thunderherd.search.request import KneeRequest
from thunderherd.search.stages import Stages

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.judge.summary.knee import Known
    from thunderherd.records.knee import KneeSummary
    from thunderherd.records.summary import Summary
    from thunderherd.search.written_study import Tables
    from thunderherd.study.loading import Study

ANSWER = "knee.json"


class _Run(NamedTuple):
    """A run at several rates: its stage, the stage's study as written, and its summary."""

    stage: str
    tables: Tables
    summary: Summary


def find_knees(request: KneeRequest) -> int:
    """Run the search, print and draw the answer, and write the report.

    Return 0 for an answer, which includes "none in this range"; 1 if a design has none because the load did
    not measure it.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.records.directory import default_directory

    offered, goal = catalogue(), goal_of(request)
    studies = KneeStudies(request, offered)
    directory, probes = request.out or default_directory(request.command), request.rates is None
    # Mistakes that the command line alone shows are reported before anything runs.
    probe = studies.probe() if probes else {}
    tables = studies.sketch() if probes else studies.search(None)
    stages = Stages(request, offered, directory, "probe" if probes else "knee", studies.typed())
    stages.check_place()
    stages.study("knee", tables)
    seed = capacities = None
    if probes:
        of_both = tuple(each for each in request.fixed if _is_of_both_loops(each, offered))
        probing = replace(stages, request=replace(request, fixed=of_both))
        probing.study("probe", probe)
        seed = probing.run("probe", probe).study.seed
        capacities = _capacities(request, directory / "probe")
        tables = studies.search(capacities)
    runs = [_Run("knee", tables, stages.run("knee", tables, seed))]
    if ends := {} if request.quick else _ends(stages, runs[0], goal):
        again = studies.confirmation(ends)
        runs.append(_Run("confirm", again, stages.run("confirm", again, runs[0].summary.study.seed)))
    found = _answer(stages, goal, runs, capacities)
    _show(found, runs, directory)
    return 0 if all(each.outcome is not None for each in found.designs) else 1


def _is_of_both_loops(override: str, offered: Catalogue) -> bool:
    """True if a `key=value` is not a setting of the open loop alone."""
    name = override.partition("=")[0].strip().rpartition(".")[2]
    of_open, of_closed = (
        {each.name for each in load.settings} if (load := offered.load(kind)) else set()
        for kind in (OPEN, CLOSED)
    )
    return name not in of_open - of_closed


def _capacities(request: KneeRequest, run: Path) -> dict[str, float]:
    """Return each design's requests a second in a closed loop; raise `UserError` if a design has none.

    A trial may be invalid because its server was read late or its client was the slower end: these rates
    judge nothing.
    """
    from thunderherd.records.directory import load

    trials = load(run).trials
    found = {}
    for name in dict.fromkeys(trial.contender for trial in trials):
        own = [trial for trial in trials if trial.contender == name]
        right = [trial for trial in own if not any(each.tally.errors for each in trial.loads)]
        rates = [rate for trial in right if (rate := requests_per_second(trial.loads))]
        if not rates:
            message = f"it did not work in a closed loop: {'; '.join(own[-1].invalid_reasons)}"
            raise request.refusal(name, message, "knee.probe_failed", f"its trials are in {run}")
        found[name] = median(rates)
    return found


def _ends(stages: Stages, run: _Run, goal: Goal) -> dict[str, tuple[int, int]]:
    """Return the rates between which each knee is looked for again."""
    from thunderherd.judge.summary.knee import around

    return around(_known(stages, run, goal)[1][1])


def _known(stages: Stages, run: _Run, goal: Goal, family: int | None = None) -> tuple[Study, Known]:
    """Return the study of a run, and the knees in its trials."""
    from thunderherd.judge.summary.knee import knees
    from thunderherd.records.directory import load

    study = stages.study(run.stage, run.tables)
    return study, knees(study, load(stages.directory / run.stage).trials, goal.seconds, family=family)


def _answer(
    stages: Stages, goal: Goal, runs: Sequence[_Run], capacities: dict[str, float] | None
) -> KneeSummary:
    """Write the answer and return it."""
    from thunderherd.files import write_text
    from thunderherd.judge.summary.knee import confirmed
    from thunderherd.records.knee import KneeSummary

    directory, last = stages.directory, runs[0].summary
    study, known = _known(stages, runs[0], goal)
    for run in runs[1:]:
        known = confirmed(known, _known(stages, run, goal, math.comb(len(study.sweeps), 2))[1])
    pairs, designs = known
    notes = list(last.study.notes)
    if study.contenders[0].load.settings.items() & stages.catalogue.never_sleeps.items():
        notes.append("the load is busy-polling, so a wake-up does not make it late")
    notes += [f"again: {note}" for run in runs[1:] for note in run.summary.study.notes if note not in notes]
    if capacities:
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in capacities.items())
        notes.insert(0, f"rates are shares of the closed loop's requests per second: {rates}")
    found = KneeSummary(
        workload=study.contenders[0].workload,
        metric=goal.metric,
        goal_seconds=goal.seconds,
        alpha=study.measure.alpha,
        equivalence_percent=study.measure.equivalence_percent,
        seed=last.study.seed,
        command=list(stages.request.words),
        capacities=capacities,
        notes=notes,
        designs=designs,
        pairs=pairs,
    )
    write_text(directory / ANSWER, found.model_dump_json(indent=2, by_alias=True) + "\n")
    return found


def _show(found: KneeSummary, runs: Sequence[_Run], directory: Path) -> None:
    """Print the answer; write the reports of the runs, and the picture."""
    from thunderherd.show.charts.knee import write_pictures
    from thunderherd.show.charts.style import colours_of
    from thunderherd.show.report.page import report_of_run
    from thunderherd.show.terminal.knee import print_knees
    from thunderherd.text.layout import make_console

    console = make_console()
    reports: list[Path] = []
    pictures: tuple[Path, ...] = ()
    try:
        # Before the answer, as in `run`: its reader may leave early (`| head`).
        reports = [path for run in runs if (path := report_of_run(directory / run.stage))]
        if reports:
            pictures = tuple(write_pictures(found, directory, colours_of(*(run.summary for run in runs))))
    finally:
        following = [
            *(("Report", str(each)) for each in reversed(reports)),
            *(("Picture", str(each)) for each in pictures[:1]),
            ("Answer", str(directory / ANSWER)),
            ("Next", shlex.join(["thunderherd", "table", str(directory / runs[-1].stage)])),
        ]
        print_knees(found, console, following)
