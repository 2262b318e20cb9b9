"""Text on a terminal: consoles, paragraphs, heads with their texts.

If the output is no terminal, it is plain: no colours, no blanks at line ends, 120 columns or $COLUMNS.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

from rich.console import Console
from rich.text import Text

from thunderherd.text.printable import printable

PLAIN_WIDTH = 120
LONGEST_PROSE = 100


def make_console(stream: IO[str] | None = None) -> Console:
    """Makes a console on `stream` (stdout); without a terminal, plain with 120 columns or $COLUMNS."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # A character that the terminal's encoding lacks must not end the command.
        reconfigure(errors="replace")
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer."""

    text: str
    better: tuple[str, ...] = ()
    """The names that a terminal shows as the better ones."""
    is_undecided: bool = False
    """True if it has no decision, which a terminal shows too."""


def divided(name: str, width: int) -> str:
    """Divides a name or a head into lines of about that width, at blanks and behind `_` and `/`."""
    breakable = re.sub(r"[_/](?! )", "\\g<0>\0 ", name)
    lines = textwrap.wrap(breakable, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0 ", "").replace("\0", "")


def prose(console: Console, text: str, *, head: str = "", style: str = "dim") -> None:
    """Prints a paragraph of readable width; further lines are aligned with the text behind its head."""
    console.print(Text("\n".join(wrapped(text, console, head=head)), style=style))


def print_answer(console: Console, answer: Iterable[Sentence]) -> None:
    """Prints the sentences of an answer, the first in bold. Better ones are green, undecided ones yellow."""
    for place, each in enumerate(answer):
        style = " ".join(filter(None, ("" if place else "bold", "yellow" if each.is_undecided else "")))
        text = Text("\n".join(wrapped(each.text, console)), style=style)
        for name in each.better:
            text.highlight_regex(rf"(?<![\w@]){re.escape(name)}(?![\w@=])", "green")
        console.print(text)


def head_width(facts: Iterable[tuple[str, str]]) -> int:
    """Counts the columns of the longest head that has a text."""
    return max((len(head) for head, text in facts if text), default=0)


def print_facts(
    console: Console,
    facts: Iterable[tuple[str, str]],
    *,
    indent: int = 0,
    least: int = 0,
    fold: bool = True,
) -> None:
    """Prints heads with their texts. A head is not repeated; one without a text is left out.

    Heads have at least `least` columns. Without `fold`, each text stays on its line: a path or a command.
    """
    shown = [(head, text) for head, text in facts if text]
    width = indent + max(least, head_width(shown)) + 2
    previous = ""
    for head, text in shown:
        beginning = f"{'':{indent}}{'' if head == previous else head}".ljust(width)
        lines = wrapped(text, console, head=beginning) if fold else [beginning + printable(text)]
        line = Text("\n".join(lines))
        line.stylize("dim", 0, len(beginning))
        console.print(line, soft_wrap=True)
        previous = head


def wrapped(text: str, console: Console, *, head: str = "") -> list[str]:
    """Folds a text behind its head into lines; words and commands are never divided."""
    return textwrap.wrap(
        printable(text),
        min(console.width, LONGEST_PROSE),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head]
