"""Studies, their files and rubrics that somebody has damaged: each is read, or refused with codes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made.damage.corpus import kept
from made.damage.lines import mutated

from thunderherd import studies
from thunderherd.claims.claim_file import load_source
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.engine.conformance import cases_of
from thunderherd.errors import UserError
from thunderherd.grade.rubric import bundled_text, load_rubric
from thunderherd.judge.claims.paper_counters import load_counters
from thunderherd.study.loading import Study, load_study

FOLDER = Path(studies.__file__).parent
MUTANTS, OF_A_FILE = 40, 10
"""For each study, and for each other file."""


@pytest.mark.parametrize("content", kept("studies"))
def test_a_kept_study_is_loaded_or_refused(content: bytes, some_catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(content)
    try:
        load_study(str(tmp_path / "study.toml"), "quick", (), some_catalogue)
    except UserError as error:
        assert all(error.codes), error


@pytest.mark.fuzz
@pytest.mark.parametrize(
    "name", ["unp-ch30", "cse232-a2", "cse638-pa02", "erss-hw4", "css503-p4", "open-loop"]
)
def test_a_damaged_study_is_loaded_or_refused(
    name: str,
    some_catalogue: Catalogue,
    tmp_path: Path,
    draws: Callable[[int], Iterator[random.Random]],
) -> None:
    study = copied(name, tmp_path)
    text = study.read_text()
    for draw in draws(MUTANTS):
        mutant = mutated(text, draw)
        study.write_text(mutant, encoding="utf-8", errors="surrogatepass")
        try:
            load_study(str(study), "quick", (), some_catalogue)
        except UserError as error:
            assert all(error.codes), f"{error}\n{mutant}"


def copied(name: str, folder: Path) -> Path:
    """Copy a bundled study with its files; return the study's own."""
    (path,) = FOLDER.rglob(f"{name}.toml")
    for each in path.parent.iterdir():
        if each.is_file() and each.suffix in (".csv", ".toml"):
            shutil.copy2(each, folder)
    return folder / path.name


FILES = (
    ("unp-ch30", "claims.toml"), ("unp-ch30", "fig30_1.csv"), ("unp-ch30", "inconsistencies.csv"),
    ("cse232-a2", "perf_stat.csv"), ("css503-p4", "transfers.csv"),
)  # fmt: skip
"""Claims, the source's figures of the main table and of sweeps, its counters, and what is odd in it."""


@pytest.mark.fuzz
@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(("name", "damaged"), FILES)
def test_a_damaged_file_of_a_study_is_read_or_refused(
    name: str, damaged: str, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    study, file = copied(name, tmp_path), tmp_path / damaged
    text, whole = file.read_text(), read(study)
    for draw in draws(OF_A_FILE):
        mutant = mutated(text, draw)
        file.write_text(mutant)
        try:
            load_source(whole) if damaged == "claims.toml" else read(study)
        except UserError as error:
            assert all(error.codes), f"{error}\n{mutant}"


def read(path: Path) -> Study:
    """Load a study and all that it names."""
    study = load_study(str(path), "quick", (), catalogue())
    load_source(study)
    load_counters(study)
    return study


@pytest.mark.fuzz
@pytest.mark.usefixtures("use_engine")
def test_a_damaged_rubric_is_read_or_refused(
    tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    path, text, cases = tmp_path / "rubric.toml", bundled_text(), cases_of("bytes")
    for draw in draws(MUTANTS):
        mutant = mutated(text, draw)
        path.write_text(mutant)
        try:
            load_rubric(path).cases(cases)
        except UserError as error:
            assert all(error.codes), f"{error}\n{mutant}"
