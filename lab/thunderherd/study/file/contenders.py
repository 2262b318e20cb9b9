"""All contenders of a study before defaults, with the place in the file of each of their keys.

A contender at a point of a sweep is made of these, later ones taking precedence: the study's tables, the
contender that it varies (its base), the sweep's `set`, and the value of the point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel

from thunderherd.engine.catalogue import Catalogue, Way
from thunderherd.records.summary import TrialForm
from thunderherd.study.file.tables import (
    ContenderTable,
    LabTable,
    LoadTable,
    StudyForm,
    SweepTable,
    ValueTable,
)
from thunderherd.toml.cpus import without_ranges
from thunderherd.toml.file import KeyPath, assign, flat, show
from thunderherd.toml.quantities import SIZE, Quantity, axis_unit
from thunderherd.toml.strict import StrictTable

MAIN = "main"
"""The name of the main table among the parts of a size."""

OWN = frozenset({"name", "label", "row", "row_note", "control_of"})
"""The keys of a contender that its variants do not inherit."""

AnyTable = TypeVar("AnyTable", bound=StrictTable)


@dataclass(frozen=True)
class Change:
    """A key of contenders that a sweep changes, with the place of the value in the file."""

    path: KeyPath
    value: Any
    place: KeyPath
    required: bool
    """True if every contender must have the key. If not, only those that have it get the value."""


@dataclass(frozen=True)
class Point:
    """A point of a sweep. `number` is its position on the axis; None if it has a name only."""

    name: str
    number: float | None
    changes: tuple[Change, ...]
    place: KeyPath


@dataclass(frozen=True)
class Base:
    """A contender as the file has it, and the contender that it starts from: its control_of, or itself."""

    table: ContenderTable
    start: ContenderTable
    place: KeyPath
    start_place: KeyPath

    def own(self) -> tuple[dict[str, Any], dict[KeyPath, KeyPath]]:
        """Return its own configuration, and the place of each key."""
        data: dict[str, Any] = {}
        places: dict[KeyPath, KeyPath] = {}
        for table, place in ((self.start, self.start_place), (self.table, self.place)):
            given = table.model_dump(exclude_unset=True, exclude=set(OWN))
            for path, value in flat(given):
                assign(data, path, value)
                places[path] = (*place, *path)
        return data, places


@dataclass(frozen=True)
class Configuration:
    """One complete configuration as the file has it, of the main table or of a sweep's point."""

    name: str
    form: StudyForm
    base: Base
    sweep: SweepTable | None
    point: Point | None
    table: ContenderTable
    """The keys of its base and its point together."""
    places: Mapping[KeyPath, KeyPath]

    @property
    def place(self) -> KeyPath:
        """The place in the file that declares it."""
        return self.point.place if self.point else self.base.place

    @property
    def part(self) -> str:
        """The part of the study that it belongs to: the main table, or a sweep's name."""
        return self.sweep.name if self.sweep else MAIN

    @property
    def design(self) -> str:
        return self.table.design or ""

    @property
    def workload(self) -> str:
        """The protocol of server and clients."""
        return workload_of({"workload": self.table.workload}, self.form)

    @cached_property
    def way(self) -> Way:
        """The primitives of its server."""
        return way_of({key: getattr(self.table, key) for key in Way._fields}, self.form)

    @cached_property
    def load(self) -> LoadTable:
        """The study's load, changed by its own keys."""
        return _merged(self.form.load, self.table.load)

    @cached_property
    def lab(self) -> LabTable:
        """The study's lab, changed by its own keys."""
        return _merged(self.form.lab, self.table.lab)

    @property
    def may_be_left_out(self) -> bool:
        """True if a run may go without it if it cannot run."""
        skips = self.sweep is not None and self.sweep.skip_unavailable
        return skips or self.table.install is not None or self.load.install is not None

    @property
    def trial(self) -> TrialForm:
        sweeps = self.sweep.trial if self.sweep else None
        return self.table.trial or sweeps or self.form.measure.trial

    @property
    def metric(self) -> str:
        """The metric that it is compared by."""
        return (self.sweep.metric if self.sweep else None) or self.form.measure.metric

    def primitives(self) -> list[tuple[KeyPath, str]]:
        """Return the primitives of its server and its load, each with its key."""
        of_server = [(self.where(key), name) for key, name in self.way._asdict().items()]
        return [
            *of_server,
            *((self.where("load", key), name) for key, name in self.load.way._asdict().items()),
        ]

    def where(self, *path: str) -> KeyPath:
        """Return the key that gives a key its value: `where("load", "settings", "loops")`."""
        if path in self.places:
            return self.places[path]
        return ("server", *path) if path[0] in ("settings", "workload", *Way._fields) else path


def workload_of(keys: Mapping[str, Any], form: StudyForm) -> str:
    """Return the workload of a contender with these keys; by default the study's."""
    return keys.get("workload") or form.server.workload


def way_of(keys: Mapping[str, Any], form: StudyForm) -> Way:
    """Return the primitives of a server with these keys; by default the study's."""
    server = form.server.way
    return Way(keys.get("primitive") or server.primitive, keys.get("receive") or server.receive)


def _merged(table: AnyTable, changes: BaseModel) -> AnyTable:
    changed = [*flat(changes.model_dump(exclude_unset=True, exclude_none=True))]
    if not changed:
        return table
    data = table.model_dump()
    for path, value in changed:
        assign(data, path, value)
    return type(table).model_validate(data)


# Expanding --------------------------------------------------------------------------------------------------


def bases(form: StudyForm, sweep: int | None = None) -> list[Base]:
    """Return the contenders of the main table; or those that the sweep at an index names or declares.

    A sweep may name contenders of the main table, and those that any sweep declares.
    """
    tables: dict[str, tuple[ContenderTable, KeyPath]] = {}
    for index, table in enumerate(form.contenders):
        tables.setdefault(table.name, (table, ("contenders", index)))
    for number, each in enumerate(form.sweeps):
        for index, own in enumerate(each.contenders):
            if isinstance(own, ContenderTable):
                tables.setdefault(own.name, (own, ("sweeps", number, "contenders", index)))

    def based(table: ContenderTable, place: KeyPath) -> Base:
        start, start_place = tables.get(table.control_of or "", (table, place))
        return Base(table, start, place, start_place)

    if sweep is None:
        return [based(table, ("contenders", index)) for index, table in enumerate(form.contenders)]
    return [
        based(named, ("sweeps", sweep, "contenders", index))
        if isinstance(named, ContenderTable)
        else based(*tables[named])
        for index, named in enumerate(form.sweeps[sweep].contenders)
        if isinstance(named, ContenderTable) or named in tables
    ]


def declared(form: StudyForm) -> list[Base]:
    """Return every contender that a file declares, once: those of the main table, then those of sweeps."""
    of_sweeps = [base for index in range(len(form.sweeps)) for base in bases(form, index)]
    own = {base.place: base for base in of_sweeps if base.place[0] == "sweeps"}
    return [*bases(form), *own.values()]


def points(sweep: SweepTable, place: KeyPath) -> list[Point]:
    """Return the points of a sweep with checked values; plain values without a key are left out."""
    found = []
    unit = unit_of_axis(sweep)
    for index, value in enumerate(sweep.values):
        here = (*place, "values", index)
        if isinstance(value, dict):
            table = ValueTable.model_validate(value)
            changes = tuple(_changes(table.set, (*here, "set")))
            found.append(Point(table.name, _number(table.name, unit), changes, here))
        elif sweep.keys:
            each = (Change(tuple(key.split(".")), value, here, required=True) for key in sweep.keys)
            found.append(Point(point_name(value), _number(without_ranges(value), unit), tuple(each), here))
    return found


def unit_of_axis(sweep: SweepTable) -> tuple[Quantity, str] | None:
    """Return the unit of a sweep's axis if its points are quantities with units; that of its crossover."""
    named = [value.get("name") if isinstance(value, dict) else value for value in sweep.values]
    found = axis_unit(named)
    wanted = sweep.crossover.unit if sweep.crossover else ""
    return (found[0], wanted) if found and wanted in found[0].words else found


def common_changes(sweep: SweepTable, place: KeyPath) -> list[Change]:
    """Return the changes at all points of a sweep."""
    return list(_changes(sweep.set, (*place, "set")))


def _changes(table: Mapping[str, Any], place: KeyPath) -> Iterator[Change]:
    for key, value in flat(table):
        yield Change(tuple(".".join(map(str, key)).split(".")), value, (*place, *key), required=False)


def point_name(value: Any) -> str:
    """Return the name of a point from its value: `30`, `free`, `true`, `0+1`."""
    if isinstance(value, list):
        return "+".join(map(point_name, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any, unit: tuple[Quantity, str] | None) -> float | None:
    """Return the position of a value on an axis of this unit; of a list of CPUs, their number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, list):
        return float(len(value))
    try:
        if unit is not None:
            kind, name = unit
            return kind.read(str(value)) / kind.words[name]
        number = float(value) if isinstance(value, int | float) else float(_plain(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> float:
    """Return the number that a text is: `1.5`, `64KiB`."""
    try:
        return float(text)
    except ValueError:
        return float(SIZE.read(text))


def configurations(form: StudyForm, catalogue: Catalogue) -> list[Configuration]:
    """Return all contenders of a study: those of the main table, then those of each sweep, point by point."""
    found = []
    for base in bases(form):
        data, places = base.own()
        table = ContenderTable.model_validate({**data, "name": base.table.name})
        found.append(Configuration(base.table.name, form, base, None, None, table, places))
    for index, sweep in enumerate(form.sweeps):
        common = common_changes(sweep, ("sweeps", index))
        for point in points(sweep, ("sweeps", index)):
            for base in bases(form, index):
                found.append(_at(form, base, sweep, point, [*common, *point.changes], catalogue))
    return found


def _at(
    form: StudyForm, base: Base, sweep: SweepTable, point: Point, changes: list[Change], catalogue: Catalogue
) -> Configuration:
    """Return a contender at a point of a sweep."""
    data, places = base.own()
    # The settings of a server depend on its design and primitives, so settings come last.
    for change in sorted(changes, key=lambda change: change.path[0] == "settings"):
        if change.path[0] == "settings" and not change.required:
            design, way = data.get("design", ""), way_of(data, form)
            if change.path[-1] not in catalogue.settings_of_server(design, way, workload_of(data, form)):
                continue
        assign(data, change.path, deepcopy(change.value))
        places[change.path] = change.place
    name = base.table.name
    table = ContenderTable.model_validate({**data, "name": name})
    return Configuration(f"{name}@{sweep.name}={point.name}", form, base, sweep, point, table, places)


def axis_name(sweep: SweepTable) -> str:
    """Return the label of a sweep's axis without its unit; by default the last word of its key."""
    names = dict.fromkeys(key.rpartition(".")[2] for key in sweep.keys or (sweep.name,))
    return sweep.x_label or " and ".join(names).replace("_", " ")


def x_label(sweep: SweepTable) -> str:
    """Return the label of a sweep's axis with its unit."""
    label, unit = axis_name(sweep), unit_of_axis(sweep)
    if unit is None or re.search(rf"(?<!\w){re.escape(unit[1])}(?!\w)", label):
        return label
    return f"{label} ({unit[1]})"


def named_by(settings: Iterable[tuple[str, str]]) -> str:
    """Return a contender's name made of its keys and values: `prefork_pool_30`."""
    words = []
    for key, value in settings:
        short = key.strip().rpartition(".")[2]
        words += [value] if short in ("design", "control_of", *Way._fields) else [short, value]
    name = re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")
    return name if name[:1].isalpha() else f"contender_{name}"


def label_of(table: ContenderTable, base: ContenderTable) -> str:
    """Return the default label of a contender: its name; of a control, its base and the differences."""
    if table is base:
        return table.name
    typed = {key: value if _is_quantity(value) else show(value) for key, value in table.settings.items()}
    changed = ", ".join(f"{key} {value}" for key, value in typed.items())
    return f"{base.label or base.name}; {changed}"


def _is_quantity(value: object) -> bool:
    """True for a text with a unit, which needs no quotes in a label."""
    return isinstance(value, str) and axis_unit([value]) is not None
