"""JSON data in which a value is another, or is missing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from made.damage.corpus import CORPUS

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, float("inf"), float("nan"), "", "\0", "\ud800", "\x1b[31mred",
    "../../etc/passwd", "x" * 300, [], {}, [[]], {"": None},
)  # fmt: skip
"""What takes the place of a value."""
MISSING = "missing"
"""What a kept alteration has in the place of a value that is missing."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in JSON data, the deepest last."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def altered(data: Any, draw: random.Random) -> str:
    """Return JSON text in which one value is another, or is missing."""
    path, value = draw.choice([*places(data)]), draw.choice(VALUES)
    if draw.random() < 0.3 and isinstance(_at(data, path[:-1]), dict):
        return _text(data, path)
    return _text(data, path, value)


def alterations(kind: str, data: Any, draws: Iterable[random.Random]) -> Iterator[str]:
    """Yield JSON text with each kept alteration of a kind of file, and with others.

    A line of the corpus has the path of a value, and another value, or that it is missing.
    """
    for line in (CORPUS / "alterations" / f"{kind}.jsonl").read_text().splitlines():
        kept = json.loads(line)
        yield _text(data, kept["at"], *([] if MISSING in kept else [kept["value"]]))
    for draw in draws:
        yield altered(data, draw)


def _at(data: Any, path: Sequence[Any]) -> Any:
    for key in path:
        data = data[key]
    return data


def _text(data: Any, path: Sequence[Any], *value: Any) -> str:
    """Return the text with another value at a path; without one, none is there. The data stay as they are."""
    inside, last = _at(data, path[:-1]), path[-1]
    kept = inside[last]
    if value:
        inside[last] = value[0]
    else:
        del inside[last]
    text = json.dumps(data)
    if value or isinstance(inside, dict):
        inside[last] = kept
    else:
        inside.insert(last, kept)
    return text
