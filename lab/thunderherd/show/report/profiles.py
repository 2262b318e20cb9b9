"""Profiles: the share of copying, and the functions with the most samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from thunderherd.metrics.table import SIDE_NAMES
from thunderherd.records.extra_trials import (
    ContenderProfile,
    DifferentialProfile,
    ProfilingSummary,
    Share,
    SideProfile,
)
from thunderherd.records.summary import Summary
from thunderherd.show.report.inline_svg import FlameGraph, read_flame_graph
from thunderherd.show.sentences.left_out import not_sampled
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.stacks.symbols import CopyKind
from thunderherd.text.figures import ABSENT, count, number, percent, share_in_percent, span, time_share
from thunderherd.text.printable import printable

KINDS: dict[CopyKind, str] = {
    "across": "between program and kernel",
    "kernel": "within the kernel",
    "program": "within the program",
}
NAMED = 5
"""The most functions in a row."""
COVERED_FROM, COVERED_TO = 0.8, 1.25
"""The shares of covered CPU time between which no explanation is needed."""
LEAST_PERCENT = (0.1, 0.2, 0.5, 1.0, 2.0)
"""The narrowest frame, in percent; the first width at which all flame graphs fit is used."""
MOST_CHARACTERS = 5_000_000
"""The most characters of all flame graphs; with its script a report stays below 10 MB."""


COLUMNS = (
    Column("", "name"),
    Column("Samples"),
    Column("Copying"),
    Column("Kinds of copying", "words"),
    Column("Without interrupts"),
    Column("Functions with the most samples", "words"),
)


@dataclass(frozen=True)
class ProfileSection:
    """The profiles of a run."""

    tables: list[Table]
    legend: list[str]
    graphs: list[FlameGraph]
    differentials: list[FlameGraph]
    graphs_legend: list[str]
    reasons: list[str]


def profile_section(summary: Summary, directory: Path | None) -> ProfileSection | None:
    """Makes tables and flame graphs; None if nothing was sampled. Flame graphs need the directory."""
    profiles = summary.profiles
    if profiles is None:
        return None
    tables = [
        Table(f"{words}: where the CPU time goes, by samples", COLUMNS, rows, kind="profile").without_empty()
        for side, words in SIDE_NAMES.items()
        if (rows := tuple(_row(each, each.sides[side]) for each in profiles.contenders if side in each.sides))
    ]
    graphs, differentials, least = _graphs(profiles, directory)
    return ProfileSection(
        tables=tables,
        legend=legend(profiles),
        graphs=graphs,
        differentials=differentials,
        graphs_legend=_graphs_legend(least) if graphs or differentials else [],
        reasons=not_sampled(summary),
    )


def share_of(share: Share | None) -> tuple[str, str]:
    """Writes `3.2 %` and its interval."""
    if share is None:
        return ABSENT, ""
    return share_in_percent(share.value), span(100 * share.low, 100 * share.high, 1)


def _row(contender: ContenderProfile, side: SideProfile) -> Row:
    kinds = [(words, side.copying_by_kind.get(kind, 0.0)) for kind, words in KINDS.items()]
    cells = (
        Cell(contender.contender),
        Cell(
            f"{side.samples:,}",
            "" if side.covered is None else f"{number(100 * side.covered, 0)} % of the time",
        ),
        Cell(*share_of(side.copying)),
        Cell("\n".join(f"{words} {share_in_percent(share)}" for words, share in kinds if share)),
        Cell(share_in_percent(side.interrupts_off)),
        Cell(
            ", ".join(f"{printable(each.symbol)} {share_in_percent(each.share)}" for each in side.top[:NAMED])
        ),
    )
    return Row(cells)


def legend(profiles: ProfilingSummary) -> list[str]:
    """Explains the tables: the sampled event, what counts as copying, what is unknown."""
    every = [side for each in profiles.contenders for side in each.sides.values()]
    return [*_of_samples(profiles, every), *_of_copying(every), *_of_interrupts(every), *_of_faults(every)]


def _of_samples(profiles: ProfilingSummary, every: Sequence[SideProfile]) -> Iterator[str]:
    events = dict.fromkeys((each.event, each.frequency_hertz) for each in every)
    how = " and ".join(f"{event}, {hertz} for each second of CPU time" for event, hertz in events)
    trials = count(profiles.trials, "trial")
    sampling = max((each.of_sampling for each in every), default=0.0)
    yield (
        f"Samples by {how or 'nothing'}, from {trials} of each contender, made after all others. Sampling "
        "disturbs, so no other figure of these trials is used. Up to "
        f"{share_in_percent(sampling)} of a side's samples found the kernel busy with sampling; they are "
        "left out."
    )
    for why in dict.fromkeys(each.why_not_cycles for each in every if each.why_not_cycles):
        yield printable(f"Not by cycles: {why}.")


def _of_copying(every: Sequence[SideProfile]) -> Iterator[str]:
    if confidences := {each.copying.confidence for each in every if each.copying}:
        yield (
            "Copying: samples in functions of a fixed list, which copy bytes between program and kernel, "
            "within the kernel (including pages of forked processes), or within the program. "
            f"{percent(min(confidences))} intervals, each for its own figure, over batches of samples in the "
            "order of time. They estimate what longer trials like these would show, not how much trials vary."
        )


def _of_interrupts(every: Sequence[SideProfile]) -> Iterator[str]:
    if any(each.interrupts_off is not None for each in every):
        yield (
            "Without interrupts: cpu-clock samples by an interrupt, which waits while interrupts are off. It "
            "then finds the function that switched them on, such as _raw_spin_unlock_irqrestore or "
            "finish_task_switch. Tables and flame graphs count these samples for its caller."
        )


def _of_faults(every: Sequence[SideProfile]) -> Iterator[str]:
    reasons = dict.fromkeys(each.why_not_cpus for each in every if each.why_not_cpus)
    covered = [each.covered for each in every if each.covered is not None]
    if reasons:
        yield (
            "Samples: their number, and below it the share of CPU time that they cover. Samples miss "
            "processes and threads that live shorter than the time between two samples. If the share is "
            "small, their work is missing."
        )
    elif any(not COVERED_FROM <= each <= COVERED_TO for each in covered):
        yield (
            "Samples: their number, and below it the share of CPU time that they cover. Samples by cycles "
            "cover less if a CPU became slower after sampling began, or was taken away (steal)."
        )
    for why in reasons:
        yield printable(f"Samples on every CPU, which miss nothing, are unavailable: {why}.")
    unnamed = max((each.unnamed or 0.0 for each in every), default=0.0)
    if unnamed:
        yield (
            f"Up to {share_in_percent(unnamed)} of a side's samples are in functions without a name "
            "([library]); copying by these is not counted."
        )
    for why in dict.fromkeys(each.why_no_kernel_symbols for each in every if each.why_no_kernel_symbols):
        yield printable(f"Functions of the kernel have no names, so its copying is unknown: {why}.")
    if lost := sum(each.lost for each in every):
        yield f"{count(lost, 'sample')} lost: the kernel could not deliver them."
    if throttled := sum(each.throttled for each in every):
        yield f"The kernel took fewer samples than requested, {count(throttled, 'time')}."


# Flame graphs -----------------------------------------------------------------------------------------------


def _graphs(
    profiles: ProfilingSummary, directory: Path | None
) -> tuple[list[FlameGraph], list[FlameGraph], float]:
    """Gives the graphs of each side, those of pairs, and the narrowest frame in percent."""
    if directory is None:
        return [], [], LEAST_PERCENT[0]
    for least in LEAST_PERCENT:
        graphs = [
            graph
            for each in profiles.contenders
            for side, words in SIDE_NAMES.items()
            if side in each.sides and (file := each.sides[side].flame_graph)
            if (graph := read_flame_graph(directory, file, f"{each.contender}, {words.lower()}", least))
        ]
        pairs = [
            graph
            for pair in profiles.differentials
            if (graph := read_flame_graph(directory, pair.flame_graph, _title(pair), least))
        ]
        if sum(len(each.svg) for each in [*graphs, *pairs]) <= MOST_CHARACTERS:
            break
    return graphs, pairs, least


def _title(pair: DifferentialProfile) -> str:
    a, b = pair.a, pair.b
    return f"{a} against {b}: widths are {pair.unit} of {a}; red: more than of {b}, blue: less"


def _graphs_legend(least: float) -> list[str]:
    return [
        "A row is a function, with its caller below it. Its width is its share of the samples, so the "
        f"topmost edge is where the time was spent. Functions with less than {least:g} % are left out. The "
        "pointer shows name and share. In a browser, the named files can be searched, and enlarged by a "
        "click.",
        "In a comparison, stacks begin at the program's innermost function, as two designs share no others. "
        "A colour describes the function itself, not its callees. A stack of only the other contender is "
        "not in the graph, but in that of the reverse comparison.",
    ]


# In words ---------------------------------------------------------------------------------------------------


def copying_sentences(profiles: ProfilingSummary, names: Sequence[str]) -> list[str]:
    """Writes `prefork: 3.2 % of the server's 1,024 samples are copying (95 % interval 2.1 to 4.5).`"""
    found = []
    for name in names:
        profile = profiles.of(name)
        for side, sampled in profile.sides.items() if profile else ():
            whose = "server's" if side == "server" else "clients'"
            if sampled.copying is None:
                continue
            value, interval = share_of(sampled.copying)
            found.append(
                f"{name}: {value} of the {whose} {count(sampled.samples, 'sample')} are copying "
                f"({percent(sampled.copying.confidence)} interval {interval}){_missed_by(sampled)}."
            )
    return found


def _missed_by(sampled: SideProfile) -> str:
    """Says what these samples miss, if it matters."""
    text = ""
    if sampled.why_not_cpus and sampled.covered is not None and sampled.covered < COVERED_FROM:
        text += (
            f"; they cover {time_share(sampled.covered)} of its CPU time, and miss processes and threads "
            "that live shorter than the time between two samples"
        )
    if not sampled.kernel_symbols:
        text += "; copying in the kernel is unknown, as its functions have no names"
    return text
