"""Charts of the main table: the cost of process control, and how evenly a pool uses its workers.

Each function takes a `Summary` and returns a Vega-Lite specification with its data. It can be saved, embedded
in a page, or changed further. A figure of the source has the mark of its note, which the table explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from thunderherd.judge.summary.block_order import UNKNOWN, FiguresOfBlocks
from thunderherd.records.summary import (
    PROCESS_CONTROL,
    WORKERS,
    ContenderSummary,
    Estimate,
    PaperFigure,
    Summary,
)
from thunderherd.show.charts.axes import FIGURES
from thunderherd.show.charts.block_tooltips import BlocksBehind
from thunderherd.show.charts.style import INK, MUTED, caveats, colours_of, dressed
from thunderherd.show.charts.vega_lite import Chart, Rows, field, layer, layered, mark
from thunderherd.show.sentences.source_figures import notes_by_mark, papers_of
from thunderherd.text.figures import main_of, number, places, span
from thunderherd.text.printable import printable

__all__ = ["clients_per_worker_chart", "process_control_chart"]

STANDS_OUT = 4.0
"""The multiple of the median above which a contender squeezes the others, which get a panel without it."""

ROW_HEIGHT = 24
WIDE, NARROW = 720, 190
PAPER_DIGITS = 2
HERE, PAPER = "this machine", "the paper"


def process_control_chart(
    summary: Summary,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
    blocks: FiguresOfBlocks = UNKNOWN,
) -> Chart:
    """Draws the CPU time of process control: this machine's with intervals, next to the source's.

    The source's seconds come from another machine, so there are two panels with separate scales. If one
    contender dwarfs the others, a second row of panels shows the rest enlarged. `narrow` puts one panel below
    the other, for a telephone. Without `blocks`, tooltips only count the blocks.
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
        behind=BlocksBehind(summary, blocks),
    )
    panels = [row.panels(drawing) for row in rows]
    pairs = [
        {"vconcat": pair, "spacing": 18} if narrow else {"hconcat": pair, "spacing": 24} for pair in panels
    ]
    return dressed({"vconcat": pairs, "spacing": 30, **_remarks(summary, narrow)})


def clients_per_worker_chart(
    summary: Summary, *, narrow: bool = False, colours: Mapping[str, str] | None = None
) -> Chart:
    """Draws the connections of each worker of a pool as a tick; 1 is an even share.

    The source's are rings below the ticks; of several systems, those of the last. Shares make pools and runs
    of different lengths comparable. With `narrow` the chart fits a telephone.
    """
    data: Rows = []
    colours = colours or colours_of(summary)
    papers = {each.base: each.runs for each in papers_of(summary, None, WORKERS)}
    for each in main_of(summary):
        if each.worker_connections:
            data += _shares(each, each.worker_connections, HERE)
            if runs := papers.get(each.name):
                data += _shares(each, runs, PAPER)
    pools = [each for each in main_of(summary) if each.worker_connections]
    return dressed({**_strip(data, _scale(pools, colours), narrow), **_remarks(summary, narrow)})


def _remarks(summary: Summary, narrow: bool) -> Chart:
    """Gives the heading with the caveats of all figures; empty without any."""
    remarks = summary.study.remarks
    return {"title": caveats(remarks, NARROW if narrow else WIDE)} if remarks else {}


# Process control ------------------------------------------------------------------------------------------


def _standing_out(
    shown: Sequence[ContenderSummary], papers: Mapping[str, PaperFigure]
) -> list[ContenderSummary]:
    """Lists the contenders far above the others, on this machine or in the source."""
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
    """The settings that all panels of a chart share."""

    colours: dict[str, list[str]]
    digits: int
    marks: Mapping[str, str]
    per: str
    narrow: bool
    behind: BlocksBehind


class _Row:
    """Contenders that share a pair of panels: this machine's and the source's."""

    def __init__(
        self, shown: Sequence[ContenderSummary], papers: Mapping[str, PaperFigure], remark: str
    ) -> None:
        self.shown, self.papers, self.remark = shown, papers, remark
        self.has_paper = any(papers[each.name].value is not None for each in shown if each.name in papers)

    def panels(self, drawing: _Drawing) -> list[Chart]:
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


def _extent(interval: Estimate | None, digits: int) -> dict[str, Any]:
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
        text = "" if each.control_of else f"not in the source's table {mark}".rstrip()
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
    """Gives the fields of a contender's mark; a control has its design's colour as an outline."""
    return {
        "name": printable(each.name),
        "label": printable(each.label),
        "filling": 0.2 if each.control_of else 0.95,
        "note": "",
    }


def _scale(shown: Sequence[ContenderSummary], colours: Mapping[str, str]) -> dict[str, list[str]]:
    """Makes the scale of these contenders' colours; `colours` are by base."""
    return {
        "domain": [printable(each.name) for each in shown],
        "range": [colours[each.base] for each in shown],
    }


def _title(text: str, remark: str) -> Chart:
    return {"text": text, **({"subtitle": remark} if remark else {})}


def _bars(
    data: Rows,
    title: Chart,
    axis: str,
    order: list[str],
    drawing: _Drawing,
    *,
    width: int,
    names: bool = True,
    blocks: str = "",
) -> Chart:
    """Draws horizontal bars from zero, each with its interval and then its figure.

    `blocks` is the word for blocks in tooltips; empty: tooltips have notes instead.
    """
    ends = [row["end"] for row in data]
    starts = [row["low"] for row in data if row["low"] is not None] + [0.0]
    span = (max(ends) - min(starts)) or 1.0
    # Room after the longest bar for its figure.
    scale = {
        "domain": [min(starts) * 1.05, max(ends) + span * (0.42 if width < 250 else 0.26)],
        "nice": False,
    }
    y = field(
        "name:N",
        sort=order,
        title=None,
        axis={"labels": names, "ticks": False, "domain": False, "labelLimit": 190, "labelPadding": 7},
    )
    x = field(
        "value:Q",
        title=axis,
        scale=scale,
        axis={"tickCount": 4 if width < 250 else 5, "grid": False, "format": FIGURES},
    )
    tooltip = [
        field("label:N", title="design"),
        field("text:N", title="seconds"),
        field("interval:N", title="interval"),
        field("blocks:N", title=blocks) if blocks else field("note:N", title="note"),
    ]
    for row in data:
        row["spoken"] = f"{row['name']}: {row['text']} seconds, interval {row['interval']}"
        row["spoken"] += f", {blocks}: {row['blocks']}" if blocks else ""
    colour = field("name:N", scale=drawing.colours, legend=None)
    bars = layer(
        mark("bar", height=13),
        y=y,
        x=x,
        fill=colour,
        stroke=colour,
        fillOpacity=field("filling:Q", scale=None),
        description="spoken:N",
        tooltip=tooltip,
    )
    zero = layer(mark("rule", color=MUTED), [{"zero": 0}], x="zero:Q")
    intervals = layer(mark("rule", color=INK, strokeWidth=1.5), y=y, x="low:Q", x2="high")
    cap = mark("tick", color=INK, thickness=1.5, height=7)
    caps = [layer(cap, y=y, x=f"{end}:Q") for end in ("low", "high")]
    measured = "isValid(datum.value)"
    text: Chart = {"y": y, "x": "end:Q", "text": "text:N"}
    figures = layer(mark("text", align="left", dx=6, color=INK, fontSize=11), only=measured, **text)
    reasons = layer(mark("text", align="left", dx=6, color=MUTED, fontSize=10), only=f"!{measured}", **text)
    layers = [bars, zero, intervals, *caps, figures, reasons]
    return layered(layers, data, title=title, width=width, height={"step": ROW_HEIGHT})


# Clients per worker ---------------------------------------------------------------------------------------


def _shares(each: ContenderSummary, counts: Sequence[float], whose: str) -> Rows:
    even = sum(counts) / len(counts)
    return [
        _mark(each)
        | {"whose": whose, "share": count / even, "connections": round(count, 1)}
        | {"spoken": f"{each.name}, {whose}: {count / even:.2f} times an even share"}
        for count in counts
        if even > 0
    ]


def _strip(data: Rows, colours: dict[str, list[str]], narrow: bool) -> Chart:
    order = list(dict.fromkeys(row["name"] for row in data))
    whose = list(dict.fromkeys(row["whose"] for row in data))
    encoding: Chart = {
        "y": field(
            "name:N",
            sort=order,
            title=None,
            axis={"ticks": False, "domain": False, "labelLimit": 190, "labelPadding": 7, "grid": True},
        ),
        "x": field(
            "share:Q",
            title="connections of a worker; 1 is an even share"
            if narrow
            else "connections of a worker, as multiples of an even share",
            # A fixed domain keeps the axis when a pool is hidden.
            scale={"domain": [0, max((row["share"] for row in data), default=1.0)], "nice": True},
            axis={"tickCount": 5, "grid": False, "format": FIGURES},
        ),
        "yOffset": field("whose:N", sort=whose, scale={"paddingOuter": 0.2}),
        "color": field("name:N", scale=colours, legend=None),
        "description": field("spoken:N"),
        "tooltip": [
            field("label:N", title="design"),
            field("whose:N", title="measured on"),
            field("connections:Q", title="connections of the worker"),
            field("share:Q", title="times an even share", format=".2f"),
        ],
    }
    marks = {
        HERE: mark("tick", thickness=2, height=11, opacity=0.9),
        PAPER: mark("point", size=22, filled=False, opacity=0.9),
    }
    # Vega warns in the browser's console about a layer without rows.
    layers = [
        layer(drawn, only=f"datum.whose === '{name}'", **encoding)
        for name, drawn in marks.items()
        if name in whose
    ]
    even = layer(mark("rule", color=MUTED, strokeDash=[4, 3]), [{"share": 1}], x="share:Q")
    step = {"step": 24 if len(whose) < 2 else 34, "for": "position"}
    return layered([even, *layers], data, width=NARROW if narrow else WIDE, height=step)
