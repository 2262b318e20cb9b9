"""The schedulers of Dask that have the workers of hosts: one in this process, or one of somebody else.

Both have workers with names, on which a cluster puts its agents.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Self

from thunderherd.errors import UserError
from thunderherd.files import temporary_folder
from thunderherd.hosts.addresses import (
    LOAD,
    SERVER,
    SSH,
    TLS,
    WORKER,
    HostAddress,
    is_loopback,
    parse_host,
    parse_scheduler,
)
from thunderherd.hosts.agent import MODULE, facts
from thunderherd.hosts.links import OWN, Link
from thunderherd.hosts.quiet import NO_HTTP, SECONDS_UNTIL_LOST, SETTINGS, in_words, quiet_logs
from thunderherd.hosts.ssh import SshLink
from thunderherd.hosts.tls import security_of

GREETING_SECONDS = 30.0
"""The time in which an agent starts and greets: SSH may go through several hosts."""
JOIN_SECONDS = 20.0
"""The time in which an agent connects to the scheduler."""
ANSWER_SECONDS = 30.0
"""The time in which an agent answers a call that does not wait."""
REACH_SECONDS = 5.0
"""The time in which a scheduler of somebody else accepts a connection."""
LOOK_SECONDS = 1.0
"""The interval at which the scheduler is asked for signs of life of its workers."""
PROBE = f"__import__({MODULE!r}, fromlist=['facts']).facts()"
"""What a worker evaluates at first, to return its facts: a text, which every worker can read."""
COMPARED = {
    "version": "version of thunderherd",
    "code": "state of its Python files",
    "engine_hash": "build of the engine",
    "dask": "version of distributed",
}
"""What must be equal on all hosts."""


class Scheduler(ABC):
    """A scheduler of Dask and its workers, while the `with` block lasts. Main thread only."""

    client: Any
    """The client of Dask."""
    end_seconds = 0.2
    """The time after the end of its connection in which the end of a lost agent is known."""

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._looked = 0.0
        self._answers = True
        self._seen: dict[str, tuple[float, float]] = {}

    def __enter__(self) -> Self:
        import dask
        import distributed  # noqa: F401 (adds its own settings, which must outlive those below)

        with contextlib.ExitStack() as held:
            held.enter_context(quiet_logs())
            # Dask would leave files in a folder of its own.
            folder = held.enter_context(temporary_folder())
            held.enter_context(dask.config.set({**SETTINGS, "temporary-directory": str(folder)}))
            self._open(held)
            self._held = held.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    @abstractmethod
    def _open(self, held: contextlib.ExitStack) -> None:
        """Connect the client to a scheduler. Raises `UserError` if that fails."""

    @abstractmethod
    def join(self, address: HostAddress) -> str:
        """Return the address of the worker on a host.

        Raises `UserError` if there is none, or if it differs in what must be equal.
        """

    @abstractmethod
    def renew(self, address: HostAddress) -> None:
        """Prepare a lost host for another `join`; raise `UserError` if that fails."""

    @abstractmethod
    def ending(self, address: HostAddress) -> str | None:
        """Describe how the agent of a host ended; None if nothing is known of its end."""

    @abstractmethod
    def hint(self, address: HostAddress) -> str:
        """Return what to do if a host has another version of this program, or none."""

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what the scheduler knows about its workers, by their addresses.

        Raises `UserError` if it does not answer.
        """
        asked = self.client.scheduler.identity
        try:
            found = self.client.sync(asked, n_workers=-1, callback_timeout=SECONDS_UNTIL_LOST)
        except (OSError, TimeoutError, RuntimeError) as error:
            message = f"the scheduler does not answer: {in_words(error)}"
            raise UserError(message, code="hosts.no_scheduler") from None
        workers: Mapping[str, Mapping[str, Any]] = found["workers"]
        return workers

    def worker_named(self, name: str) -> str | None:
        """Return the address of a worker; None if there is none of that name."""
        found = self.workers().items()
        return next((address for address, each in found if str(each["name"]) == name), None)

    def is_silent(self, worker: str) -> bool:
        """True if a worker has given no sign of life for `SECONDS_UNTIL_LOST`.

        The scheduler of somebody else may wait longer until it gives up a worker behind a cut link.
        """
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._answers = self._look(now)
            self._looked = time.monotonic()
        return not self._answers or now - self._seen.get(worker, (0.0, now))[1] > SECONDS_UNTIL_LOST

    def _look(self, now: float) -> bool:
        """Note which workers have given a sign of life since the last look; False if nobody answers."""
        try:
            for address, each in self.workers().items():
                if self._seen.get(address, (None,))[0] != each["last_seen"]:
                    self._seen[address] = (each["last_seen"], now)
        except UserError:
            return False
        return True


class OwnScheduler(Scheduler):
    """A scheduler in this process, and agents that this process starts."""

    end_seconds = 1.0

    def __init__(self, addresses: Sequence[HostAddress]) -> None:
        super().__init__()
        self._links: dict[HostAddress, Link] = {}
        self._greetings: dict[HostAddress, Mapping[str, Any]] = {}
        self._addresses = addresses

    def _open(self, held: contextlib.ExitStack) -> None:
        import distributed
        from distributed.deploy.spec import SpecCluster
        from distributed.security import Security

        held.callback(self._close_links)
        # All agents start at the same time.
        for address in self._addresses:
            self._links[address] = link_to(address)
        for address, link in self._links.items():
            self._greetings[address] = greeting_of(link)
        here = [link.control_address(self._greetings[each]) for each, link in self._links.items()]
        self._security = Security.temporary()
        options = {
            "protocol": "tls", "host": list(dict.fromkeys(here)), "port": 0, "security": self._security,
            "dashboard": False, "dashboard_address": NO_HTTP,
        }  # fmt: skip
        made = SpecCluster(
            scheduler={"cls": distributed.Scheduler, "options": options}, workers={}, security=self._security
        )
        held.enter_context(made)
        self.client = held.enter_context(
            distributed.Client(made, security=self._security, set_as_default=True)
        )
        self.ports = ports_of(made.scheduler)

    def _close_links(self) -> None:
        for link in self._links.values():
            link.close()

    def join(self, address: HostAddress) -> str:
        link, greeting = self._links[address], self._greetings[address]
        control = link.control_address(greeting)
        keys = self._security.get_tls_config_for_role("worker")
        link.send(
            {
                "name": str(address),
                "certificate": keys["ca_file"],
                "key": keys["key"],
                "seconds": JOIN_SECONDS,
                **link.endpoints(greeting, control, self.ports[control]),
            }
        )
        deadline = time.monotonic() + JOIN_SECONDS
        while not (worker := self.worker_named(str(address))):
            ended = link.ending()
            if ended or time.monotonic() > deadline:
                why = ended or f"its agent did not connect within {JOIN_SECONDS:g} s"
                raise UserError(f"host {address.short}: {why}", code="hosts.not_joined")
            time.sleep(0.01)
        return worker

    def renew(self, address: HostAddress) -> None:
        self._links[address].close()
        self._links[address] = link_to(address)
        self._greetings[address] = greeting_of(self._links[address])

    def ending(self, address: HostAddress) -> str | None:
        return self._links[address].ending()

    def hint(self, address: HostAddress) -> str:
        return install_hint(address)


class OthersScheduler(Scheduler):
    """A scheduler that somebody else has started, and that has its workers. It outlives the `with` block."""

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.address = parse_scheduler(scheduler)

    def _open(self, held: contextlib.ExitStack) -> None:
        self._connect()
        held.callback(lambda: self.client.close())

    def _connect(self) -> None:
        from distributed import Client

        security = security_of(self.address, "client")
        try:
            # A client of Dask that fails leaves a thread. Without an answer it waits for ever.
            asyncio.run(asyncio.wait_for(_reach(self.address, security), 2 * REACH_SECONDS))
            with warnings.catch_warnings():
                # Dask warns about other versions, which are refused here.
                warnings.simplefilter("ignore")
                self.client = Client(
                    self.address, security=security, timeout=REACH_SECONDS, set_as_default=True
                )
        except (OSError, TimeoutError) as error:
            raise UserError(
                f"the scheduler {self.address} is not reached: {in_words(error)}",
                code="hosts.no_scheduler",
                hint="start it (dask scheduler --protocol tls), with the certificates that this machine has",
            ) from None
        here = facts()
        # The scheduler reads what it passes on.
        for program, fact in (("thunderherd", "version"), ("distributed", "dask")):
            try:
                there = self.client.run_on_scheduler(metadata.version, program)
            except metadata.PackageNotFoundError:
                there = "none"
            if there != here[fact]:
                self.client.close()
                raise UserError(
                    f"the scheduler {self.address} has another {COMPARED[fact]}: {there}, here {here[fact]}",
                    code="hosts.other_version",
                    hint=f"install {program}=={here[fact]} there",
                )

    def join(self, address: HostAddress) -> str:
        found = self.worker_named(address.name)
        if found is None:
            raise UserError(
                f"the scheduler {self.address} has no worker {address.name!r}",
                code="hosts.not_joined",
                hint=start_hint(self.address, address.name),
            )
        kind, _, place = found.partition("://")
        host = place.rpartition(":")[0].strip("[]")
        if f"{kind}://" != TLS and not is_loopback(host):
            raise UserError(
                f"the worker {address.name!r} listens at {found}, without encryption",
                code="hosts.not_encrypted",
                hint=f"start it with TLS: {start_hint(self.address, address.name)}",
            )
        try:
            # An object of this program would end a worker that does not have it.
            there = self.client.run(eval, PROBE, workers=[found], callback_timeout=ANSWER_SECONDS)[found]
        except Exception as error:
            raise UserError(
                f"host {address.short} cannot run the agent: {in_words(error)}",
                code="hosts.not_started",
                hint=self.hint(address),
            ) from None
        check_equal(there, address, self.hint(address))
        return found

    def renew(self, address: HostAddress) -> None:
        if self.ending(address):
            self.client.close()
            self._connect()

    def ending(self, address: HostAddress) -> str | None:
        return None if self.client.status == "running" else f"the scheduler {self.address} was lost"

    def hint(self, address: HostAddress) -> str:
        return "install the same there, and start the worker again"


async def _reach(scheduler: str, security: Any) -> None:
    """Ask a scheduler for its name."""
    from distributed.core import rpc

    secured = security.get_connection_args("client")
    async with rpc(scheduler, timeout=REACH_SECONDS, connection_args=secured) as asked:
        await asked.identity(n_workers=0)


def start_hint(scheduler: str, name: str) -> str:
    """Return the command that starts a worker."""
    return f"python -m {MODULE} --scheduler {scheduler} --name {name}"


# The roles of somebody else's workers -----------------------------------------------------------------------


def hosts_by_role(scheduler: str) -> dict[str, list[str]]:
    """Return role → addresses of the workers that have it, by their resources, else by their names.

    Raises `UserError` if the scheduler is not reached.
    """
    found: dict[str, list[str]] = {SERVER: [], LOAD: []}
    with OthersScheduler(scheduler) as connected:
        for each in connected.workers().values():
            name = str(each["name"])
            for role in roles_of(name, each["resources"]):
                found[role].append(f"{WORKER}{name}")
    for role, addresses in found.items():
        for address in addresses:
            parse_host(address)
        found[role] = sorted(addresses, key=_in_order)
    return found


def roles_of(name: str, resources: Mapping[str, float]) -> list[str]:
    """Return the roles of a worker."""
    tagged = [role for role in (SERVER, LOAD) if resources.get(role)]
    return tagged or [role for role in (SERVER, LOAD) if re.match(rf"{role}(?![A-Za-z])", name)]


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key by which `load-2` is before `load-10`."""
    return [(int(each) if each.isdecimal() else 0, each) for each in re.split(r"(\d+)", name)]


def hosts_of(
    scheduler: str, server: str | None = None, load: Sequence[str] | None = None
) -> tuple[str, list[str]]:
    """Return the hosts of both sides: those that are named, else those that have the role.

    Raises `UserError` unless there is one server and a load.
    """
    if server is not None and load:
        return server, list(load)
    found = hosts_by_role(scheduler)
    servers = [server] if server is not None else found[SERVER]
    loads = list(load or ()) or [each for each in found[LOAD] if each != server]
    for role, names in ((SERVER, servers), (LOAD, loads)):
        if not names:
            raise UserError(
                f"the scheduler {scheduler} has no worker for the {role}",
                code=f"hosts.no_{role}",
                hint=start_hint(scheduler, role),
            )
    if len(servers) > 1:
        names = [each.removeprefix(WORKER) for each in servers]
        raise UserError(
            f"the scheduler {scheduler} has {len(servers)} workers for the server: {', '.join(names)}",
            code="hosts.several_servers",
            hint=f"choose one: --{SERVER} {servers[0]}",
        )
    return servers[0], loads


# Agents -----------------------------------------------------------------------------------------------------


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
        found: Mapping[str, Any] = json.loads(line)
    except ValueError:
        raise UserError(
            f"host {link.address.short}: instead of its agent, it printed {line[:100]!r}",
            code="hosts.not_started",
        ) from None
    check_equal(found, link.address, install_hint(link.address))
    return found


def check_equal(found: Mapping[str, Any], address: HostAddress, hint: str) -> None:
    """Raise `UserError` if a host differs in what must be equal."""
    here = facts()
    for name, what in COMPARED.items():
        if found.get(name) != here[name]:
            raise UserError(
                f"host {address.short} has another {what}: {str(found.get(name))[:12]}, "
                f"here {here[name][:12]}",
                code="hosts.other_version",
                hint=hint,
            )


def install_hint(address: HostAddress) -> str:
    """Return the command that installs the agent on a host."""
    return f"thunderherd hosts --install {address}"


def ports_of(scheduler: Any) -> dict[str, int]:
    """Return address → port of the addresses at which a scheduler listens."""
    found = {}
    for listener in scheduler.listeners:
        host, _, port = listener.contact_address.partition("://")[2].rpartition(":")
        found[host.strip("[]")] = int(port)
    return found
