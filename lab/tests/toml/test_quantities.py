"""Quantities as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made.refusals import refused

from thunderherd.toml.quantities import (
    ALLOWED,
    BIT_RATE,
    COUNT,
    SHARE,
    SIZE,
    TIME,
    UNITS,
    NoQuantity,
    NotWhole,
    NoUnit,
    Quantity,
    Range,
    amount,
    amounts,
    axis_unit,
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
        ("4K", "unknown_unit", "4k or 4KiB?"),
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
    assert parse_range("message_size=64..4MiB", "--over") == Range("message_size", 64, 4 * 2**20)
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


RATES = {
    "rate": Quantity(
        "a rate",
        {"bit": 1, "kbit": 10**3},
        ("bit", "kbit"),
        {},
        ("kbit", "bit"),
        range_example="1kbit..9kbit",
    )
}


def test_setting_may_have_its_own_units() -> None:
    assert parse_range("rate=1bit..2.5kbit", "--over", RATES) == Range("rate", 1, 2500)
    assert parse_range("rate=0bit..1kbit", "--over", RATES) == Range("rate", 0, 1000), (
        "whose least is told later"
    )
    assert parse_range("bytes=1..2k", "--over", RATES) == Range("bytes", 1, 2000)


@pytest.mark.parametrize(
    ("text", "code", "hinted"),
    [
        ("rate=1..9kbit", "no_unit", "1kbit or 1bit"),
        ("rate=1byte..9kbit", "unknown_unit", "(bit, kbit)"),
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


KINDS = {"count": COUNT, "size": SIZE, "time": TIME, "bit rate": BIT_RATE, "share": SHARE}


@given(st.integers(0, 2**50), st.sampled_from(sorted(KINDS)))
def test_a_quantity_is_read_as_it_is_written(value: int, kind: str) -> None:
    assert KINDS[kind].read(KINDS[kind].write(value)) == value


@given(st.integers(0, 2**30), st.sampled_from(sorted(KINDS)), st.data())
def test_each_unit_counts(number: int, kind: str, data: st.DataObject) -> None:
    units = KINDS[kind].units
    unit = data.draw(st.sampled_from(sorted(units)))
    assert KINDS[kind].read(f"{number}{unit}") == number * units[unit]


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        (TIME, "5", NoUnit),
        (TIME, "1.5", NoUnit),
        (BIT_RATE, "10", NoUnit),
        (SHARE, "3", NoUnit),
        (TIME, "5m", NoQuantity),
        (TIME, "5S", NoQuantity),
        (SIZE, "64K", NoQuantity),
        (COUNT, "4KiB", NoQuantity),
        (TIME, "-5s", NoQuantity),
        (TIME, "1.5ns", NotWhole),
        (COUNT, "1.5", NotWhole),
    ],
)
def test_other_texts_are_no_quantities(kind: Quantity, text: str, error: type[NoQuantity]) -> None:
    with pytest.raises(NoQuantity) as refusal:
        kind.read(text)
    assert type(refusal.value) is error


def test_a_time_is_a_multiple_of_its_smallest_step() -> None:
    assert TIME.read("1500us", 500_000) == 1_500_000
    with pytest.raises(NotWhole) as refusal:
        TIME.read("1500us", 10**6)
    assert refusal.value.step == "1ms"


@pytest.mark.parametrize(
    ("kind", "value", "typed", "said"),
    [
        (TIME, 0, "0", "0 ns"),
        (TIME, 500_000_000, "500ms", "500 ms"),
        (TIME, 50_000, "50us", "50 µs"),
        (TIME, 1_500_000_000, "1500ms", "1500 ms"),
        (TIME, 90 * 10**9, "90s", "90 s"),
        (TIME, 3600 * 10**9, "1h", "1 h"),
        (SIZE, 65_536, "64KiB", "65,536"),
        (SIZE, 4000, "4000", "4,000"),
        (COUNT, 10_000, "10000", "10,000"),
        (BIT_RATE, 10**10, "10gbit", "10 Gbit/s"),
        (SHARE, 1000, "0.1%", "0.1 %"),
    ],
)
def test_how_quantities_are_written(kind: Quantity, value: int, typed: str, said: str) -> None:
    assert (kind.write(value), kind.say(value)) == (typed, said)


@pytest.mark.parametrize("text", ["50us", "50µs", "50μs", "0.05ms", "50000ns"])
def test_microseconds_have_three_spellings(text: str) -> None:
    assert TIME.read(text) == 50_000


@pytest.mark.parametrize(
    ("values", "kind", "unit"),
    [
        (["50us", "100us"], TIME, "µs"),
        ([0, "250us", "16ms"], TIME, "µs"),
        (["1ms", "1500ms"], TIME, "ms"),
        (["10mbit", "10gbit"], BIT_RATE, "Mbit/s"),
        (["0.1%", "10%"], SHARE, "%"),
    ],
)
def test_an_axis_has_the_unit_of_its_smallest_point(values: list[object], kind: Quantity, unit: str) -> None:
    assert axis_unit(values) == (kind, unit)


@pytest.mark.parametrize("values", [[1, 2], ["64KiB"], ["a", "b"], [0], [], ["5ms", 3], ["5ms", "3%"]])
def test_an_axis_without_units_has_none(values: list[object]) -> None:
    assert axis_unit(values) is None
