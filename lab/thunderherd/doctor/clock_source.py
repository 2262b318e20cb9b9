"""The kernel's clock source: every latency is the difference of two readings."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Examination, Finding, Here, good, notable, write
from thunderherd.machine import description

DIRECTORY = "sys/devices/system/clocksource/clocksource0"

READ_WITHOUT_A_CALL = (
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
)
"""Clock sources that a program reads without a system call (vdso(7)), in some 20 ns."""


def clock_source(here: Here) -> Iterator[Finding]:
    """Report the current clock source, and a better one if there is one."""
    current = description.text(f"{DIRECTORY}/current_clocksource")
    others = description.text(f"{DIRECTORY}/available_clocksource").split()
    if current in READ_WITHOUT_A_CALL:
        yield good("clock source", current, "read without a system call")
        return
    better = [each for each in READ_WITHOUT_A_CALL if each in others]
    change = [write(f"{DIRECTORY}/current_clocksource", each, current) for each in better[:1]]
    why = "" if better else ". The kernel has rejected tsc; `dmesg | grep -i tsc` shows the reason"
    yield notable(
        "clock source",
        current,
        "each reading is a system call of up to a microsecond, which adds to every latency and to the "
        f"clients' CPU time{why}",
        *tuple(change),
    )


EXAMINATION = Examination(title="Clock source", looks=(clock_source,))
