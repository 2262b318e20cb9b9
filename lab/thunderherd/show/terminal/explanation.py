"""An explanation on the terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from thunderherd.records.explanation import Explanation
from thunderherd.show.tables.explanation import calls_table, causes_table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.layout import prose


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Prints a sentence and the tables."""
    causes, calls = causes_table(explanation), calls_table(explanation)
    prose(console, causes.caption, style="bold")
    console.print()
    print_table(replace(causes, caption=""), console)
    console.print()
    if calls.rows:
        print_table(calls, console)
        console.print()
