"""Crossover of two contenders, in sentences. Every figure is in `summary.json`.

The first sentence is the answer. Its caveats follow, then the data behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.records.crossover import (
    CrossoverBracket,
    CrossoverEstimate,
    CrossoverPoint,
    CrossoverSummary,
)
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.text.figures import count, extrapolated, number, percent, words_of
from thunderherd.toml.quantities import amount, amounts, plain

__all__ = ["sentences"]

LONG = 2.0
"""A range of equivalence is reported if its last size is so many times its first.

A short one exists around every crossing.
"""

BENDS = 0.05
"""The largest p of a straight line at which the line is reported to bend."""


def sentences(summary: Summary, sweep: SweepSummary) -> list[str]:
    """Reports the crossover that a sweep requests; empty if it requests none."""
    found = sweep.crossover
    if found is None:
        return []
    if found.why is not None:
        return [f"No answer about the crossover of {found.a} and {found.b}: {found.why}."]
    names = {each.name: each for each in summary.contenders if each.sweep == sweep.name}
    scaled = extrapolated(each.scaled.get(sweep.metric) for each in names.values())
    texts = [*sweep.remarks, *([scaled] if scaled else [])]
    caveats = [f"Applies to every figure: {'; '.join(texts)}."] if texts else []
    return [_answer(found, summary, sweep), *caveats, *_remarks(found, summary), _based_on(found, summary)]


# The answer -------------------------------------------------------------------------------------------------


def _answer(found: CrossoverSummary, summary: Summary, sweep: SweepSummary) -> str:
    by = f"{words_of(sweep.metric)}, {sweep.better} is better"
    if found.outcome == "one":
        return _one(found, by)
    if found.outcome == "several":
        changes = "; ".join(_between(each, found.unit) for each in found.brackets)
        return f"{len(found.brackets)} crossovers ({by}): {changes}."
    return f"No crossover in this range ({by}): {_none(found, summary, sweep)}."


def _one(found: CrossoverSummary, by: str) -> str:
    (bracket,), at = found.brackets, found.estimate
    before, after = bracket.before, bracket.after
    if at is None or at.low is None or at.high is None:
        where = _between(bracket, found.unit, named=False)
        return f"From some size {where} on, {after} beats {before}; below it, {before} beats {after} ({by})."
    size = amount(at.value, found.unit)
    interval = f"{percent(at.confidence)} interval {_interval(at, found)}"
    if after == found.a:
        return f"From {size} on, {after} beats {before} ({interval}; {by}); below it, {before} beats {after}."
    return f"Below {size}, {before} beats {after} ({interval}; {by}); from there on, {after} beats {before}."


def _between(bracket: CrossoverBracket, unit: str, *, named: bool = True) -> str:
    where = f"between {amounts(bracket.low, bracket.high, unit).replace(' to ', ' and ')}"
    return f"{where} from {bracket.before} to {bracket.after}" if named else where


def _interval(at: CrossoverEstimate, found: CrossoverSummary) -> str:
    """Writes the interval; an end beyond the range is not given, since nothing was measured there."""
    sizes = [point.size for point in found.points]
    assert at.low is not None and at.high is not None
    if at.low < sizes[0] and at.high > sizes[-1]:
        return "beyond both ends of the range"
    if at.low < sizes[0]:
        return f"from below {plain(sizes[0], found.unit)} to {plain(at.high, found.unit)}"
    if at.high > sizes[-1]:
        return f"{plain(at.low, found.unit)} to beyond {plain(sizes[-1], found.unit)}"
    return amounts(at.low, at.high, found.unit)


def _none(found: CrossoverSummary, summary: Summary, sweep: SweepSummary) -> str:
    sizes, points = count(len(found.points), "size"), found.points
    other = found.b if found.ahead == found.a else found.a
    lead = [point for point in points if point.standing in ("a", "b")]
    if found.outcome == "everywhere":
        return f"{found.ahead} beats {other} at each of {sizes}, by {_leads(lead)}"
    if found.outcome == "where_separated":
        beaten = _listed([point.size for point in lead], found)
        return (
            f"{found.ahead} beats {other} at {len(lead)} of {sizes} ({beaten}), by {_leads(lead)}; "
            f"{other} beats {found.ahead} at none; {_rest(found, summary, sweep)}"
        )
    return f"neither is significantly better at any of {sizes}: {_rest(found, summary, sweep)}"


def _leads(points: Sequence[CrossoverPoint]) -> str:
    """Writes the smallest and the largest lead of the winner."""
    leads = sorted(max(point.ratio, 1 / point.ratio) for point in points)
    least, most = (number(each, 3) for each in (leads[0], leads[-1]))
    return f"a factor of {least}" if least == most else f"a factor of {least} to {most}"


def _rest(found: CrossoverSummary, summary: Summary, sweep: SweepSummary) -> str:
    """Describes the sizes at which neither is ahead."""
    band = f"within {summary.study.equivalence_percent:g} %"
    equal = [point for point in found.points if point.standing == "equivalent"]
    undecided = [point for point in found.points if point.standing == "undecided"]
    parts = []
    if equal:
        parts.append(f"equivalent {band} at {len(equal)} ({_listed([each.size for each in equal], found)})")
    if undecided:
        ratios = sorted(each.ratio for each in undecided)
        ends = dict.fromkeys(number(each, 3) for each in (ratios[0], ratios[-1]))
        detail = f"{'ratios' if len(ends) > 1 else 'ratio'} {' to '.join(ends)}"
        if smallest := _smallest_detectable(summary, sweep, undecided):
            detail += f"; a run like this detects {number(smallest, 1)} % in four of five runs"
        sizes = _listed([each.size for each in undecided], found)
        parts.append(f"undecided at {len(undecided)} ({sizes}; {detail})")
    return "; ".join(parts)


def _smallest_detectable(
    summary: Summary, sweep: SweepSummary, points: Sequence[CrossoverPoint]
) -> float | None:
    """Gives the difference that is detectable at each of these points; None if they are of another run."""
    sizes = {point.size for point in points}
    names = {point.name for point in sweep.points if point.number in sizes}
    found = [
        pair.smallest_detectable_percent
        for pair in summary.pairs
        if pair.sweep == sweep.name and pair.point in names
    ]
    known = [each for each in found if each is not None]
    return max(known) if known and len(known) == len(found) == len(points) else None


def _listed(sizes: Sequence[float], found: CrossoverSummary) -> str:
    """Lists sizes: neighbouring ones as a range, others one by one."""
    every = [point.size for point in found.points]
    runs: list[list[float]] = []
    for size in sizes:
        if runs and every.index(size) == every.index(runs[-1][-1]) + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(
        plain(run[0], found.unit) if len(run) == 1 else amounts(run[0], run[-1], found.unit) for run in runs
    )


# Caveats ----------------------------------------------------------------------------------------------------


def _remarks(found: CrossoverSummary, summary: Summary) -> Iterator[str]:
    if found.outcome == "one":
        yield from _remarks_on_one(found)
    if found.outcome == "one" and found.equivalent and found.equivalent[1] >= LONG * found.equivalent[0]:
        yield (
            f"From {amounts(*found.equivalent, found.unit)} they are equivalent within "
            f"{summary.study.equivalence_percent:g} %, so the choice hardly matters."
        )
    for name, why in found.missing.items():
        yield f"No figure at {name}: {why}."


def _remarks_on_one(found: CrossoverSummary) -> Iterator[str]:
    (bracket,), at = found.brackets, found.estimate
    if found.stage == "coarse":
        if found.next_sizes:
            yield (
                "No second stage was run, so only the neighbouring sizes at which each is ahead are known."
            )
        return
    if at is None:
        yield (
            "The line through the second stage crosses zero outside these two sizes, although each has a "
            "significant winner. Line and tests contradict each other, so there is no interval."
        )
        return
    if at.low is None or at.high is None:
        yield (
            "The interval is unbounded: the slope of the line does not differ significantly from zero "
            f"({percent(at.confidence)}; the line crosses at {amount(at.value, found.unit)}). The answer "
            "rests on the tests at these two sizes alone. More blocks help."
        )
        return
    yield f"The tests alone, without the line, put the change {_between(bracket, found.unit, named=False)}."
    if at.curvature_p is not None and at.curvature_p <= BENDS:
        yield (
            f"The line bends (p = {at.curvature_p:.2g}), but the interval assumes a straight line: trust the "
            "sizes that the tests give."
        )


# Data -------------------------------------------------------------------------------------------------------


def _based_on(found: CrossoverSummary, summary: Summary) -> str:
    trials = summary.trials
    valid = trials.valid + trials.rejected
    own = f"{count(found.blocks, 'block')}, {valid} of {valid + trials.invalid} trials valid"
    stages = {
        stage: [each.size for each in found.points if each.stage == stage] for stage in ("coarse", "dense")
    }
    if found.stage == "coarse":
        return f"Based on {_sizes(stages['coarse'], found)} ({own})."
    first = ""
    if stages["coarse"]:
        counts = found.coarse_trials
        trials_of_it = f", {counts[0]} of {counts[1]} trials valid" if counts else ""
        blocks = f" ({count(found.coarse_blocks, 'block')}{trials_of_it})" if found.coarse_blocks else ""
        first = f"{_sizes(stages['coarse'], found)} in a coarse stage{blocks} and "
    return f"Based on {first}{_sizes(stages['dense'], found)} in a dense stage ({own})."


def _sizes(sizes: Sequence[float], found: CrossoverSummary) -> str:
    return f"{count(len(sizes), 'size')} from {amounts(sizes[0], sizes[-1], found.unit)}"
