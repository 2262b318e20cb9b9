"""How many blocks a claim is expected to need for a verdict, from the variance of the blocks so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from thunderherd.judge.claims.contrasts import ContrastResult
from thunderherd.statistics.samples import standard_shift

POWER = 0.8
"""The chance that a verdict comes after the expected blocks, if the effect is the one that was seen."""
OF_BOTH = 0.9
"""That of each of the two tests of a difference inside a margin, of which both must succeed."""
EFFICIENCY = 3 / math.pi
"""Blocks of a t test over those of a signed-rank test, for normal differences (Hodges and Lehmann 1956)."""
MOST = 10_000
"""More blocks than this are no plan."""


def blocks_needed(effect: float | None, alpha: float, power: float = POWER) -> float:
    """Return the blocks after which a two-sided signed-rank test at `alpha` shows an effect above zero.

    `effect` is mean over standard deviation; None: the blocks do not vary. Infinite if it is not above zero.
    The exact test has no smaller p than 2^(1 - blocks).
    """
    least = 1 + math.log2(1 / alpha)
    if effect is None:
        return least
    if effect <= 0:
        return math.inf
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return max(least, (z / effect) ** 2 / EFFICIENCY)


def smallest_found(spread: float | None, blocks: int, alpha: float, power: float) -> float | None:
    """Return the smallest sum above zero that so many blocks show with the chance `power`; None if none.

    Parameters
    ----------
    spread
        The standard deviation of the blocks; None: unknown.
    blocks
        The number of blocks.
    alpha
        That of one claim: the look's, over the number of claims.
    power
        The chance of a verdict.
    """
    if spread is None:
        return None
    shift = standard_shift(blocks, alpha, power)
    return None if shift is None else shift * spread


def expected_blocks(groups: Sequence[Sequence[ContrastResult]], enough: int, alpha: float) -> int | None:
    """Return after how many blocks in all a claim is expected to have any verdict; None: more than `MOST`.

    Parameters
    ----------
    groups
        The claim's tests by group, measured so far.
    enough
        The number of groups that must hold.
    alpha
        That of one claim: the look's, over the number of claims.
    """

    def above(each: ContrastResult) -> float:
        return blocks_needed(each.effect, alpha) if _moves(each) else math.inf

    def below(each: ContrastResult, share: int) -> float:
        effect = None if each.effect is None else -each.effect
        return blocks_needed(effect, alpha / share) if _moves(each) else math.inf

    def inside(each: ContrastResult, share: int) -> float:
        return math.inf if each.margin is None else blocks_needed(each.room, alpha / share, OF_BOTH)

    against = len(groups) - enough + 1
    holds = sorted(max(map(above, group)) for group in groups)[enough - 1]
    fails = sorted(min(below(each, len(group)) for each in group) for group in groups)[against - 1]
    alike = sorted(min(inside(each, len(group)) for each in group) for group in groups)[against - 1]
    found = min(holds, fails, alike)
    return None if found > MOST else math.ceil(found)


def _moves(each: ContrastResult) -> bool:
    """Return whether it differs from zero at all: blocks that are all zero never show a difference."""
    return each.effect is not None or bool(each.value)
