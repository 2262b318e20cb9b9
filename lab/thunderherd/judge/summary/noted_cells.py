"""Notes on cells of a run's tidy table (`trials.csv`): why they are empty, and which are extrapolated.

They are separate tables, so that every column of figures stays numeric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from thunderherd.files import write_text
from thunderherd.metrics.table import METRICS, NONE_BECAUSE, PER_BYTE, counters_of, made_of, parted
from thunderherd.records.directory import EXTRAPOLATED, UNAVAILABLE, SavedRun, csv_of
from thunderherd.records.summary import ContenderSummary, TrialRecord
from thunderherd.study.loading import Study
from thunderherd.trial.counters import scaled_of_sides, unavailable_of_sides
from thunderherd.trial.observation import left_out

if TYPE_CHECKING:
    import polars

__all__ = ["extrapolated_cells", "unavailable_cells", "write_noted_cells"]

READ_LATE = "the server was read late: too much of its work lay outside the window"
NOT_READ = "no connection could be read, or the kernel does not report it (METHODOLOGY.md, counters)"
NO_PAYLOAD = "the workload reports no payload, or moved none"
TOO_FEW = "fewer than {:,} requests in a trial, or its latency is not reported"
NO_MEANING = "not measured, or without meaning for this contender"


def write_noted_cells(study: Study, results: SavedRun) -> None:
    """Write both tables to the run's directory."""
    write_text(results.path / UNAVAILABLE, csv_of(unavailable_cells(study, results)))
    write_text(results.path / EXTRAPOLATED, csv_of(extrapolated_cells(results)))


def unavailable_cells(study: Study, results: SavedRun) -> polars.DataFrame:
    """Return why cells are empty: a row for each contender, column and reason.

    `trials` is the number of such cells in its valid trials. Invalid trials have `invalid_reasons`.
    """
    import polars

    known = {each.name: each for each in results.summary.contenders} if results.summary else {}
    columns = _columns(results)
    found = Counter[tuple[str, str, str]]()
    for trial in results.trials:
        if trial.valid and trial.metrics is not None:
            counters = _reasons(trial, columns)
            for name in columns:
                if trial.metrics.get(name) is None:
                    late = READ_LATE if left_out(name, trial) else None
                    why = counters.get(name) or late or _why(name, study, known.get(trial.contender))
                    found[trial.contender, name, why] += 1
    rows = [(*key[:2], count, key[2]) for key, count in found.items()]
    schema = {"contender": polars.String, "column": polars.String, "trials": polars.Int64}
    return polars.DataFrame(rows, schema=schema | {"why": polars.String}, orient="row")


def extrapolated_cells(results: SavedRun) -> polars.DataFrame:
    """Return which cells are extrapolated: a row for each trial and each counter that counted in part.

    `share_of_time` is the time in which the CPU counted it; `columns` are computed from it.
    """
    import polars

    columns = _columns(results)
    rows = [
        (trial.contender, trial.block, trial.position, trial.attempt, f"{side}.{counter}", share, resting)
        for trial in results.trials
        for side, shares in scaled_of_sides(trial).items()
        for counter, share in shares.items()
        if (resting := " ".join(made_of(side, counter, columns)))
    ]
    schema = {
        "contender": polars.String, "block": polars.Int64, "position": polars.Int64, "attempt": polars.Int64,
        "counter": polars.String, "share_of_time": polars.Float64, "columns": polars.String,
    }  # fmt: skip
    return polars.DataFrame(rows, schema=schema, orient="row")


def _columns(results: SavedRun) -> list[str]:
    """Return the columns of figures."""
    reported = dict.fromkeys(name for trial in results.trials for name in trial.metrics or ())
    return list(dict.fromkeys([*METRICS, *reported]))


def _reasons(trial: TrialRecord, columns: Collection[str]) -> Mapping[str, str]:
    """Return, by column, why the machine did not offer it in a trial."""
    return {
        name: why
        for side, counters in unavailable_of_sides(trial).items()
        for counter, why in counters.items()
        for name in made_of(side, counter, columns)
    }


def _why(name: str, study: Study, contender: ContenderSummary | None) -> str:
    """Return why a metric is missing although its counters could be read."""
    if contender is not None and name in contender.unknown:
        return contender.unknown[name]
    if name in METRICS and (fewest := METRICS[name].fewest_requests):
        return TOO_FEW.format(fewest)
    what = name.partition(".")[2]
    if because := NONE_BECAUSE.get(what or name):
        return because
    if name.endswith(PER_BYTE):
        return NO_PAYLOAD
    requested = study.measure.counters
    return (
        NOT_READ if any(part in requested for part in (*counters_of(name), parted(what)[0])) else NO_MEANING
    )
