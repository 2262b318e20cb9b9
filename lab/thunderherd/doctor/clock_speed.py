"""The speed of the CPUs, and whether it changes during a measurement."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Change, Examination, Finding, Here, below, exists, good, notable, write
from thunderherd.machine import description

CPUS = "sys/devices/system/cpu"
STEADY = "performance"


def governor(here: Here) -> Iterator[Finding]:
    """Report the frequency governor (Linux, Documentation/admin-guide/pm/cpufreq.rst)."""
    name, driver = description.governor("scaling_governor"), description.governor("scaling_driver")
    seen = f"{name} ({driver})"
    if name == STEADY:
        yield good("governor", seen, "full speed at any load")
        return
    path = f"{CPUS}/cpu*/cpufreq/scaling_governor"
    # If the CPUs differ, one command could not undo the change, so each CPU has its own.
    changes = [write(path, STEADY, name)] if ", " not in name else list(_one_by_one())
    yield notable(
        "governor",
        seen,
        "an idle CPU slows down and needs some milliseconds of work to speed up again. Work that sleeps "
        "often, such as round trips, then looks more expensive with any design",
        *changes,
    )


def _one_by_one() -> Iterator[Change]:
    """Yield one change for each CPU with another governor."""
    for path in below(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor"):
        if (now := description.text(path)) != STEADY:
            yield write(path, STEADY, now)


def turbo(here: Here) -> Iterator[Finding]:
    """Report whether a CPU may exceed its nominal speed for a while."""
    if not description.turbo():
        yield good("turbo", "off", "the speed does not depend on temperature")
        return
    intel = f"{CPUS}/intel_pstate/no_turbo"
    change = write(intel, "1", "0") if exists(intel) else write(f"{CPUS}/cpufreq/boost", "0", "1")
    yield notable(
        "turbo",
        "on",
        "the speed depends on temperature and on the number of busy CPUs: the first blocks of a run are "
        "faster than later ones, and one busy CPU is faster than two. Comparisons within a block are less "
        "affected, because its trials are seconds apart",
        change,
    )


EXAMINATION = Examination(title="Clock speed", looks=(governor, turbo))
