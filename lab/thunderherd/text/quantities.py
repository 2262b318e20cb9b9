"""Whole quantities as people type and read them: `4MiB`, `64..1M`; 13,108 bytes (12.8 KiB)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from thunderherd.errors import UserError

__all__ = [
    "UNITS",
    "NoQuantity",
    "Range",
    "Written",
    "amount",
    "amounts",
    "in_units",
    "parse_quantity",
    "parse_range",
    "plain",
]

UNITS = {
    "": 1,
    "k": 10**3,
    "kB": 10**3,
    "M": 10**6,
    "MB": 10**6,
    "G": 10**9,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
"""What may stand behind a number: SI's thousands, and IEC's powers of 1,024."""

ALLOWED = "a whole number, alone or with k, M, G (thousands) or KiB, MiB, GiB (powers of 1,024)"
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z%]*)", re.ASCII)
"""A number and its unit: without a sign, and without an exponent, which nobody types for either."""


class NoQuantity(ValueError):
    """`text` is no number, or is no unit that a number, `digits`, may have here."""

    def __init__(self, text: str, digits: str = "") -> None:
        self.text, self.digits = text, digits
        super().__init__(f"{text!r} is no {'unit' if digits else 'number'}")


def in_units(text: str, units: Mapping[str, int]) -> Fraction:
    """`1.5 MiB` as a number of the unit that is 1 of `units`. Raises `NoQuantity` for what is none."""
    found = QUANTITY.fullmatch(text.strip())
    if found is None:
        raise NoQuantity(text.strip())
    digits, unit = found.groups()
    if unit not in units:
        raise NoQuantity(unit, digits)
    return Fraction(digits) * units[unit]


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a setting from `low` to `high`, both included."""

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Written:
    """How values of a setting are written that has units of its own, and a range of them."""

    units: Mapping[str, int]
    example: str


def parse_range(text: str, option: str, own: Mapping[str, Written] = MappingProxyType({})) -> Range:
    """`message_bytes=64..4MiB`. Raises UserError, which names the option, for anything else.

    `option` may have the command before it, as an error has: `crossover: --over`. `own` are settings with
    units of their own, by name, of which the caller says what is the least.
    """
    name, equals, values = text.partition("=")
    first, dots, last = values.partition("..")
    name, typed = name.strip(), option.rpartition(" ")[2]
    if not name or not equals or not dots:
        raise UserError(f"{option} {text}: it takes SETTING=LOW..HIGH, such as {typed} {_example(name, own)}")
    units = own[name].units if name in own else UNITS
    ends = [parse_quantity(each, f"{option} {text}", units) for each in (first, last)]
    if ends[0] >= ends[1]:
        such_as = f"{last.strip()}..{first.strip()}" if ends[1] < ends[0] else f"1..{2 * max(1, ends[0])}"
        if ends[1] == ends[0] and name in own:
            such_as = own[name].example
        raise UserError(
            f"{option} {text}: {first.strip()} is not below {last.strip()}; write the lower end first, such "
            f"as {typed} {name}={such_as}"
        )
    # What has units of its own has a least value of its own too, and its lab knows both.
    if ends[0] < 1 and name not in own:
        raise UserError(f"{option} {text}: its sizes are spaced by their logarithm; begin at 1 at least")
    return Range(name, ends[0], ends[1])


def _example(name: str, own: Mapping[str, Written]) -> str:
    """What could have been typed of a setting, if it was the name of one."""
    if name in own:
        return f"{name}={own[name].example}"
    name = name if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", name) else "bytes"
    return f"{name}={'64..4MiB' if name.endswith('bytes') else '1..64'}"


def parse_quantity(text: str, where: str, units: Mapping[str, int] = UNITS) -> int:
    """`4MiB` as 4194304. Raises UserError, which says where."""
    allowed = ALLOWED if units is UNITS else f"a number with its unit ({', '.join(units)})"
    try:
        value = in_units(text, units)
    except NoQuantity as error:
        raise UserError(f"{where}: {error}; allowed: {allowed}{_nearest(error, units)}") from None
    if value.denominator != 1:
        raise UserError(f"{where}: {text.strip()} is {float(value):g}; allowed: {allowed}")
    return int(value)


def _nearest(error: NoQuantity, units: Mapping[str, int]) -> str:
    """The quantities that somebody may have meant who typed a unit that there is not."""
    unit = error.text.lower()
    nearest = sorted(known for known in units if error.digits and known.lower() in (unit, f"{unit}ib"))
    return f"; did you mean {' or '.join(error.digits + each for each in nearest)}?" if nearest else ""


def amount(value: float, unit: str = "") -> str:
    """`13,108 bytes (12.8 KiB)`; `4 MiB` where it is just that; `1 byte`; `30`; of no whole number three
    digits."""
    text = plain(value, unit)
    if unit != "bytes" or value < UNITS["KiB"] or not text.endswith(unit):
        return text
    name = _binary(value)
    return f"{text} ({value / UNITS[name]:.3g} {name})"


def amounts(low: float, high: float, unit: str = "") -> str:
    """`8,618 to 10,099 bytes`; `64 bytes to 4 MiB`."""
    first, last = plain(low, unit), plain(high, unit)
    if unit and last.endswith(f" {unit}"):
        first = first.removesuffix(f" {unit}").removesuffix(f" {unit.removesuffix('s')}")
    return f"{first} to {last}"


def plain(value: float, unit: str = "") -> str:
    """`13,108 bytes`; `4 MiB`; `1 byte`; `30`; of no whole number three digits."""
    if value == 1:
        unit = unit.removesuffix("s")
    if not float(value).is_integer():
        text = f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
        return f"{text} {unit}".rstrip()
    if unit == "bytes" and value >= UNITS["KiB"] and value % UNITS[_binary(value)] == 0:
        return f"{int(value) // UNITS[_binary(value)]} {_binary(value)}"
    return f"{int(value):,} {unit}".rstrip()


def _binary(value: float) -> str:
    """The largest of IEC's units that is not above so many bytes."""
    return max((name for name in ("KiB", "MiB", "GiB") if UNITS[name] <= value), key=UNITS.__getitem__)
