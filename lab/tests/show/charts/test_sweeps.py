"""Charts of sweeps: the summary's figures at their points, the paper's figures, and suitable axes."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest
import vl_convert
from made.shown.drawings import rows, svg_texts, valid
from made.summaries import sweeps as synthetic_sweeps

from thunderherd.records.summary import Axis, Summary, SweepSummary
from thunderherd.show.charts import by_name, style
from thunderherd.show.charts.axes import NumberAxis
from thunderherd.show.charts.interactive import live
from thunderherd.show.charts.rate import over_rate, rate_chart
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.report.page import render
from thunderherd.text.figures import capital, words_of

NARROW = [False, True]


def sweep(name: str, of: Summary | None = None) -> SweepSummary:
    return next(each for each in (of or synthetic_sweeps.summary()).sweeps if each.name == name)


def chart(
    name: str, of: Summary | None = None, metric: str | None = None, *, narrow: bool = False
) -> dict[str, Any]:
    of = of or synthetic_sweeps.summary()
    return valid(sweep_chart(of, sweep(name, of), metric, narrow=narrow))


def panels(specification: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = specification.get("hconcat") or specification["vconcat"]
    return found


def encoding(panel: dict[str, Any], channel: str) -> dict[str, Any]:
    found: dict[str, Any] = panel["layer"][-1]["encoding"][channel]
    return found


@pytest.mark.parametrize("narrow", NARROW)
def test_each_mark_is_a_figure_of_the_summary(narrow: bool) -> None:
    of = synthetic_sweeps.summary()
    found = rows(sweep_chart(of, sweep("whole_life"), narrow=narrow))
    for each in of.contenders:
        if each.sweep == "whole_life":
            own = each.metrics["client.elapsed_seconds"]
            row = next(row for row in found if (row["base"], row["point"]) == (each.base, each.point))
            assert (row["value"], row["low"], row["high"]) == pytest.approx(
                (own.value * 1000, (own.low or 0) * 1000, (own.high or 0) * 1000)
            )
            assert row["x"] == float(each.point or 0)
    assert len(found) == 15


def test_papers_figures_of_another_scale_have_a_separate_panel() -> None:
    own, book = panels(chart("pool_size"))
    assert own["title"]["text"] != book["title"]["text"]
    datasets = chart("pool_size")["datasets"]
    assert {row["whose"] for row in datasets[own["data"]["name"]]} == {"this machine"}
    assert {row["value"] for row in datasets[book["data"]["name"]]} >= {1.8, 13.5}
    marks = [layer["mark"] for layer in book["layer"]]
    assert any(mark["type"] == "line" and mark["strokeDash"] for mark in marks)
    assert any(mark["type"] == "point" and mark["filled"] is False for mark in marks)


def test_the_panel_of_the_source_has_its_unit_and_note() -> None:
    """Our unit does not apply: the source may measure something else, as its note says."""
    of = synthetic_sweeps.summary()
    known = "seconds for 5,000 connections, beyond an iterative server's"
    paper = [each.model_copy(update={"note": known, "unit": "s"}) for each in of.paper]
    of = of.model_copy(update={"paper": paper})
    _, book = panels(chart("pool_size", of))
    words, *note = book["title"]["subtitle"]
    assert "(s)" in words
    assert " ".join(note) == known


@pytest.mark.parametrize("name", ["pool_size", "delay", "whole_life"])
def test_axis_has_the_title_of_the_study(name: str) -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    for each in data["sweeps"]:
        each["x_label"] = "furlongs"
    of = Summary.model_validate(data)
    for metric in [None, *sweep(name, of).metrics]:
        for panel in panels(chart(name, of, metric)):
            assert {
                layer["encoding"]["x"]["title"] for layer in panel["layer"] if "x" in layer["encoding"]
            } == {"furlongs"}


@pytest.mark.parametrize("kind", ["linear", "logarithmic"])
def test_large_numbers_are_written_out_on_both_axes(kind: str) -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    data["paper"] = []
    shown = data["sweeps"][2]
    shown["axis"], metric = kind, "client.voluntary_switches"
    shown["metric"] = metric
    shown["logarithmic"] = [metric] if kind == "logarithmic" else []
    numbers = {point["name"]: point["number"] * 500_000 for point in shown["points"]}
    for point in shown["points"]:
        point["number"] = numbers[point["name"]]
    for each in data["contenders"]:
        if each["sweep"] == shown["name"]:
            value = numbers[each["point"]]
            each["metrics"][metric] = {
                "value": value,
                "low": value,
                "high": value,
                "confidence": 0.95,
                "blocks": 9,
            }
    of = Summary.model_validate(data)
    texts = svg_texts(sweep_chart(of, sweep(shown["name"], of)))
    ticks = [text for text in texts if text.strip("0123456789,.e+kMG") == "" and len(text) > 5]
    assert {"500,000", "2,000,000"} & set(ticks)
    assert any(len(text) >= len("50,000,000") for text in ticks), ticks
    assert not [text for text in ticks if "e" in text], ticks


def test_papers_figures_of_the_same_scale_share_the_panel() -> None:
    assert len(panels(chart("delay"))) == 1
    found = rows(sweep_chart(synthetic_sweeps.summary(), sweep("delay")))
    assert {row["whose"] for row in found} == {"this machine", "the paper"}


HIDDEN = "a virtual machine hides it"


def without(name: str, substitute: str | None) -> Summary:
    """A run whose sweep of pools shows a metric that is unavailable here and known from the source."""
    of = synthetic_sweeps.summary()
    shown = sweep("pool_size", of)
    update = {
        "metrics": [shown.metric, name],
        "unavailable": {name: HIDDEN},
        "substitutes": {name: substitute} if substitute else {},
    }
    paper = [each.model_copy(update={"metric": name, "unit": ""}) for each in of.paper]
    sweeps = [shown.model_copy(update=update) if each.name == shown.name else each for each in of.sweeps]
    return of.model_copy(update={"sweeps": sweeps, "paper": [*of.paper, *paper]})


def test_an_unavailable_metric_has_its_substitute_next_to_the_sources_figures() -> None:
    name, other = "client.cpu_cycles_per_byte", "voluntary_switches_per_connection"
    own, book = panels(chart("pool_size", without(name, other), name))
    assert own["title"]["subtitle"][0].startswith("Voluntary context switches")
    assert book["title"]["subtitle"][0].startswith(capital(words_of(name)))
    text = render(without(name, other))
    assert f": {words_of(name)} ({HIDDEN})." in text
    assert f": {words_of(other)}." in text
    assert text.count('id="sweep-pool_size-') == 2, "the substitute is not drawn a second time"


def test_without_a_substitute_the_sources_figures_are_alone() -> None:
    name = "client.cache_misses"
    (book,) = panels(chart("pool_size", without(name, None), name))
    assert {row["whose"] for row in rows(chart("pool_size", without(name, None), name))} == {"the paper"}
    assert book["title"]["text"] == panels(chart("pool_size"))[1]["title"]["text"]
    assert f": {words_of(name)} ({HIDDEN})." in render(without(name, None))


def test_points_without_numbers_have_an_axis_of_names_and_no_lines() -> None:
    (panel,) = panels(chart("delay"))
    assert encoding(panel, "x")["type"] == "nominal" and encoding(panel, "x")["sort"] == ["small", "large"]
    assert not [layer for layer in panel["layer"] if layer["mark"]["type"] == "line"]


def test_axes_follow_the_sweep_and_the_figures() -> None:
    (lives,) = panels(chart("whole_life"))
    assert encoding(lives, "x")["scale"]["type"] == "log"
    assert encoding(lives, "x")["axis"]["values"] == [1, 4, 16, 64, 256]
    assert encoding(lives, "y")["scale"]["type"] == "log", "its figures are decades apart"
    own, _ = panels(chart("pool_size"))
    assert encoding(own, "y")["scale"]["domain"][0] == 0 and encoding(own, "y")["scale"]["nice"] is True
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    for sweep in data["sweeps"]:
        sweep["logarithmic"] = [sweep["metric"]]
    own, book = panels(chart("pool_size", Summary.model_validate(data)))
    assert {encoding(panel, "y")["scale"]["type"] for panel in (own, book)} == {"log"}
    data["sweeps"][2]["logarithmic"] = ["client.voluntary_switches"]
    (lives,) = panels(chart("whole_life", Summary.model_validate(data)))
    assert "type" not in encoding(lives, "y")["scale"], (
        "the study says of another that it is, and not of this"
    )


def test_a_logarithmic_axis_with_a_point_at_zero() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    data["sweeps"][2]["points"][0]["number"] = 0.0
    of = Summary.model_validate(data)
    (panel,) = panels(chart("whole_life", of))
    assert encoding(panel, "x")["scale"]["type"] == "symlog"
    assert vl_convert.vegalite_to_svg(chart("whole_life", of))


@pytest.mark.parametrize("kind", ["linear", "logarithmic"])
@pytest.mark.parametrize("numbers", [[1.0, 4.0, 256.0], [0.0, 1.0, 10.0], [7.0]])
def test_contenders_stand_side_by_side_within_the_axis(kind: Axis, numbers: list[float]) -> None:
    axis = NumberAxis(numbers, kind, 250, 5)
    for number in numbers:
        places = [axis.shifted(number, place) for place in range(5)]
        assert places == sorted(places) and len(set(places)) == 5
        assert places[2] == number, "the one in the middle stands at the point"
        assert axis.ends[0] < places[0] and places[-1] < axis.ends[1]
    assert NumberAxis(numbers, kind, 250, 1).shifted(numbers[0], 0) == numbers[0]


def test_numbers_beside_an_axis_are_written_out() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    data["sweeps"][2]["axis"] = "linear"
    data["sweeps"][2]["points"] = data["sweeps"][2]["points"][::2]
    of = Summary.model_validate(data)
    assert {"1", "16", "256"} <= set(svg_texts(sweep_chart(of, sweep("whole_life", of))))


def test_every_run_is_a_dot() -> None:
    of = synthetic_sweeps.summary(repetitions=3)
    found = rows(sweep_chart(of, sweep("delay", of)))
    assert len([row for row in found if row["whose"] == "a run"]) == 3 * 4
    mean = next(row for row in found if row["whose"] == "this machine")
    assert mean["interval"].startswith("sd ")


def test_contender_has_one_colour_and_a_distinct_shape() -> None:
    of = synthetic_sweeps.summary()
    colours = style.colours_of(of)
    for each in of.sweeps:
        for panel in panels(chart(each.name)):
            scale = encoding(panel, "color")["scale"]
            assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
                base: colours[base] for base in scale["domain"]
            }
            shapes = encoding(panel, "shape")["scale"]["range"]
            assert len(set(shapes)) == len(shapes) == len(scale["domain"])


def test_contenders_of_one_design_differ() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    for each in data["contenders"]:
        each["design"] = "prefork"
    colours = style.colours_of(Summary.model_validate(data))
    assert len(set(colours.values())) >= 5


def test_a_figure_decades_below_the_others_keeps_its_digits_under_the_pointer() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    metric = data["sweeps"][0]["metric"]
    first = next(each for each in data["contenders"] if each["sweep"] == "pool_size")
    ends = {"value": 7.021e-8, "low": 6.85e-8, "high": 7.26e-8}
    first["metrics"][metric] |= ends
    of = Summary.model_validate(data)
    found = rows(sweep_chart(of, sweep("pool_size", of)))
    row = next(row for row in found if (row["base"], row["point"]) == (first["base"], first["point"]))
    low, high = row["interval"].split(" to ")
    assert float(low) < float(row["text"].split()[0]) < float(high), row


def test_a_point_without_figures_is_left_out_and_the_rest_is_drawn() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    for each in data["contenders"]:
        if each["point"] == "30":
            each["metrics"] = {}
        for interval in each["metrics"].values():
            interval |= {"low": None, "high": None}
    of = Summary.model_validate(data)
    found = rows(sweep_chart(of, sweep("pool_size", of)))
    assert not [row for row in found if row["point"] == "30" and row["whose"] == "this machine"]
    assert vl_convert.vegalite_to_svg(chart("pool_size", of))


def test_an_interval_that_reaches_below_zero_stays_on_a_logarithmic_axis() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    for each in data["contenders"]:
        if each["sweep"] == "whole_life":
            each["metrics"]["client.elapsed_seconds"]["low"] = -0.001
    of = Summary.model_validate(data)
    assert min(row["low"] for row in rows(sweep_chart(of, sweep("whole_life", of)))) > 0


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("name", ["pool_size", "delay", "whole_life"])
@pytest.mark.parametrize("place", [0, 1])
def test_charts_fit_their_page(name: str, place: int, narrow: bool) -> None:
    metric = sweep(name).metrics[place]
    svg = vl_convert.vegalite_to_svg(chart(name, metric=metric, narrow=narrow))
    assert float(ElementTree.fromstring(svg).attrib["width"]) <= (400 if narrow else 1000)


def test_names_of_a_study_are_texts_of_the_chart() -> None:
    data = json.loads(synthetic_sweeps.summary().model_dump_json(by_alias=True))
    hostile = "<script>alert(1)</script>"
    data["sweeps"][0]["x_label"] = hostile
    of = Summary.model_validate(data)
    drawn = sweep_chart(of, sweep("pool_size", of))
    assert "<script" not in vl_convert.vegalite_to_svg(drawn)
    assert any(hostile in text for text in svg_texts(drawn))


def at_rates() -> Summary:
    """The synthetic run as if its first two sweeps were over a rate, and latencies."""
    of = synthetic_sweeps.summary()
    metric = "latency_p99_seconds"
    pools = sweep("pool_size", of).model_copy(update={"key": "load.settings.rate", "metric": metric})
    kept = [each for each in of.contenders if each.sweep == pools.name]
    here, there = (
        [
            each.model_copy(
                update={
                    "sweep": name,
                    "metrics": {**each.metrics, metric: each.metrics[pools_metric]},
                }
            )
            for each in kept
            if (each.base == "prefork") == is_first
        ]
        for name, is_first in (("one", True), ("other", False))
    )
    sweeps = [pools.model_copy(update={"name": name}) for name in ("one", "other")]
    return of.model_copy(update={"sweeps": sweeps, "contenders": [*here, *there]})


pools_metric = sweep("pool_size").metric


@pytest.mark.parametrize("narrow", NARROW)
def test_designs_at_rates_have_one_chart_together(narrow: bool) -> None:
    of = at_rates()
    assert [each.name for each in over_rate(of)] == ["one", "other"]
    found = rows(rate_chart(of, narrow=narrow))
    for each in of.contenders:
        own = each.metrics["latency_p99_seconds"]
        row = next(row for row in found if (row["name"], row["rate"]) == (each.base, float(each.point or 0)))
        assert row["low"] <= row["value"] <= row["high"]
        assert row["low"] > 0
        assert row["value"] / found[0]["value"] == pytest.approx(
            own.value / of.contenders[0].metrics["latency_p99_seconds"].value
        )
    shown = live(rate_chart(of, narrow=narrow), "")
    assert {each.name for each in shown.series} == {each.base for each in of.contenders}, "each has a button"
    assert "latency-over-rate" in [each.name for each in by_name.all_charts(of)]
    assert over_rate(of.model_copy(update={"sweeps": of.sweeps[:1]})) == []
    assert over_rate(synthetic_sweeps.summary()) == []


def test_a_deviation_larger_than_its_mean_does_not_spoil_a_logarithm() -> None:
    of = at_rates()
    first, *rest = of.contenders
    wide = first.metrics["latency_p99_seconds"].model_copy(update={"low": -1.0})
    first = first.model_copy(update={"metrics": {**first.metrics, "latency_p99_seconds": wide}})
    found = rows(rate_chart(of.model_copy(update={"contenders": [first, *rest]})))
    assert all(row["low"] > 0 for row in found)
