"""How fast the CPUs run, and whether that changes while something is measured."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Change, Examination, Finding, Here, below, exists, good, notable, write
from thunderherd.machine import description

CPUS = "sys/devices/system/cpu"
STEADY = "performance"


def governor(here: Here) -> Iterator[Finding]:
    """Who chooses the speed of a CPU (Linux, Documentation/admin-guide/pm/cpufreq.rst)."""
    name, driver = description.governor("scaling_governor"), description.governor("scaling_driver")
    seen = f"{name} ({driver})"
    if name == STEADY:
        yield good("governor", seen, "as fast as may be, at any load")
        return
    path = f"{CPUS}/cpu*/cpufreq/scaling_governor"
    # Where the CPUs differ, no one word puts all of them back: then each has a line of its own.
    changes = [write(path, STEADY, name)] if ", " not in name else list(_one_by_one())
    yield notable(
        "governor",
        seen,
        "a CPU that waits slows down, and speeds up again after some milliseconds of work: what sleeps "
        "often, as round trips do, costs more than where it never waits, whichever design it is",
        *changes,
    )


def _one_by_one() -> Iterator[Change]:
    for path in below(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor"):
        if (now := description.text(path)) != STEADY:
            yield write(path, STEADY, now)


def turbo(here: Here) -> Iterator[Finding]:
    """Whether a CPU may run faster than its nominal speed for a while."""
    if not description.turbo():
        yield good("turbo", "off", "the speed does not depend on the heat")
        return
    intel = f"{CPUS}/intel_pstate/no_turbo"
    change = write(intel, "1", "0") if exists(intel) else write(f"{CPUS}/cpufreq/boost", "0", "1")
    yield notable(
        "turbo",
        "on",
        "how fast a CPU runs depends on the heat and on how many others work: the first blocks of a run are "
        "faster than later ones, and one busy CPU is faster than two. Blocks compare what ran within seconds",
        change,
    )


EXAMINATION = Examination(title="Clock speed", looks=(governor, turbo))
