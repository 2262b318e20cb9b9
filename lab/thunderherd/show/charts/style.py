"""The style of all charts: colours of contenders, ink, axes.

Designs of processes are blue, those of threads orange, and the baseline is grey. Contenders of one design
have distant colours instead. Every colour has a contrast of at least 3 to 1 on white and on `DARK_GROUND`.
Any two can be distinguished in every common form of colour blindness: a search made the two nearest ones as
distant as possible. Some are still close, so a chart also names each contender, and lines have different
shapes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from thunderherd.records.summary import Summary
from thunderherd.show.charts.vega_lite import SCHEMA, Chart, field, named_data
from thunderherd.text.printable import printable

INK, MUTED, RULE = "#24292f", "#656d76", "#d0d7de"
"""The colours of text, lesser text and grid. A page may map them to others, as report.html does when dark."""

DARK_GROUND = "#14171c"
"""The darkest background that the colours are made for."""

BASELINE_COLOUR = "#7a7f87"
FAMILIES = {
    "fork": ("#8a8bd9", "#4457d5", "#68609f", "#27a0ad", "#107ed0"),
    "thread": ("#d14004", "#a49069", "#d37b06", "#a76753"),
    "": ("#b634fd", "#007e07", "#f057aa", "#a73e7a", "#ab74fe", "#c81cae"),
}
"""The colours of designs by a word in their names; the last are those of all others.

The first two of a family are the most distant, for studies of two designs.
"""

WIDE, NARROW = 880, 250
"""The width of a panel on a page of its own, and on a telephone, in pixels."""

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
)
"""The shapes of contenders' marks, in order, since colour alone does not distinguish them for all readers."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3])
"""The dashes of contenders' lines in a chart without marks."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def colours_of(*summaries: Summary) -> dict[str, str]:
    """Chooses the colour of each contender, by base, for all charts and tables of these runs.

    A design's family is the first whose word is in its name. Within a family, colours follow the order of
    contenders in the studies, and repeat if there are too few. A control has the colour of its contender, and
    so has each point of a sweep. If all are of one design, they have the colours of the last family.
    """
    every = [each for summary in summaries for each in summary.contenders]
    baselines = {each.base for of in summaries for each in of.contenders if each.name == of.study.baseline}
    waiting = {word: cycle(colours) for word, colours in FAMILIES.items()}
    colours: dict[str, str] = {}
    is_one_design = len({each.design for each in every}) == 1
    for each in every:
        if each.control_of or each.base in colours:
            continue
        family = "" if is_one_design else next(word for word in FAMILIES if word in each.design)
        colours[each.base] = BASELINE_COLOUR if each.base in baselines else next(waiting[family])
    for each in every:
        if each.control_of:
            colours.setdefault(each.base, colours.get(each.control_of, BASELINE_COLOUR))
    return colours


class Distinction(NamedTuple):
    """The channels that distinguish contenders, all in one legend."""

    names: list[str]
    colour: Chart
    shape: Chart
    dash: Chart


def distinction(
    bases: Sequence[str], colours: Mapping[str, str], *, by: str = "name:N", **legend: Any
) -> Distinction:
    """Gives each contender a colour, a shape for its points and dashes for its lines.

    Shapes and dashes repeat if there are too few. `by` is the field with the names; `legend` are further
    properties of the legend.
    """
    names = [printable(base) for base in bases]

    def shown_as(values: Sequence[Any]) -> Chart:
        scale = {"domain": names, "range": [value for _, value in zip(names, cycle(values), strict=False)]}
        return field(by, scale=scale, legend={"title": None, "orient": "top", **legend})

    own = [colours[base] for base in bases]
    return Distinction(names, colour=shown_as(own), shape=shown_as(SHAPES), dash=shown_as(DASHES))


def heading(title: str, below: Sequence[str], width: int) -> Chart:
    """Makes a heading with lesser texts below it, folded to the width of a panel in pixels."""
    lines = [line for text in below for line in wrapped(text, width)]
    return {"text": wrapped(title, width), "subtitle": lines}


def caveats(remarks: Sequence[str], width: int) -> Chart:
    """Makes the title with the caveats of every figure; `width` in pixels.

    It stays with a chart that is copied from its report.
    """
    lines = [line for text in remarks for line in wrapped(text, width)]
    return {"text": lines, "color": MUTED, "fontSize": 11, "fontWeight": "normal"}


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width // 7))


QUIET = {
    "background": "transparent",
    "font": FONT,
    "padding": 4,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "gridColor": RULE,
        "domainColor": RULE,
        "tickColor": RULE,
        "labelFontSize": 11,
        "titleFontSize": 11,
    },
    "axisY": {"grid": False},
    "legend": {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 11},
    "title": {
        "color": INK,
        "anchor": "start",
        "fontSize": 13,
        "fontWeight": 600,
        "subtitleColor": MUTED,
        "subtitleFontSize": 11,
    },
}
"""Vega-Lite's configuration: quiet axes, and no background, so that a chart fits light and dark pages."""


def dressed(chart: Chart) -> Chart:
    """Completes a chart to a whole specification, with the common style and its data."""
    return {"$schema": SCHEMA, "config": QUIET, **named_data(chart)}
