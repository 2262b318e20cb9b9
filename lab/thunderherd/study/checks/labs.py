"""Checks of the lab of a contender: its kind, the keys of the kind, and sockets without TCP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from thunderherd.engine.catalogue import Catalogue, IntegerSetting, Setting
from thunderherd.errors import Problem, UserError
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER, WORKER, parse_host_of, parse_scheduler
from thunderherd.labs import KINDS, named, owners, takes
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import OPTION, QUANTITIES, InvalidQuantity, parse, written
from thunderherd.study.checks.names import check_value
from thunderherd.study.file.contenders import Configuration
from thunderherd.toml.file import KeyPath, Problems, show, unknown

CONGESTION = "congestion"
"""The key of [lab] that sets the congestion control of both sides, and the name of that setting."""

KEYS = (*QUANTITIES, CONGESTION, SERVER, LOAD, SCHEDULER)
"""The keys of [lab] that only some kinds take."""


def check_lab(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Check that the kind exists and takes the given keys and values; over Unix sockets nothing needs TCP."""
    kind = KINDS.get(each.lab.kind)
    if kind is None:
        problems.add(each.where("lab", "kind"), unknown("lab", each.lab.kind, KINDS))
        return
    for key in _given(each, problems):
        value, place = getattr(each.lab, key), each.where("lab", key)
        if key not in kind.keys:
            problems.add(
                place,
                f"{key} = {show(value)}: lab {show(kind.name)} has no {key}",
                code="study.key_of_other_lab",
                hint=f"{key} is a key of lab {named(owners(key))}; lab {show(kind.name)} takes "
                f"{', '.join(kind.keys) or 'none of these keys'}",
            )
        elif key in QUANTITIES:
            _check_quantity(key, value, place, kind, catalogue, problems)
        elif key in (SERVER, LOAD):
            hosts = [value] if isinstance(value, str) else value
            _check_addresses(lambda host: parse_host_of(host, each.lab.scheduler), hosts, place, problems)
            for host in [host for host, times in Counter(hosts).items() if times > 1]:
                message = f"{key} names {host} more than once"
                problems.add(place, message, code="study.repeated_host", hint="name it once")
        elif key == SCHEDULER:
            _check_addresses(parse_scheduler, [value], place, problems)
        elif setting := congestion_setting(catalogue):
            check_value(key, value, setting, place, problems)
    if kind.reaches_hosts:
        _check_both_ends(each, kind, problems)
    if not kind.has_tcp:
        _check_without_tcp(kind, each, catalogue, problems)


def congestion_setting(catalogue: Catalogue) -> Setting | None:
    """Return the setting of servers that chooses the congestion control."""
    return next((each for each in catalogue.server_settings if each.name == CONGESTION), None)


def _given(each: Configuration, problems: Problems) -> list[str]:
    """Return the keys that a configuration gives for its kind of lab.

    If a sweep or an override changes only the kind, the study's keys for its own kind do not count. An
    overridden key counts for all contenders of the study's kind, and for those of other kinds that have it.
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


def _check_both_ends(each: Configuration, kind: Kind, problems: Problems) -> None:
    """Check that a host is named; of a scheduler's workers, those of both sides."""
    given = {SERVER: bool(each.lab.server), LOAD: bool(each.lab.load)}
    if each.lab.scheduler is not None:
        for key in [key for key, is_given in given.items() if not is_given]:
            problems.add(
                each.where("lab", SCHEDULER),
                f"no worker of the {SCHEDULER} is named for the {key}",
                code="study.no_host",
                hint=f"add {key}, such as {WORKER}{key}; or type --{SCHEDULER}, which finds them",
            )
    elif not any(given.values()):
        problems.add(
            each.where("lab", "kind"),
            f"lab {show(kind.name)} names no host",
            code="study.no_host",
            hint=f'add {SERVER} = "ssh://a" or {LOAD} = ["ssh://b"]',
        )


def _check_addresses(
    read: Callable[[str], object], addresses: Iterable[str], place: KeyPath, problems: Problems
) -> None:
    for each in addresses:
        try:
            read(each)
        except UserError as error:
            for problem in error.problems:
                problems.add(place, problem.message, code=problem.code, hint=problem.hint)


def _check_quantity(
    key: str, value: object, place: KeyPath, kind: Kind, catalogue: Catalogue, problems: Problems
) -> None:
    code = "study.invalid_quantity"
    try:
        number = parse(key, value, on_command_line=place in problems.overridden)
    except InvalidQuantity as error:
        problems.add(place, f"{key} = {show(value)}: {error.message}", code=code, hint=error.hint)
        return
    setting, least = kind.settings(catalogue).get(key), kind.least(catalogue, key)
    if number < least:
        message = f"{key} = {show(value)}: less than {written(key, least)}"
        problems.add(place, message, code=code, hint=f"for no limit, leave {key} out")
    elif isinstance(setting, IntegerSetting) and not setting.has(number):
        message, hint = f"{key} = {show(value)} is not allowed", f"allowed: {setting.allowed()}"
        problems.add(place, message, code=code, hint=hint)


def _check_without_tcp(kind: Kind, each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    over, before = f"lab {show(kind.name)} has no TCP", len(problems)
    with_tcp = [other.name for other in KINDS.values() if other.has_tcp and not other.reaches_hosts]
    needs: list[tuple[KeyPath, str, str | None]] = []
    if design := catalogue.design(each.design):
        needs.append((each.where("design"), design.name, design.tcp_only))
    for place, name in each.primitives():
        primitive = catalogue.primitive(name)
        needs.append((place, name, primitive.tcp_only if primitive else None))
    for place, name, reason in needs:
        if reason:
            problems.add(
                place,
                f"{name} needs TCP ({reason}), and {over}",
                code="study.needs_tcp",
                hint=f"labs with TCP: {', '.join(with_tcp)}",
            )
    settings = {**each.form.server.settings, **each.table.settings}
    for path, given in ((("settings",), settings), (("load", "settings"), each.load.settings)):
        for name in given:
            if name in catalogue.tcp_settings:
                message = f"{name} is a setting of TCP, and {over}"
                hint = f"leave {name} out"
                problems.add(each.where(*path, name), message, code="study.setting_of_tcp", hint=hint)
    if len(problems) > before and ("lab", "kind") in problems.overridden:
        typed = " or ".join(f"{OPTION} {name}" for name in with_tcp)
        problems.note(
            Problem(
                f"{over}, and the study needs it at the lines below",
                "study.lab_without_tcp",
                f"type {typed}, or change a copy of the study",
                problems.where(("lab", "kind")),
            )
        )
