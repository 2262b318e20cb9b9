"""The command `crossover`: both stages of the search, each a run of a study of its own, and the answer.

```
DIR/coarse.toml    the study of the first stage          DIR/dense.toml    that of the second, if there is one
DIR/coarse/        its run, as `run --out` leaves it     DIR/dense/        its run; its summary has the answer
DIR/crossover.svg  the picture of the answer, also in the report of the last run; DIR/crossover.png
```

Nothing is remembered between the stages but what lies there, so that an interrupted search goes on where it
was.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.errors import UserError
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.crossover_study import Asked, coarse_study, dense_study, range_of
from thunderherd.search.stages import SIZE, Stages

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.records.summary import Summary


def find_crossover(
    asked: Asked,
    *,
    fixed: Sequence[str],
    seed: int | None,
    out: Path | None,
    resume: bool,
    command: Sequence[str],
) -> int:
    """Runs both stages, prints the answer, draws it, writes the report; the exit status of the command.

    Parameters
    ----------
    asked
        What the user typed of the question.
    fixed
        `key=value` texts, as for `run --set`, for both stages.
    seed
        None draws one, or with `resume` takes that of the run.
    out
        Directory of the results; None is a new one below ./results.
    resume
        Whether to go on with the search in `out`.
    command
        The command line, for the record.

    Returns
    -------
    0 for an answer, "none in this range" among them; 1 where there is none, as trials were invalid again and
    again.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.records.directory import default_directory

    offered = catalogue()
    text = coarse_study(asked, offered, fixed)
    directory = out or default_directory("crossover")
    search = Stages(directory, offered, tuple(fixed), tuple(command), resume, first="coarse")
    search.check_place()
    _check(text, asked, fixed, offered)
    last = coarse = search.stage("coarse", text, seed)
    found = _crossover_of(coarse)
    if found.next_sizes:
        counts = coarse.trials
        valid = counts.valid + counts.rejected
        dense = dense_study(text, found.next_sizes, found, (valid, valid + counts.invalid))
        last = search.stage("dense", dense, coarse.study.seed)
    _show(last, directory)
    return 0 if _crossover_of(last).why is None else 1


def _check(text: str, asked: Asked, fixed: Sequence[str], catalogue: Catalogue) -> None:
    """Refuses, as `UserError`, what only the study tells, which the user has not written and is not led
    to: nothing is there yet."""
    from thunderherd.search.crossover_effect import check_effect, first_sizes
    from thunderherd.study.loading import load_study

    with tempfile.TemporaryDirectory(prefix="thunderherd-") as folder:
        file = Path(folder) / "coarse.toml"
        try:
            file.write_text(first_sizes(text), encoding="utf-8")
            first = load_study(str(file), SIZE, fixed, catalogue)
            range_ = range_of(asked, catalogue)
            check_effect(text, first, asked.over, range_, asked.side, catalogue)
            file.write_text(text, encoding="utf-8")
            load_study(str(file), SIZE, fixed, catalogue)
        except UserError as error:
            lines = str(error).splitlines()
            place = re.compile(rf"^{re.escape(str(file))}:\d+: ")
            raise UserError("\n".join(place.sub("crossover: ", line) for line in lines)) from None


def _crossover_of(summary: Summary) -> CrossoverSummary:
    found = summary.sweeps[0].crossover
    assert found is not None, "both studies ask for it"
    return found


def _show(summary: Summary, directory: Path) -> None:
    """Prints the last stage with the answer; writes its report, and the picture beside both stages."""
    from thunderherd.show.charts.crossover import write_pictures
    from thunderherd.show.report.page import write_report
    from thunderherd.show.tables.main import print_study
    from thunderherd.text.layout import make_console

    run = directory / _crossover_of(summary).stage
    console = make_console()
    try:
        # First, as in `run`: whoever reads the answer may leave early (`| head`).
        report = write_report(run)
        pictures = write_pictures(summary, summary.sweeps[0], directory)
    finally:
        print_study(summary, console, run)
    if pictures:
        console.print(f"Picture   {', '.join(map(str, pictures))}", soft_wrap=True)
    console.print(f"Report    {report}", soft_wrap=True)
