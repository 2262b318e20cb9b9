"""Quantities of a lab are read as they are written, and what is none is refused with what would be one."""

from __future__ import annotations

import pytest

from thunderherd.labs import KINDS
from thunderherd.labs.words import QUANTITIES, in_words, parse, written


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("mtu", 1500, 1500),
        ("rate", "10gbit", 10_000_000_000),
        ("rate", "1.5Gbit", 1_500_000_000),
        ("rate", " 100 mbit ", 100_000_000),
        ("rate", "8000bit", 8000),
        ("delay", "5ms", 5000),
        ("delay", "0.25s", 250_000),
        ("delay", "1us", 1),
        ("loss", "0.1%", 1000),
        ("loss", "100%", 1_000_000),
        ("loss", "0.0001%", 1),
    ],
)
def test_a_quantity_is_a_number_of_the_engines_units(key: str, value: object, expected: int) -> None:
    assert parse(key, value) == expected


@pytest.mark.parametrize("number", [1, 7, 1000, 1500, 10_000, 123_456, 10**6, 10**7, 25 * 10**8])
@pytest.mark.parametrize("key", QUANTITIES)
def test_a_number_is_written_as_it_is_read(key: str, number: int) -> None:
    number = max(number, QUANTITIES[key].least)
    assert parse(key, written(key, number)) == number


def test_a_number_has_its_largest_whole_unit() -> None:
    wanted = {"rate": "10gbit", "delay": "10000s", "loss": "1000000%", "mtu": 10**10}
    assert {key: written(key, 10**10) for key in QUANTITIES} == wanted
    assert (written("rate", 1_500_000), written("loss", 5)) == ("1500kbit", "0.0005%")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("rate", "fast", "bit, kbit, mbit, gbit"),
        ("rate", "10", '\\(bit, kbit, mbit, gbit\\) in quotes, such as "10gbit"$'),
        ("rate", 10, "with its unit"),
        ("rate", "10gbit/s", "with its unit"),
        ("rate", "-1gbit", "with its unit"),
        ("rate", "1e9bit", "with its unit"),
        ("rate", "٣gbit", "with its unit"),
        ("rate", "0gbit", "leave rate out"),
        ("rate", "0.5bit", "no multiple of 1bit"),
        ("rate", "7.999kbit", "it takes 8kbit at least; for no limit, leave rate out"),
        ("delay", "5 minutes", "us, ms, s"),
        ("delay", "0.5us", "no multiple of 1us"),
        ("loss", "0.1", "%"),
        ("loss", "0.00001%", "no multiple of 0.0001%"),
        ("mtu", "1500", "a whole number, such as 1500"),
        ("mtu", True, "a whole number"),
        ("mtu", 1500.0, "a whole number"),
    ],
)
def test_what_is_none_is_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(key, value)


def test_a_lab_in_words_tells_it_from_others() -> None:
    settings = {"mtu": 1500, "rate_bits_per_second": 0, "delay_microseconds": 0, "loss_per_million": 0}
    assert in_words("loopback", {}) == "loopback"
    assert in_words("veth", settings) == "veth, MTU 1500"
    full = {
        "mtu": 9000,
        "rate_bits_per_second": 2_500_000_000,
        "delay_microseconds": 1500,
        "loss_per_million": 5,
    }
    assert in_words("veth", full) == "veth, MTU 9000, 2.5 Gbit/s, delay 1.5 ms, loss 0.0005 %"
    assert "800 kbit/s" in in_words("veth", {**full, "rate_bits_per_second": 800_000})
    assert "delay 20 µs" in in_words("veth", {**full, "delay_microseconds": 20})
    assert in_words("veth", {**full, "delay_microseconds": 2_000_000}).count("delay 2 s") == 1


def test_every_key_is_of_a_kind() -> None:
    assert {key for kind in KINDS.values() for key in kind.keys} == {*QUANTITIES, "congestion"}
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
