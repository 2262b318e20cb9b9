"""Which CPU and which queue of a network card receive the packets of a connection, if the kernel reports it.

The kernel notes the CPU of the last packet of a connection (SO_INCOMING_CPU), and the poller of the queue
that the packet came from (SO_INCOMING_NAPI_ID; socket(7)). A connection is opened to read both on both hosts.
"""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path

from thunderherd.hosts.cluster import HostPlace
from thunderherd.machine.description import cpu_list

SO_INCOMING_CPU, SO_INCOMING_NAPI_ID = 49, 56
"""Options of sockets that Python does not name (asm-generic/socket.h)."""
SECONDS = 5.0
"""The time limit of each step."""
PIECE = 1 << 15
"""The bytes that each side sends: more than one packet, and less than a socket's buffer."""
INTERFACES = Path("/sys/class/net")
INTERRUPTS = Path("/proc/irq")

_held: list[socket.socket] = []
"""The socket of this process between two steps."""


@dataclass(frozen=True)
class Received:
    """Where a side receives: the CPU, and the queue's poller by number. None: the kernel does not say."""

    cpu: int | None
    queue: int | None


def receivers(server: HostPlace, load: HostPlace, address: str) -> tuple[Received, Received]:
    """Return where the server's host receives from the load's host, and where the load's host receives."""
    port = server.ask(listen, address)
    load.ask(connect_and_send, address, port)
    of_server = server.ask(receive_and_reply)
    return of_server, load.ask(receive)


def listen(address: str) -> int:
    """Listen at an address of this host, and return the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    listener.settimeout(SECONDS)
    _hold(listener)
    return int(listener.getsockname()[1])


def connect_and_send(address: str, port: int) -> None:
    """Connect to a listener of `listen`, and send `PIECE` bytes."""
    connection = socket.create_connection((address, port), SECONDS)
    _hold(connection)
    connection.sendall(bytes(PIECE))


def receive_and_reply() -> Received:
    """Accept the connection, receive `PIECE` bytes, send as many back; return where they were received."""
    listener = _held.pop()
    with listener:
        connection, _ = listener.accept()
    with connection:
        connection.settimeout(SECONDS)
        found = _received(connection)
        connection.sendall(bytes(PIECE))
        # A connection that is closed with data to read is reset.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    return found


def receive() -> Received:
    """Receive what `receive_and_reply` has sent; return where."""
    with _held.pop() as connection:
        return _received(connection)


def interrupt_cpus(interface: str) -> list[int]:
    """Return the CPUs that serve the interrupts of a network card; empty if none are shown."""
    found: set[int] = set()
    for interrupt in sorted(INTERFACES.joinpath(interface, "device/msi_irqs").glob("*")):
        with contextlib.suppress(OSError, ValueError):
            listed = INTERRUPTS.joinpath(interrupt.name, "effective_affinity_list").read_text().strip()
            found.update(cpu_list(listed))
    return sorted(found)


def _received(connection: socket.socket) -> Received:
    left = PIECE
    while left and (piece := connection.recv(left)):
        left -= len(piece)
    return Received(_option(connection, SO_INCOMING_CPU), _option(connection, SO_INCOMING_NAPI_ID) or None)


def _option(connection: socket.socket, number: int) -> int | None:
    """Return an option of a socket; None if this kernel lacks it, or has no value for it."""
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, number)
    except OSError:
        return None
    return found if found >= 0 else None


def _hold(connection: socket.socket) -> None:
    """Keep a socket until the next step. One of an earlier attempt that failed is closed."""
    while _held:
        _held.pop().close()
    _held.append(connection)
