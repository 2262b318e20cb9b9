"""HdrHistograms of the engine's lines: put together over load processes, threads and trials, and read.

Percentiles of several are never averaged; their histograms are added, and the percentile is that of the sum.
The text is HdrHistogram's own form of interchange (V2, deflated, base64).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy
from hdrh.histogram import HdrHistogram

BEYOND = 10
"""So many must lie beyond a percentile, which would else be a matter of single requests (the engine's
rule)."""

OF_MAXIMUM = 100
"""So many there must be for the longest to be told (the engine's rule)."""

LOWEST, HIGHEST, DIGITS = 1, 2**53, 3
"""What a sum can hold: from a nanosecond to three months, to as many digits as the engine keeps."""


def merged(histograms: Iterable[str]) -> HdrHistogram:
    """The sum of histograms; an empty one of none. Raises ValueError for a text that is no histogram."""
    found = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    counts = numpy.zeros(found.counts_len, dtype=numpy.int64)
    for text in histograms:
        try:
            one = HdrHistogram.decode(text)
            if _counts_alike(one, found):
                # The library adds those of different ranges value by value, which takes much longer.
                counts[: one.counts_len] += numpy.ctypeslib.as_array(one.counts).astype(numpy.int64)
            else:
                found.add(one)
        except Exception as error:  # the library raises its own kinds, zlib's and struct's
            raise ValueError(
                f"{text[:40]!r}... is no HdrHistogram (V2, deflated, base64): {error}"
            ) from error
    for index in numpy.flatnonzero(counts).tolist():
        found.record_value(found.get_value_from_index(index), int(counts[index]))
    return found


def _counts_alike(one: HdrHistogram, other: HdrHistogram) -> bool:
    """Whether a count at an index is of the same values in both, as far as the shorter one goes."""
    same = (one.sub_bucket_count, one.unit_magnitude) == (other.sub_bucket_count, other.unit_magnitude)
    return same and one.counts_len <= other.counts_len


def percentile_ns(histogram: HdrHistogram, share: float) -> int | None:
    """The value that this share of all lies at or below; None where fewer than ten lie beyond it."""
    if not 0 < share < 1:
        raise ValueError(f"a percentile is a share between 0 and 1, got {share}")
    if histogram.total_count * (1 - share) < BEYOND - 1e-9:
        return None
    return int(histogram.get_value_at_percentile(100 * share))


def maximum_ns(histogram: HdrHistogram) -> int | None:
    """The longest, to the digits that a histogram keeps; None of fewer than a hundred."""
    return int(histogram.get_max_value()) if histogram.total_count >= OF_MAXIMUM else None


def percentile_curve(histogram: HdrHistogram, shares: Sequence[float]) -> list[tuple[float, int]]:
    """The percentiles that the histogram is enough for, as shares and nanoseconds."""
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ValueError(f"a percentile is a share between 0 and 1, got {wrong[0]}")
    enough = [share for share in shares if histogram.total_count * (1 - share) >= BEYOND - 1e-9]
    found = histogram.get_percentile_to_value_dict([100 * share for share in enough])
    return [(share, int(found[100 * share])) for share in enough]
