"""The order in which trials ran, and how far each was from its contender's usual figure: a drift over the run
or a burst of noise shows here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from thunderherd.judge.summary.block_order import COUNTS, KEPT, TrialSeen
from thunderherd.records.summary import Summary
from thunderherd.show.charts.axes import FIGURES, decade_ticks
from thunderherd.show.charts.style import INK, MUTED, NARROW, WIDE, colours_of, dressed, heading, told_apart
from thunderherd.show.charts.vega_lite import Chart, Rows, field, layer, layered, mark
from thunderherd.text.figures import number, printable

__all__ = ["MOST_TRIALS", "about", "blocks_chart"]

HEIGHT = 240

MOST_TRIALS = 1_500
"""Of more trials than this, a mark is all those of a contender in a block, whatever their points: a report
stays small."""


FAR_APART = 4.0
"""Ratios that differ by more than this factor have a logarithmic axis."""


def about(trials: Sequence[TrialSeen]) -> str:
    """What is seen in the picture."""
    what = (
        "A mark is a trial, in the order in which they ran"
        if len(trials) <= MOST_TRIALS
        else "A mark is the median of a contender's trials in a block, or in some that follow on each other"
    )
    text = f"{what}: its figure over the median of its contender's; 1 is as usual, above it more. "
    text += "The line is the median of each block, all contenders together."
    if any(each.state not in (COUNTS, KEPT) for each in trials):
        text += " Grey: a block that does not count."
    return text


def blocks_chart(
    summary: Summary,
    trials: Sequence[TrialSeen],
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Chart:
    """Ratios of trials to what is usual, over the run."""
    colours = colours or colours_of(summary)
    base_of = {each.name: each.base for each in summary.contenders}
    measured = {each.contender for each in trials}
    bases = list(dict.fromkeys(each.base for each in summary.contenders if each.name in measured))
    rows = _rows(trials, base_of) if len(trials) <= MOST_TRIALS else _medians(trials, base_of)
    width = NARROW if narrow else WIDE
    apart = told_apart(bases, colours, columns=1 if narrow else 5, labelLimit=220)
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
                field("place:N", title="place in it"),
                field("text:N", title="times the usual"),
                field("state:N", title="block"),
            ],
        )
    )
    layers.append(layer(mark("line", color=INK, strokeWidth=1.6), _of_blocks(trials), x=x, y=y))
    title = heading("figure of each trial over its usual one", [], width)
    return dressed(layered(layers, width=width, height=HEIGHT, title=title))


def _upright(ratios: Sequence[float]) -> tuple[Chart, float, float]:
    """The axis of ratios and its ends: logarithmic where they are far apart and none is zero, as a trial's is
    that used less CPU time than its clock tells."""
    bottom, top = min(0.95, *ratios) / 1.02, max(1.05, *ratios) * 1.02
    axis = {"grid": True, "tickCount": 5, "format": FIGURES}
    scale: dict[str, Any] = {"domain": [bottom, top], "nice": False, "clamp": True}
    if top > FAR_APART * bottom > 0:
        scale["type"] = "log"
        axis = {"grid": True, "values": decade_ticks(bottom, top), "format": FIGURES}
    return field("ratio:Q", title="times the usual", scale=scale, axis=axis), bottom, top


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
    """One row for all points of a contender in a block; where these are too many, in several blocks that
    follow on each other."""
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
    """The blocks that do not count."""
    states = {each.block: each.state for each in trials if each.state not in (COUNTS, KEPT)}
    return [
        {"at": block, "end": block + 1, "ratio": bottom, "top": top, "block": str(block), "state": state}
        for block, state in sorted(states.items())
    ]


def _short(value: float) -> float:
    """To four digits: a chart shows no more."""
    return float(f"{value:.4g}") if math.isfinite(value) else value
