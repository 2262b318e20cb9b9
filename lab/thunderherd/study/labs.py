"""The resolved lab of a contender: its settings, the CPUs of both sides, and the settings of its sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from thunderherd.engine.catalogue import Catalogue, Setting, defaults
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.labs import KINDS, USUAL
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import QUANTITIES, InvalidQuantity, parse
from thunderherd.study.checks.labs import CONGESTION
from thunderherd.study.file.tables import Cpus, LabTable
from thunderherd.study.resolved import Lab


def lab_of(table: LabTable, catalogue: Catalogue) -> Lab:
    """Return the lab with all its settings; `apart` becomes CPU numbers of this machine."""
    kind = _kind(table)
    settings = {name: int(value) for name, value in defaults(kind.settings(catalogue)).items()}
    for key in QUANTITIES:
        value = getattr(table, key)
        if value is not None and key in kind.keys:
            try:
                settings[key] = parse(key, value)
            except InvalidQuantity:
                continue  # a problem already
    server, client = table.server_cpus, table.client_cpus
    usable = sorted(os.sched_getaffinity(0))
    # Hosts are apart.
    if table.placement == "apart" and len(usable) > 1 and not kind.reaches_hosts:
        server = server or [cpu for cpu in usable if cpu not in _named(client)][:1]
        client = client or [cpu for cpu in usable if cpu not in _named(server)]
    return Lab(
        kind=kind.name,
        settings=settings,
        server_cpus=_named(server) or None,
        client_cpus=_named(client) or None,
        user=table.user,
        server=table.server,
        load=tuple(table.load or ()),
        scheduler=table.scheduler,
    )


def of_sockets(table: LabTable, allowed: Mapping[str, Setting], catalogue: Catalogue) -> dict[str, Setting]:
    """Return a side's settings without those that the sockets of the lab do not have."""
    if _kind(table).has_tcp:
        return dict(allowed)
    return {name: each for name, each in allowed.items() if name not in catalogue.tcp_settings}


def common_settings(table: LabTable) -> dict[str, SettingValue]:
    """Return the settings that the lab gives both sides; a side's own value takes precedence."""
    if table.congestion is None or CONGESTION not in _kind(table).keys:
        return {}
    return {CONGESTION: table.congestion}


def local_ports(table: LabTable, catalogue: Catalogue) -> int | None:
    """Return how many local ports the lab has for connections; None if they take none."""
    return _kind(table).local_ports(catalogue)


def notes_of(lab: Lab, placement: str, *, places_servers: bool) -> Iterator[str]:
    """Yield the notes that belong to every figure measured in the lab.

    `places_servers` is false if all servers were running before.
    """
    if lab.kind != USUAL.name:
        yield f"lab: {lab.network}"
    if lab.server_cpus or lab.client_cpus:
        server, client = (_cpus(cpus) for cpus in (lab.server_cpus, lab.client_cpus))
        yield (
            f"the server runs on {server}, the clients on {client}"
            if places_servers
            else f"the clients run on {client}"
        )
    elif placement == "apart" and not KINDS[lab.kind].reaches_hosts:
        yield "this process may use one CPU only: server and clients share it"


def _kind(table: LabTable) -> Kind:
    """Return the kind of a table; the usual one if there is no such kind, which is a problem already."""
    return KINDS.get(table.kind, USUAL)


def _named(cpus: Cpus) -> tuple[int, ...]:
    return tuple(cpus) if isinstance(cpus, list) else ()


def _cpus(cpus: tuple[int, ...] | None) -> str:
    if cpus is None:
        return "any CPU"
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))}"
