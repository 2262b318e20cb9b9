"""Files that commands keep for later commands, in the user's cache (XDG Base Directory Specification).

Deleting them costs only time. Some are programs, so a cache that another user can change is not used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.files import is_private, read_text, temporary_folder

__all__ = ["UnsafeFolderError", "kept", "kept_folder", "own_folder"]


class UnsafeFolderError(UserError):
    """There is no folder that only this user can change."""


def own_folder(variable: str, usual: str) -> Path:
    """Return this program's folder below that of a variable of the environment; it does not exist
    if it cannot be made.

    Raises
    ------
    UnsafeFolderError
        The user has no home directory, or another user can change the folder.
    """
    hint = f"set {variable} to a folder that only you can change"
    try:
        found = Path(os.environ.get(variable) or usual).expanduser() / "thunderherd"
    except RuntimeError:
        raise UnsafeFolderError(
            "this user has no home directory", code="cache.no_home", hint=hint, where=usual
        ) from None
    # Made now, so that nobody else makes it after it was looked at.
    with suppress(OSError):
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(found):
        raise UnsafeFolderError(
            "another user can change this folder", code="cache.not_private", hint=hint, where=str(found)
        )
    return found


def kept_folder() -> Path:
    """Return the folder of the cache, which may not exist yet. Raises `UnsafeFolderError`."""
    return own_folder("XDG_CACHE_HOME", "~/.cache")


def kept(name: str, make: Callable[[], str]) -> str:
    """The kept text of this name; made and kept if it does not exist.

    The name must identify everything that the text depends on. A cache that cannot be read or written is
    ignored.
    """
    try:
        folder = kept_folder()
    except UnsafeFolderError:
        return make()
    try:
        return read_text(folder / name)
    except (OSError, UnicodeDecodeError):
        text = make()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another command may read it at any moment, and must see all or nothing.
        with temporary_folder(folder) as temporary:
            (temporary / name).write_text(text, encoding="utf-8")
            (temporary / name).replace(folder / name)
    except OSError:
        pass
    return text
