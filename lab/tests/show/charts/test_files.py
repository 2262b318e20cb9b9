"""`thunderherd plot`: every chart of a report as a file, in each format; mistakes in the user's words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from made.refusals import codes_printed
from made.summaries.summary import summary, trials

from thunderherd.cli import results
from thunderherd.cli.main import run_command
from thunderherd.records.summary import Summary
from thunderherd.show.charts import by_name
from thunderherd.show.charts.files import FORMATS
from thunderherd.show.report.page import ReportedRun, render_runs

MAGIC = {"svg": b"<svg", "png": b"\x89PNG\r\n", "pdf": b"%PDF-1.", "json": b"{"}


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Summary:
    found = summary()
    monkeypatch.setattr(results, "ended", lambda directory: (found, trials(30)))
    return found


def test_every_chart_of_the_report_is_listed(of: Summary, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["plot", "run"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    page = render_runs([ReportedRun(of, trials=trials(30))])
    assert len(listed) == len(set(listed)) >= 2
    assert all(f'<figure id="{name}"' in page for name in listed)
    assert "blocks" in listed, "which is of the trials, not of the summary"
    assert page.count("<figure id=") == len(listed)


@pytest.mark.parametrize("form", FORMATS)
def test_a_chart_is_written_in_each_format(
    of: Summary, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = by_name.all_charts(of)[0].name
    for words in (
        ["--format", form, "--output", str(tmp_path / "typed")],
        ["--output", f"{tmp_path}/it.{form}"],
    ):
        assert run_command(["plot", "run", name, *words]) == 0
        file = Path(capsys.readouterr().out.strip())
        assert file.read_bytes().startswith(MAGIC[form]), file
    if form == "json":
        assert json.loads(file.read_text())["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


@pytest.mark.parametrize(
    ("words", "code", "fact"),
    [
        (["process-contrl"], "plot.unknown_chart", "'process-control'?"),
        (["process-control", "--format", "gif"], "plot.unknown_format", "svg, png, pdf, json"),
        (["process-control", "--output", "chart.gif"], "plot.unknown_format", "svg, png, pdf, json"),
        (
            ["process-control", "--format", "png", "--output", "chart.svg"],
            "plot.format_contradicts_output",
            "chart.svg",
        ),
        (
            ["process-control", "--output", "/nowhere/chart.svg"],
            "plot.output_unwritable",
            "/nowhere/chart.svg: ",
        ),
    ],
)
@pytest.mark.usefixtures("of")
def test_mistakes_say_what_is_allowed(
    words: list[str], code: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plot", "run", *words]) == 2
    stderr = capsys.readouterr().err
    assert codes_printed(stderr) == [code] and fact in stderr


def test_a_chart_whose_name_is_a_path_is_written_into_the_folder(
    of: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = replace(by_name.all_charts(of)[0], name="../elsewhere/chart")
    monkeypatch.setattr(by_name, "all_charts", lambda *_: [chart])
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    assert run_command(["plot", str(tmp_path / "run"), chart.name]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "run/chart.svg")
    assert (tmp_path / "run/chart.svg").exists() and not [*(tmp_path / "elsewhere").iterdir()]


def test_a_directory_without_a_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["plot", str(tmp_path)]) == 2
    assert codes_printed(capsys.readouterr().err) == ["results.no_run"]
