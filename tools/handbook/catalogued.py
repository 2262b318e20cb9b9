"""The engine's registries as it prints them.

The lab's model of them leaves out what only pages need, such as the sources of counters.
"""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from typing import Any

from thunderherd.engine.client import find_engine


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Any]:
    """Run `thunderherd-engine list --json`. No page may show facts about this machine."""
    done = subprocess.run([find_engine(), "list", "--json"], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
