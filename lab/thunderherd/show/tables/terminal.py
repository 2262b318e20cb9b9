"""Sweeps, repeated runs and counters of both sides, printed: `matrices` in the roomiest form that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.crossover import sentences
from thunderherd.show.sentences.explanation import why_lines
from thunderherd.show.tables.paper_counters import counted_legend, counted_matrices, counted_title
from thunderherd.show.tables.perf_stat import perf_stat_legend, perf_stats
from thunderherd.show.tables.runs import Runs, main_runs, sweep_runs
from thunderherd.show.tables.slopes import slope_matrix
from thunderherd.show.tables.sweeps import Cell, Matrix, main_further, sweep_matrices, sweeps_legend
from thunderherd.text.figures import ABSENT, printable
from thunderherd.text.layout import Layout, divided, fits, print_first_that_fits, prose

__all__ = ["print_counted", "print_main_further", "print_main_runs", "print_sweeps"]

HEAD_WIDTH, ROW_WIDTH = 12, 30
"""The heads of narrow columns, and of their rows, are divided for lines of about this length."""


def print_sweeps(summary: Summary, console: Console) -> None:
    """Prints every sweep: title, points x contenders for each metric, where two change places, slopes, and
    runs where repeated."""
    for sweep in summary.sweeps:
        console.print()
        prose(console, sweep.title, style="bold")
        for place, matrix in enumerate(sweep_matrices(summary, sweep)):
            if place:
                console.print()
            print_matrix(matrix, console)
        for place, sentence in enumerate(sentences(summary, sweep)):
            if not place:
                console.print()
            prose(console, sentence, style="" if place else "bold")
        if slopes := slope_matrix(summary, sweep):
            console.print()
            print_matrix(slopes, console)
        if runs := sweep_runs(summary, sweep):
            console.print()
            print_runs(runs, console)
        for line in why_lines(summary, sweep):
            prose(console, line)
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
    prose(console, counted_title(summary), style="bold")
    for place, matrix in enumerate(matrices):
        if place:
            console.print()
        print_matrix(matrix, console)
    prose(console, counted_legend(summary))
    for output in perf_stats(summary):
        console.print()
        prose(console, output.title, style="bold")
        for line in output.lines:
            # Its columns are those of the source: never folded.
            console.print(Text(line), soft_wrap=True)
        for note in output.notes:
            head, _, text = note.partition(" ")
            prose(console, text, head=f"{head} ")
    for line in perf_stat_legend(summary) if perf_stats(summary) else ():
        prose(console, line)


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
    """The matrix in the fewest parts that fit the console."""

    def fit(part: slice) -> bool:
        return any(fits(console, table) for table in _tables(matrix.part(part), console))

    return [matrix.part(part) for part in _slices(len(matrix.columns), fit)]


def _slices(columns: int, fit: Callable[[slice], bool]) -> list[slice]:
    """The fewest parts of so many columns that all fit, of about the same size; at worst one column each."""
    for count in range(1, columns + 1):
        size = -(-columns // count)
        parts = [slice(start, start + size) for start in range(0, columns, size)]
        if all(map(fit, parts)):
            break
    return parts if columns else [slice(None)]


def _tables(matrix: Matrix, console: Console) -> Iterator[Table]:
    """The matrix with intervals beside figures, below them, and with narrow heads; the roomiest first."""
    terminal = console.is_terminal
    yield _matrix_table(matrix, Layout(terminal, True, False), narrow=False)
    yield _matrix_table(matrix, Layout(terminal, False, False), narrow=False)
    yield _matrix_table(matrix, Layout(terminal, False, False), narrow=True)


def _matrix_table(matrix: Matrix, layout: Layout, *, narrow: bool) -> Table:
    table = layout.table()
    corner = divided(printable(matrix.corner), ROW_WIDTH) if narrow else printable(matrix.corner)
    table.add_column(corner, no_wrap=not narrow, overflow="fold", style="bold")
    papers = [
        any(cells[place].paper != ABSENT and cells[place].paper for _, cells in matrix.rows)
        for place in range(len(matrix.columns))
    ]
    bounds = [any(cells[place].bound for _, cells in matrix.rows) for place in range(len(matrix.columns))]
    for name, has_paper, has_bound in zip(matrix.columns, papers, bounds, strict=True):
        head = divided(printable(name), HEAD_WIDTH) if narrow else printable(name)
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
        name = divided(printable(head), ROW_WIDTH) if narrow else printable(head)
        table.add_row(Text(name), *texts)
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


# Runs -------------------------------------------------------------------------------------------------------


def print_runs(runs: Runs, console: Console) -> None:
    """Prints every run, and the mean and deviation of each contender's at each point.

    Where the columns do not stand side by side, some of them stand below the others, with the names again.
    """

    def fit(part: slice) -> bool:
        return fits(console, _runs_table(runs.part(part), console, narrow=False))

    prose(console, runs.caption, style="")
    for part in map(runs.part, _slices(len(runs.headings), fit)):
        # Only where names leave no room for a single column are they divided.
        tables = (_runs_table(part, console, narrow=narrow) for narrow in (False, True))
        print_first_that_fits(console, tables)
    for note in runs.notes:
        prose(console, note)


def _runs_table(runs: Runs, console: Console, *, narrow: bool) -> Table:
    table = Layout(console.is_terminal, True, False).table()
    has_points = any(row.point for row in runs.rows)
    if has_points:
        table.add_column(
            divided(printable(runs.corner), HEAD_WIDTH), no_wrap=not narrow, overflow="fold", style="bold"
        )
    table.add_column("Contender", no_wrap=not narrow, overflow="fold")
    table.add_column("Run", justify="right", no_wrap=True)
    for heading in runs.headings:
        table.add_column(divided(heading, HEAD_WIDTH), justify="right", no_wrap=True)
    previous = ("", "")
    for row in runs.rows:
        is_new = (row.point, row.contender) != previous
        point = row.point if row.point != previous[0] else ""
        previous = (row.point, row.contender)
        style = "dim" if row.is_summary else ""
        name = divided(printable(row.contender), HEAD_WIDTH) if narrow else printable(row.contender)
        table.add_row(
            *([Text(printable(point))] if has_points else []),
            Text(name if is_new else ""),
            Text(row.run, style=style),
            *(Text(cell, style=style) for cell in row.cells),
        )
    return table
