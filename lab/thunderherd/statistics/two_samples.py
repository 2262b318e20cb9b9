"""Two independent samples: the shift between them, its interval and its tests.

Blocks of two sessions have no common order, so nothing can be paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from thunderherd.statistics.samples import finite

__all__ = ["Shift", "p_not_less", "shift"]


@dataclass(frozen=True, slots=True)
class Shift:
    """How much larger the second sample is: the median of all differences, with an interval."""

    value: float
    low: float | None
    high: float | None


def p_not_less(first: ArrayLike, second: ArrayLike) -> float:
    """Return the p of "the second sample is not below the first" (Mann and Whitney 1947), one-sided."""
    return float(stats.mannwhitneyu(finite(second), finite(first), alternative="less").pvalue)


def shift(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> Shift:
    """Return how much larger the second sample is (Hodges and Lehmann 1963).

    The ends of the interval are those differences at which the test above turns, by its normal approximation.
    Too few observations have no interval.
    """
    one, other = finite(first), finite(second)
    differences = np.sort((other[:, None] - one[None, :]).ravel())
    m, n = one.size, other.size
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    k = math.floor(m * n / 2 - z * math.sqrt(m * n * (m + n + 1) / 12))
    value = float(np.median(differences))
    if k < 1:
        return Shift(value, None, None)
    return Shift(value, float(differences[k - 1]), float(differences[-k]))
