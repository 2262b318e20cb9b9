"""What all charts share: the colours of contenders, the ink, the axes, data that a chart carries with it.

Colours: processes are blue, threads orange, the baseline grey, whatever the designs are called; where all are
of one design, that tells nothing apart, and they have colours that are far from each other. Every colour
keeps a contrast of at least 3 to 1 on white and on `DARK_GROUND`, and any two of all of them can be told
apart in every common form of colour blindness: they were searched for, so that the two that are nearest in
any of these eyes are as far from each other as could be. Near they are all the same, which is why a contender
is always named beside its mark, and has a shape of its own in a chart of lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from thunderherd.records.summary import Summary
from thunderherd.show.charts.vega_lite import SCHEMA, Chart, field, named_data
from thunderherd.text.figures import printable

INK, MUTED, RULE = "#24292f", "#656d76", "#d0d7de"
"""Text, lesser text, grid. A page may map these three to others (as report.html does when it is dark)."""

DARK_GROUND = "#14171c"
"""The darkest ground that the colours are made for."""

BASELINE_COLOUR = "#7a7f87"
FAMILIES = {
    "fork": ("#8a8bd9", "#4457d5", "#68609f", "#27a0ad", "#107ed0"),
    "thread": ("#d14004", "#a49069", "#d37b06", "#a76753"),
    "": ("#b634fd", "#007e07", "#f057aa", "#a73e7a", "#ab74fe", "#c81cae"),
}
"""The colours of designs by what their names say that they make; the last are those of all others. The first
two of a family, which studies of two designs have, are the farthest from each other."""

WIDE, NARROW = 880, 250
"""The width of a panel that has a page to itself, and of one on a telephone, in pixels."""

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
"""Of the marks of contenders that follow on each other: the colour alone tells nobody apart."""

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3])
"""Of their lines, in a chart that has no marks."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def colours_of(*summaries: Summary) -> dict[str, str]:
    """The colour of each contender by its base name, the same in all charts and tables of these runs.

    A design's family is the first whose word is in its name. Within a family colours are given in the order
    in which the studies name their contenders, and again from the first when there are more of them than
    colours. A control has the colour of its contender, and so has each point of a sweep. Where all are of one
    design they have the colours of the family that is none.
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


class ToldApart(NamedTuple):
    """By which channels a reader tells contenders apart, all in one legend."""

    names: list[str]
    colour: Chart
    shape: Chart
    dash: Chart


def told_apart(
    bases: Sequence[str], colours: Mapping[str, str], *, by: str = "name:N", **legend: Any
) -> ToldApart:
    """These contenders' colours, the shapes of their points and the dashes of their lines, both again from
    the first where there are more contenders. `by`: the field that has their names. `legend`: what is said of
    it beside its place."""
    names = [printable(base) for base in bases]

    def shown_as(values: Sequence[Any]) -> Chart:
        scale = {"domain": names, "range": [value for _, value in zip(names, cycle(values), strict=False)]}
        return field(by, scale=scale, legend={"title": None, "orient": "top", **legend})

    own = [colours[base] for base in bases]
    return ToldApart(names, colour=shown_as(own), shape=shown_as(SHAPES), dash=shown_as(DASHES))


def heading(title: str, below: Sequence[str], width: int) -> Chart:
    """A heading, and lesser texts below it, each on as many lines as it needs above a panel of this width."""
    lines = [line for text in below for line in wrapped(text, width)]
    return {"text": wrapped(title, width), "subtitle": lines}


def beside(remarks: Sequence[str], width: int) -> Chart:
    """What belongs beside every figure of a chart, above all its panels; `width` in pixels. A chart may be
    taken out of its report: this goes with it."""
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
"""Quiet axes, no ground of its own: a chart stands on a light page and on a dark one."""


def dressed(chart: Chart) -> Chart:
    """The whole specification: the chart as all of them look, with its data."""
    return {"$schema": SCHEMA, "config": QUIET, **named_data(chart)}
