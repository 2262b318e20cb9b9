"""Files that commands keep for later commands, in the user's cache (XDG Base Directory Specification).

Deleting them costs only time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["kept", "kept_folder"]


def kept_folder() -> Path:
    """The folder of the cache, which may not exist yet. Raises RuntimeError if the user has no home
    directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "thunderherd"


def kept(name: str, make: Callable[[], str]) -> str:
    """The kept text of this name; made and kept if it does not exist.

    The name must identify everything that the text depends on. A cache that cannot be read or written is
    ignored.
    """
    try:
        folder = kept_folder()
        return (folder / name).read_text(encoding="utf-8")
    except RuntimeError:  # The user has no home directory.
        return make()
    except (OSError, UnicodeDecodeError):
        text = make()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another command may read it at any moment, and must see all or nothing.
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            Path(temporary, name).write_text(text, encoding="utf-8")
            Path(temporary, name).replace(folder / name)
    except OSError:
        pass
    return text
