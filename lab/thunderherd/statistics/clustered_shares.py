"""A share of observations that depend on each other, such as samples of a clock, with its interval.

Pure functions. The interval is Korn and Graubard's (1998), *Survey Methodology* 24, 193-201: Clopper and
Pearson's exact one, with as many independent observations as would have left the variance that is seen
between batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class ShareEstimate(NamedTuple):
    """A share, its interval, and how many independent observations it is worth."""

    value: float
    low: float
    high: float
    worth: float


def clustered_share(hits: Sequence[int], sizes: Sequence[int], confidence: float = 0.95) -> ShareEstimate:
    """The share of hits among observations that came in batches.

    Observations of a batch may depend on each other, batches are taken to be independent: so they must be
    long beside whatever makes neighbours alike. Of fewer than two batches with something in them nothing is
    known of that: the interval is then from 0 to 1.

    Parameters
    ----------
    hits, sizes
        Of each batch: how many hits, and how many observations.
    confidence
        Of the interval, which is never narrower than that of independent observations.

    Raises
    ------
    ValueError
        The batches are of unequal number, a batch has more hits than observations, or there is no
        observation.
    """
    found, of = np.asarray(hits, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if found.shape != of.shape or found.ndim != 1:
        raise ValueError(f"{found.size} batches of hits and {of.size} of observations")
    if (found < 0).any() or (found > of).any():
        raise ValueError(f"a batch has more hits than observations, or fewer than none: {hits} of {sizes}")
    total, batches = float(of.sum()), int((of > 0).sum())
    if not total:
        raise ValueError("there is no observation")
    value = float(found.sum()) / total
    if batches < 2:
        return ShareEstimate(value, 0.0, 1.0, float(batches))
    # Imported when it is needed, for few runs are sampled; scipy.stats has the same and takes a second.
    from scipy.special import betaincinv, stdtrit

    spread = float(((found - value * of) ** 2).sum()) * batches / (batches - 1) / total**2
    independent = value * (1 - value) / total
    worth = total / max(1.0, spread / independent) if independent else total
    tail = (1 - confidence) / 2
    if total > 1:
        # The variance was estimated from few batches.
        worth *= float(stdtrit(total - 1, tail) / stdtrit(batches - 1, tail)) ** 2
    successes = value * worth
    low = float(betaincinv(successes, worth - successes + 1, tail)) if value > 0 else 0.0
    high = float(betaincinv(successes + 1, worth - successes, 1 - tail)) if value < 1 else 1.0
    return ShareEstimate(value, low, high, worth)
