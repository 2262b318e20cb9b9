"""Charts of a summary: what process control costs, and how evenly a pool's workers were used.

Each function takes a `Summary` and returns an Altair chart that carries its own data, so that it can be
saved (`chart.save("chart.svg")`), embedded in a page, or changed further. Nothing is computed here beyond
positions. A figure of the paper has the mark of its note, which the table explains. Colours are those of
`drawing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import altair as alt

from thunderherd.axes import FIGURES
from thunderherd.blocks_behind import BlocksBehind
from thunderherd.drawing import INK, MUTED, beside, colours_of, dressed, inline
from thunderherd.figures import main_of, number, places, printable, span
from thunderherd.papers import notes_by_mark, papers_of
from thunderherd.records import PROCESS_CONTROL, WORKERS, ContenderSummary, Interval, PaperFigure, Summary

__all__ = ["clients_per_worker_chart", "process_control_chart"]

STANDS_OUT = 4.0
"""A contender above this many times the median squeezes the others; they get a panel without it."""

ROW_HEIGHT = 24
WIDE, NARROW = 720, 190
PAPER_DIGITS = 2
HERE, PAPER = "this machine", "the paper"


def process_control_chart(
    summary: Summary,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
    behind: BlocksBehind | None = None,
) -> alt.VConcatChart:
    """CPU for process control: this machine with its intervals, beside the paper's figures.

    The paper's seconds come from another machine, hence two panels with a scale of their own each. Where one
    contender dwarfs the others, a second row of panels shows the rest enlarged. `narrow`: one panel below the
    other, for a telephone. `behind`: the run's blocks; if not given, it is said how many there are.
    """
    shown = [each for each in main_of(summary) if each.name != summary.study.baseline]
    papers = {each.base: each for each in papers_of(summary, None, PROCESS_CONTROL)}
    rows = [_Row(shown, papers, "")]
    large = _standing_out(shown, papers)
    rest = [each for each in shown if each not in large]
    if large and rest:
        rows.append(_Row(rest, papers, f"without {' and '.join(each.name for each in large)}"))
    drawing = _Drawing(
        colours=_scale(shown, colours or colours_of(summary)),
        digits=places(summary),
        marks=notes_by_mark(summary).marks,
        per=f"{summary.study.normalise_connections:,}",
        narrow=narrow,
        behind=behind or BlocksBehind(summary),
    )
    panels = [row.panels(drawing) for row in rows]
    chart: alt.VConcatChart = alt.vconcat(
        *(alt.vconcat(*pair, spacing=18) if narrow else alt.hconcat(*pair, spacing=24) for pair in panels),
        spacing=30,
    )
    if remarks := summary.study.remarks:
        chart.title = beside(remarks, NARROW if narrow else WIDE)
    return dressed(chart)


def clients_per_worker_chart(
    summary: Summary, *, narrow: bool = False, colours: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """How evenly the connections went to the workers of each pool: one tick a worker, 1 is an even share.

    The paper's are drawn as rings below the ticks; of several systems those of the last. Shares, not counts,
    make pools and runs of different lengths comparable. With `narrow` it fits a telephone.
    """
    data: list[dict[str, Any]] = []
    colours = colours or colours_of(summary)
    papers = {each.base: each.runs for each in papers_of(summary, None, WORKERS)}
    for each in main_of(summary):
        if each.worker_connections:
            data += _shares(each, each.worker_connections, HERE)
            if runs := papers.get(each.name):
                data += _shares(each, runs, PAPER)
    pools = [each for each in main_of(summary) if each.worker_connections]
    chart = _strip(data, _scale(pools, colours), narrow)
    if remarks := summary.study.remarks:
        chart.title = beside(remarks, NARROW if narrow else WIDE)
    return dressed(chart)


# Process control ------------------------------------------------------------------------------------------


def _standing_out(
    shown: Sequence[ContenderSummary], papers: Mapping[str, PaperFigure]
) -> list[ContenderSummary]:
    """Contenders so far above the others, here or in the paper, that these shrink to nothing beside them."""
    ours = {each.name: each.process_control_seconds.value for each in shown if each.process_control_seconds}
    names = {each.name for each in shown}
    theirs = {name: each.value for name, each in papers.items() if name in names and each.value is not None}
    large: set[str] = set()
    for figures in (ours, theirs):
        if len(figures) > 2:
            limit = STANDS_OUT * median(map(abs, figures.values()))
            large |= {name for name, value in figures.items() if value > limit > 0}
    return [each for each in shown if each.name in large]


@dataclass(frozen=True)
class _Drawing:
    """What all panels of a chart share."""

    colours: dict[str, list[str]]
    digits: int
    marks: Mapping[str, str]
    per: str
    narrow: bool
    behind: BlocksBehind


class _Row:
    """Contenders that share a pair of panels: ours and the paper's."""

    def __init__(
        self, shown: Sequence[ContenderSummary], papers: Mapping[str, PaperFigure], remark: str
    ) -> None:
        self.shown, self.papers, self.remark = shown, papers, remark
        self.has_paper = any(papers[each.name].value is not None for each in shown if each.name in papers)

    def panels(self, drawing: _Drawing) -> list[alt.LayerChart]:
        enlarged = ", enlarged" if self.remark else ""
        here = _bars(
            [_ours(each, drawing) for each in self.shown],
            _title(f"This machine{enlarged}", self.remark),
            f"CPU seconds per {drawing.per} connections, with interval",
            self.order,
            drawing,
            width=NARROW if drawing.narrow else 380,
            blocks=drawing.behind.title,
        )
        if not self.has_paper:
            return [here]
        book = _bars(
            [_papers(each, self.papers.get(each.name), drawing) for each in self.shown],
            _title(f"The paper{enlarged}", "the same designs" if self.remark else ""),
            f"CPU seconds per {drawing.per} connections, on its machine",
            self.order,
            drawing,
            width=NARROW if drawing.narrow else 330,
            names=drawing.narrow,
        )
        return [here, book]

    @property
    def order(self) -> list[str]:
        return [printable(each.name) for each in self.shown]


def _ours(each: ContenderSummary, drawing: _Drawing) -> dict[str, Any]:
    found = each.process_control_seconds
    blocks = drawing.behind.of_process_control(each, found, drawing.digits)
    return _mark(each) | _extent(found, drawing.digits) | {"blocks": blocks}


def _extent(interval: Interval | None, digits: int) -> dict[str, Any]:
    if interval is None:
        return {
            "value": None,
            "low": None,
            "high": None,
            "end": 0,
            "text": "not measured",
            "interval": "none",
        }
    low, high = interval.low, interval.high
    known = [value for value in (interval.value, high, 0.0) if value is not None]
    return {
        "value": interval.value,
        "low": low,
        "high": high,
        "end": max(known),
        "text": number(interval.value, digits),
        "interval": "none: too few blocks" if low is None or high is None else span(low, high, digits),
    }


def _papers(each: ContenderSummary, paper: PaperFigure | None, drawing: _Drawing) -> dict[str, Any]:
    figure, mark = paper.value if paper else None, drawing.marks.get(each.name, "")
    if figure is None:
        text = "" if each.control_of else f"not in the paper's table {mark}".rstrip()
    else:
        text = f"{number(figure, PAPER_DIGITS)} {mark}".rstrip()
    return _mark(each) | {
        "value": figure,
        "low": None,
        "high": None,
        "end": figure or 0,
        "text": text,
        "interval": "none given",
        "note": (paper.note if paper else None) or "",
    }


def _mark(each: ContenderSummary) -> dict[str, Any]:
    """A control has its design's colour as an outline."""
    return {
        "name": printable(each.name),
        "label": printable(each.label),
        "filling": 0.2 if each.control_of else 0.95,
        "note": "",
    }


def _scale(shown: Sequence[ContenderSummary], colours: Mapping[str, str]) -> dict[str, list[str]]:
    """The colours of these contenders; `colours` are by base."""
    return {
        "domain": [printable(each.name) for each in shown],
        "range": [colours[each.base] for each in shown],
    }


def _title(text: str, remark: str) -> alt.TitleParams:
    return alt.TitleParams(text, subtitle=remark) if remark else alt.TitleParams(text)


def _bars(
    data: list[dict[str, Any]],
    title: alt.TitleParams,
    axis: str,
    order: list[str],
    drawing: _Drawing,
    *,
    width: int,
    names: bool = True,
    blocks: str = "",
) -> alt.LayerChart:
    """Horizontal bars from zero with an interval each and the figure behind it; `blocks`: what they are
    called of which the pointer tells."""
    ends = [row["end"] for row in data]
    starts = [row["low"] for row in data if row["low"] is not None] + [0.0]
    span = (max(ends) - min(starts)) or 1.0
    # Room behind the longest bar for its figure.
    scale = {
        "domain": [min(starts) * 1.05, max(ends) + span * (0.42 if width < 250 else 0.26)],
        "nice": False,
    }
    y = alt.Y(
        "name:N",
        sort=order,
        title=None,
        axis={"labels": names, "ticks": False, "domain": False, "labelLimit": 190, "labelPadding": 7},
    )
    x = alt.X(
        "value:Q",
        title=axis,
        scale=scale,
        axis={"tickCount": 4 if width < 250 else 5, "grid": False, "format": FIGURES},
    )
    tooltip = [
        alt.Tooltip("label:N", title="design"),
        alt.Tooltip("text:N", title="seconds"),
        alt.Tooltip("interval:N", title="interval"),
        alt.Tooltip("blocks:N", title=blocks) if blocks else alt.Tooltip("note:N", title="note"),
    ]
    for row in data:
        row["spoken"] = f"{row['name']}: {row['text']} seconds, interval {row['interval']}"
        row["spoken"] += f", {blocks}: {row['blocks']}" if blocks else ""
    base = alt.Chart().encode(y=y)
    bars = base.mark_bar(height=13).encode(
        x=x,
        fill=alt.Fill("name:N", scale=drawing.colours, legend=None),
        stroke=alt.Stroke("name:N", scale=drawing.colours, legend=None),
        fillOpacity=alt.FillOpacity("filling:Q", scale=None),
        description=alt.Description("spoken:N"),
        tooltip=tooltip,
    )
    intervals = base.mark_rule(color=INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q")
    caps = [
        base.mark_tick(color=INK, thickness=1.5, height=7).encode(x=alt.X(f"{end}:Q"))
        for end in ("low", "high")
    ]
    measured = "isValid(datum.value)"
    text = base.mark_text(align="left", dx=6, color=INK, fontSize=11).encode(x="end:Q", text="text:N")
    figures = text.transform_filter(measured)
    reasons = text.transform_filter(f"!{measured}").mark_text(align="left", dx=6, color=MUTED, fontSize=10)
    zero = alt.Chart(inline([{"zero": 0}])).mark_rule(color=MUTED).encode(x="zero:Q")
    layers = alt.LayerChart(data=inline(data), layer=[bars, zero, intervals, *caps, figures, reasons])
    return layers.properties(title=title, width=width, height=alt.Step(ROW_HEIGHT))


# Clients per worker ---------------------------------------------------------------------------------------


def _shares(each: ContenderSummary, counts: Sequence[float], whose: str) -> list[dict[str, Any]]:
    even = sum(counts) / len(counts)
    return [
        _mark(each)
        | {"whose": whose, "share": count / even, "connections": round(count, 1)}
        | {"spoken": f"{each.name}, {whose}: {count / even:.2f} times an even share"}
        for count in counts
        if even > 0
    ]


def _strip(data: list[dict[str, Any]], colours: dict[str, list[str]], narrow: bool) -> alt.LayerChart:
    order = list(dict.fromkeys(row["name"] for row in data))
    whose = list(dict.fromkeys(row["whose"] for row in data))
    base = alt.Chart().encode(
        y=alt.Y(
            "name:N",
            sort=order,
            title=None,
            axis={"ticks": False, "domain": False, "labelLimit": 190, "labelPadding": 7, "grid": True},
        ),
        x=alt.X(
            "share:Q",
            title="connections of a worker; 1 is an even share"
            if narrow
            else "connections of a worker, as multiples of an even share",
            # Given, so that the axis stays when a pool is hidden.
            scale={"domain": [0, max((row["share"] for row in data), default=1.0)], "nice": True},
            axis={"tickCount": 5, "grid": False, "format": FIGURES},
        ),
        yOffset=alt.YOffset("whose:N", sort=whose, scale={"paddingOuter": 0.2}),
        color=alt.Color("name:N", scale=colours, legend=None),
        description=alt.Description("spoken:N"),
        tooltip=[
            alt.Tooltip("label:N", title="design"),
            alt.Tooltip("whose:N", title="measured on"),
            alt.Tooltip("connections:Q", title="connections of the worker"),
            alt.Tooltip("share:Q", title="times an even share", format=".2f"),
        ],
    )
    marks = {
        HERE: base.mark_tick(thickness=2, height=11, opacity=0.9),
        PAPER: base.mark_point(size=22, filled=False, opacity=0.9),
    }
    # A layer of which nothing is left has no extent, and Vega says so in the reader's console.
    layers = [
        mark.transform_filter(f"datum.whose === '{name}'") for name, mark in marks.items() if name in whose
    ]
    even = alt.Chart(inline([{"share": 1}])).mark_rule(color=MUTED, strokeDash=[4, 3]).encode(x="share:Q")
    chart = alt.LayerChart(data=inline(data), layer=[even, *layers])
    step = {"step": 24 if len(whose) < 2 else 34, "for": "position"}
    return chart.properties(width=NARROW if narrow else WIDE, height=step)
