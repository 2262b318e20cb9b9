"""The reports of runs that were measured and kept: every figure of their tables, comparisons and claims is
that of summary.json, as a browser shows it; every chart of the sources is in them, in its original axes.

What is compared is read from summary.json as it lies there, and its units are put in here.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from made.summaries.trials import made_trial

from handbook.pages.sources import source_rows
from handbook.records.kept import ARCHIVE, kept_studies
from thunderherd.engine import client
from thunderherd.judge.summary.summarise import summarise
from thunderherd.metrics.table import CPU_PER_CONNECTION, Metric, metric
from thunderherd.records.directory import OtherVersionError
from thunderherd.show.charts.by_name import all_charts
from thunderherd.show.report.page import write_report
from thunderherd.study.loading import load_study

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[3]
KEPT = {each.figures.study: ROOT / each.folder / ARCHIVE for each in kept_studies()}
LARGE = ("cse232-a2", "cse638-pa02", "css503-p4", "erss-hw4", "unp-ch30")
"""Records with so many figures that each takes ten seconds to compare."""
STUDIES = [pytest.param(name, marks=[pytest.mark.thorough] if name in LARGE else []) for name in KEPT]

Document = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """The report of a kept run, and its summary."""

    page: Path
    summary: Document


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    @cache
    def of(study: str) -> Told:
        folder = tmp_path_factory.mktemp(study)
        with tarfile.open(KEPT[study]) as archive:
            # Of itself safe from Python 3.14 on; before 3.11.4 there is no filter.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder)
        try:
            page = write_report(folder / "run")
        except OtherVersionError as error:
            pytest.skip(f"made by another version: {error}")
        return Told(page, json.loads((folder / "run" / "summary.json").read_text()))

    return of


# Figures ----------------------------------------------------------------------------------------------------

TABLES = """() => [...document.querySelectorAll('main table')].map((table) => ({
  id: table.id,
  part: table.closest('section')?.id ?? '',
  caption: table.caption?.textContent.trim() ?? '',
  heads: [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim()),
  rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => ({
    text: [...cell.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data.trim()).join(''),
    name: cell.querySelector('.name')?.textContent ?? '',
    span: cell.querySelector('.span')?.textContent ?? '',
  }))),
}))"""
"""Every table of the page, with each cell as its figure and the text below."""

SHOWN_IN = {("s", "ns"): 1e9, ("s", "µs"): 1e6, ("s", "ms"): 1e3, ("share", "%"): 100.0}
"""Factors from a metric's own unit to that of a table."""


def factor_in(caption: str, known: Metric) -> float:
    """What a metric's figures are multiplied by in a table of this caption: its words, then its unit."""
    in_brackets = re.match(r" \(([^)]*)\)", caption[len(head_in(caption, known)) :])
    shown = in_brackets[1] if in_brackets else known.unit
    unit, _, connections = shown.removesuffix(" connections").partition(" per ")
    factor = float(connections.replace(",", "")) if connections else 1.0
    return factor * (1.0 if unit == known.unit else SHOWN_IN[known.unit, unit])


def head_in(caption: str, known: Metric) -> str:
    """The words of a metric in a caption: a cost shown per 5,000 connections lacks "per connection"."""
    return known.words if caption.startswith(known.words) else known.words.removesuffix(" per connection")


def agrees(text: str, value: float | None) -> bool:
    """Whether a text is this value, rounded to the digits that it has."""
    if value is None or not re.fullmatch(r"-?[\d,]+(\.\d+)?", text):
        return value is None and text == "-"
    step = 10.0 ** -len(text.partition(".")[2])
    return abs(float(text.replace(",", "")) - value) <= 0.5 * step * (1 + 1e-6)


def span_agrees(text: str, low: float | None, high: float | None) -> bool:
    if low is None or high is None:
        return " to " not in text
    ends = text.split(" to ")
    return len(ends) == 2 and agrees(ends[0], low) and agrees(ends[1], high)


@pytest.fixture
def tables_of(browser: Browser, told: Callable[[str], Told]) -> Iterator[Callable[[str], list[Document]]]:
    pages: list[Page] = []

    def of(study: str) -> list[Document]:
        pages.append(browser.new_page())
        pages[-1].goto(told(study).page.as_uri())
        found: list[Document] = pages[-1].evaluate(TABLES)
        return found

    yield of
    for page in pages:
        page.close()


@pytest.mark.parametrize("study", STUDIES)
def test_every_figure_of_a_table_of_contenders_and_points_is_the_summarys(
    study: str, told: Callable[[str], Told], tables_of: Callable[[str], list[Document]]
) -> None:
    summary, tables = told(study).summary, tables_of(study)
    at = {(each["base"], each["sweep"], each["point"]): each for each in summary["contenders"]}
    compared = 0
    for sweep in summary["sweeps"]:
        here = [each for each in tables if each["part"] == f"over-{sweep['name']}"]
        repeats = summary["study"]["repetitions"] is not None
        for name in [sweep["metric"]] if repeats else sweep["metrics"]:
            known = metric(name, summary["study"]["counters"])
            (table,) = [each for each in here if each["caption"].startswith(head_in(each["caption"], known))][
                :1
            ]
            factor = factor_in(table["caption"], known)
            assert table["heads"][1:] == sweep["contenders"]
            for point, (_, *cells) in zip(sweep["points"], table["rows"], strict=True):
                for base, cell in zip(sweep["contenders"], cells, strict=True):
                    contender = at.get((base, sweep["name"], point["name"])) or {"metrics": {}, "spread": {}}
                    found = contender["metrics"].get(name)
                    if repeats and found is not None:
                        spread = contender["spread"][name]
                        assert agrees(cell["text"], spread["mean"] * factor), (name, cell)
                        around = spread["standard_deviation"]
                        assert agrees(cell["span"].removeprefix("sd "), around * factor), (name, cell)
                    elif found is not None:
                        assert agrees(cell["text"], found["value"] * factor), (name, cell)
                        ends = (end and end * factor for end in (found["low"], found["high"]))
                        assert span_agrees(cell["span"], *ends), (name, cell)
                    else:
                        assert cell["text"] == "-", (name, cell)
                        continue
                    compared += 1
    assert compared >= len([each for each in summary["contenders"] if each["sweep"] and each["blocks"]])
    main = [each for each in summary["contenders"] if each["sweep"] is None]
    (own,) = [each for each in tables if each["id"] == "study"] or [{"heads": [], "rows": []}]
    # A study whose contenders are no rows of a paper's table has no such column.
    who = next((place for place, head in enumerate(own["heads"]) if head in ("Design", "Contender")), 0)
    assert [row[who]["name"] for row in own["rows"]] == [each["name"] for each in main]
    judged = summary["study"]["metric"]
    for row, each in zip(own["rows"], main, strict=True):
        found, factor = each["cpu_seconds"], 1.0
        if judged != CPU_PER_CONNECTION:
            found = each["metrics"].get(judged)
        # Such as the CPU time of a server that busy-polls.
        if found is None:
            assert row[who + 1]["text"].startswith("-"), row
            continue
        if judged != CPU_PER_CONNECTION:
            factor = factor_in(own["caption"], metric(judged, summary["study"]["counters"]))
        pairs = [(row[who + 1], found, factor)]
        if "Process control" in own["heads"] and each["name"] != summary["study"]["baseline"]:
            pairs.append((row[who + 2], each["process_control_seconds"], 1.0))
        for cell, interval, times in pairs:
            value, low, high = (
                end if end is None else end * times for end in map(interval.get, ("value", "low", "high"))
            )
            assert agrees(cell["text"], value), cell
            assert span_agrees(cell["span"], low, high), cell


@pytest.mark.parametrize("study", STUDIES)
def test_every_comparison_is_the_summarys(
    study: str, told: Callable[[str], Told], tables_of: Callable[[str], list[Document]]
) -> None:
    summary = told(study).summary
    pairs = [*summary["pairs"], *summary.get("further_pairs", [])]
    (rows,) = [each["rows"] for each in tables_of(study) if each["id"] == "pairs"] or [[]]
    assert len(rows) == len(pairs)
    for row, pair in zip(rows, pairs, strict=True):
        a, verdict, b, ratio, blocks, detectable = row[-6:]
        assert (a["name"] or a["text"]).partition("@")[0] == pair["a"].partition("@")[0]
        assert (b["name"] or b["text"]).partition("@")[0] == pair["b"].partition("@")[0]
        assert verdict["text"] == pair["verdict"]
        assert agrees(ratio["text"], pair["ratio"]), (row, pair)
        assert span_agrees(ratio["span"], pair["low"], pair["high"]), (row, pair)
        assert blocks["text"] == str(pair["blocks"])
        assert agrees(detectable["text"].removesuffix(" %"), pair["smallest_detectable_percent"]), row


CLAIMS = """() => Object.fromEntries(
  [...document.querySelectorAll('article.claim[id^="claim-"]')].map((each) => [each.id.slice(6), {
    verdict: each.querySelector('.verdict').textContent,
    statement: each.querySelector('header > :nth-child(2)').textContent,
    ...Object.fromEntries(
      [...each.querySelectorAll('dt')].map((head) => [head.textContent, head.nextElementSibling.textContent])
    ),
  }])
)"""
"""What the page says of each claim, by its heads."""

FIGURE = re.compile(r"(?P<value>-?[\d,.]+)[^(]*(\((?P<low>-?[\d,.]+) to (?P<high>-?[\d,.]+)\))?")


@pytest.mark.parametrize("study", STUDIES)
def test_every_figure_of_a_claim_is_the_summarys(
    study: str, told: Callable[[str], Told], browser: Browser
) -> None:
    page = browser.new_page()
    page.goto(told(study).page.as_uri())
    shown, claims = page.evaluate(CLAIMS), told(study).summary["claims"]
    page.close()
    assert [*shown] == [each["id"] for each in claims]
    compared = 0
    for each in claims:
        told_of = shown[each["id"]]
        assert (told_of["verdict"], told_of["statement"]) == (each["verdict"], each["statement"])
        assert told_of["The source"] == (each["paper_figure"] or "-") and told_of["Why"] == each["why"]
        lines = told_of["This machine"].splitlines()
        for figure in each["contrasts"]:
            if figure["kind"] != "figure" or figure["value"] is None:
                continue
            beginning = f"{figure['label']}: "
            said = [
                FIGURE.match(line.removeprefix(beginning)) for line in lines if line.startswith(beginning)
            ]
            matching = [
                found
                for found in said
                if found and agrees(found["value"], figure["value"])
                and (found["low"] is None or agrees(found["low"], figure["low"]))
                and (found["high"] is None or agrees(found["high"], figure["high"]))
            ]  # fmt: skip
            assert matching, (each["id"], figure["label"], lines)
            compared += 1
    assert compared >= len(claims)


# The sources' charts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plot:
    """A chart of a source: which of ours it is, what is on its axes, and whose lines it has."""

    study: str
    chart: str
    across: str
    points: tuple[float | str, ...]
    upright: str
    """In our words, as in the title of the panel."""
    bases: tuple[str, ...]
    is_logarithmic: tuple[bool, bool] = (False, False)


WAYS = ("two_copy", "one_copy", "zero_copy")
SIZES, THREADS = (64, 256, 1024, 4096), (1, 2, 4, 8)


def over_sizes(place: int, upright: str, *, misses: bool = False) -> Plot:
    """At 8 threads; only misses are on two logarithmic axes."""
    name = f"sweep-sizes_8-{place}"
    return Plot("cse638-pa02", name, "bytes of a field", SIZES, upright, WAYS, (True, misses))


def of_requests(sweep: str, *points: float | str, is_logarithmic: bool = False) -> Plot:
    axes = (is_logarithmic, False)
    return Plot("erss-hw4", f"sweep-{sweep}-0", sweep, points, "Requests per second", ("per", "pre"), axes)


DURATIONS = Plot(
    "cse638-pa02", "sweep-threads-0", "client threads", THREADS, "Duration by messages", WAYS, (True, False)
)
"""At fields of 1024 bytes; the source calls it latency."""
OF_MESSAGES = (
    over_sizes(0, "Payload moved"),
    over_sizes(1, "Cache misses of the clients", misses=True),
    over_sizes(2, "CPU cycles of the clients per byte of payload"),
    DURATIONS,
)
OF_DELAYS = (
    of_requests("cores", 1, 2, 4),
    of_requests("delay", "small", "large"),
    of_requests("buckets", 32, 128, 512, 2048, is_logarithmic=True),
)

PLOTS = {
    "cse638-pa02-output-plots": OF_MESSAGES,
    "cse638-pa02-output-plot-settings": OF_MESSAGES,
    "erss-hw4-experiment-repetition": OF_DELAYS,
    "erss-hw4-output-tables-plots": OF_DELAYS,
    "unp-ch30-measurement-distribution": "a table, of which we have clients-per-worker",
    "cse232-a2-output-figures": "printouts of perf stat, which test_paper_counters.py holds",
}
"""By the row of docs/generated/sources.md that names charts: ours; or what they are if they have no axes."""


def test_every_source_row_that_names_charts_is_tested() -> None:
    named = {
        row.name
        for row in source_rows()
        if row.area in ("output", "experiment", "measurement", "metric")
        and re.search(r"\b(plots?|charts?|figures?|Figs?)\b", f"{row.item} {row.detail}")
    }
    assert named == PLOTS.keys()


def panels_of(chart: Document) -> Iterator[Document]:
    for how in ("hconcat", "vconcat"):
        if how in chart:
            yield from chart[how]
            return
    yield chart


def charts_on(page: Path) -> dict[str, Document]:
    """The charts that the page's script draws, by figure."""
    text = page.read_text()
    data = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL)
    assert data
    found = {each["id"]: each["wide"] for each in json.loads(data[1])}
    assert all(f'<figure id="{name}"' in text for name in found)
    return found


def hold(plot: Plot, chart: Document) -> None:
    """That a chart is drawn as the source's."""
    panels = list(panels_of(chart))
    above = [" ".join([*each["title"]["text"], *each["title"].get("subtitle", [])]) for each in panels]
    assert any(plot.upright in words for words in above), above
    for panel in panels:
        drawn = [layer["encoding"] for layer in panel["layer"] if "color" in layer["encoding"]]
        for x in (each["x"] for each in drawn):
            assert x["title"] == plot.across
            points = x["axis"].get("values") or x["scale"]["domain"]
            assert tuple(points) == plot.points
            assert (x["scale"].get("type") == "log") == plot.is_logarithmic[0]
        scales = [each["y"]["scale"] for each in drawn if "scale" in each["y"]]
        assert {each.get("type") == "log" for each in scales} == {plot.is_logarithmic[1]}
    rows = [row for each in chart["datasets"].values() for row in each]
    for whose in {row["whose"] for row in rows} - {"a run"}:
        assert {row["base"] for row in rows if row["whose"] == whose} == {*plot.bases}
    assert "the paper" in {row["whose"] for row in rows}, "the source's own line stands beside ours"


@pytest.mark.parametrize("plot", OF_DELAYS, ids=lambda plot: plot.chart)
def test_the_charts_of_delays_and_buckets_are_in_the_report(plot: Plot, told: Callable[[str], Told]) -> None:
    hold(plot, charts_on(told(plot.study).page)[plot.chart])


def test_the_clients_of_each_child_are_in_the_report(told: Callable[[str], Told]) -> None:
    found = told("unp-ch30")
    chart = charts_on(found.page)["clients-per-worker"]
    values: dict[str, dict[str, list[float]]] = {"this machine": {}, "the paper": {}}
    for row in (row for each in chart["datasets"].values() for row in each if "whose" in row):
        values[row["whose"]].setdefault(row["name"], []).append(row["connections"])
    contenders = [each for each in found.summary["contenders"] if each["sweep"] is None]
    pools = {each["name"]: each["worker_connections"] for each in contenders}
    assert values["this machine"] == {
        name: pytest.approx(counts, abs=0.0501) for name, counts in pools.items() if counts
    }
    assert values["the paper"], "Fig. 30.2 stands beside them"


@pytest.mark.usefixtures("use_engine")
def test_the_charts_of_messages_are_in_the_report() -> None:
    """Of a run that never happened: none of this study is kept."""
    study = load_study("cse638-pa02", "report", (), client.catalogue())
    names = {name for sweep in study.sweeps for name in sweep.metrics}
    trials = [
        made_trial(study, each.name, 1).model_copy(update={"metrics": dict.fromkeys(names, float(place))})
        for place, each in enumerate(study.contenders, start=1)
    ]
    charts = {each.name: each for each in all_charts(summarise(study, trials, {}, seed=1))}
    for plot in OF_MESSAGES:
        hold(plot, charts[plot.chart].specification())
