"""The agent of a host: a worker of Dask that starts processes of the engine and reads the machine's facts.

`python -m thunderherd.hosts.agent` prints a line about its host, reads a line that says what to connect to,
and ends when its input does. What it has started ends with it.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from typing import Any, TypeVar

from thunderherd.engine.places import channel
from thunderherd.engine.places.channel import Channel, LocalChannel
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.failures import EngineError
from thunderherd.errors import UserError
from thunderherd.files import temporary_folder
from thunderherd.hosts.addresses import host_of
from thunderherd.hosts.bundle import code_hash, engine_hash
from thunderherd.hosts.quiet import NO_HTTP, SETTINGS, quiet_logs

CONNECT = "--connect"
"""The option of the engine with the target of a load."""
ABANDONED_SECONDS = 60.0
"""The time without a call after which an agent ends what it has started."""
CHECK_SECONDS = 1.0
"""The interval at which it looks whether that time is over."""
ALLOWED = ("serve", "load", "limits")
"""The commands of the engine that an agent starts."""
AROUND = ("count", "profile")
"""The commands of the engine that run one of these, after `--`."""


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


def greeting(port: int) -> dict[str, Any]:
    """Return what the agent says about its host before it connects."""
    return {
        **facts(),
        "engine": str(find_engine()),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "port": port,
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
    """The processes of a host. Its calls come one after another, all in the same thread.

    `targets` are the addresses that loads may be sent to, without a port.
    """

    def __init__(self, targets: Collection[str] = ()) -> None:
        self._targets = frozenset(targets)
        self._channels: dict[int, Channel] = {}
        self._started = 0
        self.called = time.monotonic()
        self.lock = threading.Lock()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    @outcome
    def clock(self) -> int:
        """Return this host's CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    @outcome
    def ask(self, fact: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return what a function finds on this host."""
        return fact(*args, **kwargs)

    @outcome
    def start(self, command: Sequence[str], control: bool) -> int:
        """Start a process of the engine; return its number."""
        check_command(command, self._targets)
        self._started += 1
        self._channels[self._started] = LocalChannel(command, control=control)
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
        """End what was started if nobody calls any more."""
        while True:
            time.sleep(CHECK_SECONDS)
            with self.lock:
                if time.monotonic() - self.called > ABANDONED_SECONDS:
                    for each in self._channels.values():
                        each.end(at_once=True)
                    self._channels.clear()


def check_command(command: Sequence[str], targets: Collection[str]) -> None:
    """Raise `UserError` if a command is not one that an agent may start, or sends to another target."""
    words = list(command[1:])
    if words[:1] and words[0] in AROUND and "--" in words:
        words = words[words.index("--") + 1 :]
    if command[:1] != [str(find_engine())] or words[:1] == [] or words[0] not in ALLOWED:
        raise UserError(
            f"an agent starts only {', '.join(ALLOWED)} of its engine, not {' '.join(command[:2])!r}",
            code="hosts.command",
        )
    given = [after for word, after in pairwise(words) if word == CONNECT]
    if words[0] == "load" and (len(given) != 1 or host_of(given[0]) not in targets):
        raise UserError(
            f"an agent sends only to the server of its study ({', '.join(sorted(targets)) or 'none'}), not "
            f"to {', '.join(given) or 'the usual address'}",
            code="hosts.target",
        )


async def serve(spec: Mapping[str, Any], port: int) -> None:
    """Be a worker until the scheduler or the input of this process ends."""
    import dask
    from distributed import Worker
    from distributed.security import Security

    dask.config.set(SETTINGS)
    security = Security(
        require_encryption=True,
        tls_ca_file=spec["certificate"],
        tls_worker_cert=spec["certificate"],
        tls_worker_key=spec["key"],
    )
    with quiet_logs(), temporary_folder() as folder:
        worker = await Worker(
            spec["scheduler"],
            name=spec["name"],
            host=spec["listen"],
            port=port,
            contact_address=spec.get("contact"),
            nthreads=1,
            memory_limit=0,
            security=security,
            dashboard=False,
            dashboard_address=NO_HTTP,
            local_directory=str(folder),
            death_timeout=spec["seconds"],
        )
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
        finished = asyncio.ensure_future(worker.finished())
        await asyncio.wait({ended, finished}, return_when=asyncio.FIRST_COMPLETED)
        await worker.close(nanny=False, reason="the driver has ended")


def root_of(error: BaseException) -> BaseException:
    """Return the first of the errors that led to another. Dask says only that its worker failed."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Run the agent."""
    port = free_port()
    print(json.dumps(greeting(port)), flush=True)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    try:
        asyncio.run(serve(json.loads(line), port))
    except (OSError, RuntimeError) as error:
        sys.exit(str(root_of(error)))
    # A thread still waits for the end of the input.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
