"""The charts: figures of the summary, a colour per design, legible for every eye and background."""

from __future__ import annotations

import itertools
import json
from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert
from made.shown.drawings import rows, svg_texts, valid
from made.summaries.summary import document, summary
from numpy.typing import NDArray

from thunderherd.records.summary import PaperFigure, Summary
from thunderherd.show.charts import by_name as charts
from thunderherd.show.charts import files, interactive, main, style, vega_lite

NARROW = [False, True]


def test_charts_are_validated_by_the_schema_of_their_vega_lite_version() -> None:
    import altair
    from jsonschema.exceptions import ValidationError

    assert vega_lite.SCHEMA == altair.SCHEMA_URL
    assert files.vega_lite_version() == vega_lite.VERSION
    wrong = main.clients_per_worker_chart(summary())
    wrong["layer"][0]["encoding"]["x"]["axxis"] = {}
    with pytest.raises(ValidationError, match="axxis"):
        valid(wrong)


def test_rows_shared_by_layers_are_stored_once() -> None:
    rows = [{"a": 1}]
    drawn = vega_lite.layer(vega_lite.mark("line"), rows, x="a:Q")
    chart = vega_lite.named_data(vega_lite.layered([drawn, {**drawn}, vega_lite.layer(drawn["mark"], [{}])]))
    assert chart["datasets"] == {"data0": rows, "data1": [{}]}
    assert [each["data"]["name"] for each in chart["layer"]] == ["data0", "data0", "data1"]
    assert drawn["data"] == {"values": rows}, "the parts are as they were"


@pytest.mark.parametrize("narrow", NARROW)
def test_process_control_shows_the_summarys_figures(narrow: bool) -> None:
    found = rows(main.process_control_chart(summary(), narrow=narrow))
    for each in summary().contenders:
        own, name = each.process_control_seconds, each.name
        if name == summary().study.baseline:
            assert not [row for row in found if row.get("name") == each.name], "the baseline has no bar"
            continue
        assert own is not None
        shown = {(row["value"], row["low"], row["high"]) for row in found if row.get("name") == each.name}
        assert (own.value, own.low, own.high) in shown
        paper = next((each.value for each in summary().paper if each.base == name), None)
        assert (paper, None, None) in shown


@pytest.mark.parametrize("narrow", NARROW)
def test_process_control_draws_figures_titles_and_marks(narrow: bool) -> None:
    texts = svg_texts(main.process_control_chart(summary(), narrow=narrow))
    assert {"This machine", "The paper", "This machine, enlarged", "without fork_per_client"} <= set(texts)
    assert "20.90" in texts
    assert any(text.startswith("1.93 ") for text in texts), "the figure that the source flags has its mark"
    own = summary().contenders[1].process_control_seconds
    assert own is not None and f"{own.value:.3f}" in texts


def test_chart_without_outliers_has_no_enlarged_panel() -> None:
    data = json.loads(document())
    data["paper"] = []
    for each in data["contenders"]:
        if each["name"] == "fork_per_client":
            each["process_control_seconds"] = data["contenders"][2]["process_control_seconds"]
    texts = svg_texts(main.process_control_chart(Summary.model_validate(data)))
    assert not [text for text in texts if "enlarged" in text or "paper" in text]


def test_intervals_without_bounds_and_negative_figures_are_drawn() -> None:
    data = json.loads(document())
    data["contenders"][2]["process_control_seconds"] = {"value": -0.01, "low": None, "high": None}
    data["contenders"][3]["process_control_seconds"] = {"value": -0.01, "low": -0.02, "high": 0.01}
    data["contenders"][4]["process_control_seconds"] = None
    texts = svg_texts(main.process_control_chart(Summary.model_validate(data)))
    assert "-0.010" in texts and "not measured" in texts


@pytest.mark.parametrize("narrow", NARROW)
def test_clients_per_worker_shows_each_worker_as_a_share(narrow: bool) -> None:
    found = rows(main.clients_per_worker_chart(summary(), narrow=narrow))
    for each in summary().contenders:
        own = [row for row in found if (row.get("name"), row.get("whose")) == (each.name, "this machine")]
        shares = [row["share"] for row in own]
        counts = each.worker_connections or []
        assert shares == pytest.approx([count * len(counts) / sum(counts) for count in counts])
    assert not [row for row in found if row.get("name") == "fork_per_client"]


def test_chart_shows_the_papers_workers() -> None:
    figures = [
        PaperFigure(metric="worker_connections", base=base, system=system, value=None, runs=runs)
        for base, system, runs in (
            ("prefork", "VAX", [1.0, 1.0]),
            ("prefork", "BSD/OS", [10.0, 20.0, 30.0]),
            ("iterative", None, [1.0]),
        )
    ]
    found = rows(main.clients_per_worker_chart(summary().model_copy(update={"paper": figures})))
    papers = [row for row in found if row.get("whose") == "the paper"]
    assert [row["share"] for row in papers] == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("narrow", NARROW)
def test_charts_fit_their_page(narrow: bool) -> None:
    charts = [
        main.process_control_chart(summary(), narrow=narrow),
        main.clients_per_worker_chart(summary(), narrow=narrow),
    ]
    for chart in charts:
        svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart))
        assert float(svg.attrib["width"]) <= (400 if narrow else 1000)


def test_a_design_has_one_colour_everywhere() -> None:
    colours = style.colours_of(summary())
    for chart in (main.process_control_chart(summary()), main.clients_per_worker_chart(summary())):
        found = interactive.live(chart, "").series
        assert {each.name for each in found} == {row["name"] for row in rows(chart) if "name" in row}
        assert {each.name: each.colour for each in found} == {each.name: colours[each.name] for each in found}


def test_names_of_a_study_are_texts_of_the_chart() -> None:
    data = json.loads(document())
    data["contenders"][2]["name"] = "<script>alert(1)</script>"
    hostile = Summary.model_validate(data)
    for chart in (main.process_control_chart(hostile), main.clients_per_worker_chart(hostile)):
        svg = vl_convert.vegalite_to_svg(chart)
        assert "<script" not in svg
        assert any("<script>" in text for text in svg_texts(chart))


# Colours


def linear(colour: str) -> NDArray[np.float64]:
    """Linear red, green and blue of `#rrggbb`."""
    coded = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def contrast(colour: str, ground: str) -> float:
    """The contrast ratio of WCAG 2."""
    light, dark = sorted(
        (float(linear(each) @ np.array([0.2126, 0.7152, 0.0722])) for each in (colour, ground)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [style.BASELINE_COLOUR, *itertools.chain(*style.FAMILIES.values())])
@pytest.mark.parametrize("ground", ["#ffffff", style.DARK_GROUND])
def test_colours_contrast_with_light_and_dark_backgrounds(colour: str, ground: str) -> None:
    assert contrast(colour, ground) >= 3


SIMULATIONS = {
    "none": np.eye(3),
    # Machado, Oliveira and Fernandes (2009), severity 1.0, for linear colours.
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of linear colours."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    relative = to_xyz @ np.clip(light, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def oklab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """Oklab (Ottosson 2020) of linear colours, times 100: more even between near ones than L*a*b*."""
    to_cones = np.array(
        [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]
    )  # fmt: skip
    to_lab = np.array(
        [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
         [0.0259040371, 0.7827717662, -0.8086757660]]
    )  # fmt: skip
    found: NDArray[np.float64] = 100 * (to_lab @ np.cbrt(to_cones @ np.clip(light, 0, 1)))
    return found


@pytest.mark.parametrize("eye", SIMULATIONS)
def test_colours_of_processes_and_threads_differ_for_colour_blind_readers(eye: str) -> None:
    for process, thread in itertools.product(style.FAMILIES["fork"], style.FAMILIES["thread"]):
        seen = [lab(SIMULATIONS[eye] @ linear(colour)) for colour in (process, thread)]
        assert np.linalg.norm(seen[0] - seen[1]) > 25, f"{process} and {thread}"


@pytest.mark.parametrize("eye", SIMULATIONS)
def test_all_colours_differ_for_colour_blind_readers(eye: str) -> None:
    colours = [style.BASELINE_COLOUR, *itertools.chain(*style.FAMILIES.values())]
    seen = {colour: oklab(SIMULATIONS[eye] @ linear(colour)) for colour in colours}
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in itertools.combinations(seen, 2)}
    nearest = min(apart, key=lambda pair: apart[pair])
    assert apart[nearest] > 5, f"{nearest}: {apart[nearest]}"


@pytest.mark.parametrize("eye", SIMULATIONS)
@pytest.mark.parametrize("family", style.FAMILIES)
def test_first_two_colours_of_a_family_differ_strongly(family: str, eye: str) -> None:
    """For example a thread for every request and a pool of threads, which have a separate chart."""
    first, second = (linear(colour) for colour in style.FAMILIES[family][:2])
    assert np.linalg.norm(lab(first) - lab(second)) > 30
    # Where hues fall together their lightness is left, and the shape of their marks.
    assert np.linalg.norm(lab(SIMULATIONS[eye] @ first) - lab(SIMULATIONS[eye] @ second)) > 12


def test_every_contender_has_a_distinct_colour_of_its_family() -> None:
    colours = style.colours_of(summary())
    assert set(colours) == {each.name for each in summary().contenders}
    control = next(each for each in summary().contenders if each.control_of)
    assert colours.pop(control.name) == colours[control.control_of or ""]
    assert len(set(colours.values())) == len(colours)
    assert colours.pop(summary().study.baseline or "") == style.BASELINE_COLOUR
    for design, colour in colours.items():
        assert colour in style.FAMILIES["fork" if "fork" in design else "thread"]


def test_contenders_of_one_design_have_colours_of_no_family() -> None:
    data = json.loads(document())
    for each in data["contenders"]:
        each["design"] = "thread_per_client"
    colours = style.colours_of(Summary.model_validate(data))
    assert {*colours.values()} <= {style.BASELINE_COLOUR, *style.FAMILIES[""]}


def test_unknown_designs_have_stable_colours() -> None:
    data = json.loads(document())
    names = ["event_loop", "prefork_rings", *(f"other_{number}" for number in range(8))]
    own = [each for each in data["contenders"][1:] if not each["control_of"]]
    for each, name in zip(own, names, strict=False):
        each["design"] = name
    study = Summary.model_validate(data)
    colours = style.colours_of(study)
    assert colours == style.colours_of(study), "and keep them"
    assert colours[own[0]["name"]] == style.FAMILIES[""][0]
    assert colours[own[1]["name"]] == style.FAMILIES["fork"][0]
    assert set(colours) == {each.base for each in study.contenders}, "even when there are more than colours"


def test_every_mark_shape_has_a_legend_glyph() -> None:
    assert list(interactive.GLYPHS) == list(style.SHAPES)


def test_the_caption_of_a_chart_describes_what_it_shows() -> None:
    """A user's study has no paper and usually no controls; the caption does not mention them."""
    of = summary()
    told = next(each for each in charts.all_charts(of) if each.name == "process-control").about
    assert "The source's seconds" in told and "Outlined: a control" in told
    alone = of.model_copy(
        update={
            "paper": [],
            "contenders": tuple(each.model_copy(update={"control_of": None}) for each in of.contenders),
        }
    )
    told = next(each for each in charts.all_charts(alone) if each.name == "process-control").about
    assert told.count(".") == 1 and told.endswith(" iterative.")
