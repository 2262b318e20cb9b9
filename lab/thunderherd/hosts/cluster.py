"""The hosts of a run: a scheduler of Dask in this process, and an agent on each host."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thunderherd.engine.places.channel import Channel
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.places.place import Fact, Parameters, Place
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import SSH, HostAddress
from thunderherd.hosts.agent import facts
from thunderherd.hosts.links import LOOPBACK, OWN, Link
from thunderherd.hosts.quiet import NO_HTTP, SETTINGS, quiet_logs
from thunderherd.hosts.ssh import SshLink

GREETING_SECONDS = 30.0
"""The time in which an agent starts and greets: SSH may go through several hosts."""
JOIN_SECONDS = 20.0
"""The time in which an agent connects to the scheduler."""
SLICE_SECONDS = 0.5
"""A call that waits is made again and again, each for so long. The death of another host is then seen."""
ANSWER_SECONDS = 30.0
"""The time in which an agent answers a call that does not wait."""
PINGS, AGAIN = 20, 5
"""So many readings of a host's clock, at first and before each trial; the quickest counts."""
RETURN_SECONDS = 60.0
"""The time in which a lost host may return."""
AGAIN_SECONDS = 2.0
"""The time between two attempts to start its agent."""
COMPARED = {
    "version": "version of thunderherd",
    "code": "state of its Python files",
    "engine_hash": "build of the engine",
    "dask": "version of distributed",
}
"""What must be equal on all hosts."""
READINGS = re.compile(r'"((?:\w+_)?monotonic_ns|counted_from_ns|counted_to_ns|read_ns)":(\d+)')
"""Readings of CLOCK_MONOTONIC in a line of the engine."""


class HostLostError(EngineError):
    """A host that was lost in mid-trial."""

    code = "hosts.lost"


class HostFailedError(EngineError):
    """A host on which a system call failed: its disk is full, or a connection was refused."""

    code = "hosts.failed"


@dataclass
class Clock:
    """How far a host's CLOCK_MONOTONIC is ahead of this machine's, and by how much that may be wrong."""

    ahead_ns: int = 0
    error_ns: int = 0


@dataclass
class Host:
    """A host of a cluster. `lost` says why it is not there any more."""

    address: HostAddress
    link: Link
    greeting: Mapping[str, Any] = field(default_factory=dict)
    worker: str = ""
    actor: Any = None
    lost: str = ""
    clock: Clock = field(default_factory=Clock)

    @property
    def name(self) -> str:
        """Its name in results and messages."""
        return self.address.short

    @property
    def addresses(self) -> list[str]:
        """The addresses for the measured traffic that it may be reached under, likely ones first."""
        if self.address.data:
            return [self.address.data]
        return list(dict.fromkeys([*self.greeting["reached_at"], *self.greeting["addresses"]]))


class Cluster:
    """The hosts of a run, while the `with` block lasts. Main thread only.

    `targets` are the hosts of running servers; None: loads are sent to all hosts of the cluster. The first
    host is that of the server, to which loads are sent in any case.

    Raises `UserError` if a host cannot be reached, or has another version of the program.
    """

    def __init__(self, addresses: Sequence[HostAddress], targets: Collection[str] | None = None) -> None:
        self.addresses = list(dict.fromkeys(addresses))
        self._targets = targets
        self.hosts: dict[HostAddress, Host] = {}
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Cluster:
        import dask
        from distributed import Client, Scheduler
        from distributed.deploy.spec import SpecCluster
        from distributed.security import Security

        with contextlib.ExitStack() as held:
            held.enter_context(quiet_logs())
            held.enter_context(dask.config.set(SETTINGS))
            held.callback(self._close_links)
            # All agents start at the same time.
            for address in self.addresses:
                self.hosts[address] = Host(address, link_to(address))
            for host in self.hosts.values():
                host.greeting = greeting_of(host.link)
            here = [each.link.control_address(each.greeting) for each in self.hosts.values()]
            self._security = Security.temporary()
            options = {
                "protocol": "tls", "host": list(dict.fromkeys(here)), "port": 0, "security": self._security,
                "dashboard": False, "dashboard_address": NO_HTTP,
            }  # fmt: skip
            made = SpecCluster(
                scheduler={"cls": Scheduler, "options": options}, workers={}, security=self._security
            )
            held.enter_context(made)
            self._scheduler: Any = made.scheduler
            self._client = held.enter_context(Client(made, security=self._security, set_as_default=True))
            self.ports = ports_of(self._scheduler)
            for host in self.hosts.values():
                self._join(host)
            self._held = held.pop_all()
        return self

    def _close_links(self) -> None:
        for host in self.hosts.values():
            host.link.close()

    def restore(self) -> None:
        """Start the agents of lost hosts again, and compare all clocks.

        Raises `UserError` if a host does not come back.
        """
        deadline = time.monotonic() + RETURN_SECONDS
        for host in self.hosts.values():
            while True:
                with contextlib.suppress(HostLostError):
                    self._check([host])
                    host.clock = self.clock(host, AGAIN)
                    break
                try:
                    self._start_again(host)
                except UserError as error:
                    if time.monotonic() > deadline:
                        message = f"host {host.name} does not come back within {RETURN_SECONDS:g} s: {error}"
                        raise UserError(message, code=HostLostError.code) from None
                    time.sleep(AGAIN_SECONDS)

    def _start_again(self, host: Host) -> None:
        host.link.close()
        host.link = link_to(host.address)
        host.greeting = greeting_of(host.link)
        self._join(host)

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def place(self, address: HostAddress) -> HostPlace:
        """Return a host as the place of processes."""
        return HostPlace(self, self.hosts[address])

    def _join(self, host: Host) -> None:
        """Let an agent connect to the scheduler."""
        control = host.link.control_address(host.greeting)
        keys = self._security.get_tls_config_for_role("worker")
        host.link.send(
            {
                "name": str(host.address),
                "certificate": keys["ca_file"],
                "key": keys["key"],
                "seconds": JOIN_SECONDS,
                **host.link.ways(host.greeting, control, self.ports[control]),
            }
        )
        deadline = time.monotonic() + JOIN_SECONDS
        while not (worker := self._worker_named(str(host.address))):
            ended = host.link.ending()
            if ended or time.monotonic() > deadline:
                why = ended or f"its agent did not connect within {JOIN_SECONDS:g} s"
                raise UserError(f"host {host.name}: {why}", code="hosts.not_joined")
            time.sleep(0.01)
        from thunderherd.hosts.agent import Agent

        host.worker, host.lost = worker, ""
        future = self._client.submit(
            Agent, self._targets_of(host), workers=[worker], actor=True, pure=False, retries=0
        )
        host.actor = future.result(timeout=ANSWER_SECONDS)
        host.clock = self.clock(host)

    def _targets_of(self, host: Host) -> list[str]:
        """Return the addresses that loads on a host may be sent to."""
        first = self.hosts[self.addresses[0]]
        servers = [first] if self._targets is not None else [*self.hosts.values()]
        found = [address for each in servers for address in each.addresses]
        own = [LOOPBACK] if host in servers else []
        return [*dict.fromkeys([*found, *own, *(self._targets or ())])]

    def _worker_named(self, name: str) -> str | None:
        """Return the address of a worker; None if there is none of that name."""
        workers = self._scheduler.workers.values()
        return next((each.address for each in list(workers) if each.name == name), None)

    def clock(self, host: Host, pings: int = PINGS) -> Clock:
        """Compare a host's clock with this machine's."""
        best = Clock(error_ns=1 << 62)
        for _ in range(pings):
            before = time.monotonic_ns()
            there = self.call(host, "clock", of_all=False)
            after = time.monotonic_ns()
            if (after - before) // 2 < best.error_ns:
                best = Clock(there - (before + after) // 2, (after - before) // 2)
        return best

    def call(
        self, host: Host, method: str, *args: Any, seconds: float = ANSWER_SECONDS, of_all: bool = True
    ) -> Any:
        """Return the result of a method of a host's agent, or raise its exception.

        Raises `HostLostError` if this host is lost meanwhile, or, `of_all`, another; and `HostFailedError`.
        """
        watched = [each for each in self.hosts.values() if each.actor is not None] if of_all else [host]
        self._check(watched)
        deadline = time.monotonic() + seconds
        try:
            future = getattr(host.actor, method)(*args)
            while True:
                try:
                    found, failure = future.result(timeout=SLICE_SECONDS)
                    break
                except TimeoutError:
                    self._check(watched)
                    if time.monotonic() > deadline:
                        host.lost = f"it did not answer within {seconds:g} s"
        except (OSError, RuntimeError) as error:
            # Dask says only that it cannot reach the worker.
            host.lost = self._why(host)
            raise HostLostError(f"host {host.name} was lost: {host.lost}") from error
        if isinstance(failure, OSError):
            why = f"{failure.strerror or failure}{f': {failure.filename}' if failure.filename else ''}"
            raise HostFailedError(f"host {host.name}: {why}") from failure
        if failure is not None:
            raise failure
        return found

    def check(self) -> None:
        """Raise `HostLostError` if a host is lost."""
        self._check(self.hosts.values())

    def _check(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            if not host.lost and (host.link.ending() or not self._is_there(host)):
                host.lost = self._why(host)
            if host.lost:
                raise HostLostError(f"host {host.name} was lost: {host.lost}")

    def _is_there(self, host: Host) -> bool:
        return host.worker in self._scheduler.workers

    def _why(self, host: Host) -> str:
        """Return why a host is lost. The end of its agent may be seen a moment after that of a connection."""
        for _ in range(20):
            if ended := host.link.ending():
                return ended
            time.sleep(0.05)
        return "its connection was closed" if host.worker else "it has not joined"


def link_to(address: HostAddress) -> Link:
    """Start the agent of a host."""
    link = (OWN | {SSH: SshLink})[address.kind](address)
    try:
        link.open()
    except BaseException:
        link.close()
        raise
    return link


def greeting_of(link: Link) -> Mapping[str, Any]:
    """Return what an agent says about its host; raise `UserError` if it is not of this version."""
    line = link.read_line(GREETING_SECONDS)
    try:
        found = json.loads(line)
    except ValueError:
        raise UserError(
            f"host {link.address.short}: instead of its agent, it printed {line[:100]!r}",
            code="hosts.not_started",
        ) from None
    here = facts()
    for name, what in COMPARED.items():
        if found.get(name) != here[name]:
            raise UserError(
                f"host {link.address.short} has another {what}: {str(found.get(name))[:12]}, "
                f"here {here[name][:12]}",
                code="hosts.other_version",
                hint=f"thunderherd hosts --install {link.address}",
            )
    return found


def ports_of(scheduler: Any) -> dict[str, int]:
    """Return address → port of the addresses at which a scheduler listens."""
    found = {}
    for listener in scheduler.listeners:
        host, _, port = listener.contact_address.partition("://")[2].rpartition(":")
        found[host.strip("[]")] = int(port)
    return found


class HostPlace(Place):
    """A host as the place of processes."""

    def __init__(self, cluster: Cluster, there: Host) -> None:
        super().__init__()
        self._cluster, self.there = cluster, there

    @property
    def host(self) -> str:
        return str(self.there.address)

    @property
    def engine(self) -> Path:
        return Path(self.there.greeting["engine"])

    @property
    def local_engine(self) -> Path:
        return find_engine()

    @property
    def parent(self) -> int:
        return int(self.there.greeting["pid"])

    def start(
        self,
        command: Sequence[str],
        *,
        control: bool,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Channel:
        assert directory is None and environment is None, "an agent starts the engine only"
        return HostChannel(self._cluster, self.there, command, control)

    def time_there(self, here_ns: int) -> int:
        return here_ns + self.there.clock.ahead_ns

    def load_flags(self) -> list[str]:
        # The load's target is the study's own server.
        return ["--allow-remote"]

    def ask_for(
        self,
        seconds: float,
        fact: Callable[Parameters, Fact],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Fact:
        found: Fact = self._cluster.call(
            self.there, "ask", fact, args, kwargs, seconds=ANSWER_SECONDS + seconds
        )
        return found


class HostChannel(Channel):
    """A process of a host."""

    def __init__(self, cluster: Cluster, host: Host, command: Sequence[str], control: bool) -> None:
        self._cluster, self._host, self._control = cluster, host, control
        self._number: int | None = self._call("start", list(command), control)

    def _call(self, method: str, *args: Any, of_all: bool = True) -> Any:
        return self._cluster.call(self._host, method, *args, of_all=of_all)

    def write(self, data: bytes) -> None:
        self._call("write", self._number, data)

    def close_input(self) -> None:
        if self._control and self._number is not None:
            self._call("close_input", self._number)

    def read(self, seconds: float) -> bytes | None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            found: bytes | None = self._call("read", self._number, min(left, SLICE_SECONDS))
            if found is not None:
                return found
        return None

    def wait(self, seconds: float) -> int | None:
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            status: int | None = self._call("wait", self._number, min(left, SLICE_SECONDS))
            if status is not None or left == 0.0:
                return status

    def end(self, *, at_once: bool = False) -> None:
        if self._number is None:
            return
        number, self._number = self._number, None
        # What a lost host had started has ended with its agent.
        with contextlib.suppress(HostLostError):
            self._call("end", number, at_once, of_all=False)

    def errors(self) -> str:
        if self._number is None:
            return ""
        with contextlib.suppress(HostLostError):
            return str(self._call("errors", self._number, of_all=False))
        return ""

    def translated(self, line: str) -> str:
        ahead = self._host.clock.ahead_ns
        return READINGS.sub(lambda found: f'"{found[1]}":{int(found[2]) - ahead}', line)
