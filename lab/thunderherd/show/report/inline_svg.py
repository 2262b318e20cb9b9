"""Flame graphs inside the report: the rectangles of the engine's SVG, without its scripts and styles.

The page's policy forbids such scripts. So rectangles are read and written again: only numbers, colours and
escaped texts are copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from markupsafe import Markup, escape

from thunderherd.files import read_bytes

SVG = "{http://www.w3.org/2000/svg}"
WIDTH = 1180
"""The width of all frames, in inferno's units for fitting names."""
CHARACTER, PADDING = 7.08, 6.0
"""The width of a character of the monospaced font of 12, and the space around a name."""
LEAST_CHARACTERS = 3
LARGEST_LENGTH = 1e9
"""The largest length that is read; inferno's are below a million."""
COLOUR = re.compile(r"rgb\(\d{1,3},\d{1,3},\d{1,3}\)")


@dataclass(frozen=True)
class FlameGraph:
    """A flame graph as an SVG element, and its file, which can be searched and enlarged."""

    title: str
    svg: Markup
    file: str


@dataclass(frozen=True)
class _Box:
    """A function on a stack: its place and width in percent, its height above the base in units."""

    text: str
    x: float
    y: float
    width: float
    height: float
    colour: str


def read_flame_graph(directory: Path, file: str, title: str, least_percent: float) -> FlameGraph | None:
    """Reads a flame graph of a run's directory, without narrower frames; None without such a file."""
    boxes = _boxes(directory / file)
    shown = [each for each in boxes if each.width >= least_percent]
    return FlameGraph(title, _svg(shown, title), file) if shown else None


def _boxes(path: Path) -> list[_Box]:
    try:
        root = ElementTree.fromstring(read_bytes(path))
    except (OSError, ElementTree.ParseError, ValueError, LookupError):
        # ValueError and LookupError: of a name or an encoding that there is not.
        return []
    found = []
    for group in root.iter(f"{SVG}g"):
        title, rectangle = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is None or rectangle is None:
            continue
        numbers = [_number(rectangle.get(name, "")) for name in ("x", "y", "width", "height")]
        x, y, width, height = numbers
        if x is None or y is None or width is None or height is None:
            continue
        colour = rectangle.get("fill", "")
        shade = colour if COLOUR.fullmatch(colour) else "rgb(200,200,200)"
        found.append(_Box(title.text or "", x, y, width, height, shade))
    return found


def _number(text: str) -> float | None:
    """Reads a length of an SVG, in units or in percent."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        return None
    # Products of larger ones need not be finite.
    return value if abs(value) <= LARGEST_LENGTH else None


def _svg(boxes: list[_Box], title: str) -> Markup:
    top = min(each.y for each in boxes)
    bottom = max(each.y + each.height for each in boxes)
    parts = [_drawn(each, top) for each in boxes]
    return Markup(
        '<svg class="flame" role="img" viewBox="0 0 {width} {height}" aria-label="{label}">{boxes}</svg>'
    ).format(width=WIDTH, height=f"{bottom - top:g}", label=title, boxes=Markup("").join(parts))


def _drawn(box: _Box, top: float) -> Markup:
    x, width = box.x * WIDTH / 100, box.width * WIDTH / 100
    y = box.y - top
    name = box.text.rpartition(" (")[0] or box.text
    room = int((width - PADDING) / CHARACTER)
    label = Markup("")
    if room >= LEAST_CHARACTERS:
        short = name if len(name) <= room else f"{name[: room - 2]}.."
        label = Markup('<text x="{}" y="{}">{}</text>').format(f"{x + 3:.1f}", f"{y + 10.5:g}", short)
    return Markup('<g><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>{}</g>').format(
        escape(box.text), f"{x:.1f}", f"{y:g}", f"{width:.1f}", f"{box.height:g}", box.colour, label
    )
