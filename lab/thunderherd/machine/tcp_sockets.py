"""TCP sockets, local ports, sockets in TIME_WAIT, and TCP's counts of retransmissions and drops."""

from __future__ import annotations

import errno
import operator
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from itertools import chain
from pathlib import Path

from thunderherd.machine import proc

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST_AND_DUMP = 0x301
DONE, FAILED = 3, 2
"""Message types of every netlink family (linux/netlink.h): NLMSG_DONE and NLMSG_ERROR."""
ANSWER_SECONDS = 5.0


class State(IntEnum):
    """States of a TCP socket (net/tcp_states.h)."""

    TIME_WAIT = 6
    LISTEN = 10


@dataclass(frozen=True)
class TcpSocket:
    """A socket: the port of its own end, and its inode (0 if no file refers to it)."""

    port: int
    inode: int


def tcp_sockets(state: State, port: int = 0, peer_port: int = 0) -> Iterator[TcpSocket]:
    """Yield the IPv4 and IPv6 sockets in a state, filtered by ports that are not 0, by sock_diag(7).

    The kernel filters them in its table. /proc/net/tcp would print every socket, including all in TIME_WAIT.
    The sockets are those of this process's network namespace.

    Raises `OSError` if the kernel does not answer.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        yield from _of_family(family, state, port, peer_port)


def _of_family(family: int, state: State, port: int, peer_port: int) -> Iterator[TcpSocket]:
    # struct inet_diag_req_v2 (linux/inet_diag.h); ports in network order.
    ends = struct.pack(">HH", port, peer_port) + bytes(32) + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 1 << state) + ends
    header = struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_AND_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(ANSWER_SECONDS)
        kernel.send(header + request)
        more = True
        while more:
            found, more = sockets_in(kernel.recv(1 << 16))
            yield from found


HEAD = struct.Struct("=IH10x")
"""The length and type of a message (struct nlmsghdr)."""
SOCKET = struct.Struct("=4x2s46x16xI")
"""The port and inode of a socket (struct inet_diag_msg): four bytes, both ends (48), and five numbers."""


def sockets_in(answer: bytes) -> tuple[list[TcpSocket], bool]:
    """Return the sockets of an answer of sock_diag, and whether more of them follow in another one.

    Raises `OSError` if the kernel refuses, or if that is no such answer.
    """
    found: list[TcpSocket] = []
    while answer:
        try:
            length, kind = HEAD.unpack_from(answer)
            if kind == DONE:
                return found, False
            if kind == FAILED:
                (code,) = struct.unpack_from("=i", answer, HEAD.size)
                raise OSError(abs(code), f"sock_diag: {os.strerror(abs(code))}")
            port, inode = SOCKET.unpack_from(answer, HEAD.size)
        except (struct.error, OverflowError) as error:
            raise OSError(errno.EBADMSG, f"sock_diag: {error}") from None
        found.append(TcpSocket(int.from_bytes(port, "big"), inode))
        answer = answer[max(HEAD.size, (length + 3) & ~3) :]
    return found, True


# Figures of a network namespace


def local_ports() -> int:
    """Return the number of ports that the kernel may choose for a connection (`ip_local_port_range`)."""
    low, high = (proc.PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(high) - int(low) + 1


OWN_NETWORK = proc.PROC / "self/net"
"""The network namespace of this process in /proc; /proc/PID/net is that of another process."""


@dataclass(frozen=True)
class TcpCounts:
    """Segments that a network namespace has retransmitted, and connections that its listeners dropped."""

    segments: int
    """All retransmitted segments, `RetransSegs` of RFC 4022."""
    syns: int
    """The SYNs among them. The kernel first retransmits a SYN after a second without an answer."""
    dropped: int
    """Connections that a listener dropped, mostly because its queue was full."""

    def __add__(self, other: TcpCounts) -> TcpCounts:
        """Return the counts of two network namespaces together."""
        return TcpCounts(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, earlier: TcpCounts) -> TcpCounts:
        """Return what has happened since."""
        return TcpCounts(*map(operator.sub, astuple(self), astuple(earlier)))


def tcp_counts(networks: Sequence[Path] = (OWN_NETWORK,)) -> TcpCounts | None:
    """Return the counts of network namespaces (`/proc/PID/net`) together.

    None without a namespace, and if the kernel does not show all of them.
    """
    found = TcpCounts(0, 0, 0)
    try:
        for network in networks:
            basic, more = _figures(network / "snmp", "Tcp"), _figures(network / "netstat", "TcpExt")
            found += TcpCounts(basic["RetransSegs"], more["TCPSynRetrans"], more["ListenDrops"])
    except (OSError, KeyError, ValueError):
        return None
    return found if networks else None


def _figures(table: Path, protocol: str) -> dict[str, int]:
    """Return a protocol's figures by name: a line of names, and a line of values."""
    names, values = (
        line.split()[1:] for line in table.read_text().splitlines() if line.startswith(f"{protocol}:")
    )
    return dict(zip(names, map(int, values), strict=True))


def time_wait_count(network: Path = OWN_NETWORK) -> int:
    """Return the number of sockets in TIME_WAIT in a network namespace (`/proc/PID/net/sockstat`)."""
    for line in (network / "sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            return int(words[words.index("tw") + 1])
    return 0


def time_wait_limit() -> int:
    """Return the maximum number of sockets in TIME_WAIT (`tcp_max_tw_buckets`); others are dropped."""
    return int((proc.PROC / "sys/net/ipv4/tcp_max_tw_buckets").read_text())


def time_wait_of_port(port: int) -> int:
    """Return the number of sockets in TIME_WAIT with `port` at either end, in this network namespace.

    Only these can prevent connections to that port.
    """
    both = chain(tcp_sockets(State.TIME_WAIT, port=port), tcp_sockets(State.TIME_WAIT, peer_port=port))
    return sum(1 for _ in both)


def time_wait_listed(network: Path, port: int) -> int:
    """Return the number of sockets in TIME_WAIT with `port` at either end, in any network namespace.

    `network` is its /proc/PID/net. The kernel prints every socket there, so this suits a namespace made for a
    run, in which all sockets belong to the run.
    """
    count = 0
    for table in ("tcp", "tcp6"):
        path = network / table
        if not path.exists():
            continue  # No IPv6.
        for line in path.read_text(encoding="ascii").splitlines()[1:]:
            _number, local, remote, state, *_rest = line.split()
            ports = {int(end.rpartition(":")[2], 16) for end in (local, remote)}
            count += int(state, 16) == State.TIME_WAIT and port in ports
    return count
