"""The tables of a run, by name: what `thunderherd table DIR NAME` writes, for readers or for programs.

All of it comes from the summary. For readers a table is what is printed and reported, in rounded texts; for
programs it is one grid of figures as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.metrics.table import CPU_PER_CONNECTION, SIDES, in_order, known_metric
from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, ContenderSummary, Summary, SweepSummary
from thunderherd.show.sentences import tables as sentences_tables
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.tables import main as tables_main
from thunderherd.show.tables import runs as tables_runs
from thunderherd.show.tables.counters import asks_for_counters, counter_tables, counters_legend
from thunderherd.show.tables.judged import judged_tables
from thunderherd.show.tables.limits import legend, limit_rows
from thunderherd.show.tables.model import (
    Field,
    Grid,
    NamedTable,
    Section,
    figures_grid,
    headed,
    interval_fields,
    of_models,
    section_of_matrix,
    section_of_runs,
    sweep_grid,
)
from thunderherd.show.tables.noise import noise_view
from thunderherd.show.tables.paper_counters import counted_legend, counted_matrices, counted_title
from thunderherd.show.tables.slopes import slope_matrix
from thunderherd.show.tables.sweeps import main_further, metrics_of, sweep_matrices, sweeps_legend
from thunderherd.text.figures import BETWEEN, main_of, printable, seconds_per, shows_process_control
from thunderherd.text.shown import at_points, shown, shown_of, unit_for

__all__ = ["all_tables", "main_section", "parts_of_report"]


def all_tables(summary: Summary) -> list[NamedTable]:
    """Those that the run has something for."""
    return [
        *_main(summary),
        *(each for sweep in summary.sweeps for each in _sweep(summary, sweep)),
        *judged_tables(summary),
        *_counted(summary),
        *_machine(summary),
    ]


def parts_of_report(summary: Summary) -> list[NamedTable]:
    """Those that the report shows by themselves."""
    return [each for each in all_tables(summary) if each.is_part]


# The main table ---------------------------------------------------------------------------------------------


def _main(summary: Summary) -> Iterator[NamedTable]:
    main = main_of(summary)
    if main:
        caption = sentences_tables.main_caption(summary)
        yield NamedTable("main", caption, lambda: [main_section(summary)], lambda: _main_data(summary, main))
    if further := main_further(summary, BETWEEN):
        names = in_order(each.metric for each in summary.paper if each.sweep is None)
        known = [name for name in names if name not in (PROCESS_CONTROL, WORKERS)]
        yield NamedTable(
            "further",
            further.caption,
            lambda: [section_of_matrix(further)],
            lambda: figures_grid(summary, main, known),
        )
    if runs := tables_runs.main_runs(summary):
        yield NamedTable(
            "runs",
            runs.caption,
            lambda: [section_of_runs(runs)],
            lambda: _runs_data(summary, main, _main_metrics(summary)),
        )


def main_section(summary: Summary) -> Section:
    """The study's table for readers."""
    rows, unit = tables_main.study_rows(summary, BETWEEN), _main_unit(summary)
    control = "process control" + (" (s)" if shows_process_control(summary) else "")
    heads = [
        "row",
        "design",
        "in the paper's words",
        _head(tables_main.heading_of(summary), unit),
        "interval",
    ]
    heads += [control, f"{control}, interval", "paper", "clients/worker", "sd", "rank"]
    fields: list[list[Field]] = [
        [
            row.row,
            row.name,
            printable(row.label),
            f"{row.value}{row.value_mark}",
            row.value_span,
            row.control if shows_process_control(summary) else "",
            row.control_span if shows_process_control(summary) else "",
            f"{row.paper}{row.mark}",
            row.workers,
            row.workers_deviation,
            f"{row.rank} {row.letters}".strip(),
        ]
        for row in rows
    ]
    notes = [f"{mark} {text}" for mark, text in tables_main.table_notes(summary).texts.items()]
    grid = Grid.of(heads, fields, 3).without_empty()
    return Section(sentences_tables.main_caption(summary), grid, (*notes, *sentences_tables.legend(summary)))


def _head(words: str, unit: str) -> str:
    return f"{words} ({unit})" if unit and unit != "/s" else words


def _main_unit(summary: Summary) -> str:
    name = summary.study.metric
    unit = unit_for(summary, name, [shown_of(summary, each, name) for each in main_of(summary)]).name
    return unit.partition(" per ")[0] if name == CPU_PER_CONNECTION else unit


def _main_metrics(summary: Summary) -> list[str]:
    return list(dict.fromkeys([summary.study.metric, *tables_runs.MAIN_METRICS]))


def _main_data(summary: Summary, main: Sequence[ContenderSummary]) -> Grid:
    more: list[tuple[str, Sequence[Field]]] = [
        ("row", [each.row for each in main]),
        ("label", [each.label for each in main]),
        ("control_of", [each.control_of for each in main]),
        ("rank", [each.rank for each in main]),
        ("letters", [each.letters for each in main]),
    ]
    if shows_process_control(summary):
        intervals = [interval_fields(each.process_control_seconds) for each in main]
        unit = seconds_per(summary.study.normalise_connections)
        for place, part in enumerate((PROCESS_CONTROL, f"{PROCESS_CONTROL} low", f"{PROCESS_CONTROL} high")):
            more.append((headed(part, unit), [fields[place] for fields in intervals]))
    return figures_grid(summary, main, [summary.study.metric], more=more)


# Sweeps -----------------------------------------------------------------------------------------------------


def _sweep(summary: Summary, sweep: SweepSummary) -> Iterator[NamedTable]:
    names = [
        name
        for name in metrics_of(sweep)
        if name not in sweep.unavailable or any(each.metric == name for each in summary.paper)
    ]
    yield NamedTable(
        f"sweep-{sweep.name}",
        sweep.title,
        lambda: _sweep_sections(summary, sweep),
        lambda: sweep_grid(summary, sweep, names or [sweep.metric]),
    )
    if slopes := slope_matrix(summary, sweep, BETWEEN):
        yield NamedTable(
            f"slopes-{sweep.name}",
            slopes.caption,
            lambda: [section_of_matrix(slopes)],
            lambda: _slopes_data(summary, sweep),
        )
    if runs := tables_runs.sweep_runs(summary, sweep):
        there = list(at_points(summary, sweep).values())
        yield NamedTable(
            f"runs-{sweep.name}",
            f"{sweep.title}: {runs.caption}",
            lambda: [section_of_runs(runs)],
            lambda: _runs_data(summary, there, names),
        )


def _sweep_sections(summary: Summary, sweep: SweepSummary) -> list[Section]:
    first, *further = map(section_of_matrix, sweep_matrices(summary, sweep, BETWEEN))
    caption = f"{sweep.title}: {first.caption}"
    return [Section(caption, first.grid, (*first.notes, *sweeps_legend(summary))), *further]


def _slopes_data(summary: Summary, sweep: SweepSummary) -> Grid:
    """Each line in its metric's own unit; of repeated runs means, the ends one standard deviation away."""
    heads = ["contender", "metric"]
    for part in ("each", "start", "r_squared"):
        heads += [part, f"{part} low", f"{part} high"]
    rows = []
    for line in sweep.slopes:
        row: list[Field] = [line.base, line.metric]
        for estimate, spread in (
            (line.each, line.each_spread),
            (line.start, line.start_spread),
            (line.r_squared, line.r_squared_spread),
        ):
            row += interval_fields(shown(summary, estimate, spread))
        rows.append([*row, line.why])
    return Grid.of([*heads, "why"], rows, 2)


def _runs_data(summary: Summary, contenders: Sequence[ContenderSummary], names: Sequence[str]) -> Grid:
    """Every run a row, its metrics in their own units."""
    rows = [
        [each.base, each.sweep, each.point, number, *(run.get(name) for name in names)]
        for each in contenders
        for number, run in enumerate(each.runs, start=1)
    ]
    heads = [headed(name, _own_unit(summary, name)) for name in names]
    return Grid.of(["contender", "sweep", "point", "run", *heads], rows, 3)


def _own_unit(summary: Summary, name: str) -> str:
    found = known_metric(name, summary.study.counters)
    return found.unit if found else ""


# What is counted --------------------------------------------------------------------------------------------


def _counted(summary: Summary) -> Iterator[NamedTable]:
    if summary.counted is not None:
        title = counted_title(summary)
        yield NamedTable(
            "counted", title, lambda: _counted_sections(summary, title), lambda: _counted_data(summary)
        )
    if asks_for_counters(summary):
        title = "What was counted of each side"
        yield NamedTable(
            "counters", title, lambda: _counter_sections(summary), lambda: _counter_data(summary)
        )


def _counted_sections(summary: Summary, title: str) -> list[Section]:
    sections = map(section_of_matrix, counted_matrices(summary, BETWEEN))
    return [
        Section(f"{title}: {each.caption}", each.grid, (*each.notes, counted_legend(summary)))
        for each in sections
    ]


def _counted_data(summary: Summary) -> Grid:
    heads = ["side", "event", "contender", "unit", "metric", "value", "low", "high", "paper", "why"]
    rows = []
    for each in summary.counted.cells if summary.counted else ():
        figures = interval_fields(shown(summary, each.value, each.spread))
        rows.append(
            [each.side, each.event, each.base, each.unit, each.metric, *figures, each.paper, each.why]
        )
    return Grid.of(heads, rows, 5)


def _counter_sections(summary: Summary) -> list[Section]:
    sections = []
    for place in counter_tables(summary, BETWEEN):
        for matrix in [*place.first, *place.further]:
            own = section_of_matrix(matrix)
            caption = f"{place.where}. {own.caption}" if place.where else own.caption
            sections.append(Section(caption, own.grid, own.notes))
    last = sections[-1]
    return [*sections[:-1], Section(last.caption, last.grid, (*last.notes, *counters_legend(summary)))]


def _counter_data(summary: Summary) -> Grid:
    """All that was told of the sides, of every contender."""
    told = in_order(name for each in summary.contenders for name in (*each.metrics, *each.spread))
    names = [name for name in told if name.partition(".")[0] in (*SIDES, "both") and "." in name]
    return figures_grid(summary, summary.contenders, names)


# The machine ------------------------------------------------------------------------------------------------


def _machine(summary: Summary) -> Iterator[NamedTable]:
    if told := bounds_in_words(summary):
        grid = Grid.of(["", "sentence"], [[each.heading, each.text] for each in told], 2)
        title = "Distance to the machine's limits"
        yield NamedTable(
            "bounds",
            title,
            lambda: [Section(title, grid)],
            lambda: (
                of_models(summary.bounds, {}) if summary.bounds else of_models(summary.without_bounds, {})
            ),
        )
    if limits := summary.limits:
        title = "Limits of the machine"
        yield NamedTable(
            "limits",
            title,
            lambda: [Section(title, _limits_grid(summary), (legend(limits),))],
            lambda: of_models(limits.figures, {}),
        )
    if view := noise_view(summary):
        rows = [[row.contender, *row.cells] for row in view.rows]
        section = Section(view.title, Grid.of(view.headings, rows), tuple(view.legend))
        yield NamedTable("noise", view.title, lambda: [section], lambda: _noise_data(summary), is_part=True)


def _limits_grid(summary: Summary) -> Grid:
    rows = limit_rows(summary.limits, ()) if summary.limits else []
    heads = ["limit", "where, size", "median", "interval", "best", "unit"]
    return Grid.of(
        heads, [[row.limit, row.where, row.value, row.span, row.best, row.unit] for row in rows], 2
    )


def _noise_data(summary: Summary) -> Grid:
    heads = [
        "contender",
        "trials",
        "softirq [ms/s]",
        "softirq by CPU [ms/s]",
        "steal [share]",
        "foreign [share]",
    ]
    rows = []
    for each in summary.contenders:
        if (told := each.noise) is not None:
            rates = told.softirq_milliseconds_per_second
            row: list[Field] = [
                each.name,
                told.trials,
                sum(rates) if rates else None,
                " ".join(map(str, rates)),
            ]
            row += [told.steal_share, told.foreign_share, told.retransmitted, "; ".join(told.why.values())]
            rows.append(row)
    return Grid.of([*heads, "retransmitted", "why"], rows)
