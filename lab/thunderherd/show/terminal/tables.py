"""Tables on a terminal, each in the roomiest layout that fits.

Details of a figure are next to it or below it. A matrix that is still too wide is printed in parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from thunderherd.show.tables.model import NOTHING, Cell, Column, Table, with_details
from thunderherd.text.figures import BETWEEN, MARKS
from thunderherd.text.layout import divided, prose
from thunderherd.text.printable import printable

__all__ = ["VERDICT_STYLES", "print_table"]

HEAD_WIDTH, NAME_WIDTH, ROW_WIDTH = 12, 14, 30
"""The lengths of line at which heads, names, and the heads of a matrix's rows are divided."""
WORDS_WIDTH = 16
"""The characters that a column of words needs at least."""
SHORT_BETWEEN = ".."
"""The sign between the ends of an interval: shorter than " to ", and clear before a minus sign."""
NOTE = re.compile(rf"(?:[⁰{MARKS}]+|[a-zR]\S*:) ")
"""The head of a note. Further lines are aligned with the text after it."""

BEST, BAR = "better", "bar"
"""Kinds of cells that are no verdicts: of the better contender, and of a bar."""

VERDICT_STYLES = {
    "supported": "bold green",
    "refuted": "bold red",
    "no difference that matters": "bold",
    "undecided": "yellow",
    "not testable here": "dim",
    BEST: "green",
    BAR: "dim",
    "faster": "green",
    "slower": "red",
    "equivalent": "cyan",
}


BAR_WIDTHS = (16, 10, 6, 4)
"""The lengths of the longest bar, of which the first that fits is used."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
"""The blocks of a bar, by eighths."""
MARK_STYLES = {"*": "green", "~": "yellow"}
"""The styles of figures by the mark of their standing: the best, and those not decided."""


@dataclass(frozen=True)
class _Layout:
    """Columns for details or not, and the widths at which heads and names are divided."""

    in_columns: bool
    notes: bool = False
    heads: int | None = None
    names: int | None = None


LAYOUTS = {
    "list": (
        _Layout(True, notes=True),
        _Layout(True),
        _Layout(False, heads=HEAD_WIDTH),
        _Layout(False, heads=HEAD_WIDTH, names=NAME_WIDTH),
    ),
    "matrix": (_Layout(True), _Layout(False), _Layout(False, heads=HEAD_WIDTH, names=ROW_WIDTH)),
    "runs": (_Layout(True, heads=HEAD_WIDTH), _Layout(True, heads=HEAD_WIDTH, names=NAME_WIDTH)),
}
"""By kind of table, the roomiest first."""


def print_table(table: Table, console: Console) -> None:
    """Prints caption, table and notes."""
    if table.caption:
        prose(console, table.caption, style="")
    for part in _parts(table, console):
        layouts = LAYOUTS[part.kind]
        chosen = next((each for each in layouts if _fits(part, each, console)), layouts[-1])
        if console.is_terminal and not console.options.ascii_only:
            barred = (_with_bars(part, width) for width in BAR_WIDTHS)
            part = next((each for each in barred if _fits(each, chosen, console)), part)
        _show(_rich_table(part, chosen, console.is_terminal), console)
    for note in table.notes:
        head = found[0] if (found := NOTE.match(note)) else ""
        prose(console, note.removeprefix(head), head=head)


def _parts(table: Table, console: Console) -> list[Table]:
    """Divides a matrix into the fewest parts that fit, of about the same size; a list stays whole."""
    first = range(table.fixed)
    figures = range(table.fixed, len(table.columns))
    # Names of runs are divided only if not even one column fits next to them.
    layouts = [each for each in LAYOUTS[table.kind] if table.kind == "matrix" or each.names is None]
    parts = [table]
    for count in range(1, len(figures) + 1 if table.kind != "list" else 1):
        size = -(-len(figures) // count)
        starts = range(0, len(figures), size)
        parts = [table.part([*first, *figures[start : start + size]]) for start in starts]
        if all(any(_fits(part, each, console) for each in layouts) for part in parts):
            break
    return parts


def _with_bars(table: Table, width: int) -> Table:
    """Adds a column of bars next to each column whose cells have them; the longest is so many blocks."""
    columns: list[Column] = []
    cells: list[list[Cell]] = []
    for place, column in enumerate(table.columns):
        own = table.cells_of(place)
        columns.append(column)
        cells.append(own)
        if any(each.bar is not None for each in own):
            columns.append(Column("", "short"))
            cells.append([Cell(_bar(each.bar, width), kind=BEST if _is_best(each) else BAR) for each in own])
    rows = (
        replace(row, cells=tuple(of)) for row, of in zip(table.rows, zip(*cells, strict=True), strict=True)
    )
    return replace(table, columns=tuple(columns), rows=tuple(rows))


def _is_best(cell: Cell) -> bool:
    return "*" in cell.mark or cell.kind == BEST


def _bar(share: float | None, width: int) -> str:
    """Draws a bar in eighths of a block, at least one; empty without a share."""
    if share is None:
        return ""
    eighths = max(1, round(8 * width * min(1.0, share)))
    return (EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def _fits(table: Table, layout: _Layout, console: Console) -> bool:
    """True if only words would be folded."""
    made = _rich_table(table, layout, console.is_terminal, words=WORDS_WIDTH)
    return Measurement.get(console, console.options.update(width=1000), made).maximum <= console.width


def _rich_table(table: Table, layout: _Layout, terminal: bool, words: int | None = None) -> RichTable:
    """Lays out a table; `words` cuts columns of words to so many characters, to measure the rest."""
    shown = with_details(table, notes=layout.notes) if layout.in_columns else table
    gap = 2 if layout.in_columns else 1
    made = RichTable(
        box=box.SIMPLE_HEAD if terminal else None,
        header_style="bold" if terminal else "",
        show_edge=False,
        pad_edge=False,
        padding=(0, gap // 2) if terminal else (0, gap, 0, 0),
        collapse_padding=not layout.in_columns,
    )
    for place, column in enumerate(shown.columns):
        width = ROW_WIDTH if layout.names and not place and table.kind == "matrix" else layout.heads
        made.add_column(
            divided(printable(column.head), width) if width else printable(column.head),
            justify="right" if column.kind == "figure" else "left",
            no_wrap=column.kind != "words" and not (column.kind == "name" and layout.names is not None),
            overflow="fold",
            style="dim" if column.kind == "detail" else "",
        )
    marked = [any(cell.mark for cell in shown.cells_of(place)) for place in range(len(shown.columns))]
    above: tuple[Cell, ...] = ()
    for row in shown.rows:
        texts, is_same = [], bool(above)
        for place, (column, cell) in enumerate(zip(shown.columns, row.cells, strict=True)):
            is_same = is_same and not column.repeats and cell == above[place]
            of_mark = next((each for mark, each in MARK_STYLES.items() if mark in cell.mark), "")
            style = VERDICT_STYLES.get(cell.kind, "" if cell.kind else of_mark)
            if row.kind == "of-runs" and column.kind == "figure":
                style = "dim"
            elif place == shown.name_place:
                style = "italic" if row.kind == "control" else "bold"
            text = _text(cell, column, layout, " " * marked[place])
            if words and column.kind == "words":
                text = Text(text.plain[:words])
            text.stylize(style, 0, len(cell.value))
            texts.append(Text("") if is_same else text)
        made.add_row(*texts)
        above = row.cells
    return made


def _text(cell: Cell, column: Column, layout: _Layout, room: str) -> Text:
    """Writes a cell; `room` replaces a mark if other figures of the column have one."""
    value = printable(cell.value)
    if column.kind == "name" and layout.names:
        value = divided(value, layout.names)
    lines = [f"{value}{printable(cell.mark) or room}"]
    if not layout.in_columns:
        details = ("", cell.span), ("bound ", cell.bound), ("paper ", cell.paper)
        lines += [f"{head}{printable(each)}{room}" for head, each in details if each not in NOTHING]
    if column.is_figure:
        lines = [each.replace(BETWEEN, SHORT_BETWEEN) for each in lines]
    return Text.assemble(lines[0], *(("\n" + line, "dim") for line in lines[1:]))


def _show(table: RichTable, console: Console) -> None:
    """Prints a table; to a file or a pipe without the blanks that fill each line."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().rstrip("\n").split("\n"):
        console.print(Text(line.rstrip()), soft_wrap=True)
