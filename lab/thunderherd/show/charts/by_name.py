"""The charts of a run, by name: what the report shows and `thunderherd plot` writes.

Each is drawn when it is asked for, wide or for a telephone, from one definition. Those of the latency's
percentiles and of the blocks need the run's trials; all others are of its summary alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from thunderherd.judge.summary.block_order import NOT_KNOWN, FiguresOfBlocks, figures_of_blocks, trials_seen
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
"""Of contenders, by base; None: those of the run alone (`drawing.colours_of`)."""


class Draw(Protocol):
    def __call__(self, *, narrow: bool = False) -> Chart:
        """As Vega-Lite has it, with its data. `narrow`: for a telephone."""


@dataclass(frozen=True)
class NamedChart:
    """A chart, which is drawn when it is asked for."""

    name: str
    """Of letters, digits and dashes; no other of the run has it."""
    title: str
    about: str
    note: str
    """What is to be known about its source's figures; empty where nothing is."""
    specification: Draw
    table: Table | None = None
    """The same figures as a table, where no other one has them."""


def all_charts(
    summary: Summary, trials: Sequence[TrialRecord] = (), colours: Colours = None
) -> list[NamedChart]:
    """Those of the main table, those of each sweep, then what the trials themselves tell."""
    blocks = figures_of_blocks(summary, trials)
    return [
        *main_charts(summary, colours, blocks),
        *(chart for sweep in summary.sweeps for chart in sweep_charts(summary, sweep, colours, blocks)),
        *latency_charts(summary, trials, colours),
        *block_charts(summary, trials, colours),
    ]


def main_charts(
    summary: Summary, colours: Colours = None, blocks: FiguresOfBlocks = NOT_KNOWN
) -> Iterator[NamedChart]:
    """Of the main table, and what all sweeps over a rate come to together."""
    if shows_process_control(summary) and any(
        each.process_control_seconds for each in main_of(summary) if each.name != summary.study.baseline
    ):
        about = f"CPU beyond that of {summary.study.baseline}."
        if papers_of(summary, None, PROCESS_CONTROL):
            about += (
                " The paper's seconds come from another machine, so each panel has a scale of its own: "
                "compare the pattern, not the lengths across panels."
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
            "One tick is one worker of a pool: its connections as multiples of an even share (at 1 all do "
            "the same). The busiest workers of all trials are averaged, then the second busiest, and so on."
        )
        if papers_of(summary, None, WORKERS):
            about += " One ring is one worker of the paper's own figure."
        yield NamedChart(
            "clients-per-worker",
            "How evenly the workers of a pool were used",
            about,
            _note_on_workers(summary),
            partial(main.clients_per_worker_chart, summary, colours=colours),
            _workers_table(summary),
        )
    if over_rate(summary):
        yield NamedChart(
            "latency-over-rate",
            "Latency over rate",
            "Every design at the rates at which it was asked. A figure is missing where its server did not "
            "keep up, or the load failed to measure it.",
            "",
            partial(rate_chart, summary, colours=colours, blocks=blocks),
        )


def sweep_charts(
    summary: Summary, sweep: SweepSummary, colours: Colours = None, blocks: FiguresOfBlocks = NOT_KNOWN
) -> Iterator[NamedChart]:
    """Of a sweep: where two change places, if that was asked for, then its metrics, that of its verdicts
    first."""
    if sweep.crossover is not None and sweep.crossover.points:
        yield NamedChart(
            f"crossover-{sweep.name}",
            "Where they change places",
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
    """Percentile curves of the main table and of each sweep, where the load kept histograms."""
    curves = latency_curves(summary, trials)
    for sweep in (None, *summary.sweeps):
        name = sweep.name if sweep is not None else None
        if any(each.sweep == name and each.name in curves for each in summary.contenders):
            yield NamedChart(
                f"latency-{name}" if name else "latency",
                sweep.title if sweep is not None else "Latency of the main table's contenders",
                "All requests of the trials that count, put together: how long the given share of them took "
                "at most. The tables' percentiles are of each trial by itself, with an interval over trials.",
                "",
                partial(latency.latency_chart, summary, curves, sweep, colours=colours),
                latency.latency_table(summary, curves, sweep),
            )


def block_charts(
    summary: Summary, trials: Sequence[TrialRecord], colours: Colours = None
) -> Iterator[NamedChart]:
    """The order of the trials, and a drift over the run."""
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
    """The connections of each worker, the busiest first: what the chart's ticks are."""
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
    """Those of which there are figures. What is drawn in the place of another metric need not be drawn
    again."""
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
    """What stands above a chart of a metric that cannot be had here."""
    why = sweep.unavailable.get(name)
    if why is None:
        return ""
    instead = f" In its place: {words_of(sweep.substitutes[name])}." if name in sweep.substitutes else ""
    return f"Not to be had here: {words_of(name)} ({why}).{instead}"


def _note_on_workers(summary: Summary) -> str:
    """What is to be known about the source's connections of each worker: the systems, and its mistakes."""
    figures = {each.base: each for each in papers_of(summary, None, WORKERS)}
    systems: dict[str, list[str]] = {}
    for each in figures.values():
        if each.system:
            systems.setdefault(each.system, []).append(each.base)
    systems_used = [f"{', '.join(bases)} on {system}" for system, bases in systems.items()]
    return "; ".join([*systems_used, *dict.fromkeys(each.note for each in figures.values() if each.note)])
