"""Quantities as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made.refusals import refused

from thunderherd.text.quantities import (
    ALLOWED,
    UNITS,
    Range,
    Written,
    amount,
    amounts,
    parse_quantity,
    parse_range,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("4KiB", 4096),
        ("4 MiB", 4 * 2**20),
        ("1GiB", 2**30),
        ("5k", 5000),
        ("1.5k", 1500),
        ("0.5MiB", 2**19),
        ("2M", 2_000_000),
        ("3MB", 3_000_000),
        ("1G", 10**9),
        ("0", 0),
    ],
)
def test_quantities_are_parsed(text: str, value: int) -> None:
    assert parse_quantity(text, "here") == value


@pytest.mark.parametrize(
    ("text", "code", "hinted"),
    [
        ("", "not_a_number", ALLOWED),
        ("many", "not_a_number", ALLOWED),
        ("-5", "not_a_number", ALLOWED),
        ("1e3", "not_a_number", ALLOWED),
        ("4K", "unknown_unit", ALLOWED),
        ("4K", "unknown_unit", "4KiB or 4k?"),
        ("4kib", "unknown_unit", "4KiB?"),
        ("4mb", "unknown_unit", "4MB?"),
        ("4 parsecs", "unknown_unit", ALLOWED),
        ("1.5", "not_whole", ALLOWED),
        ("0.3KiB", "not_whole", ALLOWED),
    ],
)
def test_invalid_quantities_are_refused(text: str, code: str, hinted: str) -> None:
    (problem,) = refused(parse_quantity, text, "here")
    assert (problem.where, problem.code) == ("here", f"quantity.{code}")
    assert hinted in problem.hint


def test_ranges_are_parsed() -> None:
    assert parse_range("message_bytes=64..4MiB", "--over") == Range("message_bytes", 64, 4 * 2**20)
    assert parse_range("load.settings.bytes = 1 .. 1.5k", "--over") == Range("load.settings.bytes", 1, 1500)


@pytest.mark.parametrize(
    ("text", "code", "hinted"),
    [
        ("bytes", "not_a_range", "--over bytes=64..4MiB"),
        ("bytes=64", "not_a_range", "SETTING=LOW..HIGH"),
        ("=64..128", "not_a_range", "SETTING=LOW..HIGH"),
        ("bytes=64-128", "not_a_range", "SETTING=LOW..HIGH"),
        ("bytes=64..", "not_a_number", ALLOWED),
        ("bytes=1...4", "not_a_number", ALLOWED),
        ("bytes=4MiB..64", "reversed_range", "--over bytes=64..4MiB"),
        ("bytes=64..64", "reversed_range", "--over bytes=1..128"),
        ("bytes=0..0", "reversed_range", "--over bytes=1..2"),
        ("bytes=0..64", "range_from_zero", "1"),
    ],
)
def test_invalid_ranges_are_refused(text: str, code: str, hinted: str) -> None:
    (problem,) = refused(parse_range, text, "--over")
    assert (problem.where, problem.code) == ("--over", f"quantity.{code}")
    assert hinted in problem.hint


RATES = {"rate": Written({"bit": 1, "kbit": 10**3}, "1kbit..9kbit")}


def test_setting_may_have_its_own_units() -> None:
    assert parse_range("rate=1bit..2.5kbit", "--over", RATES) == Range("rate", 1, 2500)
    assert parse_range("rate=0bit..1kbit", "--over", RATES) == Range("rate", 0, 1000), (
        "whose least is told later"
    )
    assert parse_range("bytes=1..2k", "--over", RATES) == Range("bytes", 1, 2000)


@pytest.mark.parametrize(
    ("text", "code", "hinted"),
    [
        ("rate=1..9kbit", "unknown_unit", "(bit, kbit)"),
        ("rate=1bit..9Kbit", "unknown_unit", "9kbit?"),
        ("rate=9kbit..1bit", "reversed_range", "--over rate=1bit..9kbit"),
        ("rate=1kbit..1kbit", "reversed_range", "--over rate=1kbit..9kbit"),
        ("rate=0.5bit..1kbit", "not_whole", "(bit, kbit)"),
        ("rate=5", "not_a_range", "--over rate=1kbit..9kbit"),
    ],
)
def test_invalid_range_of_a_setting_with_units_is_refused(text: str, code: str, hinted: str) -> None:
    (problem,) = refused(parse_range, text, "--over", RATES)
    assert problem.code == f"quantity.{code}" and hinted in problem.hint


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (64, "bytes", "64 bytes"),
        (1, "bytes", "1 byte"),
        (1024, "bytes", "1 KiB"),
        (13_108, "bytes", "13,108 bytes (12.8 KiB)"),
        (4 * 2**20, "bytes", "4 MiB"),
        (1536, "bytes", "1,536 bytes (1.5 KiB)"),
        (5 * 2**30, "bytes", "5 GiB"),
        (30, "", "30"),
        (12_000, "workers", "12,000 workers"),
        (1, "workers", "1 worker"),
        (2.5, "", "2.5"),
        (1234.5, "bytes", "1,234 bytes (1.21 KiB)"),
    ],
)
def test_a_quantity_in_words(value: float, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_two_amounts_in_words() -> None:
    assert amounts(8618, 10_099, "bytes") == "8,618 to 10,099 bytes"
    assert amounts(64, 4 * 2**20, "bytes") == "64 bytes to 4 MiB"
    assert amounts(1, 64, "workers") == "1 to 64 workers"
    assert amounts(1, 64) == "1 to 64"


@given(st.integers(0, 2**40), st.sampled_from(sorted(UNITS)))
def test_number_with_unit_is_parsed_to_its_product(count: int, unit: str) -> None:
    assert parse_quantity(f"{count}{unit}", "here") == count * UNITS[unit]
