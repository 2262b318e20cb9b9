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
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.crossover_form import CrossoverSummary, Stage
from thunderherd.crossover_study import Asked, coarse_study, dense_study, range_of
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.catalogue import Catalogue
    from thunderherd.records import Summary
    from thunderherd.study import Study

SIZE = "quick"
"""The one size of both studies."""


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
    from thunderherd.engine import catalogue
    from thunderherd.results import default_directory

    offered = catalogue()
    text = coarse_study(asked, offered, fixed)
    directory = out or default_directory("crossover")
    search = _Search(directory, offered, tuple(fixed), tuple(command), resume)
    search.check_place()
    search.check(text, asked)
    last = coarse = search.stage("coarse", text, seed)
    found = _crossover_of(coarse)
    if found.next_sizes:
        counts = coarse.trials
        valid = counts.valid + counts.rejected
        dense = dense_study(text, found.next_sizes, found, (valid, valid + counts.invalid))
        last = search.stage("dense", dense, coarse.study.seed)
    _show(last, directory)
    return 0 if _crossover_of(last).why is None else 1


@dataclass(frozen=True)
class _Search:
    """A search for a crossover in its directory."""

    directory: Path
    catalogue: Catalogue
    fixed: tuple[str, ...]
    command: tuple[str, ...]
    resume: bool

    def check_place(self) -> None:
        """Refuses, as `UserError`, a directory that is taken, unless the search there is to go on.

        A study without a run, which a mistake in it left behind, is nobody's.
        """
        if self.resume or not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise UserError(f"{self.directory} is no directory; choose another place with --out")
        inside = {path.name for path in self.directory.iterdir()}
        if "coarse" in inside:
            raise UserError(
                f"{self.directory} already holds a search; add --resume to go on with it, or choose another "
                "directory with --out"
            )
        if inside - {"coarse.toml"}:
            raise UserError(f"{self.directory} exists and is not empty; choose another directory with --out")

    def check(self, text: str, asked: Asked) -> None:
        """Refuses, as `UserError`, what only the study tells, which the user has not written and is not led
        to: nothing is there yet."""
        from thunderherd.crossover_effect import check_effect, first_sizes
        from thunderherd.study import load_study

        with tempfile.TemporaryDirectory(prefix="thunderherd-") as folder:
            file = Path(folder) / "coarse.toml"
            try:
                file.write_text(first_sizes(text), encoding="utf-8")
                first = load_study(str(file), SIZE, self.fixed, self.catalogue)
                range_ = range_of(asked, self.catalogue)
                check_effect(text, first, asked.over, range_, asked.side, self.catalogue)
                file.write_text(text, encoding="utf-8")
                load_study(str(file), SIZE, self.fixed, self.catalogue)
            except UserError as error:
                lines = str(error).splitlines()
                place = re.compile(rf"^{re.escape(str(file))}:\d+: ")
                raise UserError("\n".join(place.sub("crossover: ", line) for line in lines)) from None

    def stage(self, name: Stage, text: str, seed: int | None) -> Summary:
        """The summary of a stage, which is run as far as it has not been run yet."""
        from thunderherd.results import write_text
        from thunderherd.runner import run_study
        from thunderherd.study import load_study

        file, run = self.directory / f"{name}.toml", self.directory / name
        begun = (run / "run.json").exists()
        if begun:
            self._check_same_words(file, run, text)
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
        study = load_study(str(file), SIZE, self.fixed, self.catalogue)
        if begun and (ended := _ended(run, study, seed)):
            return ended
        return run_study(
            study, run, seed=seed, resume=begun, command=self.command, go_on=self._words_to_go_on()
        )

    def _check_same_words(self, file: Path, run: Path, text: str) -> None:
        from thunderherd.results import load
        from thunderherd.study_file import read_text

        if read_text(file) == text:
            return
        words = shlex.join(load(run).run.command)
        raise UserError(
            f"{self.directory} holds another search; it was begun with `{words}`; type the same words with "
            "--resume, or choose another directory with --out"
        )

    def _words_to_go_on(self) -> list[str]:
        words = [word for word in self.command if word != "--resume"]
        if not any(word == "--out" or word.startswith("--out=") for word in words):
            words += ["--out", str(self.directory)]
        return [*words, "--resume"]


def _ended(run: Path, study: Study, seed: int | None) -> Summary | None:
    """The summary of a run that has come to its end; None where something is left to be run.

    Raises UserError where it is a run of something else, or of another engine: the next stage would be too.
    """
    from thunderherd import machine
    from thunderherd.engine import find_engine
    from thunderherd.results import load
    from thunderherd.runner import check_same

    results = load(run)
    if results.summary is None or not results.summary.study.complete:
        return None
    check_same(results.run, study, seed, machine.describe(find_engine()))
    return results.summary


def _crossover_of(summary: Summary) -> CrossoverSummary:
    found = summary.sweeps[0].crossover
    assert found is not None, "both studies ask for it"
    return found


def _show(summary: Summary, directory: Path) -> None:
    """Prints the last stage with the answer; writes its report, and the picture beside both stages."""
    from thunderherd.crossover_plot import write_pictures
    from thunderherd.report import write_report
    from thunderherd.tables import make_console, print_study

    run = directory / _crossover_of(summary).stage
    console = make_console()
    try:
        # First, as in `run`: whoever reads the answer may leave early (`| head`).
        report = write_report(run)
        pictures = write_pictures(summary, summary.sweeps[0], directory)
    finally:
        print_study(summary, console, run)
    console.print(f"Picture   {', '.join(map(str, pictures))}", soft_wrap=True)
    console.print(f"Report    {report}", soft_wrap=True)
