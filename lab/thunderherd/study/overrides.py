"""Overrides: `--set key=value`, and the `set` table of a size.

A key may be shortened as long as it is clear: `loops` for `load.settings.loops`, `prefork.pool` for
`contenders.prefork.settings.pool`. A setting that only contenders have (`pool`) is set for each of them.
"""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from thunderherd.engine.catalogue import Catalogue, Way
from thunderherd.errors import UserError
from thunderherd.records.extra_trials import CostTable, CountingTable, ProfilingTable
from thunderherd.study.file.contenders import way_of, workload_of
from thunderherd.study.file.tables import (
    ComparisonsTable,
    ContenderTable,
    LabTable,
    LoadTable,
    MeasureTable,
    NoiseTable,
    ServerTable,
    StudyForm,
    SweepTable,
)
from thunderherd.study.own_programs import OF_COMMANDS, has_own_server
from thunderherd.toml.cpus import CPU_LIST
from thunderherd.toml.file import KeyPath, suggest, toml_data


def parse_override(text: str, option: str = "--set") -> tuple[str, Any]:
    """Split `key=value`, whose value is TOML or a bare word; raise UserError, whose place is the option."""
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key or not value:
        raise UserError(
            "not of the form key=value",
            code="set.not_key_value",
            hint=f"such as {option} load.settings.loops=100",
            where=f"{option} {text}",
        )
    return key, _value(f"{option} {text}", value)


def _value(where: str, value: str) -> Any:
    if "\n" not in value:
        try:
            return toml_data(f"value = {value}")["value"]
        except (ValueError, RecursionError):
            if re.fullmatch(r"[^\s\[\]{}\"'=,#]+", value) or CPU_LIST.fullmatch(value):
                return value
    hint = 'such as 100, true, "text" or [0, 1]'
    raise UserError(f"{value!r} is not a TOML value", code="set.invalid_value", hint=hint, where=where)


class SettableKeys:
    """The keys of a study that can be overridden in one size.

    Parameters
    ----------
    form
        The study as its file has it.
    size
        The size. Keys of other sizes cannot be overridden; they would have no effect.
    catalogue
        The engine's catalogue, which has the settings.
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
        self._add("server", (key for key in ServerTable.model_fields if key != "settings"))
        self._add("load", (key for key in LoadTable.model_fields if key != "settings"))
        # All workloads and loads have their settings here, so that an override may also change the workload.
        for workload in catalogue.workloads:
            for primitive in catalogue.primitives:
                self._add(
                    "server.settings", catalogue.settings_of_server("", [primitive.name], workload.name)
                )
                for load in catalogue.loads:
                    of_load = catalogue.settings_of_load(load.name, [primitive.name], workload.name)
                    self._add("load.settings", of_load)
        self._add(f"sizes.{size}", ("looks", "alpha_split", "repetitions", "budget", "parts"))
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
        """Return the settings of the study's own workload and load."""
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
        keys = contender.model_dump(include={"workload", *Way._fields})
        way, workload = way_of(keys, self._form), workload_of(keys, self._form)
        settings = self._catalogue.settings_of_server(design, way, workload)
        own = (
            "label",
            *(("command", "url", *OF_COMMANDS) if has_own_server(contender) else ()),
            "workload",
            *Way._fields,
            "trial",
            *(f"settings.{key}" for key in settings),
            *self._load_and_lab,
        )
        for key in own:
            self.paths[f"{tables}.{contender.name}.{key}"] = (*here, *key.split("."))

    def _add_sweep(self, sweep: SweepTable, here: KeyPath, table: str) -> None:
        """Add the keys of a sweep, and the keys that its `set` may have as if they were keys of the sweep."""
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
        """Return the places that a key means: one of the study, one in each contender, or one of a sweep.

        Raises
        ------
        UserError
            The key does not exist, or is ambiguous. The error has no place.
        """
        if key in self.paths:
            return [self.paths[key]]
        matches = [full for full in self.paths if _is_short_for(key, full)]
        if not matches:
            raise UserError(f"no such key '{key}'", code="set.unknown_key", hint=self._hint(key))
        if sweeps := [full for full in matches if self._is_of_named_sweep(key, full)]:
            matches = sweeps
        of_contenders = [full for full in matches if "contenders" in full.split(".")[:-1]]
        # If the server and the load of a contender have a setting of that name, the server's is meant.
        of_contenders = [full for full in of_contenders if ".load." not in full] or of_contenders
        shared = [full for full in matches if not full.startswith(("contenders.", "sweeps."))]
        of_sweeps = [full for full in matches if full.startswith("sweeps.")]
        if len(shared) > 1:
            # Settings of other workloads and loads count only if the study's own have none of that name.
            of_others = [full for full in shared if ".settings." in full and full not in self._own]
            shared = [full for full in shared if full not in of_others] or shared
        meant = shared or of_contenders or of_sweeps
        if len(meant) > 1 and meant is not of_contenders:
            hint = f"write {' or '.join(meant)}"
            raise UserError(f"'{key}' is ambiguous", code="set.ambiguous_key", hint=hint)
        return [self.paths[full] for full in meant]

    def _is_of_named_sweep(self, key: str, full: str) -> bool:
        """True if a key names a sweep and so means the sweep's own key, for all of its contenders."""
        named = {sweep.name for sweep in self._form.sweeps} & set(key.split(".")[:-1])
        return bool(named) and "contenders" not in full.split(".")

    def _hint(self, key: str) -> str:
        full = list(self.paths)
        leaves = list(dict.fromkeys(name.rpartition(".")[2] for name in full))
        table, _, leaf = key.rpartition(".")
        inside = [name.rpartition(".")[2] for name in full if table and name.rpartition(".")[0] == table]
        if inside:
            return suggest(leaf, inside, f"known in {table}: {', '.join(inside)}")
        known = f"known: {', '.join(sorted(leaves))}"
        return suggest(key, [*leaves, *map(_shortened, full), *full]) or suggest(leaf, leaves) or known


def _shortened(full: str) -> str:
    """Return the shortest form of a key: `prefork.pool` for `contenders.prefork.settings.pool`."""
    return ".".join(part for part in full.split(".") if part not in ("contenders", "settings", "sizes"))


def _is_short_for(key: str, full: str) -> bool:
    """True if the last parts agree and the others occur in the full key, in the same order."""
    *leading, last = key.split(".")
    *tables, leaf = full.split(".")
    remaining = iter(tables)
    return last == leaf and all(part in remaining for part in leading)
