"""From the trials of a search for knees to its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from thunderherd.judge.summary.block_rejection import Block, Selection, blocks_of, select
from thunderherd.records.knee import DesignKnee, KneePair, KneePoint
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.knees import (
    AtRate,
    RateRange,
    compare_knees,
    knee,
    knee_of_block,
    typical_latency,
)
from thunderherd.study.loading import Contender, Study, Sweep
from thunderherd.trial.load_validity import was_overloaded

RATE = "rate"
"""The load setting that is swept."""

BEYOND = 1.05
"""The factor by which a tried rate must be outside a knee's interval to count as beyond it."""

Known = tuple[list[KneePair], list[DesignKnee]]


def knees(study: Study, trials: Sequence[TrialRecord], goal: float, *, family: int | None = None) -> Known:
    """Return all pairs of designs, and each design, by the blocks that count.

    `goal` is in seconds. `family` is the number of declared pairs, if these are not all of them.
    """
    selection = select(study, trials)
    blocks = {block.number: block for block in blocks_of(trials)}
    counted = [blocks[number] for number in selection.counted()]
    ranges: dict[str, list[RateRange]] = {}
    designs = []
    for sweep in study.sweeps:
        found = _design(study, sweep, selection, counted, goal)
        designs.append(found[0])
        if found[1]:
            ranges[found[0].name] = found[1]
    alpha, band = study.measure.alpha, 1 + study.measure.equivalence_percent / 100
    declared = family or math.comb(len(study.sweeps), 2)
    pairs = compare_knees(ranges, alpha=alpha, equivalence_ratio=band, family=declared) if ranges else []
    return [
        KneePair(
            a=pair.a, b=pair.b, ratio=pair.ratio, low=pair.low, high=pair.high, confidence=pair.confidence,
            p_adjusted=pair.p_adjusted, p_equivalent_adjusted=pair.p_equivalent_adjusted,
            verdict=pair.verdict, blocks=pair.blocks,
        )
        for pair in pairs
    ], designs  # fmt: skip


def around(designs: Sequence[DesignKnee]) -> dict[str, tuple[int, int]]:
    """Return the range of rates in which each knee is looked for again.

    It ends at the tried rates next to the knee's interval. A chord between them may be far from the curve,
    but the curve stays within them.
    """
    found = {}
    for each in designs:
        if each.rate is None:
            continue
        tried = [point.rate for point in each.points]
        low, high = (each.low or 0.0) / BEYOND, (each.high or math.inf) * BEYOND
        ends = (
            max((rate for rate in tried if rate <= low), default=tried[0]),
            min((rate for rate in tried if rate >= high), default=tried[-1]),
        )
        if ends[1] - ends[0] > 1:
            found[each.name] = ends
    return found


def confirmed(search: Known, again: Known) -> Known:
    """Return the answer of both runs.

    A knee that the second run found again is that of the second run, whose rates other trials chose. A pair
    is that of the second run if both of its designs are.
    """
    later = {each.name: each for each in again[1]}
    designs = [_of_both(each, later.get(each.name)) for each in search[1]]
    by_name = {(pair.a, pair.b): pair for pair in again[0]}
    sure = {each.name for each in designs if each.stage == "confirmation"}
    pairs = [by_name.get((pair.a, pair.b), pair) if {pair.a, pair.b} <= sure else pair for pair in search[0]]
    return pairs, designs


def _of_both(first: DesignKnee, later: DesignKnee | None) -> DesignKnee:
    if later is None:
        return first
    nearer = [point.model_copy(update={"stage": "confirmation"}) for point in later.points]
    update: dict[str, Any] = {
        "points": sorted([*first.points, *nearer], key=lambda point: point.rate),
        "left_out": first.left_out | later.left_out,
    }
    if later.outcome == "one":
        return later.model_copy(
            update=update | {"stage": "confirmation", "searched_rate": first.rate, "why": None}
        )
    why = {
        "none": "repeated at rates around it, even the lowest rate missed the goal",
        "all": "repeated at rates around it, every rate met the goal",
        "unclear": "repeated at rates around it, the blocks disagreed",
        None: f"repeated at rates around it, nothing follows: {later.why}",
    }[later.outcome]
    return first.model_copy(update=update | {"unconfirmed": why})


def _design(
    study: Study, sweep: Sweep, selection: Selection, counted: Sequence[Block], goal: float
) -> tuple[DesignKnee, list[RateRange]]:
    """Return the knee of a sweep's design, and that of each block."""
    own = sorted((each for each in study.contenders if each.sweep == sweep.name), key=_rate)
    lost = {_rate(each): selection.given_up[each.name] for each in own if each.name in selection.given_up}
    # Rates above one at which the load itself failed are unknown, too.
    usable = [each for each in own if not lost or _rate(each) < min(lost)]
    above = [_rate(each) for each in own if each not in usable and _rate(each) not in lost]
    left_out = lost | {rate: f"the load already failed at {min(lost):,}" for rate in above}
    points = [_point(each, counted) for each in usable]
    why = _why_not(usable, counted, lost)
    ranges = [] if why else [knee_of_block(_trials(usable, block), goal) for block in counted]
    base = own[0].base
    if why:
        return DesignKnee(
            name=base, outcome=None, rate=None, low=None, high=None, confidence=None, blocks=len(counted),
            between_rates=0, points=points, left_out=left_out, why=why,
        ), []  # fmt: skip
    found = knee(ranges, study.measure.alpha)
    return DesignKnee(
        name=base,
        outcome=found.outcome,
        rate=found.value,
        low=found.low or None,
        high=None if math.isinf(found.high) else found.high,
        confidence=found.confidence,
        blocks=found.blocks,
        between_rates=found.between,
        points=points,
        left_out=left_out,
        why=None,
    ), ranges


def _why_not(
    usable: Sequence[Contender],
    counted: Sequence[Block],
    lost: Mapping[int, str],
) -> str | None:
    if len(usable) < 2:
        rate, reason = min(lost.items())
        return f"even at {rate:,} requests a second the load did not measure its server: {reason}"
    if not counted:
        return "no block counts: each has an invalid trial"
    for each in usable:
        for block in counted:
            trial = block.trials[each.name]
            if _latency(each, trial) is None and not was_overloaded(trial.loads):
                return (
                    f"too few requests for a percentile at {_rate(each):,} a second; use longer windows "
                    "(--duration) or higher rates (--rates)"
                )
    return None


def _trials(contenders: Sequence[Contender], block: Block) -> list[AtRate]:
    return [_at_rate(each, block.trials[each.name]) for each in contenders]


def _at_rate(contender: Contender, trial: TrialRecord) -> AtRate:
    return AtRate(_rate(contender), _latency(contender, trial), was_overloaded(trial.loads))


def _rate(contender: Contender) -> int:
    return int(contender.load.settings[RATE])


def _latency(contender: Contender, trial: TrialRecord) -> float | None:
    found = (trial.metrics or {}).get(contender.metric)
    return None if found is None else float(found)


def _point(contender: Contender, counted: Sequence[Block]) -> KneePoint:
    """Return the percentile over blocks, on logarithms."""
    trials = [_at_rate(contender, block.trials[contender.name]) for block in counted]
    found = typical_latency([each for each in trials if each.latency or each.overloaded])
    return KneePoint(
        rate=_rate(contender),
        latency_seconds=found.value,
        low=found.low,
        high=found.high,
        trials=len(trials),
        overloaded=sum(each.overloaded for each in trials),
    )
