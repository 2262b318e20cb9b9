"""The answer of a search for knees on the terminal."""

from __future__ import annotations

from rich.console import Console

from thunderherd.records.knee import KneeSummary
from thunderherd.show.sentences.knee import goal_in_words, sentences
from thunderherd.show.tables.knee import curve_table, knees_table
from thunderherd.show.terminal.tables import print_table


def print_knees(summary: KneeSummary, console: Console) -> None:
    """Prints the knees, the latency at every rate, and the answer in sentences."""
    console.print(f"\nHighest rate with {goal_in_words(summary)}, workload {summary.workload}\n")
    print_table(knees_table(summary), console)
    for design in summary.designs:
        console.print()
        print_table(curve_table(summary, design), console)
    for text in (*sentences(summary), *summary.notes):
        console.print(text, soft_wrap=False)
