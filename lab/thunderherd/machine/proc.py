"""The root of /proc, how its tables are read, and the running kernel's configuration.

Names in these tables are those that other programs choose: of processes, mount points, control groups, users.
They may have any bytes. A process's name also ends within a character if that is where its 15 bytes end.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
from functools import lru_cache
from pathlib import Path

PROC = Path("/proc")
"""Root of the kernel's figures; tests give another."""


def text(path: Path) -> str:
    """Return a table of the kernel.

    Its bytes are those of paths (`os.fsdecode`), and no line end but \\n is one: a name may have a \\r.
    """
    return os.fsdecode(path.read_bytes())


def lines(path: Path) -> list[str]:
    """Return the lines of such a table."""
    return text(path).split("\n")


def sysctl(name: str) -> str:
    """Return a kernel setting by its sysctl(8) name."""
    return (PROC / "sys" / name.replace(".", "/")).read_text(encoding="utf-8").strip()


def stat_fields(process: int) -> list[str]:
    """Return what follows the name in /proc/PID/stat, from field 3 on (proc_pid_stat(5))."""
    stat = (PROC / str(process) / "stat").read_bytes()
    # The name, in parentheses, may have parentheses itself.
    return stat.rpartition(b")")[2].decode("ascii").split()


ESCAPE = re.compile(r"\\([01][0-7]{2})")


def unescaped(field: str) -> str:
    """Return a path from a table of mounts.

    The kernel writes blanks, tabs, line ends and backslashes there as octal numbers (proc_pid_mounts(5)).
    """
    return ESCAPE.sub(lambda found: chr(int(found[1], 8)), field)


@lru_cache(maxsize=1)
def kernel_configuration() -> str | None:
    """Return the running kernel's configuration, from the usual places; None if it is in none of them."""
    release = platform.release()
    try:
        return gzip.decompress((PROC / "config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError):
        pass
    for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None
