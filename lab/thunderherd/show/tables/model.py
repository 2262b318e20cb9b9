"""The one model of a table. Builders fill it from a summary; each medium has one writer.

Values are rounded texts. A cell also keeps the unrounded fields that programs read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from thunderherd.records.summary import Estimate
from thunderherd.text.figures import ABSENT, Unit, number
from thunderherd.text.shown import ShownEstimate

__all__ = [
    "NOTHING",
    "Cell",
    "Column",
    "Field",
    "NamedTable",
    "Row",
    "Table",
    "estimate_cell",
    "for_readers",
    "interval_fields",
    "plain_table",
    "with_details",
]

Field = str | int | float | None
"""A value for programs; None if there is no figure. A further column says why."""

NOTHING = ("", ABSENT)


@dataclass(frozen=True)
class Cell:
    """A figure or a text, with its details."""

    value: str = ABSENT
    span: str = ""
    """The interval of an estimate, or the deviation of a mean."""
    mark: str = ""
    """The mark of a note below the table, or of a verdict."""
    paper: str = ""
    """The source's figure."""
    bound: str = ""
    """The bound of the figure."""
    note: str = ""
    """Words about this row, for media with room."""
    kind: str = ""
    """A verdict, which has a colour."""
    bar: float | None = None
    """The length of a bar next to the figure, 0 to 1, which only a terminal shows."""
    data: tuple[Field, ...] | None = None
    """The fields of a CSV file, as `Column.csv` heads them; None: the text alone."""


@dataclass(frozen=True)
class Column:
    """A column. A name stays whole if there is room; words may be folded, and short ones never are."""

    head: str
    kind: Literal["name", "words", "short", "figure", "detail"] = "figure"
    unit: str = ""
    """The unit, in media that print the table alone."""
    span: str = "interval"
    """The head of the intervals, if these have a column."""
    note: str = ""
    """The head of the notes; without one, only the report shows them."""
    repeats: bool = True
    """True if a terminal prints a value that is also in the row above."""
    csv: tuple[str, ...] | None = None
    """The heads of a CSV file; None: the head alone."""

    @property
    def is_figure(self) -> bool:
        return self.kind in ("figure", "detail")


@dataclass(frozen=True)
class Row:
    """The cells of a row. Controls, summaries of runs and totals look different."""

    cells: tuple[Cell, ...]
    kind: Literal["", "control", "of-runs", "total"] = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows, with a caption above and notes below."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    kind: Literal["list", "matrix", "runs", "profile"] = "list"
    """A matrix has a figure of a contender in each column; a row of `runs` is one run."""
    fixed: int = 1
    """The columns at the left that stay when a wide matrix is printed in parts."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"a row has {len(row.cells)} cells, and there are {len(self.columns)} columns"
                )

    @classmethod
    def matrix(
        cls,
        caption: str,
        corner: str,
        heads: Iterable[str],
        rows: Iterable[tuple[str, Sequence[Cell]]],
        notes: Iterable[str] = (),
    ) -> Table:
        """Makes a table of figures by row and contender; `corner` is the head of the first column."""
        columns = (Column(corner, "name"), *map(Column, heads))
        found = tuple(Row((Cell(head), *cells)) for head, cells in rows)
        return cls(caption, columns, found, tuple(notes), "matrix")

    def part(self, places: Iterable[int]) -> Table:
        """Keeps only these columns, counted from 0."""
        chosen = [*places]
        rows = tuple(replace(row, cells=tuple(row.cells[place] for place in chosen)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in chosen), rows=rows)

    @property
    def name_place(self) -> int | None:
        """The place of the first column of names; None without any."""
        return next((place for place, each in enumerate(self.columns) if each.kind == "name"), None)

    def cells_of(self, place: int) -> list[Cell]:
        """Gives the cells of a column, from top to bottom."""
        return [row.cells[place] for row in self.rows]

    def without_empty(self) -> Table:
        """Drops the columns in which every cell is empty."""
        return self.part(
            place
            for place in range(len(self.columns))
            if any({each.value, each.mark, each.paper} - {*NOTHING} for each in self.cells_of(place))
        )


@dataclass(frozen=True)
class NamedTable:
    """A table of a run that can be requested by name; it is made on request."""

    name: str
    """Letters, digits and dashes; unique within a run."""
    title: str
    tables: Callable[[], list[Table]]
    """For readers: one table, or one for each metric or side."""
    data: Callable[[], Table] | None = None
    """For programs; None: the only one of `tables`."""
    is_part: bool = False
    """True if the report gives it a section, and shows it nowhere else."""

    def for_programs(self) -> Table:
        """Makes the table of a CSV file."""
        return self.data() if self.data else self.tables()[0]


def estimate_cell(
    figure: ShownEstimate | None, unit: Unit, digits: int, *, mark: str = "", paper: str = "", bound: str = ""
) -> Cell:
    """Rounds an estimate with its interval, or a mean with its deviation."""
    if figure is None:
        return Cell(ABSENT, "", mark, paper, bound)
    return Cell(number(unit.of(figure.value), digits), figure.span(unit, digits), mark, paper, bound)


def interval_fields(found: Estimate | ShownEstimate | None) -> list[Field]:
    """Gives an estimate and its ends, for programs."""
    return [found.value, found.low, found.high] if found else [None, None, None]


def plain_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Field]],
    words: int = 1,
    last: int = 0,
    *,
    caption: str = "",
    notes: Iterable[str] = (),
) -> Table:
    """Makes a table of plain fields. The first `words` and the `last` columns are words, others figures."""
    columns = tuple(
        Column(head, "name" if not place else "figure" if words <= place < len(heads) - last else "words")
        for place, head in enumerate(heads)
    )
    found = tuple(
        Row(tuple(Cell(ABSENT if each is None else str(each), data=(each,)) for each in row)) for row in rows
    )
    return Table(caption, columns, found, tuple(notes))


# Details in columns -----------------------------------------------------------------------------------------


def with_details(table: Table, *, notes: bool, inline: bool = False) -> Table:
    """Gives each kind of detail its own column: interval, bound, source's figure, note.

    With `inline`, intervals stay in the fields of their figures, and heads of details name the column.
    """
    columns: list[Column] = []
    cells: list[list[Cell]] = []
    for place, column in enumerate(table.columns):
        own, before = table.cells_of(place), f"{column.head}, " if inline else ""
        columns.append(column)
        cells.append([Cell(each.value, mark=each.mark, kind=each.kind, bar=each.bar) for each in own])
        spans = [each.span.removeprefix(f"{column.span} ") for each in own]
        if inline:
            cells[-1] = [
                replace(cell, mark=cell.mark + (f" ({span})" if span else ""))
                for cell, span in zip(cells[-1], spans, strict=True)
            ]
        details: list[tuple[Column, list[str]]] = [
            # A deviation is a figure itself.
            (Column(column.span, "figure" if column.span == "sd" else "detail"), [] if inline else spans),
            (Column(f"{before}bound"), [each.bound for each in own]),
            (Column(f"{before}paper"), [each.paper for each in own]),
            (Column(column.note, "short"), [each.note for each in own] if notes and column.note else []),
        ]
        for head, texts in details:
            if {*texts} - {*NOTHING}:
                columns.append(head)
                cells.append(list(map(Cell, texts)))
    rows = tuple(
        replace(row, cells=own) for row, own in zip(table.rows, zip(*cells, strict=True), strict=False)
    )
    return replace(table, columns=tuple(columns), rows=rows)


def for_readers(table: Table) -> Table:
    """Prepares a table for a separate page: values only, and units in the heads."""
    units = tuple(
        replace(each, head=f"{each.head} ({each.unit})") if each.unit else each for each in table.columns
    )
    return with_details(replace(table, columns=units), notes=True, inline=table.kind == "matrix")
