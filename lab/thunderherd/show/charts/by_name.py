"""The charts of a run, by name, for the report and for `thunderherd plot`.

Each is drawn on request, wide or for a telephone, from one definition. Charts of latency percentiles and of
blocks need the run's trials; all others need only its summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from thunderherd.judge.summary.block_order import UNKNOWN, FiguresOfBlocks, figures_of_blocks, trials_seen
from thunderherd.judge.summary.latency_curves import latency_curves
from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, Summary, SweepSummary, TrialRecord
from thunderherd.show.charts import blocks as charts_blocks
from thunderherd.show.charts import crossover, latency, main
from thunderherd.show.charts.rate import over_rate, rate_chart
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.charts.vega_lite import Chart
from thunderherd.show.sentences.source_figures import papers_of
from thunderherd.show.tables import sweeps
from thunderherd.show.tables.model import Cell, Table
from thunderherd.text import shown
from thunderherd.text.figures import main_of, shows_process_control, words_of

__all__ = [
    "NamedChart",
    "all_charts",
    "block_charts",
    "drawable_metrics",
    "latency_charts",
    "main_charts",
    "sweep_charts",
]

Colours = Mapping[str, str] | None
"""The colours of contenders, by base; None: those of this run (`style.colours_of`)."""


class Draw(Protocol):
    def __call__(self, *, narrow: bool = False) -> Chart:
        """Makes the Vega-Lite specification with its data. `narrow`: for a telephone."""


@dataclass(frozen=True)
class NamedChart:
    """A chart that is drawn on request."""

    name: str
    """Letters, digits and dashes; unique within a run."""
    title: str
    about: str
    note: str
    """A note on the source's figures; empty without one."""
    specification: Draw
    table: Table | None = None
    """The same figures as a table, if no other table has them."""


def all_charts(
    summary: Summary, trials: Sequence[TrialRecord] = (), colours: Colours = None
) -> list[NamedChart]:
    """Lists the charts of the main table, then of each sweep, then of the trials."""
    blocks = figures_of_blocks(summary, trials)
    return [
        *main_charts(summary, colours, blocks),
        *(chart for sweep in summary.sweeps for chart in sweep_charts(summary, sweep, colours, blocks)),
        *latency_charts(summary, trials, colours),
        *block_charts(summary, trials, colours),
    ]


def main_charts(
    summary: Summary, colours: Colours = None, blocks: FiguresOfBlocks = UNKNOWN
) -> Iterator[NamedChart]:
    """Yields the charts of the main table, and the one of all sweeps over a rate."""
    if shows_process_control(summary) and any(
        each.process_control_seconds for each in main_of(summary) if each.name != summary.study.baseline
    ):
        about = f"CPU time minus that of {summary.study.baseline}."
        if papers_of(summary, None, PROCESS_CONTROL):
            about += (
                " The source's seconds come from another machine, so each panel has its own scale. Compare "
                "the pattern, not the lengths across panels."
            )
        if any(each.control_of for each in main_of(summary)):
            about += " Outlined: a control, the same design with other settings."
        yield NamedChart(
            "process-control",
            "What process control costs",
            about,
            "",
            partial(main.process_control_chart, summary, colours=colours, blocks=blocks),
        )
    if any(each.worker_connections for each in main_of(summary)):
        about = (
            "A tick is a worker of a pool: its connections divided by an even share. The busiest workers of "
            "all trials are averaged, then the second busiest, and so on."
        )
        if papers_of(summary, None, WORKERS):
            about += " A ring is a worker in the source's figure."
        yield NamedChart(
            "clients-per-worker",
            "How evenly a pool uses its workers",
            about,
            _note_on_workers(summary),
            partial(main.clients_per_worker_chart, summary, colours=colours),
            _workers_table(summary),
        )
    if over_rate(summary):
        yield NamedChart(
            "latency-over-rate",
            "Latency over rate",
            "Every design at its rates of requests. A figure is missing if the server did not keep up, or if "
            "the load failed to measure it.",
            "",
            partial(rate_chart, summary, colours=colours, blocks=blocks),
        )


def sweep_charts(
    summary: Summary, sweep: SweepSummary, colours: Colours = None, blocks: FiguresOfBlocks = UNKNOWN
) -> Iterator[NamedChart]:
    """Yields the charts of a sweep: the crossover if requested, then each metric, that of verdicts first."""
    if sweep.crossover is not None and sweep.crossover.points:
        yield NamedChart(
            f"crossover-{sweep.name}",
            "Crossover of the contenders",
            crossover.about(summary, sweep),
            "",
            partial(crossover.crossover_chart, summary, sweep, colours=colours),
        )
    for place, metric in enumerate(drawable_metrics(summary, sweep)):
        yield NamedChart(
            f"sweep-{sweep.name}-{place}",
            words_of(metric),
            _about_missing(sweep, metric),
            "",
            partial(sweep_chart, summary, sweep, metric, colours=colours, blocks=blocks),
        )


def latency_charts(
    summary: Summary, trials: Sequence[TrialRecord], colours: Colours = None
) -> Iterator[NamedChart]:
    """Yields the percentile curves of the main table and of each sweep, if the load kept histograms."""
    curves = latency_curves(summary, trials)
    for sweep in (None, *summary.sweeps):
        name = sweep.name if sweep is not None else None
        if any(each.sweep == name and each.name in curves for each in summary.contenders):
            yield NamedChart(
                f"latency-{name}" if name else "latency",
                sweep.title if sweep is not None else "Latency of the main table's contenders",
                "The latency within which a share of all requests was answered, over all trials that count. "
                "The percentiles in tables are those of single trials, with an interval over trials.",
                "",
                partial(latency.latency_chart, summary, curves, sweep, colours=colours),
                latency.latency_table(summary, curves, sweep),
            )


def block_charts(
    summary: Summary, trials: Sequence[TrialRecord], colours: Colours = None
) -> Iterator[NamedChart]:
    """Yields the chart of the trials in the order of the run."""
    seen = trials_seen(summary, trials)
    if seen:
        yield NamedChart(
            "blocks",
            "Order and drift of the blocks",
            charts_blocks.about(seen),
            "",
            partial(charts_blocks.blocks_chart, summary, seen, colours=colours),
        )


def _workers_table(summary: Summary) -> Table:
    """Shows the figures of the chart: the connections of each worker, the busiest first."""
    pools = [(each.name, each.worker_connections) for each in main_of(summary) if each.worker_connections]
    most = max(len(counts) for _, counts in pools)
    rows = tuple(
        (name, tuple(Cell(f"{count:,.1f}") for count in counts) + (Cell("-"),) * (most - len(counts)))
        for name, counts in pools
    )
    heads = tuple(str(place) for place in range(1, most + 1))
    caption = "connections of each worker, the busiest first, averaged over trials"
    return Table.matrix(caption, "Pool", heads, rows)


def drawable_metrics(summary: Summary, sweep: SweepSummary) -> list[str]:
    """Lists the metrics with figures. A substitute of another metric is not drawn again."""
    instead = {*sweep.substitutes.values()}
    return [
        name
        for name in sweeps.metrics_of(sweep)
        if name not in instead or name == sweep.metric
        if papers_of(summary, sweep.name, name)
        or any(
            shown.shown_of(summary, each, sweep.substitutes.get(name, name))
            for each in shown.at_points(summary, sweep).values()
        )
    ]


def _about_missing(sweep: SweepSummary, name: str) -> str:
    """Explains that a metric is unavailable on this machine, and names its substitute."""
    why = sweep.unavailable.get(name)
    if why is None:
        return ""
    instead = f" Shown instead: {words_of(sweep.substitutes[name])}." if name in sweep.substitutes else ""
    return f"Unavailable on this machine: {words_of(name)} ({why}).{instead}"


def _note_on_workers(summary: Summary) -> str:
    """Writes the systems behind the source's connections per worker, and notes on its mistakes."""
    figures = {each.base: each for each in papers_of(summary, None, WORKERS)}
    systems: dict[str, list[str]] = {}
    for each in figures.values():
        if each.system:
            systems.setdefault(each.system, []).append(each.base)
    systems_used = [f"{', '.join(bases)} on {system}" for system, bases in systems.items()]
    return "; ".join([*systems_used, *dict.fromkeys(each.note for each in figures.values() if each.note)])
