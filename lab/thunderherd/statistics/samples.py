"""One sample of paired differences: signed-rank test, Hodges-Lehmann interval, spread.

Pure functions. An impossible argument raises ValueError with the value seen. The sources are

- Wilcoxon (1945) and Pratt (1959): the signed-rank test, and the treatment of differences of zero;
- Hodges and Lehmann (1963) and Tukey's interval from Walsh averages, as in Hollander, Wolfe and Chicken,
  *Nonparametric Statistical Methods*, chapter 3;
- Rousseeuw and Croux (1993): the robust spread Qn.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

POWER = 0.8  # of the smallest detectable effect, as is customary

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SignedRank:
    """An exact Wilcoxon signed-rank test of "the differences are symmetric about zero".

    `p_greater` is small if the differences tend to be above zero, `p_less` if below. `statistic` is the sum
    of the ranks of the positive differences, `n` the number of differences, `zeros` the number of zeros.
    """

    p_two_sided: float
    p_greater: float
    p_less: float
    statistic: float
    n: int
    zeros: int


def signed_rank(differences: ArrayLike) -> SignedRank:
    """Return the signed-rank test of `differences`, exact for every n, with ties and with zeros.

    Equal magnitudes share their mean rank. Zeros are ranked with the others and then left out (Pratt 1959).
    Wilcoxon dropped them first, which can make a sample significant by shrinking a difference. The null
    distribution keeps the ranks as observed and gives every sign pattern of the non-zero ones the same
    probability. It is summed over ranks, not over patterns, so n = 60 takes about a millisecond.
    """
    sample = finite(differences)
    _, group, counts = np.unique(np.abs(sample), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[group]  # twice the mid-rank, hence a whole number
    ranked = doubled[sample != 0]
    zeros = sample.size - ranked.size
    if ranked.size == 0:
        return SignedRank(1.0, 1.0, 1.0, statistic=0.0, n=sample.size, zeros=zeros)
    unit = int(np.gcd.reduce(ranked))
    tail = _upper_tail(tuple(sorted((ranked // unit).tolist())))
    positive = int(doubled[sample > 0].sum())
    p_greater = float(tail[positive // unit])
    p_less = float(tail[len(tail) - 1 - positive // unit])  # the null distribution is symmetric
    p_two_sided = min(1.0, 2 * min(p_greater, p_less))
    return SignedRank(p_two_sided, p_greater, p_less, statistic=positive / 2, n=sample.size, zeros=zeros)


@lru_cache(maxsize=512)
def _upper_tail(ranks: tuple[int, ...]) -> Vector:
    """Return P(sum of the ranks with a plus sign >= s) for s = 0 .. sum(ranks), every sign a fair coin."""
    chance = np.zeros(sum(ranks) + 1)
    chance[0] = 1.0
    reached = 0
    for rank in ranks:
        chance[: reached + 1] *= 0.5
        chance[rank : reached + rank + 1] += chance[: reached + 1].copy()
        reached += rank
    # Summed from the far end, and of positive terms only: the small probabilities keep all their digits.
    tail = np.minimum(np.cumsum(chance[::-1])[::-1], 1.0)
    tail.flags.writeable = False
    return tail


def _untied_upper_tail(n: int) -> Vector:
    return _upper_tail(tuple(range(1, n + 1)))


@dataclass(frozen=True, slots=True)
class LocationEstimate:
    """A location in the unit of its sample, with an interval.

    `confidence` is what the interval achieves, which is at least what was requested. `low` and `high` are
    None if `n` observations are too few for a finite interval. The interval is then the whole line, and
    `confidence` is 1.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float
    n: int


def hodges_lehmann(differences: ArrayLike, confidence: float = 0.95) -> LocationEstimate:
    """Return the Hodges-Lehmann estimate and its interval.

    The estimate is the median of the Walsh averages (x_i + x_j) / 2, i <= j. The bounds are the k-th smallest
    and the k-th largest Walsh average, with k from the exact signed-rank distribution without ties. With ties
    the interval is a little too wide, never too narrow.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return walsh_estimate(walsh_averages(differences), 1 - confidence)


def walsh_averages(differences: ArrayLike) -> Vector:
    """Return all n (n + 1) / 2 Walsh averages in ascending order."""
    sample = finite(differences)
    first, second = _pairs_with_self(sample.size)
    return np.sort((sample[first] + sample[second]) / 2)


@lru_cache(maxsize=64)
def _pairs_with_self(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(n)


def walsh_estimate(walsh: Vector, alpha: float) -> LocationEstimate:
    """Return the `hodges_lehmann` estimate from Walsh averages; its interval misses with at most `alpha`."""
    n = math.isqrt(2 * walsh.size)
    value = float((walsh[(walsh.size - 1) // 2] + walsh[walsh.size // 2]) / 2)
    k = _walsh_rank(n, alpha)
    if k == 0:
        return LocationEstimate(value, None, None, 1.0, n)
    missed = 2 * float(_untied_upper_tail(n)[walsh.size - (k - 1)])
    return LocationEstimate(value, float(walsh[k - 1]), float(walsh[walsh.size - k]), 1 - missed, n)


@lru_cache(maxsize=4096)
def _walsh_rank(n: int, alpha: float) -> int:
    """Return the largest k whose interval from the k-th Walsh average misses with at most `alpha`, or 0."""
    at_most = _untied_upper_tail(n)[::-1]  # P(statistic <= j) for j = 0, 1, ...
    return int(np.searchsorted(2 * at_most, alpha, side="right"))


def median_estimate(sample: ArrayLike, confidence: float = 0.95) -> LocationEstimate:
    """Return the median of a sample, with an interval between two of its order statistics.

    These are the k-th smallest and the k-th largest, with k from the binomial distribution (David and
    Nagaraja, *Order Statistics*, section 7.1). The interval assumes independent observations and nothing of
    their distribution, not even symmetry: times on a machine have a long tail on one side.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    ordered = np.sort(finite(sample))
    n = ordered.size
    missed, k, term = 0.0, 0, 0.5**n  # by an interval from the k-th: 2 P(Binomial(n, 1/2) < k)
    while missed + 2 * term <= 1 - confidence:
        missed, k, term = missed + 2 * term, k + 1, term * (n - k) / (k + 1)
    value = float(np.median(ordered))
    if k == 0:
        return LocationEstimate(value, None, None, 1.0, n)
    return LocationEstimate(value, float(ordered[k - 1]), float(ordered[n - k]), 1 - missed, n)


def robust_spread(sample: ArrayLike) -> float:
    """Return the standard deviation by Qn (Rousseeuw and Croux 1993).

    Half of the sample may be wild; the efficiency is 82 %. Qn is 2.2219 times the k-th smallest distance
    between two observations, with k = h (h - 1) / 2 and h = n // 2 + 1, and their correction for small
    samples. It takes at least two observations.
    """
    observed = finite(sample)
    n = observed.size
    if n < 2:
        raise ValueError(f"a spread needs at least 2 observations, got {n}")
    first, second = np.triu_indices(n, k=1)
    half = n // 2 + 1
    k = half * (half - 1) // 2
    distance = float(np.partition(np.abs(observed[first] - observed[second]), k - 1)[k - 1])
    small = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}
    return 2.2219 * small.get(n, n / (n + (1.4 if n % 2 else 3.8))) * distance


def smallest_detectable_effect(log_ratios: ArrayLike, alpha: float, power: float = POWER) -> float | None:
    """Return the true ratio minus one, in percent, that a two-sided signed-rank test finds with `power`.

    It assumes as many normal log ratios as are given, with the same spread (`robust_spread`). `alpha` is the
    corrected one: the share of one comparison. None if the test cannot reject at `alpha` with so few.
    """
    sample = finite(log_ratios)
    shift = standard_shift(sample.size, alpha, power)
    return None if shift is None else 100 * math.expm1(shift * robust_spread(sample))


@lru_cache(maxsize=4096)
def standard_shift(n: int, alpha: float, power: float) -> float | None:
    """Return the shift, in standard deviations, that n observations find with `power`; None: no shift."""
    if n > 100:  # from there on it shrinks with the square root of n, to three digits
        largest = standard_shift(100, alpha, power)
        return None if largest is None else largest * math.sqrt(100 / n)
    k = _walsh_rank(n, alpha)
    if k == 0 or n < 2:
        return None
    # The test rejects a sample moved up by s if and only if its k-th smallest Walsh average plus s is above
    # zero. So simulated samples give the whole power curve at once, each as drawn and with its signs changed.
    # (The normal approximation is 40 % too low at 11 blocks and 45 comparisons, where all signs must agree.)
    first, second = _pairs_with_self(n)
    generator = np.random.default_rng(seed=n)
    needed: list[Vector] = []
    for _ in range(20):
        drawn = generator.standard_normal((100, n))
        walsh = np.sort((drawn[:, first] + drawn[:, second]) / 2, axis=1)
        needed += [-walsh[:, k - 1], walsh[:, -k]]
    return float(np.quantile(np.concatenate(needed), power))


def finite(observed: ArrayLike) -> Vector:
    """Return `observed` as a vector of one or more finite numbers, or raise ValueError."""
    sample = np.asarray(observed, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise ValueError(f"need a list of one or more finite numbers, got {observed!r}")
    return sample
