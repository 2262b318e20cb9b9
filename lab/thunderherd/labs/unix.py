"""Unix: both sides on this machine, over Unix stream sockets, which have no ports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.lines import Ready
from thunderherd.labs.kind import Kind, Site
from thunderherd.labs.words import UNIX_ADDRESS, Ends


class Unix(Kind):
    """The kind of lab with Unix sockets."""

    def local_ports(self, catalogue: Catalogue) -> int | None:
        return None

    @contextlib.contextmanager
    def site(self, settings: Mapping[str, int], engine: Path | None, ends: Ends) -> Iterator[Site]:
        yield UnixSite(self, engine)


class UnixSite(Site):
    """The site of Unix sockets: they have names instead of ports."""

    def facts(self) -> dict[str, Any]:
        # The name disappears with the socket, so it is not recorded.
        return {"address": f"{self.address} and a name of the kernel's choice"}

    def local_ports(self) -> int | None:
        return None

    def networks(self, ready: Ready | None) -> tuple[Path, ...]:
        return ()

    def time_wait(self, ready: Ready) -> int:
        return 0

    def time_wait_in_the_way(self, ready: Ready) -> int:
        return 0


KIND = Unix(
    name="unix",
    summary="Server and clients on this machine, over Unix stream sockets",
    source="unix(7)",
    keys=(),
    address=f"{UNIX_ADDRESS}@",
    has_tcp=False,
)
