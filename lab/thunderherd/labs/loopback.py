"""Loopback: both sides in this process's network namespace, over its loopback interface."""

from __future__ import annotations

import socket
from functools import cache

from thunderherd.engine.catalogue import Catalogue
from thunderherd.labs.kind import Kind

CONNECT_SECONDS = 1.0
"""The time after which a connection over loopback is given up."""


class Loopback(Kind):
    """The kind of lab over the loopback interface, which is down in a new network namespace."""

    def unavailable(self, catalogue: Catalogue) -> str | None:
        return _no_connection(self.address)


@cache
def _no_connection(address: str) -> str | None:
    """Return why there is no connection to an address of this machine; None if there is."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.bind((address, 0))
            listener.listen(1)
            socket.create_connection(listener.getsockname(), CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or error
        return f"no connection to {address}: {why}; `ip link set lo up` turns the loopback interface on"
    return None


KIND = Loopback(
    name="loopback",
    summary="Server and clients in this network namespace, over its loopback interface",
    source="ip(7)",
    keys=("congestion",),
)
