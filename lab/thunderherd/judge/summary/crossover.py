"""Crossover of two contenders of a sweep, from the blocks of a run.

The contender that is ahead at a point is the one of the pair's verdict there. The answer therefore cannot
contradict the table of comparisons. A dense stage carries the coarse stage's results in its study. The
verdicts of both count, since each stage spends its own part of alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thunderherd.claims.contrast_tables import at_point
from thunderherd.judge.claims.claims import judged_after
from thunderherd.records.crossover import (
    CrossoverBracket,
    CrossoverEstimate,
    CrossoverPoint,
    CrossoverSummary,
    CrossoverTable,
)
from thunderherd.records.summary import PairSummary
from thunderherd.statistics import crossings as estimator
from thunderherd.statistics.columns import Values, known
from thunderherd.statistics.samples import Vector
from thunderherd.statistics.standing import Standing
from thunderherd.study.loading import Study, Sweep

__all__ = ["crossover", "measured_sizes"]

FEWEST = 2
"""The fewest sizes with a figure from which something follows."""


def crossover(
    study: Study,
    sweep: Sweep,
    values: Values,
    pairs: Sequence[PairSummary],
    unavailable: Mapping[str, str],
) -> CrossoverSummary | None:
    """Return what the run shows about the crossover that a sweep requests; None if it requests none.

    Parameters
    ----------
    study
        As resolved for the run.
    sweep
        One of its sweeps.
    values
        The blocks that count.
    pairs
        The verdicts of the run.
    unavailable
        Why this machine does not offer a metric, by metric.
    """
    table = sweep.crossover
    if table is None:
        return None
    found = measured_sizes(sweep, table, values, pairs)
    missing = _missing(study, sweep, table, found, unavailable)
    _, early = judged_after(study, values)
    why = early or _too_few(found, missing)
    points = [*_coarse_points(table), *_own_points(table, found, early=early is not None)]
    points.sort(key=lambda point: point.size)
    sizes, shown = [point.size for point in points], [point.standing for point in points]
    pattern = estimator.read(sizes, shown)
    names = {"a": table.a, "b": table.b}
    return CrossoverSummary(
        a=table.a,
        b=table.b,
        stage=table.stage,
        unit=table.unit,
        whole=found.whole,
        outcome=None if why else pattern.outcome,
        ahead=names[pattern.ahead] if pattern.ahead and not why else None,
        brackets=[]
        if why
        else [
            CrossoverBracket(low=each.low, high=each.high, before=names[each.before], after=names[each.after])
            for each in pattern.brackets
        ],
        estimate=None if why else _estimate(table, found, pattern),
        equivalent=None if why else _equivalent(sizes, shown, pattern),
        points=points,
        blocks=found.blocks,
        coarse_blocks=table.coarse_blocks,
        coarse_trials=(table.coarse_trials.valid, table.coarse_trials.all) if table.coarse_trials else None,
        next_sizes=[] if why else _next_sizes(table, found),
        missing=missing,
        why=why,
    )


@dataclass(frozen=True)
class MeasuredSizes:
    """The sizes at which both have a cost in every block: log ratios (blocks x sizes) and verdicts."""

    names: list[str]
    sizes: list[float]
    log_ratios: Vector
    standings: list[Standing]
    pairs: list[PairSummary]
    whole: bool

    @property
    def blocks(self) -> int:
        return int(self.log_ratios.shape[0]) if self.sizes else 0


def measured_sizes(
    sweep: Sweep, table: CrossoverTable, values: Values, pairs: Sequence[PairSummary]
) -> MeasuredSizes:
    """Return the measurements of a sweep's two contenders, in the order of the sizes."""
    own = {frozenset((pair.a, pair.b)): pair for pair in pairs if pair.sweep == sweep.name}
    columns = values.get(sweep.metric, {})
    found: list[tuple[float, str, Vector, Standing, PairSummary]] = []
    numbers = {
        point.name: point.number if point.here is None else float(point.here) for point in sweep.points
    }
    for name, number in numbers.items():
        a, b = (at_point(base, sweep.name, name) for base in (table.a, table.b))
        pair = own.get(frozenset((a, b)))
        if number is None or pair is None or pair.ratio is None or a not in columns or b not in columns:
            continue
        # A pair with a ratio has a figure in every block: a trial without one does not count.
        logarithms = np.log(known(columns[a])) - np.log(known(columns[b]))
        shown = estimator.standing(pair.verdict)
        if pair.a != a and shown in ("a", "b"):
            shown = "b" if shown == "a" else "a"
        log_ratios = -logarithms if sweep.better == "more" else logarithms
        found.append((number, name, log_ratios, shown, pair))
    found.sort(key=lambda each: each[0])
    return MeasuredSizes(
        names=[name for _, name, *_ in found],
        sizes=[number for number, *_ in found],
        log_ratios=np.column_stack([each[2] for each in found]) if found else np.empty((0, 0)),
        standings=[each[3] for each in found],
        pairs=[each[4] for each in found],
        whole=all(number is not None and number.is_integer() for number in numbers.values()),
    )


def _missing(
    study: Study, sweep: Sweep, table: CrossoverTable, found: MeasuredSizes, unavailable: Mapping[str, str]
) -> dict[str, str]:
    """Return the points without a figure, each with the reason."""
    missing: dict[str, str] = {}
    for point in sweep.points:
        if point.name in found.names:
            continue
        names = [at_point(base, sweep.name, point.name) for base in (table.a, table.b)]
        reasons = [unavailable.get(sweep.metric), *(sweep.absent.get(name) for name in names)]
        why = next((each for each in reasons if each), None)
        missing[point.name] = why or f"not every block that counts has {sweep.metric} above 0 of both"
    return missing


def _too_few(found: MeasuredSizes, missing: Mapping[str, str]) -> str | None:
    if len(found.sizes) >= FEWEST:
        return None
    at = ", ".join(found.names) or "none"
    return f"fewer than {FEWEST} sizes have figures ({at})" + "".join(
        f"; {name}: {why}" for name, why in missing.items()
    )


# Points -----------------------------------------------------------------------------------------------------


def _coarse_points(table: CrossoverTable) -> list[CrossoverPoint]:
    return [CrossoverPoint(stage="coarse", **each.model_dump()) for each in table.coarse]


def _own_points(table: CrossoverTable, found: MeasuredSizes, *, early: bool) -> list[CrossoverPoint]:
    """Return the points of this run; those of a coarse stage with the monotone estimate."""
    fitted: Sequence[float | None] = [None] * len(found.sizes)
    if table.stage == "coarse" and len(found.sizes) >= FEWEST:
        fitted = [math.exp(each) for each in estimator.monotone(found.sizes, found.log_ratios).fitted]
    return [
        CrossoverPoint(
            size=size,
            stage=table.stage,
            ratio=_of_a(pair, pair.ratio or 1.0, table),
            low=_of_a(pair, low, table) if (low := _end(pair, table, 0)) else None,
            high=_of_a(pair, high, table) if (high := _end(pair, table, 1)) else None,
            standing="undecided" if early else shown,
            fitted=fit,
        )
        for size, pair, shown, fit in zip(found.sizes, found.pairs, found.standings, fitted, strict=True)
    ]


def _end(pair: PairSummary, table: CrossoverTable, which: int) -> float | None:
    """Return the lower (0) or upper (1) end of the interval of A over B."""
    ends = (pair.low, pair.high)
    return ends[which] if _is_of_a(pair, table) else ends[1 - which]


def _of_a(pair: PairSummary, ratio: float, table: CrossoverTable) -> float:
    """Return a pair's ratio as A over B, whichever of them the family names first."""
    return ratio if _is_of_a(pair, table) else 1 / ratio


def _is_of_a(pair: PairSummary, table: CrossoverTable) -> bool:
    return pair.a == at_point(table.a, pair.sweep or "", pair.point or "")


# The estimate -----------------------------------------------------------------------------------------------


def _estimate(
    table: CrossoverTable, found: MeasuredSizes, pattern: estimator.Pattern
) -> CrossoverEstimate | None:
    """Return the zero of the line through a dense stage, if it lies in the bracket of the tests."""
    if table.stage != "dense" or pattern.outcome != "one":
        return None
    line = estimator.line_crossing(found.sizes, found.log_ratios)
    (bracket,) = pattern.brackets
    if line.value is None or not bracket.low <= line.value <= bracket.high:
        return None
    first, last = line.line
    return CrossoverEstimate(
        # The first whole size beyond the zero, but for rounding; the interval is rounded outward.
        value=float(math.ceil(line.value * (1 - 1e-9))) if found.whole else line.value,
        low=line.low if line.low is None or not found.whole else float(math.floor(line.low)),
        high=line.high if line.high is None or not found.whole else float(math.ceil(line.high)),
        confidence=line.confidence,
        blocks=line.blocks,
        percent_per_doubling=100 * math.expm1(line.slope),
        ends=(math.exp(first), math.exp(last)),
        curvature_p=line.curvature_p,
    )


def _next_sizes(table: CrossoverTable, found: MeasuredSizes) -> list[float]:
    """Return the sizes of a second stage with as many blocks; empty unless this is the first stage."""
    if table.stage != "coarse":
        return []
    return list(
        estimator.second_stage(
            found.sizes, found.log_ratios, found.standings, blocks=found.blocks, whole=found.whole
        )
        or ()
    )


def _equivalent(
    sizes: Sequence[float], shown: Sequence[Standing], pattern: estimator.Pattern
) -> tuple[float, float] | None:
    """Return the sizes at which both are equivalent: within the bracket of one crossing, else anywhere."""
    if not sizes:
        return None
    low, high = sizes[0], sizes[-1]
    if pattern.outcome == "one":
        low, high = pattern.brackets[0].low, pattern.brackets[0].high
    return estimator.equivalent_stretch(sizes, shown, low, high)
