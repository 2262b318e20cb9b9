"""`--set key=value`, and the `set` table of a size: keys of a study that are given another value.

A key may be written short, as long as it is clear: `loops` for `load.settings.loops`, `prefork.pool` for
`contenders.prefork.settings.pool`. A setting that only contenders own (`pool`) is set for each that owns it.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from thunderherd.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study_file import KeyPath, near
from thunderherd.study_form import ComparisonsTable, LabTable, MeasureTable, NoiseTable, StudyForm


def parse_override(text: str) -> tuple[str, Any]:
    """Splits `key=value`; the value is TOML, a bare word is a text. Raises UserError."""
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key or not value:
        raise UserError(f"--set {text}: it takes key=value, such as --set load.settings.loops=100")
    return key, _value(text, value)


def _value(text: str, value: str) -> Any:
    if "\n" not in value:
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            if re.fullmatch(r"[^\s\[\]{}\"'=,#]+", value):
                return value
    raise UserError(f'--set {text}: {value!r} is no TOML value; such as 100, true, "text" or [0, 1]')


def flat(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """The values of a table with their keys: `{a = {b = 1}}` and `{"a.b" = 1}` are the same."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, (*path, key))
        else:
            yield (*path, key), value


class SettableKeys:
    """The keys of one study, in one size, that may be given another value.

    Parameters
    ----------
    form
        The study as its file has it.
    size
        Only this size's `looks` and `alpha_split` can be set: the other size's would have no effect.
    """

    def __init__(self, form: StudyForm, size: str, catalogue: Catalogue) -> None:
        self.paths: dict[str, KeyPath] = {}
        tables: dict[str, type[BaseModel]] = {
            "measure": MeasureTable,
            "lab": LabTable,
            "noise": NoiseTable,
            "comparisons": ComparisonsTable,
        }
        for table, model in tables.items():
            self._add(table, model.model_fields)
        self._add("server", ("workload", "primitive"))
        self._add("load", ("kind", "clients", "warm_up_connections"))
        # Of every workload and load, so that an override may choose another one in any order.
        for workload in catalogue.workloads:
            for primitive in catalogue.primitives:
                self._add("server.settings", catalogue.settings_of_server("", primitive.name, workload.name))
            for load in catalogue.loads:
                self._add("load.settings", catalogue.settings_of_load(load.name, workload.name))
        self._add(f"sizes.{size}", ("looks", "alpha_split"))
        designs = {contender.name: contender.design for contender in form.contenders}
        for index, contender in enumerate(form.contenders):
            design = contender.design or designs.get(contender.control_of or "") or ""
            mover = contender.primitive or form.server.primitive
            settings = catalogue.settings_of_server(design, mover, form.server.workload)
            for name in ("primitive", *(f"settings.{key}" for key in settings)):
                self.paths[f"contenders.{contender.name}.{name}"] = ("contenders", index, *name.split("."))

    def _add(self, table: str, keys: Any) -> None:
        for key in keys:
            self.paths[f"{table}.{key}"] = (*table.split("."), key)

    def find(self, key: str) -> list[KeyPath]:
        """The places that a key means.

        Raises UserError (without its source) for a typo and for an ambiguous key.
        """
        if key in self.paths:
            return [self.paths[key]]
        matches = [full for full in self.paths if _is_short_for(key, full)]
        shared = [full for full in matches if not full.startswith("contenders.")]
        if len(shared) > 1:
            raise UserError(f"'{key}' could be {' or '.join(shared)}; write which one")
        if not matches:
            raise UserError(f"no such key '{key}'{self._hint(key)}")
        return [self.paths[full] for full in shared or matches]

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


def assign(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Puts a value into nested tables, making those that are not there."""
    here: Any = data
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(part, str) else here[part]
    here[path[-1]] = value
