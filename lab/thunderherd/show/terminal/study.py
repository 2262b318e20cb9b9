"""A run on the terminal: its tables and facts, its comparisons, its counters."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.answer import answer, sweep_answer
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.sentences.crossover import sentences
from thunderherd.show.sentences.explanation import why_lines
from thunderherd.show.sentences.left_out import not_counted, not_sampled, where_drawn
from thunderherd.show.sentences.tables import (
    claim_counts,
    run_line,
    trial_counts,
    verdict_counts,
    warnings,
)
from thunderherd.show.tables.counters import asks_for_counters, counter_tables, counters_legend
from thunderherd.show.tables.main import main_table, metrics_table, pairs_table
from thunderherd.show.tables.paper_counters import (
    counted_legend,
    counted_tables,
    counted_title,
    perf_stat_legend,
    perf_stats,
)
from thunderherd.show.tables.runs import main_runs, sweep_runs
from thunderherd.show.tables.sweeps import main_further, slope_table, sweep_tables, sweeps_legend
from thunderherd.show.terminal.result_page import few_notes
from thunderherd.show.terminal.tables import print_table
from thunderherd.study.resolved import LEFT_OUT
from thunderherd.text.figures import count, main_of
from thunderherd.text.layout import Sentence, head_width, print_answer, print_facts, prose

__all__ = ["print_counters", "print_pairs", "print_study"]

MOST_ANSWERS = 5
"""The most further answers that are printed."""


def print_study(
    summary: Summary, console: Console, directory: Path | None = None, report: Path | None = None
) -> None:
    """Prints the tables and facts of a study.

    `directory` is the results folder, for the lines that name it and the next command; `report` is the page
    that was written. A line with a path or a command is never folded.
    """
    console.print()
    prose(console, summary.study.title, style="bold")
    if summary.study.question:
        prose(console, summary.study.question)
    console.print()
    _print_answer(summary, console)
    if main_of(summary):
        console.print()
        print_table(metrics_table(summary) if summary.study.further_metrics else main_table(summary), console)
    for table in (main_further(summary), main_runs(summary)):
        if table is not None:
            console.print()
            print_table(table, console)
    _print_sweeps(summary, console)
    _print_counted(summary, console)
    console.print()
    facts = [
        ("Verdicts", verdict_counts(summary)),
        ("Claims", claim_counts(summary.claims)),
        ("Trials", trial_counts(summary)),
        *_bounds(summary),
        ("Run", run_line(summary)),
        *(("Left out", note.removeprefix(LEFT_OUT)) for note in _left_out(summary)),
        *(("Note", note) for note in _notes(summary)),
    ]
    following: list[tuple[str, str]] = []
    if directory is not None:
        where, name = shlex.quote(str(directory)), shlex.quote(summary.study.name)
        has_claims = summary.claims or summary.questions
        judged = f"thunderherd claims {name} {where}" if has_claims else ""
        command = judged or f"thunderherd {'plot' if report else 'report'} {where}"
        why = f"thunderherd explain {where}" if summary.explanations or summary.profiles else ""
        counters = f"thunderherd table {where} --counters" if asks_for_counters(summary) else ""
        page = "" if report is None else str(report)
        texts = (page, str(directory), counters, where_drawn(summary, directory), why, command)
        following += zip(("Report", "Results", "Counters", "Profiles", "Why", "Next"), texts, strict=True)
    width = head_width([*facts, *following])
    print_facts(console, facts, least=width)
    print_facts(console, following, least=width, fold=False)


MOST_BOUNDS = 3
"""The most bounds that are printed, without their reasons."""


def _bounds(summary: Summary) -> list[tuple[str, str]]:
    """Lists the first bounds without their reasons; the table `bounds` has all of them."""
    found = bounds_in_words(summary)
    lines = [(each.heading, each.short) for each in found[:MOST_BOUNDS]]
    if (left := len(found) - MOST_BOUNDS) > 0:
        lines.append(("Bound", f"the report has {count(left, 'further one')}, and the reasons"))
    return lines


def _notes(summary: Summary) -> list[str]:
    """Lists the most important notes, shortened; the report has all of them."""
    notes = [*warnings(summary, in_short=True), *not_counted(summary), *not_sampled(summary)]
    return few_notes([note for note in notes if not note.startswith(LEFT_OUT)])


def _left_out(summary: Summary) -> list[str]:
    """Lists what this machine cannot run, and how to get it."""
    return [note for note in summary.study.notes if note.startswith(LEFT_OUT)]


def _print_answer(summary: Summary, console: Console) -> None:
    """Prints the answer of the first table, then those of the others; the report has all of them."""
    found = answer(summary)
    # A single sweep needs no heading before its answer.
    alone = sweep_answer(summary, summary.sweeps[0]) if _is_one_sweep(summary) else ""
    further = [Sentence(sentence) for _, sentence in found.further[:MOST_ANSWERS]]
    print_answer(console, [Sentence(alone or found.sentence, () if alone else found.better), *further])
    if (left := len(found.further) - MOST_ANSWERS) > 0:
        prose(console, f"The report has {count(left, 'further answer')}.", style="")


def _is_one_sweep(summary: Summary) -> bool:
    return not main_of(summary) and len(summary.sweeps) == 1 and not summary.further_pairs


def _print_sweeps(summary: Summary, console: Console) -> None:
    """Prints every sweep: title, tables, crossover, slopes and runs."""
    for sweep in summary.sweeps:
        console.print()
        prose(console, sweep.title, style="bold")
        for place, table in enumerate(sweep_tables(summary, sweep)):
            if place:
                console.print()
            print_table(table, console)
        # The first sentence is the answer, which is printed above.
        for place, sentence in enumerate(sentences(summary, sweep)[1:]):
            if not place:
                console.print()
            prose(console, sentence, style="")
        if slopes := slope_table(summary, sweep):
            console.print()
            print_table(slopes, console)
        if runs := sweep_runs(summary, sweep):
            console.print()
            print_table(runs, console)
        for line in why_lines(summary, sweep):
            prose(console, line)
    if summary.sweeps:
        console.print()
    for line in sweeps_legend(summary):
        prose(console, line)


def _print_counted(summary: Summary, console: Console) -> None:
    """Prints the counters of both sides next to the source's, if it has such a table."""
    tables = counted_tables(summary)
    if not tables:
        return
    console.print()
    prose(console, counted_title(summary), style="bold")
    for place, table in enumerate(tables):
        if place:
            console.print()
        print_table(table, console)
    prose(console, counted_legend(summary))
    for output in perf_stats(summary):
        console.print()
        prose(console, output.title, style="bold")
        for line in output.lines:
            # The columns are the source's, so lines are never folded.
            console.print(Text(line), soft_wrap=True)
        for note in output.notes:
            head, _, text = note.partition(" ")
            prose(console, text, head=f"{head} ")
    for line in perf_stat_legend(summary) if perf_stats(summary) else ():
        prose(console, line)


def print_pairs(summary: Summary, console: Console) -> None:
    """Prints the table of comparisons."""
    if summary.pairs:
        print_table(pairs_table(summary), console)
    else:
        prose(console, f"Comparisons: {verdict_counts(summary)}", style="")


def print_counters(summary: Summary, console: Console) -> None:
    """Prints the tables of all places."""
    for tables in counter_tables(summary):
        for table in tables.all:
            console.print()
            print_table(table, console)
    console.print()
    for line in counters_legend(summary):
        prose(console, line)
