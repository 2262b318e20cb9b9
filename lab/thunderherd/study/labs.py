"""The lab of a contender: what makes it impossible, and what it becomes.

Which settings sockets have follows from it: over Unix sockets there are none of TCP.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from thunderherd.engine.catalogue import Catalogue, Setting, defaults
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.labs import KINDS, USUAL, named, owners, takes, with_namespaces
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import OPTION, QUANTITIES, parse
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.file.tables import Cpus, LabTable
from thunderherd.study.resolved import Lab
from thunderherd.toml.file import KeyPath, Problems, show, unknown

CONGESTION = "congestion"
"""The key of [lab], and the setting of both sides that it gives a value."""

KEYS = (*QUANTITIES, CONGESTION)
"""The keys of [lab] that only some kinds take."""


# Checks -----------------------------------------------------------------------------------------------------


def check_lab(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """The kind exists, takes the keys that are given, and their values are some; what is over Unix sockets
    does not ask for TCP."""
    kind = KINDS.get(each.lab.kind)
    if kind is None:
        problems.add(each.where("lab", "kind"), unknown("lab", each.lab.kind, KINDS))
        return
    for key in _given(each, problems):
        value = getattr(each.lab, key)
        place = each.where("lab", key)
        if key not in kind.keys:
            instead = f"it takes {', '.join(kind.keys)}" if kind.keys else "it takes none of these keys"
            why = f"lab {show(kind.name)} has no {key}, which is a key of {named(owners(key))}; {instead}"
            problems.add(place, f"{key} = {show(value)}: {why}")
        elif key in QUANTITIES:
            _check_quantity(key, value, place, kind.settings(catalogue), problems)
        elif (setting := _congestion(catalogue)) and not setting.accepts(value):
            problems.add(place, f"{key} = {show(value)}; allowed: {setting.allowed()}")
    if not kind.has_tcp:
        _check_without_tcp(kind, each, catalogue, problems)


def _given(each: Configuration, problems: Problems) -> list[str]:
    """The keys that a configuration gives for its kind of lab.

    Who changes the kind alone, in a sweep or by an override, is not told of the study's keys for its own. A
    key that is overridden is for all of the study's kind, and for those of another that have it.
    """
    own = each.table.lab.model_dump(exclude_none=True)
    given = []
    for key in KEYS:
        if ("lab", key) in problems.overridden:
            of_study = "kind" not in own or takes(each.lab.kind, key)
        else:
            of_study = "kind" not in own and ("lab", "kind") not in problems.overridden
        if key in own or (of_study and getattr(each.form.lab, key) is not None):
            given.append(key)
    return given


def _check_quantity(
    key: str, value: object, place: KeyPath, settings: Mapping[str, Setting], problems: Problems
) -> None:
    try:
        number = parse(key, value, on_command_line=place in problems.overridden)
    except ValueError as error:
        problems.add(place, f"{key} = {show(value)}: {error}")
        return
    setting = settings.get(QUANTITIES[key].setting)
    if setting is not None and not setting.accepts(number):
        problems.add(place, f"{key} = {show(value)}; allowed: {setting.allowed()}")


def _check_without_tcp(kind: Kind, each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    over = f"lab {show(kind.name)} has no TCP"
    before, instead = len(problems), ", ".join(each.name for each in KINDS.values() if each.has_tcp)
    named: list[tuple[KeyPath, str, str | None]] = []
    if design := catalogue.design(each.design):
        named.append((each.where("design"), design.name, design.tcp_only))
    of_server = [(each.where(key), name) for key, name in each.way._asdict().items()]
    of_load = [(each.where("load", key), name) for key, name in each.load.way._asdict().items()]
    for place, name in (*of_server, *of_load):
        primitive = catalogue.primitive(name)
        named.append((place, name, primitive.tcp_only if primitive else None))
    for place, name, reason in named:
        if reason:
            problems.add(
                place, f"{name} runs over TCP alone ({reason}), and {over}; labs that have: {instead}"
            )
    settings = {**each.form.server.settings, **each.table.settings}
    for path, given in ((("settings",), settings), (("load", "settings"), each.load.settings)):
        for name in given:
            if name in catalogue.tcp_settings:
                problems.add(
                    each.where(*path, name), f"{name} is a setting of TCP, and {over}: leave {name} out"
                )
    if len(problems) > before and ("lab", "kind") in problems.overridden:
        typed = " or ".join(f"{OPTION} {each.name}" for each in KINDS.values() if each.has_tcp)
        said = f"{over}, and this study asks for it at the lines below; type {typed}, or mend a copy of it"
        problems.note(f"{problems.where(('lab', 'kind'))}: {said}")


def unavailable_lab(each: Configuration, catalogue: Catalogue) -> Iterator[tuple[KeyPath, str]]:
    """What this machine does not have of what a lab takes: the key to blame, and the reason."""
    kind = _kind(each.lab)
    if reason := kind.unavailable(catalogue):
        yield each.where("lab", "kind"), f"lab {show(kind.name)} cannot be had here: {reason}"
    for key, quantity in QUANTITIES.items():
        reason = kind.unavailable_settings(catalogue).get(quantity.setting)
        if reason and getattr(each.lab, key) is not None:
            yield each.where("lab", key), f"{key} = {show(getattr(each.lab, key))}: {reason}"
    controls = catalogue.congestion_controls
    if controls is None or not kind.has_tcp:
        return
    usable = kind.congestion_controls(controls)
    for place, name in _congestion_controls(each):
        setting = _congestion(catalogue)
        is_default = setting is not None and name == setting.default
        if name in usable or is_default or (setting is not None and not setting.accepts(name)):
            continue
        if name in controls.available:
            why = "net.ipv4.tcp_allowed_congestion_control and the user's rights allow"
            elsewhere = f"lab {named(with_namespaces())} has them all"
            yield place, f"{CONGESTION} = {show(name)}: {why} {', '.join(usable)}; {elsewhere}"
        else:
            yield place, f"{CONGESTION} = {show(name)}: {unknown('congestion control', name, usable)}"


def _congestion_controls(each: Configuration) -> Iterator[tuple[KeyPath, str]]:
    """Those that are chosen, each with the key that does."""
    if isinstance(each.lab.congestion, str):
        yield each.where("lab", CONGESTION), each.lab.congestion
    of_server = {**each.form.server.settings, **each.table.settings}
    for path, given in ((("settings",), of_server), (("load", "settings"), each.load.settings)):
        if isinstance(name := given.get(CONGESTION), str):
            yield each.where(*path, CONGESTION), name


# What it becomes --------------------------------------------------------------------------------------------


def lab_of(table: LabTable, catalogue: Catalogue) -> Lab:
    """The lab with all its settings, and the CPUs of both sides with what `apart` means on this machine."""
    kind = _kind(table)
    settings = {name: int(value) for name, value in defaults(kind.settings(catalogue)).items()}
    for key, quantity in QUANTITIES.items():
        value = getattr(table, key)
        if value is not None and key in kind.keys:
            try:
                settings[quantity.setting] = parse(key, value)
            except ValueError:
                continue  # it has been complained about
    server, client = table.server_cpus, table.client_cpus
    usable = sorted(os.sched_getaffinity(0))
    if table.placement == "apart" and len(usable) > 1:
        server = server or [cpu for cpu in usable if cpu not in _named(client)][:1]
        client = client or [cpu for cpu in usable if cpu not in _named(server)]
    return Lab(
        kind=kind.name,
        settings=settings,
        server_cpus=_named(server) or None,
        client_cpus=_named(client) or None,
    )


def of_sockets(table: LabTable, allowed: Mapping[str, Setting], catalogue: Catalogue) -> dict[str, Setting]:
    """Those of a side's settings that the sockets of a lab have."""
    if _kind(table).has_tcp:
        return dict(allowed)
    return {name: each for name, each in allowed.items() if name not in catalogue.tcp_settings}


def common_settings(table: LabTable) -> dict[str, SettingValue]:
    """The settings of both sides that a lab gives a value; a side's own value is for that side."""
    if table.congestion is None or CONGESTION not in _kind(table).keys:
        return {}
    return {CONGESTION: table.congestion}


def local_ports(table: LabTable, catalogue: Catalogue) -> int | None:
    """How many ports the kernel has there for connections; None where they take none."""
    return _kind(table).local_ports(catalogue)


def notes_of(lab: Lab, placement: str) -> Iterator[str]:
    """What belongs beside every figure of the lab."""
    if lab.kind != USUAL.name:
        yield f"lab: {lab.network}"
    if lab.server_cpus or lab.client_cpus:
        server, client = (_cpus(cpus) for cpus in (lab.server_cpus, lab.client_cpus))
        yield f"the server runs on {server}, the clients on {client}"
    elif placement == "apart":
        yield "this process may use one CPU only: server and clients share it"


def _kind(table: LabTable) -> Kind:
    """That of a table; the usual one for a kind that there is not, which has been complained about."""
    return KINDS.get(table.kind, USUAL)


def _congestion(catalogue: Catalogue) -> Setting | None:
    return next((each for each in catalogue.server_settings if each.name == CONGESTION), None)


def _named(cpus: Cpus) -> tuple[int, ...]:
    return tuple(cpus) if isinstance(cpus, list) else ()


def _cpus(cpus: tuple[int, ...] | None) -> str:
    if cpus is None:
        return "any CPU"
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))}"
