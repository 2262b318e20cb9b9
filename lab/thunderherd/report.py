"""The report of a run: one HTML file that holds everything it shows and asks the network for nothing.

Its charts are drawn twice: as SVG, which is there at once, prints, and needs no script; and by Vega-Lite,
whose script the file holds too, for figures under the pointer. The page's content security policy allows
the two scripts of the file by their hashes and no connection at all, so neither a name from a study nor a
mistake of ours can start anything else or fetch something.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from thunderherd import (
    claim_tables,
    counter_tables,
    drawing,
    matrices,
    paper_counters_matrix,
    repeated_runs,
    tables,
)
from thunderherd.bounds_view import bounds_in_words
from thunderherd.charts import (
    NamedChart,
    drawable_metrics,
    main_charts,
    sweep_charts,
    vega_lite_version,
)
from thunderherd.crossover_words import sentences
from thunderherd.errors import UserError
from thunderherd.figures import (
    interval_span,
    interval_value,
    main_of,
    places,
    printable,
    shows_process_control,
    words_of,
)
from thunderherd.kept_files import kept
from thunderherd.limits_tables import legend, limit_rows
from thunderherd.matrices import Matrix
from thunderherd.noise_view import noise_view
from thunderherd.papers import papers_of
from thunderherd.perf_stat import perf_stat_legend, perf_stats
from thunderherd.records import Interval, Summary, SweepSummary
from thunderherd.results import load
from thunderherd.slope_matrix import slope_matrix
from thunderherd.study import typed
from thunderherd.where_counted import why_lines
from thunderherd.why_view import why_view

__all__ = ["render", "write_report"]

FILE_NAME = "report.html"


def write_report(source: Summary | Path, path: Path | None = None) -> Path:
    """Writes the report and returns its path.

    Parameters
    ----------
    source
        A summary, or the directory of a run that has ended.
    path
        The file to be written; `report.html` in the run's directory if not given.

    Raises
    ------
    UserError
        The directory holds no run, or one that has not ended; or a summary comes without a path, or with one
        in a directory that is not there.
    """
    if isinstance(source, Path):
        path = path or source / FILE_NAME
        summary = load(source).summary
        if summary is None:
            raise UserError(
                f"{source} holds a run that has not ended; go on with it: thunderherd run ... --resume"
            )
    else:
        summary = source
    if path is None:
        raise UserError("the report of a summary needs the path of the file to be written")
    if not path.parent.is_dir():
        raise UserError(
            f"{path} cannot be written: there is no directory {path.parent}; make it, or choose another "
            "place with --output"
        )
    text = render(summary, source if isinstance(source, Path) else None)
    # Renamed into place: whoever looks at the old report meanwhile never sees half of the new one.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def render(summary: Summary, directory: Path | None = None) -> str:
    """The report as HTML. `directory`, where the results lie, is named in the commands that replay it."""
    environment = Environment(
        loader=PackageLoader("thunderherd"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    library, start = _vega(), _start_script(environment)
    with debug_mode(False):
        charts = [_chart(each) for each in main_charts(summary)]
        sweeps = [_sweep(summary, sweep) for sweep in summary.sweeps]
    drawn = [*charts, *(chart for sweep in sweeps for chart in sweep.charts)]
    return environment.get_template("report.html").render(
        summary=summary,
        title=printable(summary.study.title),
        per=tables.per_connections(summary),
        caption=tables.main_caption(summary),
        beside=printable("; ".join(summary.study.remarks)),
        heading=tables.heading_of(summary),
        has_control=shows_process_control(summary),
        rows=tables.study_rows(summary, between=" to "),
        more=_more_rows(summary),
        pairs=tables.pair_rows(summary, between=" to "),
        pairs_legend=tables.pairs_legend(summary),
        legend=tables.legend(summary),
        notes=tables.table_notes(summary).texts,
        verdicts=tables.verdict_counts(summary),
        claims=tables.claim_counts(summary),
        claims_legend=claim_tables.claims_legend(),
        questions_legend=claim_tables.questions_legend(),
        trials=tables.trial_counts(summary),
        run=tables.run_line(summary),
        bounds=bounds_in_words(summary),
        why=why_view(summary, directory),
        noise=noise_view(summary),
        limits=limit_rows(summary.limits, ()) if summary.limits else [],
        limits_legend=legend(summary.limits) if summary.limits else "",
        warnings=tables.warnings(summary),
        machine=list(_flat(summary.machine)),
        settings=[
            *_flat(summary.study.settings),
            *_flat({each.name: each.settings for each in summary.contenders}),
        ],
        replay=_replay(summary, directory),
        charts=charts,
        sweeps=sweeps,
        sweeps_legend=matrices.sweeps_legend(summary),
        main_further=matrices.main_further(summary, between=" to "),
        main_runs=repeated_runs.main_runs(summary),
        counted_title=printable(paper_counters_matrix.counted_title(summary)),
        counted=paper_counters_matrix.counted_matrices(summary, between=" to "),
        counter_tables=counter_tables.counter_tables(summary, between=" to "),
        counter_tables_legend=counter_tables.counters_legend(summary),
        perf_stats=perf_stats(summary),
        perf_stats_legend=perf_stat_legend(summary),
        counted_legend=paper_counters_matrix.counted_legend(summary),
        charts_data=[{"id": each.id, "wide": each.wide, "narrow": each.narrow} for each in drawn],
        palette={
            "ink": drawing.INK,
            "muted": drawing.MUTED,
            "rule": drawing.RULE,
            "dark": drawing.DARK_GROUND,
        },
        colours=drawing.colours_of(summary),
        policy=_policy(library, start),
        library=Markup(library),
        start=Markup(start),
    )


# Charts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chart:
    """A chart drawn, and in two widths as Vega-Lite for the page's script."""

    id: str
    title: str
    about: str
    note: str
    svg: Markup
    wide: dict[str, Any]
    narrow: dict[str, Any]


@dataclass(frozen=True)
class _Sweep:
    """A sweep as the report shows it: the chart of its verdicts' metric first, then those of further ones."""

    name: str
    title: str
    about: str
    charts: list[_Chart]
    crossover: list[str]
    matrices: list[Matrix]
    slopes: Matrix | None
    runs: repeated_runs.Runs | None
    why: list[str]


def _sweep(summary: Summary, sweep: SweepSummary) -> _Sweep:
    missing = [name for name in matrices.metrics_of(sweep) if name not in drawable_metrics(summary, sweep)]
    return _Sweep(
        name=sweep.name,
        title=printable(sweep.title),
        about=_about(summary, sweep) + _not_drawn(sweep, missing),
        charts=[_chart(each) for each in sweep_charts(summary, sweep)],
        crossover=[printable(each) for each in sentences(summary, sweep)],
        matrices=matrices.sweep_matrices(summary, sweep, between=" to "),
        slopes=slope_matrix(summary, sweep, between=" to "),
        runs=repeated_runs.sweep_runs(summary, sweep),
        why=why_lines(summary, sweep),
    )


def _not_drawn(sweep: SweepSummary, names: Iterable[str]) -> str:
    """Which metrics have no chart since this machine does not tell them."""
    said = [f"{words_of(name)} ({why})" for name in names if (why := sweep.unavailable.get(name))]
    return f" Not to be had here, and not drawn: {'; '.join(said)}." if said else ""


def _about(summary: Summary, sweep: SweepSummary) -> str:
    """What stands above a sweep's chart."""
    text = "A mark is this machine's figure, the bar its interval"
    if summary.study.repetitions:
        text = "A mark is the mean of this machine's runs, the bar their standard deviation, a dot is a run"
    text += f"; {sweep.better} is better."
    if len(sweep.contenders) > 1 and all(point.number is not None for point in sweep.points):
        text += (
            " At a point the contenders stand a little apart, so that their bars can be told from each other."
        )
    if sweep.remarks:
        text = f"Beside each figure: {'; '.join(sweep.remarks)}. {text}"
    if sweep.trial == "whole_life":
        text += " Counted from the start of each program to its end, without a warm-up."
    if any(papers_of(summary, sweep.name, name) for name in matrices.metrics_of(sweep)):
        text += " Open marks and dashes: the paper's figures, from another machine."
    return text


def _chart(chart: NamedChart) -> _Chart:
    wide = chart.specification()
    return _Chart(
        id=chart.name,
        title=chart.title,
        about=chart.about,
        note=chart.note,
        svg=_drawn(wide),
        wide=wide,
        narrow=chart.specification(narrow=True),
    )


def _drawn(specification: dict[str, Any]) -> Markup:
    """A chart as an SVG element; vl-convert escapes every text in it."""
    return Markup(vl_convert.vegalite_to_svg(specification, vl_version=vega_lite_version()))


# Scripts --------------------------------------------------------------------------------------------------


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed with all they need, as one script that sets `vegaEmbed`."""
    version = vega_lite_version()
    make = partial(vl_convert.javascript_bundle, "window.vegaEmbed = vegaEmbed;", vl_version=version)
    bundle = kept(f"vega-of-vl-convert-{metadata.version('vl-convert-python')}-{version}.js", make)
    return _inside_script(f"(() => {{{bundle}}})();")


def _start_script(environment: Environment) -> str:
    return _inside_script(str(environment.get_template("report.js").render()))


def _inside_script(script: str) -> str:
    """Without what would end a script element, or open a comment in it."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    # Vega sets styles on its elements and draws its downloads from data and blob addresses; nothing is
    # fetched.
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


# Tables ---------------------------------------------------------------------------------------------------


def _more_rows(summary: Summary) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each contender what else was measured: figures with their intervals."""
    digits = places(summary)
    return [
        (
            each.name,
            [
                _with_span(each.client_cpu_seconds, digits),
                _with_span(each.machine_cpu_seconds, digits),
                _with_span(each.connections_per_second, 0),
                _with_span(each.voluntary_switches_per_connection, 2),
            ],
        )
        for each in main_of(summary)
    ]


def _with_span(interval: Interval | None, digits: int) -> tuple[str, str]:
    return interval_value(interval, digits), interval_span(interval, digits)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as `name.name`, text. Without a value: what is said about it stands under
    `unavailable`.
    """
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, "true" if value else "false"
        elif value is not None and value != "":
            yield name, ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _replay(summary: Summary, directory: Path | None) -> list[tuple[str, str]]:
    """What to type, each command with what it does."""
    study = summary.study
    words = typed(study.asked_for or study.name, study.size, study.overrides)
    again = shlex.join([*words, "--seed", str(study.seed)])
    other = shlex.join(words)
    where = shlex.quote(str(directory)) if directory else "DIR"
    return [
        ("the same order of trials", again),
        ("another order, as a check", other),
        ("the claims", f"thunderherd claims {shlex.quote(study.name)} {where}"),
        (
            "the data, in Python",
            f"import thunderherd; thunderherd.load({json.dumps(str(directory or 'DIR'))}).frame()",
        ),
    ]
