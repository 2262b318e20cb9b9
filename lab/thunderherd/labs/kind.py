"""A kind of lab, and a site: the place where the server and the clients of a trial run.

The base classes describe a lab in this process's network namespace. Other kinds (`labs/`) inherit from them
and override what differs. Other code never compares the name of a kind.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from thunderherd.engine.catalogue import Catalogue, CongestionControls, Setting
from thunderherd.engine.lines import Ready
from thunderherd.engine.places.place import Place
from thunderherd.labs.words import UNIX_ADDRESS, Ends
from thunderherd.machine import noise, proc, tcp_sockets

Role = Literal["server", "load"]
ROLES: tuple[Role, Role] = ("server", "load")

LOOK_SECONDS = 0.01
"""The time between two checks whether a site still exists."""


@dataclass(frozen=True)
class HostFacts:
    """A host of a site: its roles, and its clock compared with this machine's. `boot` is its machine.

    `is_elsewhere` is false if its address says that it is on this machine.
    """

    host: str
    is_elsewhere: bool
    roles: tuple[Role, ...]
    boot: str
    clock_ahead_ns: int
    clock_error_ns: int


@dataclass(frozen=True)
class Kind:
    """A kind of lab, with everything that distinguishes it from others.

    `keys` are the keys of [lab] that the kind takes, except the placement on CPUs. `address` is that of the
    server, without a port. With `has_tcp`, sockets have ports and the settings of TCP. With `has_namespaces`,
    each side has its own network namespace, which a process of the engine holds; `cli.labs` starts and joins
    servers there for `serve --lab` and `load --lab`. With `reaches_hosts`, the study names the hosts of both
    sides.
    """

    name: str
    summary: str
    source: str
    keys: tuple[str, ...]
    address: str = "127.0.0.1"
    has_tcp: bool = True
    has_namespaces: bool = False
    reaches_hosts: bool = False

    @property
    def is_here(self) -> bool:
        """True if both sides are in this process's network namespace."""
        return not (self.has_namespaces or self.reaches_hosts)

    @property
    def listen(self) -> str:
        """The address to listen on, with a port or name of the kernel's choice."""
        return f"{self.address}:0" if self.has_tcp else self.address

    @property
    def takes(self) -> str:
        """The form of its addresses in options."""
        return "HOST:PORT" if self.has_tcp else f"{UNIX_ADDRESS}@NAME"

    def may_have(self, address: str) -> bool:
        """True if an address has the form of this kind's addresses."""
        return address.startswith(UNIX_ADDRESS) != self.has_tcp

    def unavailable(self, catalogue: Catalogue) -> str | None:
        """Return why this machine cannot have such a lab; None if it can."""
        return None

    def settings(self, catalogue: Catalogue) -> dict[str, Setting]:
        """Return the engine's settings of what joins both sides, by name; the `QUANTITIES` are their keys."""
        return {}

    def least(self, catalogue: Catalogue, setting: str) -> int:
        """Return the smallest allowed value above 0 of one of these settings; 0 stands for none."""
        return 1

    def unavailable_settings(self, catalogue: Catalogue) -> Mapping[str, str]:
        """Return the settings that this machine does not have, with the reasons."""
        return {}

    def congestion_controls(self, controls: CongestionControls) -> tuple[str, ...]:
        """Return the congestion controls that its sockets may use."""
        return controls.allowed

    def local_ports(self, catalogue: Catalogue) -> int | None:
        """Return how many local ports the clients' connections can use; None if they use none."""
        return tcp_sockets.local_ports()

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None, ends: Ends) -> Iterator[Site]:
        """Make the site for a run, and keep it until the block ends. Main thread only.

        Parameters
        ----------
        settings
            The settings of what joins both sides.
        engine
            The engine that makes namespaces and interfaces; None: the usual one.
        ends
            The hosts of both sides.

        Raises
        ------
        UserError
            This machine cannot make the site.
        """
        yield Site(self, engine)


class Site:
    """The place of trials: this process's network namespace."""

    def __init__(self, kind: Kind, engine: Path | None = None) -> None:
        self.server = Place(engine)
        """Where the server runs."""
        self.clients: tuple[Place, ...] = (self.server,)
        """Where the load processes run, in turn."""
        self.title = kind.name
        """The lab in words."""
        self.address = kind.address
        """The server's address without a port."""
        self.listen = kind.listen
        """The address on which a server listens."""

    @property
    def machines(self) -> tuple[Place, ...]:
        """A place on each machine of the site, that of the server first."""
        found: dict[str, Place] = {}
        for each in (self.server, *self.clients):
            found.setdefault(each.host, each)
        return tuple(found.values())

    def samples(self, ready: Ready | None = None) -> tuple[noise.Sample, ...]:
        """Sample the noise of each machine outside the server; without `ready`, there is no server."""
        supervisor, server = (ready.supervisor_pid, ready.server_pid) if ready else (None, None)
        networks = self.networks(ready)
        first, *others = self.machines
        return noise.of_machines(
            [
                first.ask(noise.sample, supervisor, networks, server),
                *(each.ask(noise.sample, None, networks) for each in others),
            ]
        )

    def hosts(self) -> tuple[HostFacts, ...]:
        """Return the hosts of both sides, that of the server first; none if both are on this machine."""
        return ()

    def is_of_server(self, host: str) -> bool:
        """True if the host of a running server's URL is that of the server."""
        return True

    def why_unreached(self, client: Place, address: str) -> str:
        """Return why no client at a place could connect to HOST:PORT of the server; empty if nobody knows."""
        return ""

    def warnings(self) -> list[str]:
        """Return what disturbs trials here."""
        return []

    def sysctl(self, name: str) -> str:
        """Return a kernel setting of the server's network by its sysctl(8) name."""
        return proc.sysctl(name)

    def check(self) -> None:
        """Raise `UserError` if the site no longer exists."""

    def check_for(self, seconds: float) -> None:
        """Repeat `check` for `seconds`: calls may fail before `check` notices that a namespace has gone."""
        if self.server.network_namespace is None:
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            time.sleep(LOOK_SECONDS)

    def facts(self) -> dict[str, Any]:
        """Return what a run records about the site, as JSON data."""
        return {"address": self.address}

    def local_ports(self) -> int | None:
        """Return how many local ports the clients' connections can use; None if they use none."""
        return tcp_sockets.local_ports()

    def networks(self, ready: Ready | None) -> tuple[Path, ...]:
        """Return the /proc/PID/net folders of the network namespaces of both sides, each once.

        Empty without TCP, and for kinds that find the namespaces only through a running server.
        """
        return (tcp_sockets.OWN_NETWORK,)

    def time_wait(self, ready: Ready) -> int:
        """Return the number of sockets in TIME_WAIT on both sides."""
        return tcp_sockets.time_wait_count()

    def time_wait_in_the_way(self, ready: Ready) -> int:
        """Return how many sockets in TIME_WAIT block ports for connections to this server."""
        return tcp_sockets.time_wait_of_port(ready.port) if ready.port is not None else 0

    def time_wait_limit(self) -> int:
        """Return the maximum number of sockets in TIME_WAIT that the kernel keeps."""
        return tcp_sockets.time_wait_limit()
