"""The chart of knees: the percentile over the rate, a line for each design, and the goal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from thunderherd.metrics.table import METRICS
from thunderherd.records.knee import KneeSummary
from thunderherd.show.charts import files
from thunderherd.show.charts.style import INK, WIDE, distinction, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, field, layer, layered, mark
from thunderherd.show.sentences.knee import goal_in_words, rate_in_words
from thunderherd.text.printable import printable

__all__ = ["knee_chart", "write_pictures"]

HEIGHT = 340
PICTURE = "knee"


NOT_KEPT_UP = "open triangle: in many trials the server did not keep up with the rate"


def knee_chart(summary: KneeSummary, colours: Mapping[str, str]) -> Chart:
    """Draws the percentile over the rate, on logarithmic axes; vertical lines are the knees.

    A rate that the server did not keep up with, in too many trials for an estimate, has an open triangle at
    the top and no line. `colours` are those of designs, by name, as in the reports of the search.
    """
    rows = [
        {
            "design": printable(design.name), "rate": point.rate, "latency": point.latency_seconds * 1e3,
            "low": (point.low or point.latency_seconds) * 1e3,
            "high": (point.high or point.latency_seconds) * 1e3,
        }
        for design in summary.designs
        for point in design.points
        if point.latency_seconds is not None
    ]  # fmt: skip
    highest = max(
        1e3 * (point.high or point.latency_seconds or 0.0)
        for design in summary.designs
        for point in design.points
    )
    beyond = [
        {"design": printable(design.name), "rate": point.rate, "latency": highest}
        for design in summary.designs
        for point in design.points
        if point.latency_seconds is None
    ]
    rates = [point.rate for design in summary.designs for point in design.points]
    x = field(
        "rate:Q",
        title="requests due per second",
        scale={"type": "log", "domain": [min(rates), max(rates)], "nice": False},
    )
    y = field("latency:Q", title="ms", scale={"type": "log"})
    apart = distinction([each.name for each in summary.designs], colours, by="design:N")
    base: Chart = {"x": x, "color": apart.colour}
    goal = [{"latency": summary.goal_seconds * 1e3}]
    low = field("low:Q", title="ms")
    layers = [
        layer(mark("rule", color=INK, strokeDash=[5, 4]), goal, y=y),
        layer(mark("rule", strokeWidth=1.6, opacity=0.6), rows, **base, y=low, y2="high"),
        layer(mark("line", strokeWidth=1.4), rows, **base, y=y),
        layer(mark("point", filled=True, size=50, opacity=1), rows, **base, y=y, shape=apart.shape),
    ]
    if beyond:
        layers.append(
            layer(
                mark("point", shape="triangle-up", size=80, opacity=1, strokeWidth=1.5), beyond, **base, y=y
            )
        )
    known = [
        {"design": printable(each.name), "rate": each.rate, "text": rate_in_words(each.rate)}
        for each in summary.designs
        if each.rate is not None
    ]
    if known:
        layers.append(layer(mark("rule", strokeDash=[2, 3]), known, **base))
        layers.append(layer(mark("text", align="left", dx=4, y=8), known, **base, text="text:N"))
    title = heading(
        f"{METRICS[summary.metric].words} over rate",
        [f"goal: {goal_in_words(summary)}", *([NOT_KEPT_UP] if beyond else [])],
        WIDE,
    )
    return dressed(layered(layers, width=WIDE, height=HEIGHT, title=title))


def write_pictures(summary: KneeSummary, directory: Path, colours: Mapping[str, str]) -> list[Path]:
    """Writes the chart as SVG and PNG, on white; returns the files, none if no latency is known.

    `colours` are those of designs, by name.
    """
    if not any(point.latency_seconds for design in summary.designs for point in design.points):
        return []
    return files.write_pictures(knee_chart(summary, colours), directory, PICTURE)
