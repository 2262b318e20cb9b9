"""Reads tables for tests."""

from __future__ import annotations

from typing import NamedTuple

from thunderherd.show.tables.model import Cell, Table


def heads(table: Table) -> list[str]:
    """The heads of the columns behind those that stay in every part of the table."""
    return [column.head for column in table.columns[table.fixed :]]


def rows(table: Table) -> dict[str, list[Cell]]:
    """The cells of each row behind its head."""
    return {row.cells[0].value: list(row.cells[1:]) for row in table.rows}


def cells(table: Table) -> list[Cell]:
    return [cell for row in table.rows for cell in row.cells[table.fixed :]]


def by_name(table: Table) -> dict[str, dict[str, Cell]]:
    """The cells of each row by the head of their column; the rows by the first name in them."""
    heads = [column.head for column in table.columns]
    names = [column.kind == "name" for column in table.columns].index(True)
    return {row.cells[names].value: dict(zip(heads, row.cells, strict=True)) for row in table.rows}


class Run(NamedTuple):
    """A row of runs; `figures` are texts with their marks."""

    run: str
    figures: tuple[str, ...]
    is_summary: bool


def runs(table: Table, contender: str = "", point: str = "") -> list[Run]:
    """The runs of a contender at a point, or all of them."""
    found = []
    for row in table.rows:
        *who, run = (cell.value for cell in row.cells[: table.fixed])
        if not contender or who == [point, contender]:
            figures = tuple(f"{cell.value}{cell.mark}" for cell in row.cells[table.fixed :])
            found.append(Run(run, figures, row.kind == "of-runs"))
    return found
