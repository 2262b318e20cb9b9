"""The verdicts of the cases that any server must pass, on the terminal."""

from __future__ import annotations

from rich.console import Console

from thunderherd.conform.verdicts import Conformance
from thunderherd.engine.conform_lines import Conformed
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.figures import count
from thunderherd.text.layout import print_facts, prose

__all__ = ["answer", "print_conformance"]

WORDS = {"not_judged": "not judged"}
"""Verdicts that are more than one word."""


def answer(found: Conformance) -> str:
    """Return the answer: `17 of 18 cases passed; 1 failed: 6, half-closed connection.`"""
    passed, cases = len(found.of("passed", "allowed")), len(found.cases)
    parts = [f"{passed} of {count(cases, 'case')} passed"]
    for verdict, words in (("failed", "failed"), ("warned", "warned"), ("not_judged", "not judged")):
        if named := found.of(verdict):
            parts.append(f"{len(named)} {words}: {'; '.join(map(_title, named))}")
    return "; ".join(parts) + "."


def print_conformance(found: Conformance, console: Console) -> None:
    """Prints the answer, a line for each case, and for each fault what happened and how to replay it."""
    prose(console, answer(found), style="bold")
    console.print()
    print_table(_table(found), console)
    for each in [*found.failed, *found.of("warned")]:
        console.print()
        source = f" ({each.source})" if each.source else ""
        prose(console, f"{_title(each)}: {each.rule}{source}.", style="bold")
        facts = [("expected", each.expected or ""), ("actual", each.actual or "")]
        print_facts(console, facts, indent=2)
        console.print(f"  replay    {found.replay(each)}", soft_wrap=True)


def _title(case: Conformed) -> str:
    return f"{case.number}, {case.name}"


def _table(found: Conformance) -> Table:
    columns = (Column("No."), Column("Case", "name"), Column("Verdict", "short"), Column("Remark", "words"))
    rows = tuple(
        Row((Cell(str(each.number)), Cell(each.name), Cell(_verdict(each)), Cell(_remark(each))))
        for each in found.cases
    )
    return Table("", columns, rows).without_empty()


def _verdict(case: Conformed) -> str:
    return WORDS.get(case.verdict, case.verdict)


def _remark(case: Conformed) -> str:
    """Return what is worth knowing of a case that shows no fault."""
    return (case.actual or "") if case.verdict in ("allowed", "not_judged") else ""
