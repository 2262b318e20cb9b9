"""Where the server and the clients of a trial are: the kinds of lab, what each can be told, and how that is
written and read.

Quantities are written as tc(8) has them ("10gbit", "5ms", "0.1%"), and are integers in the units of the
engine's settings everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from thunderherd.quantity import NoQuantity, in_units


@dataclass(frozen=True)
class Kind:
    """A kind of lab, and all that tells it from others: nobody else asks for one by its name.

    `keys` are those of [lab] that it takes, beside the placement on CPUs. With TCP its sockets have ports and
    the settings that only TCP has. With namespaces of its own each side has one, and the keys that are
    `QUANTITIES` are the engine's settings of what joins the two; otherwise both sides stay in this process's.
    """

    name: str
    summary: str
    source: str
    keys: tuple[str, ...]
    has_tcp: bool = True
    has_namespaces: bool = False

    @property
    def address(self) -> str:
        """The server's, without a port, where both sides stay in this process's namespace."""
        return "127.0.0.1" if self.has_tcp else f"{UNIX_ADDRESS}@"

    @property
    def listen(self) -> str:
        """Where a server listens there that leaves the rest to the kernel."""
        return f"{self.address}:0" if self.has_tcp else self.address

    @property
    def takes(self) -> str:
        """The form of its addresses, as an option takes them."""
        return "HOST:PORT" if self.has_tcp else f"{UNIX_ADDRESS}@NAME"

    def may_have(self, address: str) -> bool:
        """Whether an address is of the form that it takes."""
        return address.startswith(UNIX_ADDRESS) != self.has_tcp


UNIX_ADDRESS = "unix:"
"""How the engine tells a Unix socket's address from one of TCP."""

KINDS: dict[str, Kind] = {
    each.name: each
    for each in (
        Kind(
            name="loopback",
            summary="Server and clients in this network namespace, over its loopback interface",
            source="ip(7)",
            keys=("congestion",),
        ),
        Kind(
            name="veth",
            summary="Server and clients in two network namespaces, joined by a pair of interfaces; "
            "no root needed",
            source="veth(4), network_namespaces(7)",
            keys=("mtu", "rate", "delay", "loss", "congestion"),
            has_namespaces=True,
        ),
        Kind(
            name="unix",
            summary="Server and clients on this machine, over Unix stream sockets",
            source="unix(7)",
            keys=(),
            has_tcp=False,
        ),
    )
}
"""All kinds, by name."""

OPTION = "--lab"
OPTION_HELP = "Where it runs: a kind (`list labs`), or a key of a study's lab (mtu=9000); may be repeated."
"""Of every command that has it (`lab_option`)."""

USUAL = next(iter(KINDS.values()))
"""Where nothing else is said; what is measured there needs no note of it."""


def named(kinds: Iterable[Kind]) -> str:
    """`"loopback" and "veth"`, for a sentence."""
    return " and ".join(f'"{each.name}"' for each in kinds)


def with_namespaces() -> tuple[Kind, ...]:
    """The kinds that have network namespaces of their own."""
    return tuple(each for each in KINDS.values() if each.has_namespaces)


@dataclass(frozen=True)
class Quantity:
    """A key of [lab] that is a quantity: the engine's setting, and how many of its unit one of each unit is.

    Without units it is a whole number of the engine's own.
    """

    setting: str
    units: Mapping[str, int]
    example: str


QUANTITIES: dict[str, Quantity] = {
    "mtu": Quantity("mtu", {}, "1500"),
    "rate": Quantity(
        "rate_bits_per_second", {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}, '"10gbit"'
    ),
    "delay": Quantity("delay_microseconds", {"us": 1, "ms": 10**3, "s": 10**6}, '"5ms"'),
    "loss": Quantity("loss_per_million", {"%": 10**4}, '"0.1%"'),
}
"""The keys of [lab] that the engine's pair of interfaces is told."""


def parse(key: str, value: object) -> int:
    """The value of a quantity in the unit of the engine's setting.

    Raises `ValueError` for what is none; its message says what would be one.
    """
    quantity = QUANTITIES[key]
    if not quantity.units:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"it is no {key}; it takes a whole number, such as {quantity.example}")
    try:
        found = in_units(value.lower() if isinstance(value, str) else "", quantity.units)
    except NoQuantity:
        takes = f"a number with its unit ({', '.join(quantity.units)}) in quotes, such as {quantity.example}"
        raise ValueError(f"it is no {key}; it takes {takes}") from None
    if found == 0:
        raise ValueError(f"for none, leave {key} out")
    if found.denominator != 1:
        unit, least = min(quantity.units.items(), key=lambda each: each[1])
        raise ValueError(f"it is no multiple of {(1 / Decimal(least)).normalize():f}{unit}")
    return int(found)


def unfit(key: str, value: object) -> str | None:
    """Why a lab can have no such value of a key, `kind` among them; None where it can."""
    if key == "kind":
        return None if value in KINDS else f"kind = {value!r}; known: {', '.join(KINDS)}"
    if key not in QUANTITIES:
        return f"a lab has no {key} that a run could differ in; known: kind, {', '.join(QUANTITIES)}"
    try:
        parse(key, value)
    except ValueError as error:
        return f"{key} = {value!r}: {error}"
    return None


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
