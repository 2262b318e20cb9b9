"""Interactive charts for a browser: contenders can be hidden, and axes can be zoomed and moved.

A page has buttons instead of the chart's legend, so that a keyboard reaches them; `Series` has their
contents. The same chart in print or in a file is not interactive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thunderherd.show.charts.vega_lite import copied

__all__ = ["HIDDEN", "LiveChart", "Series", "live"]

HIDDEN = "hidden"
"""The chart's parameter with the names of hidden contenders."""

GLYPHS = {
    "circle": "●",
    "square": "■",
    "triangle-up": "▲",
    "diamond": "◆",
    "triangle-down": "▼",
    "cross": "✚",
    "triangle-right": "▶",
    "triangle-left": "◀",
}
LINE, BLOCK = "━", "■"

WITH_LEGEND = ("color", "fill", "stroke", "shape", "strokeDash")
"""The channels that distinguish contenders."""

WHEEL = "wheel![event.ctrlKey || event.altKey]"
"""The wheel with a key, since the wheel alone scrolls the page."""


@dataclass(frozen=True)
class Series:
    """A contender of a chart, as its button shows it."""

    name: str
    colour: str
    glyph: str


@dataclass(frozen=True)
class LiveChart:
    """A Vega-Lite specification, and the controls that the page adds."""

    specification: dict[str, Any]
    series: tuple[Series, ...]
    zooms: tuple[tuple[tuple[str, str], ...], ...]
    """The axes of each panel that can be zoomed; the buttons zoom the first of them.

    An axis is the names that Vega-Lite gives its signal, which holds the visible range, and its scale.
    """


def live(specification: dict[str, Any], description: str, *, zoomed: bool = True) -> LiveChart:
    """Makes a chart interactive. `description` is its text for screen readers."""
    found = copied(specification)
    found["description"] = description
    series, zooms = _series(found), []
    if len(series) > 1:
        found["params"] = [{"name": HIDDEN, "value": []}]
    for place, (above, panel) in enumerate(_panels(found)):
        layers = panel.get("layer", [panel])
        for layer in layers:
            if len(series) > 1:
                _let_hide(layer)
        if zoomed and (fields := _fields(layers[0])):
            name = f"zoom{place}"
            select = {"type": "interval", "encodings": [*fields], "zoom": WHEEL, "clear": "dblclick"}
            layers[0].setdefault("params", []).append({"name": name, "select": select, "bind": "scales"})
            zooms.append(tuple((f"{name}_{field}", f"{above}{axis}") for axis, field in fields.items()))
            for layer in layers:
                _free(layer, "y" not in fields)
    return LiveChart(found, tuple(series) if len(series) > 1 else (), tuple(zooms))


def _panels(specification: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the parts with separate axes, and the prefix of the names of their scales."""
    for how in ("hconcat", "vconcat", "concat"):
        if how in specification:
            for place, part in enumerate(specification[how]):
                yield from _panels(part, f"{above}concat_{place}_")
            return
    yield above, specification


def _named(layer: dict[str, Any]) -> list[dict[str, Any]]:
    """Lists the encodings by which a layer distinguishes contenders: legends, and an axis of names."""
    encodings = layer.get("encoding", {})
    found = (encodings.get(channel) for channel in (*WITH_LEGEND, "y"))
    return [each for each in found if each and each.get("field") == "name"]


def _series(specification: dict[str, Any]) -> list[Series]:
    """Lists name, colour and shape of each contender, from the first panel that has them."""
    for _, panel in _panels(specification):
        layers = [each.get("encoding", {}) for each in panel.get("layer", [panel])]
        colours = _ranges(layers, "color") or _ranges(layers, "fill")
        shapes = _ranges(layers, "shape")
        other = LINE if _ranges(layers, "strokeDash") else BLOCK
        if colours:
            return [
                Series(name, colour, GLYPHS.get(shapes.get(name, ""), other))
                for name, colour in colours.items()
            ]
    return []


def _ranges(encodings: list[dict[str, Any]], channel: str) -> dict[str, str]:
    """Gives the value of a channel by contender."""
    for each in encodings:
        found = each.get(channel) or {}
        scale = found.get("scale") or {}
        if found.get("field") == "name" and "domain" in scale:
            return dict(zip(scale["domain"], scale["range"], strict=True))
    return {}


def _let_hide(layer: dict[str, Any]) -> None:
    if _named(layer):
        layer.setdefault("transform", []).append({"filter": f"indexof({HIDDEN}, datum.name) < 0"})
    for channel in WITH_LEGEND:
        if (each := layer.get("encoding", {}).get(channel)) and each.get("field") == "name":
            each["legend"] = None


def _fields(layer: dict[str, Any]) -> dict[str, str]:
    """Gives the fields of the axes that can be zoomed, which are those of quantities; the vertical first."""
    encodings = layer.get("encoding", {})
    of = {axis: encodings.get(axis, {}) for axis in ("y", "x")}
    return {axis: each["field"] for axis, each in of.items() if each.get("type") == "quantitative"}


def _free(layer: dict[str, Any], are_bars: bool) -> None:
    """Clips a layer to its panel when it is zoomed, and lets figures leave the ends of its axes.

    Texts after the last point of a line are not clipped. Those of bars are, as they would cover the next
    panel.
    """
    mark = layer.get("mark")
    if isinstance(mark, dict) and (are_bars or mark.get("type") != "text"):
        mark["clip"] = True
    for encoding in layer.get("encoding", {}).values():
        scale = encoding.get("scale") if isinstance(encoding, dict) else None
        if isinstance(scale, dict):
            scale.pop("clamp", None)
