"""The tables of a run, by name, for readers and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from thunderherd.metrics.table import in_order
from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, Summary, SweepSummary
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.sentences.tables import main_caption
from thunderherd.show.tables import data
from thunderherd.show.tables.claims import claims_table, paper_table, questions_table
from thunderherd.show.tables.counters import asks_for_counters, counter_tables, counters_legend
from thunderherd.show.tables.limits import limits_table
from thunderherd.show.tables.main import main_table, pairs_table
from thunderherd.show.tables.model import NamedTable, Table, plain_table
from thunderherd.show.tables.noise import TITLE, noise_table
from thunderherd.show.tables.paper_counters import counted_legend, counted_tables, counted_title
from thunderherd.show.tables.runs import MAIN_METRICS, main_runs, sweep_runs
from thunderherd.show.tables.sweeps import main_further, metrics_of, slope_table, sweep_tables, sweeps_legend
from thunderherd.text.figures import main_of
from thunderherd.text.shown import at_points

__all__ = ["all_tables", "parts_of_report"]


def all_tables(summary: Summary) -> list[NamedTable]:
    """Lists the tables for which the run has data."""
    return [
        *_main(summary),
        *(each for sweep in summary.sweeps for each in _sweep(summary, sweep)),
        *_judged(summary),
        *_counted(summary),
        *_machine(summary),
    ]


def parts_of_report(summary: Summary) -> list[NamedTable]:
    """Lists the tables that have their own section in the report."""
    return [each for each in all_tables(summary) if each.is_part]


def _main(summary: Summary) -> Iterator[NamedTable]:
    main = main_of(summary)
    if main:
        yield NamedTable(
            "main",
            main_caption(summary),
            lambda: [main_table(summary)],
            lambda: data.main_data(summary),
        )
    if further := main_further(summary):
        names = in_order(each.metric for each in summary.paper if each.sweep is None)
        known = [name for name in names if name not in (PROCESS_CONTROL, WORKERS)]
        yield NamedTable(
            "further",
            further.caption,
            lambda: [further],
            lambda: data.figures_data(summary, main, known),
        )
    if runs := main_runs(summary):
        metrics = list(dict.fromkeys([summary.study.metric, *MAIN_METRICS]))
        yield NamedTable("runs", runs.caption, lambda: [runs], lambda: data.runs_data(summary, main, metrics))


def _sweep(summary: Summary, sweep: SweepSummary) -> Iterator[NamedTable]:
    names = [
        name
        for name in metrics_of(sweep)
        if name not in sweep.unavailable or any(each.metric == name for each in summary.paper)
    ]
    yield NamedTable(
        f"sweep-{sweep.name}",
        sweep.title,
        lambda: _sweep_tables(summary, sweep),
        lambda: data.sweep_data(summary, sweep, names or [sweep.metric]),
    )
    if slopes := slope_table(summary, sweep):
        yield NamedTable(
            f"slopes-{sweep.name}",
            slopes.caption,
            lambda: [slopes],
            lambda: data.slopes_data(summary, sweep),
        )
    if runs := sweep_runs(summary, sweep):
        there = list(at_points(summary, sweep).values())
        yield NamedTable(
            f"runs-{sweep.name}",
            f"{sweep.title}: {runs.caption}",
            lambda: [runs],
            lambda: data.runs_data(summary, there, names),
        )


def _sweep_tables(summary: Summary, sweep: SweepSummary) -> list[Table]:
    first, *further = sweep_tables(summary, sweep)
    notes = (*first.notes, *sweeps_legend(summary))
    return [replace(first, caption=f"{sweep.title}: {first.caption}", notes=notes), *further]


def _judged(summary: Summary) -> Iterator[NamedTable]:
    if any(each.value is not None for each in summary.paper):
        yield _one("paper", "The source's figures and this machine's", lambda: paper_table(summary))
    if summary.pairs:
        percent = "smallest_detectable [%]"
        yield NamedTable(
            "pairs",
            "Comparisons",
            lambda: [pairs_table(summary)],
            lambda: data.records_data(summary.pairs, smallest_detectable_percent=percent),
        )
    if summary.claims:
        yield _one("claims", "Claims of the source", lambda: claims_table(summary))
    if summary.questions:
        yield _one("questions", "Questions of the source", lambda: questions_table(summary))


def _one(name: str, title: str, make: Callable[[], Table]) -> NamedTable:
    """Makes a table that is the same for readers and for programs."""
    return NamedTable(name, title, lambda: [make().without_empty()], make)


def _counted(summary: Summary) -> Iterator[NamedTable]:
    if summary.counted is not None:
        title = counted_title(summary)
        yield NamedTable(
            "counted",
            title,
            lambda: [
                replace(
                    each, caption=f"{title}: {each.caption}", notes=(*each.notes, counted_legend(summary))
                )
                for each in counted_tables(summary)
            ],
            lambda: data.counted_data(summary),
        )
    if asks_for_counters(summary):
        yield NamedTable(
            "counters",
            "Counters of both sides",
            lambda: _counter_tables(summary),
            lambda: data.counters_data(summary),
        )


def _counter_tables(summary: Summary) -> list[Table]:
    *others, last = (table for place in counter_tables(summary) for table in place.all)
    return [*others, replace(last, notes=(*last.notes, *counters_legend(summary)))]


def _machine(summary: Summary) -> Iterator[NamedTable]:
    if bounds := bounds_in_words(summary):
        title = "Distance to the machine's limits"
        rows = [[each.heading, each.text] for each in bounds]
        yield NamedTable(
            "bounds",
            title,
            lambda: [plain_table(["", "sentence"], rows, 2, caption=title)],
            lambda: data.records_data(summary.bounds or summary.without_bounds),
        )
    if limits := summary.limits:
        yield NamedTable(
            "limits",
            "Limits of the machine",
            lambda: [limits_table(limits, summary.limits_of_hosts)],
            lambda: data.limits_data(limits, summary.limits_of_hosts),
        )
    if noise := noise_table(summary):
        yield NamedTable("noise", TITLE, lambda: [noise], is_part=True)
