"""Contenders and the searched setting as the user typed them: their tables and keys in a study.

A contender is the name of a design, of a primitive, or of a contender of a study (`--study`), perhaps with
settings: `epoll,wait=spin`. Or it is a list of settings: `design=prefork,pool=30`. A server that is not ours
is the URL at which it is running, or its command, which has spaces or `{port}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from thunderherd.engine.catalogue import Catalogue, Direction, IntegerSetting, Primitive, Setting, Way
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, USUAL, owners
from thunderherd.labs.kind import Kind
from thunderherd.labs.words import QUANTITIES, WITH_UNITS
from thunderherd.metrics.table import SideOrBoth
from thunderherd.search.request import CrossoverRequest
from thunderherd.study.checks.names import DIRECTIONS
from thunderherd.study.file.contenders import OWN, named_by
from thunderherd.study.file.tables import LOAD_PROCESSES
from thunderherd.study.overrides import parse_override
from thunderherd.study.own_programs import KEYS, URL, command_words, is_command, url_meant
from thunderherd.toml.file import assign, nearest, shortened, show, suggest
from thunderherd.toml.quantities import TIME, UNITS, Quantity, Range, amounts

__all__ = [
    "SIDE_CHOICES",
    "Basis",
    "Swept",
    "check_directions",
    "contender",
    "has_own_server",
    "names_of_settings",
    "raised_limits",
    "ranges_of",
    "scheme_of",
    "swept",
]

SIDE_CHOICES: tuple[SideOrBoth, ...] = get_args(SideOrBoth)
"""The sides that may use a primitive that is a contender."""

PROCESSES = IntegerSetting(
    name="processes", help=LOAD_PROCESSES, unit=None, kind="integer", minimum=1, maximum=64, default=1
)
"""The one number of a load that is not a setting of the engine."""

TABLES = ("", "settings.", "load.settings.")
"""The tables before the name of a setting of a server or a load."""

_SUCH_AS = "pool=30, load.processes=2 or lab.server_cpus=[0, 1]"


@dataclass(frozen=True)
class Basis:
    """The parts that all contenders share: workload, load, and defaults for missing keys."""

    catalogue: Catalogue
    workload: str
    load: str
    design: str
    server_way: Way
    load_way: Way
    side: str | None
    """The typed side; None means the side that the workload is about."""
    lab: str = USUAL.name
    """The kind of lab."""
    turned: object = None
    """The direction of a stream's bytes, if one is given."""
    command: str = "crossover"
    sets_both_sides: bool = False
    """True if a setting that both sides have is set for both."""

    def settings_of_server(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """Return the settings of a contender's server; none if it is not ours."""
        if has_own_server(table):
            return {}
        return self.catalogue.settings_of_server(
            table.get("design", self.design), _way(table, self.server_way), self.workload
        )

    def settings_of_load(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """Return the settings of a contender's load."""
        own = table.get("load", {})
        return self.catalogue.settings_of_load(
            own.get("kind", self.load), _way(own, self.load_way), self.workload
        )

    def settings_of_lab(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """Return the quantities of a contender's lab, by the keys of [lab]."""
        kind = self.lab_of(table)
        own = kind.settings(self.catalogue)
        return {
            key: _from(own[key], kind.least(self.catalogue, key))
            for key in QUANTITIES
            if key in kind.keys and key in own
        }

    def lab_of(self, table: Mapping[str, Any]) -> Kind:
        """Return the kind of a contender's lab."""
        return KINDS.get(table.get("lab", {}).get("kind", self.lab), USUAL)

    @property
    def direction(self) -> Direction | None:
        """The setting for the direction of a stream's bytes; None for a workload without streams."""
        workload = self.catalogue.workload(self.workload)
        return workload.direction if workload else None

    @property
    def sender(self) -> str:
        """The side whose sending is measured."""
        if self.direction:
            return self.direction.sender(self.turned)
        workload = self.catalogue.workload(self.workload)
        return "client" if workload and workload.sender == "client" else "server"

    @property
    def receiver(self) -> str:
        """The other side."""
        return "server" if self.sender == "client" else "client"

    def side_of(self, primitive: Primitive) -> str:
        """Return the side that uses a primitive given as contender: the sender for a send primitive."""
        if self.side is not None:
            return self.side
        return self.sender if primitive.moves == "out" else self.receiver


def _from(setting: Setting, least: int) -> Setting:
    """Return a setting without the values below the least that a key of [lab] may have."""
    if not isinstance(setting, IntegerSetting):
        return setting
    return setting.model_copy(update={"minimum": max(setting.minimum, least)})


def _way(table: Mapping[str, Any], usual: Way) -> Way:
    return Way(table.get("primitive", usual.primitive), table.get("receive", usual.receive))


# Contenders -------------------------------------------------------------------------------------------------


def contender(typed: str, basis: Basis, of_study: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the table of a contender; raise `UserError` with the known names for an unknown one."""
    if own_server := _own_server(typed, basis):
        return own_server
    first, comma, rest = typed.partition(",")
    if comma and first.strip() and "=" not in first:
        return _of_settings(typed, basis, contender(first.strip(), basis, {}), rest)
    if "=" in typed:
        return _of_settings(typed, basis, {}, typed)
    if typed in of_study:
        return {"name": typed, **of_study[typed]}
    designs = [each.name for each in basis.catalogue.designs]
    primitives = [each.name for each in basis.catalogue.primitives]
    if typed in designs and typed in primitives:
        raise UserError(
            f"{typed} is a design and a primitive",
            code="contender.ambiguous_name",
            hint=f"write design={typed} or primitive={typed}",
            where=f"{basis.command}: {typed}",
        )
    if typed in designs:
        return {"name": typed, "design": typed}
    if primitive := basis.catalogue.primitive(typed):
        return {"name": typed, "design": basis.design, **_moved(primitive, basis.side_of(primitive))}
    kinds = "contender of the study, design or primitive" if of_study else "design or primitive"
    known = (
        (f"contenders: {shortened(', '.join(of_study))}; " if of_study else "")
        + "a command with {port}, a URL, a design (`thunderherd list designs`), a primitive "
        f"(`thunderherd list primitives`), or settings, such as design={designs[0]},settings.nodelay=false"
    )
    if near := nearest(typed, [*of_study, *designs, *primitives]):
        known = f"did you mean '{near}'? `list designs` and `list primitives` print all"
    elif meant := url_meant(typed):
        known = meant
    elif typed and typed in {*UNITS, *TIME.units}:
        known = f"a quantity has no space before its unit, such as 4{typed}"
    raise UserError(
        f"no such {kinds} {show(typed)}", code="contender.unknown", hint=known, where=basis.command
    )


def has_own_server(table: Mapping[str, Any]) -> bool:
    """True if a contender's server is not ours."""
    return any(key in table for key in KEYS)


def scheme_of(typed: str) -> str | None:
    """Return the workload that a contender's URL names; None if it is no URL."""
    found = URL.match(typed)
    return found[1] if found else None


def _own_server(typed: str, basis: Basis) -> dict[str, Any] | None:
    """Return the table of a URL or a command; None for other contenders."""
    if URL.match(typed):
        return {"name": _plain_name(typed), "label": typed, "url": typed}
    if not is_command(typed):
        return None
    words = command_words(typed, "contender", basis.command)
    named = [Path(word).stem for word in words[:2] if not word.startswith("-") and "{" not in word]
    name = _plain_name("_".join(named) or "server")
    return {"name": name, "label": typed, "command": [*words], "directory": str(Path.cwd())}


def _plain_name(text: str) -> str:
    return named_by([("design", text)])


def with_workers(table: dict[str, Any], basis: Basis, clients: int) -> tuple[str, str] | None:
    """Give a server that serves one connection at a time a worker for each of `clients` connections.

    Return why it cannot serve that many, and a hint; None if it can.
    """
    design = None if has_own_server(table) else basis.catalogue.design(table.get("design", basis.design))
    if design is None or not design.serves_one_by_one:
        return None
    known = basis.settings_of_server(table)
    settings = table.setdefault("settings", {})
    if (workers := design.most_workers) and isinstance(usual := known[workers], IntegerSetting):
        settings.setdefault(workers, min(max(usual.default, clients), usual.maximum))
    return design.starved(clients, settings)


def check_directions(
    request: CrossoverRequest, pair: Sequence[Mapping[str, Any]], catalogue: Catalogue
) -> None:
    """Refuse two contenders that differ in a primitive alone, if one sends by it and the other receives."""
    moved = [_primitives(table) for table in pair]
    same = _without_primitives(pair[0]) == _without_primitives(pair[1])
    if not (same and len(moved[0]) == len(moved[1]) == 1 and {*moved[0]} != {*moved[1]}):
        return
    does = []
    instead = []
    for words, own in zip((request.a, request.b), moved, strict=True):
        ((field, name),) = own.items()
        does.append(f"{words} {'sends' if field == 'primitive' else 'receives'}")
        usual = getattr(catalogue.defaults, field)
        others = [each.name for each in catalogue.primitives if each.moves == DIRECTIONS[field]]
        other = usual if name != usual else next((each for each in others if each != name), None)
        if other is not None:
            another = words.replace(name, other) if name in words else other
            instead.append(f"`crossover {words} {another}`")
    raise request.refusal(
        "",
        f"{' and '.join(does)}, so they cannot replace each other",
        "crossover.sender_against_receiver",
        f"type {' or '.join(instead)} (`list primitives` has all)",
    )


def _primitives(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the primitives that a contender names for either side, by direction."""
    ends = (table.get("load", {}), table)
    return {field: end[field] for end in ends for field in Way._fields if field in end}


def _without_primitives(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rest of a contender, without its names."""
    left = {key: value for key, value in table.items() if key not in (*OWN, *Way._fields)}
    load = {key: value for key, value in left.pop("load", {}).items() if key not in Way._fields}
    return {**left, **({"load": load} if load else {})}


def _moved(primitive: Primitive, side: str) -> dict[str, Any]:
    how = {"primitive" if primitive.moves == "out" else "receive": primitive.name}
    own: dict[str, Any] = {} if side == "client" else dict(how)
    return own if side == "server" else {**own, "load": how}


def _of_settings(typed: str, basis: Basis, table: Mapping[str, Any], settings: str) -> dict[str, Any]:
    """Return a contender's table with `key=value` settings, which have commas between and may be lists."""
    where = f"{basis.command}: {typed}"
    given: dict[str, Any] = {}
    for part in _parts(settings):
        if not all(each.strip() for each in part.partition("=")):
            raise UserError(
                f"{show(part)} is not of the form key=value",
                code="contender.no_key_value",
                hint=f"give {_SUCH_AS}, with commas between several",
                where=where,
            )
        key, value = parse_override(part, where)
        if key in given:
            raise UserError(
                f"{key} is given twice", code="contender.key_repeated", hint="leave one out", where=where
            )
        given[key] = value
    made = deepcopy({key: value for key, value in table.items() if key != "name"})
    name = given.pop("name", None)
    for key in ("design", *Way._fields):
        if key in given:
            made[key] = given.pop(key)
    for key in [each for each in given if each in ("load.kind", *(f"load.{field}" for field in Way._fields))]:
        assign(made, tuple(key.split(".")), given.pop(key))
    made.setdefault("design", basis.design)
    for key, value in given.items():
        for path in _paths(key, made, basis, where):
            assign(made, path, value)
    return {"name": name or _named(typed), **made}


def _parts(typed: str) -> list[str]:
    """Return the text between commas, except for commas inside a list, in brackets or of CPUs."""
    return re.split(r",(?![^\[]*\])(?!\s*[0-9-]+\s*(?:,|$))", typed)


def _paths(key: str, table: Mapping[str, Any], basis: Basis, where: str) -> list[tuple[str, ...]]:
    """Return the places of a key in a contender's table. A setting may be written without its table.

    A setting of both sides is then ambiguous, unless a contender stands for both.
    """
    if key.startswith(("settings.", "load.", "lab.")) or key == "trial":
        return [tuple(key.split("."))]
    server, load = basis.settings_of_server(table), basis.settings_of_load(table)
    places: list[tuple[str, ...]] = [("settings", key)] if key in server else []
    places += [("load", "settings", key)] if key in load else []
    if not places:
        known = ["design", *Way._fields, *server, *load, "load.processes"]
        design, kind = table.get("design", basis.design), table.get("load", {}).get("kind", basis.load)
        of_server = f"thunderherd serve {design} {basis.workload} --help-all"
        of_load = f"thunderherd load {basis.workload} --load {kind} --help-all"
        raise UserError(
            f"no such key {show(key)}",
            code="contender.unknown_key",
            hint=suggest(key, known, f"known: {', '.join(dict.fromkeys(known))}", of_server, of_load),
            where=where,
        )
    if len(places) > 1 and not basis.sets_both_sides:
        raise UserError(
            f"{show(key)} could be {' or '.join('.'.join(each) for each in places)}",
            code="contender.ambiguous_key",
            hint=f"write {' or '.join('.'.join(each) for each in places)}",
            where=where,
        )
    return places


def _named(typed: str) -> str:
    """Return a name made of the settings: `prefork,pool=30` is prefork_pool_30."""
    parts = [part.partition("=") for part in _parts(typed)]
    return named_by((key, value) if equals else ("design", key) for key, equals, value in parts)


# The setting ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swept:
    """The setting of --over: the keys that take each value, and what the setting allows."""

    name: str
    keys: tuple[str, ...]
    by_all: bool
    """True if every contender has the keys."""
    setting: IntegerSetting
    raised: Mapping[str, int]
    """Limits of the server that must be as high as the range, with the value that they need."""

    @property
    def unit(self) -> str:
        """The unit of the numbers of its axis: that of the smallest step, so that they are whole."""
        words, step = self.setting.quantity.words, self.setting.resolution
        fitting = [unit for unit, size in words.items() if size <= step]
        return (fitting or [*words] or [self.setting.unit or ""])[-1]

    def written(self, size: int) -> int | str:
        """Return a size as a study has it."""
        return self.setting.quantity.write(size) if self.setting.needs_unit else size

    def span(self, low: int, high: int) -> str:
        """Return a range in words."""
        kind = self.setting.quantity
        return (
            f"{kind.say(low)} to {kind.say(high)}"
            if kind.words
            else amounts(low, high, self.unit or self.name)
        )


@dataclass(frozen=True)
class _Sought:
    """The range of --over, and the contenders that may have its setting."""

    request: CrossoverRequest
    range_: Range
    basis: Basis
    tables: Sequence[dict[str, Any]]

    @property
    def leaf(self) -> str:
        return self.range_.name.rpartition(".")[2]

    def refusal(self, message: str, code: str, hint: str = "") -> UserError:
        return self.request.refusal(f"--over {self.request.over.strip()}", message, code, hint)


def swept(
    request: CrossoverRequest,
    range_: Range,
    basis: Basis,
    tables: Sequence[dict[str, Any]],
    given: Mapping[str, Any],
) -> Swept:
    """Find the setting of --over; raise `UserError` if there is none, or if the range exceeds it.

    Parameters
    ----------
    range_
        As typed. Its name may be short or a whole key.
    tables
        The tables of both contenders.
    given
        The settings that the study gives every server.
    """
    sought = _Sought(request, range_, basis, tables)
    found = _places(sought)
    if "." in range_.name:
        found = {key: own for key, own in found.items() if key == range_.name}
    if not found:
        raise _no_such_setting(sought)
    keys = _agreeing(found, sought)
    setting = next(iter(found[keys[0]].values()))
    if not isinstance(setting, IntegerSetting):
        hint = f"numbers: {', '.join(_numeric(sought))}"
        message = f"not a number; it takes {setting.allowed()}"
        raise sought.refusal(message, "crossover.over_is_no_number", hint)
    _check_available(keys, sought)
    for own in (each for key in keys for each in found[key].values()):
        if isinstance(own, IntegerSetting) and not (own.has(range_.low) and own.has(range_.high)):
            raise sought.refusal(
                f"out of range; allowed: {own.allowed()}",
                "crossover.over_exceeds_setting",
                _within(range_, own),
            )
    by_all = all(len(found[key]) == len(tables) for key in keys)
    return Swept(sought.leaf, keys, by_all, setting, _raised(keys, sought, given))


def _check_available(keys: tuple[str, ...], sought: _Sought) -> None:
    """Check that this machine supports the quantity of a lab."""
    for key in keys:
        table, _, name = key.partition(".")
        for each in sought.tables if table == "lab" else ():
            kind = sought.basis.lab_of(each)
            if reason := kind.unavailable_settings(sought.basis.catalogue).get(name):
                message = f"lab {kind.name} has no {name} on this machine: {reason}"
                raise sought.refusal(message, "crossover.over_unavailable")


def _within(range_: Range, setting: Setting) -> str:
    """Return the part of a range that its setting allows, as a hint."""
    if not isinstance(setting, IntegerSetting):
        return ""
    low, high = max(range_.low, setting.minimum), min(range_.high, setting.maximum)
    ends = f"{setting.quantity.write(low)}..{setting.quantity.write(high)}"
    return f"type --over {range_.name}={ends}" if low < high else ""


def _places(sought: _Sought) -> dict[str, dict[int, Setting]]:
    """Return the keys with that last name, each with the settings of its contenders, by their number."""
    found: dict[str, dict[int, Setting]] = {}
    leaf = sought.leaf
    for place, table in enumerate(sought.tables):
        for key, known in (
            (f"load.settings.{leaf}", sought.basis.settings_of_load(table)),
            (f"settings.{leaf}", sought.basis.settings_of_server(table)),
            (f"load.{leaf}", {PROCESSES.name: PROCESSES}),
            (f"lab.{leaf}", sought.basis.settings_of_lab(table)),
        ):
            if leaf in known:
                found.setdefault(key, {})[place] = known[leaf]
    return found


def _agreeing(found: Mapping[str, Any], sought: _Sought) -> tuple[str, ...]:
    """Return the keys that take a value together.

    These are both sides' keys if the workload wants them equal, else the key of the side that uses it.
    """
    if len(found) == 1:
        return tuple(found)
    leaf, basis = sought.leaf, sought.basis
    workload = basis.catalogue.workload(basis.workload)
    equal = [
        each
        for each in (workload.agreements if workload else ())
        if each.client == each.service == leaf and each.relation == "equal"
    ]
    if equal and len(found) == 2:
        return tuple(found)
    ends = {"server": f"settings.{leaf}", "client": f"load.settings.{leaf}"}
    if set(found) == set(ends.values()):
        of_receiver = basis.direction.of_receiver if basis.direction else ()
        side = basis.side or (basis.receiver if leaf in of_receiver else basis.sender)
        return tuple(found) if side == "both" else (ends[side],)
    raise sought.refusal(
        "the setting of which side?", "crossover.over_ambiguous", f"write {' or '.join(found)}"
    )


def _raised(keys: tuple[str, ...], sought: _Sought, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the server's limits on the clients' setting that are too low, with the value that they need."""
    if keys != (f"load.settings.{sought.leaf}",):
        return {}
    known = sought.basis.settings_of_server(sought.tables[0])
    return raised_limits(sought.basis, known, {sought.leaf: sought.range_.high}, given)


def raised_limits(
    basis: Basis, known: Mapping[str, Setting], requested: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, int]:
    """Return the server's limits that are below what its clients request, with the value that they need.

    Parameters
    ----------
    known
        The settings that the server has.
    requested
        The clients' settings, in base units or as a study has them.
    given
        The server's settings that were typed. They stay as they are.
    """
    workload = basis.catalogue.workload(basis.workload)
    raised: dict[str, int] = {}
    for each in workload.agreements if workload else ():
        value, limit = requested.get(each.client), known.get(each.service)
        if each.relation != "at_most" or not isinstance(limit, IntegerSetting) or each.service in given:
            continue
        if isinstance(value, str) and not limit.needs_unit and limit.refusal(value) is None:
            value = limit.read(value)
        if isinstance(value, int) and limit.default < value and limit.has(value):
            raised[each.service] = value
    return raised


def ranges_of(catalogue: Catalogue) -> dict[str, Quantity]:
    """Return the settings whose ranges need units, by name and by key."""
    timed = {
        name: each.quantity
        for name, each in catalogue.of_ends.items()
        if isinstance(each, IntegerSetting) and each.needs_unit
    }
    return {f"{table}{name}": kind for name, kind in timed.items() for table in TABLES} | WITH_UNITS


def names_of_settings(catalogue: Catalogue) -> list[str]:
    """Return the names of all settings that any contender could have, in any lab."""
    of_workloads = [(*each.client_settings, *each.service_settings) for each in catalogue.workloads]
    entries = (*catalogue.designs, *catalogue.primitives, *catalogue.loads)
    shared = [catalogue.server_settings, catalogue.load_settings]
    settings = [*of_workloads, *(each.settings for each in entries), *shared]
    return list(
        dict.fromkeys([*(own.name for each in settings for own in each), PROCESSES.name, *QUANTITIES])
    )


def _numeric(sought: _Sought) -> list[str]:
    """Return the names of the contenders' settings that are numbers."""
    basis = sought.basis
    settings = {
        name: setting
        for table in sought.tables
        for known in (basis.settings_of_load, basis.settings_of_server, basis.settings_of_lab)
        for name, setting in known(table).items()
    }
    numbers = [name for name, setting in settings.items() if isinstance(setting, IntegerSetting)]
    return [*numbers, PROCESSES.name]


def _no_such_setting(sought: _Sought) -> UserError:
    basis, leaf, numeric = sought.basis, sought.leaf, _numeric(sought)
    if full := list(_places(sought)):
        return sought.refusal("no such key", "crossover.over_unknown", f"{leaf} is {' and '.join(full)}")
    if leaf in QUANTITIES:
        kinds = [kind.name for kind in owners(leaf)]
        typed = " or ".join(f"--lab {kind} --over {leaf}={QUANTITIES[leaf].range_example}" for kind in kinds)
        message = f"lab {basis.lab} has no {leaf}, which is a key of lab {' and '.join(kinds)}"
        return sought.refusal(message, "crossover.over_of_other_lab", f"type {typed}")
    of_workloads: dict[str, list[str]] = {}
    for each in basis.catalogue.workloads:
        for own in dict.fromkeys((*each.client_settings, *each.service_settings)):
            if isinstance(own, IntegerSetting):
                of_workloads.setdefault(own.name, []).append(each.name)
    numbers = f"numbers: {', '.join(numeric)}"
    hint = suggest(leaf, [*numeric, *of_workloads], numbers)
    if elsewhere := of_workloads.get(leaf):
        hint = f"it is a setting of workload {' and '.join(dict.fromkeys(elsewhere))} (--workload); {numbers}"
    return sought.refusal(
        f"neither contender, nor workload {basis.workload}, nor load {basis.load} has this setting",
        "crossover.over_unknown",
        hint,
    )
