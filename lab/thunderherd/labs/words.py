"""How a lab is written and read: quantities, words, and the option that chooses one.

Quantities are written as tc(8) has them ("10gbit", "5ms", "0.1%"), and are integers in the units of the
engine's settings everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from thunderherd.text.quantities import UNITS, NoQuantity, Written, in_units

OPTION = "--lab"

UNIX_ADDRESS = "unix:"
"""How the engine tells a Unix socket's address from one of TCP."""


@dataclass(frozen=True)
class Quantity:
    """A key of [lab] that is a quantity: the engine's setting, and how many of its unit one of each unit is.

    Without units it is a whole number of the engine's own.
    """

    setting: str
    units: Mapping[str, int]
    example: str
    """As a command line has it."""
    range_example: str
    """The values that a search may go over, likewise."""
    least: int = 1
    """The least that may be given, in the engine's unit, where 0 stands for none at all."""

    @property
    def in_toml(self) -> str:
        """The example as a study has it: with a unit it is a text, and in quotes."""
        return f'"{self.example}"' if self.units else self.example


QUANTITIES: dict[str, Quantity] = {
    "mtu": Quantity("mtu", {}, "1500", "1500..65535"),
    "rate": Quantity(
        "rate_bits_per_second",
        {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9},
        "10gbit",
        "100mbit..10gbit",
        least=8000,  # LEAST_RATE of engine/src/runs/namespace.rs: a byte a millisecond
    ),
    "delay": Quantity("delay_microseconds", {"us": 1, "ms": 10**3, "s": 10**6}, "5ms", "1ms..100ms"),
    "loss": Quantity("loss_per_million", {"%": 10**4}, "0.1%", "0.1%..10%"),
}
"""The keys of [lab] that the engine's pair of interfaces is told."""

WRITTEN = {
    f"{table}{key}": Written(each.units or UNITS, each.range_example)
    for key, each in QUANTITIES.items()
    for table in ("", "lab.")
}
"""How the ends of a range of them are written, by key, alone or with its table."""


def parse(key: str, value: object, *, on_command_line: bool = False) -> int:
    """The value of a quantity in the unit of the engine's setting.

    Raises `ValueError` for what is none; its message says what would be one, as a study has it or a command
    line, where a text needs no quotes.
    """
    quantity = QUANTITIES[key]
    if not quantity.units:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"it is no {key}; it takes a whole number, such as {quantity.example}")
    try:
        found = in_units(value.lower() if isinstance(value, str) else "", quantity.units)
    except NoQuantity:
        takes = f"a number with its unit ({', '.join(quantity.units)})"
        such = (
            f", such as {quantity.example}" if on_command_line else f" in quotes, such as {quantity.in_toml}"
        )
        raise ValueError(f"it is no {key}; it takes {takes}{such}") from None
    if found == 0:
        raise ValueError(f"for none, leave {key} out")
    if found.denominator != 1:
        unit, least = min(quantity.units.items(), key=lambda each: each[1])
        raise ValueError(f"it is no multiple of {(1 / Decimal(least)).normalize():f}{unit}")
    if found < quantity.least:
        raise ValueError(f"it takes {written(key, quantity.least)} at least; for no limit, leave {key} out")
    return int(found)


def written(key: str, number: int) -> int | str:
    """A quantity as a study has it, of its number in the unit of the engine's setting: `parse`, undone."""
    units = QUANTITIES[key].units
    if not units:
        return number
    whole = [unit for unit, size in units.items() if number % size == 0]
    unit = max(whole, key=units.__getitem__) if whole else min(units, key=units.__getitem__)
    return f"{(Decimal(number) / units[unit]).normalize():f}{unit}"


def is_like(kind: str, settings: Mapping[str, int], wanted: Mapping[str, int | str]) -> bool:
    """Whether a lab has these keys, as they are written, `kind` among them."""
    return all(
        kind == value if key == "kind" else settings.get(QUANTITIES[key].setting) == parse(key, value)
        for key, value in wanted.items()
    )


def in_words(kind: str, settings: Mapping[str, int]) -> str:
    """`veth, MTU 1500, 10 Gbit/s`: what tells a lab from others, but for its CPUs."""
    said = [kind]
    if "mtu" in settings:
        said.append(f"MTU {settings['mtu']}")
    if rate := settings.get("rate_bits_per_second"):
        said.append(_with_unit(rate, (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1))))
    if delay := settings.get("delay_microseconds"):
        said.append("delay " + _with_unit(delay, (("s", 10**6), ("ms", 10**3), ("µs", 1))))
    if loss := settings.get("loss_per_million"):
        said.append(f"loss {(Decimal(loss) / 10**4).normalize():f} %")
    return ", ".join(said)


def _with_unit(number: int, units: tuple[tuple[str, int], ...]) -> str:
    """In the largest unit of which it is at least one."""
    name, size = next(each for each in units if number >= each[1])
    return f"{(Decimal(number) / size).normalize():f} {name}"
