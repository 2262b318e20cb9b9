"""How text is laid out: consoles, tables in the roomiest form that fits, paragraphs, heads with their texts.

Where the output is no terminal it is plain: no colours, no blanks at line ends, 120 columns or $COLUMNS.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from thunderherd.text.figures import ABSENT, printable

PLAIN_WIDTH = 120
LONGEST_PROSE = 100
NAME_WIDTH = 14
"""Names in the narrowest tables are divided for lines of about this length."""


def make_console(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (stdout): no colours and 120 columns (or $COLUMNS) where it is no terminal."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # A note that the terminal's encoding cannot show must not end the command that prints it.
        reconfigure(errors="replace")
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


@dataclass(frozen=True)
class Layout:
    """How much of a row stands side by side."""

    terminal: bool
    one_line: bool
    labels: bool
    narrow: bool = False

    def table(self) -> Table:
        """An empty table in this layout."""
        gap = 2 if self.one_line else 1
        return Table(
            box=box.SIMPLE_HEAD if self.terminal else None,
            header_style="bold" if self.terminal else "",
            show_edge=False,
            pad_edge=False,
            padding=(0, gap, 0, 0) if self.terminal is False else (0, gap // 2),
            collapse_padding=not self.one_line,
        )

    def name(self, name: str) -> str:
        """A name as it is printed: whole, but in the narrowest layout."""
        return divided(printable(name), NAME_WIDTH) if self.narrow else printable(name)

    def figure(self, value: str, interval: str) -> list[Text]:
        """A figure and its interval: beside it where there is room, else below it."""
        return [Text(value), Text(interval)] if self.one_line else [below(value, interval)]


def divided(name: str, width: int) -> str:
    """A name or a head on several lines of about that width, divided at blanks and behind underscores."""
    lines = textwrap.wrap(name.replace("_", "_\0 "), width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("_\0 ", "_").replace("\0", "")


def below(value: str, detail: str) -> Text:
    """A figure and, on the next line, what belongs to it."""
    return Text.assemble(value, ("\n" + detail, "dim")) if detail and detail != ABSENT else Text(value)


def print_table(console: Console, make: Callable[[Layout], Table]) -> None:
    """Prints a table in the roomiest layout that fits the console."""
    terminal = console.is_terminal
    layouts = [
        Layout(terminal, True, True),
        Layout(terminal, True, False),
        Layout(terminal, False, False),
        Layout(terminal, False, False, narrow=True),
    ]
    print_first_that_fits(console, map(make, layouts))


def print_first_that_fits(console: Console, tables: Iterable[Table]) -> None:
    """Prints the first of these tables that fits the console, or the last."""
    table: Table | None = None
    for table in tables:
        if fits(console, table):
            break
    if table is not None:
        show_table(console, table)


def fits(console: Console, table: Table) -> bool:
    """Whether a table has its place on the console without anything being folded."""
    return Measurement.get(console, console.options.update(width=1000), table).maximum <= console.width


def show_table(console: Console, table: Table) -> None:
    """Prints a table; on no terminal without the blanks that fill each line: that is for files and pipes."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().rstrip("\n").split("\n"):
        console.print(Text(line.rstrip()), soft_wrap=True)


def prose(console: Console, text: str, *, head: str = "", style: str = "dim") -> None:
    """A paragraph no wider than is easily read; further lines stand under the text, not under its head."""
    console.print(Text("\n".join(wrapped(text, console, head=head)), style=style))


def print_facts(console: Console, facts: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Heads with their texts beside them; a head is not repeated, and one without a text is left out."""
    shown = [(head, text) for head, text in facts if text]
    width = indent + max((len(head) for head, _ in shown), default=0) + 2
    previous = ""
    for head, text in shown:
        beginning = f"{'':{indent}}{'' if head == previous else head}".ljust(width)
        line = Text("\n".join(wrapped(text, console, head=beginning)))
        line.stylize("dim", 0, len(beginning))
        console.print(line, soft_wrap=True)
        previous = head


def wrapped(text: str, console: Console, *, head: str = "") -> list[str]:
    """The lines of a text after its head; words and commands are never divided."""
    return textwrap.wrap(
        printable(text),
        min(console.width, LONGEST_PROSE),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head]
