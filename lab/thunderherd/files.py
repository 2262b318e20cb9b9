"""Write files without following links, read only regular files, and make temporary folders.

A command may run as root in a folder of another user, who can put links, pipes and devices in its way.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

__all__ = [
    "LARGEST",
    "TEMPORARY",
    "UNFINISHED",
    "is_private",
    "make_folder",
    "no_formula",
    "open_for_appending",
    "open_regular",
    "read_bytes",
    "read_text",
    "replacing",
    "temporary_folder",
    "write_bytes",
    "write_new",
    "write_text",
]

LARGEST = 2**30
"""The largest file that is read, bytes."""
UNFINISHED = "*.unfinished"
"""The end of the name of a file that is being written."""
TEMPORARY = "thunderherd-tmp-"
"""The beginning of the name of a temporary folder."""


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
    if path.exists() and not path.is_symlink() and not path.is_file():
        # A device or a pipe would be gone, and /dev/null with it.
        raise OSError(errno.EEXIST, "it is not a regular file", str(path))
    # Nobody can guess the name, and two writers do not meet.
    unfinished = path.with_name(f".{path.name}.{UNFINISHED.replace('*', token_hex(8))}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(unfinished, flags, 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        # Writing to a descriptor names no file.
        if isinstance(error, OSError) and error.filename in (None, str(unfinished)):
            error.filename = str(path)
        raise
    _sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace a file."""
    write_bytes(path, text.encode())


def write_new(path: Path, content: bytes) -> None:
    """Write a new file; raise FileExistsError if there is one, or a link, even one that leads nowhere."""
    with path.open("xb") as file:
        file.write(content)


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


FORMULA = ("=", "+", "-", "@", "\t", "\r")


def no_formula(text: str) -> str:
    """Return a text for a field of CSV: a spreadsheet would compute one that begins like a formula."""
    if not text.startswith(FORMULA) or len(text) == 1:
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


# Temporary folders ------------------------------------------------------------------------------------------


@contextmanager
def temporary_folder(place: Path | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can enter, and remove it at the end.

    This process holds a lock on the folder (flock(2)), which the kernel releases even after SIGKILL. The next
    process that makes a folder in the same place removes those without a lock.

    Parameters
    ----------
    place
        Where the folder is made; by default, where the system has temporary files.
    """
    parent = str(place or tempfile.gettempdir())
    _sweep(parent)
    with ExitStack() as held:
        while True:
            made = tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=parent, ignore_cleanup_errors=True)
            folder = Path(held.enter_context(made))
            # Another process may sweep a folder that has no lock yet.
            with suppress(FileNotFoundError):
                descriptor = os.open(folder, FOLDER)
                held.callback(os.close, descriptor)
                # Where the file system has no locks, nothing is swept.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                if folder.exists():
                    break
        yield folder


FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a folder is opened. A link to one is refused."""


@cache
def _sweep(parent: str) -> None:
    """Remove the temporary folders of processes of this user that were killed."""
    for folder in Path(parent).glob(f"{TEMPORARY}*"):
        with suppress(OSError), ExitStack() as held:
            descriptor = os.open(folder, FOLDER)
            held.callback(os.close, descriptor)
            if os.fstat(descriptor).st_uid == os.geteuid():
                # Its process is alive if this raises BlockingIOError.
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)


# Whose a folder is ------------------------------------------------------------------------------------------


def is_private(folder: Path) -> bool:
    """True if no other user but root can change what is in a folder, or put another in its place.

    The folder itself need not exist.
    """
    places = {path for start in (folder.absolute(), folder.resolve()) for path in (start, *start.parents)}
    for place in places:
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        # In a user namespace, root of the machine is a user without a number.
        if found.st_uid not in (os.geteuid(), 0) and place != Path("/"):
            return False
        shared = stat.S_IWOTH | (0 if found.st_gid in _own_groups() else stat.S_IWGRP)
        # In a sticky folder such as /tmp, others cannot move what is not theirs.
        if stat.S_ISDIR(found.st_mode) and found.st_mode & shared and not found.st_mode & stat.S_ISVTX:
            return False
    return True


def _own_groups() -> set[int]:
    """Return root's group, and this user's own one if nobody else is in it."""
    found = {0}
    try:
        user = pwd.getpwuid(os.geteuid())
        if not {*grp.getgrgid(user.pw_gid).gr_mem} - {user.pw_name}:
            found.add(user.pw_gid)
    except KeyError:  # The user has no name.
        pass
    return found
