"""The activity of the machine during the trials: soft interrupts, stolen CPU time, other processes."""

from __future__ import annotations

from collections.abc import Sequence

from thunderherd.records.noise import RETRANSMITTED, SOFTIRQ_RATES, NoiseSummary
from thunderherd.records.summary import Summary
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, decimals, number, share_in_percent
from thunderherd.text.printable import printable

FEWEST_TICKS = 10
"""The fewest ticks for a figure: with fewer, one tick would change it by more than a tenth."""

CPUS_SHOWN = 8
"""The CPUs with the most time in soft interrupts; `summary.json` has all."""

TITLE = "Activity of the machine during the trials"
COLUMNS = (
    Column("Contender", "name", csv=("contender", "trials")),
    Column("Soft interrupts, ms/s", csv=("softirq [ms/s]",)),
    Column("by CPU", "words", csv=("softirq by CPU [ms/s]",)),
    Column("Stolen CPU", csv=("steal [share]",)),
    Column("Other processes", csv=("foreign [share]",)),
    Column("Retransmitted", csv=("retransmitted", "why")),
)
HOST = Column("Host", "name")

ONE_SIDED = (
    "Soft interrupts are for packets of either side. On one machine the sender's CPU also does the "
    "receiver's network work, mostly in the sender's time. One side's CPU time alone misleads: look at both "
    "together."
)
HOW = (
    "Medians over valid trials. Soft interrupts: milliseconds in each second, over all valid trials. CPUs "
    "are numbered from 0 in the order of /proc/stat, which counts in ticks of a hundredth of a second. "
    "'<': too few ticks for a figure, which is below that of ten ticks. Stolen CPU: taken by the hypervisor. "
    "It and the CPU of other processes are shares of all CPU time. Retransmitted: TCP segments in a trial, "
    "by any socket in the network namespaces of both sides."
)


def noise_table(summary: Summary, names: Sequence[str] = ()) -> Table | None:
    """Shows the activity during the trials of these contenders, or of all; None if none is known."""
    shown = [each for each in summary.contenders if not names or each.name in names]
    has_hosts = any(each.noise_of_hosts for each in shown)
    rows = tuple(
        _row(each.name, noise, host if has_hosts else None)
        for each in shown
        if each.noise is not None
        for host, noise in (each.noise_of_hosts or {"": each.noise}).items()
    )
    if not rows:
        return None
    missing: dict[str, list[str]] = {}
    for each in shown:
        if each.noise is None:
            missing.setdefault("no valid trial recorded it", []).append(each.name)
        for figure, why in (each.noise.why if each.noise else {}).items():
            missing.setdefault(f"{NAMES[figure]} are missing: {why}", []).append(each.name)
    reasons = [f"{', '.join(alike)}: {why}" for why, alike in missing.items()]
    contender, *figures = COLUMNS
    columns = (contender, *([HOST] if has_hosts else []), *figures)
    return Table(TITLE, columns, rows, (ONE_SIDED, HOW, *map(printable, reasons)))


NAMES = {SOFTIRQ_RATES: "soft interrupts", RETRANSMITTED: "retransmitted segments"}
"""The figures that may be missing, as reasons name them."""


def _row(contender: str, noise: NoiseSummary, host: str | None) -> Row:
    """Return the row of a contender; on a host, if there are hosts."""
    rates, resolution = noise.softirq_milliseconds_per_second, noise.softirq_resolution
    total = sum(rates) if rates else None
    cells = (
        Cell(contender, data=(contender, noise.trials)),
        *([] if host is None else [Cell(host)]),
        Cell(ABSENT if total is None else _rate(total, resolution), data=(total,)),
        Cell(_by_cpu(rates, resolution) if rates else ABSENT, data=(" ".join(map(str, rates)),)),
        Cell(share_in_percent(noise.steal_share), data=(noise.steal_share,)),
        Cell(share_in_percent(noise.foreign_share), data=(noise.foreign_share,)),
        Cell(
            ABSENT if noise.retransmitted is None else f"{noise.retransmitted:,.0f}",
            data=(noise.retransmitted, "; ".join(noise.why.values())),
        ),
    )
    return Row(cells)


def _by_cpu(rates: Sequence[float], resolution: float | None) -> str:
    """Writes `0: 120, 1: < 3.1`; of many CPUs the busiest, and how many are left out."""
    busiest = sorted(range(len(rates)), key=lambda cpu: -rates[cpu])[:CPUS_SHOWN]
    shown = ", ".join(f"{cpu}: {_rate(rates[cpu], resolution)}" for cpu in sorted(busiest))
    return shown if len(rates) <= CPUS_SHOWN else f"{shown}, and {len(rates) - CPUS_SHOWN} with less"


def _rate(value: float, resolution: float | None) -> str:
    """Writes a rate, or its upper bound if it has too few ticks. Older results have no resolution."""
    fewest = FEWEST_TICKS * (resolution or 0.0)
    # Rates are rounded in the summary.
    if value < fewest - 1e-3:
        return f"< {_rate(fewest, None)}"
    return number(value, min(1, decimals([value])))
