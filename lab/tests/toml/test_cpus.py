"""Lists of CPUs are read as taskset(1) reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.toml.cpus import CPU_LIST, cpus_of, without_ranges


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", [0]), ("0,2", [0, 2]), ("0-3,6", [0, 1, 2, 3, 6]), ("2-2", [2]), ("3,0-1", [3, 0, 1])],
)
def test_ranges_are_read_in_their_order(text: str, cpus: list[int]) -> None:
    assert cpus_of(text) == cpus == without_ranges(text)


@pytest.mark.parametrize("text", ["", "a", "0,", ",0", "0-", "-1", "3-1", "0--1", "0 1", "0-99999999", "any"])
def test_other_texts_are_no_lists(text: str) -> None:
    with pytest.raises(ValueError, match="CPU"):
        cpus_of(text)
    assert without_ranges(text) == text


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20)), min_size=1, max_size=8))
def test_each_range_has_all_its_cpus(ranges: list[tuple[int, int]]) -> None:
    text = ",".join(f"{low}-{low + more}" if more else f"{low}" for low, more in ranges)
    assert CPU_LIST.fullmatch(text)
    assert cpus_of(text) == [cpu for low, more in ranges for cpu in range(low, low + more + 1)]
