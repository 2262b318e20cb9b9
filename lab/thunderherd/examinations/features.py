"""The kernel's features behind each design and primitive: the engine has tried them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thunderherd.catalogue import Runnable
from thunderherd.examination import Examination, Finding, Here, good, has, notable, setting, stops, sysctl

IO_URING = "kernel.io_uring_disabled"


def designs(here: Here) -> Iterator[Finding]:
    """Those that can run, and those that cannot."""
    yield from _of("design", here.catalogue.designs)


def primitives(here: Here) -> Iterator[Finding]:
    """The same."""
    yield from _of("primitive", here.catalogue.primitives)


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
        alike = [each for each in missing if (each.reason or "") == reason]
        rests_on = "; ".join(dict.fromkeys(each.source for each in alike if each.source))
        yield stops(
            f"no {kind}", ", ".join(each.name for each in alike), f"{reason}. What it rests on: {rests_on}"
        )


EXAMINATION = Examination(title="Designs and primitives", looks=(designs, primitives, io_uring))
