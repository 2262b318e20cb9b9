"""A results folder explains itself: the README's code opens it in polars, pandas, DuckDB and R, its schema
matches its summary, and every column is documented."""

from __future__ import annotations

import functools
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
from made.summaries.runs import info
from made.summaries.summary import summary as synthetic
from made.summaries.sweeps import summary as sweeps_summary
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.cli import options
from thunderherd.cli.main import run_command
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import RunDirectory, SavedRun
from thunderherd.records.summary import Summary
from thunderherd.run.results_folder import NAMES, estimates, write_folder
from thunderherd.show.report.summary_page import MOST_LINES, summary_page
from thunderherd.study.loading import Study

METRIC = "server_cpu_per_connection"


@pytest.fixture
def folder(small_study: Study, tmp_path: Path) -> Path:
    """Three blocks, of which the second has an invalid trial and is not used."""
    path = tmp_path / "run"
    with RunDirectory.create(path, info(small_study)) as directory:
        for block in (1, 2, 3):
            for position, contender in enumerate(small_study.contenders, start=1):
                valid, cost = (block, position) != (2, 3), 1e-6 * (10 * position + block)
                directory.append(
                    made_trial(small_study, contender.name, block, position=position, valid=valid, cost=cost)
                )
        directory.finish(summarise(small_study, directory.trials, {}, seed=1), directory.trials)
    (path / "README.txt").write_text("of an earlier version")
    write_folder(thunderherd.load(path))
    return path


def medians(folder: Path) -> dict[str, float]:
    """By contender, the median of the used trials, from the raw lines."""
    results = thunderherd.load(folder)
    assert results.summary is not None
    values: dict[str, list[float]] = {}
    for trial in results.trials:
        if trial.valid and trial.block in results.summary.trials.accepted_blocks:
            value = (trial.metrics or {})[METRIC]
            assert value is not None
            values.setdefault(trial.contender, []).append(value)
    return {name: statistics.median(column) for name, column in values.items()}


def block_of(folder: Path, language: str) -> str:
    """The README's code for a language."""
    text = (folder / "README.md").read_text().partition(f"\n{NAMES[language]}:\n")[2]
    found = re.match(r"\s*```\w+\n(.*?)\n```", text, re.DOTALL)
    assert found, language
    assert len(found[1].splitlines()) == 3
    return found[1]


def printed(text: str) -> dict[str, float]:
    """Names and figures of a printed table, without its frame."""
    return {name: float(value) for name, value in re.findall(r"(\w+)[\s│┆|]+([\d.]+(?:e-\d+)?)\b", text)}


def test_readme_matches_the_golden_file(folder: Path, golden: Callable[[str, str], None]) -> None:
    text = (folder / "README.md").read_text()
    golden("run/readme.txt", text.replace(str(folder.parent), "somewhere"))


# Opening it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["polars", "pandas"])
def test_the_lines_for_python_print_the_medians(folder: Path, language: str) -> None:
    code = block_of(folder, language)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown, expected = printed(done.stdout), medians(folder)
    assert len(expected) == 3
    for name, value in expected.items():
        assert shown[name] == pytest.approx(value, rel=1e-3)


def test_the_lines_for_duckdb_give_the_medians(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    monkeypatch.chdir(folder)
    assert dict(duckdb.sql(block_of(folder, "duckdb")).fetchall()) == pytest.approx(medians(folder))


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R on this machine")
def test_the_lines_for_r_print_the_medians(folder: Path) -> None:
    code = block_of(folder, "r")
    done = subprocess.run(["Rscript", "-e", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, values = (line.split() for line in done.stdout.strip().splitlines()[-2:])
    shown = dict(zip(names, map(float, values), strict=True))
    assert shown == pytest.approx(medians(folder), rel=1e-3)


# What it says -----------------------------------------------------------------------------------------------


def test_readme_describes_every_file_and_column(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    told = set(re.findall(r"^\| ([\w.]+)/? \|", text, re.MULTILINE))
    assert {path.name for path in folder.iterdir()} <= told
    assert not (folder / "README.txt").exists()
    columns = polars.read_parquet(folder / "trials.parquet").columns
    assert set(columns) <= told
    for each in thunderherd.load(folder).described_columns():
        assert each.meaning and f"| {each.name} | {each.kind} | {each.unit} |" in text
    for name in polars.read_parquet(folder / "estimates.parquet").columns:
        assert re.search(rf"^\| [\w, ]*\b{name}\b", text.partition("of the estimates")[2], re.MULTILINE)


def test_summary_names_its_schema_file(folder: Path) -> None:
    found = json.loads((folder / "summary.json").read_text())
    schema = json.loads((folder / found["$schema"]).read_text())
    assert set(found) == set(schema["properties"])
    published = Path(__file__).parents[3] / "docs" / "generated" / "reference" / "summary.schema.json"
    assert schema == json.loads(published.read_text())


def test_readme_of_an_unfinished_run_has_no_summary(small_study: Study, tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunDirectory.create(path, info(small_study)).close()
    write_folder(thunderherd.load(path))
    text = (path / "README.md").read_text()
    assert "summary.md" in text and "```" not in text
    assert not (path / "summary.md").exists()


def test_estimates_are_those_of_the_summary() -> None:
    for found in (synthetic(), sweeps_summary()):
        frame = estimates(found)
        told = {(row["contender"], row["metric"]): row for row in frame.iter_rows(named=True)}
        assert len(told) == frame.height == sum(len(each.metrics) for each in found.contenders)
        for each in found.contenders:
            for name, interval in each.metrics.items():
                row = told[each.name, name]
                assert (row["value"], row["low"], row["high"]) == (
                    interval.value,
                    interval.low,
                    interval.high,
                )
    repeated = sweeps_summary(repetitions=3)
    means = {
        (row["contender"], row["metric"]): row["value"] for row in estimates(repeated).iter_rows(named=True)
    }
    for each in repeated.contenders:
        for name, spread in each.spread.items():
            assert means[each.name, name] == spread.mean


# The short page ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "summarised",
    [
        synthetic,
        sweeps_summary,
        functools.partial(sweeps_summary, repetitions=3),
        functools.partial(sweeps_summary, main=False),
    ],
    ids=["main", "sweeps", "repeated", "no main table"],
)
def test_readme_is_short_and_has_the_essentials(summarised: Callable[[], Summary]) -> None:
    found = summarised()
    page = summary_page(found)
    assert len(page.splitlines()) <= MOST_LINES
    assert f"--seed {found.study.seed}`" in page and "**Trials:**" in page
    assert found.study.question.split()[0] in page
    if found.study.repetitions is None and any(each.rank for each in found.contenders):
        assert "| place | contender |" in page or "| order | contender |" in page


def test_readme_of_a_large_study_stays_short() -> None:
    found = synthetic()
    many = [
        each.model_copy(update={"name": f"{each.name}_{copy}", "base": f"{each.name}_{copy}"})
        for copy in range(9)
        for each in found.contenders
    ]
    study = found.study.model_copy(update={"notes": [f"note {n} " + "long " * 200 for n in range(50)]})
    page = summary_page(found.model_copy(update={"contenders": many, "study": study}))
    assert len(page.splitlines()) <= MOST_LINES
    assert max(map(len, page.splitlines())) < 1000
    assert "more in `summary.json`" in page and "contenders more" in page


def test_title_and_path_of_a_study_are_escaped() -> None:
    found = synthetic()
    study = found.study.model_copy(
        update={"title": "<script>alert(1)</script> | *x*", "asked_for": "a `b`.toml"}
    )
    page = summary_page(found.model_copy(update={"study": study}))
    assert "<script" not in page.replace("\\<", "") and "\\*x\\*" in page
    assert "``thunderherd run 'a `b`.toml'" in page


def test_the_command_prints_it_and_writes_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (folder / "summary.md").read_text()
    for name in ("summary.md", "README.md", "estimates.csv", "summary.schema.json"):
        (folder / name).unlink()
    assert run_command(["summary", str(folder)]) == 0
    assert capsys.readouterr().out == page
    assert not (folder / "summary.md").exists()
    assert run_command(["summary", str(folder), "--write"]) == 0
    for name in ("summary.md", "README.md", "estimates.csv", "summary.schema.json"):
        assert (folder / name).exists()
    assert isinstance(options.summary_of(folder), Summary)
    assert isinstance(thunderherd.load(folder), SavedRun)
