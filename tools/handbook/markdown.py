"""Small parts of Markdown pages, in GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MADE_BY = "Written by `make docs` from {sources}. Edit the sources, not this page."


def made_from(*sources: str) -> str:
    """Write the line below a page's title that names its sources: paths, or words."""
    *first, last = (source if " " in source else f"`{source}`" for source in sources)
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"*{MADE_BY.format(sources=listed)}*"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table. Escapes `|` and line ends in cells; the caller escapes other Markdown."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text).replace("\n", " ")


def plain(text: str) -> str:
    """Escape Markdown in a text. Parts between backticks stay code."""
    if text.count("`") % 2:
        return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)
    return "`".join(
        part if number % 2 else re.sub(r"([\\*_<>\[\]|])", r"\\\1", part)
        for number, part in enumerate(text.split("`"))
    )


def page(*blocks: str) -> str:
    """Join blocks with an empty line between them; leave out empty blocks."""
    return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"


def fenced(language: str, text: str) -> str:
    """Write a code block whose fence is longer than any fence in it."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def between(text: str, name: str, new: str) -> str:
    """Replace the text between `<!-- NAME -->` and `<!-- end of NAME -->`.

    Raises ValueError unless each mark is there once, in this order.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"{begin.strip()} and {end} must each be there once, in this order")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}{new.strip()}\n{end}{rest.partition(end)[2]}"
