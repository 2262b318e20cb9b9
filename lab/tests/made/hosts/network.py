"""Three network namespaces, each with an address, joined by a bridge that this process is on, too."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from thunderherd.records.trial import TrialRecord
from thunderherd.trial.observation import TOO_BUSY

NETWORK = "10.231.{number}"
"""Networks of tests; `number` is that of the process, so that two runs do not meet."""
LETTERS = "abc"
AGENT = b"thunderherd.hosts.agent"


@dataclass(frozen=True)
class Network:
    """The namespaces by name, with their addresses, and the bridge."""

    bridge: str
    here: str
    addresses: dict[str, str]

    @property
    def names(self) -> list[str]:
        """The names of the namespaces."""
        return list(self.addresses)

    def cut(self, name: str) -> None:
        """Cut the link of a namespace, as if somebody pulled a cable: no reset, no message."""
        ip("link", "set", f"v{name}", "down")

    def mend(self, name: str) -> None:
        """Mend the link of a namespace."""
        ip("link", "set", f"v{name}", "up")

    @contextlib.contextmanager
    def dropped(self, name: str, other: str) -> Iterator[None]:
        """Drop what a namespace sends to another, as a firewall does: without a message."""
        route = (f"{self.addresses[other]}/32",)
        ip("-n", name, "route", "add", "blackhole", *route)
        try:
            yield
        finally:
            ip("-n", name, "route", "del", "blackhole", *route)

    def processes(self) -> list[int]:
        """Return the processes in these namespaces."""
        found = [ip("netns", "pids", name).split() for name in self.names]
        return [int(pid) for pids in found for pid in pids]

    def becomes_empty(self) -> bool:
        """True if no process is in these namespaces, now or a few seconds later."""
        return any(not self.processes() or time.sleep(0.1) for _ in range(50))

    def agents(self, name: str) -> list[int]:
        """Return the agents in a namespace."""
        namespace = Path(f"/run/netns/{name}").stat().st_ino
        found = []
        for pid in self.processes():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if AGENT in words and Path(f"/proc/{pid}/ns/net").stat().st_ino == namespace:
                found.append(pid)
        return found


def ip(*words: str) -> str:
    """Run ip(8)."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def why_not() -> str | None:
    """Return why there can be no such network; None if there can."""
    if os.geteuid() != 0:
        return "only root may make network namespaces that have names"
    missing = [each for each in ("ip", "nsenter") if shutil.which(each) is None]
    return f"{missing[0]} is not installed" if missing else None


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Makes the network; skips the test with the reason if it cannot be made."""
    if why := why_not():
        pytest.skip(why)
    number = os.getpid() % 200
    prefix, tag = NETWORK.format(number=number), f"t{os.getpid() % 100_000}"
    made = Network(
        f"br{tag}",
        f"{prefix}.1",
        {f"{tag}{each}": f"{prefix}.{2 + place}" for place, each in enumerate(LETTERS)},
    )
    try:
        try:
            ip("link", "add", made.bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridge can be made: {error.stderr.strip()}")
        ip("addr", "add", f"{made.here}/24", "dev", made.bridge)
        ip("link", "set", made.bridge, "up")
        for name, address in made.addresses.items():
            ip("netns", "add", name)
            ip("link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"v{name}", "master", made.bridge, "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for interface in ("eth0", "lo"):
                ip("-n", name, "link", "set", interface, "up")
        yield made
    finally:
        for name in made.names:
            # A namespace lives as long as its last process, and keeps its interface.
            for words in (("link", "del", f"v{name}"), ("netns", "del", name)):
                with contextlib.suppress(subprocess.CalledProcessError):
                    ip(*words)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", made.bridge)


def assert_measured(trial: TrialRecord) -> None:
    """Assert that a trial is valid, or that nothing but a busy machine kept it from being so."""
    assert all(TOO_BUSY in reason for reason in trial.invalid_reasons), trial.invalid_reasons
    assert trial.loads and all(each.tally.requests for each in trial.loads)


def sshd() -> Path | None:
    """Return the SSH server of this machine; None if there is none."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return Path(found) if found else None
