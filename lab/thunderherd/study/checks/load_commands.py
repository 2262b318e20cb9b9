"""What a load's command takes of the settings of its load: those that it has a placeholder for.

A setting that it cannot take would have no effect. It is refused if a contender or a sweep sets it for this
load, and noted if the study sets it for all loads.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thunderherd.engine.catalogue import Catalogue, Way
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.file.placeholders import PLACEHOLDER, PORT, RESERVED, SECOND_PORT
from thunderherd.toml.file import KeyPath, Problems

__all__ = ["CHECK", "COUNT", "check_placeholders", "check_taken", "notes_of_commands", "takes_setting"]

CLIENTS, DURATION = "clients", "duration"
"""Placeholders whatever the load calls its number of clients and its length."""
CHECK, COUNT = "check", "count"
"""The setting, and its value, of a load that compares no bytes. A command never does."""
NOT_TAKEN, NO_SETTING = "study.setting_not_taken", "study.placeholder_without_setting"


def takes_setting(each: Configuration, name: str, catalogue: Catalogue) -> bool:
    """True if a setting of the load reaches the clients: ours, or a command that has a place for it."""
    return each.load.command is None or name in _taken(each, catalogue)


def check_taken(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Refuse settings and primitives that a contender or the points of a sweep give to a load's command."""
    if each.load.command is None:
        return
    taken = _taken(each, catalogue)
    for key in _own_keys(each):
        name = key[-1]
        if name not in taken:
            written = f"{{{name}}}"
            what = f"write {written} into load.command, or leave" if len(key) == 3 else "leave"
            problems.add(
                each.where(*key),
                f"the command of the load takes no {name}",
                code=NOT_TAKEN,
                hint=f"{what} {'.'.join(key)} out",
            )


def check_placeholders(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Refuse placeholders that stay empty in the commands of a contender: settings that its load has not."""
    allowed = catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
    of_server = _placeholders(each.table.command, each.table.environment)
    commands = (
        (("command",), of_server, "a command"),
        (("load", "command"), _placeholders(each.load.command, each.load.environment), "the load's command"),
    )
    for key, named, what in commands:
        if near := _meant_as_port(named):
            message = f"{what} has {{{near}}}, and no {PORT}"
            problems.add(each.where(*key), message, code=NO_SETTING, hint=f"write {PORT}")
        unknown = named & catalogue.of_ends.keys() - allowed.keys() - {*RESERVED, CLIENTS, DURATION}
        for name in sorted(unknown):
            problems.add(
                each.where(*key),
                f"{what} has {{{name}}}, but load {each.load.kind} with workload {each.workload} has no such "
                "setting",
                code=NO_SETTING,
                hint=f"leave it out, or give a load.kind or workload with the setting {name}",
            )
    if SECOND_PORT.strip("{}") in _placeholders(each.load.command, each.load.environment) - of_server:
        problems.add(
            each.where("load", "command"),
            f"the load's command has {SECOND_PORT}, but the server has one port",
            code=NO_SETTING,
            hint=f"write {SECOND_PORT} into the server's command, too",
        )


def _meant_as_port(named: set[str]) -> str | None:
    """Return the placeholder that is a mistyped {port}; None if there is none, or {port} as well."""
    port = PORT.strip("{}")
    near = difflib.get_close_matches(port, sorted(named - {*RESERVED}), n=1, cutoff=0.75)
    return near[0] if near and port not in named else None


def _placeholders(command: Sequence[str] | None, environment: Mapping[str, str]) -> set[str]:
    """Return the names of the placeholders in a command and its environment."""
    words = [*(command or ()), *environment.values()]
    return {name for word in words for name in PLACEHOLDER.findall(word)}


def notes_of_commands(
    chosen: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> Iterator[str]:
    """Yield a line for commands of loads that cannot take settings which the study sets for all loads."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for each in chosen:
        if each.load.command is None:
            continue
        taken = _taken(each, catalogue)
        allowed = catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
        given = [*_common_names(each, problems), *_own_primitives(each, catalogue)]
        lacking = [name for name in given if name in {*allowed, *Way._fields} - taken]
        if lacking:
            found.setdefault(tuple(lacking), {})[each.base.table.name] = None
    for names, whose in found.items():
        yield (
            f"the load command of {', '.join(whose)} takes no {', '.join(names)}, which the study sets "
            f"[{NOT_TAKEN}]"
        )


def _taken(each: Configuration, catalogue: Catalogue) -> set[str]:
    """Return the settings that the commands of load and server take, or that reach the clients anyway."""
    taken = _placeholders(each.load.command, each.load.environment)
    taken = (taken | _placeholders(each.table.command, each.table.environment)) - RESERVED
    kind = catalogue.load(each.load.kind)
    if kind is not None and CLIENTS in taken and kind.clients:
        taken.add(kind.clients)
    if kind is not None and DURATION in taken and kind.duration:
        taken.add(kind.duration)
    if each.load.settings.get(CHECK) == COUNT:
        taken.add(CHECK)
    workload = catalogue.workload(each.workload)
    if workload is not None and each.design:
        # The server of the same trial has a setting that must agree, and its replies show it.
        taken |= {agreement.client for agreement in workload.agreements}
    return taken


def _own_keys(each: Configuration) -> Iterator[tuple[str, ...]]:
    """Yield the keys of a load that a contender, or the points of a sweep, give it."""
    for path, place in each.places.items():
        is_own = "contenders" in place[::2] or (place[0] == "sweeps" and place[2:3] == ("values",))
        if not is_own or path[0] != "load":
            continue
        if path[1] in Way._fields or path[1] == "settings":
            yield tuple(map(str, path))


def _common_names(each: Configuration, problems: Problems) -> Iterable[str]:
    """Return what the file, a sweep for all its contenders, or the user sets of a load."""
    given = [name for name in each.load.settings if _is_written(("load", "settings", name), problems)]
    given += [str(path[-1]) for path in each.places if path[:2] == ("load", "settings")]
    if each.lab.congestion is not None:
        given.append("congestion")
    return dict.fromkeys(given)


def _own_primitives(each: Configuration, catalogue: Catalogue) -> list[str]:
    """Return the keys of a load's primitives that are not the engine's usual ones."""
    usual = catalogue.defaults.way._asdict()
    return [key for key, name in each.load.way._asdict().items() if name != usual[key]]


def _is_written(path: KeyPath, problems: Problems) -> bool:
    """True if a key is in the file, or if an override or the size sets it; false for a default."""
    if path in problems.origins:
        return True
    table: object = problems.file.data
    for key in path:
        if not isinstance(table, dict) or key not in table:
            return False
        table = table[key]
    return True
