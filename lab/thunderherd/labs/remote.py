"""Remote: server and load on other machines, over SSH or Dask, or in network namespaces of this one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.lines import Ready
from thunderherd.engine.places.place import Place
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER, THIS, listen_at, parse_host
from thunderherd.hosts.links import LOOPBACK, resolved
from thunderherd.labs.kind import ROLES, HostFacts, Kind, Role, Site
from thunderherd.labs.words import Ends, in_words
from thunderherd.machine import description, noise, proc, tcp_sockets

if TYPE_CHECKING:
    from thunderherd.hosts.cluster import Cluster, HostPlace
    from thunderherd.hosts.flows import Received
    from thunderherd.hosts.paths import DataPath

LIBRARIES = ("distributed", "cryptography")
INSTALL = "pip install 'thunderherd[cluster]'"
"""The command that installs this program with its optional dependencies."""
IDLE_SECONDS = 1.0
"""The time for which idle agents are watched before the first trial."""


def check_cluster() -> None:
    """Raise `UserError` if the libraries for several hosts are not installed."""
    if missing := _missing():
        raise UserError(
            f"several hosts need {missing}, which is not installed",
            code="hosts.not_installed",
            hint=INSTALL,
        )


def _missing() -> str:
    """Return the names of the libraries that are not installed."""
    return " and ".join(name for name in LIBRARIES if find_spec(name) is None)


class Hosts(Kind):
    """The kind of lab with an agent on each host."""

    def unavailable(self, catalogue: Catalogue) -> str | None:
        missing = _missing()
        return f"{missing} is not installed; `{INSTALL}` installs it" if missing else None

    def local_ports(self, catalogue: Catalogue) -> int | None:
        # The hosts of the load are asked in each trial.
        return None

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None, ends: Ends) -> Iterator[Site]:
        check_cluster()

        from thunderherd.hosts.cluster import Cluster
        from thunderherd.hosts.paths import data_path

        here = parse_host(THIS)
        server, load = ends.server or here, ends.load or (here,)
        with Cluster([server, *load], ends.scheduler, ends.targets, ends.programs) as cluster:
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
        self._cluster, self._path, self._ends = cluster, path, ends
        self.server, *clients = places
        self.clients = tuple(clients)
        self.title = in_words(kind.name, {}, ends)
        self.address = path.address
        self.listen = listen_at(path.address)
        self._look()

    def _look(self) -> None:
        """Look at the hosts and their paths before the first trial."""
        from thunderherd.hosts.cluster import HostFailedError
        from thunderherd.hosts.flows import receivers
        from thunderherd.hosts.idle import watch_idle
        from thunderherd.hosts.paths import route_to

        of_hosts = {each.host: each for each in (self.server, *self.clients)}
        self._boots = {name: each.ask(noise.boot_id) for name, each in of_hosts.items()}
        self._agent_cpus = {
            name: each.keep_off(self._measured_beside(name)) for name, each in of_hosts.items()
        }
        self._idle = watch_idle([*of_hosts.values()], IDLE_SECONDS)
        self._machines = {
            name: each.ask(description.describe, each.engine) for name, each in of_hosts.items()
        }
        others = [each for name, each in of_hosts.items() if name != self.server.host]
        self._routes = {each.host: each.ask(route_to, self.address) for each in others}
        self._received: dict[str, tuple[Received, Received]] = {}
        for each in others:
            # A firewall may let nothing but the measured port pass.
            with contextlib.suppress(HostFailedError):
                self._received[each.host] = receivers(self.server, each, self.address)

    def _measured_beside(self, host: str) -> set[int]:
        """Return the measured CPUs of a host's machine, which other hosts may share."""
        measured: set[int] = set()
        for name in (name for name, boot in self._boots.items() if boot == self._boots[host]):
            for role in self._roles(name):
                measured |= {*(self._ends.server_cpus if role == "server" else self._ends.client_cpus)}
        return measured

    def samples(self, ready: Ready | None = None) -> tuple[noise.Sample, ...]:
        of_hosts = super().samples(ready)
        here = noise.sample()
        # A host in a namespace is on this machine, where what this process does is not foreign either.
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

    def hosts(self) -> tuple[HostFacts, ...]:
        of_hosts = {each.host: each for each in (self.server, *self.clients)}
        return tuple(
            HostFacts(
                host=name,
                is_elsewhere=not each.there.address.is_here,
                roles=self._roles(name),
                boot=self._boots[name],
                clock_ahead_ns=each.there.clock.ahead_ns,
                clock_error_ns=each.there.clock.error_ns,
            )
            for name, each in of_hosts.items()
        )

    def _roles(self, host: str) -> tuple[Role, ...]:
        return (
            *(("server",) if host == self.server.host else ()),
            *(("load",) if host in {each.host for each in self.clients} else ()),
        )

    def facts(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "path": self._path.found,
            "paths": {
                host: {
                    **asdict(route),
                    **{
                        f"{side}_receives_on": asdict(where)
                        for side, where in zip(ROLES, self._received.get(host, ()), strict=False)
                    },
                }
                for host, route in self._routes.items()
            },
            "hosts": {
                each.host: {
                    "roles": list(each.roles),
                    "clock_ahead_ns": each.clock_ahead_ns,
                    "clock_error_ns": each.clock_error_ns,
                    "agent_cpus": self._agent_cpus[each.host],
                    "idle": asdict(self._idle[each.host]),
                    "machine": self._machines[each.host],
                }
                for each in self.hosts()
            },
        }

    def is_of_server(self, host: str) -> bool:
        known = {*self.server.there.addresses, *self.server.there.greeting["addresses"]}
        return all(
            each.ask(resolved, host) <= (known | {LOOPBACK} if each.host == self.server.host else known)
            for each in self.clients
        )

    def why_unreached(self, client: Place, address: str) -> str:
        from thunderherd.hosts.paths import down_or_dropped

        return f"{client.host} does not reach {address}: {down_or_dropped(self.server, address)}"

    def warnings(self) -> list[str]:
        found = [warning for host, idle in self._idle.items() if (warning := idle.warning(host))]
        for host, (of_server, of_load) in self._received.items():
            for place, received, measured, what in (
                (self.server.host, of_server, self._ends.server_cpus, "the server"),
                (host, of_load, self._ends.client_cpus, "the load"),
            ):
                if received.cpu in measured:
                    found.append(
                        f"{place}: CPU {received.cpu} receives the packets between {host} and "
                        f"{self.server.host}, and {what} runs on it, too: the figures include both"
                    )
        return list(dict.fromkeys(found))

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
