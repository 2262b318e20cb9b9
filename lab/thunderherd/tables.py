"""What a run came to, as text: the study's table, its pairs, its claims.

Everything comes from the summary alone, so `summary.json` holds every figure that is printed. The rows
(`study_rows`, `pair_rows`) are the ones the HTML report shows. Tables fit 80 columns, with intervals below
their figures; where there is room a row has one line. Where the output is no terminal they are plain.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.bounds_view import bounds_in_words
from thunderherd.counter_tables import asks_for_counters
from thunderherd.counting_cost_words import about_metrics, cost_lines
from thunderherd.figures import (
    ABSENT,
    capital,
    count,
    estimator,
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
from thunderherd.layout import Layout, below, make_console, print_facts, print_table, prose
from thunderherd.matrices import (
    Reasons,
    caption_of,
    digits_for,
    main_papers,
    scaled_marks,
    shown_of,
    unit_for,
    why_none,
)
from thunderherd.metrics import CPU_PER_CONNECTION, metric
from thunderherd.papers import notes_by_mark
from thunderherd.profile_view import not_sampled, where_drawn
from thunderherd.records import ClaimVerdict, ContenderSummary, Summary
from thunderherd.rungs import cpu_cost_lines, main_substitute
from thunderherd.sweep_tables import print_counted, print_main_further, print_main_runs, print_sweeps
from thunderherd.why_view import not_counted

__all__ = [
    "PairRow",
    "StudyRow",
    "make_console",
    "pair_rows",
    "print_pairs",
    "print_study",
    "study_rows",
]

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

CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = ("supported", "refuted", "undecided", "not testable here")

NOT_SEPARATED = (
    "Contenders that share a letter are not separated: these blocks do not tell them apart, which does not "
    "make them equal."
)


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


# Sentences that stand with the tables, here and in the report


def main_caption(summary: Summary) -> str:
    """What the main table shows: the study's metric and its unit."""
    name = summary.study.metric
    if name == CPU_PER_CONNECTION:
        return per_connections(summary)
    figures = [shown_of(summary, each, name) for each in main_of(summary)]
    caption = caption_of(name, unit_for(summary, name, figures))
    return f"{capital(caption)}; {summary.study.better} is better"


def per_connections(summary: Summary) -> str:
    """What CPU figures are for, and on how many connections they were measured where these differ."""
    shown, measured = summary.study.normalise_connections, summary.study.connections_per_trial
    text = f"CPU seconds per {shown:,} connections"
    if measured is None or shown == measured:
        return text
    return f"{text} (measured on {measured:,} connections, shown per {shown:,})"


def legend(summary: Summary) -> list[str]:
    """How to read the study's table."""
    study = summary.study
    main = main_of(summary)
    figures = [
        each.cpu_seconds if study.metric == CPU_PER_CONNECTION else each.metrics.get(study.metric)
        for each in main
    ]
    confidences = {each.confidence for each in figures if each and each.confidence and each.low is not None}
    lines = [NOT_SEPARATED] if any(each.letters for each in main) else []
    has_paper = any(each.sweep is None and each.value is not None for each in summary.paper)
    paper = "Paper: its own machine." if main and has_paper else ""
    if shows_process_control(summary):
        lines.append(
            f"Process control: CPU beyond that of {study.baseline}, paired by block. {paper}".rstrip()
        )
    elif paper:
        lines.append(paper)
    controls = [each.process_control_seconds for each in main] if shows_process_control(summary) else []
    if any(control.value < 0 for control in controls if control):
        lines.append(f"Below zero: it used less CPU than {study.baseline} for the same connections.")
    intervals = f"; intervals: {percent(min(confidences))}, each for its own figure" if confidences else ""
    lines += [f"{estimator(summary)}{intervals}."] if main else []
    shown = [study.metric, main_substitute(summary)]
    lines += cpu_cost_lines(summary, (name for name in shown if name)) if main else []
    lines += about_metrics(summary, [study.metric]) if main else []
    if any(each.clients_per_worker for each in main):
        measured = study.connections_per_trial
        number = "" if measured is None else f"{measured:,} "
        lines.append(
            f"Clients per worker: fewest to most of the {number}connections of a "
            "trial, and standard deviation (sd), averaged over trials."
        )
    return lines


def verdict_counts(summary: Summary) -> str:
    """How many comparisons came to which verdict."""
    if summary.study.repetitions:
        return f"none: size {summary.study.size} repeats every trial and judges nothing"
    counts = Counter(pair.verdict for pair in summary.pairs)
    band = f"{summary.study.equivalence_percent:g}"
    parts = [
        f"{counts['faster'] + counts['slower']} faster or slower",
        f"{counts['equivalent']} equivalent within {band} %",
        f"{counts['undecided']} undecided",
    ]
    return f"{count(len(summary.pairs), 'comparison')}: {', '.join(parts)}"


def claim_counts(summary: Summary) -> str:
    """How many claims came to which verdict; empty where the study has none."""
    counts = Counter(claim.verdict for claim in summary.claims)
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CLAIM_VERDICTS if counts[verdict])
    return f"{count(len(summary.claims), 'claim')}: {found}" if found else ""


def trial_counts(summary: Summary) -> str:
    """How many trials there were, and what became of them."""
    trials = summary.trials
    text = (
        f"{trials.valid:,} valid, {trials.invalid:,} invalid, {trials.rejected:,} rejected for outside noise"
    )
    if trials.rejected_blocks:
        blocks = ", ".join(map(str, trials.rejected_blocks))
        text += f" ({'block' if len(trials.rejected_blocks) == 1 else 'blocks'} {blocks})"
    return text


def run_line(summary: Summary) -> str:
    """Size, blocks and seed: what a rerun needs to be told."""
    study = summary.study
    unfinished = "" if study.complete else ", not finished"
    overrides = "".join(f", {override}" for override in study.overrides)
    return f"size {study.size}, {count(study.blocks, 'block')}, seed {study.seed}{overrides}{unfinished}"


def warnings(summary: Summary) -> list[str]:
    """What belongs beside every figure: notes of the run, what counting changed, why trials were invalid."""
    reasons = [
        f"{count(times, 'trial')} invalid: {why}" for why, times in summary.trials.invalid_reasons.items()
    ]
    return [*summary.study.notes, *cost_lines(summary), *reasons]


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
    has_paper = any(row.paper != ABSENT or row.mark for row in rows)
    has_workers, has_marks = any(row.workers != ABSENT for row in rows), any(row.value_mark for row in rows)
    control = ["Process control" if layout.one_line else "Process\ncontrol"] if has_control else []
    table.add_column("Row", justify="right", no_wrap=True)
    table.add_column("Design", overflow="fold")
    if layout.labels:
        table.add_column("In the paper's words", no_wrap=True, style="dim")
    for heading in (heading_of(summary), *control):
        table.add_column(heading, justify="right", no_wrap=True)
        if layout.one_line:
            table.add_column("interval", style="dim", no_wrap=True)
    if has_paper:
        table.add_column("Paper", justify="right", no_wrap=True)
    if has_workers:
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
            Text(row.row),
            name,
            *([Text(printable(row.label))] if layout.labels else []),
            # A figure keeps its column whether it has a mark or not.
            *layout.figure(f"{row.value}{row.value_mark or ' ' * has_marks}", row.value_span),
            *(layout.figure(row.control, row.control_span) if has_control else []),
            *([Text(f"{row.paper}{row.mark or ' '}")] if has_paper else []),
            *(workers if has_workers else []),
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
