"""The addresses of hosts and schedulers, as users type them.

`ssh://[USER@]HOST[:PORT]` is reached by ssh(1), with the user's configuration. `netns:NAME` is a network
namespace of this machine (ip-netns(8)). `this` is this machine. `worker:NAME` is a worker of a Dask cluster
that somebody else has started. Each may end with `?data=ADDRESS`, the address under which the other hosts
reach it for the measured traffic.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from thunderherd.errors import UserError

SSH, NETNS, THIS, WORKER = "ssh://", "netns:", "this", "worker:"
SERVER, LOAD, SCHEDULER = "server", "load", "scheduler"
"""The keys of [lab] that name hosts, and the options that do."""
TLS, TCP = "tls://", "tcp://"
SCHEDULER_PORT = 8786
"""The port at which a scheduler of Dask listens by default."""
DATA = "data"
"""The parameter with the address for the measured traffic."""
EXAMPLE = f"{SSH}alice@a or {SSH}a?data=10.0.1.5"
NAME = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*")
"""A name that cannot be taken for an option of ssh(1), or for another path."""
WORKER_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:/@%+=\[\]-]*")
"""A name of a worker, which is its address if nobody names it."""
USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class HostAddress:
    """Where a host is: `kind` is one of SSH, NETNS, THIS and WORKER.

    `name` is what the kind needs: `alice@a` without a port, or the name of the namespace or worker.
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
    return text.startswith((SSH, NETNS, WORKER)) or text == THIS


def parse_host(text: str) -> HostAddress:
    """Return the host of an address; raise `UserError` if it is none."""
    address, _, parameters = text.partition("?")
    data = _data(parameters, text) if parameters or "?" in text else None
    if address == THIS:
        return HostAddress(THIS, "", data=data)
    if address.startswith(NETNS):
        return HostAddress(NETNS, _checked(address.removeprefix(NETNS), NAME, text), data=data)
    if address.startswith(WORKER):
        return HostAddress(WORKER, _checked(address.removeprefix(WORKER), WORKER_NAME, text), data=data)
    if not address.startswith(SSH):
        if NAME.fullmatch(address.rpartition("@")[2]):
            raise _no_host(text, f"did you mean {SSH}{address}?")
        raise _no_host(text)
    where = address.removeprefix(SSH)
    user, at, place = where.rpartition("@")
    host, port = _parted(place, text)
    if at:
        _checked(user, USER, text)
    return HostAddress(SSH, f"{user}{at}{_checked(host, NAME, text)}", port, data)


def parse_host_of(text: str, scheduler: str | None) -> HostAddress:
    """Return a host; raise `UserError` if it is none, or is a worker without a scheduler, or the reverse."""
    found = parse_host(text)
    if scheduler is not None and found.kind != WORKER:
        raise UserError(
            f"{text!r} is no worker of the {SCHEDULER}", code="hosts.no_worker", hint=f"such as {WORKER}NAME"
        )
    if scheduler is None and found.kind == WORKER:
        hint = f"such as --{SCHEDULER} {TLS}head:{SCHEDULER_PORT}"
        raise UserError(f"{text!r} needs its {SCHEDULER}", code="hosts.needs_scheduler", hint=hint)
    return found


def parse_scheduler(text: str) -> str:
    """Return the address of a scheduler with its port; raise `UserError` if it is none.

    An address without encryption (`tcp://`) must be on loopback.
    """
    such_as = f"such as {TLS}head:{SCHEDULER_PORT}"
    kind, divided, place = text.partition("://")
    if f"{kind}{divided}" not in (TLS, TCP):
        hint = f"did you mean {TLS}{text}?" if NAME.fullmatch(text) else such_as
        raise UserError(f"{text!r} is not the address of a scheduler", code="hosts.scheduler", hint=hint)
    try:
        host, port = _parted(place, text)
        _checked(host, NAME, text)
    except UserError as error:
        (problem,) = error.problems
        raise UserError(
            f"{text!r} is not the address of a scheduler", code=problem.code, hint=such_as
        ) from None
    if f"{kind}{divided}" == TCP and not is_loopback(host):
        raise UserError(
            f"{text!r} is not encrypted, which only a scheduler at 127.0.0.1 may be",
            code="hosts.not_encrypted",
            hint=f"start it with --protocol tls, and type {TLS}{place}",
        )
    written = f"[{host}]" if ":" in host else host
    return f"{kind}{divided}{written}:{port or SCHEDULER_PORT}"


def is_loopback(host: str) -> bool:
    """True if a name or address is of this machine's loopback interface."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parted(place: str, text: str) -> tuple[str, int | None]:
    """Part a host from its port. An address of IPv6 must be in brackets."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", place)
    plain = re.fullmatch(r"([^:\[\]]+)(?::(\d+))?", place)
    found = bracketed or plain
    if found is None:
        raise _no_host(text)
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 1 << 16:
        raise UserError(f"{text!r}: no port has the number {port}", code="hosts.port", hint="1 to 65535")
    return found[1], port


def _checked(name: str, form: re.Pattern[str], text: str) -> str:
    if not form.fullmatch(name):
        raise _no_host(text)
    return name


def _no_host(text: str, hint: str = f"such as {EXAMPLE}") -> UserError:
    return UserError(f"{text!r} is not the address of a host", code="hosts.address", hint=hint)


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
