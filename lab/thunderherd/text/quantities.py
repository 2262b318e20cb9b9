"""Whole quantities as users type and read them: `4MiB`, `64..1M`; 13,108 bytes (12.8 KiB)."""

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
    "parse_duration",
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
"""The units that may follow a number: SI's thousands, and IEC's powers of 1,024."""

ALLOWED = "a whole number, alone or with k, M, G (thousands) or KiB, MiB, GiB (powers of 1,024)"
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z%]*)", re.ASCII)
"""A number and its unit, without a sign and without an exponent."""


class NoQuantity(ValueError):
    """A text that is no number, or no unit of the number `digits`."""

    def __init__(self, text: str, digits: str = "") -> None:
        self.text, self.digits = text, digits
        super().__init__(f"{text!r} is no {'unit' if digits else 'number'}")


def in_units(text: str, units: Mapping[str, int]) -> Fraction:
    """Reads `1.5 MiB` as a number of the smallest of `units`. Raises `NoQuantity` for other texts."""
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
    """The units of a setting that has its own, and an example of a range."""

    units: Mapping[str, int]
    example: str


def parse_range(text: str, option: str, own: Mapping[str, Written] = MappingProxyType({})) -> Range:
    """Reads `message_bytes=64..4MiB`. Raises UserError, which names the option, for other texts.

    `option` is the place of an error: `crossover: --over`. `own` are the settings that have their own units,
    by name; the caller checks their least values.
    """
    name, equals, values = text.partition("=")
    first, dots, last = values.partition("..")
    name, typed = name.strip(), option.rpartition(" ")[2]
    if not name or not equals or not dots:
        hint = f"write SETTING=LOW..HIGH, such as {typed} {_example(name, own)}"
        raise UserError(f"{text!r} is no range", code="quantity.not_a_range", hint=hint, where=option)
    units = own[name].units if name in own else UNITS
    ends = [parse_quantity(each, option, units) for each in (first, last)]
    if ends[0] >= ends[1]:
        such_as = f"{last.strip()}..{first.strip()}" if ends[1] < ends[0] else f"1..{2 * max(1, ends[0])}"
        if ends[1] == ends[0] and name in own:
            such_as = own[name].example
        raise UserError(
            f"{first.strip()} is not below {last.strip()}",
            code="quantity.reversed_range",
            hint=f"write the lower end first, such as {typed} {name}={such_as}",
            where=option,
        )
    # The lab of a setting with its own units checks its least value.
    if ends[0] < 1 and name not in own:
        raise UserError(
            f"{text} begins at 0, and its sizes are spaced by their logarithm",
            code="quantity.range_from_zero",
            hint="begin at 1 or above",
            where=option,
        )
    return Range(name, ends[0], ends[1])


def _example(name: str, own: Mapping[str, Written]) -> str:
    """Gives a range that a user could type for this setting."""
    if name in own:
        return f"{name}={own[name].example}"
    name = name if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", name) else "bytes"
    return f"{name}={'64..4MiB' if name.endswith('bytes') else '1..64'}"


def parse_quantity(text: str, where: str, units: Mapping[str, int] = UNITS) -> int:
    """Reads `4MiB` as 4194304. Raises UserError, which names the place."""
    allowed = ALLOWED if units is UNITS else f"a number with its unit ({', '.join(units)})"
    try:
        value = in_units(text, units)
    except NoQuantity as error:
        code = "quantity.unknown_unit" if error.digits else "quantity.not_a_number"
        hint = f"{_nearest(error, units)}allowed: {allowed}"
        raise UserError(str(error), code=code, hint=hint, where=where) from None
    if value.denominator != 1:
        raise UserError(
            f"{text.strip()} is {float(value):g}",
            code="quantity.not_whole",
            hint=f"allowed: {allowed}",
            where=where,
        )
    return int(value)


def _nearest(error: NoQuantity, units: Mapping[str, int]) -> str:
    """Suggests quantities with known units for an unknown unit: `did you mean 4KiB? `, or nothing."""
    unit = error.text.lower()
    nearest = sorted(known for known in units if error.digits and known.lower() in (unit, f"{unit}ib"))
    return f"did you mean {' or '.join(error.digits + each for each in nearest)}? " if nearest else ""


DURATIONS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
"""The units of a duration, in milliseconds."""


def parse_duration(text: str, where: str) -> float:
    """Reads `90s` as 90 seconds. Raises UserError, which names the place."""
    try:
        return float(in_units(text, DURATIONS) / 1000)
    except NoQuantity as error:
        is_bare = bool(error.digits) and not error.text
        message = "no unit" if is_bare else str(error)
        hint = f"{error.digits}s or {error.digits}min" if is_bare else "write such as 60s, 500ms or 2min"
        raise UserError(message, code="quantity.no_duration", hint=hint, where=where) from None


def amount(value: float, unit: str = "") -> str:
    """Writes `13,108 bytes (12.8 KiB)`, `4 MiB` if that is exact, `1 byte`, `30`; fractions with three
    digits."""
    text = plain(value, unit)
    if unit != "bytes" or value < UNITS["KiB"] or not text.endswith(unit):
        return text
    name = _binary(value)
    return f"{text} ({value / UNITS[name]:.3g} {name})"


def amounts(low: float, high: float, unit: str = "") -> str:
    """Writes `8,618 to 10,099 bytes`, `64 bytes to 4 MiB`."""
    first, last = plain(low, unit), plain(high, unit)
    if unit and last.endswith(f" {unit}"):
        first = first.removesuffix(f" {unit}").removesuffix(f" {unit.removesuffix('s')}")
    return f"{first} to {last}"


def plain(value: float, unit: str = "") -> str:
    """Writes `13,108 bytes`, `4 MiB`, `1 byte`, `30`; fractions with three digits."""
    if value == 1:
        unit = unit.removesuffix("s")
    if not float(value).is_integer():
        text = f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
        return f"{text} {unit}".rstrip()
    if unit == "bytes" and value >= UNITS["KiB"] and value % UNITS[_binary(value)] == 0:
        return f"{int(value) // UNITS[_binary(value)]} {_binary(value)}"
    return f"{int(value):,} {unit}".rstrip()


def _binary(value: float) -> str:
    """Names the largest IEC unit that is at most so many bytes."""
    return max((name for name in ("KiB", "MiB", "GiB") if UNITS[name] <= value), key=UNITS.__getitem__)
