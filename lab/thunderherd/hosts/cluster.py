"""The hosts of a run: an agent on each, and the calls to it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from thunderherd.engine.places.channel import Channel, Environment
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.places.place import LARGEST_FILE, Fact, Parameters, Place
from thunderherd.engine.places.programs import Allowed, Program
from thunderherd.errors import UserError
from thunderherd.files import read_bytes
from thunderherd.hosts.addresses import HostAddress
from thunderherd.hosts.agent import ABANDONED_SECONDS
from thunderherd.hosts.links import LOOPBACK
from thunderherd.hosts.quiet import SECONDS_UNTIL_LOST, in_words
from thunderherd.hosts.schedulers import ANSWER_SECONDS, OthersScheduler, OwnScheduler
from thunderherd.statistics.clocks import Clock, Reading, compared

SLICE_SECONDS = 0.5
"""The longest wait in one call. A longer wait takes several, so that the loss of another host is seen."""
PINGS, PINGS_BEFORE_TRIAL = 20, 5
"""The number of readings of a host's clock, at first and before each trial. The quickest counts."""
KEEP_SECONDS = ABANDONED_SECONDS / 3
"""The time after which an idle host is called, so that its agent does not end what it has started."""
RETURN_SECONDS = 60.0
"""The time in which a lost host may return."""
AGAIN_SECONDS = 2.0
"""The time between two attempts to bring it back."""
RELEASE_SECONDS = 3.0
"""The time in which a worker is free again after a run."""
TOKEN, DRIVER = token_hex(8), f"process {os.getpid()} on {socket.gethostname()}"
"""This process, and its name for other runs that want the same hosts."""
PIECE = 1 << 20
"""The most bytes of a file in a call."""
READINGS = re.compile(r'"((?:\w+_)?monotonic_ns|counted_from_ns|counted_to_ns|read_ns)":(\d+)')
"""Readings of CLOCK_MONOTONIC in a line of the engine."""


class HostLostError(EngineError):
    """A host that was lost in mid-trial."""

    code = "hosts.lost"


class HostFailedError(EngineError):
    """A host on which a system call failed: its disk is full, or a connection was refused."""

    code = "hosts.failed"


@dataclass
class Host:
    """A host of a cluster. `lost` says why it is not there any more."""

    address: HostAddress
    greeting: Mapping[str, Any] = field(default_factory=dict)
    """What its agent has said about it (`agent.greeting`)."""
    worker: str = ""
    """The address of its worker of Dask; empty before it has joined."""
    actor: Any = None
    """Its agent, as Dask calls it."""
    held: Any = None
    """The future of Dask that keeps the actor. If the worker is lost, it is not finished any more."""
    lost: str = ""
    measured: frozenset[int] = frozenset()
    """The CPUs that its agent keeps off."""
    files: dict[Path, Path] = field(default_factory=dict)
    """The files of this machine that its agent has, and where."""
    outputs: dict[Path, Path] = field(default_factory=dict)
    """The files of this machine that its processes write, and where they write them."""
    called: float = 0.0
    """The time of the last call (`time.monotonic`)."""
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

    They are workers of `scheduler`, which somebody else has started; None: this process starts one, and the
    agents. Loads may be sent to the first host and to `targets`, addresses without ports; None: to all hosts.
    Each of `programs` may be started on its host.

    Raises `UserError` if a host cannot be reached, has another version of the program, or is in use.
    """

    def __init__(
        self,
        addresses: Sequence[HostAddress],
        scheduler: str | None = None,
        targets: Collection[str] | None = None,
        programs: Collection[tuple[HostAddress, Program]] = (),
    ) -> None:
        self.addresses = list(dict.fromkeys(addresses))
        self._targets, self._programs = targets, programs
        self.hosts = {address: Host(address) for address in self.addresses}
        self.scheduler = OthersScheduler(scheduler) if scheduler else OwnScheduler(self.addresses)
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as held:
            held.enter_context(self.scheduler)
            for host in self.hosts.values():
                try:
                    self._join(host)
                except HostLostError as error:
                    raise UserError(str(error), code=error.code) from None
            for host in self.hosts.values():
                self._prepare(host)
            self._held = held.pop_all()
        return self

    def restore(self) -> None:
        """Bring lost hosts back, and compare all clocks.

        Raises `UserError` if a host does not come back.
        """
        deadline = time.monotonic() + RETURN_SECONDS
        for host in self.hosts.values():
            while True:
                with contextlib.suppress(HostLostError):
                    self._check([host])
                    host.clock = self.clock(host, PINGS_BEFORE_TRIAL)
                    break
                try:
                    self.scheduler.renew(host.address)
                    self._join(host)
                    self._prepare(host)
                except (UserError, HostLostError) as error:
                    if time.monotonic() > deadline:
                        message = f"host {host.name} does not come back within {RETURN_SECONDS:g} s: {error}"
                        raise UserError(message, code=HostLostError.code) from None
                    time.sleep(AGAIN_SECONDS)

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def place(self, address: HostAddress) -> HostPlace:
        """Return a host as the place of processes."""
        return HostPlace(self, self.hosts[address])

    def _join(self, host: Host) -> None:
        """Put an agent on a host's worker, and compare what must be equal."""
        host.worker = self.scheduler.join(host.address)
        self._put_agent(host)
        deadline = time.monotonic() + RELEASE_SECONDS
        while True:
            try:
                host.greeting = self.call(host, "hold", TOKEN, DRIVER, of_all=False)
                break
            except UserError:
                # The agent of a run that has just ended goes in a moment.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        host.clock = self.clock(host)

    def _prepare(self, host: Host) -> None:
        """Tell an agent where loads may be sent, what it may start, and which CPUs are measured."""
        first = self.hosts[self.addresses[0]]
        servers = [first] if self._targets is not None else [*self.hosts.values()]
        found = [address for each in servers for address in each.addresses]
        own = [LOOPBACK] if host in servers else []
        targets = frozenset([*found, *own, *(self._targets or ())])
        programs = frozenset(each for address, each in self._programs if address == host.address)
        self.call(host, "allow", Allowed(targets, programs), of_all=False)
        self.call(host, "keep_off", host.measured, of_all=False)

    def _put_agent(self, host: Host) -> None:
        from distributed import Actor

        from thunderherd.hosts.agent import Agent

        client = self.scheduler.client
        host.held = client.submit(Agent, workers=[host.worker], actor=True, pure=False, retries=0)
        try:
            error = host.held.exception(timeout=ANSWER_SECONDS)
        except (OSError, TimeoutError):
            error = TimeoutError(f"no answer within {ANSWER_SECONDS:g} s")
        if error is not None:
            raise UserError(
                f"host {host.name} cannot run the agent: {in_words(error)}",
                code="hosts.not_started",
                hint=self.scheduler.hint(host.address),
            )
        # It belongs to this client, even if the process has several.
        with client.as_current():
            host.actor = Actor(Agent, host.worker, host.held.key)
        host.lost, host.files, host.outputs = "", {}, {}

    def clock(self, host: Host, pings: int = PINGS) -> Clock:
        """Compare a host's clock with this machine's."""
        return compared(self._reading(host) for _ in range(pings))

    def _reading(self, host: Host) -> Reading:
        before = time.monotonic_ns()
        return Reading(before, self.call(host, "clock", of_all=False), time.monotonic_ns())

    def call(
        self, host: Host, method: str, *args: Any, seconds: float = ANSWER_SECONDS, of_all: bool = True
    ) -> Any:
        """Return the result of a method of a host's agent, or raise its exception.

        Raises `HostLostError` if this host is lost meanwhile, or, `of_all`, another; and `HostFailedError`.
        """
        watched = [each for each in self.hosts.values() if each.actor is not None] if of_all else [host]
        self._keep(watched, host)
        deadline = time.monotonic() + seconds
        try:
            future = getattr(host.actor, method)(*args)
            while True:
                try:
                    found, failure = future.result(timeout=SLICE_SECONDS)
                    break
                except TimeoutError:
                    self._keep(watched, host)
                    if time.monotonic() > deadline:
                        self._lose(host, f"it did not answer within {seconds:g} s")
        except (OSError, RuntimeError) as error:
            # Dask says only that it cannot reach the worker.
            self._lose(host, self._why(host))
            raise HostLostError(f"host {host.name} was lost: {host.lost}") from error
        if isinstance(failure, OSError):
            why = f"{failure.strerror or failure}{f': {failure.filename}' if failure.filename else ''}"
            raise HostFailedError(f"host {host.name}: {why}") from failure
        if failure is not None:
            raise failure
        return found

    def _keep(self, hosts: Sequence[Host], called: Host) -> None:
        """Check that hosts are there, and call those that were not called for `KEEP_SECONDS`.

        `called` is the host that is called anyway.
        """
        now = time.monotonic()
        called.called = now
        self._check(hosts)
        for each in hosts:
            if now - each.called > KEEP_SECONDS:
                self.call(each, "clock", of_all=False)

    def check(self) -> None:
        """Raise `HostLostError` if a host is lost."""
        self._check(self.hosts.values())

    def _check(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            if host.lost:
                pass
            elif self.scheduler.ending(host.address) or host.held is None or host.held.status != "finished":
                self._lose(host, self._why(host))
            elif self.scheduler.is_silent(host.worker):
                self._lose(host, f"it gave no sign of life for {SECONDS_UNTIL_LOST} s")
            if host.lost:
                raise HostLostError(f"host {host.name} was lost: {host.lost}")

    def _lose(self, host: Host, why: str) -> None:
        """Give up a host. Dask would make its calls again if a worker returned."""
        host.lost = why
        if host.held is not None and host.held.client.status == "running":
            host.held.cancel()

    def _why(self, host: Host) -> str:
        """Return why a host is lost. The end of its agent may be seen a moment after that of a connection."""
        deadline = time.monotonic() + self.scheduler.end_seconds
        while not (ended := self.scheduler.ending(host.address)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return ended or ("its connection was closed" if host.worker else "it has not joined")


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
        environment: Environment | None = None,
        merged: bool = False,
    ) -> Channel:
        how = (control, directory, environment or {}, merged)
        return HostChannel(self._cluster, self.there, command, *how)

    def file(self, path: Path) -> Path:
        known = self.there.files
        if path not in known:
            content = read_bytes(path, LARGEST_FILE)
            about, length = (path.name, hashlib.sha256(content).hexdigest()), len(content)
            for at in range(0, length or 1, PIECE):
                piece, is_last = content[at : at + PIECE], at + PIECE >= length
                there = self._cluster.call(self.there, "put", *about, at, piece, is_last)
            known[path] = Path(there)
        return known[path]

    def output(self, path: Path) -> Path:
        there = Path(self._cluster.call(self.there, "output", path.name))
        self.there.outputs[path] = there
        return there

    def fetch(self, path: Path) -> None:
        there, at = self.there.outputs.pop(path), 0
        with path.open("wb") as file:
            while piece := self._cluster.call(self.there, "take", str(there), at, PIECE):
                file.write(piece)
                at += len(piece)
                if at > LARGEST_FILE:
                    raise HostFailedError(f"host {self.there.name}: {path.name} is too large to be fetched")

    def time_there(self, here_ns: int) -> int:
        return here_ns + self.there.clock.ahead_ns

    @property
    def round_trip_ns(self) -> int:
        return 2 * self.there.clock.error_ns

    def load_flags(self) -> list[str]:
        # The load's target is the study's own server.
        return ["--allow-remote"]

    def keep_off(self, measured: Collection[int]) -> list[int]:
        """Keep the host's agent off the measured CPUs, if there are others; return the CPUs that it uses."""
        self.there.measured = frozenset(measured)
        found: list[int] = self._cluster.call(self.there, "keep_off", self.there.measured)
        return found

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

    look_seconds = SLICE_SECONDS

    def __init__(
        self, cluster: Cluster, host: Host, command: Sequence[str], control: bool, *more: object
    ) -> None:
        self._cluster, self._host, self._control = cluster, host, control
        self._number: int | None = self._call("start", list(command), control, *more)

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

    def errors_size(self) -> int:
        return 0 if self._number is None else int(self._call("errors_size", self._number))

    def translated(self, line: str) -> str:
        ahead = self._host.clock.ahead_ns
        return READINGS.sub(lambda found: f'"{found[1]}":{int(found[2]) - ahead}', line)
