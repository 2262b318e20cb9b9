"""What a kind of lab is, and a site of one: where the server and the clients of a trial are.

Both are here as they are where both sides stay in this process's network namespace. A kind of another nature
(`labs/`) inherits and says what differs; nobody asks for one by its name.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, CongestionControls, Setting
from thunderherd.engine.lines import Ready
from thunderherd.labs.words import UNIX_ADDRESS
from thunderherd.machine import noise

LOOK_SECONDS = 0.01
"""How often it is looked whether a place is gone."""


@dataclass(frozen=True)
class Kind:
    """A kind of lab, and all that tells it from others.

    `keys` are those of [lab] that it takes, beside the placement on CPUs. `address` is the server's, without
    a port, where that is known beforehand. With TCP its sockets have ports and the settings that only TCP
    has. With namespaces of its own each side has one, which a process of the engine's holds: a server there
    is started and joined in another way (`lab_commands`).
    """

    name: str
    summary: str
    source: str
    keys: tuple[str, ...]
    address: str = "127.0.0.1"
    has_tcp: bool = True
    has_namespaces: bool = False

    @property
    def listen(self) -> str:
        """Where a server listens there that leaves the rest to the kernel."""
        return f"{self.address}:0" if self.has_tcp else self.address

    @property
    def takes(self) -> str:
        """The form of its addresses, as an option takes them."""
        return "HOST:PORT" if self.has_tcp else f"{UNIX_ADDRESS}@NAME"

    def may_have(self, address: str) -> bool:
        """Whether an address is of the form that it takes."""
        return address.startswith(UNIX_ADDRESS) != self.has_tcp

    def unavailable(self, catalogue: Catalogue) -> str | None:
        """Why this machine has no such lab; None where it has."""
        return None

    def settings(self, catalogue: Catalogue) -> dict[str, Setting]:
        """The engine's settings of what joins both sides, by name; keys that are `QUANTITIES` give them
        values."""
        return {}

    def unavailable_settings(self, catalogue: Catalogue) -> Mapping[str, str]:
        """Those that this machine does not have, and why."""
        return {}

    def congestion_controls(self, controls: CongestionControls) -> tuple[str, ...]:
        """Those of the kernel that its sockets may choose."""
        return controls.allowed

    def local_ports(self, catalogue: Catalogue) -> int | None:
        """How many ports the kernel may choose from for the clients' connections; None: they take none."""
        return noise.local_ports()

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None) -> Iterator[Site]:
        """Makes the place for a run, with these of its `settings`, and keeps it as long as the block lasts.

        Main thread only. `engine` is the one that makes what has to be made; None: the usual one. Raises
        `UserError` where it cannot be had here; the message says why.
        """
        yield Site(self)


class Site:
    """Where trials take place: this process's network namespace."""

    server_namespace: str | None = None
    client_namespace: str | None = None
    """What both sides enter first; None: they stay in this process's."""

    def __init__(self, kind: Kind) -> None:
        self.title = kind.name
        """What tells it from others, in words."""
        self.address = kind.address
        """The server's, without a port."""
        self.listen = kind.listen
        """Where a server is told to listen."""

    def enter(self, namespace: str | None) -> tuple[str, ...]:
        """What the command line of a program that is not ours is preceded by, so that it runs in one of its
        namespaces (nsenter(1))."""
        return ()

    def sysctl(self, name: str) -> str:
        """A kernel setting of the server's network, by its name as `sysctl` has it (sysctl(8))."""
        return (noise.PROC / "sys" / name.replace(".", "/")).read_text(encoding="utf-8").strip()

    def check(self) -> None:
        """Raises `UserError` where it is not there any more."""

    def check_for(self, seconds: float) -> None:
        """`check`, as often as it takes until so much time is over: what fails in a place that comes to its
        end may do so a moment before that can be seen."""
        if self.server_namespace is None:
            return
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.check()
            time.sleep(LOOK_SECONDS)

    def facts(self) -> dict[str, Any]:
        """What is to be recorded of it. JSON data."""
        return {"address": self.address}

    def local_ports(self) -> int | None:
        """How many ports the kernel may choose from for the clients' connections; None: they take none."""
        return noise.local_ports()

    def networks(self, ready: Ready | None) -> tuple[Path, ...]:
        """What the kernel tells of the network namespaces of both sides (/proc/PID/net), each once; without a
        server only where that is known all the same."""
        return (noise.OWN_NETWORK,)

    def time_wait(self, ready: Ready) -> int:
        """Sockets in TIME_WAIT on both sides."""
        return noise.time_wait_count()

    def time_wait_in_the_way(self, ready: Ready) -> int:
        """Those of them that stand in the way of connections to this server."""
        return noise.time_wait_of_port(ready.port) if ready.port is not None else 0

    def time_wait_limit(self) -> int:
        """How many sockets in TIME_WAIT the kernel keeps."""
        return noise.time_wait_limit()
