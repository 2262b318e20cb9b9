"""The search for a crossover: both stages, each a run of its own study, and the answer.

```
DIR/coarse.toml    the study of the first stage          DIR/dense.toml    of the second, if there is one
DIR/coarse/        its run, as `run --out` leaves it     DIR/dense/        its run; its summary has the answer
DIR/crossover.svg  the picture of the answer, also in the report of the last run; DIR/crossover.png
```
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.errors import UserError
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.crossover_effect import check_effect, first_sizes
from thunderherd.search.crossover_study import coarse_study, dense_study, typed_keys
from thunderherd.search.request import CrossoverRequest
from thunderherd.search.stages import Stages

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary


def find_crossover(request: CrossoverRequest) -> int:
    """Run both stages, print and draw the answer, and write the report.

    Return 0 for an answer, which includes "none in this range"; 1 if too many trials were invalid.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.records.directory import default_directory

    offered = catalogue()
    tables = coarse_study(request, offered)
    directory = request.out or default_directory(request.command)
    stages = Stages(request, offered, directory, "coarse", typed_keys(request, offered))
    stages.check_place()
    check_effect(tables, stages.study("coarse", first_sizes(tables)), request, offered)
    stages.study("coarse", tables)
    last = coarse = stages.run("coarse", tables)
    found = _crossover_of(coarse)
    if found.next_sizes:
        counts = coarse.trials
        valid = counts.valid + counts.rejected
        dense = dense_study(tables, found.next_sizes, found, (valid, valid + counts.invalid))
        last = stages.run("dense", dense, coarse.study.seed)
    _show([coarse] if last is coarse else [coarse, last], directory)
    return 0 if _crossover_of(last).why is None else 1


def _crossover_of(summary: Summary) -> CrossoverSummary:
    found = summary.sweeps[0].crossover if summary.sweeps else None
    if found is None:
        # Both studies have one, so the file of an earlier stage was altered.
        raise UserError(
            f"the results of {summary.study.name} lack its crossover",
            code="search.no_crossover",
            hint="remove summary.json of that stage; --resume writes it anew from its trials",
            where="crossover",
        )
    return found


def _show(stages: Sequence[Summary], directory: Path) -> None:
    """Print the answer of the last stage; write its report and the picture."""
    from thunderherd.show.charts.crossover import write_pictures
    from thunderherd.show.report.page import report_of_run
    from thunderherd.show.terminal.crossover import print_crossover
    from thunderherd.text.layout import make_console

    last = stages[-1]
    run = directory / _crossover_of(last).stage
    console = make_console()
    following: list[tuple[str, str]] = []
    try:
        # Before the answer, as in `run`: its reader may leave early (`| head`).
        if report := report_of_run(run):
            following.append(("Report", str(report)))
            pictures = write_pictures(last, last.sweeps[0], directory)
            following += [("Picture", str(each)) for each in pictures[:1]]
    finally:
        following.append(("Next", shlex.join(["thunderherd", "table", str(run)])))
        print_crossover(stages, console, following)
