"""Files of other users and of other kinds: written through no link and never half, read if they are regular.

A command may run as root in a folder of another user, who can put links, pipes and devices in its way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "LARGEST",
    "is_private",
    "make_folder",
    "open_for_appending",
    "open_regular",
    "read_bytes",
    "read_text",
    "replacing",
    "write_bytes",
    "write_text",
]

LARGEST = 2**30
"""The largest file that is read, bytes."""


# Reading ----------------------------------------------------------------------------------------------------


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise OSError for any other.

    A pipe would wait for its writer, and a device may have no end.
    """
    # Without O_NONBLOCK, opening a pipe waits.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    _check_regular(descriptor, path)
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Return the content of a regular file of at most `most` bytes; raise OSError for any other."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes (allowed: {most:,})", str(path))
        # It may be growing.
        return file.read(most)


def read_text(path: Path, most: int = LARGEST, encoding: str = "utf-8") -> str:
    """Return the text of such a file, with \\n as its line ends; raise UnicodeDecodeError if it has none."""
    text = read_bytes(path, most).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


# Writing ----------------------------------------------------------------------------------------------------


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` at the end: a reader, or a crash, has the old file or the new."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    # What an earlier process left, or what somebody else has put there.
    unfinished.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace a file."""
    write_bytes(path, text.encode())


def open_for_appending(path: Path) -> int:
    """Return a descriptor that appends to a regular file, which is made if there is none.

    Raises OSError if the path is a link or anything else.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    _check_regular(descriptor, path)
    _sync(path.parent)
    return descriptor


def _check_regular(descriptor: int, path: Path) -> None:
    """Close a descriptor and raise OSError unless it is of a regular file."""
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        why = os.strerror(number) if stat.S_ISDIR(kind) else "not a regular file"
        raise OSError(number, why, str(path))


def make_folder(path: Path) -> None:
    """Make a folder unless it exists; raise OSError if the path is a link or anything else."""
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a link, not a folder", str(path))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Whose a folder is ------------------------------------------------------------------------------------------


def is_private(folder: Path) -> bool:
    """True if no other user but root can change what is in a folder, or put another in its place.

    The folder itself need not exist.
    """
    # In a user namespace, root of the machine has another number; whoever owns / has everything.
    mine = (os.geteuid(), 0, Path("/").stat().st_uid)
    places = {path for start in (folder.absolute(), folder.resolve()) for path in (start, *start.parents)}
    for place in places:
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        others_may_write = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH
        # In a sticky folder such as /tmp, others cannot move what is not theirs.
        if found.st_uid not in mine or (others_may_write and not found.st_mode & stat.S_ISVTX):
            return False
    return True
