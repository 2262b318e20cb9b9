"""From the trials of a search for knees to its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from thunderherd.knee import AtRate, RateRange, compare_knees, knee, knee_of_block
from thunderherd.knee_form import DesignKnee, KneePair, KneePoint
from thunderherd.load_validity import was_overloaded
from thunderherd.records import TrialRecord
from thunderherd.samples import hodges_lehmann
from thunderherd.selection import Block, Selection, blocks_of, select
from thunderherd.study import Contender, Study, Sweep

RATE = "rate"
"""The setting of the load that is swept."""

Known = tuple[list[KneePair], list[DesignKnee]]


def knees(study: Study, trials: Sequence[TrialRecord], goal: float) -> Known:
    """All pairs of designs, and each design, by the blocks that count. `goal` in seconds."""
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
    family = math.comb(len(study.sweeps), 2)
    pairs = compare_knees(ranges, alpha=alpha, equivalence_ratio=band, family=family) if ranges else []
    return [
        KneePair(
            a=pair.a, b=pair.b, ratio=pair.ratio, low=pair.low, high=pair.high, confidence=pair.confidence,
            p_adjusted=pair.p_adjusted, verdict=pair.verdict, blocks=pair.blocks,
        )
        for pair in pairs
    ], designs  # fmt: skip


def _design(
    study: Study, sweep: Sweep, selection: Selection, counted: Sequence[Block], goal: float
) -> tuple[DesignKnee, list[RateRange]]:
    """The knee of the design of a sweep, and that of each block."""
    own = sorted((each for each in study.contenders if each.sweep == sweep.name), key=_rate)
    lost = {_rate(each): selection.given_up[each.name] for each in own if each.name in selection.given_up}
    # What lies above a rate at which the load itself failed is not known either.
    usable = [each for each in own if not lost or _rate(each) < min(lost)]
    above = [_rate(each) for each in own if each not in usable and _rate(each) not in lost]
    left_out = lost | {rate: f"the load failed at {min(lost):,} already" for rate in above}
    points = [_point(each, counted) for each in usable]
    why = _why_not(study, sweep, usable, counted, lost)
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
    study: Study,
    sweep: Sweep,
    usable: Sequence[Contender],
    counted: Sequence[Block],
    lost: Mapping[int, str],
) -> str | None:
    if len(usable) < 2:
        rate, reason = min(lost.items())
        return f"at {rate:,} requests a second already the load did not measure its server: {reason}"
    if not counted:
        return "no block counts: in each of them a trial was invalid"
    for each in usable:
        for block in counted:
            trial = block.trials[each.name]
            if _latency(each, trial) is None and not was_overloaded(trial.loads):
                return (
                    f"too few requests for a percentile at {_rate(each):,} a second; ask for longer windows "
                    "(--milliseconds), or for higher rates (--rates)"
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
    """The percentile over blocks, on logarithms."""
    trials = [_at_rate(contender, block.trials[contender.name]) for block in counted]
    kept_up = [math.log(each.latency) for each in trials if each.latency and not each.overloaded]
    found = hodges_lehmann(kept_up) if kept_up else None
    return KneePoint(
        rate=_rate(contender),
        latency_seconds=math.exp(found.value) if found else None,
        low=math.exp(found.low) if found and found.low is not None else None,
        high=math.exp(found.high) if found and found.high is not None else None,
        trials=len(trials),
        overloaded=sum(each.overloaded for each in trials),
    )
