"""Sweeps, repeated runs and counters of both sides, printed: `matrices` in the roomiest form that fits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.figures import ABSENT, printable
from thunderherd.layout import Layout, fits, print_first_that_fits, prose, show_table
from thunderherd.matrices import (
    Cell,
    Matrix,
    counted_matrices,
    counted_title,
    main_further,
    sweep_matrices,
    sweeps_legend,
)
from thunderherd.records import Summary
from thunderherd.repeated_runs import Runs, main_runs, sweep_runs
from thunderherd.slope_matrix import slope_matrix

__all__ = ["print_counted", "print_main_further", "print_main_runs", "print_sweeps"]

HEAD_WIDTH = 12
"""The heads of narrow columns are divided at their underscores, for lines of about this length."""


def print_sweeps(summary: Summary, console: Console) -> None:
    """Prints every sweep: title, points x contenders for each metric, slopes, and runs where repeated."""
    for sweep in summary.sweeps:
        console.print()
        console.print(Text(printable(sweep.title), style="bold"))
        for place, matrix in enumerate(sweep_matrices(summary, sweep)):
            if place:
                console.print()
            print_matrix(matrix, console)
        if slopes := slope_matrix(summary, sweep):
            console.print()
            print_matrix(slopes, console)
        if runs := sweep_runs(summary, sweep):
            console.print()
            print_runs(runs, console)
    if summary.sweeps:
        console.print()
    for line in sweeps_legend(summary):
        prose(console, line)


def print_counted(summary: Summary, console: Console) -> None:
    """Prints the counters of both sides beside the source's, where it has such a table."""
    matrices = counted_matrices(summary)
    if not matrices:
        return
    console.print()
    console.print(Text(printable(counted_title(summary)), style="bold"))
    for place, matrix in enumerate(matrices):
        if place:
            console.print()
        print_matrix(matrix, console)
    prose(console, "Paper: the source's figure, on its own machine.")


def print_main_further(summary: Summary, console: Console) -> None:
    """Prints the source's further figures of the main table beside ours, where it has any."""
    if matrix := main_further(summary):
        console.print()
        print_matrix(matrix, console)


def print_main_runs(summary: Summary, console: Console) -> None:
    """Prints every run of the main table, where they are repeated."""
    if runs := main_runs(summary):
        console.print()
        print_runs(runs, console)


# Matrices ---------------------------------------------------------------------------------------------------


def print_matrix(matrix: Matrix, console: Console) -> None:
    """Prints a matrix; where its columns do not stand side by side, some of them below the others."""
    prose(console, matrix.caption, style="")
    for part in _parts(matrix, console):
        print_first_that_fits(console, _tables(part, console))
    for note in matrix.notes:
        head, _, text = note.partition(" ")
        prose(console, text, head=f"{head} ")


def _parts(matrix: Matrix, console: Console) -> list[Matrix]:
    """The matrix in the fewest parts that fit the console, of about the same size."""
    columns = len(matrix.columns)
    for count in range(1, columns + 1):
        size = -(-columns // count)
        parts = [matrix.part(slice(start, start + size)) for start in range(0, columns, size)]
        if all(any(fits(console, table) for table in _tables(part, console)) for part in parts):
            return parts
    return [matrix.part(slice(place, place + 1)) for place in range(columns)] or [matrix]


def _tables(matrix: Matrix, console: Console) -> Iterator[Table]:
    """The matrix with intervals beside figures, below them, and with narrow heads; the roomiest first."""
    terminal = console.is_terminal
    yield _matrix_table(matrix, Layout(terminal, True, False), narrow=False)
    yield _matrix_table(matrix, Layout(terminal, False, False), narrow=False)
    yield _matrix_table(matrix, Layout(terminal, False, False), narrow=True)


def _matrix_table(matrix: Matrix, layout: Layout, *, narrow: bool) -> Table:
    table = layout.table()
    table.add_column(printable(matrix.corner), no_wrap=not narrow, overflow="fold", style="bold")
    papers = [
        any(cells[place].paper != ABSENT and cells[place].paper for _, cells in matrix.rows)
        for place in range(len(matrix.columns))
    ]
    bounds = [any(cells[place].bound for _, cells in matrix.rows) for place in range(len(matrix.columns))]
    for name, has_paper, has_bound in zip(matrix.columns, papers, bounds, strict=True):
        head = _divided(printable(name)) if narrow else printable(name)
        table.add_column(head, justify="right", no_wrap=True)
        if layout.one_line:
            table.add_column("interval", style="dim", no_wrap=True)
            if has_bound:
                table.add_column("bound", justify="right", no_wrap=True)
            if has_paper:
                table.add_column("paper", justify="right", no_wrap=True)
    for head, cells in matrix.rows:
        texts = [
            text
            for cell, has_paper, has_bound in zip(cells, papers, bounds, strict=True)
            for text in _texts(cell, layout, has_paper, has_bound)
        ]
        table.add_row(Text(printable(head)), *texts)
    return table


def _texts(cell: Cell, layout: Layout, has_paper: bool, has_bound: bool) -> list[Text]:
    # A figure keeps its column whether it has a mark or not.
    value = f"{cell.value}{cell.mark or ' '}"
    if layout.one_line:
        bound, paper = [Text(cell.bound)] if has_bound else [], [Text(cell.paper)] if has_paper else []
        return [Text(value), Text(cell.span), *bound, *paper]
    lines = [f"{cell.span} "] if cell.span else []
    lines += [f"bound {cell.bound} "] if cell.bound else []
    lines += [f"paper {cell.paper} "] if cell.paper and cell.paper != ABSENT else []
    return [Text.assemble(value, *(("\n" + line, "dim") for line in lines))]


def _divided(name: str) -> str:
    """A head on several lines, divided at blanks and behind underscores."""
    lines = textwrap.wrap(
        name.replace("_", "_\0 "), HEAD_WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("_\0 ", "_").replace("\0", "")


# Runs -------------------------------------------------------------------------------------------------------


def print_runs(runs: Runs, console: Console) -> None:
    """Prints every run, and the mean and deviation of each contender's at each point."""
    layout = Layout(console.is_terminal, True, False)
    table = layout.table()
    has_points = any(row.point for row in runs.rows)
    if has_points:
        table.add_column(printable(runs.corner), overflow="fold", style="bold")
    table.add_column("Contender", overflow="fold")
    table.add_column("Run", justify="right", no_wrap=True)
    for heading in runs.headings:
        table.add_column(_divided(heading), justify="right", no_wrap=True)
    previous = ("", "")
    for row in runs.rows:
        is_new = (row.point, row.contender) != previous
        point = row.point if row.point != previous[0] else ""
        previous = (row.point, row.contender)
        style = "dim" if row.is_summary else ""
        table.add_row(
            *([Text(printable(point))] if has_points else []),
            Text(printable(row.contender) if is_new else ""),
            Text(row.run, style=style),
            *(Text(cell, style=style) for cell in row.cells),
        )
    show_table(console, table)
    for note in runs.notes:
        prose(console, note)
