"""A search in several runs, each of its own study: its directory, and how it continues.

```
DIR/STAGE.toml     the study of a stage          DIR/STAGE/        its run, as `run --out` leaves it
```

The directory is the only memory between stages, so an interrupted search continues where it stopped.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from thunderherd.files import write_text
from thunderherd.search.written_study import load_written
from thunderherd.show.sentences.claims_so_far import Telling, claims_so_far
from thunderherd.toml.write import toml_text

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.records.summary import Summary
    from thunderherd.search.request import Request
    from thunderherd.search.written_study import Tables, Typed
    from thunderherd.study.loading import Study


@dataclass(frozen=True)
class Stages:
    """The directory of a search, and how its stages are run."""

    request: Request
    catalogue: Catalogue
    directory: Path
    first: str
    """The stage with which every search begins."""
    typed: Typed

    def check_place(self) -> None:
        """Refuse a directory that is in use, unless its search is to continue.

        A study without a run does not count as use, since a mistake in the study leaves one behind.
        """
        if self.request.resume or not self.directory.exists():
            return
        place, another = f"--out {self.directory}", "choose another directory with --out"
        if not self.directory.is_dir():
            raise self.request.refusal(place, "not a directory", "search.out_is_a_file", another)
        inside = {path.name for path in self.directory.iterdir()}
        if self.first in inside:
            hint = f"add --resume to continue it, or {another}" if self.request.has_resume else another
            raise self.request.refusal(place, "it already holds a search", "search.out_has_a_search", hint)
        if inside - {f"{self.first}.toml"}:
            raise self.request.refusal(place, "it is not empty", "search.out_not_empty", another)

    def study(self, name: str, tables: Tables) -> Study:
        """Return the resolved study of a stage; raise `UserError` before anything is written."""
        path = self.directory / f"{name}.toml"
        return load_written(path, tables, self.typed, self.request.fixed, self.catalogue)

    def run(
        self,
        name: str,
        tables: Tables,
        seed: int | None = None,
        files: Mapping[str, Tables] = MappingProxyType({}),
        telling: Telling = claims_so_far,
    ) -> Summary:
        """Run what is left of a stage, with the request's seed by default; return its summary.

        `files` are those that the study names, by their names. `telling` words how far a run is that decides
        claims.
        """
        from thunderherd.judge.summary.open_claims import for_claims
        from thunderherd.records.directory import is_begun
        from thunderherd.run.runner import again, run_study

        seed = self.request.seed if seed is None else seed
        file, run, text = self.directory / f"{name}.toml", self.directory / name, toml_text(tables)
        begun = is_begun(run)
        if begun:
            self._check_same_words({file.name: tables, **files}, run)
        else:
            self.directory.mkdir(parents=True, exist_ok=True)
            for other, content in files.items():
                write_text(self.directory / other, toml_text(content))
            write_text(file, text)
        study = for_claims(self.study(name, tables))
        if begun and (ended := _ended(run, study, seed)):
            return ended
        request = self.request
        go_on = self._words_to_continue() if request.has_resume else again(with_out=self._has_out())
        return run_study(
            study, run, seed=seed, resume=begun, command=request.words, go_on=go_on, conform=request.conform,
            allow_commands=request.allow_commands, telling=telling,
        )  # fmt: skip

    def _check_same_words(self, files: Mapping[str, Tables], run: Path) -> None:
        """Refuse to continue a stage whose study, or a file that it names, is not that of the words typed."""
        from thunderherd.records.directory import read_run
        from thunderherd.toml.file import read_text

        if any(read_text(self.directory / name) != toml_text(content) for name, content in files.items()):
            raise self.request.refusal(
                f"--out {self.directory}",
                "it holds another search",
                "search.other_search",
                f"that search began with `{shlex.join(read_run(run).command)}`; type the same words with "
                "--resume, or choose another directory with --out",
            )

    def _words_to_continue(self) -> tuple[str, ...]:
        words = [word for word in self.request.words if word != "--resume"]
        if not self._has_out():
            words += ["--out", str(self.directory)]
        return (*words, "--resume")

    def _has_out(self) -> bool:
        """Return whether --out was typed."""
        return any(word == "--out" or word.startswith("--out=") for word in self.request.words)


def _ended(run: Path, study: Study, seed: int | None) -> Summary | None:
    """Return the summary of a complete run, or None if some of it is left to be run.

    Raises `UserError` for a run of another study or another engine, as the next stage would not fit it.
    """
    from thunderherd.engine.client import find_engine
    from thunderherd.machine import description
    from thunderherd.records.directory import OtherVersionError, load
    from thunderherd.run.own_programs import as_begun, prepared
    from thunderherd.run.runner import check_same

    try:
        results = load(run)
    except OtherVersionError:
        return None
    if results.summary is None or not results.summary.study.complete:
        return None
    study = as_begun(study, results.run)
    check_same(results.run, study, seed, {**description.describe(find_engine()), "servers": prepared(study)})
    return results.summary
