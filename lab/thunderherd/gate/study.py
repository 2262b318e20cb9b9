"""The study of a gate: base and head in the same blocks, and a claim for each metric that head is not slower.

The claim of a metric is a ratio: (1 + margin) x cost of base / cost of head is above 1. Supported means not
slower, refuted means slower. So a gate has the planned looks, the time budget and the error control of a run
that decides claims (`judge.claims`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, TextSetting
from thunderherd.errors import UserError
from thunderherd.gate.request import BASE, HEAD, Criterion, GateRequest
from thunderherd.metrics.table import METRICS
from thunderherd.search.compare_study import ALPHA, CompareStudies, Piloted, Schedule
from thunderherd.search.written_study import SIZE, Tables
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.study.resolved import Comparison
from thunderherd.text.figures import words_of

__all__ = [
    "CLAIMS_FILE",
    "METRICS_OF_GATES",
    "GateStudies",
    "Question",
    "absolute",
    "gated",
    "is_latency",
    "margins_of",
    "questions_of",
]

CLAIMS_FILE = "claims.toml"

USUAL_WINDOW = 400
"""The milliseconds of a window. Many short trials find more than a few long ones."""
LOOKS = (1.0, 1.5, 2.2, 3.3, 5.0, 7.5, 11.0)
"""The looks, as multiples of the first. The budget may end a run before the last."""
USUAL_SECONDS, GROWTH, MOST_LOOKS = 180.0, 1.5, 22
"""The budget for which these looks suffice; for longer ones, the factor between looks, and the most looks."""

METRICS_OF_GATES = (
    "server_cpu_per_request", "requests_per_second", "machine_cpu_per_request",
    "latency_mean_seconds", "latency_p50_seconds", "latency_p90_seconds", "latency_p99_seconds",
    "server.memory", "server_cpu_per_byte", "machine_cpu_per_byte", "gigabits_per_second",
)  # fmt: skip
"""The metrics that a gate of two servers may have."""


@dataclass(frozen=True)
class GateStudies(CompareStudies):
    """The studies of a gate of two servers."""

    request: GateRequest

    def comparison(self, piloted: Piloted | None, budget_seconds: float) -> Tables:
        """Return the study that compares base and head, before it has claims (`gated`)."""
        study = super().comparison(piloted, budget_seconds)
        if not self._in_closed_loop:
            # Base and head run at the common rate alone.
            for name in ("metric", "further_metrics"):
                study["measure"].pop(name, None)
        return study

    def schedule(self, piloted: Piloted | None, budget_seconds: float) -> Schedule:
        """Return short windows, so that the budget has room for several looks if possible."""
        found = super().schedule(piloted, budget_seconds)
        looks, split = looks_of(len(self.request.criteria), self.budget_seconds)
        return Schedule(min(found.milliseconds, USUAL_WINDOW), looks, split)

    @property
    def _has_rate(self) -> bool:
        return bool(self._at_rate) and super()._has_rate

    @cached_property
    def _first_look(self) -> int:
        (first, *_), _ = looks_of(len(self.request.criteria), self.budget_seconds)
        return first

    @cached_property
    def _named(self) -> list[dict[str, Any]]:
        """The contenders as typed: they may be the same server twice."""
        tables = [self._labelled(typed) for typed in self.request.contenders]
        labels = self.request.labels or self.request.contenders
        for place, (table, name) in enumerate(zip(tables, (BASE, HEAD), strict=True)):
            table |= {"name": name, "label": labels[place]}
            if self.request.directories and "command" in table:
                table["directory"] = str(self.request.directories[place])
        return tables

    @property
    def _in_closed_loop(self) -> list[str]:
        return [each.metric for each in self.request.criteria if not is_latency(each.metric)]

    @property
    def _at_rate(self) -> list[str]:
        return [each.metric for each in self.request.criteria if is_latency(each.metric)]

    def _metrics(self) -> list[str]:
        return self._in_closed_loop or super()._metrics()[:1]

    def _at_common_rate(self, piloted: Piloted, names: Sequence[str], milliseconds: int) -> dict[str, Any]:
        sweep = super()._at_common_rate(piloted, names, milliseconds)
        metrics = self._at_rate
        requests = int(sweep["values"][0]["name"]) * milliseconds / 1000
        for each in metrics:
            if requests < METRICS[each].fewest_requests:
                raise self.request.refusal(
                    f"--metric {each}",
                    f"a window of {milliseconds} ms has some {requests:.0f} requests; "
                    f"{METRICS[each].fewest_requests} are needed",
                    "gate.too_few_requests",
                    "give --metric latency_p50_seconds, or a longer -d",
                )
        return {**sweep, "metric": metrics[0], "further_metrics": metrics[1:]}


def is_latency(metric: str) -> bool:
    """True if a metric is compared at the common rate."""
    return metric.startswith("latency_")


def looks_of(criteria: int, budget_seconds: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the looks of a gate with this number of criteria, and the share of alpha of each look."""
    longer = math.ceil(math.log(max(1.0, budget_seconds / USUAL_SECONDS), GROWTH))
    number = min(len(LOOKS) + longer, MOST_LOOKS)
    multiples = [*LOOKS, *(LOOKS[-1] * GROWTH**more for more in range(1, number - len(LOOKS) + 1))]
    share = round(1 / number, 3)
    split = (*[share] * (number - 1), round(1 - share * (number - 1), 12))
    first = first_look_blocks(criteria, ALPHA, share)
    return tuple(math.ceil(first * each) for each in multiples), split


@dataclass(frozen=True)
class Question:
    """Whether head is slower than base by more than the margin, in one metric and place of the study."""

    id: str
    """The id of its claim."""
    metric: str
    better: str
    """"less" or "more"."""
    sweep: str | None
    point: str | None
    """The place: a point of a sweep; None: the main table."""
    base: str
    head: str
    """The names of the contenders there."""
    margin_percent: float

    @property
    def factor(self) -> float:
        """The largest ratio of costs that is allowed."""
        return 1 + self.margin_percent / 100

    def claim(self) -> dict[str, Any]:
        """Return the claim that head is not slower."""
        sign = -1.0 if self.better == "more" else 1.0
        where = f" at {self.sweep} = {self.point}" if self.sweep else ""
        return {
            "id": self.id,
            "statement": f"{words_of(self.metric)}{where}: not slower by more than {self.margin_percent:g} %",
            "metric": self.metric,
            "refuted_ends": True,
            "tests": [
                {
                    "label": f"{self.factor:g} x cost of base / cost of head",
                    "of": "logarithm",
                    "weights": {self.base: sign, self.head: -sign},
                    "constant": math.log(self.factor),
                }
            ],
        }


def questions_of(
    compared: Sequence[Comparison], base: str, margins: Mapping[str, float]
) -> tuple[Question, ...]:
    """Return a question for each comparison.

    Parameters
    ----------
    compared
        The comparisons of a study with two contenders.
    base
        The name of the base.
    margins
        Metric → percent by which head may be slower.
    """
    found = []
    for number, pair in enumerate(compared, start=1):
        names = (pair.a, pair.b) if pair.a.partition("@")[0] == base else (pair.b, pair.a)
        margin = margins[pair.metric]
        found.append(Question(f"G{number}", pair.metric, pair.better, pair.sweep, pair.point, *names, margin))
    return tuple(found)


def gated(tables: Tables, questions: Sequence[Question], budget_seconds: float) -> tuple[Tables, Tables]:
    """Return a study that decides whether head is slower than base, and its claims.

    `tables` are a study whose size has a budget: the gate's, or what the pilot has left of it.
    """
    study = deepcopy(tables)
    study["claims"] = CLAIMS_FILE
    looks, split = looks_of(len(questions), budget_seconds)
    size = {key: value for key, value in study["sizes"][SIZE].items() if key != "repetitions"}
    study["sizes"] = {SIZE: {**size, "decides": "claims", "looks": list(looks), "alpha_split": list(split)}}
    return study, {"study": study["name"], "source": "gate", "claims": [each.claim() for each in questions]}


def absolute(tables: Tables, folder: Path, catalogue: Catalogue) -> Tables:
    """Return the tables of a study in `folder` so that another folder may hold them.

    Folders of commands and files with requests become absolute; files of a source are left out.
    """
    study: Tables = _with_files_in(folder, tables, catalogue)
    for key in ("claims", "inconsistencies", "paper", "paper_counters", "source_csv"):
        study.pop(key, None)
    contenders = [*study.get("contenders", ())]
    for sweep in study.get("sweeps", ()):
        sweep.pop("paper", None)
        contenders += sweep.get("contenders", ()) if isinstance(sweep.get("contenders"), list) else ()
    for table in (*contenders, study.get("load", {})):
        for each in (table, table.get("load", {})) if isinstance(table, dict) else ():
            if isinstance(each, dict) and "command" in each:
                each["directory"] = str((folder / each.get("directory", ".")).absolute())
    return study


def _with_files_in(folder: Path, value: Any, catalogue: Catalogue, key: str = "") -> Any:
    """Return a part of a study in which each file that a setting names has an absolute path."""
    if isinstance(value, list):
        return [_with_files_in(folder, each, catalogue, key) for each in value]
    if isinstance(value, dict):
        # The values of a sweep are those of its key.
        swept = str(value.get("key", "")).rpartition(".")[2]
        return {
            name: _with_files_in(
                folder, each, catalogue, swept if name == "values" else key if name == "value" else name
            )
            for name, each in value.items()
        }
    setting = catalogue.of_ends.get(key)
    if not isinstance(setting, TextSetting) or not isinstance(value, str):
        return value
    path = setting.path_in(value, catalogue.file_prefix)
    return value if path is None else value.removesuffix(path) + str((folder / path).absolute())


def margins_of(
    typed: Sequence[Criterion], metrics: Sequence[str], usual: float, command: str
) -> dict[str, float]:
    """Return the margin of each metric; raise `UserError` for a margin of a metric that is not compared."""
    known = dict.fromkeys(metrics, usual)
    for each in typed:
        if each.metric not in known:
            raise UserError(
                f"the study does not compare by {each.metric}",
                code="gate.metric_not_compared",
                hint=f"its metrics: {', '.join(known)}",
                where=f"{command}: --metric {each.metric}",
            )
        known[each.metric] = each.margin_percent
    return known
