"""A share of dependent observations, such as samples of a clock, with its interval.

Pure functions. The interval is Korn and Graubard's (1998), *Survey Methodology* 24, 193-201. It is Clopper
and Pearson's exact interval at the effective sample size: the number of independent observations that would
have the variance seen between batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class ShareEstimate(NamedTuple):
    """A share, its interval, and its effective sample size (`worth`)."""

    value: float
    low: float
    high: float
    worth: float


def clustered_share(hits: Sequence[int], sizes: Sequence[int], confidence: float = 0.95) -> ShareEstimate:
    """Return the share of hits among observations that came in batches.

    Observations within a batch may depend on each other; batches are assumed to be independent. So a batch
    must be long compared with whatever makes neighbours alike. With fewer than two non-empty batches that
    dependence is unknown, and the interval is 0 to 1.

    Parameters
    ----------
    hits, sizes
        Of each batch: the number of hits, and the number of observations.
    confidence
        Of the interval, which is never narrower than that of independent observations.

    Raises
    ------
    ValueError
        The lists differ in length, a batch has more hits than observations, or there is no observation.
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
    # Imported on use, since few runs are sampled; scipy.stats has the same and takes a second.
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
