"""Files that explain a results folder to someone who finds it.

```
README.md            the files, every column with its unit, how to open the tables, how to repeat the run
summary.md           the results on one short page
summary.schema.json  the JSON schema of summary.json
estimates.parquet    one row per contender and metric, with its interval; also estimates.csv
```
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from thunderherd.files import write_bytes, write_text
from thunderherd.metrics.table import known_metric
from thunderherd.records.directory import (
    COUNTED,
    EXTRAPOLATED,
    LIMITS,
    PROFILES,
    RUN,
    SUMMARY,
    TRIALS,
    UNAVAILABLE,
    WITH_COUNTERS,
    WITHOUT_COUNTERS,
    SavedRun,
    csv_of,
    parquet_of,
)
from thunderherd.records.schemas import kept_summary_schema
from thunderherd.records.summary import SUMMARY_SCHEMA, Summary
from thunderherd.run import recordings
from thunderherd.show.report.summary_page import replay_words, summary_page
from thunderherd.show.tables.formats import markdown_table, markdown_text
from thunderherd.show.tables.model import plain_table
from thunderherd.text.figures import words_of
from thunderherd.text.shown import shown_of

if TYPE_CHECKING:
    import polars

__all__ = ["estimates", "openings", "write_folder"]

README, PAGE, ESTIMATES = "README.md", "summary.md", "estimates"
OLD_README = "README.txt"
"""The name that earlier versions gave to README.md."""

FILES = {
    README: "this page",
    PAGE: "the results on one short page",
    "report.html": "the report for a browser, one file that works offline (thunderherd report writes it)",
    SUMMARY: "every figure of the printed tables and the report: estimates, intervals, verdicts, claims",
    SUMMARY_SCHEMA: "the JSON schema of summary.json",
    f"{ESTIMATES}.parquet": "the estimates as a table: one row per contender and metric",
    f"{ESTIMATES}.csv": "the same as text",
    "trials.parquet": "the trials as a table: one row per trial, one column per metric; times in seconds",
    "trials.csv": "the same as text; lists are JSON. If server.completions is 0 or empty, "
    "server.copied_share covers the server's whole life",
    UNAVAILABLE: "why cells of the trials are empty: by contender and column, with the number of valid "
    "trials. An empty cell is never zero. An invalid trial has its reasons in the column invalid_reasons",
    EXTRAPOLATED: "which cells are extrapolated because events took turns on the CPU's counters: by trial "
    "and counter, the share of the time in which it was counted. Empty if none is",
    RUN: "the run: its study with every default filled in, seed, machine, command line",
    TRIALS: "the raw observations: one line per trial, each a JSON object (schema: "
    "docs/generated/reference/trial.schema.json)",
    LIMITS: "the machine limits, measured before the first trial: the engine's lines; in the last "
    "line, what else the machine did meanwhile. If the hosts of the load are other machines, theirs follow",
    COUNTED: "extra trials with more counters; only their counts are used",
    WITH_COUNTERS: "extra trials that measure what counting costs: those with all counters",
    WITHOUT_COUNTERS: "the same without counters, in pairs with those",
    PROFILES: "extra trials in which both sides were sampled, with the call stacks of their windows",
    "profiles/": "the same stacks, folded (server: NAME.folded, clients: NAME.clients.folded); flame graphs",
    f"{recordings.FOLDER}/": "copies of the files that loads replay, up to "
    f"{recordings.LARGEST:,} bytes each. Their names have the first digits of their SHA-256; run.json has "
    "the path and SHA-256 of each",
    f"{recordings.STUDY_FOLDER}/": "the study and the files of its source, as they were when the run began",
}


def write_folder(results: SavedRun) -> None:
    """Write these files into the run's folder; of a run without a summary only the README."""
    folder, summary = results.path, results.summary
    if summary is not None:
        write_text(folder / PAGE, summary_page(summary))
        write_text(folder / SUMMARY_SCHEMA, kept_summary_schema())
        frame = estimates(summary)
        write_bytes(folder / f"{ESTIMATES}.parquet", parquet_of(frame))
        write_text(folder / f"{ESTIMATES}.csv", csv_of(frame))
    write_text(folder / README, readme(results))
    with contextlib.suppress(FileNotFoundError):
        (folder / OLD_README).unlink()


# The estimates ----------------------------------------------------------------------------------------------


def estimates(summary: Summary) -> polars.DataFrame:
    """Return one row per contender and metric, in the metric's own unit: the estimate with its interval.

    For repeated runs, their mean and one standard deviation on each side.
    """
    import polars

    rows = []
    for each in summary.contenders:
        names = dict.fromkeys([*each.metrics, *each.spread])
        for name in names:
            found, interval = shown_of(summary, each, name), each.metrics.get(name)
            if found is None:
                continue
            confidence = None if found.is_mean or interval is None else interval.confidence
            figure = (found.value, found.low, found.high, confidence)
            known = known_metric(name, summary.study.counters)
            unit = known.unit if known else ""
            who = (each.name, each.base, each.sweep, each.point, each.design)
            rows.append((*who, name, words_of(name), unit, *figure, each.blocks, each.scaled.get(name)))
    schema = {
        "contender": polars.String, "base": polars.String, "sweep": polars.String, "point": polars.String,
        "design": polars.String, "metric": polars.String, "words": polars.String, "unit": polars.String,
        "value": polars.Float64, "low": polars.Float64, "high": polars.Float64, "confidence": polars.Float64,
        "blocks": polars.Int64, "counted_share": polars.Float64,
    }  # fmt: skip
    return polars.DataFrame(rows, schema=schema, orient="row")


ESTIMATE_COLUMNS = (
    ("contender, base, sweep, point, design", "the contender, as in the table of trials"),
    ("metric", "name of the metric; the table of trials has a column of this name"),
    ("words", "the metric in words"),
    ("unit", "unit of value, low and high; empty for a plain number"),
    ("value", "Hodges-Lehmann estimate over the blocks; for repeated runs, their mean"),
    (
        "low, high",
        "ends of its interval; for repeated runs, one standard deviation away. Empty if there is no bound",
    ),
    ("confidence", "confidence of the interval"),
    ("blocks", "accepted blocks in which the trial was valid"),
    ("counted_share", "for an extrapolated figure, the least share of the time in which it was counted"),
)


# The README -------------------------------------------------------------------------------------------------


def readme(results: SavedRun) -> str:
    """Return the text of README.md: the files that exist, or all possible ones if the run has not ended."""
    summary = results.summary
    study = results.run.study
    title = summary.study.title if summary else str(study.get("title") or study.get("name"))
    parts = [
        f"# {markdown_text(title)}",
        "Results of a run of Thunderherd, a laboratory for socket servers.",
    ]
    if summary is None:
        parts.append("The run has not ended. Files that need all of its trials do not exist yet.")
    else:
        parts.append(f"Results: [{PAGE}]({PAGE}).")
    parts += ["## Files", markdown_table(plain_table(["file", "content"], list(_files(results)), 2))]
    if summary is not None:
        parts += ["## Opening them", *_opening_parts(_shown_metric(results))]
    columns = [[each.name, each.kind, each.unit, each.meaning] for each in results.described_columns()]
    parts += [
        "## Columns of the trials",
        markdown_table(plain_table(["column", "kind", "unit", "meaning"], columns, 4)),
        "## Columns of the estimates",
        markdown_table(plain_table(["column", "meaning"], ESTIMATE_COLUMNS, 2)),
    ]
    if summary is not None:
        parts += [
            "## Repeating the run",
            "This makes the same trials in the same order. Leave out `--seed` for another order.",
            f"```sh\n{replay_words(summary)}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def _files(results: SavedRun) -> Iterator[list[str]]:
    coming = results.summary is None
    for name, what in FILES.items():
        written_later = name in (README, "report.html")
        if coming or written_later or (results.path / name).exists():
            yield [name, what]
    others = [] if coming else sorted({path.name for path in results.path.glob("*.csv")} - FILES.keys())
    for name in others:
        yield [name, "the columns of the source's own CSV, one line per configuration"]


def _shown_metric(results: SavedRun) -> str:
    """Return the metric of the examples: the study's own, if the trials have it."""
    summary = results.summary
    assert summary is not None, "only a run that has ended has examples"
    wanted = [summary.study.metric, *(sweep.metric for sweep in summary.sweeps)]
    available = {
        name for trial in results.trials for name, value in (trial.metrics or {}).items() if value is not None
    }
    return next((name for name in wanted if name in available), wanted[0])


def openings(metric_name: str) -> dict[str, tuple[str, str]]:
    """Return language → kind of code, and three lines that open the table of trials.

    They select the trials that the figures rest on, and print the median of a metric for each contender.
    """
    quoted = metric_name.replace('"', '""')
    return {
        "polars": (
            "python",
            "import polars\n"
            'used = polars.read_parquet("trials.parquet").filter("used")\n'
            f'print(used.group_by("contender").agg(polars.median({json.dumps(metric_name)})).sort("contender"))',
        ),
        "pandas": (
            "python",
            "import pandas\n"
            'trials = pandas.read_parquet("trials.parquet")\n'
            f'print(trials[trials["used"]].groupby("contender")[{json.dumps(metric_name)}].median())',
        ),
        "duckdb": (
            "sql",
            f'SELECT contender, median("{quoted}")\n'
            "FROM 'trials.parquet' WHERE used\n"
            "GROUP BY contender ORDER BY contender;",
        ),
        "r": (
            "r",
            'trials <- read.csv("trials.csv", check.names = FALSE)\n'
            "used <- trials[trials$used, ]\n"
            f'print(tapply(used[["{metric_name}"]], used$contender, median))',
        ),
    }


NAMES = {"polars": "polars", "pandas": "pandas (with pyarrow)", "duckdb": "DuckDB", "r": "R"}


def _opening_parts(metric_name: str) -> Iterator[str]:
    for language, (kind, code) in openings(metric_name).items():
        yield f"{NAMES[language]}:"
        yield f"```{kind}\n{code}\n```"
