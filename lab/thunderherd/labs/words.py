"""Quantities of a lab, a lab in words, and the option that chooses a lab.

Users write quantities as in tc(8): "10gbit", "5ms", "0.1%". Everywhere else they are whole numbers in the
units of the engine's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from thunderherd.text.quantities import UNITS, NoQuantity, Written, in_units

OPTION = "--lab"

UNIX_ADDRESS = "unix:"
"""The prefix by which the engine distinguishes Unix addresses from TCP addresses."""


@dataclass(frozen=True)
class Quantity:
    """A key of [lab] that is a quantity: the engine's setting, and the units in which users write it.

    `units` has the size of each unit in the unit of the setting. Without units the value is a whole number.
    """

    setting: str
    units: Mapping[str, int]
    example: str
    """An example as typed on a command line."""
    range_example: str
    """An example of a range that a search goes over, also as typed."""

    @property
    def in_toml(self) -> str:
        """The example as a study has it; with a unit it is a text in quotes."""
        return f'"{self.example}"' if self.units else self.example


QUANTITIES: dict[str, Quantity] = {
    "mtu": Quantity("mtu", {}, "1500", "1500..65535"),
    "rate": Quantity(
        "rate_bits_per_second",
        {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9},
        "10gbit",
        "100mbit..10gbit",
    ),
    "delay": Quantity("delay_microseconds", {"us": 1, "ms": 10**3, "s": 10**6}, "5ms", "1ms..100ms"),
    "loss": Quantity("loss_per_million", {"%": 10**4}, "0.1%", "0.1%..10%"),
}
"""The keys of [lab] that become settings of the engine's pair of interfaces."""

WRITTEN = {
    f"{table}{key}": Written(each.units or UNITS, each.range_example)
    for key, each in QUANTITIES.items()
    for table in ("", "lab.")
}
"""Key, with and without its table → how the ends of a range are written."""


class InvalidQuantity(ValueError):
    """A value that is not a quantity of its key; the hint has the valid form."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message, self.hint = message, hint


def parse(key: str, value: object, *, on_command_line: bool = False) -> int:
    """Return a quantity in the unit of the engine's setting; raise `InvalidQuantity` if it is invalid.

    The hint of the error has an example: in quotes as in a study, or without quotes as on a command line.
    """
    quantity = QUANTITIES[key]
    if not quantity.units:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise InvalidQuantity(f"not a valid {key}", f"{key} takes a whole number, such as {quantity.example}")
    try:
        found = in_units(value.lower() if isinstance(value, str) else "", quantity.units)
    except NoQuantity:
        takes = f"{key} takes a number with its unit ({', '.join(quantity.units)})"
        such = (
            f", such as {quantity.example}" if on_command_line else f" in quotes, such as {quantity.in_toml}"
        )
        raise InvalidQuantity(f"not a valid {key}", f"{takes}{such}") from None
    if found == 0:
        raise InvalidQuantity(f"{key} must be more than 0", f"for none, leave {key} out")
    if found.denominator != 1:
        unit, least = min(quantity.units.items(), key=lambda each: each[1])
        smallest = f"{(1 / Decimal(least)).normalize():f}{unit}"
        raise InvalidQuantity(f"not a multiple of {smallest}", f"{smallest} is the smallest step")
    return int(found)


def written(key: str, number: int) -> int | str:
    """Return a quantity as a study has it; the inverse of `parse`."""
    units = QUANTITIES[key].units
    if not units:
        return number
    whole = [unit for unit, size in units.items() if number % size == 0]
    unit = max(whole, key=units.__getitem__) if whole else min(units, key=units.__getitem__)
    return f"{(Decimal(number) / units[unit]).normalize():f}{unit}"


def is_like(kind: str, settings: Mapping[str, int], wanted: Mapping[str, int | str]) -> bool:
    """True if a lab has these values of keys, `kind` included, as a study has them."""
    return all(
        kind == value if key == "kind" else settings.get(QUANTITIES[key].setting) == parse(key, value)
        for key, value in wanted.items()
    )


def in_words(kind: str, settings: Mapping[str, int]) -> str:
    """Return `veth, MTU 1500, 10 Gbit/s`: all that distinguishes a lab except its CPUs."""
    parts = [kind]
    if "mtu" in settings:
        parts.append(f"MTU {settings['mtu']}")
    if rate := settings.get("rate_bits_per_second"):
        units = (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1))
        parts.append(_with_unit(rate, units))
    if delay := settings.get("delay_microseconds"):
        parts.append("delay " + _with_unit(delay, (("s", 10**6), ("ms", 10**3), ("µs", 1))))
    if loss := settings.get("loss_per_million"):
        parts.append(f"loss {(Decimal(loss) / 10**4).normalize():f} %")
    return ", ".join(parts)


def _with_unit(number: int, units: tuple[tuple[str, int], ...]) -> str:
    """Return a number in the largest unit that is not larger than the number."""
    name, size = next(each for each in units if number >= each[1])
    return f"{(Decimal(number) / size).normalize():f} {name}"
