"""The available labs, and whether they need root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thunderherd.doctor.kind import (
    Change,
    Examination,
    Finding,
    Here,
    as_root,
    exists,
    good,
    has,
    notable,
    setting,
    stops,
    sysctl,
)
from thunderherd.labs import KINDS, with_namespaces
from thunderherd.labs.kind import Kind
from thunderherd.machine import description

FORBIDDING = {
    "user.max_user_namespaces": ("0", 15000),
    "user.max_net_namespaces": ("0", 15000),
    "kernel.unprivileged_userns_clone": ("0", 1),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", 0),
}
"""Settings that deny namespaces to ordinary users: the value that denies them and one that does not. The
first two: namespaces(7); the others: Debian and Ubuntu."""


def labs(here: Here) -> Iterator[Finding]:
    """Report the kinds of lab that are available."""
    missing = _missing(KINDS.values(), here)
    had = [name for name in KINDS if name not in missing]
    yield good("labs", ", ".join(had), "available")
    for name, reason in missing.items():
        yield stops("no lab", name, reason, *_forbidding())


def root(here: Here) -> Iterator[Finding]:
    """Report whether namespaces need root; no finding if there are none."""
    if _missing(with_namespaces(), here):
        return
    if any(_forbidding()):
        yield good("namespaces", "with root only", "ordinary users may not make them")
    else:
        means = "every user may make network namespaces, inside a user namespace"
        yield good("namespaces", "without root", means)


def links(here: Here) -> Iterator[Finding]:
    """Report which properties of the pair of interfaces can be set, and which cannot."""
    for kind in with_namespaces():
        lacking: dict[str, list[str]] = {}
        for name, reason in kind.unavailable_settings(here.catalogue).items():
            lacking.setdefault(reason, []).append(name)
        for reason, names in lacking.items():
            yield notable(
                f"{kind.name} without",
                ", ".join(names),
                f"{reason}: runs cannot set {' or '.join(names)} of the link",
                *_module(reason),
            )
        if not lacking and not kind.unavailable(here.catalogue):
            yield good(kind.name, ", ".join(kind.keys), "can be set")


def _missing(kinds: Iterable[Kind], here: Here) -> dict[str, str]:
    """Return the unavailable kinds, and why."""
    return {each.name: why for each in kinds if (why := each.unavailable(here.catalogue))}


def _forbidding() -> Iterator[Change]:
    for name, (value, instead) in FORBIDDING.items():
        if has(name) and setting(name) == value:
            yield sysctl(name, instead)


def _module(reason: str) -> Iterator[Change]:
    """Yield the command that loads a module which a reason names, if this kernel has it."""
    release = setting("kernel.osrelease")
    listed = f"lib/modules/{release}/modules.dep"
    words = reason.replace(";", " ").replace(")", " ").split()
    for name in words:
        if name.startswith("sch_") and exists(listed) and f"/{name}.ko" in description.text(listed):
            yield as_root(f"modprobe {name}", f"modprobe -r {name}")


EXAMINATION = Examination(title="Labs", looks=(labs, root, links))
