"""The engine's registries as it prints them, with what the laboratory has no use for, such as sources of
counters."""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from typing import Any

from thunderherd.engine.client import find_engine


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Any]:
    """`thunderherd-engine list --json`. What of it is of this machine belongs on no page."""
    told = subprocess.run([find_engine(), "list", "--json"], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found
