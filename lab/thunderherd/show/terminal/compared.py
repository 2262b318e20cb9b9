"""A comparison on the terminal: the answer, a row a contender, what to know, and where the report is."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.compared import MOST_TO_KNOW, metric_answers, to_know
from thunderherd.show.tables.main import metrics_table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.layout import print_facts, prose

__all__ = ["print_compared"]


def print_compared(summary: Summary, console: Console, report: Path | None) -> None:
    """Prints the answer in each metric, the table, and what to know."""
    console.print()
    for answer in metric_answers(summary):
        prose(console, answer.sentence, style="bold" if answer.best else "")
    console.print()
    print_table(metrics_table(summary), console)
    console.print()
    lines = to_know(summary)
    shown = lines if len(lines) <= MOST_TO_KNOW else lines[: MOST_TO_KNOW - 1]
    facts = [("Note", line) for line in shown]
    if len(shown) < len(lines):
        facts.append(("Note", f"{len(lines) - len(shown)} more notes are in the report"))
    print_facts(console, facts)
    if report is not None:
        console.print(f"Report  {report}", soft_wrap=True)
