"""The verdicts on a family of comparisons, from one-sided p-values of each.

Sources: Holm (1979) for a family of tests; Schuirmann (1987) for equivalence by two one-sided tests.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

__all__ = [
    "EQUIVALENCE_RATIO",
    "OF_COSTS",
    "Finding",
    "Judged",
    "OneSided",
    "RatioResult",
    "Verdict",
    "all_decided",
    "holm",
    "judge_family",
    "separated_pairs",
]

EQUIVALENCE_RATIO = 1.03

Finding = Literal["less", "more", "equivalent", "undecided"]
"""The finding on a ratio: below 1, above 1, within the equivalence band, or nothing."""


class OneSided(NamedTuple):
    """One-sided p-values of a ratio. A small one shows what its name says."""

    below_one: float
    above_one: float
    below_band_end: float
    """The ratio is below the upper end of the equivalence band."""
    above_band_end: float
    """The ratio is above the lower end of the equivalence band."""


class RatioResult(NamedTuple):
    """The finding on one ratio.

    `p` tests "the ratio is 1", two-sided; `p_adjusted` is Holm's. `p_equivalent_adjusted` tests "the ratio is
    outside the equivalence band", adjusted likewise.
    """

    finding: Finding
    p: float
    p_adjusted: float
    p_equivalent_adjusted: float


def judge_family(tests: Sequence[OneSided], alpha: float, family: int | None = None) -> list[RatioResult]:
    """Return the findings on a family of ratios, in the order given.

    Holm's method runs over all differences, and separately over all equivalences. An equivalence takes
    precedence over a significant difference that is that small. P-values are doubled to match two-sided
    intervals. `family` is the number of declared comparisons, if some of them cannot be made.
    """
    different = [min(1.0, 2 * min(each.below_one, each.above_one)) for each in tests]
    equivalent = [min(1.0, 2 * max(each.below_band_end, each.above_band_end)) for each in tests]
    adjusted = zip(holm(different, family), holm(equivalent, family), strict=True)
    results = []
    for each, p, (p_different, p_equivalent) in zip(tests, different, adjusted, strict=True):
        finding: Finding = "undecided"
        if p_equivalent <= alpha:
            finding = "equivalent"
        elif p_different <= alpha:
            finding = "less" if each.below_one < each.above_one else "more"
        results.append(RatioResult(finding, p, p_different, p_equivalent))
    return results


def holm(p_values: Sequence[float], family: int | None = None) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    Rejecting those at or below alpha makes a false rejection with probability at most alpha. `family` is the
    number of declared hypotheses, if not all of them could be tested.
    """
    declared = len(p_values) if family is None else family
    if declared < len(p_values):
        raise ValueError(f"a family of {declared} cannot hold {len(p_values)} p-values")
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value lies between 0 and 1, got {p}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (declared - position) * p_values[index]))
        adjusted[index] = largest
    return adjusted


class Verdict(StrEnum):
    """The verdict on contender `a` against contender `b`."""

    FASTER = "faster"  # a costs less
    SLOWER = "slower"  # a costs more
    EQUIVALENT = "equivalent"  # the ratio lies within the equivalence band, whether it differs from 1 or not
    UNDECIDED = "undecided"  # not separated; never to be read as equal


OF_COSTS: dict[Finding, Verdict] = {
    "less": Verdict.FASTER,
    "more": Verdict.SLOWER,
    "equivalent": Verdict.EQUIVALENT,
    "undecided": Verdict.UNDECIDED,
}
"""The verdict on `a` by the finding on its costs over those of `b`."""


class Judged(Protocol):
    """A pair with its verdict: a `PairResult`, or the record of one."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def verdict(self) -> str: ...


def all_decided(results: Iterable[Judged]) -> bool:
    """True if every pair has a verdict, so that the run may stop at this look; False without pairs."""
    verdicts = [result.verdict for result in results]
    return bool(verdicts) and Verdict.UNDECIDED not in verdicts


def separated_pairs(results: Iterable[Judged]) -> list[tuple[str, str]]:
    """Return the pairs with a verdict of FASTER or SLOWER, as `letters` takes them."""
    return [(result.a, result.b) for result in results if result.verdict in (Verdict.FASTER, Verdict.SLOWER)]
