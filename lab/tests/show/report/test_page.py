"""The report: one file that works offline, holds the summary's figures, and lets texts stay texts.

What a browser makes of it is looked at in the system's Chromium; those tests are skipped where there is none.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from made.refusals import refused
from made.shown.pages import HOSTILE, Elements, visit
from made.summaries.summary import document, summary, trials

from thunderherd.engine.client import flame_graph
from thunderherd.records.extra_trials import (
    ContenderProfile,
    DifferentialProfile,
    ProfilingSummary,
    SelfSymbol,
    Share,
    SideProfile,
)
from thunderherd.records.summary import WORKERS, Summary
from thunderherd.show.report import page as report_page
from thunderherd.show.report import profiles as report_profiles
from thunderherd.show.report.inline_svg import read_flame_graph
from thunderherd.show.report.page import render, write_report
from thunderherd.show.sentences import tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def html() -> str:
    return render(summary())


# The file


def test_nothing_is_fetched(html: str) -> None:
    elements = Elements(html)
    fetching = [
        (tag, name, value)
        for tag, attributes in elements.tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster")
        and not (value or "").startswith(("data:", "#"))
    ]
    assert fetching == []
    assert not {"iframe", "object", "embed", "base"} & {tag for tag, _ in elements.tags}
    assert "@import" not in html and "url(http" not in html


def test_the_policy_names_the_two_scripts_and_no_connection(html: str) -> None:
    policy = next(
        attributes["content"]
        for tag, attributes in Elements(html).tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.partition(";")[0] == "default-src 'none'"
    assert policy.count("sha256-") == 2
    assert "unsafe-eval" not in policy and "connect-src" not in policy


def test_hostile_texts_stay_texts() -> None:
    data = json.loads(document())
    data["study"] |= {
        "title": HOSTILE,
        "question": HOSTILE,
        "source": HOSTILE,
        "notes": [HOSTILE],
        "name": HOSTILE,
    }
    data["study"] |= {"command": [HOSTILE], "overrides": [HOSTILE]}
    data["study"]["settings"] = {HOSTILE: HOSTILE}
    data["machine"] = {HOSTILE: {HOSTILE: [HOSTILE, "</script>", "<!--"]}}
    data["trials"]["invalid_reasons"] = {HOSTILE: 1}
    for contender in data["contenders"]:
        contender |= {"label": HOSTILE}
    for figure in data["paper"]:
        figure |= {"note": HOSTILE, "unit": HOSTILE, "system": HOSTILE}
    data["contenders"][2] |= {"name": HOSTILE, "design": HOSTILE}
    for claim in data["claims"]:
        claim |= {
            "id": "H1",
            "statement": HOSTILE,
            "our_figure": HOSTILE,
            "why": HOSTILE,
            "source_note": HOSTILE,
        }
    for pair in data["pairs"]:
        pair |= {"a": HOSTILE}
    text = render(Summary.model_validate(data))
    tags = [tag for tag, _ in Elements(text).tags]
    assert tags.count("script") == 3, "the charts' data and the two scripts"
    assert "img" not in tags
    assert "<script>alert" not in text and 'onerror="alert' not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_run_can_be_replayed(html: str) -> None:
    assert "thunderherd run unp-ch30 --quick --seed 30" in html
    asked = summary().study.model_copy(update={"asked_for": "my studies/mine.toml", "size": "pools"})
    other = summary().model_copy(update={"study": asked})
    assert "thunderherd run &#39;my studies/mine.toml&#39; --size pools --seed 30" in render(other)
    assert summary().study.digest in html
    assert "Linux 6.1.0-synthetic x86_64" in html
    assert all(why in html for why in summary().machine["unavailable"].values())


def test_a_report_without_claims_does_not_name_their_command(html: str) -> None:
    command = "thunderherd claims unp-ch30"
    assert command in html
    without = summary().model_copy(update={"claims": [], "questions": []})
    assert command not in render(without)


def test_report_has_the_notes_of_its_figures(html: str) -> None:
    for note in (*summary().study.notes, tables.SHARED_LETTERS):
        assert note in html
    noted = [each for each in summary().paper if each.note]
    assert {each.metric for each in noted} > {WORKERS}
    assert all(each.note in unescape(html) for each in noted if each.note)


def test_the_report_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Loaded:
        summary: Summary | None = None
        trials: list[Any] = field(default_factory=lambda: trials(30))

    monkeypatch.setattr(report_page, "load", lambda _: Loaded(summary()))
    assert write_report(tmp_path) == tmp_path / "report.html"
    assert f"thunderherd claims unp-ch30 {tmp_path}" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert oct((tmp_path / "report.html").stat().st_mode & 0o777) == oct(0o666 & ~_umask())
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"], "nothing else is left behind"
    monkeypatch.setattr(report_page, "load", lambda _: Loaded())
    assert refused(write_report, tmp_path)[0].code == "report.run_not_ended"


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_summary_needs_a_path(tmp_path: Path) -> None:
    assert refused(write_report, summary())[0].code == "report.no_path"
    (problem,) = refused(write_report, summary(), tmp_path / "missing" / "report.html")
    assert (problem.code, problem.where) == ("report.no_folder", "report: --output")
    (problem,) = refused(write_report, summary(), tmp_path)
    assert problem.code == "report.path_is_folder" and str(tmp_path / "report.html") in problem.hint


def test_study_without_pools_claims_and_questions_has_a_report() -> None:
    data = json.loads(document()) | {"claims": [], "questions": []}
    for contender in data["contenders"]:
        contender |= {"worker_connections": None, "clients_per_worker": None, "process_control_seconds": None}
    data["study"] |= {"name": "another", "baseline": None, "source": "", "notes": []}
    text = render(Summary.model_validate(data))
    assert "<figure" not in text and 'class="claims"' not in text


# In a browser


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(summary(), tmp_path_factory.mktemp("report") / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_report_opens_without_console_messages_or_requests(
    browser: Browser, file: Path, width: int, scheme: str
) -> None:
    seen = visit(browser, file, width, color_scheme=scheme)
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for chart in ("process-control", "clients-per-worker"):
        assert seen.page.locator(f"#{chart} .live svg.marks").count() == 1
        assert not seen.page.locator(f"#{chart} .drawn").is_visible()
    seen.page.context.close()


def test_every_figure_of_the_table_is_the_summarys(browser: Browser, file: Path) -> None:
    seen = visit(browser, file)
    rows = seen.page.locator("#study tbody tr").all_inner_texts()
    data = json.loads(document())
    recorded = data["contenders"]
    papers = {each["base"]: each["value"] for each in reversed(data["paper"])}
    assert len(rows) == len(recorded)
    for row, each in zip(rows, recorded, strict=True):
        figures = [
            float(figure)
            for figure in re.findall(r"-?\d+\.\d+|\d+(?= to)|(?<=to )\d+", row.split(each["label"])[1])
        ]
        cpu, control, workers = (
            each["cpu_seconds"],
            each["process_control_seconds"],
            each["clients_per_worker"],
        )
        expected = [cpu["value"], cpu["low"], cpu["high"]]
        if each["name"] != "iterative":
            expected += [control["value"], control["low"], control["high"]]
        expected += [paper for paper in [papers.get(each["name"])] if paper is not None]
        if workers:
            expected += [workers["minimum"], workers["maximum"], workers["standard_deviation"]]
        assert len(figures) == len(expected), row
        for figure, value in zip(figures, expected, strict=True):
            places = 0.5 if figure == int(figure) and value > 3 else 0.05 if value > 3 else 0.0005
            assert abs(figure - value) <= max(places, 0.0005) + 1e-9, f"{figure} in {row!r} is not {value}"
    seen.page.context.close()


def test_each_claim_is_there(browser: Browser, file: Path) -> None:
    seen = visit(browser, file)
    for claim in summary().claims:
        text = " ".join(seen.page.locator(f"article#claim-{claim.id}").inner_text().split())
        for part in (claim.statement, claim.verdict, claim.paper_figure or "", claim.why, claim.our_figure):
            assert " ".join(part.split()) in text
    seen.page.context.close()


def test_without_scripts_the_drawn_charts_are_shown(browser: Browser, file: Path) -> None:
    seen = visit(browser, file, java_script_enabled=False)
    assert seen.page.locator("#process-control .drawn svg").is_visible()
    seen.page.context.close()


def test_tooltip_shows_a_figure(browser: Browser, file: Path) -> None:
    seen = visit(browser, file)
    seen.page.locator("#process-control .live .mark-rect path").first.hover()
    tip = seen.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "interval" in tip.inner_text() and "blocks" in tip.inner_text()
    assert seen.console == []
    seen.page.context.close()


def test_hostile_names_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    data = json.loads(document())
    data["study"]["title"] = HOSTILE
    data["contenders"][2] |= {"name": HOSTILE, "label": HOSTILE}
    data["paper"][2] |= {"base": HOSTILE, "note": HOSTILE}
    seen = visit(browser, write_report(Summary.model_validate(data), tmp_path / "hostile.html"))
    dialogs: list[str] = []
    seen.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    seen.page.locator("#process-control .live .mark-rect path").nth(1).hover()
    seen.page.locator("#vg-tooltip-element").wait_for(state="visible")
    assert (seen.console, dialogs) == ([], [])
    assert seen.page.title() == f"{HOSTILE} · Thunderherd"
    assert seen.page.locator("img").count() == 0
    seen.page.context.close()


# Flame graphs

HOSTILE_STACKS = f"""\
engine;main;serve;tcp_sendmsg_[k];_copy_from_iter_[k] 40
engine;main;{HOSTILE.replace(";", "")};</svg><script>alert(3)</script> 60
"""


@pytest.fixture(scope="module")
def sampled(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, Path]:
    """A run with a profile of two contenders whose functions have awkward names, drawn by the engine."""
    directory = tmp_path_factory.mktemp("sampled")
    (directory / "profiles").mkdir()
    stacks = directory / "profiles" / "a.folded"
    stacks.write_text(HOSTILE_STACKS)
    for name, before in (("a", None), ("a-against-b", stacks)):
        flame_graph(
            stacks, directory / "profiles" / f"{name}.svg", title=HOSTILE, subtitle=HOSTILE, unit="samples",
            before=before, engine=real_engine,
        )  # fmt: skip
    share = Share(value=0.4, low=0.3, high=0.5, confidence=0.95)
    side = SideProfile(
        event="cpu-clock", why_not_cycles=HOSTILE, frequency_hertz=997, samples=100, covered=0.5,
        why_not_cpus=HOSTILE, of_sampling=0.01, lost=1, throttled=1, kernel_symbols=False,
        why_no_kernel_symbols=HOSTILE, copying=share, copying_by_kind={"across": 0.4}, unnamed=0.1,
        interrupts_off=0.2, top=[SelfSymbol(symbol=HOSTILE, mode="user", share=0.6)],
        folded="profiles/a.folded", flame_graph="profiles/a.svg",
    )  # fmt: skip
    contenders = [
        ContenderProfile(contender=HOSTILE, trials=1, requests=10, sides={"server": side, "client": side}),
        ContenderProfile(contender="b", trials=0, requests=0, sides={}, why=HOSTILE),
    ]
    pair = DifferentialProfile(
        a=HOSTILE, b="b", side="server", unit=HOSTILE, flame_graph="profiles/a-against-b.svg"
    )
    gone = pair.model_copy(update={"flame_graph": "profiles/gone.svg"})
    profiles = ProfilingSummary(
        trials=1, frequency_hertz=997, contenders=contenders, differentials=[pair, gone]
    )
    return summary().model_copy(update={"profiles": profiles}), directory


def test_flame_graphs_are_part_of_the_page_and_nothing_else_of_their_files(
    sampled: tuple[Summary, Path],
) -> None:
    text = render(*sampled)
    elements = Elements(text).tags
    tags = [tag for tag, _ in elements]
    assert [values.get("class") for tag, values in elements if tag == "svg"].count("flame") == 3
    assert tags.count("script") == 3, "the charts' data and the two scripts"
    assert not {"iframe", "object", "embed", "img"} & set(tags)
    assert not [name for _, values in elements for name in values if name.startswith("on")]
    assert "_copy_from_iter" in text and "&lt;/svg&gt;&lt;script&gt;alert(3)" in text
    assert "40.0 %" in text and "30.0 to 50.0" in text and f"{report_profiles.KINDS['across']} 40.0 %" in text
    assert len(text) < 10_000_000
    # A summary by itself has the table, and no file to draw from.
    alone = render(sampled[0])
    assert "40.0 %" in alone and 'class="flame"' not in alone


def test_flame_graphs_open_without_dialogs_or_requests(
    browser: Browser, sampled: tuple[Summary, Path]
) -> None:
    file = sampled[1] / "report.html"
    file.write_text(render(*sampled), encoding="utf-8")
    for width in (1280, 400):
        seen = visit(browser, file, width)
        dialogs: list[str] = []
        seen.page.on("dialog", lambda dialog, told=dialogs: told.append(dialog.message))
        graphs = seen.page.locator("#why svg.flame")
        assert not graphs.first.is_visible()
        for summary_line in seen.page.locator("#why summary").all():
            summary_line.click()
        for graph in graphs.all():
            assert graph.is_visible()
        seen.page.locator("#flames svg.flame g").first.hover()
        # A name is shown if it fits.
        box = seen.page.locator("#flames svg.flame g", has_text="main").first
        frame, name = box.locator("rect").bounding_box(), box.locator("text").bounding_box()
        assert frame is not None and name is not None
        assert frame["x"] <= name["x"] and name["x"] + name["width"] <= frame["x"] + frame["width"] + 1
        assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert (seen.console, dialogs) == ([], [])
        assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
        seen.page.context.close()


def test_narrowest_frames_are_dropped_from_a_large_flame_graph(
    sampled: tuple[Summary, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, directory = sampled
    stacks = "".join(f"engine;main;f{number} {1 + number * number}\n" for number in range(60))
    monkeypatch.setattr(report_profiles, "MOST_CHARACTERS", 6_000)
    file = directory / "profiles" / "many.folded"
    file.write_text(stacks)
    flame_graph(file, directory / "profiles" / "many.svg", title="", subtitle="", unit="samples")
    assert found.profiles is not None
    one = found.profiles.contenders[0]
    side = one.sides["server"].model_copy(update={"flame_graph": "profiles/many.svg"})
    one = one.model_copy(update={"sides": {"server": side}})
    profiles = found.profiles.model_copy(update={"contenders": [one], "differentials": []})
    view = report_profiles.profile_section(found.model_copy(update={"profiles": profiles}), directory)
    assert view is not None and 1000 < len(view.graphs[0].svg) <= 6_000
    assert f"{report_profiles.LEAST_PERCENT[0]:g} %" not in " ".join(view.graphs_legend)


@pytest.mark.parametrize("text", ["", "<svg>", "<svg xmlns='http://www.w3.org/2000/svg'/>", "\0"])
def test_invalid_flame_graph_is_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.svg").write_text(text)
    assert read_flame_graph(tmp_path, "a.svg", "a", 0.1) is None


def test_flame_graph_keeps_only_valid_numbers_and_colours(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><g onclick="alert(1)"><title>f (1)</title><rect x="0%" '
        'y="0" width="100%" height="15" fill="url(http://example.org)" onload="alert(1)"/></g>'
        '<g><title>g</title><rect x="nan" y="0" width="100%" height="15"/></g></svg>'
    )
    found = read_flame_graph(tmp_path, "a.svg", "a", 0.1)
    assert found is not None and "alert" not in found.svg and "example" not in found.svg
    assert found.svg.count("<g>") == 1 and "nan" not in found.svg


def test_workers_chart_without_paper_opens_without_console_messages(browser: Browser, tmp_path: Path) -> None:
    data = json.loads(document())
    data["paper"] = [each for each in data["paper"] if each["metric"] != WORKERS]
    seen = visit(browser, write_report(Summary.model_validate(data), tmp_path / "alone.html"))
    assert seen.page.locator("#clients-per-worker .live svg.marks").count() == 1
    assert seen.console == []
    seen.page.context.close()
