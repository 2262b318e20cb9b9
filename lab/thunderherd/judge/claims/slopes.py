"""Slopes of a sweep: what each step on its axis adds to a metric, and what remains at zero.

A whole life of few requests is mostly the start of a program; the cost of a request is the slope of such
lives over their number. The line is that of least squares through a contender's points, in each block
separately, as for a claim with a slope. Judged blocks give the Hodges-Lehmann estimate and its interval.
Repeated runs, which are too few for one, give mean and standard deviation. R² says how straight the line is.
"""

from __future__ import annotations

from collections.abc import Mapping

from thunderherd.claims.contrast_tables import Contrast, at_point, straight_line
from thunderherd.judge.claims.contrasts import by_block, lacks, r_squared
from thunderherd.records.summary import Estimate, SlopeSummary, Spread
from thunderherd.statistics.columns import Values
from thunderherd.statistics.samples import hodges_lehmann
from thunderherd.study.loading import Study, Sweep

__all__ = ["NOT_EVERY_POINT", "slopes"]

NOT_EVERY_POINT = "not every point has a figure"


def slopes(study: Study, sweep: Sweep, values: Values, unavailable: Mapping[str, str]) -> list[SlopeSummary]:
    """Return the lines of a sweep that requests them, for each contender.

    They are of each of its metrics, or of those that it names.

    Parameters
    ----------
    study
        As resolved for the run.
    sweep
        One of its sweeps. There is no line if this run has only one of its points.
    values
        The blocks that count.
    unavailable
        Why this machine does not offer a metric, by metric.
    """
    numbers = {
        point.name: point.number if point.here is None else float(point.here) for point in sweep.points
    }
    if sweep.slope is None or None in numbers.values() or len(set(numbers.values())) < 2:
        return []
    return [
        _slope(study, sweep, base, metric, numbers, values, unavailable)
        for metric in sweep.slope_metrics or sweep.metrics
        for base in sweep.contenders
    ]


def _slope(
    study: Study,
    sweep: Sweep,
    base: str,
    metric: str,
    numbers: Mapping[str, float | None],
    values: Values,
    unavailable: Mapping[str, str],
) -> SlopeSummary:
    names = {point: at_point(base, sweep.name, point) for point in numbers}
    if lacking := [name for name in names.values() if name not in values.get(metric, {})]:
        reasons = [unavailable.get(metric), *(sweep.absent.get(name) for name in lacking)]
        why = next((each for each in reasons if each), NOT_EVERY_POINT)
        return SlopeSummary(base=base, metric=metric, each=None, start=None, why=why)
    line = straight_line(numbers)
    lines = [
        Contrast(label=base, metric=metric, weights={names[point]: weight for point, weight in part.items()})
        for part in (line.slope, line.start)
    ]
    if missing := lacks(lines[0], values, unavailable):
        return SlopeSummary(base=base, metric=metric, each=None, start=None, why="; ".join(missing))
    each, start = (by_block(part, values).tolist() for part in lines)
    known = {names[point]: number for point, number in numbers.items() if number is not None}
    straight = r_squared(known, metric, values).tolist()
    repeated = study.repetitions is not None
    return SlopeSummary(
        base=base,
        metric=metric,
        each=_interval(each, 1 - study.measure.alpha),
        start=_interval(start, 1 - study.measure.alpha),
        each_spread=Spread.of(each) if repeated else None,
        start_spread=Spread.of(start) if repeated else None,
        r_squared=_interval(straight, 1 - study.measure.alpha),
        r_squared_spread=Spread.of(straight) if repeated else None,
    )


def _interval(by_blocks: list[float], confidence: float) -> Estimate:
    found = hodges_lehmann(by_blocks, confidence)
    return Estimate(
        value=found.value, low=found.low, high=found.high, confidence=found.confidence, blocks=found.n
    )
