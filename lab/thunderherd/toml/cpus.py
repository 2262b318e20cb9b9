"""Lists of CPUs as users write them: `0-3,6`, as taskset(1) and the engine's --cpus have them."""

from __future__ import annotations

import re

__all__ = ["CPU_LIST", "cpus_of", "without_ranges"]

CPU_LIST = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
"""A list of CPU numbers and ranges."""

MOST = 1 << 16
"""The most CPUs of a range."""


def cpus_of(text: str) -> list[int]:
    """Reads `0-3,6` as [0, 1, 2, 3, 6], in the typed order. Raises `ValueError` for other texts."""
    if not CPU_LIST.fullmatch(text):
        raise ValueError(f"{text!r} is no list of CPUs")
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not low <= high <= low + MOST:
            raise ValueError(f"{part!r} is no range of CPUs")
        found += range(low, high + 1)
    return found


def without_ranges(value: object) -> object:
    """Returns a text that is a list of CPUs as a list of numbers, and any other value as it is."""
    try:
        return cpus_of(value) if isinstance(value, str) else value
    except ValueError:
        return value
