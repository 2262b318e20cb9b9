"""The kinds of lab. A new kind is a file in this folder, and a line in `KINDS`."""

from __future__ import annotations

from collections.abc import Iterable

from thunderherd.labs import loopback, remote, unix, veth
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import QUANTITIES, parse

KINDS: dict[str, Kind] = {
    each.KIND.name: each.KIND
    for each in (
        loopback,
        veth,
        unix,
        remote,
    )
}
"""All kinds by name, which is the name of the file."""

USUAL = next(iter(KINDS.values()))
"""The default lab. Figures measured in it need no note about the lab."""


OF_HOSTS = next(each for each in KINDS.values() if each.reaches_hosts)
"""The kind of a lab that names hosts."""


def has_tcp(kind: str | None = None) -> bool:
    """True if connections in a kind of lab are TCP (default: the usual kind)."""
    return (USUAL if kind is None else KINDS[kind]).has_tcp


def named(kinds: Iterable[Kind]) -> str:
    """Return `"loopback" and "veth"`, for a sentence."""
    return " and ".join(f'"{each.name}"' for each in kinds)


def owners(key: str) -> tuple[Kind, ...]:
    """Return the kinds that take a key of [lab]; empty if the key does not depend on the kind."""
    return tuple(each for each in KINDS.values() if key in each.keys)


def takes(kind: str, key: str) -> bool:
    """True if a lab of that kind, which exists, takes a key of [lab]."""
    return not owners(key) or KINDS[kind] in owners(key)


def with_namespaces() -> tuple[Kind, ...]:
    """Return the kinds that have separate network namespaces."""
    return tuple(each for each in KINDS.values() if each.has_namespaces)


def unfit(key: str, value: object) -> str | None:
    """Return why a lab cannot have that value of a key, `kind` included; None if it can."""
    if key == "kind":
        return None if value in KINDS else f"kind = {value!r}; known: {', '.join(KINDS)}"
    if key not in QUANTITIES:
        return f"runs cannot differ in {key}; known: kind, {', '.join(QUANTITIES)}"
    try:
        parse(key, value)
    except ValueError as error:
        return f"{key} = {value!r}: {error}"
    return None
