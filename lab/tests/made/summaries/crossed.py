"""Searches for a crossover that never happened: both stages' studies, with simulated trials put through the
real analysis."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from made.summaries.swept import CATALOGUE
from made.summaries.trials import made_trial
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.records.summary import Summary, SweepSummary, TrialRecord
from thunderherd.search.crossover_study import coarse_study, dense_study
from thunderherd.search.request import CrossoverRequest
from thunderherd.search.written_study import Tables
from thunderherd.study.loading import Study, load_study
from thunderherd.toml.write import toml_text

Truth = Callable[[float], float]
"""The log ratio of the cost of A to that of B at a size."""

A, B = "prefork", "thread_per_client"
MACHINE: dict[str, Any] = {"kernel": "Linux 6.1.0-synthetic"}


def asked(**changes: Any) -> CrossoverRequest:
    return CrossoverRequest(**{"a": A, "b": B, "over": "bytes=64..4MiB", "load": "timed", **changes})


def study_of(study: str | Tables, path: Path, *overrides: str, catalogue: Catalogue = CATALOGUE) -> Study:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(study if isinstance(study, str) else toml_text(study))
    return load_study(str(path), "quick", overrides, catalogue)


def trials(
    study: Study, truth: Truth, *, noise: float = 0.03, seed: int = 1, blocks: int | None = None
) -> list[TrialRecord]:
    """Every trial of every block: B makes 1,000 requests a second at any size, A as the truth has it."""
    generator = np.random.default_rng(seed)
    made = []
    for block in range(1, (blocks or study.looks[0].blocks) + 1):
        for contender in study.contenders:
            of_a = contender.base == study.sweeps[0].contenders[0]
            cost = (truth(float(contender.point or 0)) if of_a else 0.0) + generator.normal(0, noise / 2**0.5)
            trial = made_trial(study, contender.name, block)
            metrics = {"requests_per_second": 1000 * float(np.exp(-cost)), "latency_mean_seconds": 1e-3}
            made.append(trial.model_copy(update={"metrics": metrics}))
    return made


def summary_of(study: Study, made: list[TrialRecord]) -> Summary:
    return summarise(
        study,
        made,
        MACHINE,
        seed=1,
        command=["thunderherd", "crossover"],
        started="2025-01-02T03:04:05+00:00",
    )


def both_stages(
    directory: Path, truth: Truth, *, noise: float = 0.03, seed: int = 1, **changes: Any
) -> list[Summary]:
    """The summaries of a search: of the first stage, and of the second where there is one."""
    tables = coarse_study(asked(**changes), CATALOGUE)
    study = study_of(tables, directory / "coarse.toml")
    first = summary_of(study, trials(study, truth, noise=noise, seed=seed))
    found = found_of(first)
    if not found.next_sizes:
        return [first]
    second = study_of(dense_study(tables, found.next_sizes, found, (216, 216)), directory / "dense.toml")
    return [first, summary_of(second, trials(second, truth, noise=noise, seed=seed + 1))]


def sweep_of(summary: Summary) -> SweepSummary:
    (sweep,) = summary.sweeps
    return sweep


def found_of(summary: Summary) -> CrossoverSummary:
    found = sweep_of(summary).crossover
    assert found is not None
    return found
