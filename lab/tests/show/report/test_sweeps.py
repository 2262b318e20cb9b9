"""The report of a run with sweeps: charts, tables, every run, counters and answers, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made.questions import GOOD
from made.refusals import refused
from made.shown.pages import HOSTILE, Elements, visit
from made.shown.tables import cells, rows
from made.summaries import sweeps as synthetic_sweeps

from thunderherd.records.summary import Summary
from thunderherd.show.report.page import render, write_report
from thunderherd.show.tables.runs import sweep_runs
from thunderherd.show.tables.sweeps import sweep_tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    directory = tmp_path_factory.mktemp("study")
    (directory / "claims.toml").write_text(GOOD)
    study = synthetic_sweeps.write_counters(directory)
    return synthetic_sweeps.summary_of(study.model_copy(update={"claims_path": directory / "claims.toml"}))


@pytest.fixture(scope="module")
def file(of: Summary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(of, tmp_path_factory.mktemp("report") / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_report_opens_without_console_messages_or_requests(
    browser: Browser, file: Path, width: int, scheme: str
) -> None:
    seen = visit(browser, file, width, color_scheme=scheme)
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for sweep in ("pool_size", "delay", "whole_life"):
        assert seen.page.locator(f"#sweep-{sweep}-0 .live svg.marks").count() == 1
    seen.page.context.close()


def test_every_figure_of_each_sweep_stands_in_its_table(browser: Browser, file: Path, of: Summary) -> None:
    seen = visit(browser, file)
    for sweep in of.sweeps:
        seen.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        shown = seen.page.locator(f"section#over-{sweep.name} table.matrix")
        for place, table in enumerate(sweep_tables(of, sweep)):
            texts = shown.nth(place).locator("tbody tr").all_inner_texts()
            for text, (head, own) in zip(texts, rows(table).items(), strict=True):
                words = " ".join(text.split())
                assert words.startswith(head)
                assert all(f"{cell.value}{cell.mark}" in words and cell.span in words for cell in own)
                assert all(f"paper {cell.paper}" in words for cell in own if cell.paper not in ("", "-"))
    seen.page.context.close()


def test_counters_and_answers_are_there(browser: Browser, file: Path, of: Summary) -> None:
    seen = visit(browser, file)
    counted = " ".join(seen.page.locator("section#counted").inner_text().split())
    assert of.counted is not None
    (why,) = {cell.why for cell in of.counted.cells if cell.event == "cpu-cycles"}
    assert "paper 7,200,631" in counted and f"¹ {why}" in counted
    answer = " ".join(seen.page.locator("article#question-Q1").inner_text().split())
    assert all(sentence in answer for sentence in of.questions[0].answer)
    seen.page.context.close()


def test_legends_are_readable_on_a_dark_background(browser: Browser, file: Path) -> None:
    seen = visit(browser, file, color_scheme="dark", java_script_enabled=False)
    label = seen.page.locator("#sweep-pool_size-0 .drawn .role-legend-label text").first
    assert label.evaluate("each => getComputedStyle(each).fill") == "rgb(230, 233, 238)"
    seen.page.context.close()


def test_every_run_is_in_the_report() -> None:
    of = synthetic_sweeps.summary(repetitions=3)
    text = render(of)
    for sweep in of.sweeps:
        told = sweep_runs(of, sweep)
        assert told is not None
        for cell in cells(told):
            mark = f'<span class="mark">{cell.mark}</span>' if cell.mark else ""
            assert f'<td class="figure">{cell.value}{mark}</td>' in text


def test_a_study_without_a_main_table_has_a_report() -> None:
    text = render(synthetic_sweeps.summary(main=False))
    assert ">Designs<" not in text and 'id="process-control"' not in text
    assert text.lstrip().startswith("<!doctype html>")
    assert 'id="sweep-delay-0"' in text


def test_hostile_texts_stay_texts(of: Summary) -> None:
    data = json.loads(of.model_dump_json(by_alias=True))
    for sweep in data["sweeps"]:
        sweep |= {"title": HOSTILE, "x_label": HOSTILE}
    for figure in data["paper"]:
        figure |= {"note": HOSTILE, "unit": HOSTILE, "system": HOSTILE}
    data["questions"][0] |= {"text": HOSTILE, "answer": [HOSTILE], "note": HOSTILE}
    data["counted"] |= {"title": HOSTILE}
    for cell in data["counted"]["cells"]:
        cell["why"] = HOSTILE if cell["why"] else None
    text = render(Summary.model_validate(data))
    assert "<script>alert" not in text and "img" not in [tag for tag, _ in Elements(text).tags]


def test_names_of_charts_are_unique(of: Summary) -> None:
    names = re.findall(r'<figure id="([^"]+)"', render(of))
    assert len(names) == len(set(names)) > 6


def test_a_report_for_a_directory_that_is_not_there_is_refused_in_the_users_words(
    of: Summary, tmp_path: Path
) -> None:
    path = tmp_path / "nowhere" / "report.html"
    (problem,) = refused(write_report, of, path)
    assert problem.code == "report.no_folder"
    assert str(path) in problem.message and str(path.parent) in problem.message
