"""Quantities of a lab, a lab in words, and the option that chooses a lab.

Users write quantities as in tc(8): "10gbit", "5ms", "0.1%". Everywhere else they are whole numbers in the
units of the engine's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from thunderherd.engine.places.programs import Program
from thunderherd.hosts.addresses import THIS, HostAddress
from thunderherd.toml.file import show
from thunderherd.toml.quantities import BIT_RATE, COUNT, SHARE, TIME, NoQuantity, NotWhole, NoUnit, Quantity

OPTION = "--lab"


@dataclass(frozen=True)
class Ends:
    """The hosts of both sides; without any, both are on this machine.

    Loads may also be sent to `targets`, addresses without ports: those of servers that are already running.
    Each of `programs` may be started on its host. The CPUs are those on which the sides are measured; empty
    if they may use all.
    """

    server: HostAddress | None = None
    load: tuple[HostAddress, ...] = ()
    targets: tuple[str, ...] = ()
    programs: tuple[tuple[HostAddress, Program], ...] = ()
    server_cpus: tuple[int, ...] = ()
    client_cpus: tuple[int, ...] = ()
    scheduler: str | None = None
    """The scheduler of a Dask cluster that somebody else has started, if the hosts are its workers."""

    @property
    def are_hosts(self) -> bool:
        """True if one of the sides is on a host that is named."""
        return bool(self.server or self.load)


HERE = Ends()

UNIX_ADDRESS = "unix:"
"""The prefix by which the engine distinguishes Unix addresses from TCP addresses."""


@dataclass(frozen=True)
class LabQuantity:
    """A key of [lab] that is a quantity and a setting of the engine: its kind, and its smallest step."""

    kind: Quantity
    resolution: int = 1
    example: str = ""
    """An example as typed on a command line."""
    range_example: str = ""
    """An example of a range that a search goes over, also as typed."""

    @property
    def needs_unit(self) -> bool:
        return "" not in self.kind.units

    @property
    def in_toml(self) -> str:
        """The example as a study has it; with a unit it is a text in quotes."""
        return f'"{self.example}"' if self.needs_unit else self.example


QUANTITIES: dict[str, LabQuantity] = {
    "mtu": LabQuantity(COUNT, 1, "1500", "1500..65535"),
    "rate": LabQuantity(BIT_RATE, 1, BIT_RATE.example, BIT_RATE.range_example),
    "delay": LabQuantity(TIME, 10**3, TIME.example, TIME.range_example),
    "loss": LabQuantity(SHARE, 1, SHARE.example, SHARE.range_example),
}
"""The keys of [lab] that become settings of the engine's pair of interfaces."""

WITH_UNITS = {
    f"{table}{key}": each.kind
    for key, each in QUANTITIES.items()
    if each.needs_unit
    for table in ("", "lab.")
}
"""Keys whose ranges need units, with and without their table, and the kind of each."""


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
    if not quantity.needs_unit:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise InvalidQuantity(f"not a valid {key}", f"{key} takes a whole number, such as {quantity.example}")
    try:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = f"{value}" if is_number or isinstance(value, str) else ""
        found = quantity.kind.read(text, quantity.resolution)
    except NotWhole as error:
        raise InvalidQuantity(str(error), f"{error.step} is the smallest step") from None
    except NoUnit as error:
        meant = " or ".join(_typed(each, on_command_line) for each in quantity.kind.likely(error.digits))
        raise InvalidQuantity("no unit", meant) from None
    except NoQuantity as error:
        if likely := quantity.kind.near(error):
            meant = " or ".join(_typed(each, on_command_line) for each in likely)
            raise InvalidQuantity(f"unknown unit {show(error.text)}", meant) from None
        names = [unit for unit in quantity.kind.units if unit.isascii()]
        takes = f"{key} takes a number with its unit ({', '.join(names)})"
        such = (
            f", such as {quantity.example}" if on_command_line else f" in quotes, such as {quantity.in_toml}"
        )
        raise InvalidQuantity(f"not a valid {key}", f"{takes}{such}") from None
    if found == 0:
        raise InvalidQuantity(f"{key} must be more than 0", f"for none, leave {key} out")
    return found


def _typed(text: str, on_command_line: bool) -> str:
    """Return a text as it is typed: in a study in quotes."""
    return text if on_command_line else show(text)


def written(key: str, number: int) -> int | str:
    """Return a quantity as a study has it; the inverse of `parse`."""
    quantity = QUANTITIES[key]
    return quantity.kind.write(number) if quantity.needs_unit else number


def is_like(kind: str, settings: Mapping[str, int], wanted: Mapping[str, int | str]) -> bool:
    """True if a lab has these values of keys, `kind` included, as a study has them."""
    return all(
        kind == value if key == "kind" else settings.get(key) == parse(key, value)
        for key, value in wanted.items()
    )


def in_words(kind: str, settings: Mapping[str, int], ends: Ends = HERE) -> str:
    """Return `veth, MTU 1500, 10 Gbit/s`: all that distinguishes a lab except its CPUs."""
    parts = [kind]
    if ends.are_hosts:
        load = " and ".join(each.short for each in ends.load) or THIS
        parts.append(f"server on {ends.server.short if ends.server else THIS}, load on {load}")
        if ends.scheduler:
            parts.append(f"workers of {ends.scheduler}")
    if "mtu" in settings:
        parts.append(f"MTU {settings['mtu']}")
    if rate := settings.get("rate"):
        parts.append(_in_largest(BIT_RATE, rate))
    if delay := settings.get("delay"):
        parts.append("delay " + _in_largest(TIME, delay))
    if loss := settings.get("loss"):
        parts.append(f"loss {SHARE.say(loss)}")
    return ", ".join(parts)


def _in_largest(kind: Quantity, number: int) -> str:
    """Return a number in the largest unit that is not larger than the number."""
    name, size = max((each for each in kind.words.items() if each[1] <= number), key=lambda each: each[1])
    return f"{(Decimal(number) / size).normalize():f} {name}"
