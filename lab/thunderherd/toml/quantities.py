"""Quantities as users type and read them: `4MiB`, `500ms`, `3%`; 13,108 bytes (12.8 KiB), 500 ms.

A quantity is a whole number of its smallest unit everywhere else: nanoseconds, bytes, bits per second,
millionths. The engine reads and prints quantities by the same rules (`base/unit.rs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from thunderherd.errors import UserError

__all__ = [
    "BIT_RATE",
    "COUNT",
    "SHARE",
    "SIZE",
    "TIME",
    "UNITS",
    "NoQuantity",
    "NoUnit",
    "NotWhole",
    "Quantity",
    "Range",
    "amount",
    "amounts",
    "axis_unit",
    "in_units",
    "parse_quantity",
    "parse_range",
    "percent_of",
    "plain",
    "quantity_of",
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
    "TiB": 2**40,
}
"""The units that may follow a number: SI's thousands, and IEC's powers of 1,024."""

ALLOWED = "a whole number, alone or with k, M, G (thousands) or KiB, MiB, GiB, TiB (powers of 1,024)"
QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%\u00b5\u03bc]*)")
"""A number and its unit, without a sign and without an exponent."""


class NoQuantity(ValueError):
    """A text that is no number, or no unit of the number `digits`."""

    def __init__(self, text: str, digits: str = "") -> None:
        self.text, self.digits = text, digits
        super().__init__(f"{text!r} is no {'unit' if digits else 'number'}")


class NoUnit(NoQuantity):
    """A number without the unit that its quantity needs."""

    def __init__(self, digits: str) -> None:
        super().__init__("", digits)
        self.args = ("no unit",)


class NotWhole(NoQuantity):
    """A quantity that is not a multiple of the smallest step, which `step` names."""

    def __init__(self, step: str) -> None:
        super().__init__("", "")
        self.step = step
        self.args = (f"not a multiple of {step}",)


def in_units(text: str, units: Mapping[str, int]) -> Fraction:
    """Reads `1.5 MiB` as a number of the smallest of `units`; 0 needs no unit.

    Raises `NoQuantity` for other texts, which is `NoUnit` for a number alone.
    """
    found = QUANTITY.fullmatch(text.strip())
    if found is None:
        raise NoQuantity(text.strip())
    digits, unit = found.groups()
    if unit in units:
        return Fraction(digits) * units[unit]
    if unit:
        raise NoQuantity(unit, digits)
    if Fraction(digits) != 0:
        raise NoUnit(digits)
    return Fraction(0)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of quantity.

    `units` has the size of each unit that users may type. `printed` are the units of quantities as they are
    typed, and `words` those of quantities in texts, both with the smallest first. `guesses` are the likeliest
    units of a number alone.
    """

    name: str
    units: Mapping[str, int]
    printed: tuple[str, ...]
    words: Mapping[str, int]
    guesses: tuple[str, ...] = ()
    example: str = ""
    range_example: str = "1..64"
    ignores_case: bool = False

    def read(self, text: str, resolution: int = 1) -> int:
        """Reads `1.5s` as a number of the smallest unit.

        Raises `NoQuantity` for other texts, and `NotWhole` if it is not a multiple of the resolution.
        """
        value = in_units(text.lower() if self.ignores_case else text, self.units)
        if (value / resolution).denominator != 1:
            raise NotWhole(self.write(resolution))
        return int(value)

    def write(self, value: int) -> str:
        """Writes `1500ms`: the quantity as users type it, in the largest unit of which it is a multiple."""
        if value == 0:
            return "0"
        unit = self._largest({each: self.units[each] for each in self.printed}, value)
        return f"{_decimal(value, self.units[unit])}{unit}"

    def say(self, value: int) -> str:
        """Writes `1500 ms`, `10 Gbit/s`, `0.1 %`, `13,108`: the quantity in a text."""
        if not self.words:
            return f"{value:,}"
        unit = self._largest(self.words, value)
        return f"{_decimal(value, self.words[unit])} {unit}"

    def _largest(self, units: Mapping[str, int], value: int) -> str:
        """Names the largest unit of which a value is a multiple, or the smallest of all."""
        whole = [unit for unit, size in units.items() if value and value % size == 0]
        return max(whole or [next(iter(units))], key=units.__getitem__)

    def range(self, low: int, high: int) -> str:
        """Describes the values from `low` to `high`."""
        return f"{self.name} from {self.write(low)} to {self.write(high)}"

    def between(self, low: int, high: int, things: str = "") -> str:
        """Writes `1ms to 10min`, `1 to 1GiB`, and of counted things `1 to 16,000 workers`."""
        if self is COUNT:
            return f"{low:,} to {high:,} {things}".rstrip()
        return f"{self.write(low)} to {self.write(high)}"

    def likely(self, digits: str, resolution: int | None = None) -> list[str]:
        """Gives the likeliest meanings of a number alone: `5s` and `5ms`; of fine steps `5ms` and `5us`."""
        is_fine = self.name == "a time" and resolution is not None and resolution < self.units["ms"]
        return [f"{digits}{unit}" for unit in (("ms", "us") if is_fine else self.guesses)]

    def near(self, error: NoQuantity) -> list[str]:
        """Gives the likeliest meanings of a quantity with an unknown unit; of a time, `5s` for `5sec`."""
        found = near(error, self.units)
        if not found and self.name == "a time" and error.digits:
            typed = error.text.lower()
            units = sorted((unit for unit in self.printed if typed.startswith(unit)), key=len)
            found = [f"{error.digits}{unit}" for unit in units[-1:]]
        return found


def near(error: NoQuantity, units: Mapping[str, int]) -> list[str]:
    """Gives the likeliest meanings of an unknown unit: of `5m` `5ms` and `5min`, of `4K` `4k` and `4KiB`.

    These are units that are the same but for their case, or those that begin with it. Empty for a text
    without digits.
    """
    typed = error.text.lower()
    names = [name for name in units if name and name.isascii()]
    found = [name for name in names if name.lower() in (typed, f"{typed}ib")]
    found = found or [name for name in names if name.lower().startswith(typed)]
    return [f"{error.digits}{name}" for name in found] if error.digits else []


def _decimal(value: int, size: int) -> str:
    """Writes a value in a unit of this size: `0.0001`."""
    return f"{(Decimal(value) / size).normalize():f}"


COUNT = Quantity("a whole number", {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}, ("",), {})
"""A plain number, or a number of things."""

SIZE = Quantity("a size", UNITS, ("", "KiB", "MiB", "GiB", "TiB"), {}, range_example="64..4MiB")
"""A number of bytes."""

_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

TIME = Quantity(
    "a time",
    _TIMES | {"\u00b5s": 10**3, "\u03bcs": 10**3},
    tuple(_TIMES),
    {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9},
    ("s", "ms"),
    "5ms",
    "1ms..100ms",
)
"""A time in nanoseconds."""

BIT_RATE = Quantity(
    "a rate",
    {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9},
    ("bit", "kbit", "mbit", "gbit"),
    {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9},
    ("gbit", "mbit"),
    "10gbit",
    "100mbit..10gbit",
    ignores_case=True,
)
"""A number of bits per second."""

SHARE = Quantity("a share", {"%": 10**4}, ("%",), {"%": 10**4}, ("%",), "0.1%", "0.1%..10%")
"""A share in millionths."""

_BY_UNIT = {"bytes": SIZE, "ns": TIME, "bit/s": BIT_RATE, "ppm": SHARE}
"""The quantity of each unit in the engine's catalogue; other units are names of counted things."""


def quantity_of(unit: str | None) -> Quantity:
    """Returns the quantity of a unit in the engine's catalogue."""
    return _BY_UNIT.get(unit or "", COUNT)


def percent_of(share: str) -> float:
    """Reads a share, "3%", as a number of percent."""
    return SHARE.read(share) / SHARE.units["%"]


def axis_unit(values: Iterable[object]) -> tuple[Quantity, str] | None:
    """Chooses the unit of an axis whose points are typed quantities with units.

    It is the largest in which no point but 0 is below 1. Returns None for values without units.
    """
    texts = [value for value in values if value != 0]
    for kind in (TIME, BIT_RATE, SHARE):
        try:
            numbers = [kind.read(each if isinstance(each, str) else "") for each in texts]
        except NoQuantity:
            continue
        if numbers:
            fitting = [
                unit for unit, size in kind.words.items() if all(size <= each for each in numbers if each)
            ]
            return kind, fitting[-1] if fitting else next(iter(kind.words))
    return None


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a setting from `low` to `high`, both included."""

    name: str
    low: int
    high: int


def parse_range(text: str, option: str, own: Mapping[str, Quantity] = MappingProxyType({})) -> Range:
    """Reads `message_size=64..4MiB`. Raises UserError, which names the option, for other texts.

    `option` is the place of an error: `crossover: --over`. `own` are the settings that need a unit, by name;
    the caller checks their least values.
    """
    name, equals, values = text.partition("=")
    first, dots, last = values.partition("..")
    name, typed = name.strip(), option.rpartition(" ")[2]
    if not name or not equals or not dots:
        hint = f"write SETTING=LOW..HIGH, such as {typed} {_example(name, own)}"
        raise UserError(f"{text!r} is no range", code="quantity.not_a_range", hint=hint, where=option)
    ends = [parse_quantity(each, option, own.get(name)) for each in (first, last)]
    if ends[0] >= ends[1]:
        such_as = f"{last.strip()}..{first.strip()}" if ends[1] < ends[0] else f"1..{2 * max(1, ends[0])}"
        if ends[1] == ends[0] and name in own:
            such_as = own[name].range_example
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


def _example(name: str, own: Mapping[str, Quantity]) -> str:
    """Gives a range that a user could type for this setting."""
    if name in own:
        return f"{name}={own[name].range_example}"
    name = name if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", name) else "bytes"
    return f"{name}={'64..4MiB' if name.endswith(('bytes', 'size')) else '1..64'}"


def parse_quantity(text: str, where: str, kind: Quantity | None = None) -> int:
    """Reads `4MiB` as 4194304; of a kind `5ms` as 5000000. Raises UserError, which names the place."""
    units = kind.units if kind else UNITS
    names = [unit for unit in units if unit.isascii()]
    allowed = f"a number with its unit ({', '.join(names)})" if kind else ALLOWED
    try:
        value = in_units(text.lower() if kind and kind.ignores_case else text, units)
    except NoUnit as error:
        hint = " or ".join(kind.likely(error.digits)) if kind else allowed
        message = "no unit" if where.endswith(text.strip()) else f"{text.strip()}: no unit"
        raise UserError(message, code="quantity.no_unit", hint=hint, where=where) from None
    except NoQuantity as error:
        code = "quantity.unknown_unit" if error.digits else "quantity.not_a_number"
        meant = " or ".join(near(error, units))
        hint = f"did you mean {meant}? allowed: {allowed}" if meant else f"allowed: {allowed}"
        raise UserError(str(error), code=code, hint=hint, where=where) from None
    if value.denominator != 1:
        raise UserError(
            f"{text.strip()} is {float(value):g}",
            code="quantity.not_whole",
            hint=f"allowed: {allowed}",
            where=where,
        )
    return int(value)


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
        first = first.removesuffix(f" {unit}").removesuffix(f" {_singular(unit)}")
    return f"{first} to {last}"


def plain(value: float, unit: str = "") -> str:
    """Writes `13,108 bytes`, `4 MiB`, `1 byte`, `30`; fractions with three digits."""
    if value == 1:
        unit = _singular(unit)
    if not float(value).is_integer():
        text = f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
        return f"{text} {unit}".rstrip()
    if unit == "bytes" and value >= UNITS["KiB"] and value % UNITS[_binary(value)] == 0:
        return f"{int(value) // UNITS[_binary(value)]} {_binary(value)}"
    return f"{int(value):,} {unit}".rstrip()


def _singular(unit: str) -> str:
    """Names one of counted things; `ms` stays."""
    is_unit = any(unit in kind.words for kind in (TIME, BIT_RATE, SHARE))
    return unit if is_unit else unit.removesuffix("s")


def _binary(value: float) -> str:
    """Names the largest IEC unit that is at most so many bytes."""
    return max((name for name in ("KiB", "MiB", "GiB") if UNITS[name] <= value), key=UNITS.__getitem__)
