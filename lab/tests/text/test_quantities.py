"""Quantities as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.errors import UserError
from thunderherd.text.quantities import UNITS, Range, Written, amount, amounts, parse_quantity, parse_range


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
def test_what_a_quantity_is(text: str, value: int) -> None:
    assert parse_quantity(text, "here") == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no number"),
        ("many", "'many' is no number"),
        ("-5", "'-5' is no number"),
        ("1e3", "'1e3' is no number"),
        ("4K", "'K' is no unit; allowed: a whole number, alone or with k, M, G (thousands) or KiB, MiB, GiB"),
        ("4K", "did you mean 4KiB or 4k?"),
        ("4kib", "did you mean 4KiB?"),
        ("4mb", "did you mean 4MB?"),
        ("4 parsecs", "'parsecs' is no unit"),
        ("1.5", "1.5 is 1.5; allowed: a whole number"),
        ("0.3KiB", "0.3KiB is 307.2; allowed"),
    ],
)
def test_what_is_no_quantity(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_quantity(text, "here")
    assert str(caught.value).startswith("here: ") and said in str(caught.value)


def test_a_range() -> None:
    assert parse_range("message_bytes=64..4MiB", "--over") == Range("message_bytes", 64, 4 * 2**20)
    assert parse_range("load.settings.bytes = 1 .. 1.5k", "--over") == Range("load.settings.bytes", 1, 1500)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes", "it takes SETTING=LOW..HIGH, such as --over bytes=64..4MiB"),
        ("bytes=64", "it takes SETTING=LOW..HIGH"),
        ("=64..128", "it takes SETTING=LOW..HIGH"),
        ("bytes=64-128", "it takes SETTING=LOW..HIGH"),
        ("bytes=64..", "'' is no number"),
        ("bytes=1...4", "'.4' is no number"),
        (
            "bytes=4MiB..64",
            "4MiB is not below 64; write the lower end first, such as --over bytes=64..4MiB",
        ),
        ("bytes=64..64", "64 is not below 64; write the lower end first, such as --over bytes=1..128"),
        ("bytes=0..0", "0 is not below 0"),
        ("bytes=0..64", "begin at 1 at least"),
    ],
)
def test_what_is_no_range(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_range(text, "--over")
    assert str(caught.value).startswith(f"--over {text}: ") and said in str(caught.value)


RATES = {"rate": Written({"bit": 1, "kbit": 10**3}, "1kbit..9kbit")}


def test_a_setting_may_have_units_of_its_own() -> None:
    assert parse_range("rate=1bit..2.5kbit", "--over", RATES) == Range("rate", 1, 2500)
    assert parse_range("rate=0bit..1kbit", "--over", RATES) == Range("rate", 0, 1000), (
        "whose least is told later"
    )
    assert parse_range("bytes=1..2k", "--over", RATES) == Range("bytes", 1, 2000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate=1..9kbit", "'' is no unit; allowed: a number with its unit (bit, kbit)"),
        ("rate=1bit..9Kbit", "a number with its unit (bit, kbit); did you mean 9kbit?"),
        ("rate=9kbit..1bit", "9kbit is not below 1bit; write the lower end first, such as --over rate=1bit"),
        ("rate=1kbit..1kbit", "such as --over rate=1kbit..9kbit"),
        ("rate=0.5bit..1kbit", "0.5bit is 0.5; allowed: "),
        ("rate=5", "LOW..HIGH, such as --over rate=1kbit..9kbit"),
    ],
)  # fmt: skip
def test_what_is_no_range_of_such_a_setting(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_range(text, "--over", RATES)
    assert said in str(caught.value)


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


def test_two_in_words() -> None:
    assert amounts(8618, 10_099, "bytes") == "8,618 to 10,099 bytes"
    assert amounts(64, 4 * 2**20, "bytes") == "64 bytes to 4 MiB"
    assert amounts(1, 64, "workers") == "1 to 64 workers"
    assert amounts(1, 64) == "1 to 64"


@given(st.integers(0, 2**40), st.sampled_from(sorted(UNITS)))
def test_what_is_read_is_what_was_meant(count: int, unit: str) -> None:
    assert parse_quantity(f"{count}{unit}", "here") == count * UNITS[unit]
