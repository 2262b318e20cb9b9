"""The picture of knees: the percentile over the rate, a line for each design, and the goal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import altair as alt

from thunderherd import chart_files
from thunderherd.drawing import INK, WIDE, dressed, heading, inline, shapes_of
from thunderherd.figures import printable
from thunderherd.knee_form import KneeSummary
from thunderherd.knee_words import goal_in_words, rate_in_words
from thunderherd.metrics import METRICS

__all__ = ["knee_chart", "write_pictures"]

HEIGHT = 340
PICTURE = "knee"


def knee_chart(summary: KneeSummary, colours: Mapping[str, str]) -> alt.LayerChart:
    """Both axes logarithmic; what a server did not keep up with has no mark. Upright lines: the knees.
    `colours`: of designs by their names, as the reports of the search have them."""
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
    rates = [point.rate for design in summary.designs for point in design.points]
    x = alt.X(
        "rate:Q",
        title="requests that are due per second",
        scale={"type": "log", "domain": [min(rates), max(rates)], "nice": False},
    )
    y = alt.Y("latency:Q", title="ms", scale={"type": "log"})
    names, legend = [printable(each.name) for each in summary.designs], {"title": None, "orient": "top"}
    colour = alt.Color(
        "design:N",
        scale={"domain": names, "range": [colours[each.name] for each in summary.designs]},
        legend=legend,
    )
    shape = alt.Shape("design:N", scale={"domain": names, "range": shapes_of(names)}, legend=legend)
    base = alt.Chart(inline(rows)).encode(x=x, color=colour)
    goal = alt.Chart(inline([{"latency": summary.goal_seconds * 1e3}]))
    layers: list[alt.Chart] = [
        goal.mark_rule(color=INK, strokeDash=[5, 4]).encode(y=y),
        base.mark_rule(strokeWidth=1.6, opacity=0.6).encode(y=alt.Y("low:Q", title="ms"), y2="high:Q"),
        base.mark_line(strokeWidth=1.4).encode(y=y),
        base.mark_point(filled=True, size=50, opacity=1).encode(y=y, shape=shape),
    ]
    known = [
        {"design": printable(each.name), "rate": each.rate, "text": rate_in_words(each.rate)}
        for each in summary.designs
        if each.rate is not None
    ]
    if known:
        knees = alt.Chart(inline(known)).encode(x=x, color=colour)
        layers.append(knees.mark_rule(strokeDash=[2, 3]))
        layers.append(knees.mark_text(align="left", dx=4, y=8).encode(text="text:N"))
    title = heading(f"{METRICS[summary.metric].words} over rate", [f"goal: {goal_in_words(summary)}"], WIDE)
    return dressed(alt.LayerChart(layer=layers).properties(width=WIDE, height=HEIGHT, title=title))


def write_pictures(summary: KneeSummary, directory: Path, colours: Mapping[str, str]) -> list[Path]:
    """Writes the picture as SVG and as PNG, on white; returns the files, of which there are none
    where nothing is known. `colours`: of designs by their names."""
    if not any(point.latency_seconds for design in summary.designs for point in design.points):
        return []
    specification = knee_chart(summary, colours).to_dict(validate=False)
    return chart_files.write_pictures(specification, directory, PICTURE)
