"""What a run came to, as text: the study's table, its pairs, its claims.

Everything comes from the summary alone, so `summary.json` holds every figure that is printed. The rows
(`study_rows`, `pair_rows`) are the ones the HTML report shows. Tables fit 80 columns, with intervals below
their figures; where there is room a row has one line. Where the output is no terminal they are plain.
"""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from thunderherd.figures import (
    ABSENT,
    count,
    interval_span,
    interval_value,
    notes_by_mark,
    number,
    percent,
    places,
    printable,
    ratio_digits,
    span,
)
from thunderherd.records import ClaimVerdict, ContenderSummary, Summary

__all__ = [
    "PairRow",
    "StudyRow",
    "make_console",
    "pair_rows",
    "print_claims",
    "print_pairs",
    "print_study",
    "study_rows",
]

PLAIN_WIDTH = 120
LONGEST_PROSE = 100
CLAIM_INDENT = 5
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


def make_console(stream: IO[str] | None = None) -> Console:
    """A console on `stream` (stdout): no colours and 120 columns (or $COLUMNS) where it is no terminal."""
    stream = stream or sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        # A note that the terminal's encoding cannot show must not end the command that prints it.
        reconfigure(errors="replace")
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


# Rows: what is shown, as texts


@dataclass(frozen=True)
class StudyRow:
    """One contender. Every field is a text ready to be shown; `-` where there is no figure."""

    row: str
    name: str
    label: str
    design: str
    is_control: bool
    cpu: str
    cpu_span: str
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
    """One comparison of the declared family, as texts."""

    a: str
    b: str
    verdict: str
    ratio: str
    span: str
    blocks: str
    detectable: str


def study_rows(summary: Summary, between: str = BETWEEN) -> list[StudyRow]:
    """The rows of the study's table, in the order of the study; `between` the ends of intervals."""
    digits, marks = places(summary), notes_by_mark(summary).marks
    return [
        _study_row(each, summary, digits, marks.get(each.name, ""), between) for each in summary.contenders
    ]


def _study_row(each: ContenderSummary, summary: Summary, digits: int, mark: str, between: str) -> StudyRow:
    control, workers = each.process_control_seconds, each.clients_per_worker
    is_baseline = each.name == summary.study.baseline
    return StudyRow(
        row=ABSENT if each.row is None else str(each.row),
        name=each.name,
        label=each.label,
        design=each.design,
        is_control=each.control_of is not None,
        cpu=interval_value(each.cpu_seconds, digits),
        cpu_span=interval_span(each.cpu_seconds, digits, between),
        control="baseline" if is_baseline else interval_value(control, digits),
        control_span="" if is_baseline else interval_span(control, digits, between),
        paper=number(each.paper_seconds, 2),
        mark=mark,
        workers=span(workers.minimum, workers.maximum, 0, between) if workers else ABSENT,
        workers_deviation=number(workers.standard_deviation, 1) if workers else ABSENT,
        rank=ABSENT if each.rank is None else str(each.rank),
        letters=each.letters,
    )


def pair_rows(summary: Summary, between: str = BETWEEN) -> list[PairRow]:
    """The rows of the table of pairs, in the order of the declared family; `between` as in study_rows."""
    rows = []
    for pair in summary.pairs:
        digits = ratio_digits(pair.ratio, pair.high)
        smallest = pair.smallest_detectable_percent
        rows.append(
            PairRow(
                a=pair.a,
                b=pair.b,
                verdict=pair.verdict,
                ratio=number(pair.ratio, digits),
                span=ABSENT if pair.ratio is None else span(pair.low, pair.high, digits, between),
                blocks=str(pair.blocks),
                detectable=ABSENT if smallest is None else f"{number(smallest, 1)} %",
            )
        )
    return rows


# Sentences that stand with the tables, here and in the report


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
    confidences = {
        each.cpu_seconds.confidence
        for each in summary.contenders
        if each.cpu_seconds and each.cpu_seconds.confidence and each.cpu_seconds.low is not None
    }
    lines = [NOT_SEPARATED] if any(each.letters for each in summary.contenders) else []
    if study.baseline:
        lines.append(
            f"Process control: CPU beyond that of {study.baseline}, paired by block. Paper: its own machine."
        )
    controls = [each.process_control_seconds for each in summary.contenders]
    if any(control.value < 0 for control in controls if control):
        lines.append(f"Below zero: it used less CPU than {study.baseline} for the same connections.")
    if confidences:
        lines.append(f"Intervals: {percent(min(confidences))}, each for its own figure.")
    if any(each.clients_per_worker for each in summary.contenders):
        measured = study.connections_per_trial
        number = "" if measured is None else f"{measured:,} "
        lines.append(
            f"Clients per worker: fewest to most of the {number}connections of a "
            "trial, and standard deviation (sd), averaged over trials."
        )
    return lines


def verdict_counts(summary: Summary) -> str:
    """How many comparisons came to which verdict."""
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
    """What belongs beside every figure: the run's notes, and why trials were invalid."""
    reasons = [
        f"{count(times, 'trial')} invalid: {why}" for why, times in summary.trials.invalid_reasons.items()
    ]
    return [*summary.study.notes, *reasons]


# Printing


def print_study(summary: Summary, console: Console, directory: Path | None = None) -> None:
    """Prints the table of a study and what belongs to it.

    Parameters
    ----------
    summary
        The content of `summary.json`.
    console
        As `make_console` gives it; its width decides the layout.
    directory
        Where the results lie, for the lines that say so and name the next command.
    """
    console.print()
    console.print(Text(printable(summary.study.title), style="bold"))
    _prose(console, summary.study.question)
    console.print()
    _prose(console, per_connections(summary), style="")
    _print_table(console, lambda layout: _study_table(summary, layout))
    for line in legend(summary):
        _prose(console, line)
    for mark, text in notes_by_mark(summary).texts.items():
        _prose(console, text, head=f"{mark} ", style="")
    console.print()
    facts = [
        ("Verdicts", verdict_counts(summary)),
        ("Claims", claim_counts(summary)),
        ("Trials", trial_counts(summary)),
        ("Run", run_line(summary)),
        *(("Note", note) for note in warnings(summary)),
    ]
    if directory is not None:
        where, name = shlex.quote(str(directory)), shlex.quote(summary.study.name)
        following = f"thunderherd claims {name} {where}" if summary.claims else f"thunderherd report {where}"
        facts += [("Results", str(directory)), ("Next", following)]
    _facts(console, facts)


def _study_table(summary: Summary, layout: _Layout) -> Table:
    table = layout.table()
    table.add_column("Row", justify="right", no_wrap=True)
    table.add_column("Design", overflow="fold")
    if layout.labels:
        table.add_column("In the paper's words", no_wrap=True, style="dim")
    for heading in ("CPU", "Process control" if layout.one_line else "Process\ncontrol"):
        table.add_column(heading, justify="right", no_wrap=True)
        if layout.one_line:
            table.add_column("interval", style="dim", no_wrap=True)
    table.add_column("Paper", justify="right", no_wrap=True)
    table.add_column(
        "Clients/worker" if layout.one_line else "Clients/\nworker", justify="right", no_wrap=True
    )
    if layout.one_line:
        table.add_column("sd", justify="right", style="dim", no_wrap=True)
    table.add_column("Rank", no_wrap=True)
    for row in study_rows(summary):
        name = Text(printable(row.name), style="italic" if row.is_control else "bold")
        deviation = "" if row.workers_deviation == ABSENT else row.workers_deviation
        workers = [Text(row.workers), Text(deviation)]
        table.add_row(
            Text(row.row),
            name,
            *([Text(printable(row.label))] if layout.labels else []),
            *layout.figure(row.cpu, row.cpu_span),
            *layout.figure(row.control, row.control_span),
            # A figure keeps its column whether it has a mark or not.
            Text(f"{row.paper}{row.mark or ' '}"),
            *(workers if layout.one_line else [_below(row.workers, deviation and f"sd {deviation}")]),
            Text(f"{row.rank:>2} {row.letters}".rstrip()),
        )
    return table


def print_pairs(summary: Summary, console: Console) -> None:
    """Prints the table of comparisons: who against whom, the ratio, its interval, the verdict."""
    _print_table(console, lambda layout: _pairs_table(summary, layout))
    for line in pairs_legend(summary):
        _prose(console, line)


def _pairs_table(summary: Summary, layout: _Layout) -> Table:
    table = layout.table()
    table.add_column("a", overflow="fold")
    table.add_column("is", no_wrap=True)
    table.add_column("b", overflow="fold")
    table.add_column("a / b", justify="right", no_wrap=True)
    if layout.one_line:
        table.add_column("interval", style="dim", no_wrap=True)
    if layout.one_line:
        table.add_column("Blocks", justify="right", no_wrap=True)
    table.add_column(
        "Smallest detectable" if layout.one_line else "Smallest\ndetectable", justify="right", no_wrap=True
    )
    for row in pair_rows(summary):
        blocks = [Text(row.blocks), Text(row.detectable)]
        table.add_row(
            Text(printable(row.a), style="bold"),
            Text(row.verdict, style=VERDICT_STYLES.get(row.verdict, "")),
            Text(printable(row.b)),
            *layout.figure(row.ratio, row.span),
            *(blocks if layout.one_line else [_below(row.detectable, f"{row.blocks} blocks")]),
        )
    return table


def pairs_legend(summary: Summary) -> list[str]:
    """How to read the table of pairs."""
    study = summary.study
    confidences = {pair.confidence for pair in summary.pairs if pair.low is not None}
    lines = [
        f"Ratios of {study.metric.replace('_', ' ')}; faster: a uses less. Verdicts are corrected (Holm) for "
        f"all {count(study.family_size, 'comparison')}, alpha {study.alpha:g}; undecided is not equal."
    ]
    if confidences:
        lines.append(f"Intervals: {percent(min(confidences))}, each for its own pair.")
    lines.append("Smallest detectable: the difference that a run like this finds four times out of five.")
    return lines


def print_claims(summary: Summary, console: Console) -> None:
    """Prints each claim of the source: the paper's figure, this machine's with its interval, the verdict,
    why.
    """
    if not summary.claims:
        _prose(console, f"{summary.study.name}: its source makes no claims that the study knows of", style="")
        return
    for claim in summary.claims:
        head = f"{claim.id}  {claim.verdict}  "
        lines = _wrapped(claim.statement, console, head=head)
        if len(lines) > 1:
            lines = [head.rstrip(), *_wrapped(claim.statement, console, head=" " * CLAIM_INDENT)]
        title = Text("\n".join(lines), style="bold")
        title.stylize(VERDICT_STYLES[claim.verdict], len(claim.id) + 2, len(head) - 2)
        console.print(title)
        facts = [
            ("paper", claim.paper_figure or ABSENT),
            *(("here", figure) for figure in claim.our_figure.splitlines() or [ABSENT]),
            ("why", claim.why),
            *(("note", note) for note in (claim.source_note or "").splitlines()),
        ]
        _facts(console, facts, indent=CLAIM_INDENT)
        console.print()
    _prose(console, claim_counts(summary) + f"; {run_line(summary)}", style="")
    _prose(console, claims_legend())


def claims_legend() -> str:
    """How claims are judged, in two sentences."""
    return (
        "Supported: every difference that the claim needs is shown to be above zero; refuted: one is shown "
        "to be below. Verdicts are corrected (Holm) for all claims together; an interval is for its own "
        "figure."
    )


# Layout


@dataclass(frozen=True)
class _Layout:
    """How much of a row stands side by side."""

    terminal: bool
    one_line: bool
    labels: bool

    def table(self) -> Table:
        """An empty table in this layout."""
        gap = 2 if self.one_line else 1
        return Table(
            box=box.SIMPLE_HEAD if self.terminal else None,
            header_style="bold" if self.terminal else "",
            show_edge=False,
            pad_edge=False,
            padding=(0, gap, 0, 0) if self.terminal is False else (0, gap // 2),
            collapse_padding=not self.one_line,
        )

    def figure(self, value: str, interval: str) -> list[Text]:
        """A figure and its interval: beside it where there is room, else below it."""
        return [Text(value), Text(interval)] if self.one_line else [_below(value, interval)]


def _below(value: str, detail: str) -> Text:
    return Text.assemble(value, ("\n" + detail, "dim")) if detail and detail != ABSENT else Text(value)


def _print_table(console: Console, make: Callable[[_Layout], Table]) -> None:
    """Prints a table in the roomiest layout that fits the console."""
    terminal = console.is_terminal
    layouts = [_Layout(terminal, True, True), _Layout(terminal, True, False), _Layout(terminal, False, False)]
    for layout in layouts:
        table = make(layout)
        if Measurement.get(console, console.options.update(width=1000), table).maximum <= console.width:
            break
    if terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    # Without the blanks that fill each line: plain output is for files and pipes.
    for line in captured.get().rstrip("\n").split("\n"):
        console.print(Text(line.rstrip()), soft_wrap=True)


def _prose(console: Console, text: str, *, head: str = "", style: str = "dim") -> None:
    """A paragraph no wider than is easily read; further lines stand under the text, not under its head."""
    console.print(Text("\n".join(_wrapped(text, console, head=head)), style=style))


def _facts(console: Console, facts: Iterable[tuple[str, str]], *, indent: int = 0) -> None:
    """Heads with their texts beside them; a head is not repeated, and one without a text is left out."""
    shown = [(head, text) for head, text in facts if text]
    width = indent + max((len(head) for head, _ in shown), default=0) + 2
    previous = ""
    for head, text in shown:
        beginning = f"{'':{indent}}{'' if head == previous else head}".ljust(width)
        line = Text("\n".join(_wrapped(text, console, head=beginning)))
        line.stylize("dim", 0, len(beginning))
        console.print(line, soft_wrap=True)
        previous = head


def _wrapped(text: str, console: Console, *, head: str = "") -> list[str]:
    """The lines of a text after its head; words and commands are never divided."""
    return textwrap.wrap(
        printable(text),
        min(console.width, LONGEST_PROSE),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head]
