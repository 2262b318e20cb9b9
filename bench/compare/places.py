"""Places of comparisons: a lab with TCP, made as for a run, or the loopback of a namespace.

Both programs of a comparison run in the same place. Ours enters a namespace by an option, a peer by
nsenter(1).
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
"""The loopback of a new network namespace. A namespace has a separate default for congestion control. So only
here a tool without such an option can use the same congestion control as the others."""
LABS = tuple(kind.name for kind in KINDS.values() if kind.has_tcp)
"""The labs whose address a peer can use."""
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
    """The place of the server or of the client."""

    cpus: tuple[int, ...]
    """The CPUs that it is pinned to."""
    namespace: str | None = None
    """The path of its network namespace; None for that of this process."""
    enter: tuple[str, ...] = ()
    """The command that enters the namespace, before a peer's command line."""

    def on(self, cpus: list[int]) -> Side:
        """Return the same side on other CPUs."""
        return Side(tuple(cpus), self.namespace, self.enter)


@dataclass(frozen=True)
class Place:
    """The place of both sides."""

    name: str
    title: str
    address: str
    """The server's address, without a port."""
    server: Side
    client: Side
    congestion: str
    """The default congestion control, which a peer without such an option uses."""

    @property
    def cpus(self) -> list[int]:
        """The CPUs of both sides."""
        return sorted({*self.server.cpus, *self.client.cpus})

    def both_on(self, cpus: list[int]) -> Place:
        """Return the same place with both sides on these CPUs."""
        server, client = self.server.on(cpus), self.client.on(cpus)
        return Place(self.name, self.title, self.address, server, client, self.congestion)

    def on_one_cpu(self) -> Place:
        """Return the same place with the client on the server's CPU."""
        return self.both_on(list(self.server.cpus))

    def on_each_cpu(self) -> list[Place]:
        """Return a place for each CPU, with both sides on it."""
        return [self.both_on([cpu]) for cpu in self.cpus]


def has_namespaces(name: str) -> bool:
    """True if both sides are outside this process's network namespace."""
    return name == OWN_LOOPBACK or KINDS[name].has_namespaces


@contextlib.contextmanager
def place(name: str, congestion: str) -> Iterator[Place]:
    """Make a place with server and client on a CPU each. Main thread only.

    Raises `UserError` if this machine cannot make namespaces, or does not allow `congestion` there.
    """
    if has_namespaces(name) and shutil.which("nsenter") is None:
        raise UserError(
            "nsenter is missing, which moves a peer into a namespace",
            code="bench.no_nsenter",
            hint="type apt-get install util-linux",
        )
    with own_loopback(congestion) if name == OWN_LOOPBACK else lab(name) as here:
        may_be_chosen(congestion, here)
        yield here


@contextlib.contextmanager
def lab(name: str) -> Iterator[Place]:
    """Make a lab as a study has it."""
    first, second = (tuple(cpus) for cpus in two_places())
    with site_of(Lab(kind=name, server_cpus=first, client_cpus=second)) as site:
        server, client = (
            Side(cpus, namespace, site.enter(namespace))
            for cpus, namespace in ((first, site.server_namespace), (second, site.client_namespace))
        )
        yield Place(name, site.title, site.address, server, client, site.sysctl(SYSCTL))


@contextlib.contextmanager
def own_loopback(congestion: str) -> Iterator[Place]:
    """Make a lab, and put both sides into one of its namespaces, whose default becomes `congestion`."""
    with lab(veth.KIND.name) as pair:
        server = pair.server
        if reason := refused(server, BECOME_DEFAULT, congestion):
            raise UserError(
                f"--congestion {congestion} cannot be the default of a network namespace ({reason})",
                code="bench.no_default_congestion",
                hint=f"choose reno or one of {SYSCTL.replace('congestion', 'allowed_congestion')}, "
                f"or type --places {loopback.KIND.name}",
            )
        client = Side(pair.client.cpus, server.namespace, server.enter)
        usual = loopback.KIND
        yield Place(OWN_LOOPBACK, f"{usual.name} of a namespace", usual.address, server, client, congestion)


def may_be_chosen(congestion: str, where: Place) -> None:
    """Raise `UserError` unless a socket may have this congestion control there.

    Checked before the runs, since netperf silently uses the system's default if the kernel refuses.
    """
    for side in (where.server, where.client):
        if reason := refused(side, CHOOSE, congestion):
            raise UserError(
                f"--congestion {congestion} is refused in {where.name} ({reason})",
                code="bench.refused_congestion",
                hint=f"the default there is {where.congestion}",
            )


def refused(side: Side, statement: str, congestion: str) -> str:
    """Run a statement there with the `name` of a congestion control.

    Returns why the kernel refuses it; empty if the kernel accepts it.
    """
    command = [*side.enter, sys.executable, "-c", TELLING.format(statement), congestion]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return done.stderr.strip() or "no reason given" if done.returncode else ""


def free_port() -> int:
    """Return a free port of loopback. In a new namespace all ports are free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
