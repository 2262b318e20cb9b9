"""What a chart becomes in a browser: contenders can be hidden, and its axes can be zoomed and moved.

A page has buttons in place of the chart's legend, which a keyboard reaches; `Series` says what they show. The
same chart on paper or in a file has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from thunderherd.show.charts.vega_lite import copied

__all__ = ["HIDDEN", "LiveChart", "Series", "live"]

HIDDEN = "hidden"
"""The chart's parameter: the names of contenders that are not drawn."""

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
"""The channels that tell contenders apart."""

WHEEL = "wheel![event.ctrlKey || event.altKey]"
"""With a key, since a page is scrolled by the wheel alone."""


@dataclass(frozen=True)
class Series:
    """A contender of a chart, as its button shows it."""

    name: str
    colour: str
    glyph: str


@dataclass(frozen=True)
class LiveChart:
    """A specification of Vega-Lite, and what the page offers beside it."""

    specification: dict[str, Any]
    series: tuple[Series, ...]
    zooms: tuple[tuple[tuple[str, str], ...], ...]
    """Of each panel that can be zoomed its axes, that which the buttons zoom first: the signal that holds
    what is seen of it, and its scale, by the names that Vega-Lite gives them."""


def live(specification: dict[str, Any], description: str, *, zoomed: bool = True) -> LiveChart:
    """The same chart, made to be handled. `description` is what a screen reader says of it."""
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
    """The parts that have axes of their own, and how the names of their scales begin."""
    for how in ("hconcat", "vconcat", "concat"):
        if how in specification:
            for place, part in enumerate(specification[how]):
                yield from _panels(part, f"{above}concat_{place}_")
            return
    yield above, specification


def _named(layer: dict[str, Any]) -> list[dict[str, Any]]:
    """The encodings by which a layer tells contenders apart: those that have a legend, and an axis of
    names."""
    encodings = layer.get("encoding", {})
    found = (encodings.get(channel) for channel in (*WITH_LEGEND, "y"))
    return [each for each in found if each and each.get("field") == "name"]


def _series(specification: dict[str, Any]) -> list[Series]:
    """Of the first panel that has them: name, colour and shape of each contender."""
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
    """By contender, what a channel shows it as."""
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
    """The axes that can be zoomed, those of quantities, with their fields: the upright one first."""
    encodings = layer.get("encoding", {})
    of = {axis: encodings.get(axis, {}) for axis in ("y", "x")}
    return {axis: each["field"] for axis, each in of.items() if each.get("type") == "quantitative"}


def _free(layer: dict[str, Any], are_bars: bool) -> None:
    """What is zoomed out of the panel is not drawn over its axes, nor held at their ends. A text is, which
    stands beside the last point of a line; of bars it would be drawn over what stands beside the panel."""
    mark = layer.get("mark")
    if isinstance(mark, dict) and (are_bars or mark.get("type") != "text"):
        mark["clip"] = True
    for encoding in layer.get("encoding", {}).values():
        scale = encoding.get("scale") if isinstance(encoding, dict) else None
        if isinstance(scale, dict):
            scale.pop("clamp", None)
