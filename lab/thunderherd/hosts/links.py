"""How the agent of a host is started, and spoken to until Dask connects it: a class for each kind of host."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from thunderherd.engine.process import ending_in_words, one_line
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import NETNS, THIS, HostAddress

LOOPBACK = "127.0.0.1"
NAMESPACES = Path("/run/netns")
"""Where ip-netns(8) keeps the namespaces that have names."""
AGENT = [sys.executable, "-m", "thunderherd.hosts.agent"]
END_SECONDS = 5.0
"""The time in which an agent ends after its input has."""
MESSAGE_BYTES = 2048
"""The most bytes of the errors of ssh(1) or an agent that are read for a message, from their end."""


class Link:
    """An agent on this machine."""

    def __init__(self, address: HostAddress) -> None:
        self.address = address
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._buffer = b""
        self._agent: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        """Return the command that starts the agent."""
        return AGENT

    def open(self) -> None:
        """Start the agent."""
        command = self.command()
        try:
            self._agent = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # Ctrl-C reaches only this process, which ends its agents in order.
                process_group=0,
            )
        except OSError as error:
            raise UserError(
                f"host {self.address.short}: {command[0]} cannot be started: {error.strerror}",
                code="hosts.not_started",
            ) from None

    def read_line(self, seconds: float) -> str:
        """Return the next line of the agent; raise `UserError` if there is none."""
        assert self._agent is not None and self._agent.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._agent.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failed(f"its agent did not greet within {seconds:g} s")
                piece = os.read(self._agent.stdout.fileno(), 1 << 16)
                if not piece:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._agent.wait(END_SECONDS)
                    raise self._failed(self.ending() or "its agent closed its output")
                self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode(errors="replace")

    def _failed(self, why: str) -> UserError:
        return UserError(f"host {self.address.short}: {why}", code="hosts.not_started", hint=self.hint())

    def hint(self) -> str:
        """Return what to do if the agent does not start."""
        return ""

    def send(self, spec: Mapping[str, Any]) -> None:
        """Tell the agent what to connect to. The line has a key, so it goes over its input."""
        assert self._agent is not None and self._agent.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._agent.stdin.write(json.dumps(spec).encode() + b"\n")
            self._agent.stdin.flush()

    def ending(self) -> str | None:
        """Describe how the agent ended; None while it runs."""
        if self._agent is None or (status := self._agent.poll()) is None:
            return None
        return self.described(status)

    def described(self, status: int) -> str:
        """Describe an exit status of the command that starts the agent."""
        return f"its agent ended ({ending_in_words(status)}){self.note()}"

    def note(self) -> str:
        """Return the end of its stderr, for the end of a message."""
        size = os.fstat(self._errors.fileno()).st_size
        text = one_line(
            os.pread(self._errors.fileno(), MESSAGE_BYTES, max(0, size - MESSAGE_BYTES)).decode(
                errors="replace"
            )
        )
        shown = "".join(each if each.isprintable() else "?" for each in text)
        return f": {shown[-300:]}" if shown else ""

    def control_address(self, greeting: Mapping[str, Any]) -> str:
        """Return the address of this machine at which the scheduler listens for this host."""
        return LOOPBACK

    def endpoints(self, greeting: Mapping[str, Any], control: str, port: int) -> dict[str, Any]:
        """Return the address of the scheduler for the agent, and where the agent listens and is reached.

        `control` and `port` are where the scheduler listens on this machine.
        """
        return {"scheduler": f"tls://{_bracketed(control)}:{port}", "listen": LOOPBACK}

    def close(self) -> None:
        """End the agent: its input ends, and then it does."""
        if self._agent is not None:
            with contextlib.suppress(BrokenPipeError):
                assert self._agent.stdin is not None
                self._agent.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(END_SECONDS)
            if self._agent.poll() is None:
                self._agent.send_signal(signal.SIGKILL)
                self._agent.wait()
            assert self._agent.stdout is not None
            self._agent.stdout.close()
        self._errors.close()


class NamespaceLink(Link):
    """An agent in a network namespace of this machine."""

    def command(self) -> Sequence[str]:
        path = NAMESPACES / self.address.name
        if not path.exists():
            raise UserError(
                f"there is no network namespace {self.address.name!r}",
                code="hosts.no_namespace",
                hint="ip netns list shows those of this machine",
            )
        return ["nsenter", f"--net={path}", *AGENT]

    def control_address(self, greeting: Mapping[str, Any]) -> str:
        return self._both(greeting)[0]

    def endpoints(self, greeting: Mapping[str, Any], control: str, port: int) -> dict[str, Any]:
        return {**super().endpoints(greeting, control, port), "listen": self._both(greeting)[1]}

    def _both(self, greeting: Mapping[str, Any]) -> tuple[str, str]:
        """Return an address of this process and one of the namespace, in the same network."""
        for there in greeting["addresses"]:
            if (here := source_towards(there)) is not None:
                return here, str(there)
        found = ", ".join(greeting["addresses"]) or "none"
        raise UserError(
            f"no network joins this process and the namespace {self.address.name} (its addresses: {found})",
            code="hosts.not_joined",
            hint="join them with a bridge, and give each an address",
        )


def source_towards(address: str) -> str | None:
    """Return the address of this process in the network of another address; None if it has none there.

    A default route leads anywhere, so it does not count.
    """
    import psutil

    wanted = ipaddress.ip_address(address)
    for each in (each for of in psutil.net_if_addrs().values() for each in of):
        if each.family in (socket.AF_INET, socket.AF_INET6) and each.netmask:
            own = each.address.partition("%")[0]
            if wanted in ipaddress.ip_network(f"{own}/{_prefix(each.netmask)}", strict=False):
                return own
    return None


def resolved(host: str) -> set[str]:
    """Return the addresses of a host's name on this machine; the name itself if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return {host}
    return {str(address[0]) for *_, address in found}


def free_port(address: str = "") -> int:
    """Return a port that nobody uses now, at an address or (empty) at any."""
    with socket.socket() as found:
        found.bind((address, 0))
        return int(found.getsockname()[1])


def _prefix(netmask: str) -> int:
    return int(ipaddress.ip_address(netmask)).bit_count()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


OWN: dict[str, type[Link]] = {THIS: Link, NETNS: NamespaceLink}
"""The kinds of hosts that are on this machine."""
