"""The report in a real browser: handled by pointer and keyboard, in each width and colour, by a screen
reader; of several runs; and of a real one, whose figures are those of its summary.json."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made.refusals import refused
from made.shown.pages import HOSTILE, Elements, visit
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.summary import TITLE, document, summary, trials

from thunderherd.cli import results
from thunderherd.cli.main import run_command
from thunderherd.records.directory import load
from thunderherd.records.summary import Summary
from thunderherd.show.charts.by_name import all_charts
from thunderherd.show.charts.interactive import live
from thunderherd.show.charts.style import colours_of
from thunderherd.show.report.page import ReportedRun, render_runs, write_report
from thunderherd.show.sentences.answer import answer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DARK, LIGHT = "rgb(20, 23, 28)", "rgb(255, 255, 255)"


def written(path: Path, runs: Sequence[ReportedRun]) -> Path:
    path.write_text(render_runs(runs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run with its trials, and of one of sweeps."""
    runs = [ReportedRun(summary(), trials=trials(30)), ReportedRun(synthetic_sweeps.summary())]
    return written(tmp_path_factory.mktemp("pages") / "report.html", runs)


def ground(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_colours_are_switched_by_the_keyboard_and_charts_follow(browser: Browser, file: Path) -> None:
    seen = visit(browser, file, color_scheme="light")
    label = seen.page.locator(".live .role-axis-label text").first
    assert ground(seen.page) == LIGHT
    seen.page.locator("#theme input[value=auto]").focus()
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("ArrowRight")
    assert ground(seen.page) == DARK
    assert label.evaluate("each => getComputedStyle(each).fill") == "rgb(230, 233, 238)"
    seen.page.keyboard.press("ArrowLeft")
    assert ground(seen.page) == LIGHT
    assert seen.page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0
    assert seen.console == []
    seen.page.context.close()


def test_contenders_are_hidden_and_shown_and_axes_zoomed(browser: Browser, file: Path) -> None:
    seen = visit(browser, file)
    for name, kind in (("blocks", "symbol"), ("process-control", "rect"), ("clients-per-worker", "rect")):
        chart = seen.page.locator(f"figure#run1-{name}")
        chart.scroll_into_view_if_needed()
        drawn = f"#run1-{name} .live .mark-{kind} path"
        axis = chart.locator(".live .role-axis-label text")
        before, ticks = seen.page.locator(drawn).count(), axis.all_text_contents()
        toggle = chart.get_by_role("button", name="prefork", exact=True)
        assert toggle.get_attribute("aria-pressed") == "true"
        toggle.focus()
        seen.page.keyboard.press("Space")
        seen.page.wait_for_function(f"() => document.querySelectorAll('{drawn}').length < {before}")
        assert toggle.get_attribute("aria-pressed") == "false"
        hidden = {*axis.all_text_contents()}
        assert "prefork" not in hidden and hidden <= {*ticks}
        chart.get_by_role("button", name="Zoom in").click()
        deadline = time.monotonic() + 60
        while {*axis.all_text_contents()} == hidden and time.monotonic() < deadline:
            seen.page.wait_for_timeout(100)
        assert {*axis.all_text_contents()} != hidden, name
        chart.get_by_role("button", name="Reset the zoom").click()
        toggle.click()
        seen.page.wait_for_function(f"() => document.querySelectorAll('{drawn}').length === {before}")
        assert {*axis.all_text_contents()} == {*ticks}
        # With none of them there is nothing to say, in the console neither.
        for each in chart.locator(".toggles button").all():
            each.click()
        assert seen.console == []
    seen.page.context.close()


def test_tooltip_shows_figure_interval_and_blocks(browser: Browser, file: Path) -> None:
    """With trials, the tooltip names the lowest and the highest block; without, the number of blocks."""
    seen = visit(browser, file)
    tip = seen.page.locator("#vg-tooltip-element")
    for mark, figure, blocks in (
        ("#run1-process-control .live .mark-rect path", "seconds", r"\d+, from [\d.]+ \(block \d+\) to "),
        ("#run2-sweep-pool_size-0 .live .mark-symbol path", "figure", r"\d+$"),
    ):
        seen.page.locator(mark).first.hover()
        seen.page.wait_for_function(
            "word => document.querySelector('#vg-tooltip-element.visible')?.innerText.includes(word)",
            arg=figure,
        )
        rows = tip.locator("tr").all()
        told = {
            key.strip(): value.strip() for key, value in (row.locator("td").all_inner_texts() for row in rows)
        }
        assert {figure, "interval", "blocks"} <= told.keys()
        assert re.match(blocks, told["blocks"]), told
    assert seen.console == []
    seen.page.context.close()


@pytest.mark.parametrize("width", [400, pytest.param(1600, marks=pytest.mark.thorough)])
def test_several_runs_are_one_page_in_each_width(browser: Browser, file: Path, width: int) -> None:
    seen = visit(browser, file, width)
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    listed = seen.page.locator(".runs-shown li").all_inner_texts()
    for text, of in zip(listed, (summary(), synthetic_sweeps.summary()), strict=True):
        assert answer(of).sentence in text
    names = seen.page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    own = [each for each in names if not each.startswith(("vg-", "gradient", "clip"))]
    assert len(own) == len(set(own))
    links = seen.page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]:not([download])')].map(each => each.hash.slice(1))"
    )
    assert {*links} <= {*names}
    seen.page.context.close()


def test_the_first_screen_has_question_answer_ranking_and_machine(browser: Browser, tmp_path: Path) -> None:
    seen = visit(browser, written(tmp_path / "one.html", [ReportedRun(summary(), trials=trials(30))]))
    for part in (".lead", ".first > .answer", "#ranking", ".machine", ".notes .weighty"):
        box = seen.page.locator(part).first.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 800, part
    rows = seen.page.locator("#ranking tbody tr").all_inner_texts()
    for row, each in zip(rows, answer(summary()).ranking, strict=True):
        assert row.split()[:3] == [each.place, each.name, each.value] and each.span in row
    seen.page.context.close()


SEEN_IN_LIGHT = {"exclude": [["tbody tr:nth-child(n+9)"]]}
"""In the other scheme only the colours are others, and further rows of a table have those of the first."""


@pytest.mark.parametrize(
    ("scheme", "where", "rules"),
    [
        pytest.param("light", None, {}, id="light"),
        pytest.param(
            "dark", SEEN_IN_LIGHT, {"runOnly": ["cat.color"]}, id="dark", marks=pytest.mark.thorough
        ),
    ],
)
def test_axe_finds_nothing(
    browser: Browser,
    file: Path,
    scheme: str,
    where: dict[str, list[list[str]]] | None,
    rules: dict[str, list[str]],
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    seen = visit(browser, file, color_scheme=scheme)
    seen.page.evaluate("document.querySelectorAll('main details').forEach(each => each.open = true)")
    # axe need not list elements without violations, which are most of a page.
    options = {"resultTypes": ["violations"], **rules}
    found = axe.Axe().run(seen.page, context=where, options=options).response["violations"]
    assert [(each["id"], each["impact"], each["nodes"][0]["html"][:200]) for each in found] == []
    seen.page.context.close()


def test_print_uses_light_colours_and_drawn_charts(browser: Browser, file: Path) -> None:
    seen = visit(browser, file, color_scheme="dark")
    seen.page.emulate_media(media="print")
    assert ground(seen.page) == LIGHT
    assert not seen.page.locator("#run1-blocks .live").is_visible()
    assert seen.page.locator("#run1-blocks .drawn").is_visible()
    assert len(seen.page.pdf(format="A4")) > 50_000
    seen.page.context.close()


# Without a browser


def test_a_contender_has_one_colour_in_all_runs_of_a_file() -> None:
    both = summary(), synthetic_sweeps.summary()
    colours = colours_of(*both)
    for of in both:
        for chart in all_charts(of, colours=colours):
            for each in live(chart.specification(), chart.title).series:
                assert each.colour == colours[each.name]


def test_hostile_names_stay_text_in_sections_of_trials() -> None:
    data = json.loads(document())
    data["contenders"][2] |= {"name": HOSTILE, "base": HOSTILE}
    data["trials"]["given_up"] = {HOSTILE: HOSTILE}
    data["trials"]["invalid_reasons"] = {HOSTILE: 1}
    seen = [
        each.model_copy(update={"contender": HOSTILE}) if each.contender == "prefork" else each
        for each in trials(30)
    ]
    text = render_runs([ReportedRun(Summary.model_validate(data), trials=seen)])
    tags = [tag for tag, _ in Elements(text).tags]
    assert tags.count("script") == 3 and "img" not in tags and "&lt;script&gt;alert" in text


def test_a_directory_twice_and_a_file_that_is_no_report_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(write_report, [tmp_path, tmp_path / "."])[0].code == "report.same_run_twice"
    monkeypatch.chdir(tmp_path)
    Path("report.html").write_text("mine")
    monkeypatch.setattr("thunderherd.show.report.page._run", lambda _: ReportedRun(summary()))
    (problem,) = refused(write_report, [tmp_path / "a", tmp_path / "b"])
    assert problem.code == "report.would_overwrite" and "report.html" in problem.message
    Path("report.html").unlink()
    for _ in range(2):
        assert write_report([tmp_path / "a", tmp_path / "b"]) == Path("report.html")
    assert TITLE in Path("report.html").read_text()


def test_open_passes_the_file_to_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) or len(asked) == 1)
    assert results.open_page(tmp_path / "a report.html") == 0
    assert asked == [(tmp_path / "a report.html").as_uri()]
    assert results.open_page(tmp_path / "b.html") == 1
    assert str(tmp_path / "b.html") in capsys.readouterr().err


def test_ten_thousand_trials_stay_small() -> None:
    """Speed is measured, not tested: METHODOLOGY has no figure of it."""
    many = [
        each.model_copy(update={"block": each.block + 14 * time}) for time in range(77) for each in trials(30)
    ]
    assert len(many) > 10_000
    assert len(render_runs([ReportedRun(summary(), trials=many)]).encode()) < 10_000_000


# A real run


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_every_figure_of_a_real_run_is_that_of_its_summary(
    browser: Browser, small_study_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert run_command(["run", str(small_study_file), "--out", str(run), "--seed", "3"]) == 0
    assert run_command(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip().endswith(str(run / "report.html"))
    of = load(run).summary
    assert of is not None
    seen = visit(browser, run / "report.html")
    for row, each in zip(seen.page.locator("#study tbody tr").all_inner_texts(), of.contenders, strict=True):
        assert each.cpu_seconds is not None
        shown = [float(figure) for figure in re.findall(r"\d+\.\d+", row.split(each.label)[-1])]
        known = [
            value for value in (each.cpu_seconds.value, each.cpu_seconds.low, each.cpu_seconds.high) if value
        ]
        for figure, value in zip(shown, known, strict=False):
            assert abs(figure - value) <= 0.005 + 1e-9
    assert seen.page.locator("#blocks .live svg.marks").count() == 1
    assert seen.page.locator("#blocks-table tbody tr").count() == len(
        {each.block for each in load(run).trials}
    )
    assert seen.console == []
    seen.page.context.close()
