"""A search in several runs, each of a study of its own: what lies in its directory, and going on with it.

```
DIR/STAGE.toml     the study of a stage          DIR/STAGE/        its run, as `run --out` leaves it
```

Nothing is remembered between the stages but what lies there, so that an interrupted search goes on where it
was.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.records.summary import Summary
    from thunderherd.search.written_study import Typed
    from thunderherd.study.loading import Study
    from thunderherd.toml.file import TomlFile

SIZE = "quick"
"""The one size of the studies of a search."""


@dataclass(frozen=True)
class Stages:
    """The directory of a search, and how its stages are run.

    `first` is the stage that every search begins with.
    """

    directory: Path
    catalogue: Catalogue
    fixed: tuple[str, ...]
    command: tuple[str, ...]
    resume: bool
    first: str
    typed: Typed | None = None
    """In which words its studies are refused; None: with the file and the line."""

    def check_place(self) -> None:
        """Refuses, as `UserError`, a directory that is taken, unless the search there is to go on.

        A study without a run, which a mistake in it left behind, is nobody's.
        """
        if self.resume or not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise UserError(f"{self.directory} is no directory; choose another place with --out")
        inside = {path.name for path in self.directory.iterdir()}
        if self.first in inside:
            raise UserError(
                f"{self.directory} already holds a search; add --resume to go on with it, or choose another "
                "directory with --out"
            )
        if inside - {f"{self.first}.toml"}:
            raise UserError(f"{self.directory} exists and is not empty; choose another directory with --out")

    def check(self, name: str, text: str) -> None:
        """Refuses, as `UserError`, what a stage could not run, before anything is written."""
        from thunderherd.study.loading import load_study

        load_study(self._study_file(self.directory / f"{name}.toml", text), SIZE, self.fixed, self.catalogue)

    def stage(self, name: str, text: str, seed: int | None) -> Summary:
        """The summary of a stage, which is run as far as it has not been run yet."""
        from thunderherd.records.directory import is_begun, write_text
        from thunderherd.run.runner import run_study
        from thunderherd.study.loading import load_study

        file, run = self.directory / f"{name}.toml", self.directory / name
        begun = is_begun(run)
        if begun:
            self._check_same_words(file, run, text)
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
        study = load_study(self._study_file(file, text), SIZE, self.fixed, self.catalogue)
        if begun and (ended := _ended(run, study, seed)):
            return ended
        return run_study(
            study, run, seed=seed, resume=begun, command=self.command, go_on=self._words_to_go_on()
        )

    def _study_file(self, path: Path, text: str) -> TomlFile:
        from thunderherd.search.written_study import MadeFile
        from thunderherd.toml.file import TomlFile

        return TomlFile(path, text) if self.typed is None else MadeFile(path, text, self.typed)

    def _check_same_words(self, file: Path, run: Path, text: str) -> None:
        from thunderherd.records.directory import read_run
        from thunderherd.toml.file import read_text

        if read_text(file) == text:
            return
        words = shlex.join(read_run(run).command)
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
    from thunderherd.engine.client import find_engine
    from thunderherd.machine import description
    from thunderherd.records.directory import OtherVersionError, load
    from thunderherd.run.runner import check_same

    try:
        results = load(run)
    except OtherVersionError:
        return None
    if results.summary is None or not results.summary.study.complete:
        return None
    check_same(results.run, study, seed, description.describe(find_engine()))
    return results.summary
