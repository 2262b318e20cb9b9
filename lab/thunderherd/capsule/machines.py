"""The differences between two machines, those that are likely to matter first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["MachineDifference", "changes", "machine_differences"]

MachineDifference = tuple[str, str, str]
"""Name, value there, value here."""

LIKELY = (
    "engine", "compiler", "cpu.model", "cpu.usable", "cpu.governor", "cpu.turbo", "cpu.threads_per_core",
    "cpu.megahertz",
    "hypervisor", "container", "control_group", "kernel", "mitigations", "kernel_parameters", "clock_source",
    "congestion_control", "loopback_mtu", "loopback_offloads", "labs", "sysctls", "transparent_hugepages",
    "libc", "limits", "servers",
)  # fmt: skip
"""Prefixes of names, those most likely to change results first. Other names come last."""
ALWAYS_DIFFERENT = ("unavailable", "memory_available", "load_average", "uptime", "passed_cases", "python")
"""Prefixes of names whose differences do not affect results."""
MACHINE_OF_HOST = re.compile(r"labs\..*\.machine\.")
"""The prefix of the names of a host's machine."""
OF_A_SESSION = re.compile(r"labs\..*\.(clock_ahead_ns|clock_error_ns|idle\.\w+)")
"""Names of what is measured of a host before each run."""
OF_ONE_MACHINE = {
    "cpu.model": "CPU",
    "cpu.usable": "usable CPUs",
    "cpu.governor": "governor",
    "hypervisor": "hypervisor",
    "kernel": "kernel",
    "congestion_control": "congestion control",
    "engine.sha256": "engine's hash",
}
"""Names whose values should not change on one machine, each with its words."""
LONGEST = 60


def machine_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[MachineDifference]:
    """Return the differences, those that are likely to matter first."""
    one, other = dict(_flat(there)), dict(_flat(here))
    found = [
        (name, _short(one.get(name)), _short(other.get(name)))
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name) and not _is_always_different(name)
    ]
    return sorted(found, key=lambda each: (_place(each[0]), each[0]))


def changes(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return what has changed on a machine between two sessions, in words."""
    one, other = dict(_flat(there)), dict(_flat(here))
    return [
        f"{words} {one.get(name, 'unknown')}, now {other.get(name, 'unknown')}"
        for name, words in OF_ONE_MACHINE.items()
        if one.get(name) != other.get(name)
    ]


def _is_always_different(name: str) -> bool:
    of_machine = MACHINE_OF_HOST.sub("", name).startswith(ALWAYS_DIFFERENT)
    return of_machine or OF_A_SESSION.fullmatch(name) is not None


def _place(name: str) -> int:
    return next((place for place, start in enumerate(LIKELY) if name.startswith(start)), len(LIKELY))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _short(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
