"""Charts of sweeps: a line for each contender over the points of an axis, with intervals.

What the source found is drawn in the same colours, dashed and with open points: in the same panel where its
figures are of the same size, else in a panel of its own, since they come from another machine. Points that
are no numbers have an axis of names and no lines between them. As in `plots`, a chart carries its own data.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from thunderherd.drawing import colours_of, dressed, inline
from thunderherd.figures import number, printable
from thunderherd.matrices import at_points, caption_of, digits_for, shown_of, unit_for
from thunderherd.records import Summary, SweepSummary

__all__ = ["sweep_chart"]

DECADES = 30.0
"""Figures that differ by more than this factor have a logarithmic axis."""

SAME_SIZE = 4.0
"""The source's figures share our panel where the axis need not grow by more than this factor."""

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
WIDE, SMALL, NARROW = 880, 350, 250
HEIGHT, SMALL_HEIGHT = 300, 190
LEGEND_WIDTH = 26
"""Pixels of a symbol of the legend; a letter has about 6.5 more."""


def sweep_chart(
    summary: Summary, sweep: SweepSummary, name: str | None = None, *, narrow: bool = False
) -> alt.VConcatChart:
    """One metric of a sweep over its points.

    Parameters
    ----------
    summary, sweep
        The run, and one of its sweeps.
    name
        A metric that the sweep shows; that of its verdicts if not given, which has the source's figures
        beside it. The chart of another one is smaller.
    narrow
        For a telephone: panels one below the other.
    """
    name = name or sweep.metric
    is_first = name == sweep.metric
    ours = _ours(summary, sweep, name)
    papers = _papers(summary, sweep) if is_first else []
    small = not is_first
    size = _Size(NARROW if narrow else SMALL if small else WIDE, SMALL_HEIGHT if small or narrow else HEIGHT)
    unit = unit_for(
        summary, name, (shown_of(summary, each, name) for each in at_points(summary, sweep).values())
    )
    title = _sentence(caption_of(name, unit))
    bases = [base for base in sweep.contenders if any(row["base"] == base for row in [*ours, *papers])]
    drawing = _Drawing(summary, sweep, bases, size, size.width)
    if papers and _of_the_same_size(ours, papers):
        panels = [drawing.panel([*ours, *papers], title, "")]
    elif papers:
        half = size if narrow else _Size((WIDE - 60) // 2, HEIGHT)
        drawing = _Drawing(summary, sweep, bases, half, size.width)
        panels = [
            drawing.panel(ours, title, "This machine"),
            drawing.panel(papers, "the source's figure", "The paper, on its machine"),
        ]
    else:
        panels = [drawing.panel(ours, title, "")]
    row = alt.vconcat(*panels, spacing=22) if narrow else alt.hconcat(*panels, spacing=30)
    chart: alt.VConcatChart = alt.vconcat(row, spacing=0)
    return dressed(chart)


# Data -------------------------------------------------------------------------------------------------------


def _ours(summary: Summary, sweep: SweepSummary, name: str) -> list[dict[str, Any]]:
    contenders = at_points(summary, sweep)
    figures = {key: shown_of(summary, each, name) for key, each in contenders.items()}
    unit = unit_for(summary, name, figures.values())
    digits = digits_for([unit.of(each.value) for each in figures.values() if each], name)
    numbers = {point.name: point.number for point in sweep.points}
    rows: list[dict[str, Any]] = []
    for (base, point), figure in figures.items():
        if figure is None or point not in numbers:
            continue
        row = _row(base, point, numbers[point], "this machine")
        text = f"{number(unit.of(figure.value), digits)} {unit.name}".rstrip()
        interval = figure.span(unit, digits, " to ") or "one run"
        rows.append(
            row
            | {"value": unit.of(figure.value), "low": unit.of(figure.low), "high": unit.of(figure.high)}
            | {"text": text, "interval": interval, "spoken": f"{base} at {point}: {text}, {interval}"}
        )
        rows += [
            row
            | {
                "whose": "a run",
                "value": unit.of(float(value)),
                "text": number(unit.of(float(value)), digits),
            }
            | {"low": None, "high": None, "interval": "one run", "spoken": f"a run of {base} at {point}"}
            for run in contenders[(base, point)].runs
            if (value := run.get(name)) is not None
        ]
    return rows


def _papers(summary: Summary, sweep: SweepSummary) -> list[dict[str, Any]]:
    numbers = {point.name: point.number for point in sweep.points}
    shown = [each for each in sweep.paper if each.point in numbers and each.base in sweep.contenders]
    last = {(each.base, each.system): each for each in shown}
    return [
        _row(each.base, each.point, numbers[each.point], "the paper", each.system or "")
        | {"value": each.value, "low": None, "high": None, "text": f"{each.value:g}"}
        | {"interval": _runs(each.runs), "ends": each is last[(each.base, each.system)]}
        | {"spoken": f"{_of(each.system)}, {each.base} at {each.point}: {each.value:g}"}
        for each in shown
    ]


def _of(system: str | None) -> str:
    return f"the paper on {system}" if system else "the paper"


def _runs(runs: Sequence[float]) -> str:
    return f"runs {', '.join(f'{run:g}' for run in runs)}" if len(runs) > 1 else "none given"


def _row(base: str, point: str, number_: float | None, whose: str, system: str = "") -> dict[str, Any]:
    place = f"{whose}, {printable(system)}" if system else whose
    return {
        "base": base,
        "name": printable(base),
        "point": printable(point),
        "x": number_,
        "whose": whose,
        "system": printable(system),
        "place": place,
    }


def _of_the_same_size(ours: Sequence[dict[str, Any]], papers: Sequence[dict[str, Any]]) -> bool:
    """Whether both fit one axis without one of them being squeezed."""
    if not ours:
        return True
    own, theirs = (max(abs(row["value"]) for row in rows) for rows in (ours, papers))
    return bool(max(own, theirs) <= SAME_SIZE * min(own, theirs))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


# Panels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Size:
    width: int
    height: int


class _Drawing:
    """What the panels of one chart share: axes, colours, shapes."""

    def __init__(
        self, summary: Summary, sweep: SweepSummary, bases: Sequence[str], size: _Size, across: int
    ) -> None:
        self.sweep, self.size = sweep, size
        self.numbers = [point.number for point in sweep.points if point.number is not None]
        self.is_named = len(self.numbers) < len(sweep.points)
        colours = colours_of(summary)
        names = [printable(base) for base in bases]
        columns = max(1, across // (LEGEND_WIDTH + int(6.5 * max((len(name) for name in names), default=1))))
        legend = alt.Legend(
            title=None, orient="top", columns=columns, symbolSize=70, symbolOpacity=1, labelLimit=size.width
        )
        self.colour = alt.Color(
            "name:N",
            scale=alt.Scale(domain=names, range=[colours[base] for base in bases]),
            legend=legend,
        )
        self.shape = alt.Shape(
            "name:N",
            scale=alt.Scale(domain=names, range=[SHAPES[place % len(SHAPES)] for place in range(len(names))]),
            legend=legend,
        )
        self.names = names

    def panel(self, rows: list[dict[str, Any]], y_title: str, title: str) -> alt.LayerChart:
        """Intervals, lines and points of these rows."""
        y = self._y(rows)
        base = alt.Chart().encode(x=self._x(), y=y, color=self.colour)
        if self.is_named:
            base = base.encode(
                xOffset=alt.XOffset("name:N", sort=self.names, scale=alt.Scale(paddingOuter=0.8))
            )
        tooltip = [
            alt.Tooltip("name:N", title="contender"),
            alt.Tooltip("place:N", title="measured on"),
            alt.Tooltip("point:N", title=self.sweep.x_label),
            alt.Tooltip("text:N", title="figure"),
            alt.Tooltip("interval:N", title="interval"),
        ]
        own, book, run = (f"datum.whose === '{whose}'" for whose in ("this machine", "the paper", "a run"))
        told = {"description": alt.Description("spoken:N"), "tooltip": tooltip}
        layers: list[alt.Chart] = []
        # Without rows a layer would have no extent, and Vega would say so.
        if any(row["low"] is not None and row["high"] is not None for row in rows):
            intervals = base.transform_filter(f"{own} && isValid(datum.low) && isValid(datum.high)")
            layers.append(
                intervals.mark_rule(strokeWidth=1.6, opacity=0.75).encode(y=alt.Y("low:Q"), y2="high:Q")
            )
        whose = {row["whose"] for row in rows}
        if "a run" in whose:
            layers.append(
                base.transform_filter(run).mark_point(filled=True, size=14, opacity=0.55, shape="circle")
            )
        if "this machine" in whose:
            shown = base.transform_filter(own)
            layers += [] if self.is_named else [shown.mark_line(strokeWidth=1.8)]
            layers.append(shown.mark_point(filled=True, size=50, opacity=1).encode(shape=self.shape, **told))
        if "the paper" in whose:
            shown = base.transform_filter(book)
            dashed = shown.mark_line(strokeWidth=1.4, strokeDash=[5, 4]).encode(detail="system:N")
            layers += [] if self.is_named else [dashed]
            if any(row["system"] for row in rows):
                ends = shown.transform_filter("datum.ends && datum.system")
                layers.append(ends.mark_text(align="left", dx=8, fontSize=10).encode(text="system:N"))
            open_marks = shown.mark_point(filled=False, size=60, strokeWidth=1.5, opacity=1)
            layers.append(open_marks.encode(shape=self.shape, **told))
        heading = alt.TitleParams(
            _lines(title or y_title, self.size.width),
            subtitle=_lines(y_title, self.size.width) if title else [],
        )
        chart = alt.LayerChart(data=inline(rows), layer=layers)
        return chart.properties(title=heading, width=self.size.width, height=self.size.height)

    def _x(self) -> alt.X:
        label = self.sweep.x_label
        if self.is_named:
            order = [printable(point.name) for point in self.sweep.points]
            axis = alt.Axis(labelAngle=0, ticks=False)
            return alt.X("point:N", sort=order, title=label, axis=axis, scale=alt.Scale(paddingInner=0.3))
        # With its digits: Vega would take as many as the steps need, and write 120 as 1.2e+2.
        axis = alt.Axis(
            values=sorted(set(self.numbers)),
            grid=False,
            format=".6~g",
            labelOverlap="greedy",
            labelFlush=False,
        )
        return alt.X("x:Q", title=label, axis=axis, scale=self._x_scale())

    def _x_scale(self) -> alt.Scale:
        first, last = min(self.numbers), max(self.numbers)
        if self.sweep.axis == "logarithmic":
            if first > 0:
                return alt.Scale(type="log", domain=[first / 1.08, last * 1.08], nice=False)
            # A logarithm has no zero: below the smallest number above it the axis is linear.
            smallest = min((number_ for number_ in self.numbers if number_ > 0), default=1.0)
            return alt.Scale(type="symlog", constant=smallest, domain=[first, last * 1.08], nice=False)
        around = (last - first or 1.0) * 0.03
        return alt.Scale(domain=[first - around, last + around], nice=False, zero=False)

    def _y(self, rows: Sequence[dict[str, Any]]) -> alt.Y:
        """Linear from zero; logarithmic where figures are decades apart."""
        values = [row["value"] for row in rows]
        if not values or min(values) <= 0 or max(values) <= DECADES * min(values):
            axis = alt.Axis(grid=True, tickCount=5)
            return alt.Y("value:Q", title=None, scale=alt.Scale(zero=True, nice=True), axis=axis)
        for row in rows:
            # An end at or below zero has no place on the axis; the tooltip has it.
            if row["low"] is not None and row["low"] <= 0:
                row["low"] = min(values)
        lowest, highest = min(values) / 1.3, max(values) * 1.3
        steps = (1, 2, 5) if highest < 1000 * lowest else (1,)
        decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        axis = alt.Axis(grid=True, values=[tick for tick in ticks if lowest <= tick <= highest], format="~g")
        scale = alt.Scale(type="log", domain=[lowest, highest], nice=False, clamp=True)
        return alt.Y("value:Q", title=None, scale=scale, axis=axis)


def _lines(text: str, width: int) -> list[str]:
    """A heading on as many lines as it needs above a panel."""
    return textwrap.wrap(text, max(20, width // 7))
