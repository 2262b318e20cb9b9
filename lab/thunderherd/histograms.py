"""HdrHistograms of the engine's lines: put together over load processes, threads and trials, and read.

Percentiles of several are never averaged; their histograms are added, and the percentile is that of the sum.
The text is HdrHistogram's own form of interchange (V2, deflated, base64).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hdrh.histogram import HdrHistogram

BEYOND = 10
"""So many must lie beyond a percentile, which would else be a matter of single requests (the engine's
rule)."""

LOWEST, HIGHEST, DIGITS = 1, 2**53, 3
"""What a sum can hold: from a nanosecond to three months, to as many digits as the engine keeps."""


def merged(histograms: Iterable[str]) -> HdrHistogram:
    """The sum of histograms; an empty one of none. Raises ValueError for a text that is no histogram."""
    found = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    for text in histograms:
        try:
            found.decode_and_add(text)
        except Exception as error:  # the library raises its own kinds, zlib's and struct's
            raise ValueError(
                f"{text[:40]!r}... is no HdrHistogram (V2, deflated, base64): {error}"
            ) from error
    return found


def percentile_ns(histogram: HdrHistogram, share: float) -> int | None:
    """The value that this share of all lies at or below; None where fewer than ten lie beyond it."""
    if not 0 < share < 1:
        raise ValueError(f"a percentile is a share between 0 and 1, got {share}")
    if histogram.total_count * (1 - share) < BEYOND - 1e-9:
        return None
    return int(histogram.get_value_at_percentile(100 * share))


def percentile_curve(histogram: HdrHistogram, shares: Sequence[float]) -> list[tuple[float, int]]:
    """The percentiles that the histogram is enough for, as shares and nanoseconds."""
    told = ((share, percentile_ns(histogram, share)) for share in shares)
    return [(share, value) for share, value in told if value is not None]
