"""The kinds of lab: a file each, and a line here."""

from __future__ import annotations

from collections.abc import Iterable

from thunderherd.labs import loopback, unix, veth
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import QUANTITIES, parse

KINDS: dict[str, Kind] = {
    each.KIND.name: each.KIND
    for each in (
        loopback,
        veth,
        unix,
    )
}
"""All kinds, by name, which is that of the file."""

USUAL = next(iter(KINDS.values()))
"""Where nothing else is said; what is measured there needs no note of it."""


def has_tcp(kind: str | None = None) -> bool:
    """Whether connections in a lab of that kind are TCP's; None: of the usual one."""
    return (USUAL if kind is None else KINDS[kind]).has_tcp


def named(kinds: Iterable[Kind]) -> str:
    """`"loopback" and "veth"`, for a sentence."""
    return " and ".join(f'"{each.name}"' for each in kinds)


def owners(key: str) -> tuple[Kind, ...]:
    """The kinds that a key of [lab] is for; none of a key that has nothing to do with the kind."""
    return tuple(each for each in KINDS.values() if key in each.keys)


def takes(kind: str, key: str) -> bool:
    """Whether a key of [lab] can have a value in a lab of that kind, which exists."""
    return not owners(key) or KINDS[kind] in owners(key)


def with_namespaces() -> tuple[Kind, ...]:
    """The kinds that have network namespaces of their own."""
    return tuple(each for each in KINDS.values() if each.has_namespaces)


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
