"""Small parts of Markdown pages, as GitHub shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MADE_BY = "Written by `make docs` from {sources}; change those, not this."


def made_from(*sources: str) -> str:
    """The line below a page's title that says where it comes from: paths, or words."""
    *first, last = (source if " " in source else f"`{source}`" for source in sources)
    told = f"{', '.join(first)} and {last}" if first else last
    return f"*{MADE_BY.format(sources=told)}*"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; signs of Markdown's own in cells are those of whoever wrote the cell, `|` and line ends
    not."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text).replace("\n", " ")


def plain(text: str) -> str:
    """A text whose signs are shown as they are; what it has between backticks is code."""
    if text.count("`") % 2:
        return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)
    return "`".join(
        part if number % 2 else re.sub(r"([\\*_<>\[\]|])", r"\\\1", part)
        for number, part in enumerate(text.split("`"))
    )


def page(*blocks: str) -> str:
    """Blocks with an empty line between them; empty blocks are left out."""
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def fenced(language: str, text: str) -> str:
    """A block of code, with a fence longer than any in it."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def between(text: str, name: str, new: str) -> str:
    """A text with what stands between `<!-- NAME -->` and `<!-- end of NAME -->` replaced.

    Raises ValueError where the two are not there exactly once, in this order.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"{begin.strip()} and {end} must stand there once, in this order")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}{new.strip()}\n{end}{rest.partition(end)[2]}"
