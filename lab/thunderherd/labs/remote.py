"""Remote: server and load on other machines, over SSH or Dask, or in network namespaces of this one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thunderherd.engine.lines import Ready
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER, THIS, listen_at, parse_host
from thunderherd.labs.kind import Kind, Site
from thunderherd.labs.words import Ends, in_words
from thunderherd.machine import noise, proc, tcp_sockets

if TYPE_CHECKING:
    from thunderherd.hosts.cluster import Cluster, HostPlace
    from thunderherd.hosts.paths import DataPath

EXTRA = "thunderherd[cluster]"
"""What has to be installed: this program with its optional dependencies."""


def check_cluster() -> None:
    """Raise `UserError` if the libraries for several hosts are not installed."""
    missing = [name for name in ("distributed", "cryptography") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"several hosts need {' and '.join(missing)}, which is not installed",
            code="hosts.not_installed",
            hint=f"pip install '{EXTRA}'",
        )


class Hosts(Kind):
    """The kind of lab with an agent on each host."""

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None, ends: Ends) -> Iterator[Site]:
        check_cluster()

        from thunderherd.hosts.cluster import Cluster
        from thunderherd.hosts.paths import data_path

        here = parse_host(THIS)
        server, load = ends.server or here, ends.load or (here,)
        with Cluster([server, *load], ends.scheduler) as cluster:
            places = [cluster.place(each) for each in (server, *load)]
            path = data_path(places[0], places[1:])
            yield HostsSite(self, ends, cluster, places, path)


class HostsSite(Site):
    """The site: a host for the server, and those of the load."""

    server: HostPlace
    clients: tuple[HostPlace, ...]

    def __init__(
        self, kind: Kind, ends: Ends, cluster: Cluster, places: Sequence[HostPlace], path: DataPath
    ) -> None:
        super().__init__(kind)
        self._cluster, self._path = cluster, path
        self.server, *clients = places
        self.clients = tuple(clients)
        self.title = in_words(kind.name, {}, ends)
        self.address = path.address
        self.listen = listen_at(path.address)

    def samples(self, ready: Ready | None = None) -> tuple[noise.Sample, ...]:
        of_hosts = super().samples(ready)
        here = noise.sample()
        # This process works on the machine of a host in a namespace.
        return (
            noise.of_machines([*of_hosts, here])
            if here.boot in {each.boot for each in of_hosts}
            else of_hosts
        )

    def sysctl(self, name: str) -> str:
        return str(self.server.ask(proc.sysctl, name))

    def check(self) -> None:
        self._cluster.restore()

    def check_for(self, seconds: float) -> None:
        self.check()

    def facts(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "path": self._path.found,
            "hosts": {
                each.host: {
                    "roles": [
                        *(["server"] if each.host == self.server.host else []),
                        *(["load"] if each.host in {client.host for client in self.clients} else []),
                    ],
                    "clock_ahead_ns": each.there.clock.ahead_ns,
                    "clock_error_ns": each.there.clock.error_ns,
                }
                for each in (self.server, *self.clients)
            },
        }

    def local_ports(self) -> int | None:
        of_hosts = {each.host: each for each in self.clients}
        return sum(int(each.ask(tcp_sockets.local_ports)) for each in of_hosts.values())

    def networks(self, ready: Ready | None) -> tuple[Path, ...]:
        return (tcp_sockets.OWN_NETWORK,)

    def time_wait(self, ready: Ready) -> int:
        return sum(each.ask(tcp_sockets.time_wait_count) for each in self.machines)

    def time_wait_in_the_way(self, ready: Ready) -> int:
        if ready.port is None:
            return 0
        return sum(each.ask(tcp_sockets.time_wait_of_port, ready.port) for each in self.machines)

    def time_wait_limit(self) -> int:
        return min(each.ask(tcp_sockets.time_wait_limit) for each in self.machines)


KIND = Hosts(
    name="remote",
    summary="Server and load on hosts: reached over SSH, workers of Dask, or network namespaces with names",
    source="ssh(1), ip-netns(8), https://distributed.dask.org",
    reaches_hosts=True,
    keys=(SERVER, LOAD, SCHEDULER, "congestion"),
)
