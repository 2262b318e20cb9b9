"""The addresses of hosts, as users type them.

`ssh://[USER@]HOST[:PORT]` is reached by ssh(1), with the user's configuration. `netns:NAME` is a network
namespace of this machine (ip-netns(8)). `this` is this machine. Each may end with `?data=ADDRESS`, the
address under which the other hosts reach it for the measured traffic.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from thunderherd.errors import UserError

SSH, NETNS, THIS = "ssh://", "netns:", "this"
SERVER, LOAD = "server", "load"
"""The keys of [lab] that name hosts, and the options that do."""
DATA = "data"
"""The parameter with the address for the measured traffic."""
EXAMPLE = f"{SSH}alice@a or {SSH}a?data=10.0.1.5"
NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:%-]*")
"""A name that cannot be taken for an option of ssh(1), or for another path."""
USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class HostAddress:
    """Where a host is: `kind` is one of SSH, NETNS and THIS.

    `name` is what the kind needs: `alice@a` without a port, or the name of the namespace.
    """

    kind: str
    name: str
    port: int | None = None
    data: str | None = None

    @property
    def is_here(self) -> bool:
        """True if it is on this machine."""
        return self.kind in (NETNS, THIS)

    @property
    def short(self) -> str:
        """The host in tables and messages: without user, port and parameters."""
        return self.name.rpartition("@")[2] if self.kind == SSH else self.name or THIS

    def __str__(self) -> str:
        user, at, host = self.name.rpartition("@")
        where = f"{user}{at}[{host}]" if self.kind == SSH and ":" in host else self.name
        port = f":{self.port}" if self.port else ""
        data = f"?{DATA}={self.data}" if self.data else ""
        return f"{self.kind}{where}{port}{data}"


def listen_at(address: str) -> str:
    """Return an address as a server takes it, with a port of the kernel's choice."""
    return f"[{address}]:0" if ":" in address else f"{address}:0"


def host_of(address: str) -> str:
    """Return the host of HOST:PORT, without brackets."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def is_host(text: str) -> bool:
    """True if a text has the form of a host's address."""
    return text.startswith((SSH, NETNS)) or text == THIS


def parse_host(text: str) -> HostAddress:
    """Return the host of an address; raise `UserError` if it is none."""
    address, _, parameters = text.partition("?")
    data = _data(parameters, text) if parameters or "?" in text else None
    if address == THIS:
        return HostAddress(THIS, "", data=data)
    if address.startswith(NETNS):
        return HostAddress(NETNS, _checked(address.removeprefix(NETNS), NAME, text), data=data)
    if not address.startswith(SSH):
        hint = f"did you mean {SSH}{address}?" if NAME.fullmatch(address.rpartition("@")[2]) else EXAMPLE
        raise UserError(f"{text!r} is not the address of a host", code="hosts.address", hint=hint)
    where = address.removeprefix(SSH)
    user, at, place = where.rpartition("@")
    host, port = _parted(place, text)
    if at:
        _checked(user, USER, text)
    return HostAddress(SSH, f"{user}{at}{_checked(host, NAME, text)}", port, data)


def _parted(place: str, text: str) -> tuple[str, int | None]:
    """Part a host from its port; an address of IPv6 is in brackets if it has one."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", place)
    plain = re.fullmatch(r"([^:\[\]]+)(?::(\d+))?", place)
    found = bracketed or plain
    if found is None:
        raise UserError(
            f"{text!r} is not the address of a host", code="hosts.address", hint=f"such as {EXAMPLE}"
        )
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 1 << 16:
        raise UserError(f"{text!r}: no port has the number {port}", code="hosts.port", hint="1 to 65535")
    return found[1], port


def _checked(name: str, form: re.Pattern[str], text: str) -> str:
    if not form.fullmatch(name):
        raise UserError(
            f"{text!r} is not the address of a host", code="hosts.address", hint=f"such as {EXAMPLE}"
        )
    return name


def _data(parameters: str, text: str) -> str:
    key, _, value = parameters.partition("=")
    if key != DATA:
        raise UserError(
            f"{text!r}: unknown parameter {key!r}", code="hosts.unknown_parameter", hint=f"known: {DATA}"
        )
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise UserError(
            f"{text!r}: {value!r} is not an IP address", code="hosts.data_address", hint=f"such as {EXAMPLE}"
        ) from None
