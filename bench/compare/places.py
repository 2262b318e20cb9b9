"""Where a comparison takes place: a lab that has TCP, made as that of a run is, or a namespace's loopback.

Whatever is compared runs in the same place: ours enters a namespace by its own option, a peer by nsenter(1).
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from common import PATIENCE_SECONDS, two_places
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, loopback, veth
from thunderherd.study.loading import Lab
from thunderherd.trial.sites import site_of

OWN_LOOPBACK = "own_loopback"
"""The loopback of a network namespace of our own. Only there a tool that chooses no congestion control has
the one that all others are told: a namespace has a default of its own, which can be set."""
LABS = tuple(kind.name for kind in KINDS.values() if kind.has_tcp)
"""The labs in which peers can be told an address."""
NAMES = (*LABS, OWN_LOOPBACK)
"""All places."""
SYSCTL = "net.ipv4.tcp_congestion_control"
CHOOSE = "import socket; socket.socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())"
BECOME_DEFAULT = f"import pathlib; pathlib.Path('/proc/sys', *'{SYSCTL}'.split('.')).write_text(name)"
TELLING = """
import sys
name = sys.argv[1]
try:
    {}
except OSError as error:
    sys.exit(error.strerror)
"""


@dataclass(frozen=True)
class Side:
    """The server, or its client."""

    cpus: tuple[int, ...]
    """What it is pinned to."""
    namespace: str | None = None
    """The network namespace that it is in, as a path; None: this process's."""
    enter: tuple[str, ...] = ()
    """What a peer's command line is preceded by, so that it is there."""

    def on(self, cpus: list[int]) -> Side:
        """The same side, pinned elsewhere."""
        return Side(tuple(cpus), self.namespace, self.enter)


@dataclass(frozen=True)
class Place:
    """Where both sides are."""

    name: str
    title: str
    address: str
    """The server's, without a port."""
    server: Side
    client: Side
    congestion: str
    """Of whoever chooses none here; a peer that cannot be told has this one."""

    @property
    def cpus(self) -> list[int]:
        """Those of both sides."""
        return sorted({*self.server.cpus, *self.client.cpus})

    def both_on(self, cpus: list[int]) -> Place:
        """The same place, either side on these."""
        server, client = self.server.on(cpus), self.client.on(cpus)
        return Place(self.name, self.title, self.address, server, client, self.congestion)

    def on_one_cpu(self) -> Place:
        """The same place, the client on the server's CPU."""
        return self.both_on(list(self.server.cpus))

    def on_each_cpu(self) -> list[Place]:
        """As many places, in each both sides on one of the CPUs."""
        return [self.both_on([cpu]) for cpu in self.cpus]


def has_namespaces(name: str) -> bool:
    """Whether nothing in that place is in this process's network namespace."""
    return name == OWN_LOOPBACK or KINDS[name].has_namespaces


@contextlib.contextmanager
def place(name: str, congestion: str) -> Iterator[Place]:
    """Server and client on a CPU each. Main thread only.

    Raises `UserError` where namespaces cannot be had here, or `congestion` cannot be chosen there.
    """
    if has_namespaces(name) and shutil.which("nsenter") is None:
        raise UserError("not here: nsenter, by which a peer enters a namespace; apt-get install util-linux")
    with own_loopback(congestion) if name == OWN_LOOPBACK else lab(name) as here:
        may_be_chosen(congestion, here)
        yield here


@contextlib.contextmanager
def lab(name: str) -> Iterator[Place]:
    """One that a study can have, too."""
    first, second = (tuple(cpus) for cpus in two_places())
    with site_of(Lab(kind=name, server_cpus=first, client_cpus=second)) as site:
        server, client = (
            Side(cpus, namespace, site.enter(namespace))
            for cpus, namespace in ((first, site.server_namespace), (second, site.client_namespace))
        )
        yield Place(name, site.title, site.address, server, client, site.sysctl(SYSCTL))


@contextlib.contextmanager
def own_loopback(congestion: str) -> Iterator[Place]:
    """Both sides in one of the namespaces that a lab makes, whose default `congestion` becomes."""
    with lab(veth.KIND.name) as pair:
        server = pair.server
        if reason := refused(server, BECOME_DEFAULT, congestion):
            raise UserError(
                f"--congestion {congestion} cannot be the default of a network namespace ({reason}); "
                f"reno can, and what {SYSCTL.replace('congestion', 'allowed_congestion')} names; "
                f"or type --places {loopback.KIND.name}"
            )
        client = Side(pair.client.cpus, server.namespace, server.enter)
        usual = loopback.KIND
        yield Place(OWN_LOOPBACK, f"{usual.name} of a namespace", usual.address, server, client, congestion)


def may_be_chosen(congestion: str, where: Place) -> None:
    """Raises `UserError` unless a socket may have this congestion control there.

    Asked beforehand, since netperf goes on with the system's where the kernel refuses.
    """
    for side in (where.server, where.client):
        if reason := refused(side, CHOOSE, congestion):
            raise UserError(
                f"--congestion {congestion} is refused in {where.name} ({reason}); "
                f"the default there is {where.congestion}"
            )


def refused(side: Side, statement: str, congestion: str) -> str:
    """Why the kernel refuses what a statement does there with the `name` of a congestion control; empty: it
    does not."""
    command = [*side.enter, sys.executable, "-c", TELLING.format(statement), congestion]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return done.stderr.strip() or "no reason is told" if done.returncode else ""


def free_port() -> int:
    """A port that nobody has on loopback; in a namespace of our own nobody has any."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
