"""Drawings of the path of the bytes through the kernel, from docs/entries.

Each is an SVG that follows the reader's light or dark theme.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import accumulate
from xml.sax.saxutils import escape

from handbook.pages.notes import HOWS, PLACES, Journey, Place

LANES = ("program", "kernel", "device")
"""The lanes of a drawing, from the top down. A drawing without devices has no lane for them."""
BOX_WIDTH, BOX_HEIGHT, GAP, MARGIN, HEAD = 150, 40, 160, 84, 44
LANE_HEIGHT = 104
BOX_WORDS, LEVEL_WORDS, TURNED_WORDS = 22, 22, 30
"""Characters a line: in a box, at a straight arrow, and at an arrow from another lane."""

COLOURS = {"copied": "copied", "by_reference": "kept", "mapped": "kept", "dma": "device", "discarded": "kept"}

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.lane { fill: #59636e; }
.rule { stroke: #d1d9e0; stroke-dasharray: 4 4; }
.box { fill: #f6f8fa; stroke: #59636e; }
.arrow { fill: none; stroke-width: 2.5; }
.copied { stroke: #b35900; } text.copied, .head.copied { fill: #b35900; stroke: none; }
.kept { stroke: #0b63c5; stroke-dasharray: 7 4; } text.kept, .head.kept { fill: #0b63c5; stroke: none; }
.device { stroke: #59636e; stroke-dasharray: 2 3; } text.device, .head.device { fill: #59636e; stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .lane { fill: #9198a1; } .rule { stroke: #3d444d; }
.box { fill: #151b23; stroke: #9198a1; }
.copied { stroke: #f0883e; } text.copied, .head.copied { fill: #f0883e; }
.kept { stroke: #58a6ff; } text.kept, .head.kept { fill: #58a6ff; }
.device { stroke: #9198a1; } text.device, .head.device { fill: #9198a1; }
}"""


def drawing(name: str, journeys: Sequence[Journey]) -> str:
    """Draw all journeys of an entry, one below the other, each in separate lanes."""
    most = max(len(journey.steps) for journey in journeys)
    width = MARGIN + (most + 1) * BOX_WIDTH + most * GAP + 16
    tops = [0, *accumulate(HEAD + len(_lanes(journey)) * LANE_HEIGHT for journey in journeys)]
    height = tops[-1]
    parts = [_journey(journey, top, width) for journey, top in zip(journeys, tops, strict=False)]
    words = " ".join(in_words(journey) for journey in journeys)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(name)}: the path of the bytes</title>',
            f'<desc id="description">{escape(words)}</desc>',
            f"<style>\n{STYLE}\n</style>",
            *parts,
            "</svg>\n",
        ]
    )


def in_words(journey: Journey) -> str:
    """Describe a journey in words, for readers of the page who cannot see the drawing."""
    steps = [
        f"{HOWS[step.how][0]} to {PLACES[step.to][0]} ({step.by})"
        if step.how != "discarded"
        else f"discarded ({step.by})"
        for step in journey.steps
    ]
    case = journey.of[:1].upper() + journey.of[1:]
    return f"{case}: from {PLACES[journey.begins][0]}, {', then '.join(steps)}."


def _journey(journey: Journey, top: int, width: int) -> str:
    copies = {0: "no copy by the CPU", 1: "one copy by the CPU"}.get(
        journey.copies, f"{journey.copies} copies by the CPU"
    )
    lines = [f'<text class="title" x="8" y="{top + 24}">{escape(journey.of)}: {copies}</text>']
    for number, lane in enumerate(_lanes(journey)):
        middle = _middle(lane, top)
        lines.append(f'<text class="lane" x="8" y="{middle + 4}">{lane}</text>')
        if number:
            y = middle - LANE_HEIGHT // 2
            lines.append(f'<line class="rule" x1="8" x2="{width - 8}" y1="{y}" y2="{y}"/>')
    places = _places(journey)
    spots = [
        (MARGIN + number * (BOX_WIDTH + GAP), _middle(PLACES[place][1], top))
        for number, place in enumerate(places)
    ]
    for place, (x, y) in zip(places, spots, strict=True):
        lines.append(
            f'<rect class="box" x="{x}" y="{y - BOX_HEIGHT // 2}" '
            f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        )
        words = textwrap.wrap(PLACES[place][0], BOX_WORDS)
        lines += _words(words, x + BOX_WIDTH // 2, y + 4 - (len(words) - 1) * 7)
    for step, (x, y), (to_x, to_y) in zip(journey.steps, spots, spots[1:], strict=False):
        colour, level = COLOURS[step.how], y == to_y
        # An arrow to another lane leaves the box at its lower or upper edge, then follows that lane.
        begin, half = (x + BOX_WIDTH, y) if level else (x + BOX_WIDTH // 2, y), BOX_HEIGHT // 2
        edge = begin[1] if level else y + (half if to_y > y else -half)
        lines.append(
            f'<path class="arrow {colour}" d="M{begin[0]} {edge} V{to_y} H{to_x - 9}"/>'
            f'<path class="head {colour}" d="M{to_x} {to_y} l-10 -5 v10 z"/>'
        )
        words = textwrap.wrap(f"{HOWS[step.how][0]}: {step.by}", LEVEL_WORDS if level else TURNED_WORDS)
        above = level or to_y > y
        first = to_y - 8 - 14 * (len(words) - 1) if above else to_y + 18
        lines += _words(words, (begin[0] + to_x) // 2, first, colour)
    return "\n".join(lines)


def _lanes(journey: Journey) -> Sequence[str]:
    """Return the lanes of a drawing: always program and kernel, even if the program takes no part."""
    has_device = any(PLACES[place][1] == "device" for place in _places(journey))
    return LANES if has_device else LANES[:-1]


def _places(journey: Journey) -> list[Place]:
    return [journey.begins, *(step.to for step in journey.steps)]


def _middle(lane: str, top: int) -> int:
    return top + HEAD + LANES.index(lane) * LANE_HEIGHT + LANE_HEIGHT // 2 - 6


def _words(lines: Sequence[str], x: int, first: int, colour: str = "") -> list[str]:
    """Draw lines of text, the first at this height."""
    style = f' class="{colour}"' if colour else ""
    return [
        f'<text{style} text-anchor="middle" x="{x}" y="{first + number * 14}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
