"""The defaults of a study file that follow from its other keys and from the engine's catalogue.

Keys whose default is one fixed value have it in `study.file.tables`. Overrides come before these defaults, so
that `--set load.settings.loops=100` makes the default load end by count. Names come before overrides, which
refer to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from thunderherd.engine.catalogue import Catalogue, ChoiceSetting, Load, Setting, Way, defaults
from thunderherd.study.checks.sweeps import check_sweeps
from thunderherd.study.comparisons import compared_pairs
from thunderherd.study.file.contenders import MAIN, OWN, Configuration, configurations, named_by, point_name
from thunderherd.study.file.recovery import shaped
from thunderherd.study.file.tables import ContenderTable, StudyForm, SweepTable
from thunderherd.study.resolved import CONNECTIONS, KEPT
from thunderherd.toml.file import KeyPath, Problems, TomlFile, flat, formed, table_in
from thunderherd.toml.quantities import TIME, NoQuantity
from thunderherd.toml.strict import StrictTable
from thunderherd.toml.write import toml_text

__all__ = [
    "ALPHA_SPLIT",
    "DURATION",
    "WARM_UP_SHARE",
    "filled",
    "has_persistent",
    "read",
    "timed_load",
    "window",
    "with_defaults",
]

MILLISECOND = TIME.units["ms"]

DURATION = 500 * MILLISECOND
"""The default length of a trial's window, in nanoseconds."""

WARM_UP_SHARE = 0.2
"""The warm-up as a share of the window."""

LOOKS = {"quick": (1.0, 1.5, 2.0), "full": (1.0, 2.0, 4.0)}
"""The default looks of a size, as multiples of the first; other sizes have those of "quick"."""

ALPHA_SPLIT = [0.3, 0.3, 0.4]
"""The shares of alpha of default looks."""

MOST_IN_TITLE = 4
"""The most contenders that a default title names."""

OF_LOAD = ("load", "settings")

MARK = "default"
"""The comment behind a key that the file leaves out."""


def read(
    data: Mapping[str, Any], catalogue: Catalogue, problems: Problems
) -> tuple[StudyForm, dict[str, Any], bool]:
    """Return the form of a file with its defaults, the data to override, and whether nothing was mended."""
    form, mended, whole = shaped(filled(data, catalogue), problems)
    return form, _with_names(data) if whole else mended, whole


def filled(data: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return the data of a study file with its defaults. Keys of the wrong type stay as they are."""
    study = _with_names(data)
    study.setdefault("title", _title(study))
    if (server := _table(study, "server")) is not None:
        server.setdefault("workload", catalogue.defaults.workload)
    workload = catalogue.workload((server or {}).get("workload", ""))
    if (measure := _table(study, "measure")) is not None:
        of_requests = workload is None or workload.measured_by == "requests"
        measure.setdefault("metric", f"server_cpu_per_{'request' if of_requests else 'byte'}")
    load = _table(study, "load")
    is_default = load is not None and "kind" not in load
    if load is not None:
        load.setdefault("processes", 1)
        if is_default:
            _fill_load(study, load, catalogue)
    sizes = _table(study, "sizes") or {}
    for size in sizes.values():
        if isinstance(size, dict) and isinstance(looks := size.get("looks"), list):
            size.setdefault("alpha_split", _equal_shares(len(looks)))
    without_looks = [name for name, size in sizes.items() if _lacks_looks(size)]
    if without_looks or is_default:
        form, found = _configurations(study, catalogue)
        if is_default:
            _fill_connections(study, form, found, catalogue)
        for name in without_looks:
            sizes[name] |= _looks(form, found, name)
    return study


def _table(data: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return an inner table, which is made if it is missing; None if the key has another value."""
    found = data.setdefault(name, {})
    return found if isinstance(found, dict) else None


def _tables(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the tables of an array."""
    found = data.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _keys_of(sweep: Mapping[str, Any]) -> list[str]:
    """Return the keys that a sweep's values are for."""
    key = sweep.get("key")
    return [each for each in (key if isinstance(key, list) else [key]) if isinstance(each, str)]


# Names and title --------------------------------------------------------------------------------------------


def _with_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with the names that other keys and overrides use: of contenders, sweeps and sizes."""
    study = deepcopy(dict(data))
    study.setdefault("sizes", {name: {} for name in LOOKS})
    main = _tables(study, "contenders")
    for table in main:
        table.setdefault("name", _contender_name(table))
    for sweep in _tables(study, "sweeps"):
        keys = _keys_of(sweep)
        leaf = keys[0].rpartition(".")[2] if keys else "sweep"
        sweep.setdefault("name", leaf)
        sweep.setdefault("title", f"By {leaf.replace('_', ' ')}")
        if main:
            sweep.setdefault("contenders", [table["name"] for table in main])
        for table in _tables(sweep, "contenders"):
            table.setdefault("name", _contender_name(table))
    return study


def _contender_name(table: Mapping[str, Any]) -> str:
    """Return a name from a contender's design, or the contender that it varies, and its other keys."""
    given = [(".".join(map(str, path)), value) for path, value in flat(table) if path[0] not in OWN]
    first = [(key, table[key]) for key in ("control_of",) if key in table]
    first += [(key, value) for key, value in given if key == "design"]
    rest = [(key, value) for key, value in given if key != "design"]
    return named_by((key, point_name(value)) for key, value in (*first, *rest))


def _title(study: Mapping[str, Any]) -> str:
    """Return a heading with the names of the contenders."""
    of_sweeps = [each for sweep in _tables(study, "sweeps") for each in _tables(sweep, "contenders")]
    tables = _tables(study, "contenders") or of_sweeps
    names = list(dict.fromkeys(str(table["name"]) for table in tables))
    if len(names) > MOST_IN_TITLE:
        names = [*names[: MOST_IN_TITLE - 1], f"{len(names) - MOST_IN_TITLE + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or str(study.get("name", "study"))


# The load ---------------------------------------------------------------------------------------------------


def timed_load(catalogue: Catalogue) -> str:
    """Return the first load that can end by time, which makes trials of all contenders equally long."""
    return next((each.name for each in catalogue.loads if each.duration), catalogue.loads[0].name)


def window(kind: Load, duration: int = DURATION) -> dict[str, str]:
    """Return the settings of a window of so many nanoseconds and its warm-up, if the load has them."""
    warm_up = round(duration / MILLISECOND * WARM_UP_SHARE) * MILLISECOND
    settings = {kind.duration: duration, kind.warm_up: warm_up}
    return {name: TIME.write(value) for name, value in settings.items() if name and kind.duration}


def has_persistent(settings: Mapping[str, Setting]) -> bool:
    """Return whether a load with these settings can have persistent connections."""
    found = settings.get(CONNECTIONS)
    return isinstance(found, ChoiceSetting) and KEPT in found.choices


def _fill_load(study: Mapping[str, Any], load: dict[str, Any], catalogue: Catalogue) -> None:
    """Fill in the kind of load, and a window unless the file gives the number of requests."""
    load["kind"] = timed_load(catalogue)
    kind, settings = catalogue.load(load["kind"]), _table(load, "settings")
    if kind is None or settings is None or {*kind.requests[-1:]} & {*_settings_of_loads(study)}:
        return
    given = settings.get(kind.duration or "")
    try:
        duration = TIME.read(given) if isinstance(given, str) else DURATION
    except NoQuantity:
        duration = DURATION  # a problem of the checks
    for name, value in window(kind, duration).items():
        settings.setdefault(name, value)


def _settings_of_loads(study: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all load settings that the file gives: of the study, contenders and sweeps."""
    of_sweeps = [each for sweep in _tables(study, "sweeps") for each in _tables(sweep, "contenders")]
    for table in (study, *_tables(study, "contenders"), *of_sweeps):
        yield from _settings_in(table)
    for sweep in _tables(study, "sweeps"):
        yield from (key.rpartition(".")[2] for key in _keys_of(sweep))
        for changes in (sweep, *_tables(sweep, "values")):
            if isinstance(changes.get("set"), dict):
                yield from (str(path[-1]).rpartition(".")[2] for path, _ in flat(changes["set"]))


def _settings_in(table: Mapping[str, Any]) -> Iterator[str]:
    yield from (str(path[2]) for path, _ in flat(table) if path[:2] == OF_LOAD and len(path) > 2)


def _fill_connections(
    study: dict[str, Any], form: StudyForm | None, found: Sequence[Configuration], catalogue: Catalogue
) -> None:
    """Make the connections of the default load persistent if every server can serve all of them at once."""
    if form is None or CONNECTIONS in _settings_of_loads(study):
        return
    known = catalogue.settings_of_load(form.load.kind, form.load.way, form.server.workload)
    if has_persistent(known) and all(_serves_all(each, catalogue) for each in found):
        study["load"]["settings"][CONNECTIONS] = KEPT


def _serves_all(each: Configuration, catalogue: Catalogue) -> bool:
    design, kind = catalogue.design(each.design), catalogue.load(each.load.kind)
    of_load = catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
    of_server = catalogue.settings_of_server(each.design, each.way, each.workload)
    if design is None or kind is None or kind.clients is None:
        return True
    given = {**each.form.server.settings, **each.table.settings}
    clients = (defaults(of_load) | each.load.settings)[kind.clients]
    if not isinstance(clients, int) or not isinstance(given.get(design.most_workers or "", 1), int):
        return True  # a problem, which is found later
    return design.starved(each.load.processes * clients, defaults(of_server) | given) is None


# The sizes --------------------------------------------------------------------------------------------------


def _lacks_looks(size: Any) -> bool:
    return isinstance(size, dict) and not {"looks", "alpha_split", "repetitions"} & size.keys()


def _equal_shares(looks: int) -> list[float]:
    """Return equal shares of alpha in hundredths; the last look has the rest."""
    share = 1 / max(looks, 1)
    hundredths = math.floor(100 * share) / 100 or share
    return [*[hundredths] * (looks - 1), round(1 - hundredths * (looks - 1), 12)][:looks]


def _looks(form: StudyForm | None, found: Sequence[Configuration], size: str) -> dict[str, Any]:
    """Return looks with enough blocks for the number of comparisons."""
    # Imported here so that `thunderherd list` answers without numpy.
    from thunderherd.statistics.comparisons import first_look_blocks

    comparisons, alpha = 1, 0.05
    if form is not None:
        parts = form.sizes[size].parts or [MAIN, *(sweep.name for sweep in form.sweeps)]
        chosen = [each for each in found if each.part in parts]
        comparisons = max(1, len(compared_pairs(form, size, parts, chosen)))
        alpha = form.measure.alpha
    first = first_look_blocks(comparisons, alpha, ALPHA_SPLIT[0])
    multiples = LOOKS.get(size, LOOKS["quick"])
    return {"looks": [math.ceil(first * each) for each in multiples], "alpha_split": [*ALPHA_SPLIT]}


def _configurations(
    study: Mapping[str, Any], catalogue: Catalogue
) -> tuple[StudyForm | None, Sequence[Configuration]]:
    """Return the form of a study so far and its contenders; None and nothing if it has mistakes."""
    silent = Problems(TomlFile(Path(), text=""))
    form, _ = formed(StudyForm, study, silent)
    if form is None:
        return None, ()
    form = form.with_usual(catalogue.defaults)
    if not check_sweeps(form, catalogue, silent):
        return None, ()
    return form, configurations(form, catalogue)


# The file with its defaults ---------------------------------------------------------------------------------


def with_defaults(data: Mapping[str, Any], catalogue: Catalogue) -> str:
    """Return the data of a study file as TOML, with a comment behind each default.

    Keys whose default is empty stay out, and so do settings that have the engine's default.
    """
    study = filled(data, catalogue)
    for name in ("server", "load"):
        for key in Way._fields:
            study[name].setdefault(key, getattr(catalogue.defaults, key))
    study = _completed(StudyForm, study)
    return toml_text(study, lambda place: "" if _is_in(data, place) else MARK)


def _completed(model: type[BaseModel], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table in the order of its model, with the fixed defaults of its keys and of inner tables."""
    found: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        value = deepcopy(table[key]) if key in table else _default(field)
        inner = table_in(field.annotation)
        if isinstance(value, dict) and inner is not None:
            value = _completed(inner, value)
        elif key == "sweeps" and model is StudyForm:
            value = [_completed(SweepTable, each) for each in value or ()]
        elif key == "contenders" and value is not None:
            value = [_in_order(ContenderTable, each) if isinstance(each, dict) else each for each in value]
        if key in table or value not in (None, "", [], {}):
            found[key] = value
    return found


def _in_order(model: type[BaseModel], table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: table[key] for key in model.model_fields if key in table}


def _default(field: FieldInfo) -> Any:
    value = field.default
    return {} if isinstance(value, StrictTable) else deepcopy(value)


def _is_in(data: Any, place: KeyPath) -> bool:
    """Return whether a file gives the key at a place."""
    for part in place:
        if isinstance(part, int):
            if not isinstance(data, list) or part >= len(data):
                return False
        elif not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True
