"""The pages of two recorded runs: unp-ch30 has a main table, css503-p4 sweeps, counters and explanations."""

from __future__ import annotations

import html
import re
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from thunderherd.cli.main import app
from thunderherd.records import directory
from thunderherd.records.directory import OtherVersionError
from thunderherd.show.tables.by_name import all_tables

RUNS = Path(__file__).parents[1] / "golden" / "runs"
"""Runs that compare all their contenders; one that decides claims has fewer pages."""


@pytest.fixture(scope="module", params=["unp-ch30", "css503-p4"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recorded run; its name is the study's."""
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RUNS / f"{request.param}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return (folder / "run").rename(folder / str(request.param))


load = cache(directory.load)
"""Reads a run once for all pages."""


@pytest.fixture
def printed(run: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(run.parent)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(directory, "load", load)
    try:
        load(run)
    except OtherVersionError as error:
        pytest.skip(f"made by another version: {error}")

    def of(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return of


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_named_tables(
    run: Path, printed: Callable[..., str], golden: Callable[[str, str], None], form: str
) -> None:
    summary = load(run).summary
    assert summary is not None
    written = [
        f"=== {each.name}\n{printed('table', run.name, each.name, '--format', form)}"
        for each in all_tables(summary)
    ]
    golden(f"{run.name}/tables.{form}", "\n".join(written))


def test_counters(run: Path, printed: Callable[..., str], golden: Callable[[str, str], None]) -> None:
    if run.name == "css503-p4":
        pytest.skip("it counted nothing in all of its trials")
    golden(f"{run.name}/counters.txt", printed("table", run.name, "--counters"))


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        ("table.txt", ["table", "RUN", "--pairs"]),
        ("claims.txt", ["claims", "STUDY", "RUN"]),
        ("explain.txt", ["explain", "RUN"]),
        ("summary.md", ["summary", "RUN"]),
        ("plot.txt", ["plot", "RUN"]),
    ],
)
def test_printed_pages(
    run: Path,
    printed: Callable[..., str],
    golden: Callable[[str, str], None],
    page: str,
    arguments: list[str],
) -> None:
    golden(
        f"{run.name}/{page}", printed(*(run.name if each in ("RUN", "STUDY") else each for each in arguments))
    )


def test_explanation_of_a_pair(
    run: Path, printed: Callable[..., str], golden: Callable[[str, str], None]
) -> None:
    summary = load(run).summary
    assert summary is not None and summary.explanations
    pair = summary.explanations[-1]
    golden(f"{run.name}/explain-pair.txt", printed("explain", run.name, pair.a, pair.b))


def text_of(page: str) -> str:
    """A report's texts, a line for each: no styles, scripts or drawings."""
    without = re.sub(r"(?s)<(style|script|svg)\b.*?</\1>", "", page)
    lines = html.unescape(re.sub(r"<[^>]*>", "\n", without)).splitlines()
    return "".join(f"{line}\n" for each in lines if (line := " ".join(each.split())))


def test_reports(run: Path, printed: Callable[..., str], golden: Callable[[str, str], None]) -> None:
    printed("report", run.name, "--output", "report.html")
    golden(f"{run.name}/report.txt", text_of(Path("report.html").read_text(encoding="utf-8")))
