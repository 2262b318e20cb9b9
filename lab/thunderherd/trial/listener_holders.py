"""Counts the processes of a server that hold its listener: the reference count that textbooks describe.

A listener belongs to an open file. Each process forked later has a descriptor of that file (fork(2)), and the
file is closed with the last of them. The kernel does not report that count, but /proc shows whose descriptors
they are (proc(5), /proc/PID/fd). Threads share the descriptors of their process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from thunderherd.labs.words import UNIX_ADDRESS
from thunderherd.machine.tcp_sockets import State, tcp_sockets

PROC = Path("/proc")
ACCEPTS = 0x10000
"""The flag of a listener in /proc/net/unix (linux/net.h, __SO_ACCEPTCON)."""


def holders_of_listener(server_pid: int, address: str) -> int | None:
    """Count `server_pid` and its descendants that have a descriptor of a socket listening at `address`.

    The address is HOST:PORT or unix:@NAME. None if /proc does not show descriptors, or if there is no such
    socket.
    """
    try:
        name = address.removeprefix(UNIX_ADDRESS)
        inodes = set(
            _listening_unix(server_pid, name) if name != address else _listening_at(server_pid, address)
        )
    except OSError:
        return None
    sockets = {f"socket:[{inode}]" for inode in inodes}
    if not sockets:
        return None
    try:
        return sum(not sockets.isdisjoint(_descriptors(pid)) for pid in tree(server_pid))
    except PermissionError:
        return None


def is_listening(pid: int, port: int | None = None) -> bool:
    """True if any TCP socket listens in the network namespace of a process, on `port` if given.

    False if the process is gone. This asks the kernel and connects to nothing: some servers would take the
    first connection for their client's.
    """
    try:
        return any(port in (None, listened) for listened, _ in _listening(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _listening_at(pid: int, address: str) -> Iterator[int]:
    """Yield the inodes of the sockets that listen on the port of an address."""
    port = int(address.rpartition(":")[2])
    return (inode for listened, inode in _listening(pid) if listened == port)


def _listening(pid: int) -> Iterator[tuple[int, int]]:
    """Yield port and inode of each TCP socket that listens in the network namespace of a process."""
    own, its = (PROC / of / "ns/net" for of in ("self", str(pid)))
    if its.exists() and its.samefile(own):
        yield from ((found.port, found.inode) for found in tcp_sockets(State.LISTEN))
        return
    for table in ("tcp", "tcp6"):
        path = PROC / str(pid) / "net" / table
        lines = path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else []
        for fields in map(str.split, lines):
            if int(fields[3], 16) == State.LISTEN:
                yield int(fields[1].rpartition(":")[2], 16), int(fields[9])


def _listening_unix(pid: int, name: str) -> Iterator[int]:
    """Yield the inodes of the listening Unix sockets of this name.

    Accepted connections have the same name and are left out. Any process may bind a name of any bytes, line
    ends among them: a line that is no row of the table is skipped.
    """
    wanted = name.encode(errors="surrogateescape")
    for line in (PROC / str(pid) / "net/unix").read_bytes().split(b"\n")[1:]:
        fields = line.split(maxsplit=7)
        if fields[7:] != [wanted]:
            continue
        try:
            flags, inode = int(fields[3], 16), int(fields[6])
        except ValueError:
            continue
        if flags & ACCEPTS:
            yield inode


def tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants; children belong to the thread that forked them."""
    yield pid
    for children in (PROC / str(pid) / "task").glob("*/children"):
        try:
            found = children.read_text(encoding="ascii").split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended.
        for child in found:
            yield from tree(int(child))


def _descriptors(pid: int) -> Iterator[str]:
    """Yield the targets of a process's descriptors; nothing if the process has ended."""
    try:
        descriptors = list((PROC / str(pid) / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for descriptor in descriptors:
        try:
            yield str(descriptor.readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue
