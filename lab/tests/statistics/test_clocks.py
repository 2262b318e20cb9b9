"""The comparison of clocks: its error is never too small, whatever the delays are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from thunderherd.statistics.clocks import Clock, Reading, compared

DELAYS = some.integers(0, 10**9)


@given(some.integers(-(10**18), 10**18), some.lists(some.tuples(DELAYS, DELAYS), min_size=1, max_size=20))
def test_the_error_covers_any_division_of_the_delay(ahead: int, delays: list[tuple[int, int]]) -> None:
    now, readings = 0, []
    for there, back in delays:
        readings.append(Reading(now, now + there + ahead, now + there + back))
        now += there + back
    found = compared(readings)
    assert abs(found.ahead_ns - ahead) <= found.error_ns
    assert found.error_ns == -(-min(map(sum, delays)) // 2), "the quickest counts"


def test_the_middle_of_the_quickest_reading_counts() -> None:
    assert compared([Reading(0, 1050, 100), Reading(200, 1203, 210), Reading(300, 9, 320)]) == Clock(998, 5)


def test_no_reading_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="none"):
        compared([])
