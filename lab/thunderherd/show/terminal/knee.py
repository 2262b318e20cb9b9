"""The answer of a search for knees on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from thunderherd.records.knee import KneeSummary
from thunderherd.show.sentences.knee import answer, to_know
from thunderherd.show.tables.searches import curve_table, knees_table
from thunderherd.show.terminal.result_page import ResultPage, print_result

__all__ = ["print_knees"]


def print_knees(summary: KneeSummary, console: Console, following: Sequence[tuple[str, str]] = ()) -> None:
    """Prints the answer, the knees, and what to know; of a single design its latency at every rate."""
    is_one = len(summary.designs) == 1
    table = curve_table(summary, summary.designs[0]) if is_one else knees_table(summary)
    print_result(ResultPage(answer(summary), table, to_know(summary), following), console)
