"""A comparison on the terminal: the answer, a row a contender, what to know, and where the report is."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.show.sentences.compared import MOST_TO_KNOW, MetricAnswer, metric_answers, to_know
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.figures import ABSENT, decimals, number, unit_of
from thunderherd.text.layout import print_facts, prose

__all__ = ["compared_table", "print_compared"]

BEST = "*"
"""The mark of a contender that no other beats significantly, if it beats another."""

HEADS = {
    "server_cpu_per_request": "CPU/request",
    "machine_cpu_per_request": "Machine CPU/request",
    "server_cpu_per_byte": "CPU/byte",
    "machine_cpu_per_byte": "Machine CPU/byte",
    "requests_per_second": "Requests/s",
    "server.memory_per_connection": "Memory/connection",
}


def compared_table(summary: Summary) -> Table:
    """Shows each contender in a row and each metric in a column; the sentences have the intervals."""
    answers = metric_answers(summary)
    bases = list(dict.fromkeys(each.base for each in summary.contenders))
    columns, cells = [Column("Contender", "name")], []
    for answer in answers:
        head, of_bases = _column(summary, answer)
        columns.append(Column(head))
        cells.append(of_bases)
    rows = tuple(Row((Cell(base), *(each.get(base, Cell()) for each in cells))) for base in bases)
    notes = [f"{BEST} not significantly worse than any other, and better than at least one"]
    if any(cell.value.startswith("≥") for each in cells for cell in each.values()):
        notes.append("≥ the clients were the limit: the server can do at least this")
    return Table(summary.study.title, tuple(columns), rows, tuple(notes))


def _column(summary: Summary, answer: MetricAnswer) -> tuple[str, dict[str, Cell]]:
    own = [each for each in summary.contenders if each.sweep == answer.sweep]
    values = {each.base: _value(each, answer.metric) for each in own}
    known = [value for value, _ in values.values() if value is not None]
    unit = unit_of(answer.metric, summary.study.normalise_connections, known, summary.study.counters)
    digits = decimals([unit.of(value) for value in known]) if known else 0
    is_split = 0 < len(answer.best) < len(own)
    cells = {
        base: Cell(
            ABSENT if value is None else f"{'≥ ' if is_bound else ''}{number(unit.of(value), digits)}",
            mark=BEST if is_split and base in answer.best else "",
        )
        for base, (value, is_bound) in values.items()
    }
    head = HEADS.get(answer.metric, answer.head)
    return (f"{head} ({unit.name})" if known and unit.name and unit.name not in head else head), cells


def _value(contender: ContenderSummary, name: str) -> tuple[float | None, bool]:
    """Gives the estimate, or the lower bound and True."""
    if name in contender.at_least:
        return contender.at_least[name].value, True
    found = contender.metrics.get(name)
    return (found.value if found else None), False


def print_compared(summary: Summary, console: Console, report: Path | None) -> None:
    """Prints the answer in each metric, the table, and what to know."""
    console.print()
    for answer in metric_answers(summary):
        prose(console, answer.sentence, style="bold" if answer.best else "")
    console.print()
    print_table(compared_table(summary), console)
    console.print()
    lines = to_know(summary)
    shown = lines if len(lines) <= MOST_TO_KNOW else lines[: MOST_TO_KNOW - 1]
    facts = [("Note", line) for line in shown]
    if len(shown) < len(lines):
        facts.append(("Note", f"{len(lines) - len(shown)} more notes are in the report"))
    print_facts(console, facts)
    if report is not None:
        console.print(f"Report  {report}", soft_wrap=True)
