"""The pairs and ranks of a summary: the values of the blocks that count, compared at each look.

The methods are in `statistics.comparisons`; `block_rejection` says which blocks count.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import combinations
from typing import Any

from thunderherd.judge.summary.block_rejection import Block, Selection
from thunderherd.metrics.table import better_of, in_order, is_paced
from thunderherd.records.summary import PairSummary, TrialRecord
from thunderherd.statistics.columns import known
from thunderherd.statistics.comparisons import Look, PairResult, compare_at_looks, letters
from thunderherd.statistics.samples import hodges_lehmann
from thunderherd.statistics.verdicts import all_decided, separated_pairs
from thunderherd.study.loading import Comparison, Study
from thunderherd.trial.load_validity import are_client_limited
from thunderherd.trial.observation import left_out

MetricValues = dict[str, dict[str, list[float | None]]]
"""Columns by metric, then contender: one value per block, all aligned."""


def metric_values(
    study: Study, given_up: Container[str], blocks: Sequence[Block], settled: Container[str] = ()
) -> MetricValues:
    """Return the values that the contenders have in `blocks`; those given up are left out.

    A contender that was settled has None in the blocks without it. A metric that a contender lacks in one of
    its blocks is left out for that contender. It may have no pool, or too few requests for a percentile.
    Using only the blocks that have it would be a choice by the outcome. A figure that a trial leaves out
    because its server was read late is None in that block alone.
    """
    values: MetricValues = {}
    for contender in study.contenders:
        name = contender.name
        if name in given_up:
            continue
        took_part = [name not in settled or block.succeeded(name) for block in blocks]
        if not any(took_part):
            continue
        trials = [block.trials[name] for block, took in zip(blocks, took_part, strict=True) if took]
        for metric, column in columns_of(trials).items():
            known_values = iter(column)
            aligned = [next(known_values) if took else None for took in took_part]
            values.setdefault(metric, {})[name] = aligned
    return values


def columns_of(trials: Sequence[TrialRecord]) -> dict[str, list[float | None]]:
    """Return the values of each metric in a contender's trials, by the rule of `metric_values`.

    If the clients were the limit, metrics that depend on their pace have no values.
    """
    found: dict[str, list[float | None]] = {}
    for metric in in_order(name for trial in trials for name in trial.metrics or {}):
        column = [(trial.metrics or {}).get(metric) for trial in trials]
        missing = [trial for trial, value in zip(trials, column, strict=True) if value is None]
        if is_paced(metric) and are_client_limited(trials):
            continue
        if len(missing) < len(trials) and all(left_out(metric, trial) for trial in missing):
            found[metric] = [None if value is None else float(value) for value in column]
    return found


def paced_columns(trials: Sequence[TrialRecord]) -> dict[str, list[float | None]]:
    """Return the values of the metrics that depend on the pace of the clients, if these were the limit."""
    if not are_client_limited(trials):
        return {}
    names = in_order(name for trial in trials for name in trial.metrics or {})
    return {name: [(trial.metrics or {}).get(name) for trial in trials] for name in names if is_paced(name)}


def _costs(values: MetricValues, metric: str) -> dict[str, list[float]]:
    """Return each contender's cost in a metric: less is better, and all are above zero, as ratios need.

    A rate becomes the time of one. A contender with a value that is not above zero, or with a block without
    one, is left out.
    """
    costs: dict[str, list[float]] = {}
    for name, column in values.get(metric, {}).items():
        if column and all(value is not None and value > 0 for value in column):
            judged = known(column)
            costs[name] = [1 / value for value in judged] if better_of(metric) == "more" else judged
    return costs


def _cost_name(contender: str, metric: str) -> str:
    """Return the name by which a family of several metrics knows a contender's cost."""
    return f"{metric} of {contender}"


def verdicts(study: Study, selection: Selection, blocks: Mapping[int, Block]) -> list[PairSummary]:
    """Return the declared family, judged at the looks that were reached."""
    looks = [Look(look.blocks, look.alpha) for look in selection.looks]
    return family(study, selection, [blocks[number] for number in selection.accepted], looks)


def verdicts_of_all_blocks(
    study: Study, selection: Selection, blocks: Mapping[int, Block]
) -> list[PairSummary]:
    """Return the same with the rejected blocks kept: each look has all blocks that had run by then.

    A look that took noisy blocks may have no block more than the one before. It is left out, and its share of
    alpha is not spent.
    """
    every = [blocks[number] for number in selection.complete]
    looks: list[Look] = []
    for reached in selection.reached:
        if not looks or reached.run > looks[-1].blocks:
            looks.append(Look(reached.run, reached.look.alpha))
    if not looks:
        looks = [Look(len(every) + 1, selection.looks[0].alpha)]
    return family(study, selection, every, looks)


def family(
    study: Study, selection: Selection, blocks: Sequence[Block], looks: Sequence[Look]
) -> list[PairSummary]:
    """Return all comparisons of the study at these looks; one that cannot be made is undecided."""
    values = metric_values(study, selection.given_up, blocks, selection.settled)
    costs = {
        _cost_name(name, metric): column
        for metric in dict.fromkeys(pair.metric for pair in study.comparisons)
        for name, column in _costs(values, metric).items()
    }
    family = [
        (_cost_name(pair.a, pair.metric), _cost_name(pair.b, pair.metric)) for pair in study.comparisons
    ]
    measured = [pair for pair in family if pair[0] in costs and pair[1] in costs]
    # A comparison that cannot be made stays in the family: a failure must not shrink what was declared.
    results = compare_at_looks(
        costs,
        measured,
        looks,
        equivalence_ratio=1 + study.measure.equivalence_percent / 100,
        family=len(family),
    )
    found = {(result.a, result.b): result for result in results}
    return [
        _pair(each, found.get(names), looks[0].alpha)
        for each, names in zip(study.comparisons, family, strict=True)
    ]


def _pair(declared: Comparison, result: PairResult | None, alpha: float) -> PairSummary:
    what = declared.model_dump(exclude={"better"})
    if result is None:
        return PairSummary(
            **what, ratio=None, low=None, high=None, confidence=1 - alpha, simultaneous_low=None,
            simultaneous_high=None, p=None, p_adjusted=None, verdict="undecided", blocks=0,
            smallest_detectable_percent=None,
        )  # fmt: skip
    return pair_summary(result, **what)


def pair_summary(result: PairResult, **what: Any) -> PairSummary:
    """Return the record of a comparison; `what` has its contenders, sweep, point and metric."""
    return PairSummary(
        **what,
        ratio=result.ratio,
        low=result.low,
        high=result.high,
        confidence=result.confidence,
        simultaneous_low=result.simultaneous_low,
        simultaneous_high=result.simultaneous_high,
        p=result.p,
        p_adjusted=result.p_adjusted,
        p_equivalent_adjusted=result.p_equivalent_adjusted,
        verdict=result.verdict.value,
        blocks=result.blocks,
        smallest_detectable_percent=result.smallest_detectable_percent,
        decided_at=result.decided_at,
    )


def by_rank(study: Study, pairs: Sequence[PairSummary]) -> tuple[list[PairSummary], list[PairSummary]]:
    """Return the comparisons in the metric that ranks their contenders, and those in further metrics."""
    ranked_by: dict[str | None, str] = {sweep.name: sweep.metric for sweep in study.sweeps}
    ranked_by[None] = study.measure.metric
    is_first = [pair.metric == ranked_by.get(pair.sweep, pair.metric) for pair in pairs]
    first = [pair for pair, ranks in zip(pairs, is_first, strict=True) if ranks]
    return first, [pair for pair, ranks in zip(pairs, is_first, strict=True) if not ranks]


def is_decided(pairs: Sequence[PairSummary]) -> bool:
    """Return whether all comparisons that can be made have a verdict, so that the run may stop."""
    return all_decided(pair for pair in pairs if pair.ratio is not None)


def ranking(
    study: Study, pairs: Sequence[PairSummary], values: MetricValues
) -> tuple[dict[str, int], dict[str, str]]:
    """Return ranks by estimate, and the letters of those that do not differ significantly.

    Controls have neither, since they are compared with their contender only. Letters need a comparison of
    every pair.
    """
    if study.decides == "claims":
        # A contender that was settled has fewer blocks.
        values = {
            metric: {name: [*known(column)] for name, column in columns.items()}
            for metric, columns in values.items()
        }
    costs = _costs(values, study.measure.metric)
    names = [contender.name for contender in study.main if not contender.control_of]
    estimates = {name: hodges_lehmann(costs[name]).value for name in names if name in costs}
    order = sorted(estimates, key=lambda name: estimates[name])
    ranks = {name: place for place, name in enumerate(order, start=1)}
    compared = {frozenset((pair.a, pair.b)) for pair in pairs}
    if any(frozenset(pair) not in compared for pair in combinations(order, 2)):
        return ranks, {}
    shown = [pair for pair in pairs if pair.a in ranks and pair.b in ranks]
    return ranks, letters(order, separated_pairs(shown))
