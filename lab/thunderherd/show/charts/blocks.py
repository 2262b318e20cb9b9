"""The trials in the order of the run, each divided by its contender's median.

The chart shows a drift over the run, or a burst of noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from thunderherd.judge.summary.block_order import COUNTS, KEPT, TrialSeen
from thunderherd.records.summary import Summary
from thunderherd.show.charts.axes import FIGURES, decade_ticks
from thunderherd.show.charts.style import INK, MUTED, NARROW, WIDE, colours_of, distinction, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, Rows, field, layer, layered, mark
from thunderherd.text.figures import number
from thunderherd.text.printable import printable

__all__ = ["MOST_TRIALS", "about", "blocks_chart"]

HEIGHT = 240

MOST_TRIALS = 1_500
"""The most trials with a mark each. With more, a mark is for all points of a contender in a block.

So a report stays small.
"""


FAR_APART = 4.0
"""Ratios that differ by more than this factor have a logarithmic axis."""


def about(trials: Sequence[TrialSeen]) -> str:
    """Explains the chart."""
    mark = (
        "A mark is a trial, in the order of the run"
        if len(trials) <= MOST_TRIALS
        else "A mark is the median of a contender's trials in a block, or in several consecutive ones"
    )
    text = f"{mark}: its figure divided by the median of its contender. "
    text += "The line is the median of all trials of a block."
    if any(each.state not in (COUNTS, KEPT) for each in trials):
        text += " Grey blocks do not count."
    return text


def blocks_chart(
    summary: Summary,
    trials: Sequence[TrialSeen],
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Chart:
    """Draws the ratio of each trial to its contender's median, over the run."""
    colours = colours or colours_of(summary)
    base_of = {each.name: each.base for each in summary.contenders}
    measured = {each.contender for each in trials}
    bases = list(dict.fromkeys(each.base for each in summary.contenders if each.name in measured))
    rows = _rows(trials, base_of) if len(trials) <= MOST_TRIALS else _medians(trials, base_of)
    width = NARROW if narrow else WIDE
    apart = distinction(bases, colours, columns=1 if narrow else 5, labelLimit=220)
    blocks = [each.block for each in trials]
    x = field(
        "at:Q",
        title="block, in the order of the run",
        scale={"domain": [min(blocks), max(blocks) + 1], "nice": False, "zero": False},
        axis={"grid": False, "tickMinStep": 1, "format": "d"},
    )
    y, bottom, top = _upright([row["ratio"] for row in rows])
    layers = []
    if away := _away(trials, bottom, top):
        tooltip = [field("block:N"), field("state:N")]
        shade = mark("rect", color=MUTED, opacity=0.18)
        layers.append(layer(shade, away, x=x, x2="end", y=y, y2="top", tooltip=tooltip))
    usual = [{"at": min(blocks), "end": max(blocks) + 1, "ratio": 1}]
    layers.append(layer(mark("rule", color=MUTED, strokeDash=[4, 3]), usual, x=x, x2="end", y=y))
    layers.append(
        layer(
            mark("point", filled=True, size=26, opacity=0.8),
            rows,
            x=x,
            y=y,
            color=apart.colour,
            shape=apart.shape,
            tooltip=[
                field("contender:N"),
                field("block:N"),
                field("place:N", title="place in the block"),
                field("text:N", title="ratio to median"),
                field("state:N", title="state of the block"),
            ],
        )
    )
    layers.append(layer(mark("line", color=INK, strokeWidth=1.6), _of_blocks(trials), x=x, y=y))
    title = heading("figure of each trial / median of its contender", [], width)
    return dressed(layered(layers, width=width, height=HEIGHT, title=title))


def _upright(ratios: Sequence[float]) -> tuple[Chart, float, float]:
    """Gives the axis of ratios and its ends.

    It is logarithmic if the ratios are far apart and none is zero. A trial has a ratio of zero if it used
    less CPU time than its clock resolves.
    """
    bottom, top = min(0.95, *ratios) / 1.02, max(1.05, *ratios) * 1.02
    axis = {"grid": True, "tickCount": 5, "format": FIGURES}
    scale: dict[str, Any] = {"domain": [bottom, top], "nice": False, "clamp": True}
    if top > FAR_APART * bottom > 0:
        scale["type"] = "log"
        axis = {"grid": True, "values": decade_ticks(bottom, top), "format": FIGURES}
    return field("ratio:Q", title="ratio to median", scale=scale, axis=axis), bottom, top


def _rows(trials: Sequence[TrialSeen], base_of: Mapping[str, str]) -> Rows:
    return [
        {
            "name": printable(base_of[each.contender]),
            "contender": printable(each.contender),
            "at": round(each.block + (each.position - 0.5) / each.of, 4),
            "ratio": _short(each.ratio),
            "block": str(each.block),
            "place": f"{each.position} of {each.of}",
            "text": number(each.ratio, 3),
            "state": each.state,
        }
        for each in trials
    ]


def _medians(trials: Sequence[TrialSeen], base_of: Mapping[str, str]) -> Rows:
    """Makes one row for all points of a contender in a block, or in several consecutive blocks."""
    first, last = min(each.block for each in trials), max(each.block for each in trials)
    contenders = len({base_of[each.contender] for each in trials})
    together = math.ceil((last - first + 1) * contenders / MOST_TRIALS)
    alike: dict[tuple[int, str], list[TrialSeen]] = {}
    for each in trials:
        start = each.block - (each.block - first) % together
        alike.setdefault((start, base_of[each.contender]), []).append(each)
    return [
        {
            "name": printable(base),
            "contender": printable(base),
            "at": start + together / 2,
            "ratio": _short(median([each.ratio for each in found])),
            "block": str(start) if together == 1 else f"{start} to {min(last, start + together - 1)}",
            "place": f"median of {len(found)} trials",
            "text": number(median([each.ratio for each in found]), 3),
            "state": found[0].state if together == 1 else "several",
        }
        for (start, base), found in alike.items()
    ]


def _of_blocks(trials: Sequence[TrialSeen]) -> Rows:
    by_block: dict[int, list[float]] = {}
    for each in trials:
        by_block.setdefault(each.block, []).append(each.ratio)
    return [
        {"at": block + 0.5, "ratio": _short(median(ratios))} for block, ratios in sorted(by_block.items())
    ]


def _away(trials: Sequence[TrialSeen], bottom: float, top: float) -> Rows:
    """Makes a row for each block that does not count."""
    states = {each.block: each.state for each in trials if each.state not in (COUNTS, KEPT)}
    return [
        {"at": block, "end": block + 1, "ratio": bottom, "top": top, "block": str(block), "state": state}
        for block, state in sorted(states.items())
    ]


def _short(value: float) -> float:
    """Rounds to four digits, as a chart shows no more."""
    return float(f"{value:.4g}") if math.isfinite(value) else value
