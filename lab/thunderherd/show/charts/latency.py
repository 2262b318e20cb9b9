"""Latency as percentile curves: a line for each contender; for a sweep, a panel for each point.

The axis of shares is stretched towards 1, because slow requests matter most: each further nine is as wide as
the one before. Both axes are logarithmic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from thunderherd.judge.summary.latency_curves import LatencyCurve
from thunderherd.records.summary import ContenderSummary, Summary, SweepSummary
from thunderherd.show.charts.axes import FIGURES, decade_ticks
from thunderherd.show.charts.style import NARROW, WIDE, colours_of, distinction, dressed, heading
from thunderherd.show.charts.vega_lite import Chart, Rows, field, layer, layered, mark
from thunderherd.show.tables.model import Cell, Table
from thunderherd.text.figures import Unit, decimals, number, unit_of
from thunderherd.text.printable import printable

__all__ = ["latency_chart", "latency_table"]

HEIGHT = 300
PANEL, PANEL_HEIGHT, COLUMNS, MOST_PANELS = 240, 190, 3, 9

TICKS = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %", 0.99999: "99.999 %"}
"""The shares with a tick on the axis and a column in the table, with their labels."""


def latency_chart(
    summary: Summary,
    curves: Mapping[str, LatencyCurve],
    sweep: SweepSummary | None = None,
    *,
    narrow: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Chart:
    """Draws the curves of the main table, or of a sweep."""
    shown = _shown(summary, curves, sweep)
    colours = colours or colours_of(summary)
    bases = list(dict.fromkeys(each.base for each in shown))
    unit = _unit(curves[each.name] for each in shown)
    rows = [row for each in shown for row in _rows(each, curves[each.name], unit)]
    apart = distinction(bases, colours, columns=1 if narrow else 5, labelLimit=220)
    points = _panels(sweep, shown)
    width = NARROW if narrow else PANEL if len(points) > 1 else WIDE
    height = PANEL_HEIGHT if narrow or len(points) > 1 else HEIGHT
    panels = []
    for point in points:
        mine = [row for row in rows if sweep is None or row["point"] == point]
        x, y = _axes(rows, unit, width)
        shared: Chart = {"x": x, "y": y, "color": apart.colour, "strokeDash": apart.dash}
        line = layer(mark("line", strokeWidth=1.8), **shared, description="name:N", detail="name:N")
        hover = layer(mark("point", size=40, opacity=0, filled=True), **shared, tooltip=_tooltip())
        title = f"latency of requests ({unit.name})"
        if sweep is not None:
            title = f"{sweep.x_label}: {point}"
        above = heading(printable(title), [], width)
        panels.append(layered([line, hover], mine, width=width, height=height, title=above))
    if len(panels) == 1 or narrow:
        return dressed({"vconcat": panels, "spacing": 22})
    return dressed({"concat": panels, "columns": COLUMNS, "spacing": 26})


def latency_table(
    summary: Summary, curves: Mapping[str, LatencyCurve], sweep: SweepSummary | None = None
) -> Table:
    """Shows the percentiles that have a tick on the axis, as a table."""
    shown = _shown(summary, curves, sweep)
    unit = _unit(curves[each.name] for each in shown)
    rows = []
    for each in shown:
        curve = curves[each.name]
        near = {share: _at(curve, share) for share in TICKS}
        digits = decimals([unit.of(value) for value in near.values() if value])
        cells = tuple(
            Cell("-" if value is None else number(unit.of(value), digits)) for value in near.values()
        )
        where = f" at {each.point}" if sweep is not None else ""
        rows.append((f"{each.base}{where}", (*cells, Cell(f"{curve.requests:,}"))))
    return Table.matrix(
        f"latency ({unit.name}) within which this share of all requests was answered",
        "Contender",
        (*TICKS.values(), "Requests"),
        rows,
        ["-: fewer than ten requests took longer"] if any(Cell("-") in cells for _, cells in rows) else [],
    )


def _at(curve: LatencyCurve, share: float) -> float | None:
    return next(
        (seconds for found, seconds in curve.points if math.isclose(found, share, rel_tol=1e-9)), None
    )


def _shown(
    summary: Summary, curves: Mapping[str, LatencyCurve], sweep: SweepSummary | None
) -> list[ContenderSummary]:
    name = sweep.name if sweep is not None else None
    return [each for each in summary.contenders if each.sweep == name and each.name in curves]


def _panels(sweep: SweepSummary | None, shown: Sequence[ContenderSummary]) -> list[str]:
    """Lists the points with a panel; of too many, evenly spaced ones with both ends."""
    if sweep is None:
        return [""]
    points = list(dict.fromkeys(printable(each.point or "") for each in shown))
    if len(points) <= MOST_PANELS:
        return points
    return [points[round(place * (len(points) - 1) / (MOST_PANELS - 1))] for place in range(MOST_PANELS)]


def _unit(curves: Any) -> Unit:
    """Chooses one unit for all curves: that of the longest median."""
    middles = [curve.points[len(curve.points) // 2][1] for curve in curves]
    return unit_of("latency_p50_seconds", 1, [max(middles)], {})


def _rows(each: ContenderSummary, curve: LatencyCurve, unit: Unit) -> Rows:
    digits = decimals([unit.of(seconds) for _, seconds in curve.points])
    return [
        {
            "name": printable(each.base),
            "point": printable(each.point or ""),
            "beyond": 1 / (1 - share),
            "value": unit.of(seconds),
            "share": f"{100 * share:.5g} % of {curve.requests:,} requests",
            "text": f"within {number(unit.of(seconds), digits)} {unit.name}",
        }
        for share, seconds in curve.points
    ]


def _tooltip() -> list[Chart]:
    return [
        field("name:N", title="contender"),
        field("share:N", title="answered"),
        field("text:N", title="latency"),
    ]


def _axes(rows: Sequence[Mapping[str, Any]], unit: Unit, width: int) -> tuple[Chart, Chart]:
    ends = [1.0, max(row["beyond"] for row in rows)]
    marks = {round(1 / (1 - share)): label for share, label in TICKS.items()}
    labels = json.dumps({str(mark): label for mark, label in marks.items()})
    x_axis = {
        "values": [mark for mark in marks if mark <= ends[1] * 1.0001],
        "labelExpr": f"({labels})[format(datum.value, 'd')]",
        "grid": True,
        "labelOverlap": "greedy",
    }
    values = [row["value"] for row in rows]
    ends_of_y = [min(values) / 1.15, max(values) * 1.15]
    x = field(
        "beyond:Q",
        title="share of requests answered" if width > NARROW else "share answered",
        axis=x_axis,
        scale={"type": "log", "domain": ends, "nice": False},
    )
    y = field(
        "value:Q",
        title=unit.name,
        axis={"grid": True, "values": decade_ticks(*ends_of_y), "format": FIGURES},
        scale={"type": "log", "domain": ends_of_y, "nice": False},
    )
    return x, y
