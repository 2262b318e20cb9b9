"""Charts of sweeps: a line for each contender over the points of an axis, with intervals.

The source's figures have the same colours, dashed lines and open points. They share the panel if they are of
similar size, otherwise they have a separate one, since they come from another machine. Points without numbers
have an axis of names and no lines between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thunderherd.judge.summary.block_order import UNKNOWN, FiguresOfBlocks
from thunderherd.metrics.table import UNITS_OF_TIME
from thunderherd.records.summary import PaperFigure, Summary, SweepSummary
from thunderherd.show.charts.axes import FIGURES, NumberAxis, decade_ticks
from thunderherd.show.charts.block_tooltips import BlocksBehind
from thunderherd.show.charts.style import NARROW, WIDE, colours_of, distinction, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, Rows, field, layer, layered, mark
from thunderherd.show.sentences.source_figures import as_printed, papers_of
from thunderherd.text.figures import BETWEEN, Unit, capital, extrapolated, not_offered, number, words_of
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_points, caption_of, counted_over, digits_for, shown_of, unit_for

__all__ = ["sweep_chart"]

DECADES = 30.0
"""Figures that differ by more than this factor have a logarithmic axis, unless the study chooses the axes."""

SAME_SIZE = 4.0
"""The source's figures share this machine's panel if the axis need not grow by more than this factor."""

HERE, PAPER, RUN = "this machine", "the paper", "a run"

SMALL = 350
HEIGHT, SMALL_HEIGHT = 300, 190
LEGEND_WIDTH = 26
"""The pixels of a symbol in the legend; each letter adds about 6.5."""


def sweep_chart(
    summary: Summary,
    sweep: SweepSummary,
    name: str | None = None,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
    blocks: FiguresOfBlocks = UNKNOWN,
) -> Chart:
    """Draws one metric of a sweep over its points.

    Parameters
    ----------
    summary, sweep
        The run, and one of its sweeps.
    name
        A metric that the sweep shows (default: that of its verdicts; charts of others are smaller).
    narrow
        Whether the panels are one below the other, for a telephone.
    colours
        The colours of contenders, by base (default: those of this run).
    blocks
        The figures of each block. Without them, tooltips only count the blocks.
    """
    name = name or sweep.metric
    is_first = name == sweep.metric
    drawn = sweep.substitutes.get(name, name)
    behind = BlocksBehind(summary, blocks)
    ours = _ours(summary, sweep, drawn, behind)
    small = not is_first
    size = _Size(NARROW if narrow else SMALL if small else WIDE, SMALL_HEIGHT if small or narrow else HEIGHT)
    unit = unit_for(
        summary, drawn, (shown_of(summary, each, drawn) for each in at_points(summary, sweep).values())
    )
    title = capital(caption_of(drawn, unit))
    over = counted_over(summary, drawn, at_points(summary, sweep).values())
    known_of_ours = [*([over] if over else []), *sweep.remarks]
    if how := extrapolated(each.scaled.get(drawn) for each in at_points(summary, sweep).values()):
        known_of_ours.append(how)
    lacking = not_offered(summary, name) or sweep.unavailable.get(name)
    if lacking and drawn != name:
        known_of_ours.append(f"instead of {words_of(name)}, which is unavailable: {lacking}")
    papers = _papers(summary, sweep, name)
    figures = papers_of(summary, sweep.name, name)
    theirs = next((each.unit for each in figures), "")
    converted = _in_our_unit(papers, theirs, unit)
    bases = [base for base in sweep.contenders if any(row["base"] == base for row in [*ours, *papers])]
    colours = colours or colours_of(summary)
    decades = 1.0 if name in sweep.logarithmic else math.inf if sweep.logarithmic else DECADES
    drawing = _Drawing(sweep, bases, size, size.width, decades, colours, behind.title)
    of_paper = _title_of_paper(name, theirs, unit)
    known = _common_note(figures)
    if lacking and not ours:
        known.append(f"unavailable on this machine: {lacking}")
    if papers and not ours:
        panels = [drawing.panel(papers, of_paper, "The paper, on its machine", known)]
    elif papers and converted and drawn == name and _of_the_same_size(ours, converted):
        panels = [drawing.panel([*ours, *converted], title, "", known_of_ours)]
    elif papers:
        half = size if narrow or small else _Size((WIDE - 60) // 2, HEIGHT)
        drawing = _Drawing(sweep, bases, half, size.width, decades, colours, behind.title)
        panels = [
            drawing.panel(ours, title, "This machine", known_of_ours),
            drawing.panel(papers, of_paper, "The paper, on its machine", known),
        ]
    else:
        panels = [drawing.panel(ours, title, "", known_of_ours)]
    if narrow or (small and len(panels) > 1):
        return dressed({"vconcat": panels, "spacing": 22})
    return dressed({"hconcat": panels, "spacing": 30})


# Data -------------------------------------------------------------------------------------------------------


def _ours(summary: Summary, sweep: SweepSummary, name: str, behind: BlocksBehind) -> Rows:
    contenders = at_points(summary, sweep)
    figures = {key: shown_of(summary, each, name) for key, each in contenders.items()}
    unit = unit_for(summary, name, figures.values())
    digits = digits_for([unit.of(each.value) for each in figures.values() if each], name)
    numbers = {point.name: point.number for point in sweep.points}
    rows: Rows = []
    for (base, point), figure in figures.items():
        if figure is None or point not in numbers:
            continue
        row = _row(base, point, numbers[point], HERE)
        # Figures may be decades apart: each has the digits that it would have alone.
        own = max(digits, digits_for([unit.of(figure.value)], name))
        text = f"{number(unit.of(figure.value), own)} {unit.name}".rstrip()
        interval = figure.span(unit, own, BETWEEN) or "one run"
        blocks = behind.of_metric(contenders[(base, point)], name, unit, own)
        rows.append(
            row
            | {"value": unit.of(figure.value), "low": unit.of(figure.low), "high": unit.of(figure.high)}
            | {"text": text, "interval": interval, "blocks": blocks}
            | {"spoken": f"{base} at {point}: {text}, {interval}, {behind.title}: {blocks}"}
        )
        rows += [
            row
            | {
                "whose": RUN,
                "value": unit.of(float(value)),
                "text": number(unit.of(float(value)), digits),
            }
            | {"low": None, "high": None, "interval": "one run", "spoken": f"a run of {base} at {point}"}
            for run in (contenders[(base, point)].runs if summary.study.repetitions else [])
            if (value := run.get(name)) is not None
        ]
    return rows


def _papers(summary: Summary, sweep: SweepSummary, name: str) -> Rows:
    """Makes the rows of the source's figures, in its unit."""
    numbers = {point.name: point.number for point in sweep.points}
    figures = papers_of(summary, sweep.name, name)
    shown = [each for each in figures if each.point in numbers and each.base in sweep.contenders]
    last = {(each.base, each.system): each for each in shown}
    rows = []
    for each in shown:
        if each.value is None or each.point is None:
            continue
        text = f"{as_printed(each.value)} {each.unit}".rstrip()
        rows.append(
            _row(each.base, each.point, numbers[each.point], PAPER, each.system or "")
            | {"value": each.value, "low": None, "high": None, "text": text}
            | {"interval": _runs(each.runs), "ends": each is last[(each.base, each.system)]}
            | {"spoken": f"{_of(each.system)}, {each.base} at {each.point}: {text}"}
        )
    return rows


def _in_our_unit(papers: Sequence[dict[str, Any]], theirs: str, ours: Unit) -> Rows | None:
    """Converts the source's figures to this machine's unit; None if that is impossible."""
    if theirs in ("", ours.name):
        return [*papers]
    if theirs in UNITS_OF_TIME and ours.name in UNITS_OF_TIME:
        factor = UNITS_OF_TIME[ours.name] / UNITS_OF_TIME[theirs]
        return [row | {"value": row["value"] * factor} for row in papers]
    return None


def _of(system: str | None) -> str:
    return f"the paper on {system}" if system else "the paper"


def _runs(runs: Sequence[float]) -> str:
    return f"runs {', '.join(map(as_printed, runs))}" if len(runs) > 1 else "none given"


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


def _title_of_paper(name: str, theirs: str, ours: Unit) -> str:
    """Writes the title of the source's figures: `Requests per second (req/s): source`."""
    # If this machine's unit says per what, the source's may be per something else.
    words = words_of(name).partition(" per ")[0] if " per " in ours.name else words_of(name)
    return f"{capital(words)}{f' ({printable(theirs)})' if theirs else ''}: source"


def _common_note(figures: Sequence[PaperFigure]) -> list[str]:
    """Gives the note that all of the source's figures share; other notes are at the table."""
    notes = {each.note for each in figures}
    return [note for note in notes if note] if len(notes) == 1 else []


def _of_the_same_size(ours: Sequence[dict[str, Any]], papers: Sequence[dict[str, Any]]) -> bool:
    """True if both fit one axis without squeezing either."""
    if not ours:
        return True
    own, theirs = (max(abs(row["value"]) for row in rows) for rows in (ours, papers))
    return bool(max(own, theirs) <= SAME_SIZE * min(own, theirs))


def _reach(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Gives a domain from zero to all figures, which keeps the axis when a contender is hidden."""
    reached = [each for row in rows for each in (row["value"], row["low"], row["high"]) if each is not None]
    return [min([0.0, *reached]), max([0.0, *reached]) or 1.0]


# Panels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Size:
    width: int
    height: int


class _Drawing:
    """The axes, colours and shapes that the panels of one chart share."""

    def __init__(
        self,
        sweep: SweepSummary,
        bases: Sequence[str],
        size: _Size,
        across: int,
        decades: float,
        colours: Mapping[str, str],
        blocks: str,
    ) -> None:
        self.sweep, self.size, self.decades, self.blocks = sweep, size, decades, blocks
        self.numbers = [point.number for point in sweep.points if point.number is not None]
        self.is_named = len(self.numbers) < len(sweep.points)
        longest = max((len(printable(base)) for base in bases), default=1)
        self.apart = distinction(
            bases,
            colours,
            columns=max(1, across // (LEGEND_WIDTH + int(6.5 * longest))),
            symbolSize=70,
            symbolOpacity=1,
            labelLimit=size.width,
        )
        self.places = {base: place for place, base in enumerate(bases)}
        self.axis = NumberAxis(self.numbers or [0.0], sweep.axis, size.width, len(bases))

    def panel(self, rows: Rows, y_title: str, title: str, remarks: Sequence[str]) -> Chart:
        """Draws intervals, lines and points of these rows, below their caveats."""
        y = self._y(rows)
        for row in rows if not self.is_named else ():
            row["shifted"] = self.axis.shifted(row["x"], self.places[row["base"]])
        base: Chart = {"x": self._x(), "y": y, "color": self.apart.colour}
        if self.is_named:
            names = self.apart.names
            base["xOffset"] = field("name:N", sort=names, scale={"paddingOuter": 0.8, "domain": names})
        tooltip = [
            field("name:N", title="contender"),
            field("place:N", title="measured on"),
            field("point:N", title=self.sweep.x_label),
            field("text:N", title="figure"),
            field("interval:N", title="interval"),
        ]
        own, book, run = (f"datum.whose === '{whose}'" for whose in (HERE, PAPER, RUN))
        details = {**base, "shape": self.apart.shape, "description": "spoken:N", "tooltip": tooltip}
        ours = {**details, "tooltip": [*tooltip, field("blocks:N", title=self.blocks)]}
        layers: list[Chart] = []
        # Vega warns in the browser's console about a layer without rows.
        if any(row["low"] is not None and row["high"] is not None for row in rows):
            ends = {**base, "y": field("low:Q"), "y2": field("high")}
            bounded = f"{own} && isValid(datum.low) && isValid(datum.high)"
            layers.append(layer(mark("rule", strokeWidth=1.6, opacity=0.75), only=bounded, **ends))
        whose = {row["whose"] for row in rows}
        if RUN in whose:
            dot = mark("point", filled=True, size=14, opacity=0.55, shape="circle")
            layers.append(layer(dot, only=run, **base))
        if HERE in whose:
            line, point = mark("line", strokeWidth=1.8), mark("point", filled=True, size=50, opacity=1)
            layers += [] if self.is_named else [layer(line, only=own, **base)]
            layers.append(layer(point, only=own, **ours))
        if PAPER in whose:
            dashed = mark("line", strokeWidth=1.4, strokeDash=[5, 4])
            layers += [] if self.is_named else [layer(dashed, only=book, **base, detail="system:N")]
            if any(row["system"] for row in rows):
                name, last = mark("text", align="left", dx=8, fontSize=10), "datum.ends && datum.system"
                layers.append(layer(name, only=f"{book} && {last}", **base, text="system:N"))
            open_mark = mark("point", filled=False, size=60, strokeWidth=1.5, opacity=1)
            layers.append(layer(open_mark, only=book, **details))
        # The caveats stay with a chart that is copied from its report.
        below = [*([y_title] if title else []), *remarks]
        return layered(
            layers,
            rows,
            title=heading(title or y_title, below, self.size.width),
            width=self.size.width,
            height=self.size.height,
        )

    def _x(self) -> Chart:
        label = self.sweep.x_label
        if self.is_named:
            order = [printable(point.name) for point in self.sweep.points]
            axis = {"labelAngle": 0, "ticks": False}
            scale = {"paddingInner": 0.3, "domain": order}
            return field("point:N", sort=order, title=label, axis=axis, scale=scale)
        return self.axis.encoding("shifted", label)

    def _y(self, rows: Sequence[dict[str, Any]]) -> Chart:
        """Makes an axis that is linear from zero, or logarithmic if figures are too far apart."""
        values = [row["value"] for row in rows]
        if not values or min(values) <= 0 or max(values) <= self.decades * min(values):
            axis = {"grid": True, "tickCount": 5, "format": FIGURES}
            scale = {"domain": _reach(rows), "nice": True}
            return field("value:Q", title=None, scale=scale, axis=axis)
        for row in rows:
            # An end at or below zero has no place on the axis; the tooltip has it.
            if row["low"] is not None and row["low"] <= 0:
                row["low"] = min(values)
        lowest, highest = min(values) / 1.3, max(values) * 1.3
        axis = {"grid": True, "values": decade_ticks(lowest, highest), "format": FIGURES}
        scale = {"type": "log", "domain": [lowest, highest], "nice": False, "clamp": True}
        return field("value:Q", title=None, scale=scale, axis=axis)
