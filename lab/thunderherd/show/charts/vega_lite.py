"""Charts as Vega-Lite has them (https://vega.github.io/vega-lite/docs/spec.html): dictionaries, and the few
words that all of them are made of.

A chart is made of plain data on purpose: it is drawn at every end of a run, twice, and a library's objects
took longer to import and to copy than the chart to be drawn. The tests hold what is made here against
Vega-Lite's own schema.
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
"""Data: one dictionary a mark."""

TYPES = {"Q": "quantitative", "N": "nominal"}


def field(coded: str, **said: Any) -> Chart:
    """How a channel shows a field: `value:Q` is a quantity, `name:N` a name; without a letter it is of the
    axis that another channel has. `said`: its title, scale, axis, legend, format or sort."""
    name, _, letter = coded.partition(":")
    return {"field": name, **({"type": TYPES[letter]} if letter else {}), **said}


def mark(kind: str, **said: Any) -> Chart:
    """What is drawn for a row: bar, rule, tick, line, point, text, rect."""
    return {"type": kind, **said}


def layer(drawn: Chart, rows: Rows | None = None, *, only: str = "", **channels: Any) -> Chart:
    """One kind of mark.

    Parameters
    ----------
    drawn
        The mark.
    rows
        Its data; if not given, those of the layers together.
    only
        An expression that is true of the rows that are drawn.
    channels
        By Vega-Lite's names (x, y2, color), each as `field` has it, or its coded name alone.
    """
    return {
        **({} if rows is None else {"data": {"values": rows}}),
        **({"transform": [{"filter": only}]} if only else {}),
        "mark": drawn,
        "encoding": {name: field(each) if isinstance(each, str) else each for name, each in channels.items()},
    }


def layered(layers: Sequence[Chart], rows: Rows | None = None, **said: Any) -> Chart:
    """Layers on each other. `rows`: of those that have none of their own. `said`: title, width, height."""
    return {**({} if rows is None else {"data": {"values": rows}}), "layer": [*layers], **said}


def named_data(chart: Chart) -> Chart:
    """The chart with its data beside it, each once however many layers show it; the rows are not copied."""
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
    """The chart, and whatever it is put together from."""
    yield chart
    for how in ("hconcat", "vconcat", "concat", "layer"):
        for part in chart.get(how, ()):
            yield from _parts(part)


def copied(chart: Any) -> Any:
    """A chart of its own, but for its rows of data, which nobody changes once they are drawn."""
    if isinstance(chart, dict):
        return {key: each if key in ("values", "datasets") else copied(each) for key, each in chart.items()}
    return [copied(each) for each in chart] if isinstance(chart, list) else chart
