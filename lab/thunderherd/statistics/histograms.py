"""HdrHistograms of the engine's lines: added over load processes, threads and trials, and read.

Percentiles of several histograms are never averaged: the histograms are added, and the percentile is that of
the sum. The text is HdrHistogram's interchange format (V2, deflated, base64).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy
from hdrh.histogram import HdrHistogram

BEYOND = 10
"""The fewest requests beyond a percentile; with fewer it would depend on single requests (the engine's rule).
"""

OF_MAXIMUM = 100
"""The fewest requests of which a maximum is reported (the engine's rule)."""

LOWEST, HIGHEST, DIGITS = 1, 2**53, 3
"""The range of a sum, from a nanosecond to three months, with as many digits as the engine keeps."""


def merged(histograms: Iterable[str]) -> HdrHistogram:
    """Return the sum of histograms, empty if there are none; raise ValueError for an invalid text."""
    found = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    counts = numpy.zeros(found.counts_len, dtype=numpy.int64)
    for text in histograms:
        try:
            one = HdrHistogram.decode(text)
            if _counts_alike(one, found):
                # The library adds histograms of different ranges value by value, which takes much longer.
                counts[: one.counts_len] += numpy.ctypeslib.as_array(one.counts).astype(numpy.int64)
            else:
                found.add(one)
        except Exception as error:  # the library raises its own kinds, zlib's and struct's
            raise ValueError(
                f"{text[:40]!r}... is not a HdrHistogram (V2, deflated, base64): {error}"
            ) from error
    for index in numpy.flatnonzero(counts).tolist():
        found.record_value(found.get_value_from_index(index), int(counts[index]))
    return found


def _counts_alike(one: HdrHistogram, other: HdrHistogram) -> bool:
    """True if equal indices count equal values in both, up to the end of the shorter one."""
    same = (one.sub_bucket_count, one.unit_magnitude) == (other.sub_bucket_count, other.unit_magnitude)
    return same and one.counts_len <= other.counts_len


def percentile_ns(histogram: HdrHistogram, share: float) -> int | None:
    """Return the value that this share of all lies at or below; None if fewer than ten lie beyond it."""
    if not 0 < share < 1:
        raise ValueError(f"a percentile is a share between 0 and 1, got {share}")
    if histogram.total_count * (1 - share) < BEYOND - 1e-9:
        return None
    return int(histogram.get_value_at_percentile(100 * share))


def maximum_ns(histogram: HdrHistogram) -> int | None:
    """Return the maximum, to the digits that a histogram keeps; None of fewer than a hundred."""
    return int(histogram.get_max_value()) if histogram.total_count >= OF_MAXIMUM else None


def percentile_curve(histogram: HdrHistogram, shares: Sequence[float]) -> list[tuple[float, int]]:
    """Return the percentiles for which there are enough requests, as shares and nanoseconds."""
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ValueError(f"a percentile is a share between 0 and 1, got {wrong[0]}")
    enough = [share for share in shares if histogram.total_count * (1 - share) >= BEYOND - 1e-9]
    found = histogram.get_percentile_to_value_dict([100 * share for share in enough])
    return [(share, int(found[100 * share])) for share in enough]
