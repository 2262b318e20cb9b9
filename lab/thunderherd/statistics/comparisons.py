"""Comparisons from one number per block and contender. Pure functions: they read and write nothing.

A *block* holds every contender once, in a shuffled order. `values[name][i]` is the cost of contender `name`
in block `i`, such as CPU seconds per connection. Smaller is better throughout: a caller that compares rates
passes their reciprocals. METHODOLOGY.md gives the reasons. samples.py treats a single sample of differences,
and verdicts.py the p-values of a family. An impossible argument raises ValueError, which names the contender
or the value.

Source of the letters: Piepho (2004).
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from thunderherd.statistics.samples import (
    Vector,
    hodges_lehmann,
    signed_rank,
    smallest_detectable_effect,
    walsh_averages,
    walsh_estimate,
)
from thunderherd.statistics.verdicts import EQUIVALENCE_RATIO, OF_COSTS, OneSided, Verdict, judge_family

__all__ = [
    "ContrastEstimate",
    "Look",
    "PairResult",
    "block_order",
    "compare_at_looks",
    "compare_family",
    "contrast",
    "first_look_blocks",
    "letters",
    "planned_looks",
]

FEWEST_BLOCKS = 10  # no look sooner: with fewer blocks an interval rests on one or two of them


# The order of a block


def block_order(contenders: Sequence[str], seed: int, block: int) -> list[str]:
    """Return the order in which `contenders` run in block number `block`: a random permutation.

    The order depends on the names, `seed` and `block` alone. A resumed run therefore continues in the order
    that it would have had. Sorting by a hash keeps the order the same in every version of Python and numpy.
    It also does not depend on the order in which the study lists its contenders.
    """
    if len(set(contenders)) != len(contenders):
        raise ValueError(f"contenders must have different names, got {list(contenders)}")
    return sorted(contenders, key=lambda name: hashlib.sha256(f"{seed}/{block}/{name}".encode()).digest())


# A family of comparisons, at one look or several


@dataclass(frozen=True, slots=True)
class PairResult:
    """The result of comparing the cost of `a` with the cost of `b` in `blocks` blocks.

    - `ratio` is a over b: the Hodges-Lehmann estimate from the log ratios within blocks.
    - `low` to `high` contains it with `confidence`, which is at least 1 - alpha of the look.
    - `simultaneous_low` to `simultaneous_high` does so for all pairs of the family at once.
    - A bound is None if there are too few blocks for it; `confidence` is then 1, since nothing is ruled out.
    - `p` tests "the ratio is 1", two-sided; `p_adjusted` is Holm's.
    - `p_equivalent_adjusted` tests "the ratio is outside the equivalence band", adjusted likewise.
    - `smallest_detectable_percent` uses the alpha of the look divided by the number of comparisons; None if
      no effect could be found.
    - `decided_at` is the number of blocks at the look that gave the verdict; None while undecided.
    """

    a: str
    b: str
    ratio: float
    low: float | None
    high: float | None
    confidence: float
    simultaneous_low: float | None
    simultaneous_high: float | None
    p: float
    p_adjusted: float
    p_equivalent_adjusted: float
    verdict: Verdict
    decided_at: int | None
    blocks: int
    smallest_detectable_percent: float | None


class Look(NamedTuple):
    """One planned analysis: the number of blocks before it, and the share of alpha that it may spend."""

    blocks: int
    alpha: float


def planned_looks(blocks: Sequence[int], alpha: float, split: Sequence[float]) -> tuple[Look, ...]:
    """Return the looks of a run: `alpha` times `split[k]` is spent after `blocks[k]` blocks."""
    if len(blocks) != len(split) or not blocks:
        raise ValueError(f"each look needs blocks and a share of alpha, got {list(blocks)} and {list(split)}")
    if min(split) <= 0 or sum(split) > 1 + 1e-9:
        raise ValueError(f"the shares of alpha must be above 0 and add up to at most 1, got {list(split)}")
    looks = tuple(Look(count, _allowed(alpha) * share) for count, share in zip(blocks, split, strict=True))
    _check_looks(looks)
    return looks


def first_look_blocks(comparisons: int, alpha: float, first_split: float = 1.0) -> int:
    """Return the fewest blocks for a first look that spends `alpha * first_split` on `comparisons`.

    The smallest two-sided p of n blocks is 2^(1-n). With fewer blocks Holm's method could reject nothing.
    """
    if comparisons < 1:
        raise ValueError(f"a family needs at least 1 comparison, got {comparisons}")
    spent = _allowed(alpha) * _allowed(first_split)
    return max(FEWEST_BLOCKS, math.ceil(1 + math.log2(comparisons / spent)))


def compare_family(
    values: Mapping[str, Sequence[float]],
    comparisons: Sequence[tuple[str, str]],
    *,
    alpha: float = 0.05,
    equivalence_ratio: float = EQUIVALENCE_RATIO,
    family: int | None = None,
) -> list[PairResult]:
    """Return the verdicts on a declared family of `comparisons` (a, b) from one look that spends `alpha`.

    A pair is EQUIVALENT if its ratio is shown to lie between 1 / `equivalence_ratio` and `equivalence_ratio`.
    Two one-sided tests show that, each at half of alpha, so the interval printed with the verdict also lies
    inside the band. Values must be above zero, one per block and contender. `family` is the number of
    declared comparisons, if some of them cannot be made.
    """
    if equivalence_ratio <= 1:
        raise ValueError(f"the equivalence ratio must be above 1, got {equivalence_ratio}")
    share = _allowed(alpha) / max(1, family or len(comparisons))
    aligned = _compared(values, comparisons)
    logs = {name: _logarithms(name, observed) for name, observed in aligned.items()}
    log_ratios = [logs[a] - logs[b] for a, b in comparisons]
    margin = math.log(equivalence_ratio)
    judged = judge_family([_one_sided(sample, margin) for sample in log_ratios], alpha, family)

    results = []
    for (a, b), sample, found in zip(comparisons, log_ratios, judged, strict=True):
        walsh = walsh_averages(sample)
        estimate, simultaneous = walsh_estimate(walsh, alpha), walsh_estimate(walsh, share)
        verdict = OF_COSTS[found.finding]
        results.append(
            PairResult(
                a=a,
                b=b,
                ratio=math.exp(estimate.value),
                low=_exponential(estimate.low),
                high=_exponential(estimate.high),
                confidence=estimate.confidence,
                simultaneous_low=_exponential(simultaneous.low),
                simultaneous_high=_exponential(simultaneous.high),
                p=found.p,
                p_adjusted=found.p_adjusted,
                p_equivalent_adjusted=found.p_equivalent_adjusted,
                verdict=verdict,
                decided_at=None if verdict is Verdict.UNDECIDED else sample.size,
                blocks=sample.size,
                smallest_detectable_percent=smallest_detectable_effect(sample, share),
            )
        )
    return results


def _one_sided(log_ratios: Vector, margin: float) -> OneSided:
    test = signed_rank(log_ratios)
    return OneSided(
        below_one=test.p_less,
        above_one=test.p_greater,
        below_band_end=signed_rank(log_ratios - margin).p_less,
        above_band_end=signed_rank(log_ratios + margin).p_greater,
    )


def compare_at_looks(
    values: Mapping[str, Sequence[float]],
    comparisons: Sequence[tuple[str, str]],
    looks: Sequence[Look],
    *,
    equivalence_ratio: float = EQUIVALENCE_RATIO,
    family: int | None = None,
) -> list[PairResult]:
    """Return the verdicts at the `looks` that there are enough blocks for, with the last look's figures.

    Each look is computed again from its first `look.blocks` blocks, so nothing has to be remembered between
    looks. Blocks after the last look reached wait for the next one. A verdict stands at later looks, with two
    exceptions, neither of which can add a false verdict. FASTER or SLOWER becomes EQUIVALENT once that is
    shown. A verdict that contradicts the interval of a later look is withdrawn. Before the first look every
    verdict is UNDECIDED; the figures then use all blocks and the first look's alpha.
    """
    _check_looks(looks)
    if not comparisons:
        return []
    aligned = _compared(values, comparisons)
    blocks = min(observed.size for observed in aligned.values())
    reached = [look for look in looks if look.blocks <= blocks]
    if not reached:
        early = compare_family(
            values, comparisons, alpha=looks[0].alpha, equivalence_ratio=equivalence_ratio, family=family
        )
        return [replace(result, verdict=Verdict.UNDECIDED, decided_at=None) for result in early]
    standing: list[PairResult] = []
    for look in reached:
        seen = {name: observed[: look.blocks].tolist() for name, observed in aligned.items()}
        now = compare_family(
            seen, comparisons, alpha=look.alpha, equivalence_ratio=equivalence_ratio, family=family
        )
        standing = [_stands(*both, equivalence_ratio) for both in zip(standing or now, now, strict=True)]
    return standing


def _stands(earlier: PairResult, now: PairResult, equivalence_ratio: float) -> PairResult:
    """Return the figures of `now` with the verdict that both looks together give."""
    superseded = now.verdict is Verdict.EQUIVALENT and earlier.verdict is not Verdict.EQUIVALENT
    if earlier.verdict is Verdict.UNDECIDED or superseded:
        return now
    low, high = {
        Verdict.FASTER: (0.0, 1.0),
        Verdict.SLOWER: (1.0, math.inf),
        Verdict.EQUIVALENT: (1 / equivalence_ratio, equivalence_ratio),
    }[earlier.verdict]
    if now.low is not None and now.high is not None and (now.low > high or now.high < low):
        return replace(now, verdict=Verdict.UNDECIDED, decided_at=None)
    return replace(now, verdict=earlier.verdict, decided_at=earlier.decided_at)


# Claims


@dataclass(frozen=True, slots=True)
class ContrastEstimate:
    """A linear contrast of the contenders' costs, in their unit: Hodges-Lehmann estimate and tests.

    `low`, `high` and `confidence` are as in LocationEstimate. A small `p_greater` means: above zero.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    p_greater: float
    p_less: float
    p_two_sided: float
    blocks: int


def contrast(
    values: Mapping[str, Sequence[float]], weights: Mapping[str, float], confidence: float = 0.95
) -> ContrastEstimate:
    """Estimate and test the sum of `weights[name] * values[name]`, taken within each block.

    {"fork": 1, "iterative": -1} is the extra cost of fork. {"fork": 1, "pool": -8, "iterative": 7} is above
    zero if the extra cost of fork is more than 8 times that of the pool. Values may be zero or negative.
    """
    if not weights:
        raise ValueError("a contrast needs at least one contender with its weight, got none")
    aligned = _aligned(values, weights)
    sums = np.sum([weight * aligned[name] for name, weight in weights.items()], axis=0)
    estimate, test = hodges_lehmann(sums, confidence), signed_rank(sums)
    return ContrastEstimate(
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        confidence=estimate.confidence,
        p_greater=test.p_greater,
        p_less=test.p_less,
        p_two_sided=test.p_two_sided,
        blocks=estimate.n,
    )


# The ranking


def letters(order: Sequence[str], separated: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a compact letter display: two contenders share a letter unless they are in `separated`.

    "a" goes to the first in `order`. Insert-and-absorb (Piepho 2004) starts with one group of all. Every
    separated pair splits each group that holds both. A group inside another is absorbed. A group whose pairs
    are all in other groups is removed. The twenty-seventh group is called "a'".
    """
    place = {name: position for position, name in enumerate(order)}
    if len(place) != len(order):
        raise ValueError(f"contenders must have different names, got {list(order)}")
    groups = [frozenset(order)]
    for a, b in separated:
        if a == b or a not in place or b not in place:
            raise ValueError(f"a separated pair is two of {list(order)}, got {a} and {b}")
        parts: set[frozenset[str]] = set()
        for group in groups:
            parts |= {group - {a}, group - {b}} if {a, b} <= group else {group}
        groups = [part for part in parts if not any(part < other for other in parts)]
    groups.sort(key=lambda group: sorted(place[name] for name in group))
    for group in groups[::-1]:
        others = [other for other in groups if other is not group]
        pairs = [*combinations(group, 2), *((name, name) for name in group)]
        if all(any({a, b} <= other for other in others) for a, b in pairs):
            groups = others
    shared = dict.fromkeys(order, "")
    for index, group in enumerate(groups):
        for name in group:
            shared[name] += chr(ord("a") + index % 26) + "'" * (index // 26)
    return shared


# Arguments


def _compared(
    values: Mapping[str, Sequence[float]], comparisons: Sequence[tuple[str, str]]
) -> dict[str, Vector]:
    """Return the values of every contender in `comparisons`; each pair must be declared once."""
    seen: set[frozenset[str]] = set()
    for a, b in comparisons:
        if a == b:
            raise ValueError(f"a comparison needs two contenders, got {a} against itself")
        if frozenset((a, b)) in seen:
            raise ValueError(f"a comparison is declared once, got {a} against {b} twice")
        seen.add(frozenset((a, b)))
    return _aligned(values, {name for pair in comparisons for name in pair})


def _aligned(values: Mapping[str, Sequence[float]], names: Iterable[str]) -> dict[str, Vector]:
    """Return the values of each contender as an array: all finite, and equally many for each."""
    aligned: dict[str, Vector] = {}
    for name in sorted(names):
        if name not in values:
            raise ValueError(f"{name}: no values for this contender; there are values for {sorted(values)}")
        observed = np.asarray(values[name], dtype=np.float64)
        if observed.size == 0:
            raise ValueError(f"{name}: need one value for each block, got none")
        if not np.isfinite(observed).all():
            block = int(np.argmin(np.isfinite(observed)))
            raise ValueError(f"{name}: need finite values, got {observed[block]} in block {block}")
        aligned[name] = observed
    if len({observed.size for observed in aligned.values()}) > 1:
        counts = ", ".join(f"{name} {observed.size}" for name, observed in aligned.items())
        raise ValueError(f"every contender needs one value for each block, got this many: {counts}")
    return aligned


def _logarithms(name: str, observed: Vector) -> Vector:
    if not (observed > 0).all():
        block = int(np.argmin(observed > 0))
        raise ValueError(f"{name}: a ratio needs values above 0, got {observed[block]} in block {block}")
    return np.log(observed)


def _allowed(alpha: float) -> float:
    if not 0 < alpha <= 1:
        raise ValueError(f"a probability of error must be above 0 and at most 1, got {alpha}")
    return alpha


def _check_looks(looks: Sequence[Look]) -> None:
    blocks = [look.blocks for look in looks]
    if not blocks or blocks[0] < 1 or any(later <= sooner for sooner, later in pairwise(blocks)):
        raise ValueError(f"the looks must come after ever more blocks, got {blocks}")


def _exponential(logarithm: float | None) -> float | None:
    return None if logarithm is None else math.exp(logarithm)
