"""Quantities of a lab are read as they are written; other values are refused, with an example."""

from __future__ import annotations

import pytest

from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER
from thunderherd.labs import KINDS
from thunderherd.labs.words import QUANTITIES, InvalidQuantity, in_words, parse, written


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("mtu", 1500, 1500),
        ("rate", "10gbit", 10_000_000_000),
        ("rate", "1.5Gbit", 1_500_000_000),
        ("rate", " 100 mbit ", 100_000_000),
        ("rate", "8000bit", 8000),
        ("delay", "5ms", 5_000_000),
        ("delay", "0.25s", 250_000_000),
        ("delay", "1us", 1000),
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
    number *= QUANTITIES[key].resolution
    assert parse(key, written(key, number)) == number


def test_a_number_has_its_largest_whole_unit() -> None:
    wanted = {"rate": "10gbit", "delay": "10s", "loss": "1000000%", "mtu": 10**10}
    assert {key: written(key, 10**10) for key in QUANTITIES} == wanted
    assert (written("rate", 1_500_000), written("loss", 5)) == ("1500kbit", "0.0005%")


UNITS_OF_RATE = "(bit, kbit, mbit, gbit)"


@pytest.mark.parametrize(
    ("key", "value", "message", "hint"),
    [
        ("rate", "fast", "rate", UNITS_OF_RATE),
        ("rate", "10", "no unit", '"10gbit" or "10mbit"'),
        ("rate", 10, "no unit", '"10gbit" or "10mbit"'),
        ("rate", "10gb", "gb", '"10gbit"'),
        ("rate", "10gbit/s", "rate", UNITS_OF_RATE),
        ("rate", "-1gbit", "rate", UNITS_OF_RATE),
        ("rate", "1e9bit", "rate", UNITS_OF_RATE),
        ("rate", "٣gbit", "rate", UNITS_OF_RATE),
        ("rate", "0gbit", "0", "rate"),
        ("rate", "0.5bit", "1bit", "1bit"),
        ("delay", "5 minutes", "minutes", '"5min"'),
        ("delay", "5 parsecs", "delay", "us, ms, s"),
        ("delay", 5, "no unit", '"5s" or "5ms"'),
        ("delay", True, "delay", "us, ms, s"),
        ("delay", "0.5us", "1us", "1us"),
        ("loss", "0.1", "no unit", '"0.1%"'),
        ("loss", "0.00001%", "0.0001%", "0.0001%"),
        ("mtu", "1500", "mtu", "1500"),
        ("mtu", True, "mtu", "1500"),
        ("mtu", 1500.0, "mtu", "1500"),
    ],
)
def test_other_values_are_refused(key: str, value: object, message: str, hint: str) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse(key, value)
    assert message in refusal.value.message and hint in refusal.value.hint


def test_an_example_on_a_command_line_has_no_quotes() -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse("rate", "10", on_command_line=True)
    assert "10gbit" in refusal.value.hint and '"' not in refusal.value.hint


def test_words_of_a_lab_list_its_settings() -> None:
    settings = {"mtu": 1500, "rate": 0, "delay": 0, "loss": 0}
    assert in_words("loopback", {}) == "loopback"
    assert in_words("veth", settings) == "veth, MTU 1500"
    full = {
        "mtu": 9000,
        "rate": 2_500_000_000,
        "delay": 1_500_000,
        "loss": 5,
    }
    assert in_words("veth", full) == "veth, MTU 9000, 2.5 Gbit/s, delay 1.5 ms, loss 0.0005 %"
    assert "800 kbit/s" in in_words("veth", {**full, "rate": 800_000})
    assert "delay 20 µs" in in_words("veth", {**full, "delay": 20_000})
    assert in_words("veth", {**full, "delay": 2_000_000_000}).count("delay 2 s") == 1


def test_every_key_is_of_a_kind() -> None:
    assert {key for kind in KINDS.values() for key in kind.keys} == {
        *QUANTITIES,
        "congestion",
        SERVER,
        LOAD,
        SCHEDULER,
    }
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
