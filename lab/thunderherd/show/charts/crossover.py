"""The chart of a crossover: the ratio of two costs over size, with both stages, the line and its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thunderherd.records.crossover import CrossoverPoint, CrossoverSummary
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.show.charts import files
from thunderherd.show.charts.axes import FIGURES, NumberAxis
from thunderherd.show.charts.style import INK, MUTED, WIDE, colours_of, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, field, layer, layered, mark
from thunderherd.text.figures import ABSENT, number, ratio_digits, span
from thunderherd.text.printable import printable
from thunderherd.toml.quantities import amount

__all__ = ["about", "crossover_chart", "write_pictures"]

NARROW, HEIGHT, LOW_HEIGHT = 300, 300, 230
NEITHER = "neither ahead"
PICTURE = "crossover"

ABOVE = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1_000, 10_000)
BELOW = (0.98, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0001)
"""The possible ticks of the axis of ratios, from 1 outward."""
MOST_TICKS = 4
"""The most ticks on either side of 1."""


def about(summary: Summary, sweep: SweepSummary) -> str:
    """Explains the chart."""
    found = _crossover_of(sweep)
    band = f"{summary.study.equivalence_percent:g}"
    text = (
        f"The cost of {found.a} divided by that of {found.b}; below 1, {found.a} is ahead. Both axes are "
        "logarithmic. A mark is the estimate at one size, and the bar is its interval. The colour is that of "
        "the contender that is significantly ahead; grey: neither. Within the grey band they differ by less "
        f"than {band} %."
    )
    if any(point.fitted for point in found.points):
        text += " Dashes: the monotone estimate of the coarse stage."
    if found.estimate is not None:
        is_bounded = found.estimate.low is not None
        text += " Line: the straight line of the dense stage. "
        text += (
            "The vertical line is its crossing, with the interval."
            if is_bounded
            else "The interval of its crossing is unbounded."
        )
    return text


def crossover_chart(
    summary: Summary,
    sweep: SweepSummary,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Chart:
    """Draws the ratio over size of a sweep that requests its crossover. `narrow`: for a telephone."""
    found = _crossover_of(sweep)
    width, height = (NARROW, LOW_HEIGHT) if narrow else (WIDE, HEIGHT)
    coarse = [point.size for point in found.points if point.stage == "coarse"]
    axis = NumberAxis(coarse or [point.size for point in found.points], "logarithmic", width, 1)
    colours = colours or colours_of(summary)
    names = [printable(found.a), printable(found.b), NEITHER]
    x, (y, domain) = axis.encoding("size", sweep.x_label, _labels(found)), _y(found, summary)
    colour = field(
        "ahead:N",
        scale={"domain": names, "range": [colours[found.a], colours[found.b], MUTED]},
        legend={"title": "significantly ahead", "orient": "top", "symbolSize": 70},
    )
    rows = [_row(found, point) for point in found.points]
    points: Chart = {"x": x, "color": colour}
    layers = [*_ground(found, summary, x, y, axis.ends, domain), *_lines(found, x, y)]
    if any(row["low"] is not None and row["high"] is not None for row in rows):
        bar, bounded = (
            mark("rule", strokeWidth=1.6, opacity=0.75),
            "isValid(datum.low) && isValid(datum.high)",
        )
        layers.append(layer(bar, rows, only=bounded, **points, y=_of(y, "low"), y2="high"))
    shape = field(
        "stage:N",
        scale={"domain": ["coarse", "dense"], "range": ["circle", "diamond"]},
        legend={"title": "stage", "orient": "top", "symbolSize": 70, "symbolFillColor": MUTED}
        if found.stage == "dense"
        else None,
    )
    tooltip = [
        field("at:N", title=sweep.x_label),
        field("stage:N"),
        field("text:N", title="ratio"),
        field("interval:N"),
        field("blocks:N"),
        field("standing:N"),
    ]
    drawn = mark("point", filled=True, size=55, opacity=1)
    layers.append(layer(drawn, rows, **points, y=y, shape=shape, tooltip=tooltip, description="spoken:N"))
    # The chart is also a separate file, so it contains the caveats of its figures.
    title = heading(f"cost of {printable(found.a)} / cost of {printable(found.b)}", sweep.remarks, width)
    return dressed(layered(layers, width=width, height=height, title=title))


def write_pictures(summary: Summary, sweep: SweepSummary, directory: Path) -> list[Path]:
    """Writes the chart as SVG and PNG, on white; returns the files, none if there is nothing to draw."""
    if not _crossover_of(sweep).points:
        return []
    return files.write_pictures(crossover_chart(summary, sweep), directory, PICTURE)


def _crossover_of(sweep: SweepSummary) -> CrossoverSummary:
    assert sweep.crossover is not None, "only for a sweep that requests its crossover"
    return sweep.crossover


def _row(found: CrossoverSummary, point: CrossoverPoint) -> dict[str, Any]:
    ahead = {"a": printable(found.a), "b": printable(found.b)}.get(point.standing, NEITHER)
    digits = ratio_digits(point.ratio, point.high)
    text, size = number(point.ratio, digits), amount(point.size, found.unit)
    interval = span(point.low, point.high, digits)
    standing = f"{ahead} ahead" if point.standing in ("a", "b") else point.standing
    blocks = found.blocks if point.stage == found.stage else found.coarse_blocks
    return {
        "size": point.size,
        "ratio": point.ratio,
        "low": point.low,
        "high": point.high,
        "ahead": ahead,
        "stage": point.stage,
        "standing": standing,
        "at": size,
        "text": text,
        "interval": interval,
        "blocks": str(blocks or ABSENT),
        "spoken": f"at {size}, {point.stage} stage: ratio {text}, {interval}, {standing}",
    }


# Scales -----------------------------------------------------------------------------------------------------


def _labels(found: CrossoverSummary) -> dict[float, str]:
    """Labels the sizes as sentences do, without the unit, which the axis has."""
    sizes = {point.size for point in found.points}
    return {
        size: amount(size, found.unit).partition(" (")[0].removesuffix(f" {found.unit}") for size in sizes
    }


def _y(found: CrossoverSummary, summary: Summary) -> tuple[Chart, tuple[float, float]]:
    """Makes a logarithmic axis around 1 with room for every figure and the equivalence band."""
    band = 1 + summary.study.equivalence_percent / 100
    values = [each for point in found.points for each in (point.ratio, point.low, point.high) if each]
    low, high = min([*values, 1 / band]), max([*values, band])
    room = (high / low) ** 0.05
    domain = (low / room, high * room)
    ticks = [1.0, *_ticks(BELOW, domain), *_ticks(ABOVE, domain)]
    axis = {"values": sorted(ticks), "grid": False, "format": FIGURES}
    scale = {"type": "log", "domain": list(domain), "nice": False, "clamp": True}
    return field("ratio:Q", title=None, axis=axis, scale=scale), domain


def _ticks(candidates: Sequence[float], domain: tuple[float, float]) -> list[float]:
    """Chooses ticks inside the domain, the outermost first, that are far enough apart in logarithms."""
    inside = [each for each in candidates if domain[0] <= each <= domain[1]]
    kept: list[float] = []
    for each in reversed(inside):
        if not kept or abs(math.log(each)) <= abs(math.log(kept[-1])) / 1.6:
            kept.append(each)
    return kept[:MOST_TICKS]


def _of(y: Chart, name: str) -> Chart:
    """Copies the axis for another field."""
    return {**y, "field": name}


# Layers -----------------------------------------------------------------------------------------------------


def _ground(
    found: CrossoverSummary,
    summary: Summary,
    x: Chart,
    y: Chart,
    ends: tuple[float, float],
    domain: tuple[float, float],
) -> list[Chart]:
    """Draws the band of equivalence, the interval of the crossing, and the line of no difference."""
    band = 1 + summary.study.equivalence_percent / 100
    flat = [{"size": ends[0], "end": ends[1], "ratio": 1 / band, "top": band, "one": 1}]
    layers = [
        layer(mark("rect", color=MUTED, opacity=0.13), flat, x=x, x2="end", y=y, y2="top"),
        layer(mark("rule", color=INK, strokeWidth=1), flat, x=x, x2="end", y=_of(y, "one")),
    ]
    at = found.estimate
    if at is None or at.low is None or at.high is None:
        return layers
    low, high = (min(max(each, ends[0]), ends[1]) for each in (at.low, at.high))
    row = {"size": low, "end": high, "ratio": domain[0], "top": domain[1]}
    layers.append(layer(mark("rect", color=INK, opacity=0.12), [row], x=x, x2="end", y=y, y2="top"))
    row = {"size": min(max(at.value, ends[0]), ends[1]), "ratio": domain[0], "top": domain[1]}
    layers.append(layer(mark("rule", color=INK, strokeDash=[3, 3]), [row], x=x, y=y, y2="top"))
    return layers


def _lines(found: CrossoverSummary, x: Chart, y: Chart) -> list[Chart]:
    """Draws the monotone estimate of the coarse stage, and the straight line of the dense one."""
    layers = []
    fitted = [{"size": each.size, "ratio": each.fitted} for each in found.points if each.fitted]
    if len(fitted) > 1:
        drawn = mark("line", color=MUTED, strokeDash=[5, 4], strokeWidth=1.2)
        layers.append(layer(drawn, fitted, x=x, y=y))
    dense = [point.size for point in found.points if point.stage == "dense"]
    if found.estimate is not None and dense:
        ends = zip((dense[0], dense[-1]), found.estimate.ends, strict=True)
        straight = [{"size": size, "ratio": ratio} for size, ratio in ends]
        layers.append(layer(mark("line", color=INK, strokeWidth=1.8), straight, x=x, y=y))
    return layers
