"""Baselines: a server measured beside a reference, kept, and compared with a later session.

Between two sessions the kernel, the neighbours or the clock speed may change. Blocks cancel such differences
within a session, and nothing cancels them between sessions. So a baseline has a reference, which does not
change. Each session measures the ratio of the server's cost to that of the reference, and two sessions are
compared by this ratio. The drift of the reference itself is reported, too.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.files import read_text
from thunderherd.gate.request import BASE, HEAD, Criterion, GateRequest
from thunderherd.gate.study import GateStudies, is_latency
from thunderherd.gate.verdict import NOT_SLOWER, SLOWER, UNDECIDED, Outcome
from thunderherd.judge.summary.block_rejection import blocks_of
from thunderherd.judge.summary.pair_summaries import columns_of
from thunderherd.metrics.table import better_of
from thunderherd.records.cache import own_folder
from thunderherd.records.directory import SavedRun, load
from thunderherd.records.summary import Estimate, Record
from thunderherd.search.compare import prepared
from thunderherd.search.stages import Stages
from thunderherd.search.written_study import SIZE, Tables
from thunderherd.statistics.two_samples import p_not_less, shift
from thunderherd.toml.file import TomlFile

__all__ = ["Baseline", "Session", "baselines", "compare_with", "folder_of", "save"]

ALPHA = 0.05
MOST_BLOCKS = 1000
"""The only look of a session: more blocks than a budget has room for."""
RUN, ABOUT = "run", "baseline.json"
LARGEST = 1 << 20
"""The largest `baseline.json` that is read, bytes."""
SESSION = "baseline"
"""The name of a session's stage."""


Slowdown = Annotated[float, Field(ge=0, lt=1000, allow_inf_nan=False)]
"""A slowdown that is allowed, percent: what `--margin` takes."""


class Baseline(Record):
    """`baseline.json`: what was measured, and how, so that a later session measures the same."""

    name: str = Field(description="name of the baseline")
    server: str = Field(description="the server, as typed")
    reference: str | None = Field(description="the server that did not change, as typed. Null: none")
    criteria: dict[str, Slowdown] = Field(description="by metric, the slowdown that is allowed, percent")
    workload: str | None = Field(description="the workload. Null: the usual one")
    settings: list[tuple[str, str]] = Field(description="settings of server and load, as typed")
    lab: list[str] = Field(description="the lab, as typed")
    budget: str = Field(description="the time budget of a session, as typed")
    directory: str = Field(description="the folder that the server's command runs in")
    saved: str = Field(description="when it was saved, local time with offset (ISO 8601)")


@dataclass(frozen=True)
class Session:
    """One metric of a server compared between two sessions."""

    metric: str
    margin_percent: float
    slowdown_percent: Estimate | None
    """Of the server, relative to the reference if there is one."""
    drift_percent: Estimate | None
    """Of the reference itself."""
    verdict: Outcome
    why: str


def home() -> Path:
    """Return the folder of all baselines (XDG Base Directory Specification).

    They name commands, so `UnsafeFolderError` is raised if another user can change it.
    """
    return own_folder("XDG_DATA_HOME", "~/.local/share") / "baselines"


def folder_of(name: str) -> Path:
    """Return the folder of a baseline; raise `UserError` for an invalid name."""
    if not name or not all(each.isalnum() or each in "-_." for each in name) or name.startswith("."):
        raise UserError(
            f"'{name}' is no name of a baseline",
            code="baseline.invalid_name",
            hint="letters, digits, - _ and .",
            where="baseline",
        )
    return home() / name


def baselines() -> list[Baseline]:
    """Return all baselines by name."""
    return [_read(path) for path in sorted(home().glob(f"*/{ABOUT}"))]


def _read(path: Path) -> Baseline:
    try:
        return Baseline.model_validate_json(read_text(path, LARGEST))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserError(
            f"not a baseline of this version of Thunderherd: {_why(error)}",
            code="baseline.unreadable",
            hint=f"remove {path.parent}, and save it again",
            where=str(path),
        ) from None


def _why(error: OSError | UnicodeDecodeError | ValidationError) -> str:
    """Return in a line why a file is no baseline."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text (byte {error.start})"
    return error.strerror or str(error)


def read_baseline(name: str) -> Baseline:
    """Return a baseline; raise `UserError` if there is none."""
    path = folder_of(name) / ABOUT
    if not path.exists():
        known = ", ".join(each.name for each in baselines()) or "none yet"
        raise UserError(
            f"no baseline '{name}'",
            code="baseline.unknown",
            hint=f"known: {known}; `thunderherd baseline save {name} SERVER` makes one",
            where="baseline",
        )
    return _read(path)


def request_of(baseline: Baseline, out: Path | None, words: Sequence[str]) -> GateRequest:
    """Return the request that measures a session: the reference is base, the server is head."""
    servers = (baseline.reference or baseline.server, baseline.server)
    return GateRequest(
        contenders=servers,
        labels=servers,
        directories=(Path(baseline.directory), Path(baseline.directory)),
        criteria=tuple(Criterion(name, margin) for name, margin in baseline.criteria.items()),
        settings=tuple((name, text) for name, text in baseline.settings),
        workload=baseline.workload,
        lab=tuple(baseline.lab),
        budget=baseline.budget,
        out=out,
        words=tuple(words),
        has_resume=False,
    )


def measured(baseline: Baseline, out: Path, words: Sequence[str], earlier: Path | None = None) -> SavedRun:
    """Measure a session of a baseline, for its whole budget; return the run.

    Without an `earlier` session, a pilot chooses the rate, the division of the CPUs and so on. A later
    session has the study of the earlier one: at another rate a slower server could look as fast.
    Raise `UserError` if nothing is measured.
    """
    studies = GateStudies(request_of(baseline, out, words), catalogue())
    if earlier is None:
        tables, stages, seed = _first(studies, baseline)
    else:
        tables = TomlFile(earlier / f"{SESSION}.toml").data
        stages, seed = Stages(studies.request, studies.catalogue, out, SESSION, studies.typed()), None
        stages.check_place()
    stages.run(SESSION, tables, seed)
    session = load(stages.directory / SESSION)
    if session.summary is None or not any(each.metrics for each in session.summary.contenders):
        raise UserError(
            "nothing was measured",
            code="baseline.nothing_measured",
            hint=f"`thunderherd table {stages.directory / SESSION}` shows the trials",
            where="baseline",
        )
    return session


def _first(studies: GateStudies, baseline: Baseline) -> tuple[Tables, Stages, int | None]:
    """Return the study of a first session, after its pilot."""
    ready = prepared(studies)
    budget = ready.tables["sizes"][SIZE]["budget"]
    # For the whole budget: a session is not judged by itself, so nothing may end it early.
    tables = {
        **ready.tables,
        "sizes": {SIZE: {"looks": [MOST_BLOCKS], "alpha_split": [1.0], "budget": budget}},
    }
    if baseline.reference is None:
        tables["contenders"] = [each for each in tables["contenders"] if each["name"] == HEAD]
        for sweep in tables.get("sweeps", ()):
            sweep["contenders"] = [HEAD]
    return tables, ready.stages, ready.seed


def save(baseline: Baseline, words: Sequence[str]) -> Path:
    """Measure a baseline and keep it, replacing one of the same name; return its folder."""
    folder = folder_of(baseline.name)
    unfinished = folder.with_name(f".{baseline.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    measured(baseline, unfinished / RUN, words)
    kept = baseline.model_copy(update={"saved": datetime.now().astimezone().isoformat(timespec="seconds")})
    (unfinished / ABOUT).write_text(kept.model_dump_json(indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.replace(folder)
    return folder


def compare_with(baseline: Baseline, then: SavedRun, now: SavedRun) -> list[Session]:
    """Return each metric of a baseline in two sessions."""
    return [_session(name, margin, baseline, then, now) for name, margin in baseline.criteria.items()]


def _session(metric: str, margin: float, baseline: Baseline, then: SavedRun, now: SavedRun) -> Session:
    sign = -1.0 if better_of(metric) == "more" else 1.0
    server = [_logarithms(run, HEAD, metric) for run in (then, now)]
    reference = [_logarithms(run, BASE, metric) for run in (then, now)] if baseline.reference else None
    if not all(map(len, server)) or (reference and not all(map(len, reference))):
        return Session(metric, margin, None, None, UNDECIDED, "a session lacks this metric")
    costs = [sign * np.array(_in_order(each)) for each in server]
    drift = None
    if reference:
        costs = [
            sign * np.array([own[block] - other[block] for block in own if block in other])
            for own, other in zip(server, reference, strict=True)
        ]
        drift = _percent(*(sign * np.array(_in_order(each)) for each in reference))
    if not all(each.size for each in costs):
        return Session(metric, margin, None, drift, UNDECIDED, "no block has both servers")
    allowed = math.log1p(margin / 100)
    count = len(baseline.criteria)
    below, above = p_not_less(costs[0] + allowed, costs[1]), p_not_less(costs[1], costs[0] + allowed)
    verdict: Outcome = UNDECIDED
    if min(below, above) <= ALPHA / 2 / count:
        verdict = NOT_SLOWER if below < above else SLOWER
    why = f"p {min(1.0, 2 * count * min(below, above)):.2g}, corrected for {count} metrics"
    return Session(metric, margin, _percent(*costs), drift, verdict, why)


def _logarithms(run: SavedRun, base: str, metric: str) -> dict[int, float]:
    """Return the logarithm of a metric in each block that counts.

    If there are both, a latency is taken at the common rate, and every other metric in the closed loop.
    """
    accepted = run.summary.trials.accepted_blocks if run.summary else []
    blocks = [each for each in blocks_of(run.trials) if each.number in accepted]
    names = {trial.contender for trial in run.trials if trial.contender.partition("@")[0] == base}
    for name in sorted(names, key=lambda each: ("@" in each) != is_latency(metric)):
        own = [each for each in blocks if each.succeeded(name)]
        column = columns_of([each.trials[name] for each in own]).get(metric, [])
        found = {
            block.number: math.log(value)
            for block, value in zip(own, column, strict=False)
            if value is not None and value > 0
        }
        if found:
            return found
    return {}


def _in_order(values: dict[int, float]) -> list[float]:
    return [values[block] for block in sorted(values)]


def _percent(then: Any, now: Any) -> Estimate:
    found = shift(then, now, 1 - ALPHA)

    def shown(end: float | None) -> float | None:
        return None if end is None else 100 * math.expm1(end)

    return Estimate(
        value=100 * math.expm1(found.value),
        low=shown(found.low),
        high=shown(found.high),
        confidence=1 - ALPHA,
        blocks=int(min(len(then), len(now))),
    )
