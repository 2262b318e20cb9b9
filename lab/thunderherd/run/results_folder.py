"""What makes a results folder tell what it is: README.md, the short page, the schema of summary.json, and the
estimates as a table.

```
README.md            which files there are, every column with its unit, how to open them, how to run it again
summary.md           the answer on one short page
summary.schema.json  what summary.json, which names it, looks like
estimates.parquet    one row a contender and metric, with its interval; also estimates.csv
```
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    write_parquet,
    write_text,
)
from thunderherd.records.schemas import kept_summary_schema
from thunderherd.records.summary import SUMMARY_SCHEMA, Summary
from thunderherd.run import recordings
from thunderherd.show.report.summary_page import replay_words, summary_page
from thunderherd.show.tables.formats import markdown_grid, markdown_text
from thunderherd.show.tables.model import Grid
from thunderherd.text.figures import words_of
from thunderherd.text.shown import shown_of

if TYPE_CHECKING:
    import polars

__all__ = ["estimates", "openings", "write_folder"]

README, PAGE, ESTIMATES = "README.md", "summary.md", "estimates"
OLD_README = "README.txt"
"""What folders of earlier versions have in its place."""

FILES = {
    README: "this page",
    PAGE: "the answer on one short page",
    "report.html": "the report: one file for a browser, which works offline; once it was written",
    SUMMARY: "every figure that was printed: estimates, intervals, verdicts, claims",
    SUMMARY_SCHEMA: "what summary.json looks like (JSON schema)",
    f"{ESTIMATES}.parquet": "the estimates as a table: one row a contender and metric",
    f"{ESTIMATES}.csv": "the same as text",
    "trials.parquet": "the trials as a table: one row a trial, one column a metric; times in seconds",
    "trials.csv": "the same as text; lists are JSON. Where server.completions is 0 or empty, "
    "server.copied_share is of the server's whole life",
    UNAVAILABLE: "why cells of the trials are empty: by contender and column, in how many valid "
    "trials. An empty cell is never zero; of a trial that is not valid, its column invalid_reasons says why",
    EXTRAPOLATED: "which cells are extrapolated: by trial and counter, the share of the time in which "
    "it was counted where events took turns on the CPU's counters. No line: there is none",
    RUN: "what was run: the study with every default filled in, seed, machine, command line",
    TRIALS: "the raw observations: one JSON object a line, one line a trial (docs/generated/reference, "
    "trial.schema.json)",
    LIMITS: "the machine's limits, measured before the first trial: the engine's lines, and last "
    "what else the machine did meanwhile",
    COUNTED: "trials of their own, in which more was counted; of their figures only the counts are used",
    WITH_COUNTERS: "pairs of trials that tell what counting costs: these with all counters",
    WITHOUT_COUNTERS: "and these without",
    PROFILES: "trials of their own in which both sides were sampled, with the call stacks of their windows",
    "profiles/": "the same stacks, folded (NAME.folded of a server, NAME.clients.folded), and flame graphs",
    f"{recordings.FOLDER}/": "where loads replay files: these, up to "
    f"{recordings.LARGEST:,} bytes each, named with the beginning of their SHA-256, which run.json has with "
    "the path of each",
}


def write_folder(results: SavedRun) -> None:
    """Writes them into the run's folder; of a run without a summary the README alone."""
    folder, summary = results.path, results.summary
    if summary is not None:
        write_text(folder / PAGE, summary_page(summary))
        write_text(folder / SUMMARY_SCHEMA, kept_summary_schema())
        frame = estimates(summary)
        write_parquet(folder / f"{ESTIMATES}.parquet", frame)
        write_text(folder / f"{ESTIMATES}.csv", frame.write_csv())
    write_text(folder / README, readme(results))
    with contextlib.suppress(FileNotFoundError):
        (folder / OLD_README).unlink()


# The estimates ----------------------------------------------------------------------------------------------


def estimates(summary: Summary) -> polars.DataFrame:
    """One row a contender and metric, in the metric's own unit: the estimate with its interval; of repeated
    runs the mean with one standard deviation on each side."""
    import polars

    rows = []
    for each in summary.contenders:
        told = dict.fromkeys([*each.metrics, *each.spread])
        for name in told:
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
    ("contender, base, sweep, point, design", "who: as in the table of trials"),
    ("metric", "its name; the table of trials has a column of this name"),
    ("words", "the metric in words"),
    ("unit", "of value, low and high; empty: a plain number"),
    ("value", "the Hodges-Lehmann estimate over the blocks; of repeated runs their mean"),
    ("low, high", "its interval; of repeated runs one standard deviation away. Empty: no bound"),
    ("confidence", "of the interval"),
    ("blocks", "accepted blocks in which the trial was valid"),
    ("counted_share", "of an extrapolated figure: the least share of the time in which it was counted"),
)


# The README -------------------------------------------------------------------------------------------------


def readme(results: SavedRun) -> str:
    """The page, with the files that are there; of a run that has not ended, with all that may come."""
    summary = results.summary
    study = results.run.study
    title = summary.study.title if summary else str(study.get("title") or study.get("name"))
    parts = [
        f"# {markdown_text(title)}",
        "Results of a run of Thunderherd, a laboratory for socket servers.",
    ]
    if summary is None:
        parts.append("The run has not ended: the files that follow from all of its trials are not there yet.")
    else:
        parts.append(f"The answer: [{PAGE}]({PAGE}).")
    parts += ["## Files", markdown_grid(Grid.of(["file", "what it is"], list(_files(results)), 2))]
    if summary is not None:
        parts += ["## Opening them", *_opening_parts(_shown_metric(results))]
    columns = [[each.name, each.kind, each.unit, each.meaning] for each in results.described_columns()]
    parts += [
        "## Columns of the trials",
        markdown_grid(Grid.of(["column", "kind", "unit", "meaning"], columns, 4)),
        "## Columns of the estimates",
        markdown_grid(Grid.of(["column", "meaning"], ESTIMATE_COLUMNS, 2)),
    ]
    if summary is not None:
        parts += [
            "## Running it again",
            "The same trials in the same order; without `--seed`, another order.",
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
        yield [name, "the columns of the source's own CSV, a line for each of its configurations"]


def _shown_metric(results: SavedRun) -> str:
    """What the examples are about: the metric of the study, if trials have it."""
    summary = results.summary
    assert summary is not None, "examples are of a run that has ended"
    wanted = [summary.study.metric, *(sweep.metric for sweep in summary.sweeps)]
    told = {
        name for trial in results.trials for name, value in (trial.metrics or {}).items() if value is not None
    }
    return next((name for name in wanted if name in told), wanted[0])


def openings(metric_name: str) -> dict[str, tuple[str, str]]:
    """By language, the kind of code and three lines that open the table of trials, take those that figures
    rest on, and print the median of a metric of each contender."""
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
