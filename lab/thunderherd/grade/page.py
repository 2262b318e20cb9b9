"""A grade for the student, and how often repeated grades differ, on the terminal or in a file."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from thunderherd.grade.formats import answer, predicted
from thunderherd.grade.grading import Grade, graded
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.figures import count
from thunderherd.text.layout import print_facts, prose

__all__ = ["print_grade", "print_repeated"]


def print_grade(grade: Grade, console: Console) -> None:
    """Prints the points, a line for each item, and for each lost point why, and how to replay the case."""
    prose(console, answer(grade), style="bold")
    if about := predicted(grade):
        prose(console, about, style="")
    console.print()
    columns = (
        Column("No."), Column("Item", "name"), Column("Points"), Column("Of"), Column("Remark", "words"),
    )  # fmt: skip
    rows = tuple(
        Row((Cell(each.number), Cell(each.name), Cell(f"{each.points:g}"), Cell(f"{each.most:g}"),
             Cell(each.remark)))
        for each in grade.items
    )  # fmt: skip
    print_table(Table("", columns, rows), console)
    for each in grade.items:
        if each.facts:
            console.print()
            prose(console, f"{each.number}, {each.name}", style="bold")
            facts = [(head, text) for head, text in each.facts if head != "replay"]
            print_facts(console, facts, indent=2)
            replay = [(head, text) for head, text in each.facts if head == "replay"]
            print_facts(console, replay, indent=2, least=8, fold=False)
    if grade.results is not None:
        console.print()
        print_facts(console, [("Results", str(grade.results))], fold=False)


def print_repeated(grades: Sequence[Grade], without: int, console: Console) -> None:
    """Prints how often the points of the same submission were not the most frequent ones.

    `without` is how often there was no grade, as the machine was too busy.
    """
    found = graded(grades)
    usual = sum(points for _, points, _ in found)
    changed = sum(
        any(one.points != points for one, (_, points, _) in zip(each.items, found, strict=True))
        for each in grades
    )
    prose(
        console,
        f"{count(len(grades), 'grade')} of the same submission: {usual:g} of {grades[0].most:g} points; "
        f"a point changed in {changed} of {len(grades)}.",
        style="bold",
    )
    if without:
        prose(console, f"No grade: the machine was too busy, {count(without, 'time')}.", style="")
    totals = [each.points for each in grades]
    prose(console, f"The grades were from {min(totals):g} to {max(totals):g}.", style="")
    ratios = sorted(each.cost.ratio for each in grades if each.cost)
    if ratios:
        prose(
            console,
            f"The cost was from {ratios[0]:.3g} to {ratios[-1]:.3g} times that of {grades[0].reference}.",
            style="",
        )
    console.print()
    columns = (
        Column("No."), Column("Item", "name"), Column("Points"), Column("Of"), Column("Changed"),
    )  # fmt: skip
    rows = tuple(
        Row((Cell(item.number), Cell(item.name), Cell(f"{points:g}"), Cell(f"{item.most:g}"),
             Cell(f"{times} of {len(grades)}")))
        for item, points, times in found
    )  # fmt: skip
    print_table(Table("", columns, rows), console)
