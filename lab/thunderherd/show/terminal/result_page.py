"""The end of each command that measures: the answer, one table, what to know, and where next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from thunderherd.show.tables.model import Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.layout import Sentence, head_width, print_answer, print_facts
from thunderherd.text.printable import printable

__all__ = ["MOST_NOTES", "ResultPage", "few_notes", "print_result"]

MOST_NOTES = 5
"""The most notes; the report has all of them."""


@dataclass(frozen=True)
class ResultPage:
    """A result that reads at a glance."""

    answer: Sequence[Sentence]
    table: Table | Sequence[str] | None
    """The table, or the lines of one that is already laid out."""
    notes: Sequence[str] = ()
    """What to know, the most important first."""
    following: Sequence[tuple[str, str]] = ()
    """Heads with files and commands, which are never folded."""
    others_in: str = "the report"
    """The place of the notes that are left out."""


def print_result(page: ResultPage, console: Console) -> None:
    """Prints the page. Of many notes it prints the first ones, and counts the others."""
    console.print()
    print_answer(console, page.answer)
    _print(page.table, console)
    facts = [("Note", line) for line in few_notes(page.notes, page.others_in)]
    if facts or page.following:
        console.print()
    width = head_width([*facts, *page.following])
    print_facts(console, facts, least=width)
    print_facts(console, page.following, least=width, fold=False)


def few_notes(notes: Sequence[str], others_in: str = "the report") -> list[str]:
    """Lists the first notes, each once, and says how many others there are."""
    lines = [*dict.fromkeys(notes)]
    if len(lines) <= MOST_NOTES:
        return lines
    shown = lines[: MOST_NOTES - 1]
    return [*shown, f"{len(lines) - len(shown)} more notes are in {others_in}"]


def _print(table: Table | Sequence[str] | None, console: Console) -> None:
    if isinstance(table, Table):
        if table.rows:
            console.print()
            print_table(table, console)
    elif table:
        console.print()
        for line in table:
            console.print(Text(printable(line)), soft_wrap=True)
