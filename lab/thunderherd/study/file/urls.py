"""URLs of running servers: `WORKLOAD://HOST[:PORT][/PATH]`."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit


class ServerUrl(NamedTuple):
    """The parts of a URL. The host of an IPv6 address is in brackets; the path has the query."""

    scheme: str
    host: str
    port: int | None
    path: str

    def address(self, usual_port: int) -> str:
        """Return HOST:PORT."""
        return f"{self.host}:{self.port or usual_port}"


def without_user(text: str) -> str:
    """Return a text without the user name and password that a URL in it has."""
    return re.sub(r"//[^/@]*@", "//...@", text)


def server_url(text: str) -> ServerUrl | None:
    """Parse a URL; return None if the text is none, has no host, or has a user name, which no load sends."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or "@" in parts.netloc:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return ServerUrl(parts.scheme, host, port, path)
