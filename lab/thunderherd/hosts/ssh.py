"""Hosts that are reached by ssh(1), with the user's configuration, agent and jump hosts.

One connection carries all: the agent's input and output, and two tunnels between its worker of Dask and the
scheduler. No other port of the host has to be reachable, except by the measured traffic.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from thunderherd.engine.process import one_line
from thunderherd.errors import UserError
from thunderherd.files import temporary_folder
from thunderherd.hosts.addresses import HostAddress
from thunderherd.hosts.bundle import FOLDER, bundle_name
from thunderherd.hosts.links import LOOPBACK, Link, free_port

OPTIONS = {
    # Nobody answers a question here.
    "BatchMode": "yes",
    "ControlPersist": "no",
    "ExitOnForwardFailure": "yes",
    # A cut link is seen after 15 s.
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "2",
}
LONGEST_FOLDER = 50
"""Of the path of the temporary folder, in bytes: that of a socket has at most 107, and ssh(1) adds 17."""
SHORT_FOLDER = Path("/tmp")
"""Where the socket is if that path would be too long."""
FAILED = 255
"""The exit status of ssh(1) if it cannot connect, or loses its connection."""
FORWARD_SECONDS = 20.0
"""The time in which a tunnel opens."""
COMMAND_SECONDS = 300.0
"""The time limit of a command that copies a file to a host."""


def ssh_words(address: HostAddress, *options: str) -> list[str]:
    """Return the words of ssh(1) up to the host."""
    given = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    port = ["-p", str(address.port)] if address.port else []
    return ["ssh", "-T", *given, *port, *options, "--", address.name]


class SshLink(Link):
    """An agent on a host that ssh(1) reaches."""

    def __init__(self, address: HostAddress) -> None:
        super().__init__(address)
        self._held = contextlib.ExitStack()
        is_long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER
        folder = temporary_folder(SHORT_FOLDER if is_long else None)
        self._socket = self._held.enter_context(folder) / "ssh"

    def command(self) -> Sequence[str]:
        agent = f'"$HOME"/{FOLDER}/{bundle_name()}/agent'
        start = f"if [ -x {agent} ]; then exec {agent}; fi; exec python3 -m thunderherd.hosts.agent"
        return [*ssh_words(self.address, "-M", "-S", str(self._socket)), f"exec sh -c {shlex.quote(start)}"]

    def endpoints(self, greeting: Mapping[str, Any], control: str, port: int) -> dict[str, Any]:
        there = self._forward("-R", f"{LOOPBACK}:0:{control}:{port}")
        try:
            far = int(there)
        except ValueError:
            raise self._failed(f"ssh did not say which port it forwards: {there[:100]!r}") from None
        here = free_port(LOOPBACK)
        self._forward("-L", f"{LOOPBACK}:{here}:{LOOPBACK}:{greeting['port']}")
        return {
            "scheduler": f"tls://{LOOPBACK}:{far}",
            "listen": LOOPBACK,
            "contact": f"tls://{LOOPBACK}:{here}",
        }

    def _forward(self, kind: str, what: str) -> str:
        """Open a tunnel through the connection; return what ssh(1) prints."""
        words = ssh_words(self.address, "-S", str(self._socket), "-O", "forward", kind, what)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=FORWARD_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise self._failed(f"a tunnel did not open within {FORWARD_SECONDS:g} s") from None
        if done.returncode != 0:
            raise self._failed(f"no tunnel: {one_line(done.stderr)}")
        return done.stdout.strip()

    def described(self, status: int) -> str:
        if status == FAILED:
            return f"ssh could not connect, or lost its connection{self.note()}"
        return super().described(status)

    def hint(self) -> str:
        status = self._agent.poll() if self._agent is not None else None
        if status == FAILED:
            return f"try: ssh {self.address.name} true"
        return f"install it: thunderherd hosts --install {self.address}"

    def close(self) -> None:
        super().close()
        self._held.close()


def run_there(address: HostAddress, script: str, sent: BinaryIO | None = None) -> str:
    """Run a script of this program on a host, with a file as its input; return what it prints.

    Raises `UserError` with the end of its stderr if it fails.
    """
    words = [*ssh_words(address), f"exec sh -c {shlex.quote(script)}"]
    try:
        done = subprocess.run(
            words, stdin=sent or subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"host {address.short}: ssh did not end within {COMMAND_SECONDS:g} s", code="hosts.ssh_failed"
        ) from None
    if done.returncode != 0:
        why = one_line(done.stderr.decode(errors="replace")) or f"exit status {done.returncode}"
        raise UserError(
            f"host {address.short}: {why[-300:]}",
            code="hosts.ssh_failed",
            hint=f"try: ssh {address.name} true" if done.returncode == FAILED else "",
        )
    return done.stdout.decode(errors="replace")
