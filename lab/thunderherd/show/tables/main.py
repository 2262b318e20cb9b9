"""What a run came to, as text: the study's table, its pairs, its claims.

Everything comes from the summary alone, so `summary.json` holds every figure that is printed. The rows
(`study_rows`, `pair_rows`) are the ones the HTML report shows. Tables fit 80 columns, with intervals below
their figures; where there is room a row has one line. Where the output is no terminal they are plain.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.metrics.table import CPU_PER_CONNECTION, metric
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.sentences.counting_cost import about_metrics
from thunderherd.show.sentences.left_out import not_counted, not_sampled, where_drawn
from thunderherd.show.sentences.source_figures import notes_by_mark
from thunderherd.show.sentences.tables import (
    claim_counts,
    legend,
    main_caption,
    run_line,
    trial_counts,
    verdict_counts,
    warnings,
)
from thunderherd.show.tables.counters import asks_for_counters
from thunderherd.show.tables.sweeps import Reasons, main_papers, scaled_marks, why_none
from thunderherd.show.tables.terminal import print_counted, print_main_further, print_main_runs, print_sweeps
from thunderherd.text.figures import (
    ABSENT,
    capital,
    count,
    extrapolated,
    interval_span,
    interval_value,
    main_of,
    not_offered,
    number,
    percent,
    places,
    printable,
    ratio_digits,
    shows_process_control,
    span,
    words_of,
)
from thunderherd.text.layout import Layout, below, print_facts, print_table, prose
from thunderherd.text.shown import digits_for, shown_of, unit_for

BETWEEN = ".."
"""Between the ends of an interval: shorter than " to ", and clear before a minus sign."""

VERDICT_STYLES = {
    "supported": "bold green",
    "refuted": "bold red",
    "undecided": "yellow",
    "not testable here": "dim",
    "faster": "green",
    "slower": "red",
    "equivalent": "cyan",
}


# Rows: what is shown, as texts


@dataclass(frozen=True)
class StudyRow:
    """One contender. Every field is a text ready to be shown; `-` where there is no figure."""

    row: str
    name: str
    label: str
    design: str
    is_control: bool
    value: str
    value_span: str
    value_mark: str
    control: str
    control_span: str
    paper: str
    mark: str
    workers: str
    workers_deviation: str
    rank: str
    letters: str


@dataclass(frozen=True)
class PairRow:
    """One comparison of the declared family, as texts; `where` is empty in the main table."""

    where: str
    a: str
    b: str
    verdict: str
    ratio: str
    span: str
    blocks: str
    detectable: str


def study_rows(summary: Summary, between: str = BETWEEN) -> list[StudyRow]:
    """The rows of the study's table, in the order of the study; `between` the ends of intervals."""
    marks, main = table_notes(summary), main_of(summary)
    figures = {each.name: _main_figure(each, summary, between) for each in main}
    papers = main_papers(summary)
    return [
        _study_row(each, summary, figures[each.name], papers.get((each.name, None), ABSENT), between, marks)
        for each in main
    ]


@dataclass(frozen=True)
class StudyColumns:
    """Which columns of the study's table have anything in them; the others are not shown."""

    row: bool
    paper: bool
    workers: bool


def study_columns(rows: Sequence[StudyRow]) -> StudyColumns:
    """The columns of the study's table that these rows fill."""
    return StudyColumns(
        row=any(each.row != ABSENT for each in rows),
        paper=any(each.paper != ABSENT or each.mark for each in rows),
        workers=any(each.workers != ABSENT for each in rows),
    )


@dataclass(frozen=True)
class TableNotes:
    """What to know about the figures of the main table: the texts by mark, and the marks of contenders whose
    figure has one, the source's or ours."""

    texts: dict[str, str]
    of_paper: dict[str, str]
    of_ours: dict[str, str]


def table_notes(summary: Summary) -> TableNotes:
    """Notes on the source's figures, then why ours are missing, or that they are extrapolated."""
    papers, name, main = notes_by_mark(summary), summary.study.metric, main_of(summary)
    reasons = Reasons(papers.texts)
    ours = scaled_marks(main, name, reasons)
    for each in main:
        if _main_figure(each, summary, BETWEEN)[0] == ABSENT:
            ours[each.name] = reasons.mark(why_none(summary, name, each))
    return TableNotes({mark: text for text, mark in reasons.marks.items()}, papers.marks, ours)


def _main_figure(each: ContenderSummary, summary: Summary, between: str) -> tuple[str, str]:
    """The study's metric of a contender, and its interval; of repeated runs, mean and deviation."""
    name = summary.study.metric
    if name == CPU_PER_CONNECTION and not summary.study.repetitions:
        digits = places(summary)
        return interval_value(each.cpu_seconds, digits), interval_span(each.cpu_seconds, digits, between)
    figures = {contender.name: shown_of(summary, contender, name) for contender in main_of(summary)}
    unit, own = unit_for(summary, name, figures.values()), figures[each.name]
    digits = digits_for([unit.of(figure.value) for figure in figures.values() if figure], name)
    return (number(unit.of(own.value), digits), own.span(unit, digits, between)) if own else (ABSENT, "")


def _study_row(
    each: ContenderSummary,
    summary: Summary,
    figure: tuple[str, str],
    paper: str,
    between: str,
    marks: TableNotes,
) -> StudyRow:
    control, workers, digits = each.process_control_seconds, each.clients_per_worker, places(summary)
    is_baseline, repeated = each.name == summary.study.baseline, summary.study.repetitions is not None
    return StudyRow(
        row=ABSENT if each.row is None else str(each.row),
        name=each.name,
        label=each.label,
        design=each.design,
        is_control=each.control_of is not None,
        value=figure[0],
        value_span=figure[1],
        value_mark=marks.of_ours.get(each.name, ""),
        control="baseline" if is_baseline else interval_value(control, digits),
        control_span="" if is_baseline or repeated else interval_span(control, digits, between),
        paper=paper,
        mark=marks.of_paper.get(each.name, ""),
        workers=span(workers.minimum, workers.maximum, 0, between) if workers else ABSENT,
        workers_deviation=number(workers.standard_deviation, 1) if workers else ABSENT,
        rank=ABSENT if each.rank is None else str(each.rank),
        letters=each.letters,
    )


def pair_rows(summary: Summary, between: str = BETWEEN) -> list[PairRow]:
    """The rows of the table of pairs, in the order of the declared family; `between` as in study_rows."""
    rows = []
    bases = {each.name: each.base for each in summary.contenders}
    for pair in summary.pairs:
        digits = ratio_digits(pair.ratio, pair.high)
        smallest = pair.smallest_detectable_percent
        rows.append(
            PairRow(
                where=f"{pair.sweep}={pair.point}" if pair.sweep else "",
                a=bases.get(pair.a, pair.a) if pair.sweep else pair.a,
                b=bases.get(pair.b, pair.b) if pair.sweep else pair.b,
                verdict=pair.verdict,
                ratio=number(pair.ratio, digits),
                span=ABSENT if pair.ratio is None else span(pair.low, pair.high, digits, between),
                blocks=str(pair.blocks),
                detectable=ABSENT if smallest is None else f"{number(smallest, 1)} %",
            )
        )
    return rows


# Printing


def print_study(summary: Summary, console: Console, directory: Path | None = None) -> None:
    """Prints the table of a study and what belongs to it, as wide as the console that `make_console` gives.

    directory: where the results lie, for the lines that say so and name the next command.
    """
    console.print()
    prose(console, summary.study.title, style="bold")
    prose(console, summary.study.question)
    if main_of(summary):
        console.print()
        prose(console, main_caption(summary), style="")
        print_table(console, lambda layout: _study_table(summary, layout))
        for line in legend(summary):
            prose(console, line)
        for mark, text in table_notes(summary).texts.items():
            prose(console, text, head=f"{mark} ", style="")
        print_main_further(summary, console)
        print_main_runs(summary, console)
    print_sweeps(summary, console)
    print_counted(summary, console)
    console.print()
    facts = [
        ("Verdicts", verdict_counts(summary)),
        ("Claims", claim_counts(summary)),
        ("Trials", trial_counts(summary)),
        *((bound.heading, bound.text) for bound in bounds_in_words(summary)),
        ("Run", run_line(summary)),
        *(("Note", note) for note in (*warnings(summary), *not_counted(summary), *not_sampled(summary))),
    ]
    if directory is not None:
        where, name = shlex.quote(str(directory)), shlex.quote(summary.study.name)
        has_claims = summary.claims or summary.questions
        following = f"thunderherd claims {name} {where}" if has_claims else f"thunderherd report {where}"
        why = f"thunderherd explain {where}" if summary.explanations or summary.profiles else ""
        counters = f"thunderherd table {where} --counters" if asks_for_counters(summary) else ""
        texts = (str(directory), counters, where_drawn(summary, directory), why, following)
        facts += zip(("Results", "Counters", "Profiles", "Why", "Next"), texts, strict=True)
    print_facts(console, facts)


def _study_table(summary: Summary, layout: Layout) -> Table:
    rows, table = study_rows(summary), layout.table()
    has_control = shows_process_control(summary)
    columns, has_marks = study_columns(rows), any(row.value_mark for row in rows)
    control = ["Process control" if layout.one_line else "Process\ncontrol"] if has_control else []
    if columns.row:
        table.add_column("Row", justify="right", no_wrap=True)
    table.add_column("Design", overflow="fold")
    if layout.labels:
        table.add_column("In the paper's words", no_wrap=True, style="dim")
    for heading in (heading_of(summary), *control):
        table.add_column(heading, justify="right", no_wrap=True)
        if layout.one_line:
            table.add_column("interval", style="dim", no_wrap=True)
    if columns.paper:
        table.add_column("Paper", justify="right", no_wrap=True)
    if columns.workers:
        heading = "Clients/worker" if layout.one_line else "Clients/\nworker"
        table.add_column(heading, justify="right", no_wrap=True)
        if layout.one_line:
            table.add_column("sd", justify="right", style="dim", no_wrap=True)
    table.add_column("Rank", no_wrap=True)
    for row in rows:
        name = Text(layout.name(row.name), style="italic" if row.is_control else "bold")
        deviation = "" if row.workers_deviation == ABSENT else row.workers_deviation
        workers = [Text(row.workers), Text(deviation)]
        if not layout.one_line:
            workers = [below(row.workers, deviation and f"sd {deviation}")]
        table.add_row(
            *([Text(row.row)] if columns.row else []),
            name,
            *([Text(printable(row.label))] if layout.labels else []),
            # A figure keeps its column whether it has a mark or not.
            *layout.figure(f"{row.value}{row.value_mark or ' ' * has_marks}", row.value_span),
            *(layout.figure(row.control, row.control_span) if has_control else []),
            *([Text(f"{row.paper}{row.mark or ' '}")] if columns.paper else []),
            *(workers if columns.workers else []),
            Text(f"{row.rank:>2} {row.letters}".rstrip()),
        )
    return table


def heading_of(summary: Summary) -> str:
    """The head of the main table's column of figures."""
    return metric(summary.study.metric).heading or "Figure"


def print_pairs(summary: Summary, console: Console) -> None:
    """Prints the table of comparisons: who against whom, the ratio, its interval, the verdict."""
    if not summary.pairs:
        prose(console, f"Comparisons: {verdict_counts(summary)}", style="")
        return
    print_table(console, lambda layout: _pairs_table(summary, layout))
    for line in pairs_legend(summary):
        prose(console, line)


def _pairs_table(summary: Summary, layout: Layout) -> Table:
    table = layout.table()
    rows = pair_rows(summary)
    has_place = any(row.where for row in rows)
    if has_place:
        table.add_column("at", overflow="fold")
    table.add_column("a", overflow="fold")
    table.add_column("is", no_wrap=True)
    table.add_column("b", overflow="fold")
    table.add_column("a / b", justify="right", no_wrap=True)
    if layout.one_line:
        table.add_column("interval", style="dim", no_wrap=True)
        table.add_column("Blocks", justify="right", no_wrap=True)
    table.add_column(
        "Smallest detectable" if layout.one_line else "Smallest\ndetectable", justify="right", no_wrap=True
    )
    for row in rows:
        blocks = [Text(row.blocks), Text(row.detectable)]
        table.add_row(
            *([Text(layout.name(row.where))] if has_place else []),
            Text(layout.name(row.a), style="bold"),
            Text(row.verdict, style=VERDICT_STYLES.get(row.verdict, "")),
            Text(layout.name(row.b)),
            *layout.figure(row.ratio, row.span),
            *(blocks if layout.one_line else [below(row.detectable, f"{row.blocks} blocks")]),
        )
    return table


def _about_counts(summary: Summary) -> Iterator[str]:
    """Of what pairs are compared by: what this machine does not tell, and what is extrapolated."""
    for name in dict.fromkeys(pair.metric for pair in summary.pairs):
        compared = {each for pair in summary.pairs if pair.metric == name for each in (pair.a, pair.b)}
        if why := not_offered(summary, name):
            yield f"Not to be had here: {words_of(name)}: {why}."
        if said := extrapolated(
            each.scaled.get(name) for each in summary.contenders if each.name in compared
        ):
            yield f"Ratios of {words_of(name)} are {said}."
        unknown = {
            each.name: each.unknown[name]
            for each in summary.contenders
            if each.name in compared and name in each.unknown
        }
        for why in dict.fromkeys(unknown.values()):
            names = ", ".join(each for each in unknown if unknown[each] == why)
            yield f"{capital(words_of(name))} of {names} not known: {why}."


def pairs_legend(summary: Summary) -> list[str]:
    """How to read the table of pairs."""
    study = summary.study
    confidences = {pair.confidence for pair in summary.pairs if pair.low is not None}
    metrics = ", ".join(words_of(name) for name in dict.fromkeys(pair.metric for pair in summary.pairs))
    lines = [
        f"Ratios of {metrics or words_of(study.metric)}; faster: a is the better one. Verdicts are corrected "
        f"(Holm) for all {count(study.family_size, 'comparison')}, alpha {study.alpha:g}; undecided is not "
        "equal."
    ]
    if any(metric(name).better == "more" for name in {pair.metric for pair in summary.pairs}):
        lines.append(
            "Where more is better the ratio is that of the times that one takes: below 1, a is better."
        )
    if confidences:
        lines.append(f"Intervals: {percent(min(confidences))}, each for its own pair.")
    lines += _about_counts(summary)
    lines += about_metrics(summary, (pair.metric for pair in summary.pairs))
    lines.append("Smallest detectable: the difference that a run like this finds four times out of five.")
    return lines
