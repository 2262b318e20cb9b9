"""The processes that run a copy of the engine."""

from __future__ import annotations

from pathlib import Path


def processes_of(engine: Path) -> dict[int, str]:
    """The processes that run this engine file, by process id: their command lines. Zombies do not count."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "exe").readlink() == engine:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found
