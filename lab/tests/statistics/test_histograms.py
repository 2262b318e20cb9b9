"""Histograms are added, not averaged, and reported only as far as there are enough requests."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram

from thunderherd.statistics.histograms import merged, percentile_curve, percentile_ns


def encoded(*values: int) -> str:
    histogram = HdrHistogram(1, 10**9, 3)
    for value in values:
        histogram.record_value(value)
    text = histogram.encode()
    assert isinstance(text, bytes)
    return text.decode()


def test_the_percentile_of_a_sum_is_not_the_mean_of_percentiles() -> None:
    fast, slow = encoded(*[1_000] * 9_000), encoded(*[1_000_000] * 1_000)
    both = merged([fast, slow])
    assert both.total_count == 10_000
    assert percentile_ns(both, 0.5) == pytest.approx(1_000, rel=1e-3)
    assert percentile_ns(both, 0.95) == pytest.approx(1_000_000, rel=1e-3)
    assert percentile_ns(merged([fast]), 0.95) == pytest.approx(1_000, rel=1e-3)


def test_too_few_requests_give_no_percentile() -> None:
    assert percentile_ns(merged([encoded(*range(1, 1_001))]), 0.99) == pytest.approx(990, rel=2e-3)
    assert percentile_ns(merged([encoded(*range(1, 1_000))]), 0.99) is None
    assert percentile_ns(merged([]), 0.5) is None
    curve = percentile_curve(merged([encoded(*range(1, 101))]), (0.5, 0.9, 0.99))
    assert [share for share, _ in curve] == [0.5, 0.9]


def test_an_invalid_histogram_or_percentile_is_refused() -> None:
    for text in ("", "oops", "AAAA"):
        with pytest.raises(ValueError, match=f"'{text}'"):
            merged([text])
    with pytest.raises(ValueError, match="99"):
        percentile_ns(merged([]), 99)
