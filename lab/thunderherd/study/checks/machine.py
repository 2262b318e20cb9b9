"""Checks that this machine has what a study needs: CPUs, designs, primitives, labs, ports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from thunderherd.engine.catalogue import Catalogue, CongestionControls, Design, Primitive
from thunderherd.errors import Problem
from thunderherd.labs import KINDS, USUAL, named, with_namespaces
from thunderherd.labs.words import QUANTITIES
from thunderherd.machine.users import PASSWORDS, find_user
from thunderherd.study.checks.labs import CONGESTION, congestion_setting
from thunderherd.study.file.contenders import Configuration
from thunderherd.toml.file import KeyPath, Problems, show, unknown

SHARE_OF_PORTS = 0.5
"""A closed connection keeps its port for a minute (TIME_WAIT). With more in use, connect(2) searches long."""


def check_cpus(each: Configuration, problems: Problems) -> None:
    """Check that lists of CPUs are not empty and name each CPU once."""
    for name, cpus in _cpus_of(each):
        key, hint = each.where("lab", name), f"{_allowed_cpus()}; or leave {name} out"
        if not cpus:
            problems.add(key, f"{name} = []: no CPU at all", code="study.no_cpu", hint=hint)
        if len(set(cpus)) < len(cpus):
            message = f"{name} = {show(cpus)}: a CPU is named twice"
            problems.add(key, message, code="study.duplicate_cpu", hint=hint)


def unavailable(each: Configuration, catalogue: Catalogue) -> Iterator[tuple[KeyPath, Problem]]:
    """Yield what a configuration needs and this machine lacks, each with the key to change."""
    for name, cpus in _cpus_of(each):
        for unusable in unavailable_cpus(name, cpus):
            yield each.where("lab", name), unusable
    if problem := unavailable_design(each.design, catalogue):
        yield each.where("design"), problem
    for place, name in each.primitives():
        if problem := unavailable_primitive(name, catalogue):
            yield place, problem


def unavailable_cpus(name: str, cpus: Sequence[int]) -> Iterator[Problem]:
    """Yield a problem for each CPU of a list that processes here may not use."""
    usable = os.sched_getaffinity(0)
    present = range(os.cpu_count() or max(usable) + 1)
    for cpu in sorted(set(cpus) - usable):
        why = "this process may not use (sched_getaffinity)" if cpu in present else "does not exist"
        message = f"{name} = {show(list(cpus))} names CPU {cpu}, which {why}"
        yield Problem(message, "study.unavailable_cpu", _allowed_cpus())


def unavailable_design(name: str, catalogue: Catalogue) -> Problem | None:
    """Return why a design cannot run; None if it can."""
    return _unavailable("design", name, catalogue.design(name))


def unavailable_primitive(name: str, catalogue: Catalogue) -> Problem | None:
    """Return why a primitive cannot run; None if it can."""
    return _unavailable("primitive", name, catalogue.primitive(name))


def _unavailable(what: str, name: str, entry: Design | Primitive | None) -> Problem | None:
    if entry is None or entry.available:
        return None
    message = f"{what} {show(name)} cannot run on this machine: {entry.reason}"
    return Problem(message, f"study.unavailable_{what}")


def _cpus_of(each: Configuration) -> Iterator[tuple[str, list[int]]]:
    for name, cpus in (("server_cpus", each.lab.server_cpus), ("client_cpus", each.lab.client_cpus)):
        if isinstance(cpus, list):
            yield name, cpus


def _allowed_cpus() -> str:
    return f"allowed: {', '.join(map(str, sorted(os.sched_getaffinity(0))))}"


def ports_allowed(local_ports: int) -> int:
    """Return how many connections to one port may be open or planned at once, of so many local ports."""
    return int(local_ports * SHARE_OF_PORTS)


def unavailable_lab(each: Configuration, catalogue: Catalogue) -> Iterator[tuple[KeyPath, Problem]]:
    """Yield what the lab of a configuration needs and this machine lacks, each with the key to change."""
    kind = KINDS.get(each.lab.kind, USUAL)
    if reason := kind.unavailable(catalogue):
        message = f"lab {show(kind.name)} is not available on this machine: {reason}"
        yield each.where("lab", "kind"), Problem(message, "study.unavailable_lab")
    for key in QUANTITIES:
        reason = kind.unavailable_settings(catalogue).get(key)
        if reason and (value := getattr(each.lab, key)) is not None:
            message = f"{key} = {show(value)} is not available on this machine: {reason}"
            yield each.where("lab", key), Problem(message, "study.unavailable_lab_key")
    if each.lab.user is not None and (problem := unavailable_user(each.lab.user)):
        yield each.where("lab", "user"), problem
    yield from _unavailable_congestion_controls(each, catalogue)


def unavailable_user(user: str) -> Problem | None:
    """Return why servers and clients cannot run as a user; None if they can."""
    if os.geteuid() != 0:
        message = f"user = {show(user)}: only root may run servers and clients as another user"
        return Problem(message, "study.user_without_root", "leave user out")
    if find_user(user) is None:
        hint = f"give a name or a number of {PASSWORDS}, such as nobody"
        return Problem(f"user = {show(user)}: there is no such user", "study.unknown_user", hint)
    return None


def _unavailable_congestion_controls(
    each: Configuration, catalogue: Catalogue
) -> Iterator[tuple[KeyPath, Problem]]:
    kind, controls = KINDS.get(each.lab.kind, USUAL), catalogue.congestion_controls
    setting = congestion_setting(catalogue)
    if controls is None or setting is None or not kind.has_tcp:
        return
    usable = kind.congestion_controls(controls)
    for place, name in _congestion_controls(each):
        if name == setting.default or not setting.accepts(name):
            continue
        if problem := unavailable_congestion_control(name, usable, controls):
            yield place, problem


def unavailable_congestion_control(
    name: str, usable: Sequence[str], controls: CongestionControls
) -> Problem | None:
    """Return why sockets cannot have a congestion control, of these usable ones; None if they can."""
    if name in usable:
        return None
    if name not in controls.available:
        return unknown("congestion control", name, usable)
    message = f"{CONGESTION} = {show(name)} is not among the allowed ones: {', '.join(usable)}"
    hint = (
        "net.ipv4.tcp_allowed_congestion_control and the rights of the user restrict them; "
        f"lab {named(with_namespaces())} has all"
    )
    return Problem(message, "study.congestion_control_not_allowed", hint)


def _congestion_controls(each: Configuration) -> Iterator[tuple[KeyPath, str]]:
    """Yield the congestion controls that a configuration chooses, each with its key."""
    if isinstance(each.lab.congestion, str):
        yield each.where("lab", CONGESTION), each.lab.congestion
    of_server = {**each.form.server.settings, **each.table.settings}
    for path, given in ((("settings",), of_server), (("load", "settings"), each.load.settings)):
        if isinstance(name := given.get(CONGESTION), str):
            yield each.where(*path, CONGESTION), name
