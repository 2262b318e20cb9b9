"""Veth: each side in its own network namespace, joined by a pair of interfaces.

Ports, sockets in TIME_WAIT and kernel settings are those of the namespaces of a trial's server and clients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, CongestionControls, Setting, by_name
from thunderherd.engine.client import NamespaceHolder
from thunderherd.engine.lines import NamespaceEnd, Ready
from thunderherd.engine.places.place import Place
from thunderherd.errors import UserError
from thunderherd.labs.kind import Kind, Site
from thunderherd.labs.words import Ends, in_words
from thunderherd.machine import proc, tcp_sockets
from thunderherd.machine.description import SYSCTLS

TIME_WAIT_LIMIT, PORT_RANGE = "net.ipv4.tcp_max_tw_buckets", "net.ipv4.ip_local_port_range"
NETWORK_SYSCTLS = tuple(name.replace("/", ".") for name in SYSCTLS if name.startswith("net/"))
"""The kernel settings that a run records and that differ between network namespaces."""


class Veth(Kind):
    """The kind of lab with two namespaces and a pair of interfaces, which the engine makes."""

    def unavailable(self, catalogue: Catalogue) -> str | None:
        pair = catalogue.namespace
        return None if pair is None or pair.available else str(pair.reason)

    def settings(self, catalogue: Catalogue) -> dict[str, Setting]:
        return by_name(catalogue.namespace.settings) if catalogue.namespace else {}

    def least(self, catalogue: Catalogue, setting: str) -> int:
        return catalogue.namespace.least.get(setting, 1) if catalogue.namespace else 1

    def unavailable_settings(self, catalogue: Catalogue) -> Mapping[str, str]:
        return catalogue.namespace.unavailable_settings if catalogue.namespace else {}

    def congestion_controls(self, controls: CongestionControls) -> tuple[str, ...]:
        # Namespaces that we made allow every congestion control of the kernel.
        return controls.available

    def local_ports(self, catalogue: Catalogue) -> int | None:
        if catalogue.namespace is None:
            return super().local_ports(catalogue)
        first, last = catalogue.namespace.local_ports
        return last - first + 1

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None, ends: Ends) -> Iterator[Site]:
        sysctls = dict.fromkeys((*NETWORK_SYSCTLS, TIME_WAIT_LIMIT, PORT_RANGE))
        with NamespaceHolder(settings, tuple(sysctls), engine) as holder:
            yield PairSite(self, holder, engine)


class PairSite(Site):
    """The site: two network namespaces joined by a pair of interfaces."""

    def __init__(self, kind: Kind, holder: NamespaceHolder, engine: Path | None) -> None:
        super().__init__(kind, engine)
        self._holder, self._there = holder, holder.namespaces
        self.title = in_words(kind.name, {name: int(value) for name, value in self._there.settings.items()})
        self.address = self._there.server.address
        self.listen = f"{self.address}:0"
        self.server = Place(engine, self._there.server.path)
        self.clients = (Place(engine, self._there.client.path),)

    def sysctl(self, name: str) -> str:
        return str(self._there.server.sysctls[name])

    def check(self) -> None:
        if ending := self._holder.ending():
            raise UserError(
                f"the network namespaces of this run are gone: process {self._there.pid}, which held them, "
                f"has ended ({ending})",
                code="lab.namespaces_gone",
            )

    def facts(self) -> dict[str, Any]:
        there = self._there
        return {
            "settings": there.settings,
            "user_namespace": there.user_namespace,
            "without_ipv6": there.without_ipv6,
            **{side: _facts(end) for side, end in (("server", there.server), ("client", there.client))},
        }

    def local_ports(self) -> int | None:
        first, last = str(self._there.client.sysctls[PORT_RANGE]).split()
        return int(last) - int(first) + 1

    def networks(self, ready: Ready | None) -> tuple[Path, ...]:
        # The server's namespace is only visible through a process in it.
        if ready is None:
            return ()
        return tuple(proc.PROC / str(pid) / "net" for pid in (self._there.pid, ready.supervisor_pid))

    def time_wait(self, ready: Ready) -> int:
        return sum(map(tcp_sockets.time_wait_count, self.networks(ready)))

    def time_wait_in_the_way(self, ready: Ready) -> int:
        if ready.port is None:
            return 0
        return sum(tcp_sockets.time_wait_listed(network, ready.port) for network in self.networks(ready))

    def time_wait_limit(self) -> int:
        # A kernel with one table for all namespaces shows the limit in the first namespace only.
        own = self._there.client.sysctls.get(TIME_WAIT_LIMIT)
        return tcp_sockets.time_wait_limit() if own is None else int(own)


def _facts(end: NamespaceEnd) -> dict[str, Any]:
    return {
        "interface": end.interface,
        "mtu": end.mtu,
        "address": end.address,
        "address6": end.address6,
        "sysctls": {name: value for name, value in end.sysctls.items() if value is not None},
    }


KIND = Veth(
    name="veth",
    summary="Server and clients in two network namespaces, joined by a pair of interfaces; no root needed",
    source="veth(4), network_namespaces(7)",
    keys=("mtu", "rate", "delay", "loss", "congestion"),
    has_namespaces=True,
)
