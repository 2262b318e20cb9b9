"""Files that are made once and kept for later commands, in the user's cache (XDG Base Directory
Specification): whoever deletes them loses nothing but time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["kept", "kept_folder"]


def kept_folder() -> Path:
    """Where they are, which need not be there yet. Raises RuntimeError where nobody knows where this user is
    at home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "thunderherd"


def kept(name: str, make: Callable[[], str]) -> str:
    """The text of this name, which is made where it is not kept yet. The name must tell all that the text
    depends on. A cache that cannot be read or written is done without."""
    try:
        folder = kept_folder()
        return (folder / name).read_text(encoding="utf-8")
    except RuntimeError:  # nobody knows where this user is at home
        return make()
    except (OSError, UnicodeDecodeError):
        text = make()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Under its name there is all of it, or nothing: another command may read it at any moment.
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            Path(beside, name).write_text(text, encoding="utf-8")
            Path(beside, name).replace(folder / name)
    except OSError:
        pass
    return text
