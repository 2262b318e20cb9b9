"""Where trials take place: a site for each lab of a run, made before the first trial and gone after the last.

Everything that is asked about ports, sockets in TIME_WAIT and the kernel's settings is asked of the network
namespaces that a trial's server and clients are in, which need not be this process's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunderherd import noise
from thunderherd.engine import NamespaceHolder
from thunderherd.engine_lines import NamespaceEnd, Ready
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, USUAL, Kind, in_words
from thunderherd.machine import SYSCTLS
from thunderherd.study import Lab, Study

TIME_WAIT_LIMIT, PORT_RANGE = "net.ipv4.tcp_max_tw_buckets", "net.ipv4.ip_local_port_range"
NETWORK_SYSCTLS = tuple(name.replace("/", ".") for name in SYSCTLS if name.startswith("net/"))
"""The kernel settings that a network namespace may have of its own, of those that a run records."""


class Site:
    """This process's network namespace, for a kind of lab that has none of its own."""

    server_namespace: str | None = None
    client_namespace: str | None = None
    """What both sides enter first; None: they stay in this process's."""

    def __init__(self, kind: Kind = USUAL) -> None:
        self._has_ports = kind.has_tcp
        self.title = kind.name
        """What tells it from others, in words."""
        self.address = kind.address
        """The server's, without a port."""
        self.listen = kind.listen
        """Where a server is told to listen."""

    def enter(self, namespace: str | None) -> tuple[str, ...]:
        """What the command line of a program that is not ours is preceded by, so that it runs in one of its
        namespaces (nsenter(1))."""
        return ()

    def sysctl(self, name: str) -> str:
        """A kernel setting of the server's network, by its name as `sysctl` has it (sysctl(8))."""
        return (noise.PROC / "sys" / name.replace(".", "/")).read_text(encoding="utf-8").strip()

    def check(self) -> None:
        """Raises `UserError` where it is not there any more."""

    def facts(self) -> dict[str, Any]:
        """What is to be recorded of it. JSON data."""
        # The name of a Unix socket goes with it.
        return {"address": self.address + ("" if self._has_ports else " and a name of the kernel's choice")}

    def local_ports(self) -> int | None:
        """How many ports the kernel may choose from for the clients' connections; None: they take none."""
        return noise.local_ports() if self._has_ports else None

    def time_wait(self, ready: Ready) -> int:
        """Sockets in TIME_WAIT on both sides."""
        return noise.time_wait_count() if self._has_ports else 0

    def time_wait_in_the_way(self, ready: Ready) -> int:
        """Those of them that stand in the way of connections to this server."""
        return noise.time_wait_of_port(ready.port) if ready.port is not None else 0

    def time_wait_limit(self) -> int:
        """How many sockets in TIME_WAIT the kernel keeps."""
        return noise.time_wait_limit()


class PairSite(Site):
    """Two network namespaces joined by a pair of interfaces."""

    def __init__(self, kind: Kind, holder: NamespaceHolder) -> None:
        super().__init__(kind)
        self._holder, self._there = holder, holder.namespaces
        self.title = in_words(kind.name, self._there.settings)
        self.address = self._there.server.address
        self.listen = f"{self.address}:0"
        self.server_namespace, self.client_namespace = self._there.server.path, self._there.client.path

    def enter(self, namespace: str | None) -> tuple[str, ...]:
        if namespace is None:
            return ()
        # A namespace belongs to the user namespace that we made for it, where we made one.
        user = f"--user=/proc/{self._there.pid}/ns/user"
        of_user = (user, "--preserve-credentials") if self._there.user_namespace else ()
        return ("nsenter", *of_user, f"--net={namespace}", "--")

    def sysctl(self, name: str) -> str:
        return str(self._there.server.sysctls[name])

    def check(self) -> None:
        if ending := self._holder.ending():
            raise UserError(
                f"the network namespaces of this run are gone: the process {self._there.pid} that held them "
                f"has ended ({ending})"
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

    def time_wait(self, ready: Ready) -> int:
        return sum(map(noise.time_wait_count, self._networks(ready)))

    def time_wait_in_the_way(self, ready: Ready) -> int:
        if ready.port is None:
            return 0
        return sum(noise.time_wait_listed(network, ready.port) for network in self._networks(ready))

    def time_wait_limit(self) -> int:
        # A kernel that has one table for all namespaces shows it in the first of them alone.
        own = self._there.client.sysctls.get(TIME_WAIT_LIMIT)
        return noise.time_wait_limit() if own is None else int(own)

    def _networks(self, ready: Ready) -> tuple[Path, ...]:
        """What the kernel tells of the clients' namespace, and of the server's."""
        return tuple(noise.PROC / str(pid) / "net" for pid in (self._there.pid, ready.supervisor_pid))


def _facts(end: NamespaceEnd) -> dict[str, Any]:
    return {
        "interface": end.interface,
        "mtu": end.mtu,
        "address": end.address,
        "address6": end.address6,
        "sysctls": {name: value for name, value in end.sysctls.items() if value is not None},
    }


@contextlib.contextmanager
def site_of(lab: Lab, engine: Path | None = None) -> Iterator[Site]:
    """Where trials of a lab take place, for as long as the block lasts. Main thread only.

    Raises `UserError` where the lab cannot be had here; the message says why.
    """
    kind = KINDS[lab.kind]
    if not kind.has_namespaces:
        yield Site(kind)
        return
    with _holder_of(lab, engine) as holder:
        yield PairSite(kind, holder)


def _holder_of(lab: Lab, engine: Path | None) -> NamespaceHolder:
    sysctls = dict.fromkeys((*NETWORK_SYSCTLS, TIME_WAIT_LIMIT, PORT_RANGE))
    return NamespaceHolder(lab.settings, tuple(sysctls), engine)


@contextlib.contextmanager
def sites_of(study: Study, engine: Path | None = None) -> Iterator[Mapping[str, Site]]:
    """The sites of all labs of a study, by `Lab.network`: each once, however many contenders are there."""
    labs = {contender.lab.network: contender.lab for contender in study.contenders}
    with contextlib.ExitStack() as made:
        sites: dict[str, Site] = {}
        for network, lab in labs.items():
            try:
                sites[network] = made.enter_context(site_of(lab, engine))
            except UserError as error:
                raise UserError(f"lab {network}: {error}") from None
        yield sites
