"""What the kernel tells of TCP sockets by sock_diag(7): it filters, where /proc/net/tcp prints every socket
there is, those that wait among them, and looks for them in all of its table.

It answers for the network namespace of whoever asks.
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
"""Kinds of answers of every netlink family (linux/netlink.h): NLMSG_DONE and NLMSG_ERROR."""
ANSWER_SECONDS = 5.0


class State(IntEnum):
    """States of a TCP socket (net/tcp_states.h)."""

    TIME_WAIT = 6
    LISTEN = 10


@dataclass(frozen=True)
class TcpSocket:
    """One that was found: the port of its own end, and its inode, which is 0 where no file belongs to it."""

    port: int
    inode: int


def tcp_sockets(state: State, port: int = 0, peer_port: int = 0) -> Iterator[TcpSocket]:
    """The sockets of IPv4 and IPv6 in a state; a port that is not 0 is a filter. Raises `OSError` where the
    kernel does not answer."""
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
                # struct inet_diag_msg, behind the header: four bytes, both ends (48), and five numbers.
                (own,) = struct.unpack_from(">H", answer, 16 + 4)
                (inode,) = struct.unpack_from("=I", answer, 16 + 4 + 48 + 16)
                yield TcpSocket(own, inode)
                answer = answer[(length + 3) & ~3 :]
