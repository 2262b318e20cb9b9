"""The kernel features that each design and primitive needs, and those that the engine can do without.

The engine has tried them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.doctor.kernel_features import KernelFeature, kernel_features
from thunderherd.doctor.kind import Examination, Finding, Here, good, has, notable, setting, stops, sysctl
from thunderherd.engine.catalogue import Runnable

IO_URING = "kernel.io_uring_disabled"


def designs(here: Here) -> Iterator[Finding]:
    """Report the designs that can run, and those that cannot."""
    yield from _of("design", here.catalogue.designs)


def primitives(here: Here) -> Iterator[Finding]:
    """Report the primitives that can run, and those that cannot."""
    yield from _of("primitive", here.catalogue.primitives)


def rests_on(here: Here) -> Iterator[Finding]:
    """Report the kernel features by the Linux version that introduced them; missing ones separately."""
    found = kernel_features(here.catalogue)
    there = [each for each in found if each.available]
    for since in dict.fromkeys(each.since for each in there):
        alike = [each for each in there if each.since == since]
        named = "; ".join(f"{each.name}: {', '.join(each.entries)}" for each in alike)
        yield good("every Linux" if since is None else f"Linux {since}", "available", named)
    for each in found:
        if not each.available:
            yield stops(each.name, each.reason or "", _means(each))


def _means(missing: KernelFeature) -> str:
    return f"{_came(missing.since)}; these entries need it and cannot run: {', '.join(missing.entries)}"


def _came(since: str | None) -> str:
    return f"available since Linux {since}" if since else "every Linux has it"


def fallbacks(here: Here) -> Iterator[Finding]:
    """Report the features that the engine can do without, and what it does where they are refused."""
    found = here.catalogue.fallbacks
    missing = [each for each in found if not each.available]
    there = ", ".join(each.name for each in found if each.available)
    if found:
        yield good("fallbacks", f"{len(missing)} of {len(found)} needed", f"available: {there or 'nothing'}")
    for each in missing:
        means = f"{_came(each.since)}. Instead, {each.instead}"
        yield notable(each.name, each.reason or "refused", means)


def io_uring(here: Here) -> Iterator[Finding]:
    """Report whether io_uring is enabled, and for whom (io_uring(7)). The setting is new in Linux 6.6."""
    if not has(IO_URING):
        return
    value = setting(IO_URING)
    if value == "0":
        yield good("io_uring_disabled", value, "every user may use io_uring")
        return
    yield notable(
        "io_uring_disabled",
        value,
        {"1": "only root and the group kernel.io_uring_group may use io_uring"}.get(
            value, "no process may use io_uring: its designs and primitives cannot run"
        ),
        sysctl(IO_URING, 0),
    )


def _of(kind: str, entries: Sequence[Runnable]) -> Iterator[Finding]:
    missing = [each for each in entries if not each.available]
    seen = f"{len(entries) - len(missing)} of {len(entries)}"
    yield good(f"{kind}s", seen, "the others are listed below" if missing else "all can run")
    for reason in dict.fromkeys(each.reason or "" for each in missing):
        alike = ", ".join(each.name for each in missing if (each.reason or "") == reason)
        yield stops(f"no {kind}", alike, reason)


EXAMINATION = Examination(
    title="Designs and primitives", looks=(designs, primitives, io_uring, rests_on, fallbacks)
)
