"""The agent of a host: a worker of Dask that starts processes of the engine and reads the machine's facts.

`python -m thunderherd.hosts.agent` prints a line about its host, reads a line that says what to connect to,
and ends when its input does. With `--scheduler`, it joins a scheduler that somebody else has started. What it
has started ends with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import hashlib
import ipaddress
import json
import os
import platform
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from thunderherd.engine.places import channel
from thunderherd.engine.places.channel import Channel, LocalChannel
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.places.place import LARGEST_FILE
from thunderherd.engine.places.programs import Allowed
from thunderherd.errors import UserError
from thunderherd.files import temporary_folder
from thunderherd.hosts.addresses import TLS, WORKER, host_of, parse_host, parse_scheduler
from thunderherd.hosts.bundle import code_hash, engine_hash
from thunderherd.hosts.links import free_port
from thunderherd.hosts.quiet import NO_HTTP, SETTINGS, in_words, quiet_logs
from thunderherd.hosts.tls import security_of

MODULE = "thunderherd.hosts.agent"
ABANDONED_SECONDS = 60.0
"""The time without a call after which an agent ends what it has started."""
CHECK_SECONDS = 1.0
"""The interval at which it looks whether that time is over."""
JOIN_SECONDS = 60.0
"""The time in which it connects to a scheduler that somebody else starts, perhaps at the same time."""
AGAIN_SECONDS = 1.0
"""The time between two attempts to join it."""
CONNECT, OUTPUT = "--connect", "--output"
"""The options of the engine with the target of a load, and with the file of a profile."""
STARTED = ("serve", "load", "limits", "conform", "host", "generate")
"""The commands of the engine that an agent starts."""
SENDING, RUNNING = ("load", "conform"), ("host", "generate")
"""Those of them that send to a target, and those that run a program."""
RUNNING_SERVER = "--running"
"""The option of `host` by which it watches a server that runs already."""
WITH_VALUE = (
    "--count", "--cpus", "--event", "--frequency", "--listen", "--network-namespace", OUTPUT, "--parent",
    "--ready-line", "--user",
)  # fmt: skip
"""The options, each with a value, of commands that run a program."""
AROUND = ("count", "profile")
"""The commands of the engine that run one of these, after `--`."""
USABLE = os.sched_getaffinity(0)
"""The CPUs that this process may use. Processes that it starts, and functions that it calls for the driver,
use them all."""


def addresses() -> list[str]:
    """Return the addresses of this host that others may reach, IPv4 before IPv6."""
    import psutil

    found = []
    for each in (each for of in psutil.net_if_addrs().values() for each in of):
        if each.family in (socket.AF_INET, socket.AF_INET6):
            address = ipaddress.ip_address(each.address.partition("%")[0])
            if not address.is_loopback and not address.is_link_local:
                found.append(address)
    return [str(each) for each in sorted(found, key=lambda each: (each.version, int(each)))]


def facts() -> dict[str, str]:
    """Return what must be equal on all hosts, and the version of Python."""
    return {
        "version": metadata.version("thunderherd"),
        "python": platform.python_version(),
        "dask": metadata.version("distributed"),
        "code": code_hash(),
        "engine_hash": engine_hash(),
    }


def greeting() -> dict[str, Any]:
    """Return what the agent says about its host."""
    return {
        **facts(),
        "engine": str(find_engine()),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "addresses": addresses(),
        "reached_at": os.environ.get("SSH_CONNECTION", "").split()[2:3],
    }


Outcome = tuple[Any, Exception | None]
"""What a call found, or its exception. An exception that the call itself raises is one of Dask's."""

Method = TypeVar("Method", bound=Callable[..., Any])


def outcome(method: Method) -> Callable[..., Outcome]:
    """Make a method return its result or its exception."""

    @functools.wraps(method)
    def returns(self: Agent, *args: Any) -> Outcome:
        with self.lock:
            # All calls come in this thread, which lives as long as this process.
            channel.starter = threading.current_thread()
            try:
                return method(self, *args), None
            except Exception as error:
                return None, error
            finally:
                self.called = time.monotonic()

    return returns


class Agent:
    """The processes of a host. All calls of a worker's agents come one after another, in the same thread."""

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker: Any = get_worker()
        self._key = self._worker.get_current_task()
        self._driver = self._driver_name = ""
        self._allowed = Allowed()
        self._files = contextlib.ExitStack()
        self._folder: Path | None = None
        self._channels: dict[int, Channel] = {}
        self._started = 0
        self.called = time.monotonic()
        self.lock = threading.Lock()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    @outcome
    def hold(self, driver: str, name: str) -> dict[str, Any]:
        """Keep this worker for a driver, and greet it; raise `UserError` if another driver has the worker."""
        for other in list(self._worker.state.actors.values()):
            if isinstance(other, Agent) and other._driver not in ("", driver):
                raise UserError(
                    f"host {self._worker.name} is in use by another run ({other._driver_name})",
                    code="hosts.in_use",
                    hint="wait for its end",
                )
        self._driver, self._driver_name = driver, name
        run_on(USABLE)
        return greeting()

    @outcome
    def keep_off(self, measured: Collection[int]) -> list[int]:
        """Run on other CPUs than the measured ones, unless there are no others; return on which."""
        own = USABLE - {*measured} or USABLE
        run_on(own)
        return sorted(own)

    @outcome
    def allow(self, allowed: Allowed) -> None:
        """Say what this agent may send to and start; nothing else."""
        self._allowed = allowed

    @outcome
    def clock(self) -> int:
        """Return this host's CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    @outcome
    def ask(self, fact: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function finds on this host."""
        with on_all_cpus():
            return fact(*args, **kwargs)

    @outcome
    def put(self, name: str, sha256: str, at: int, piece: bytes, is_last: bool) -> str:
        """Write a piece of a file into a folder that ends with this agent; return the path of the file."""
        path = self._own_folder() / f"{sha256[:12]}-{Path(name).name}"
        with path.open("ab" if at else "wb") as file:
            if file.tell() != at or at + len(piece) > LARGEST_FILE:
                raise UserError(f"no piece of {name} belongs at byte {at}", code="hosts.file_damaged")
            file.write(piece)
        if is_last and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise UserError(f"{name} was changed on its way to the host", code="hosts.file_damaged")
        return str(path)

    @outcome
    def output(self, name: str) -> str:
        """Return where a process writes a file for the driver, in the same folder."""
        self._started += 1
        return str(self._own_folder() / f"{self._started}-{Path(name).name}")

    @outcome
    def take(self, path: str, at: int, most: int) -> bytes:
        """Return `most` bytes of such a file, from byte `at` on; at its end, remove it and return nothing."""
        file = Path(path)
        if file.parent != self._own_folder():
            raise UserError(f"an agent gives away only its own files, not {path}", code="hosts.command")
        with file.open("rb") as opened:
            opened.seek(at)
            piece = opened.read(most)
        if not piece:
            file.unlink()
        return piece

    def _own_folder(self) -> Path:
        """Return a private folder that ends with this agent."""
        if self._folder is None:
            self._folder = self._files.enter_context(temporary_folder(Path(self._worker.local_directory)))
        return self._folder

    @outcome
    def start(
        self,
        command: Sequence[str],
        control: bool,
        directory: Path | None,
        environment: Mapping[str, str],
        merged: bool,
    ) -> int:
        """Start a process of the engine; return its number."""
        check_command(command, self._allowed, directory, environment, self._folder)
        self._started += 1
        with on_all_cpus():
            self._channels[self._started] = LocalChannel(
                command, control=control, directory=directory, environment=environment, merged=merged
            )
        return self._started

    @outcome
    def write(self, number: int, data: bytes) -> None:
        """Write to the input of a process."""
        self._channel(number).write(data)

    @outcome
    def close_input(self, number: int) -> None:
        """Close the input of a process."""
        self._channel(number).close_input()

    @outcome
    def read(self, number: int, seconds: float) -> bytes | None:
        """Return what a process has printed, as `Channel.read` does."""
        return self._channel(number).read(seconds)

    @outcome
    def wait(self, number: int, seconds: float) -> int | None:
        """Wait for the end of a process, as `Channel.wait` does."""
        return self._channel(number).wait(seconds)

    @outcome
    def errors(self, number: int) -> str:
        """Return the end of a process's stderr."""
        return self._channel(number).errors()

    @outcome
    def errors_size(self, number: int) -> int:
        """Return the number of bytes of a process's stderr."""
        return self._channel(number).errors_size()

    @outcome
    def end(self, number: int, at_once: bool) -> None:
        """End a process."""
        self._channel(number).end(at_once=at_once)
        del self._channels[number]

    def _channel(self, number: int) -> Channel:
        found = self._channels.get(number)
        if found is None:
            raise EngineError(f"nobody called for {ABANDONED_SECONDS:g} s, so the agent ended its processes")
        return found

    def _watch(self) -> None:
        """End what was started if nobody calls any more, or if the scheduler has released this agent.

        The scheduler does that when its client, the driver, is gone.
        """
        from distributed import Status

        over, is_held = (Status.closing, Status.closed, Status.failed), True
        while is_held:
            time.sleep(CHECK_SECONDS)
            is_held = self._key in self._worker.state.actors and self._worker.status not in over
            with self.lock:
                if not is_held or time.monotonic() - self.called > ABANDONED_SECONDS:
                    for each in self._channels.values():
                        each.end(at_once=True)
                    self._channels.clear()
                if not is_held:
                    self._files.close()


def run_on(cpus: Collection[int]) -> None:
    """Run all threads of this process on these CPUs."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cpus)


@contextlib.contextmanager
def on_all_cpus() -> Iterator[None]:
    """Let this thread, and the processes that it starts, use all CPUs."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, USABLE)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def check_command(
    command: Sequence[str],
    allowed: Allowed,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Raise `UserError` if an agent may not start a command, or if the command sends or writes elsewhere.

    `folder` is where it may write; None: nowhere.
    """
    words = list(command[1:])
    if words[:1] and words[0] in AROUND:
        around, words = _parted(words[1:])
        for path in around.get(OUTPUT, ()):
            if folder is None or Path(path).parent != folder:
                raise UserError(
                    f"an agent writes only to its own folder, not to {path}", code="hosts.command"
                )
    if command[:1] != [str(find_engine())] or words[:1] == [] or words[0] not in STARTED:
        raise UserError(
            f"an agent starts only {', '.join(STARTED)} of its engine, not {' '.join(command[:2])!r}",
            code="hosts.command",
        )
    given = [after for word, after in pairwise(words) if word == CONNECT]
    targets = allowed.targets
    if words[0] in SENDING and (len(given) != 1 or host_of(given[0]) not in targets):
        raise UserError(
            f"an agent sends only to the server of its study ({', '.join(sorted(targets)) or 'none'}), not "
            f"to {', '.join(given) or 'the usual address'}",
            code="hosts.target",
        )
    options, program = _parted(words[1:]) if words[0] in RUNNING else ({}, [])
    is_running = words[0] == "host" and RUNNING_SERVER in options
    if program or directory or environment or (words[0] in RUNNING and not is_running):
        allowed.check_program(program, directory, environment or {})


def _parted(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of the options of a command that runs a program, and the program, after `--`.

    The engine would take any other word for the beginning of the program.
    """
    options: dict[str, list[str]] = {}
    left = iter(words)
    for word in left:
        if word == "--":
            break
        if word == RUNNING_SERVER:
            options[word] = []
        elif word in WITH_VALUE:
            options.setdefault(word, []).append(next(left, ""))
        else:
            raise UserError(f"an agent knows no option {word!r} of such a command", code="hosts.command")
    return options, [*left]


async def work(options: Mapping[str, Any], ended: asyncio.Future[Any]) -> None:
    """Be a worker until `ended` is done, or the scheduler is gone."""
    from distributed import Worker

    with quiet_logs(), temporary_folder() as folder:
        worker = Worker(
            **options,
            nthreads=1,
            memory_limit=0,
            dashboard=False,
            dashboard_address=NO_HTTP,
            local_directory=str(folder),
        )
        starting = asyncio.ensure_future(worker.start())
        await asyncio.wait({starting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            finished = asyncio.ensure_future(worker.finished())
            await asyncio.wait({finished, ended}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        await worker.close(nanny=False, reason="the driver has ended")


async def serve(spec: Mapping[str, Any], port: int) -> None:
    """Be a worker of the driver's scheduler until the input of this process ends."""
    from distributed.security import Security

    security = Security(
        require_encryption=True,
        tls_ca_file=spec["certificate"],
        tls_worker_cert=spec["certificate"],
        tls_worker_key=spec["key"],
    )
    options = {
        "scheduler_ip": spec["scheduler"], "name": spec["name"], "host": spec["listen"], "port": port,
        "contact_address": spec.get("contact"), "security": security, "death_timeout": spec["seconds"],
    }  # fmt: skip
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    try:
        await work(options, ended)
    except (OSError, RuntimeError) as error:
        print(in_words(error), file=sys.stderr, flush=True)
        # A thread still waits for the end of the input.
        os._exit(1)


async def join(scheduler: str, name: str) -> None:
    """Be a worker of somebody else's scheduler until a signal ends this process.

    If the scheduler is lost, the worker joins it again. Raises `UserError` if it cannot.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # nohup(1) and shells ignore some.
        if signal.getsignal(each) is not signal.SIG_IGN:
            loop.add_signal_handler(each, ended.cancel)
    security = security_of(scheduler, "worker")
    deadline = None
    while not ended.done():
        try:
            options = {
                "scheduler_ip": scheduler, "name": name, "host": own_address_towards(scheduler),
                "security": security, "death_timeout": JOIN_SECONDS,
            }  # fmt: skip
            await work(options, ended)
            deadline = time.monotonic() + JOIN_SECONDS
        except (OSError, RuntimeError) as error:
            # After a loss, the scheduler may still have this name.
            if deadline is None or time.monotonic() > deadline:
                why = error.__cause__ or error
                raise UserError(f"{scheduler} cannot be joined: {why}", code="hosts.not_joined") from None
            await asyncio.wait({ended}, timeout=AGAIN_SECONDS)


def own_address_towards(scheduler: str) -> str:
    """Return this machine's address on the route to a scheduler. There may be no default route."""
    host, _, port = scheduler.partition("://")[2].rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
    family, kind, protocol, _, there = found[0]
    with socket.socket(family, kind, protocol) as asked:
        asked.connect(there)
        own = str(asked.getsockname()[0])
    return f"[{own}]" if ":" in own else own


def main() -> None:
    """Run the agent."""
    import dask

    parser = argparse.ArgumentParser(
        prog=f"python -m {MODULE}", description="A worker that measures for `thunderherd --scheduler`."
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help=f"scheduler to join, such as {TLS}head:8786")
    parser.add_argument("--name", help="name of this worker: server, load-0, load-1, ...")
    given = parser.parse_args()
    if (given.scheduler is None) != (given.name is None):
        parser.error("--scheduler and --name belong together")
    dask.config.set({**SETTINGS, "logging": {"distributed": "warning"}})
    if given.scheduler is not None:
        try:
            scheduler, host = parse_scheduler(given.scheduler), parse_host(f"{WORKER}{given.name}")
            find_engine()
            asyncio.run(join(scheduler, host.name))
        except UserError as error:
            for each in error.problems:
                print(each.line + (f"\nhint: {each.hint}" if each.hint else ""), file=sys.stderr)
            sys.exit(error.exit_status)
        return
    port = free_port()
    print(json.dumps({**greeting(), "port": port}), flush=True)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    asyncio.run(serve(json.loads(line), port))
    # A thread still waits for the end of the input.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
