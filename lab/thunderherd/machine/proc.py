"""The root of /proc, and the running kernel's configuration."""

from __future__ import annotations

import gzip
import platform
from functools import lru_cache
from pathlib import Path

PROC = Path("/proc")
"""Root of the kernel's figures; tests give another."""


@lru_cache(maxsize=1)
def kernel_configuration() -> str | None:
    """Return the running kernel's configuration, from the usual places; None if it is in none of them."""
    release = platform.release()
    try:
        return gzip.decompress((PROC / "config.gz").read_bytes()).decode()
    except (OSError, EOFError):
        pass
    for path in (f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        try:
            return Path(path).read_text()
        except OSError:
            continue
    return None
