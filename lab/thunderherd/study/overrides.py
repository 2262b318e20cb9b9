"""`--set key=value`, and the `set` table of a size: keys of a study that are given another value.

A key may be written short, as long as it is clear: `loops` for `load.settings.loops`, `prefork.pool` for
`contenders.prefork.settings.pool`. A setting that only contenders own (`pool`) is set for each that owns it.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from thunderherd.engine.catalogue import Catalogue, Way
from thunderherd.engine.setting_rules import Product
from thunderherd.errors import UserError
from thunderherd.labs import named, owners, takes
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.study.file.contenders import Configuration, way_of, workload_of
from thunderherd.study.file.tables import (
    ComparisonsTable,
    ContenderTable,
    LabTable,
    MeasureTable,
    NoiseTable,
    StudyForm,
    SweepTable,
    ValueTable,
)
from thunderherd.toml.file import KeyPath, Problems, flat, near, show


def parse_override(text: str, option: str = "--set") -> tuple[str, Any]:
    """Splits `key=value`; the value is TOML, a bare word is a text. Raises UserError, which names the
    option."""
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key or not value:
        raise UserError(f"{option} {text}: it takes key=value, such as {option} load.settings.loops=100")
    return key, _value(f"{option} {text}", value)


def _value(text: str, value: str) -> Any:
    if "\n" not in value:
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            if re.fullmatch(r"[^\s\[\]{}\"'=,#]+", value):
                return value
    raise UserError(f'{text}: {value!r} is no TOML value; such as 100, true, "text" or [0, 1]')


class SettableKeys:
    """The keys of one study, in one size, that may be given another value.

    Parameters
    ----------
    form
        The study as its file has it.
    size
        Only this size's keys can be set: the other size's would have no effect.
    """

    def __init__(self, form: StudyForm, size: str, catalogue: Catalogue) -> None:
        self.paths: dict[str, KeyPath] = {}
        tables: dict[str, type[BaseModel]] = {
            "measure": MeasureTable,
            "lab": LabTable,
            "noise": NoiseTable,
            "counting": CountingTable,
            "counting_cost": CostTable,
            "profiling": ProfilingTable,
            "comparisons": ComparisonsTable,
        }
        for table, model in tables.items():
            self._add(table, model.model_fields)
        self._add("server", ("workload", *Way._fields))
        self._add("load", ("kind", *Way._fields, "processes", "warm_up_connections"))
        # Of every workload and load, so that an override may choose another one in any order.
        for workload in catalogue.workloads:
            for primitive in catalogue.primitives:
                self._add(
                    "server.settings", catalogue.settings_of_server("", [primitive.name], workload.name)
                )
                for load in catalogue.loads:
                    of_load = catalogue.settings_of_load(load.name, [primitive.name], workload.name)
                    self._add("load.settings", of_load)
        self._add(f"sizes.{size}", ("looks", "alpha_split", "repetitions", "parts"))
        if form.scale is not None:
            self._add("scale", ("factor",))
        self._form, self._catalogue = form, catalogue
        self._own = self._settings_of_the_study()
        self._load_and_lab = [key for key in self.paths if key.startswith(("load.", "lab."))]
        self._designs = {contender.name: contender.design for contender in form.contenders}
        for index, contender in enumerate(form.contenders):
            self._add_contender(contender, ("contenders", index), "contenders")
        for index, sweep in enumerate(form.sweeps):
            self._add_sweep(sweep, ("sweeps", index), f"sweeps.{sweep.name}")

    def _add(self, table: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.paths[f"{table}.{key}"] = (*table.split("."), key)

    def _settings_of_the_study(self) -> set[str]:
        """Those of its own workload and load."""
        form, catalogue = self._form, self._catalogue
        workload, load = form.server.workload, form.load
        of_server = catalogue.settings_of_server("", form.server.way, workload)
        of_load = catalogue.settings_of_load(load.kind, load.way, workload)
        return {
            *(f"server.settings.{key}" for key in of_server),
            *(f"load.settings.{key}" for key in of_load),
        }

    def _add_contender(self, contender: ContenderTable, here: KeyPath, tables: str) -> None:
        design = contender.design or self._designs.get(contender.control_of or "") or ""
        said = contender.model_dump(include={"workload", *Way._fields})
        way, workload = way_of(said, self._form), workload_of(said, self._form)
        settings = self._catalogue.settings_of_server(design, way, workload)
        own = (
            "workload",
            *Way._fields,
            "trial",
            *(f"settings.{key}" for key in settings),
            *self._load_and_lab,
        )
        for key in own:
            self.paths[f"{tables}.{contender.name}.{key}"] = (*here, *key.split("."))

    def _add_sweep(self, sweep: SweepTable, here: KeyPath, table: str) -> None:
        """A sweep's own keys, and those that its `set` may hold, as if they were keys of the sweep."""
        of_servers = dict.fromkeys(
            key.partition(".")[2].partition(".")[2]
            for key in self.paths
            if key.startswith("contenders.") and key.split(".")[2] == "settings"
        )
        for key in (*Way._fields, *of_servers, *self._load_and_lab):
            self.paths[f"{table}.{key}"] = (*here, "set", key)
        for key in SweepTable.model_fields:
            if key not in ("name", "set", "paper", "crossover"):
                self.paths[f"{table}.{key}"] = (*here, key)
        for index, contender in enumerate(sweep.contenders):
            if isinstance(contender, ContenderTable):
                self._add_contender(contender, (*here, "contenders", index), f"{table}.contenders")

    def find(self, key: str) -> list[KeyPath]:
        """The places that a key means: one of the study's own; or a setting of each contender that owns it;
        or one of a sweep.

        Raises UserError (without its source) for a typo and for an ambiguous key.
        """
        if key in self.paths:
            return [self.paths[key]]
        matches = [full for full in self.paths if _is_short_for(key, full)]
        if not matches:
            raise UserError(f"no such key '{key}'{self._hint(key)}")
        if sweeps := [full for full in matches if self._is_of_named_sweep(key, full)]:
            matches = sweeps
        of_contenders = [full for full in matches if "contenders" in full.split(".")[:-1]]
        # A contender is a server first: its own setting is meant where its load has one of the same name.
        of_contenders = [full for full in of_contenders if ".load." not in full] or of_contenders
        shared = [full for full in matches if not full.startswith(("contenders.", "sweeps."))]
        of_sweeps = [full for full in matches if full.startswith("sweeps.")]
        if len(shared) > 1:
            # A setting of another workload or load is meant where nothing of the study's own has its name.
            foreign = [full for full in shared if ".settings." in full and full not in self._own]
            shared = [full for full in shared if full not in foreign] or shared
        meant = shared or of_contenders or of_sweeps
        if len(meant) > 1 and meant is not of_contenders:
            raise UserError(f"'{key}' could be {' or '.join(meant)}; write which one")
        return [self.paths[full] for full in meant]

    def _is_of_named_sweep(self, key: str, full: str) -> bool:
        """Whether a key that names a sweep means that sweep's own, for all of its contenders."""
        named = {sweep.name for sweep in self._form.sweeps} & set(key.split(".")[:-1])
        return bool(named) and "contenders" not in full.split(".")

    def _hint(self, key: str) -> str:
        full = list(self.paths)
        leaves = list(dict.fromkeys(name.rpartition(".")[2] for name in full))
        table, _, leaf = key.rpartition(".")
        inside = [name.rpartition(".")[2] for name in full if table and name.rpartition(".")[0] == table]
        if inside:
            return f"; known in {table}: {', '.join(inside)}{near(leaf, inside)}"
        hint = near(key, [*leaves, *map(_shortened, full), *full]) or near(leaf, leaves)
        return hint or f"; known: {', '.join(sorted(leaves))}"


def _shortened(full: str) -> str:
    """`contenders.prefork.settings.pool` as one would type it: `prefork.pool`."""
    return ".".join(part for part in full.split(".") if part not in ("contenders", "settings", "sizes"))


def _is_short_for(key: str, full: str) -> bool:
    """True when the last parts agree and the others occur in the full key, in the same order."""
    *leading, last = key.split(".")
    *tables, leaf = full.split(".")
    remaining = iter(tables)
    return last == leaf and all(part in remaining for part in leading)


# What came of them ------------------------------------------------------------------------------------------


def check_used(
    form: StudyForm, size: str, chosen: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """Each value that the user has set reaches a contender: where all that have the key are given another by
    a sweep, or by their own table, it is a problem that names what to set instead.

    Parameters
    ----------
    form
        The study with the user's values.
    size
        The size that is run.
    chosen
        Its contenders.
    problems
        Those of the study; what the user has set is in its `overridden`.
    """
    by_origin: dict[str, dict[KeyPath, Any]] = {}
    for path, value in problems.overridden.items():
        by_origin.setdefault(problems.origins[path], {})[path] = value
    for origin, values in by_origin.items():
        if not any(_is_used(path, form, chosen, catalogue) for path in values):
            problems.note(f"{origin}: {_why_unused(values, form, size, chosen, catalogue)}")


def _is_used(path: KeyPath, form: StudyForm, chosen: Sequence[Configuration], catalogue: Catalogue) -> bool:
    key = _of_contender(path)
    if key is not None:
        return any(_parts(each.where(*key)) == _parts(path) and _has(each, key, catalogue) for each in chosen)
    # What else a sweep says holds where it is run, and what no contender has holds for the run as a whole.
    return path[0] != "sweeps" or form.sweeps[int(path[1])].name in {each.part for each in chosen}


def _of_contender(path: KeyPath) -> tuple[str, ...] | None:
    """The key of a contender that a place gives a value: `("load", "settings", "loops")`; None of others."""
    match path:
        case ("load" | "lab", *_):
            return _parts(path)
        case ("server", *key) | ("contenders", int(), *key):
            return _parts(key)
        case ("sweeps", int(), "set", *key) | ("sweeps", int(), "contenders", int(), *key):
            return _parts(key)
    return None


def _parts(path: Sequence[str | int]) -> tuple[str, ...]:
    """A sweep may have its keys dotted: `set = { "load.settings.loops" = 100 }`."""
    return tuple(".".join(map(str, path)).split("."))


def _has(each: Configuration, key: tuple[str, ...], catalogue: Catalogue) -> bool:
    """Whether a contender has such a key at all; settings depend on its design, workload, load and forms, and
    keys of [lab] on the kind."""
    if key[0] == "settings":
        return key[1] in catalogue.settings_of_server(each.design, each.way, each.workload)
    if key[:2] == ("load", "settings"):
        is_known = key[2] in catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
        return is_known and key[2] != _overruled(each, catalogue)
    return key[0] != "lab" or takes(each.lab.kind, key[1])


def _overruled(each: Configuration, catalogue: Catalogue) -> str | None:
    """The setting of its load that has no effect, as that ends by time."""
    kind = catalogue.load(each.load.kind)
    return kind.overruled(each.load.settings) if kind else None


def check_counts(
    form: StudyForm, chosen: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """No sweep has values of what has no effect, as the load ends by time; `chosen` are the contenders."""
    for index, sweep in enumerate(form.sweeps):
        for each in chosen:
            name = _overruled(each, catalogue)
            if each.sweep is not sweep or each.point is None or name is None:
                continue
            if ("load", "settings", name) in {change.path for change in each.point.changes}:
                why = f"{name} would have no effect: {_by_time(each, name, catalogue)}"
                instead = " and ".join(_by_count(each, catalogue))
                problems.add(("sweeps", index, "values"), f"sweep {sweep.name}: {why}, give {instead}")
                break


def _by_time(each: Configuration, name: str, catalogue: Catalogue) -> str:
    """That the load of a contender ends by time and not by the number of its requests."""
    kind = catalogue.load(each.load.kind)
    assert kind is not None, "it is overruled by a setting of it"
    given = each.load.settings.get(kind.duration or "")
    return f"the load ends by time ({kind.duration} = {show(given)}); to make it end by {name}"


def _by_count(each: Configuration, catalogue: Catalogue) -> list[str]:
    """The keys, with their values, that make the load of a contender end by the number of its requests."""
    kind = catalogue.load(each.load.kind)
    return [f"load.settings.{key}={value}" for key, value in kind.by_count().items()] if kind else []


MOST_SHOWN = 3
"""So many places that set a key instead are named; they are alike."""


def _why_unused(
    values: Mapping[KeyPath, Any],
    form: StudyForm,
    size: str,
    chosen: Sequence[Configuration],
    catalogue: Catalogue,
) -> str:
    instead: dict[KeyPath, str] = {}
    keys = {key: value for path, value in values.items() if (key := _of_contender(path)) is not None}
    for key, value in keys.items():
        for each in chosen:
            if not _has(each, key, catalogue):
                continue
            place = each.where(*key)
            # One of a sweep's points is as good as another.
            whole = place[:4] if "contenders" in place[2:3] else place[:2]
            if whole not in instead:
                instead[whole] = _instead(place, key, value, form, _products(each, catalogue))
    if not instead:
        for key in keys:
            for each in chosen:
                if key[:2] == ("load", "settings") and key[2] == _overruled(each, catalogue):
                    typed = " ".join(f"--set {one}" for one in _by_count(each, catalogue))
                    return f"it would have no effect: {_by_time(each, key[2], catalogue)}, type {typed}"
        kinds = [kind for key in keys if key[0] == "lab" for kind in owners(key[1])]
        of_lab = f", which is a key of lab {named(kinds)}" if kinds else ""
        return f"it would have no effect: nothing that size {size} runs has it{of_lab}"
    told = list(instead.values())
    shown = "; ".join(told[:MOST_SHOWN]) + ("; ..." if len(told) > MOST_SHOWN else "")
    return f"it would have no effect, as everything that size {size} runs has a value of its own: {shown}"


def _products(each: Configuration, catalogue: Catalogue) -> Sequence[Product]:
    workload = catalogue.workload(each.workload)
    return workload.products if workload else ()


def _fitting(key: Sequence[str], value: Any, products: Iterable[Product]) -> dict[str, int]:
    """The values that go with another one of a load's setting, where their product is given: the value that
    is wanted or, if there is no such product with it, the nearest."""
    if key[:2] != ("load", "settings") or type(value) is not int or value < 1:
        return {}
    found = (each.nearest({key[2]: value}) for each in products if key[2] in each.settings)
    return {f"load.settings.{name}": number for each in found for name, number in each.items()}


def _instead(
    place: KeyPath, key: Sequence[str], value: Any, form: StudyForm, products: Sequence[Product]
) -> str:
    """What gives a key its value, and what to type to give it another."""
    full, shown = ".".join(key), show(value)
    match place:
        case ("sweeps", int(index), "values", int(number), "set", *_):
            sweep = form.sweeps[index]
            others = flat(ValueTable.model_validate(sweep.values[number]).set)
            fitting = {full: value} | _fitting(key, value, products)
            said = {".".join(_parts(each)): other for each, other in others} | fitting
            changes = ", ".join(f'"{each}" = {show(other)}' for each, other in said.items())
            point = f"{{ name = {show(str(said[full]))}, set = {{ {changes} }} }}"
            nearest = "" if said[full] == value else f", where {shown} does not fit; the nearest that does"
            return (
                f"sweep {sweep.name} has it in its values{nearest} "
                f"(--set 'sweeps.{sweep.name}.values=[{point}]')"
            )
        case ("sweeps", int(index), "values", *_):
            name = form.sweeps[index].name
            return f"sweep {name} has it in its values (--set 'sweeps.{name}.values=[{shown}]')"
        case ("sweeps", int(index), "set", *_):
            name = form.sweeps[index].name
            return f"sweep {name} sets it (--set 'sweeps.{name}.{full}={shown}')"
        case ("sweeps", int(index), "contenders", int(number), *_):
            sweep = form.sweeps[index]
            own = sweep.contenders[number]
            name = own if isinstance(own, str) else own.name
            return f"{name} sets it (--set 'sweeps.{sweep.name}.contenders.{name}.{full}={shown}')"
        case ("contenders", int(index), *_):
            name = form.contenders[index].name
            return f"{name} sets it (--set 'contenders.{name}.{full}={shown}')"
    return f"{'.'.join(map(str, place))} sets it"
