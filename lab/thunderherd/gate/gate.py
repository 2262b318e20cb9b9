"""Runs a gate: the pilot, then base and head in blocks until each metric has its verdict or the time is up.

```
DIR/pilot.toml, DIR/pilot/     each server in short closed loops, with each back end of the clients
DIR/gate.toml, DIR/gate/       the gate; DIR/claims.toml has its claims
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.gate.page import gate_so_far
from thunderherd.gate.request import BASE, HEAD, GateRequest, StudyGateRequest
from thunderherd.gate.study import (
    CLAIMS_FILE,
    GateStudies,
    Question,
    absolute,
    gated,
    margins_of,
    questions_of,
)
from thunderherd.search.compare import prepared
from thunderherd.search.stages import Stages
from thunderherd.search.written_study import SIZE, Tables, Typed
from thunderherd.study.file.names import find_study
from thunderherd.study.loading import load_study
from thunderherd.study.own_programs import check_owner
from thunderherd.toml.file import TomlFile
from thunderherd.toml.quantities import TIME, parse_quantity

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary
    from thunderherd.show.sentences.claims_so_far import SoFar
    from thunderherd.study.resolved import Comparison

__all__ = ["GATE", "Gated", "gate", "gate_study"]

GATE = "gate"
"""The stage with the verdicts."""
USUAL_BUDGET = "3min"
Before = Callable[[Sequence[str]], None]
"""A function that is called with the metrics of a gate, before its first block."""
MOST_BLOCKS = 1000
"""The only look of a study that had no looks, until `gated` replaces it."""


@dataclass(frozen=True)
class Gated:
    """A gate that has ended."""

    questions: tuple[Question, ...]
    summary: Summary
    directory: Path
    labels: tuple[str, str]
    """The names of base and head in the output."""
    pilot_seconds: float
    """The part of the budget that the pilot took."""


def gate(request: GateRequest, before: Before | None = None) -> Gated:
    """Run the gate of two servers. Raise `UserError` for every mistake before anything runs.

    `before` is called after the pilot, before the first block.
    """
    studies = GateStudies(request, catalogue())
    ready = prepared(studies)
    if before is not None:
        before([each.metric for each in request.criteria])
    margins = {each.metric: each.margin_percent for each in request.criteria}
    compared = [pair for pair in ready.stages.study(GATE, ready.tables).comparisons if pair.metric in margins]
    questions = questions_of(compared, BASE, margins)
    labels = request.labels or (request.contenders[0], request.contenders[1])
    return _ended(ready.stages, ready.tables, questions, labels, studies.budget_seconds, ready.seed)


def gate_study(request: StudyGateRequest, before: Before | None = None) -> Gated:
    """Run the gate of a study with two contenders. Raise `UserError` for every mistake before it runs."""
    from thunderherd.records.directory import default_directory

    file, offered = TomlFile(find_study(request.study)), catalogue()
    study = load_study(file, request.size, request.fixed, offered)
    if not request.allow_commands:
        check_owner(study)
    tables = _one_size(absolute(file.data, file.path.parent, offered), request)
    directory = request.out
    typed = Typed(request.command, {("sizes", SIZE, "budget"): f"--budget {request.budget or USUAL_BUDGET}"})
    stages = Stages(request, offered, directory or Path(), GATE, typed)
    if directory is not None:
        stages.check_place()
    stages = Stages(request, offered, directory or default_directory(request.command), GATE, typed)
    compared = stages.study(GATE, tables).comparisons
    base = _base(request, study.name, compared)
    margins = margins_of(
        request.margins,
        list(dict.fromkeys(pair.metric for pair in compared)),
        request.margin_percent,
        request.command,
    )
    questions = questions_of(compared, base, margins)
    if before is not None:
        before(list(margins))
    (head,) = {name.partition("@")[0] for each in questions for name in (each.base, each.head)} - {base}
    seconds = parse_quantity(tables["sizes"][SIZE]["budget"], f"{request.command}: --budget", TIME) / 1e9
    return _ended(stages, tables, questions, (base, head), seconds)


def _ended(
    stages: Stages,
    tables: Tables,
    questions: tuple[Question, ...],
    labels: tuple[str, str],
    budget_seconds: float,
    seed: int | None = None,
) -> Gated:
    """Run the stage with the verdicts. Raise `UserError` if base or head fails on the way."""
    study, claims = gated(tables, questions, budget_seconds)
    request = stages.request
    assert isinstance(request, GateRequest | StudyGateRequest)

    def telling(found: SoFar) -> list[str]:
        return gate_so_far(found, questions, request.power)

    summary = stages.run(GATE, study, seed, {CLAIMS_FILE: claims}, telling)
    names = {BASE: labels[0], HEAD: labels[1]}
    for name, why in _failed(summary, stages.directory / GATE).items():
        label = names.get(name.partition("@")[0], name)
        raise UserError(
            f"{label} failed: {why}",
            code="gate.server_failed",
            hint=f"`thunderherd table {stages.directory / GATE}` shows its trials",
            where="gate",
        )
    left = parse_quantity(study["sizes"][SIZE]["budget"], "budget", TIME) / 1e9
    return Gated(questions, summary, stages.directory / GATE, labels, max(0.0, budget_seconds - left))


def _failed(summary: Summary, run: Path) -> dict[str, str]:
    """Return why servers failed, by the last trials of those that were given up or that have no valid trial.

    The failure of a load, such as late requests, is not one of the server: the gate is then undecided.
    """
    from thunderherd.records.directory import load
    from thunderherd.trial.faults import server_failed

    trials = load(run).trials
    usable = {each.contender for each in trials if each.valid} - summary.trials.given_up.keys()
    last = {each.contender: each.invalid_reasons for each in trials if each.contender not in usable}
    return {name: "; ".join(reasons) for name, reasons in last.items() if server_failed(reasons)}


def _base(request: StudyGateRequest, study: str, compared: Sequence[Comparison]) -> str:
    """Return the name of the base; raise `UserError` unless each comparison is of the same two contenders."""
    names = [name for pair in compared for name in (pair.a, pair.b)]
    bases = list(dict.fromkeys(name.partition("@")[0] for name in names))
    if len(bases) != 2:
        raise UserError(
            f"study {study} compares {len(bases)} contenders; a gate needs base and head",
            code="gate.not_two_contenders",
            hint="give a study that compares two, or --base and --head",
            where=f"{request.command}: {request.study}",
        )
    base = request.base or bases[0]
    if base not in bases:
        raise UserError(
            f"no such contender '{base}'",
            code="gate.unknown_base",
            hint=f"one of {' and '.join(bases)}",
            where=f"{request.command}: --base {base}",
        )
    return base


def _one_size(tables: Tables, request: StudyGateRequest) -> Tables:
    """Return the tables of a study with its chosen size alone, which gets a time budget and looks."""
    study: dict[str, Any] = deepcopy(tables)
    size = dict(study.get("sizes", {}).get(request.size, {}))
    size["budget"] = request.budget or size.get("budget", USUAL_BUDGET)
    if size.pop("repetitions", None) is not None or "looks" not in size:
        # Without looks a study compares nothing. The gate's looks follow from its number of comparisons.
        size |= {"looks": [MOST_BLOCKS], "alpha_split": [1.0]}
    study["sizes"] = {SIZE: size}
    return study
