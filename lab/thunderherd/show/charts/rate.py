"""Latency over rate, with all designs of a run in one panel: its sweeps over the rate of an open load."""

from __future__ import annotations

from collections.abc import Mapping

from thunderherd.judge.summary.block_order import UNKNOWN, FiguresOfBlocks
from thunderherd.metrics.table import is_latency
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.show.charts.axes import FIGURES
from thunderherd.show.charts.block_tooltips import BlocksBehind
from thunderherd.show.charts.style import NARROW, WIDE, colours_of, distinction, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, field, layer, layered, mark
from thunderherd.text.figures import BETWEEN, number, words_of
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_points, digits_for, shown_of, unit_for

__all__ = ["over_rate", "rate_chart"]

RATE = "load.settings.rate"
HEIGHT = 320


def over_rate(summary: Summary) -> list[SweepSummary]:
    """Lists the sweeps over a rate that share their first metric, a latency.

    Empty if there is only one, which has its own chart.
    """
    found = [each for each in summary.sweeps if each.key == RATE and is_latency(each.metric)]
    alike = [each for each in found if each.metric == found[0].metric]
    return alike if len(alike) > 1 else []


def rate_chart(
    summary: Summary,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
    blocks: FiguresOfBlocks = UNKNOWN,
) -> Chart:
    """Draws latency over rate on logarithmic axes; a design has no mark at a rate without a figure.

    `colours` are those of contenders, by base (default: those of this run). Without `blocks`, tooltips only
    count the blocks.
    """
    sweeps = over_rate(summary)
    metric, label = sweeps[0].metric, sweeps[0].x_label
    found = {
        (base, point.number): (contender, shown)
        for sweep in sweeps
        for (base, name), contender in at_points(summary, sweep).items()
        for point in sweep.points
        if point.name == name and point.number is not None
        if (shown := shown_of(summary, contender, metric)) is not None
    }
    figures = {key: each for key, (_, each) in found.items()}
    behind = BlocksBehind(summary, blocks)
    unit = unit_for(summary, metric, figures.values())
    digits = digits_for([unit.of(each.value) for each in figures.values()], metric)
    # A logarithmic axis has no zero: if a deviation reaches below it, that side has no line.
    ends = {
        key: (each.low if each.low and each.low > 0 else each.value, each.high or each.value)
        for key, each in figures.items()
    }
    rows = [
        {
            "name": printable(base), "rate": rate, "value": unit.of(each.value),
            "low": unit.of(ends[base, rate][0]), "high": unit.of(ends[base, rate][1]),
            "spoken": f"{base} at {rate:,.0f}: {number(unit.of(each.value), digits)} {unit.name}",
            "text": f"{number(unit.of(each.value), digits)} {unit.name}",
            "interval": each.span(unit, digits, BETWEEN) or "one run",
            "blocks": behind.of_metric(contender, metric, unit, digits),
        }
        for (base, rate), (contender, each) in found.items()
    ]  # fmt: skip
    bases = list(dict.fromkeys(base for base, _ in figures))
    apart = distinction(bases, colours or colours_of(summary))
    x = field(
        "rate:Q", title=label, scale={"type": "log", "nice": False}, axis={"format": FIGURES, "tickCount": 8}
    )
    y = field("value:Q", title=unit.name, scale={"type": "log"}, axis={"format": FIGURES})
    tooltip = [
        field("name:N", title="contender"),
        field("rate:Q", title=label, format=FIGURES),
        field("text:N", title="figure"),
        field("interval:N", title="interval"),
        field("blocks:N", title=behind.title),
    ]
    base: Chart = {"x": x, "color": apart.colour}
    low = field("low:Q", title=unit.name)
    details: Chart = {"description": "spoken:N", "tooltip": tooltip}
    point = mark("point", filled=True, size=50, opacity=1)
    layers = [
        layer(mark("rule", strokeWidth=1.6, opacity=0.6), **base, y=low, y2="high"),
        layer(mark("line", strokeWidth=1.4), **base, y=y),
        layer(point, **base, y=y, shape=apart.shape, **details),
    ]
    width = NARROW if narrow else WIDE
    is_mean = any(each.is_mean for each in figures.values())
    around = "means of runs; vertical lines: standard deviation" if is_mean else "vertical lines: intervals"
    title = heading(f"{words_of(metric)} over rate", [around], width)
    return dressed(layered(layers, rows, width=width, height=HEIGHT, title=title))
