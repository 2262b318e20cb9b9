"""The address under which a server is reached for the measured traffic, and the route of a load to it.

It may differ from that for control: hosts have networks for management, and names that lead to those. Each
candidate is tried with a server and a request, from every host that will send load.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from thunderherd.engine.client import EngineError, Server, catalogue, start_load
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import DATA, host_of, listen_at
from thunderherd.hosts.cluster import HostLostError, HostPlace
from thunderherd.hosts.links import LOOPBACK

CONNECT_SECONDS = 2.0
"""The time after which a request is given up."""
MTU = {socket.AF_INET: (socket.IPPROTO_IP, 14), socket.AF_INET6: (socket.IPPROTO_IPV6, 24)}
"""The options that have the path MTU of a connected socket (IP_MTU, IPV6_MTU); Python does not name them."""
MOST = 8
"""The most addresses of a host that are tried."""


@dataclass(frozen=True)
class DataPath:
    """The address of the server for the measured traffic, and how it was found."""

    address: str
    found: str


def data_path(server: HostPlace, clients: Sequence[HostPlace]) -> DataPath:
    """Return the first address of the server's host that all hosts of the load reach.

    Raises `UserError` with what went wrong at each address.
    """
    named = server.there.address.data is not None
    failures: list[str] = []
    for address in candidates(server, clients):
        why = unreached(address, server, clients)
        if why is None:
            return DataPath(address, "as given" if named else "found by trying")
        failures.append(f"{address}: {why}")
    raise UserError(
        f"host {server.there.name} has no address that the load reaches ({'; '.join(failures) or 'none'})",
        code="hosts.no_path",
        hint=f"name one: {str(server.there.address).partition('?')[0]}?{DATA}=ADDRESS",
    )


def candidates(server: HostPlace, clients: Sequence[HostPlace]) -> Iterable[str]:
    """Return addresses of the server's host, those that are likely first."""
    if server.there.address.data is None and all(each.host == server.host for each in clients):
        return [LOOPBACK]
    return server.there.addresses[:MOST]


def unreached(address: str, server: HostPlace, clients: Sequence[HostPlace]) -> str | None:
    """Return why a server at an address is not reached by every host of the load; None if it is."""
    usual = catalogue(server.local_engine).defaults
    try:
        with Server(
            usual.design, workload=usual.workload, listen=listen_at(address), place=server
        ) as listening:
            for each in dict.fromkeys(clients):
                why = _unreached_from(each, listening.ready.address, usual.workload)
                if why is not None:
                    told = down_or_dropped(server, listening.ready.address)
                    return f"from {each.there.name}: {why}; {told}"
            listening.stop()
    except HostLostError:
        raise
    except (EngineError, UserError) as error:
        return str(error)
    return None


def _unreached_from(client: HostPlace, address: str, workload: str) -> str | None:
    settings = {"children": 1, "loops": 1, "timeout": int(CONNECT_SECONDS * 1e9)}
    running = start_load(workload, address, settings=settings, place=client)
    try:
        result = running.wait(3 * CONNECT_SECONDS)
    finally:
        running.end()
    if result.tally.requests == 1:
        return None
    return result.first_error or "no reply"


def down_or_dropped(server: HostPlace, address: str) -> str:
    """Return what keeps a load from reaching HOST:PORT of a server: its host is asked to connect, too."""
    if server.ask(answers, address):
        return "the server answers on its own host: a firewall drops the packets, or there is no route"
    return "the server does not answer on its own host either"


def answers(address: str) -> bool:
    """True if somebody accepts connections at HOST:PORT of this machine."""
    try:
        socket.create_connection((host_of(address), int(address.rpartition(":")[2])), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class Route:
    """The route of a host to an address: the interface, the path MTU in bytes, the link speed in Mbit/s.

    None: the host does not know it.
    """

    interface: str | None
    mtu: int | None
    link_megabits: int | None


def route_to(address: str) -> Route:
    """Return this machine's route to an address."""
    import psutil

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        # A datagram socket sends nothing when it is connected.
        asked.connect((address, 9))
        own = asked.getsockname()[0]
        mtu = asked.getsockopt(*MTU[family])
    names = [
        name
        for name, of in psutil.net_if_addrs().items()
        if own in {each.address.partition("%")[0] for each in of}
    ]
    speed = psutil.net_if_stats()[names[0]].speed if names else 0
    return Route(names[0] if names else None, mtu, speed or None)
