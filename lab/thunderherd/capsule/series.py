"""The figures of several runs as a series, for tools that find change points."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.files import no_formula
from thunderherd.records.directory import SavedRun
from thunderherd.text.figures import count

__all__ = ["as_csv", "otava_test"]

TIME, RUN = "time", "run"
"""The columns before the series."""


def as_csv(runs: Sequence[SavedRun]) -> tuple[str, list[str]]:
    """Return a CSV file with a row for each run, in the order of their starts, and the names of the series.

    A series is the estimate of a contender in a metric, in the metric's own unit. It has a value in each run:
    Otava cannot read a gap.

    Raises
    ------
    UserError
        No series has a value in each run.
    """
    ordered = sorted(runs, key=_start)
    rows = [(each, _figures(each)) for each in ordered]
    names = [name for name in rows[0][1] if all(name in figures for _, figures in rows)]
    if not names:
        raise UserError(
            f"no figure that each of {count(len(rows), 'run')} has",
            code="export.nothing_in_common",
            hint="give finished runs with the same contenders",
            where="export",
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([TIME, RUN, *map(no_formula, names)])
    for each, figures in rows:
        name = no_formula(each.path.name)
        writer.writerow([each.run.started, name, *(figures[name] for name in names)])
    return text.getvalue(), [*map(no_formula, names)]


def _start(run: SavedRun) -> float:
    """Return when a run started; raise `UserError` if that is no time."""
    try:
        return datetime.fromisoformat(run.run.started).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UserError(
            f"'{run.run.started[:40]}' is no time",
            code="export.no_time",
            hint="leave this run out: its run.json was altered",
            where=str(run.path),
        ) from None


def _figures(run: SavedRun) -> dict[str, float]:
    contenders = run.summary.contenders if run.summary else []
    return {
        f"{each.name}.{metric}": found.value for each in contenders for metric, found in each.metrics.items()
    }


def otava_test(file: Path, names: Sequence[str]) -> str:
    """Return the configuration of Otava's test as JSON, which is also YAML."""
    test = {
        "type": "csv",
        "file": str(file.absolute()),
        "time_column": TIME,
        "attributes": [RUN],
        "metrics": list(names),
    }
    return json.dumps({"tests": {file.stem: test}}, indent=2) + "\n"
