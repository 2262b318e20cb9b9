"""TCP sockets of the kernel, by sock_diag(7).

The kernel filters them in its table. /proc/net/tcp would print every socket, including all in TIME_WAIT.
Answers are for the network namespace of the calling process.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

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
    """Yield the IPv4 and IPv6 sockets in a state, filtered by ports that are not 0.

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
        while True:
            answer = kernel.recv(1 << 16)
            while len(answer) >= 16:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == DONE:
                    return
                if kind == FAILED:
                    code = -struct.unpack_from("=i", answer, 16)[0]
                    raise OSError(code, f"sock_diag: {os.strerror(code)}")
                # struct inet_diag_msg follows the header: four bytes, both ends (48), and five numbers.
                (own,) = struct.unpack_from(">H", answer, 16 + 4)
                (inode,) = struct.unpack_from("=I", answer, 16 + 4 + 48 + 16)
                yield TcpSocket(own, inode)
                answer = answer[(length + 3) & ~3 :]
