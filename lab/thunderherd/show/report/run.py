"""The texts, tables and charts of one run, for the report's template.

Percentile curves and the order of blocks come from the trials, flame graphs from the run's directory. All
else comes from the summary.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from thunderherd.judge.summary.block_order import FiguresOfBlocks, figures_of_blocks
from thunderherd.labs.words import QUANTITIES
from thunderherd.records.summary import Summary, SweepSummary, TrialRecord
from thunderherd.show.charts.by_name import (
    NamedChart,
    block_charts,
    drawable_metrics,
    latency_charts,
    main_charts,
    sweep_charts,
)
from thunderherd.show.charts.files import vega_lite_version
from thunderherd.show.charts.interactive import live
from thunderherd.show.report.validity import validity_section
from thunderherd.show.report.why import why_section
from thunderherd.show.sentences import tables as sentences_tables
from thunderherd.show.sentences.answer import answer, machine_in_short, weighty
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.sentences.crossover import sentences
from thunderherd.show.sentences.explanation import why_lines
from thunderherd.show.sentences.source_figures import papers_of
from thunderherd.show.tables import claims, counters, paper_counters
from thunderherd.show.tables import main as tables_main
from thunderherd.show.tables import runs as tables_runs
from thunderherd.show.tables import sweeps as tables_sweeps
from thunderherd.show.tables.by_name import parts_of_report
from thunderherd.show.tables.limits import limits_table
from thunderherd.show.tables.model import Table
from thunderherd.show.tables.paper_counters import perf_stat_legend, perf_stats
from thunderherd.show.tables.sweeps import slope_table
from thunderherd.study.file.names import typed
from thunderherd.text.figures import head_of_names, main_of, words_of
from thunderherd.text.printable import printable
from thunderherd.toml.quantities import COUNT, quantity_of

__all__ = ["DrawnChart", "ReportedRun", "run_variables"]

MOST_SWEEPS = 6
"""The most sweeps in the list of parts; the others follow the last of them."""

SHOWN_FIRST, SHOWN_NOTES = 10, 2
"""The rows of the ranking and the notes that are visible at first."""


@dataclass(frozen=True)
class ReportedRun:
    """A run of a report. Without directory and trials, the parts that need them are left out."""

    summary: Summary
    directory: Path | None = None
    trials: Sequence[TrialRecord] = ()


def run_variables(run: ReportedRun, colours: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Makes the variables of a run's template. `prefix` begins the ids of its elements."""
    summary, directory = run.summary, run.directory
    figures = figures_of_blocks(summary, run.trials)
    main = [_chart(each, prefix) for each in main_charts(summary, colours, figures)]
    sweeps = [_sweep(summary, sweep, colours, prefix, figures) for sweep in summary.sweeps]
    latency = [_chart(each, prefix) for each in latency_charts(summary, run.trials, colours)]
    blocks = [_chart(each, prefix) for each in block_charts(summary, run.trials, colours)]
    variables = {
        "prefix": prefix,
        "shown_first": SHOWN_FIRST,
        "shown_notes": SHOWN_NOTES,
        "summary": summary,
        "answer": answer(summary),
        "short_machine": machine_in_short(summary),
        "weighty": weighty(summary),
        "validity": validity_section(summary, run.trials),
        "latency": latency,
        "blocks": blocks,
        "drawn": [*main, *(chart for sweep in sweeps for chart in sweep.charts), *latency, *blocks],
        "title": printable(summary.study.title),
        "per": sentences_tables.per_connections(summary),
        "caveats": printable("; ".join(summary.study.remarks)),
        "main": tables_main.main_table(summary) if main_of(summary) else None,
        "main_head": f"{head_of_names(main_of(summary))}s",
        "more": tables_main.more_table(summary),
        "pairs": tables_main.pairs_table(summary) if summary.pairs else None,
        "verdicts": sentences_tables.verdict_counts(summary),
        "claims": sentences_tables.claim_counts(summary.claims),
        "claims_legend": claims.claims_legend(),
        "questions_legend": claims.questions_legend(),
        "trials": sentences_tables.trial_counts(summary),
        "run": sentences_tables.run_line(summary),
        "bounds": bounds_in_words(summary),
        "why": why_section(summary, directory),
        "own_parts": [(each.name, each.title, each.tables()) for each in parts_of_report(summary)],
        "limits": limits_table(summary.limits, summary.limits_of_hosts) if summary.limits else None,
        "warnings": sentences_tables.warnings(summary),
        "machine": list(_flat(summary.machine)),
        "settings": [
            *_settings(summary.study.settings, summary.study.units),
            *_settings({each.name: each.settings for each in summary.contenders}, summary.study.units),
        ],
        "replay": _replay(summary, directory),
        "charts": main,
        "sweeps": sweeps,
        "sweeps_legend": tables_sweeps.sweeps_legend(summary),
        "main_further": tables_sweeps.main_further(summary),
        "main_runs": tables_runs.main_runs(summary),
        "counted_title": printable(paper_counters.counted_title(summary)),
        "counted": paper_counters.counted_tables(summary),
        "counter_tables": counters.counter_tables(summary),
        "counter_tables_legend": counters.counters_legend(summary),
        "perf_stats": perf_stats(summary),
        "perf_stats_legend": perf_stat_legend(summary),
        "counted_legend": paper_counters.counted_legend(summary),
    }
    return variables | {"parts": _parts(variables)}


def _parts(variables: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lists the sections that the run has, with their anchors."""
    summary: Summary = variables["summary"]
    parts = [
        ("designs", variables["main_head"], variables["main"]),
        *((f"over-{sweep.name}", sweep.title, True) for sweep in variables["sweeps"][:MOST_SWEEPS]),
        ("claims", "Claims", summary.claims),
        ("questions", "Questions", summary.questions),
        ("counters", "Counters", variables["counter_tables"]),
        ("why", "Why", variables["why"]),
        ("latency-curves", "Latency", variables["latency"]),
        ("comparisons", "Comparisons", variables["pairs"]),
        ("validity", "Order and validity", True),
        ("limits", "Limits", variables["limits"] or variables["bounds"]),
        ("machine", "Machine", True),
        ("replay", "Run it again", True),
    ]
    return [(anchor, words) for anchor, words, is_there in parts if is_there]


# Charts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnChart:
    """A chart as SVG, in which vl-convert escapes every text, and as the page's script draws it."""

    id: str
    title: str
    about: str
    note: str
    table: Table | None
    svg: Markup
    live: dict[str, Any]


@dataclass(frozen=True)
class _Sweep:
    """A sweep with its charts; the first is of the metric of its verdicts."""

    name: str
    title: str
    about: str
    charts: list[DrawnChart]
    crossover: list[str]
    tables: list[Table]
    slopes: Table | None
    runs: Table | None
    why: list[str]


def _sweep(
    summary: Summary, sweep: SweepSummary, colours: Mapping[str, str], prefix: str, blocks: FiguresOfBlocks
) -> _Sweep:
    missing = [
        name for name in tables_sweeps.metrics_of(sweep) if name not in drawable_metrics(summary, sweep)
    ]
    return _Sweep(
        name=sweep.name,
        title=printable(sweep.title),
        about=_about(summary, sweep) + _not_drawn(sweep, missing),
        charts=[_chart(each, prefix) for each in sweep_charts(summary, sweep, colours, blocks)],
        crossover=[printable(each) for each in sentences(summary, sweep)],
        tables=tables_sweeps.sweep_tables(summary, sweep),
        slopes=slope_table(summary, sweep),
        runs=tables_runs.sweep_runs(summary, sweep),
        why=why_lines(summary, sweep),
    )


def _not_drawn(sweep: SweepSummary, names: Iterable[str]) -> str:
    """Says which metrics have no chart because they are unavailable on this machine."""
    missing = [f"{words_of(name)} ({why})" for name in names if (why := sweep.unavailable.get(name))]
    return f" Unavailable on this machine, and not drawn: {'; '.join(missing)}." if missing else ""


def _about(summary: Summary, sweep: SweepSummary) -> str:
    """Explains the charts of a sweep."""
    text = "A mark is this machine's figure, and the bar is its interval"
    if summary.study.repetitions:
        text = "A mark is the mean of this machine's runs, the bar their standard deviation, a dot a run"
    text += f"; {sweep.better} is better."
    if len(sweep.contenders) > 1 and all(point.number is not None for point in sweep.points):
        text += " At each point the contenders are drawn side by side, so that their bars do not overlap."
    if sweep.remarks:
        text = f"Applies to every figure: {'; '.join(sweep.remarks)}. {text}"
    if sweep.trial == "whole_life":
        text += " Figures are counted from the start of each program to its end, without a warm-up."
    if any(papers_of(summary, sweep.name, name) for name in tables_sweeps.metrics_of(sweep)):
        text += " Open marks and dashes are the source's figures, from another machine."
    return text


def _chart(chart: NamedChart, prefix: str) -> DrawnChart:
    drawn = chart.specification()
    description = f"{chart.title}. {chart.about}".strip()
    wide = live(drawn, description)
    narrow = live(chart.specification(narrow=True), description, zoomed=False)
    return DrawnChart(
        id=f"{prefix}{chart.name}",
        title=chart.title,
        about=chart.about,
        note=chart.note,
        table=chart.table,
        svg=Markup(vl_convert.vegalite_to_svg(drawn, vl_version=vega_lite_version())),
        live={
            "wide": wide.specification,
            "narrow": narrow.specification,
            "series": [[each.name, each.colour, each.glyph] for each in wide.series],
            "zooms": wide.zooms,
        },
    )


# Settings -------------------------------------------------------------------------------------------------


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Flattens nested settings to `name.name` and text.

    Settings without a value are left out; `unavailable` has their reasons.
    """
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif value is not None and value != "":
            yield name, ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _settings(values: Mapping[str, Any], units: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Flattens nested settings as `_flat` does, quantities with their units."""
    for name, text in _flat(values):
        table, _, leaf = name.rpartition(".")
        if table == "lab.settings":
            kind = QUANTITIES[leaf].kind if leaf in QUANTITIES else COUNT
        else:
            kind = quantity_of(units.get(leaf))
        yield name, kind.say(int(text)) if kind.words and text.isdecimal() else text


def _replay(summary: Summary, directory: Path | None) -> list[tuple[str, str]]:
    """Lists the commands that repeat the run or read it, with their purpose."""
    study = summary.study
    words = typed(study.asked_for or study.name, study.size, study.overrides)
    again = shlex.join([*words, "--seed", str(study.seed)])
    other = shlex.join(words)
    where = shlex.quote(str(directory)) if directory else "DIR"
    claims = [("the claims", f"thunderherd claims {shlex.quote(study.name)} {where}")]
    return [
        ("the same order of trials", again),
        ("another order, as a check", other),
        *(claims if summary.claims or summary.questions else ()),
        (
            "the data, in Python",
            f"import thunderherd; thunderherd.load({json.dumps(str(directory or 'DIR'))}).frame()",
        ),
    ]
