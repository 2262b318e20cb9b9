"""What the user typed of two contenders and a setting: their tables in a study, and the keys of the setting.

A contender is the name of a design, of a primitive, or of a contender of a study (`--study`); or what it is
made of: `design=prefork,pool=30`, `primitive=sendmsg,load.processes=2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thunderherd.engine.catalogue import USUAL_WAY, Catalogue, IntegerSetting, Primitive, Setting, Way
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, USUAL, owners
from thunderherd.labs.words import QUANTITIES, written
from thunderherd.search.crossover_effect import OF_RECEIVER, sender_of
from thunderherd.study.checks.names import DIRECTIONS
from thunderherd.study.file.contenders import OWN
from thunderherd.study.file.tables import LOAD_PROCESSES
from thunderherd.study.overrides import parse_override
from thunderherd.text.quantities import Range
from thunderherd.toml.file import assign, near, show

__all__ = ["SIDE_CHOICES", "Common", "Swept", "check_directions", "contender", "names_of_settings", "swept"]

SIDE_CHOICES = ("server", "client", "both")
"""Who moves bytes by a primitive that is a contender."""

PROCESSES = IntegerSetting(
    name="processes", help=LOAD_PROCESSES, unit=None, kind="integer", minimum=1, maximum=64, default=1
)
"""The one number of a load that is no setting of the engine's."""

_SUCH_AS = "pool=30, load.processes=2 or lab.server_cpus=[0, 1]"


@dataclass(frozen=True)
class Common:
    """What both contenders stand on: the workload, the load, and what each has where it says nothing."""

    catalogue: Catalogue
    workload: str
    load: str
    design: str
    server_way: Way
    load_way: Way
    side: str | None
    """As the user said; None: the end that the workload is about."""
    lab: str = USUAL.name
    """The kind."""
    direction: object = None
    """Which way the bytes of a stream go, where that is said."""
    command: str = "crossover"
    """Which command what is wrong is said of."""

    def settings_of_server(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """What a contender's server can be told."""
        return self.catalogue.settings_of_server(
            table.get("design", self.design), _way(table, self.server_way), self.workload
        )

    def settings_of_load(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """What a contender's load can be told."""
        own = table.get("load", {})
        return self.catalogue.settings_of_load(
            own.get("kind", self.load), _way(own, self.load_way), self.workload
        )

    def settings_of_lab(self, table: Mapping[str, Any]) -> dict[str, Setting]:
        """What a contender's lab can be told of quantities, by the keys of [lab]."""
        kind = KINDS.get(table.get("lab", {}).get("kind", self.lab), USUAL)
        own = kind.settings(self.catalogue)
        return {
            key: _from(own[each.setting], each.least)
            for key, each in QUANTITIES.items()
            if key in kind.keys and each.setting in own
        }

    @property
    def sender(self) -> str:
        """The side whose sending is measured."""
        workload = self.catalogue.workload(self.workload)
        usual = "client" if workload and workload.sender == "client" else "server"
        return sender_of(workload, self.direction) or usual

    @property
    def receiver(self) -> str:
        """The other side."""
        return "server" if self.sender == "client" else "client"

    def mover(self, primitive: Primitive) -> str:
        """Who moves bytes by a primitive that is a contender: it sends where the bytes come from, or receives
        where they go."""
        if self.side is not None:
            return self.side
        return self.sender if primitive.moves == "out" else self.receiver


def _from(setting: Setting, least: int) -> Setting:
    """A setting without the values below the least that a key of [lab] may have."""
    if not isinstance(setting, IntegerSetting):
        return setting
    return setting.model_copy(update={"minimum": max(setting.minimum, least)})


def _way(table: Mapping[str, Any], usual: Way) -> Way:
    return Way(table.get("primitive", usual.primitive), table.get("receive", usual.receive))


# Contenders -------------------------------------------------------------------------------------------------


def contender(typed: str, common: Common, of_study: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The table of a contender. Raises UserError for what is not there, with what is."""
    if "=" in typed:
        return _made_of(typed, common)
    if typed in of_study:
        return {"name": typed, **of_study[typed]}
    designs = [each.name for each in common.catalogue.designs]
    primitives = [each.name for each in common.catalogue.primitives]
    if typed in designs and typed in primitives:
        raise UserError(
            f"{common.command}: {typed} is a design and a primitive; write design={typed} or "
            f"primitive={typed}"
        )
    if typed in designs:
        return {"name": typed, "design": typed}
    if primitive := common.catalogue.primitive(typed):
        return {"name": typed, "design": common.design, **_moved(primitive, common.mover(primitive))}
    known = [*of_study, *designs, *primitives]
    of = "contender of the study, design or primitive" if of_study else "design or primitive"
    raise UserError(
        f"{common.command}: no such {of} {show(typed)}; "
        + (f"contenders: {', '.join(of_study)}; " if of_study else "")
        + f"designs: {', '.join(designs)}; primitives: {', '.join(primitives)}; "
        f"or what it is made of, such as design={designs[0]},settings.nodelay=false{near(typed, known)}"
    )


def check_directions(typed: tuple[str, str], pair: Sequence[Mapping[str, Any]], catalogue: Catalogue) -> None:
    """Of two contenders that differ in a primitive alone both send by it, or both receive: otherwise they are
    no two ways of doing the same."""
    moved = [_movers(table) for table in pair]
    same = _without_movers(pair[0]) == _without_movers(pair[1])
    if not (same and len(moved[0]) == len(moved[1]) == 1 and {*moved[0]} != {*moved[1]}):
        return
    said = []
    instead = []
    for words, own in zip(typed, moved, strict=True):
        ((field, name),) = own.items()
        does = "sends" if field == "primitive" else "receives"
        said.append(f"{words} {does}")
        usual = getattr(USUAL_WAY, field)
        others = [each.name for each in catalogue.primitives if each.moves == DIRECTIONS[field]]
        other = usual if name != usual else next((each for each in others if each != name), None)
        if other is not None:
            another = words.replace(name, other) if name in words else other
            instead.append(f"`crossover {words} {another}`")
    raise UserError(
        f"crossover: {' and '.join(said)}, so that neither can take the other's place; type "
        f"{' or '.join(instead)} (`list primitives` has all)"
    )


def _movers(table: Mapping[str, Any]) -> dict[str, str]:
    """The primitives that a contender names, of either end, by direction."""
    ends = (table.get("load", {}), table)
    return {field: end[field] for end in ends for field in Way._fields if field in end}


def _without_movers(table: Mapping[str, Any]) -> dict[str, Any]:
    """What else it is made of, but for its names."""
    left = {key: value for key, value in table.items() if key not in (*OWN, *Way._fields)}
    load = {key: value for key, value in left.pop("load", {}).items() if key not in Way._fields}
    return {**left, **({"load": load} if load else {})}


def _moved(primitive: Primitive, side: str) -> dict[str, Any]:
    how = {"primitive" if primitive.moves == "out" else "receive": primitive.name}
    own: dict[str, Any] = {} if side == "client" else dict(how)
    return own if side == "server" else {**own, "load": how}


def _made_of(typed: str, common: Common) -> dict[str, Any]:
    """A contender from `key=value`, commas between; a value may be a list."""
    where = f"{common.command}: {typed}"
    said: dict[str, Any] = {}
    for part in re.split(r",(?![^\[]*\])", typed):
        if not all(each.strip() for each in part.partition("=")):
            # Whoever writes settings behind a name has left out what it is the name of.
            name_first = part == typed.partition(",")[0] and "=" not in part
            instead = f"; a design with settings is design={typed}" if part and name_first else ""
            raise UserError(
                f"{where}: {show(part)} is no key=value, such as {_SUCH_AS}; commas stand between{instead}"
            )
        key, value = parse_override(part, where)
        if key in said:
            raise UserError(f"{where}: {key} is said twice")
        said[key] = value
    table: dict[str, Any] = {}
    name = said.pop("name", None)
    for key in ("design", *Way._fields):
        if key in said:
            table[key] = said.pop(key)
    for key in [each for each in said if each in ("load.kind", *(f"load.{field}" for field in Way._fields))]:
        assign(table, tuple(key.split(".")), said.pop(key))
    table.setdefault("design", common.design)
    for key, value in said.items():
        assign(table, _path(key, table, common, where), value)
    return {"name": name or _named(typed), **table}


def _path(key: str, table: Mapping[str, Any], common: Common, where: str) -> tuple[str, ...]:
    """Where the value of a key stands in a contender's table; a setting may be written short."""
    if key.startswith(("settings.", "load.", "lab.")) or key == "trial":
        return tuple(key.split("."))
    server, load = common.settings_of_server(table), common.settings_of_load(table)
    places: list[tuple[str, ...]] = [("settings", key)] if key in server else []
    places += [("load", "settings", key)] if key in load else []
    if not places:
        known = ["design", *Way._fields, *server, *load, "load.processes"]
        raise UserError(
            f"{where}: no such key {show(key)}; known: {', '.join(dict.fromkeys(known))}{near(key, known)}"
        )
    if len(places) > 1:
        raise UserError(
            f"{where}: {show(key)} could be {' or '.join('.'.join(each) for each in places)}; write which one"
        )
    return places[0]


def _named(typed: str) -> str:
    """`design=prefork,pool=30` as prefork_pool_30: a name that tells what it is made of."""
    words = []
    for part in re.split(r",(?![^\[]*\])", typed):
        key, _, value = part.partition("=")
        short = key.strip().rpartition(".")[2]
        words += [value] if short in ("design", *Way._fields) else [short, value]
    name = re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")
    return name if name[:1].isalpha() else f"contender_{name}"


# The setting ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swept:
    """The keys that take each value, whether every contender has them, and what the setting allows.

    `raised` are settings of the server that must reach as far, and the value that they need.
    """

    name: str
    keys: tuple[str, ...]
    by_all: bool
    setting: IntegerSetting
    raised: Mapping[str, int]


def swept(asked: Range, common: Common, tables: list[dict[str, Any]], given: Mapping[str, Any]) -> Swept:
    """The setting that is swept. Raises UserError where there is none, or where the range goes beyond it.

    Parameters
    ----------
    asked
        As typed; a name may be short or a whole key.
    tables
        Those of both contenders.
    given
        The settings that the study gives every server.
    """
    leaf = asked.name.rpartition(".")[2]
    found = _places(leaf, common, tables)
    if "." in asked.name:
        found = {key: own for key, own in found.items() if key == asked.name}
    if not found:
        raise UserError(_no_such_setting(asked, common, tables))
    keys = _agreeing(leaf, found, common)
    setting = next(iter(found[keys[0]].values()))
    if not isinstance(setting, IntegerSetting):
        numeric = ", ".join(_numeric(common, tables))
        raise UserError(
            f"crossover: --over {asked.name}: it is no number but {setting.allowed()}; numbers: {numeric}"
        )
    _check_there(keys, common, tables)
    for own in (each for key in keys for each in found[key].values()):
        if not (own.accepts(asked.low) and own.accepts(asked.high)):
            raise UserError(
                f"crossover: --over {_typed(asked.name, asked.low, asked.high)} goes beyond what it allows: "
                f"{_allowed(leaf, own)}{_within(asked, own)}"
            )
    by_all = all(len(found[key]) == len(tables) for key in keys)
    return Swept(leaf, keys, by_all, setting, _raised(leaf, keys, asked, common, tables, given))


def _check_there(keys: tuple[str, ...], common: Common, tables: list[dict[str, Any]]) -> None:
    """This machine has what is swept of a lab."""
    for key in keys:
        table, _, name = key.partition(".")
        for each in tables if table == "lab" else ():
            kind = KINDS.get(each.get("lab", {}).get("kind", common.lab), USUAL)
            if reason := kind.unavailable_settings(common.catalogue).get(QUANTITIES[name].setting):
                raise UserError(f"crossover: --over {name}: lab {kind.name} cannot have it here: {reason}")


def _allowed(leaf: str, setting: Setting) -> str:
    """The values of a setting, in words: quantities of a lab with their units."""
    if leaf not in QUANTITIES or not QUANTITIES[leaf].units or not isinstance(setting, IntegerSetting):
        return setting.allowed()
    return f"{written(leaf, setting.minimum)} to {written(leaf, setting.maximum)}"


def _within(asked: Range, setting: Setting) -> str:
    """What to type of a range that goes beyond its setting."""
    if not isinstance(setting, IntegerSetting):
        return ""
    low, high = max(asked.low, setting.minimum), min(asked.high, setting.maximum)
    return f"; type --over {_typed(asked.name, low, high)}" if low < high else ""


def _typed(name: str, low: int, high: int) -> str:
    """A range as it is typed: quantities of a lab with their units."""
    leaf = name.rpartition(".")[2]
    ends = [written(leaf, end) if leaf in QUANTITIES else end for end in (low, high)]
    return f"{name}={ends[0]}..{ends[1]}"


def _places(leaf: str, common: Common, tables: list[dict[str, Any]]) -> dict[str, dict[int, Setting]]:
    """The keys of that last name: for each contender, by place, that has it, the setting."""
    found: dict[str, dict[int, Setting]] = {}
    for place, table in enumerate(tables):
        for key, known in (
            (f"load.settings.{leaf}", common.settings_of_load(table)),
            (f"settings.{leaf}", common.settings_of_server(table)),
            (f"load.{leaf}", {PROCESSES.name: PROCESSES}),
            (f"lab.{leaf}", common.settings_of_lab(table)),
        ):
            if leaf in known:
                found.setdefault(key, {})[place] = known[leaf]
    return found


def _agreeing(leaf: str, found: Mapping[str, Any], common: Common) -> tuple[str, ...]:
    """The keys that take a value together: both ends' where the workload says that they must be equal, else
    the key of the end that makes use of it."""
    if len(found) == 1:
        return tuple(found)
    workload = common.catalogue.workload(common.workload)
    equal = [
        each
        for each in (workload.agreements if workload else ())
        if each.client == each.service == leaf and each.relation == "equal"
    ]
    if equal and len(found) == 2:
        return tuple(found)
    ends = {"server": f"settings.{leaf}", "client": f"load.settings.{leaf}"}
    if set(found) == set(ends.values()):
        side = common.side or (common.receiver if leaf in OF_RECEIVER else common.sender)
        return tuple(found) if side == "both" else (ends[side],)
    raise UserError(f"crossover: --over {leaf} could be {' or '.join(found)}; write which one")


def _raised(
    leaf: str,
    keys: tuple[str, ...],
    asked: Range,
    common: Common,
    tables: list[dict[str, Any]],
    given: Mapping[str, Any],
) -> dict[str, int]:
    """The limits of the server that the clients' setting must not exceed, where they are too low."""
    workload = common.catalogue.workload(common.workload)
    raised: dict[str, int] = {}
    for each in workload.agreements if workload else ():
        if keys != (f"load.settings.{leaf}",) or each.client != leaf or each.relation != "at_most":
            continue
        limit = common.settings_of_server(tables[0]).get(each.service)
        if not isinstance(limit, IntegerSetting) or each.service in given:
            continue
        if limit.default < asked.high and limit.accepts(asked.high):
            raised[each.service] = asked.high
    return raised


def names_of_settings(catalogue: Catalogue) -> list[str]:
    """The names of all settings that any contender could have, in any lab, whatever their values are."""
    of_workloads = [(*each.client_settings, *each.service_settings) for each in catalogue.workloads]
    entries = (*catalogue.designs, *catalogue.primitives, *catalogue.loads)
    common = [catalogue.server_settings, catalogue.load_settings]
    settings = [*of_workloads, *(each.settings for each in entries), *common]
    return list(
        dict.fromkeys([*(own.name for each in settings for own in each), PROCESSES.name, *QUANTITIES])
    )


def _numeric(common: Common, tables: list[dict[str, Any]]) -> list[str]:
    """The names of all settings that are numbers."""
    settings = {
        name: setting
        for table in tables
        for known in (
            common.settings_of_load(table),
            common.settings_of_server(table),
            common.settings_of_lab(table),
        )
        for name, setting in known.items()
    }
    numbers = [name for name, setting in settings.items() if isinstance(setting, IntegerSetting)]
    return [*numbers, PROCESSES.name]


def _no_such_setting(asked: Range, common: Common, tables: list[dict[str, Any]]) -> str:
    numeric = _numeric(common, tables)
    leaf = asked.name.rpartition(".")[2]
    full = list(_places(leaf, common, tables))
    if full:
        return f"crossover: --over {asked.name}: no such key; {leaf} is {' and '.join(full)}"
    if leaf in QUANTITIES:
        kinds = [kind.name for kind in owners(leaf)]
        typed = " or ".join(f"--lab {kind} --over {leaf}={QUANTITIES[leaf].range_example}" for kind in kinds)
        return (
            f"crossover: --over {asked.name}: lab {common.lab} has no {leaf}, which is a key of lab "
            f"{' and '.join(kinds)}; type {typed}"
        )
    of_workloads: dict[str, list[str]] = {}
    for each in common.catalogue.workloads:
        for own in dict.fromkeys((*each.client_settings, *each.service_settings)):
            if isinstance(own, IntegerSetting):
                of_workloads.setdefault(own.name, []).append(each.name)
    hint = near(leaf, [*numeric, *of_workloads])
    if elsewhere := of_workloads.get(leaf):
        hint = f"; it is a setting of workload {' and '.join(dict.fromkeys(elsewhere))} (--workload)"
    return (
        f"crossover: --over {asked.name}: neither contender, nor workload {common.workload}, nor load "
        f"{common.load} has such a setting; numbers: {', '.join(numeric)}{hint}"
    )
