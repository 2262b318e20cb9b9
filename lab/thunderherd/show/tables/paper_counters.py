"""The source's counters of both sides and this machine's: as tables, and in the form of perf-stat(1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thunderherd.records.paper_counters import CountedCell, CountedProgram, CountedSummary, Derived
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.counting_cost import cost_lines
from thunderherd.show.sentences.source_figures import as_printed
from thunderherd.show.tables.model import Cell, Table, estimate_cell
from thunderherd.show.tables.sweeps import Reasons
from thunderherd.text.figures import ABSENT, Unit, decimals, estimator, extrapolated
from thunderherd.text.printable import printable
from thunderherd.text.shown import not_tiny, shown

__all__ = [
    "PerfStat",
    "counted_legend",
    "counted_tables",
    "counted_title",
    "perf_stat_legend",
    "perf_stats",
]


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
        how = extrapolated(cell.scaled for cell in known)
        mark = reasons.mark(how) if how else ""
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


# The form of perf stat --------------------------------------------------------------------------------------

_PERF_STAT_LEGEND = (
    "Each line is the report's, as perf stat prints it. The line \"here\" below it is this machine's: the "
    "estimate over all blocks and what follows from it. Its interval is in the tables above. "
    "<not supported> marks an unavailable event. (40%) marks one that was counted for that share of the "
    "time and is extrapolated."
)

NOT_SUPPORTED = "<not supported>"
HERE = "here"

SECONDS = {"elapsed": "seconds time elapsed", "user": "seconds user", "sys": "seconds sys"}
"""The lines below the events, with their words."""

BEHIND = {
    "cpus_utilized": (1.0, 3, " CPUs utilized"),
    "cpu_clock_per_second": (1.0, 3, " CPUs utilized"),
    "gigahertz": (1.0, 3, " GHz"),
    "instructions_per_cycle": (1.0, 2, " insn per cycle"),
    "branch_miss_share": (100.0, 2, "% of all branches"),
    "cache_miss_share": (100.0, 2, "% of all cache refs"),
}
"""The derived figure of an event: its factor, its decimals, and its words."""

RATES = ((1e9, "G"), (1e6, "M"), (1e3, "K"))


@dataclass(frozen=True)
class PerfStat:
    """One output: its title, its lines, and why some of this machine's figures are missing."""

    title: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def perf_stat_legend(summary: Summary) -> list[str]:
    """Explains the outputs, and says what counting changed in this machine's figures."""
    return [_PERF_STAT_LEGEND, *cost_lines(summary)]


def perf_stats(summary: Summary) -> list[PerfStat]:
    """Makes one output for each of the source's that this run has."""
    table = summary.counted
    return [_output(summary, table, each) for each in table.programs] if table else []


def _output(summary: Summary, table: CountedSummary, program: CountedProgram) -> PerfStat:
    own = {cell.event: cell for cell in table.cells if (cell.side, cell.base) == (program.side, program.base)}
    reasons = Reasons()
    events = [own[event] for event in table.events if event in own]
    lines = [
        f" Performance counter stats for '{printable(program.program)}':",
        "",
        *(line for cell in events if cell.event not in SECONDS for line in _event(summary, cell, reasons)),
        "",
        *(line for cell in events if cell.event in SECONDS for line in _seconds(summary, cell, reasons)),
    ]
    title = (
        f"Fig. {printable(program.figure)} of the report, and this machine: {program.side} of {program.base}"
    )
    return PerfStat(title, tuple(line.rstrip() for line in lines), tuple(reasons.notes))


def _event(summary: Summary, cell: CountedCell, reasons: Reasons) -> Iterator[str]:
    head, _, rest = cell.paper_derived.partition(" ")
    if head.endswith("%"):
        head, rest = head[:-1], f"% {rest}"
    elif rest:
        rest = f" {rest}"
    unit = "" if cell.unit == "count" else cell.unit
    theirs = NOT_SUPPORTED if cell.paper is None else _count(cell.paper, cell.unit)
    yield _line("", theirs, unit, printable(cell.event), printable(head), printable(rest))
    figure = shown(summary, cell.value, cell.spread)
    if figure is None:
        yield _line(HERE, f"{NOT_SUPPORTED}{reasons.mark(cell.why or 'not measured')}", unit, "", "", "")
        return
    digits, words = _behind(summary, cell.derived)
    share = "" if cell.scaled is None else f"  ({100 * cell.scaled:.0f}%)"
    yield _line(HERE, _count(figure.value, cell.unit), unit, "", digits, f"{words}{share}")


def _line(whose: str, count: str, unit: str, event: str, digits: str, words: str) -> str:
    """Writes one of perf stat's lines with its columns."""
    behind = f"#{digits:>9}{words}" if digits else words
    return f"{whose:>5} {count:>16} {unit:<4} {event:<21} {behind}"


def _count(value: float, unit: str) -> str:
    return f"{value:,.2f}" if unit == "msec" else f"{value:,.0f}"


def _behind(summary: Summary, derived: Derived | None) -> tuple[str, str]:
    """Gives the digits and words of the derived figure; empty without one."""
    figure = shown(summary, derived.value, derived.spread) if derived else None
    if derived is None or figure is None:
        return "", ""
    if known := BEHIND.get(derived.metric.partition(".")[2]):
        factor, digits, words = known
        return f"{figure.value * factor:.{digits}f}", words
    scale, letter = next((each for each in RATES if figure.value >= each[0]), (1.0, ""))
    return f"{figure.value / scale:.3f}", f" {letter}/sec"


def _seconds(summary: Summary, cell: CountedCell, reasons: Reasons) -> Iterator[str]:
    """Writes a time with nine decimals, as perf stat does."""
    figure = shown(summary, cell.value, cell.spread)
    ours = (
        f"{NOT_SUPPORTED}{reasons.mark(cell.why or 'not measured')}"
        if figure is None
        else f"{figure.value:.9f}"
    )
    theirs = NOT_SUPPORTED if cell.paper is None else f"{cell.paper:.9f}"
    yield f"      {theirs:>16} {SECONDS[cell.event]}"
    yield f"{HERE:>5} {ours:>16}"
    yield ""
