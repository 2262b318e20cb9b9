"""The kernel's features behind each design and primitive: the engine has tried them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.doctor.kernel_features import KernelFeature, kernel_features
from thunderherd.doctor.kind import Examination, Finding, Here, good, has, notable, setting, stops, sysctl
from thunderherd.engine.catalogue import Runnable

IO_URING = "kernel.io_uring_disabled"


def designs(here: Here) -> Iterator[Finding]:
    """Those that can run, and those that cannot."""
    yield from _of("design", here.catalogue.designs)


def primitives(here: Here) -> Iterator[Finding]:
    """The same."""
    yield from _of("primitive", here.catalogue.primitives)


def rests_on(here: Here) -> Iterator[Finding]:
    """What the entries rest on, by the Linux that brought it; what is not here, by itself."""
    found = kernel_features(here.catalogue)
    there = [each for each in found if each.available]
    for since in dict.fromkeys(each.since for each in there):
        alike = [each for each in there if each.since == since]
        named = "; ".join(f"{each.name}: {', '.join(each.entries)}" for each in alike)
        yield good("every Linux" if since is None else f"Linux {since}", "here", named)
    for each in found:
        if not each.available:
            yield stops(each.name, each.reason or "", _means(each))


def _means(missing: KernelFeature) -> str:
    came = f"it came with Linux {missing.since}" if missing.since else "every Linux has it"
    return f"{came}; without it cannot run: {', '.join(missing.entries)}"


def io_uring(here: Here) -> Iterator[Finding]:
    """Whether the kernel makes rings, and for whom (io_uring(7)); before Linux 6.6 there is no such
    setting."""
    if not has(IO_URING):
        return
    value = setting(IO_URING)
    if value == "0":
        yield good("io_uring_disabled", value, "everybody may have rings")
        return
    yield notable(
        "io_uring_disabled",
        value,
        {"1": "only root and the group kernel.io_uring_group may have rings"}.get(
            value, "nobody may have rings"
        ),
        sysctl(IO_URING, 0),
    )


def _of(kind: str, entries: Sequence[Runnable]) -> Iterator[Finding]:
    missing = [each for each in entries if not each.available]
    seen = f"{len(entries) - len(missing)} of {len(entries)}"
    yield good(f"{kind}s", seen, "the others are named below" if missing else "all can run")
    for reason in dict.fromkeys(each.reason or "" for each in missing):
        alike = ", ".join(each.name for each in missing if (each.reason or "") == reason)
        yield stops(f"no {kind}", alike, reason)


EXAMINATION = Examination(title="Designs and primitives", looks=(designs, primitives, io_uring, rests_on))
