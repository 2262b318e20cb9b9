"""The source's counters of both sides beside this machine's."""

from __future__ import annotations

from thunderherd.records.paper_counters import CountedCell, CountedSummary
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.source_figures import as_printed
from thunderherd.show.tables.model import Cell, Table, estimate_cell
from thunderherd.show.tables.sweeps import Reasons
from thunderherd.text.figures import ABSENT, Unit, decimals, estimator, extrapolated
from thunderherd.text.shown import not_tiny, shown

__all__ = ["counted_legend", "counted_tables", "counted_title"]


def counted_tables(summary: Summary) -> list[Table]:
    """Shows the source's events by contender, a table for each side; none without such a table."""
    counted = summary.counted
    if counted is None:
        return []
    sides = dict.fromkeys(cell.side for cell in counted.cells)
    return [_counted_table(summary, counted, side) for side in sides]


def _counted_table(summary: Summary, table: CountedSummary, side: str) -> Table:
    cells = {(cell.event, cell.base): cell for cell in table.cells if cell.side == side}
    reasons = Reasons()
    rows = []
    for event in table.events:
        row = [cells.get((event, base)) for base in table.contenders]
        known = [cell for cell in row if cell]
        if not known:
            continue
        unit = known[0].unit
        figures = [shown(summary, cell.value, cell.spread) for cell in known]
        measured = [figure.value for figure in figures if figure] or [cell.paper or 0.0 for cell in known]
        digits = decimals(not_tiny(measured))
        said = extrapolated(cell.scaled for cell in known)
        mark = reasons.mark(said) if said else ""
        head = event if unit in ("", "count") else f"{event} ({unit})"
        if note := table.notes.get(event):
            head += reasons.mark(f"the source: {note}")
        rows.append((head, [_counted_cell(summary, cell, digits, reasons, mark) for cell in row]))
    return Table.matrix(f"{side.capitalize()} side", "event", table.contenders, rows, reasons.notes)


def _counted_cell(
    summary: Summary, cell: CountedCell | None, digits: int, reasons: Reasons, scaled: str
) -> Cell:
    """Makes a cell; `scaled` is the mark of an extrapolated figure."""
    if cell is None:
        return Cell(ABSENT, mark=reasons.mark("not in the source's table"), paper=ABSENT)
    figure = shown(summary, cell.value, cell.spread)
    return estimate_cell(
        figure,
        Unit(1, cell.unit),
        digits,
        paper=ABSENT if cell.paper is None else as_printed(cell.paper),
        mark=reasons.mark(cell.why or "not measured")
        if figure is None
        else ("" if cell.scaled is None else scaled),
    )


def counted_legend(summary: Summary) -> str:
    """Explains the tables of counters."""
    return f"{estimator(summary)}. Paper: the source's figure, on its own machine."


def counted_title(summary: Summary) -> str:
    """Writes the title of the tables of counters, with the point of the sweep that they show."""
    table = summary.counted
    if table is None:
        return ""
    where = f" ({table.sweep}: {table.point})" if table.sweep else ""
    return f"{table.title}{where}"
