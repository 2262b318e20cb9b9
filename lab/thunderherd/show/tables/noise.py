"""What the machine did beside the trials, for readers: a row for each contender, for report and terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thunderherd.records.noise import RETRANSMITTED, SOFTIRQ_RATES, NoiseSummary
from thunderherd.records.summary import Summary
from thunderherd.text.figures import ABSENT, decimals, number, printable, share_in_percent
from thunderherd.text.layout import Layout, print_table, prose

FEWEST_TICKS = 10
"""A figure of fewer is none: one more or less would change it by more than a tenth."""

CPUS_SHOWN = 8
"""Those with the most time in soft interrupts; `summary.json` has all."""

TITLE = "What the machine did beside the trials"
HEADINGS = ("Contender", "Soft interrupts, ms/s", "by CPU", "Stolen", "Others", "Retransmitted")

ONE_SIDED = (
    "Soft interrupts, whomever their packets were for: on one machine the receiver's part of the network's "
    "work is done on the sender's CPU and mostly in its time, so that one side's CPU time alone misleads; "
    "look at both together."
)
HOW = (
    "Medians over valid trials; soft interrupts: of all of them together, milliseconds in each second, by "
    "CPUs counted from 0 in the order of /proc/stat, which counts in ticks of a hundredth of a second. '<': "
    "too few ticks for a figure; it is less than what ten of them come to. Stolen by the hypervisor, used by "
    "others: of all CPU time. Retransmitted: TCP segments in a trial, by any socket in the network "
    "namespaces of both sides."
)


@dataclass(frozen=True)
class NoiseRow:
    """A contender: texts for a table."""

    contender: str
    cells: tuple[str, ...]
    """As `HEADINGS` has them behind the first."""


@dataclass(frozen=True)
class NoiseView:
    """What the machine did, with how to read it and what is missing."""

    title: str
    headings: tuple[str, ...]
    rows: list[NoiseRow]
    legend: list[str]


def noise_view(summary: Summary, names: Sequence[str] = ()) -> NoiseView | None:
    """Of these contenders, or of all; None where nothing is known of any."""
    told = [each for each in summary.contenders if not names or each.name in names]
    rows = [NoiseRow(each.name, _cells(each.noise)) for each in told if each.noise is not None]
    if not rows:
        return None
    missing: dict[str, list[str]] = {}
    for each in told:
        if each.noise is None:
            missing.setdefault("no valid trial tells of it", []).append(each.name)
        for figure, why in (each.noise.why if each.noise else {}).items():
            missing.setdefault(f"{NAMES[figure]} are missing: {why}", []).append(each.name)
    reasons = [f"{', '.join(alike)}: {why}" for why, alike in missing.items()]
    return NoiseView(TITLE, HEADINGS, rows, [ONE_SIDED, HOW, *map(printable, reasons)])


NAMES = {SOFTIRQ_RATES: "soft interrupts", RETRANSMITTED: "retransmitted segments"}
"""The figures that may be missing, as a reason has them."""


def _cells(told: NoiseSummary) -> tuple[str, ...]:
    rates = told.softirq_milliseconds_per_second
    return (
        _rate(sum(rates), told.softirq_resolution) if rates else ABSENT,
        _by_cpu(rates, told.softirq_resolution) if rates else ABSENT,
        share_in_percent(told.steal_share),
        share_in_percent(told.foreign_share),
        ABSENT if told.retransmitted is None else f"{told.retransmitted:,.0f}",
    )


def _by_cpu(rates: Sequence[float], resolution: float | None) -> str:
    """`0: 120, 1: < 3.1`; of many CPUs the busiest, and how many are left out."""
    busiest = sorted(range(len(rates)), key=lambda cpu: -rates[cpu])[:CPUS_SHOWN]
    shown = ", ".join(f"{cpu}: {_rate(rates[cpu], resolution)}" for cpu in sorted(busiest))
    return shown if len(rates) <= CPUS_SHOWN else f"{shown}, and {len(rates) - CPUS_SHOWN} with less"


def _rate(value: float, resolution: float | None) -> str:
    """A rate; where it rests on too few ticks, only below what it is. Older results have no resolution."""
    fewest = FEWEST_TICKS * (resolution or 0.0)
    # Rates are rounded in the summary.
    if value < fewest - 1e-3:
        return f"< {_rate(fewest, None)}"
    return number(value, min(1, decimals([value])))


def print_noise(view: NoiseView, console: Console) -> None:
    """A table and how to read it."""
    prose(console, view.title, style="bold")
    print_table(console, lambda layout: _table(view, layout))
    for line in view.legend:
        prose(console, line)
    console.print()


def _table(view: NoiseView, layout: Layout) -> Table:
    table = layout.table()
    name, *figures = view.headings
    table.add_column(name, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", overflow="fold")
    for row in view.rows:
        table.add_row(Text(layout.name(row.contender)), *map(Text, row.cells))
    return table
