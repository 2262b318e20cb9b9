"""Vega-Lite specifications (https://vega.github.io/vega-lite/docs/spec.html) as dictionaries.

A chart is plain data on purpose. It is drawn twice at the end of every run, and the objects of a library took
longer to import and copy than the chart to draw. The tests check charts against Vega-Lite's own schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["SCHEMA", "VERSION", "Chart", "Rows", "copied", "field", "layer", "layered", "mark", "named_data"]

VERSION = "6.4"
SCHEMA = f"https://vega.github.io/schema/vega-lite/v{VERSION}.1.json"

Chart = dict[str, Any]
"""A specification, or a part of one."""

Rows = list[dict[str, Any]]
"""Data: one dictionary for each mark."""

TYPES = {"Q": "quantitative", "N": "nominal"}


def field(coded: str, **properties: Any) -> Chart:
    """Makes the encoding of a field: `value:Q` is a quantity, `name:N` a name.

    Without a letter it has the type of another channel on the same axis. `properties` are title, scale, axis,
    legend, format or sort.
    """
    name, _, letter = coded.partition(":")
    return {"field": name, **({"type": TYPES[letter]} if letter else {}), **properties}


def mark(kind: str, **properties: Any) -> Chart:
    """Makes the mark of a row: bar, rule, tick, line, point, text, rect."""
    return {"type": kind, **properties}


def layer(drawn: Chart, rows: Rows | None = None, *, only: str = "", **channels: Any) -> Chart:
    """Makes a layer with one kind of mark.

    Parameters
    ----------
    drawn
        The mark.
    rows
        Its data (default: the data that all layers share).
    only
        An expression that is true for the rows to draw.
    channels
        Encodings by Vega-Lite's names (x, y2, color): results of `field`, or coded names.
    """
    return {
        **({} if rows is None else {"data": {"values": rows}}),
        **({"transform": [{"filter": only}]} if only else {}),
        "mark": drawn,
        "encoding": {name: field(each) if isinstance(each, str) else each for name, each in channels.items()},
    }


def layered(layers: Sequence[Chart], rows: Rows | None = None, **properties: Any) -> Chart:
    """Puts layers on each other.

    `rows` are the data of layers without their own. `properties` are title, width, height.
    """
    return {**({} if rows is None else {"data": {"values": rows}}), "layer": [*layers], **properties}


def named_data(chart: Chart) -> Chart:
    """Moves the data of a chart to `datasets`, each once for all layers; rows are not copied."""
    found: Chart = copied(chart)
    names: dict[int, str] = {}
    datasets: dict[str, Rows] = {}
    for part in _parts(found):
        if "data" in part:
            rows = part["data"]["values"]
            name = names.setdefault(id(rows), f"data{len(names)}")
            datasets[name], part["data"] = rows, {"name": name}
    return {**found, "datasets": datasets}


def _parts(chart: Chart) -> Iterator[Chart]:
    """Yields the chart and all its parts."""
    yield chart
    for how in ("hconcat", "vconcat", "concat", "layer"):
        for part in chart.get(how, ()):
            yield from _parts(part)


def copied(chart: Any) -> Any:
    """Copies a chart, except its rows of data, which do not change once they are drawn."""
    if isinstance(chart, dict):
        return {key: each if key in ("values", "datasets") else copied(each) for key, each in chart.items()}
    return [copied(each) for each in chart] if isinstance(chart, list) else chart
