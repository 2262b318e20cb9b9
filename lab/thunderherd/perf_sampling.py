"""Whether the kernel takes samples of where time goes (perf_event_open(2)): it is asked for an event, which
is closed at once."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
"""The number of perf_event_open, by machine (syscalls(2))."""
SOFTWARE, CPU_CLOCK = 1, 0
HERTZ = 99
DISABLED, EXCLUDE_HYPERVISOR, FREQUENCY = 1 << 0, 1 << 6, 1 << 10
CLOSE_ON_EXEC = 8
SAMPLE_INSTRUCTION = 1


def refusal() -> str | None:
    """Why this process may not sample itself and the kernel on cpu-clock, which needs no processor's
    counters; None: it may."""
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        return f"the number of perf_event_open is not known for {platform.machine()}"
    # struct perf_event_attr (linux/perf_event.h) in its first size, 64 bytes.
    flags = DISABLED | EXCLUDE_HYPERVISOR | FREQUENCY
    attribute = struct.pack(
        "=IIQQQQQIIQ", SOFTWARE, 64, CPU_CLOCK, HERTZ, SAMPLE_INSTRUCTION, 0, flags, 0, 0, 0
    )
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(
        ctypes.c_long(number), ctypes.c_char_p(attribute), 0, ctypes.c_int(-1), ctypes.c_int(-1),
        ctypes.c_ulong(CLOSE_ON_EXEC),
    )  # fmt: skip
    if descriptor < 0:
        return f"perf_event_open: {os.strerror(ctypes.get_errno())}"
    os.close(descriptor)
    return None
