"""Overrides without effect: each is a problem, whose hint says what to type instead.

An override has no effect if all contenders with the key get its value from elsewhere: a sweep, or their own
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.setting_rules import Product
from thunderherd.errors import Problem
from thunderherd.labs import named, owners, takes
from thunderherd.study.checks.load_commands import takes_setting
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.file.tables import StudyForm, ValueTable
from thunderherd.toml.file import KeyPath, Problems, flat, show

MOST_SHOWN = 3
"""The number of alternatives in a hint; further ones are alike."""

NO_EFFECT = "set.no_effect"


def check_used(
    form: StudyForm, size: str, chosen: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """Check that each value that the user has set reaches a contender.

    Parameters
    ----------
    form
        The study with the user's values.
    size
        The size that is run.
    chosen
        The contenders of the size.
    catalogue
        The engine's catalogue.
    problems
        The problems of the study; `overridden` has the values that the user has set.
    """
    by_origin: dict[str, dict[KeyPath, Any]] = {}
    for path, value in problems.overridden.items():
        by_origin.setdefault(problems.origins[path], {})[path] = value
    for origin, values in by_origin.items():
        if not any(_is_used(path, form, chosen, catalogue) for path in values):
            message, hint = _why_unused(values, form, size, chosen, catalogue)
            problems.note(Problem(f"no effect: {message}", NO_EFFECT, hint, origin))


def _is_used(path: KeyPath, form: StudyForm, chosen: Sequence[Configuration], catalogue: Catalogue) -> bool:
    key = _of_contender(path)
    if key is not None:
        return any(_parts(each.where(*key)) == _parts(path) and _has(each, key, catalogue) for each in chosen)
    # Other keys of a sweep take effect if the sweep runs; keys of no contender, for the run as a whole.
    return path[0] != "sweeps" or form.sweeps[int(path[1])].name in {each.part for each in chosen}


def _of_contender(path: KeyPath) -> tuple[str, ...] | None:
    """Return the key of a contender that a place sets: `("load", "settings", "loops")`; None of others."""
    match path:
        case ("load" | "lab", *_):
            return _parts(path)
        case ("server", *key) | ("contenders", int(), *key):
            return _parts(key)
        case ("sweeps", int(), "set", *key) | ("sweeps", int(), "contenders", int(), *key):
            return _parts(key)
    return None


def _parts(path: Sequence[str | int]) -> tuple[str, ...]:
    """Split dotted keys, which a sweep may have: `set = { "load.settings.loops" = 100 }`."""
    return tuple(".".join(map(str, path)).split("."))


def _has(each: Configuration, key: tuple[str, ...], catalogue: Catalogue) -> bool:
    """Return whether a contender has a key: settings depend on its design, workload, load and primitives,
    keys of [lab] on its kind of lab."""
    if key[0] == "settings":
        return key[1] in catalogue.settings_of_server(each.design, each.way, each.workload)
    if key[:2] == ("load", "settings"):
        is_known = key[2] in catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
        reaches = takes_setting(each, key[2], catalogue)
        return is_known and reaches and key[2] != _overruled(each, catalogue)
    return key[0] != "lab" or takes(each.lab.kind, key[1])


def _overruled(each: Configuration, catalogue: Catalogue) -> str | None:
    """Return the setting of its load that has no effect because the load ends by time."""
    kind = catalogue.load(each.load.kind)
    return kind.overruled(each.load.settings) if kind else None


def check_counts(
    form: StudyForm, chosen: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """Check that no sweep varies a setting that has no effect because the load ends by time."""
    for index, sweep in enumerate(form.sweeps):
        for each in chosen:
            name = _overruled(each, catalogue)
            if each.sweep is not sweep or each.point is None or name is None:
                continue
            if ("load", "settings", name) in {change.path for change in each.point.changes}:
                problems.add(
                    ("sweeps", index, "values"),
                    f"sweep {sweep.name}: {name} has no effect, {_by_time(each, catalogue)}",
                    code="study.no_effect",
                    hint=f"to end the load by {name}, give {' and '.join(_by_count(each, catalogue))}",
                )
                break


def _by_time(each: Configuration, catalogue: Catalogue) -> str:
    """Return the words that the load of a contender ends by time."""
    kind = catalogue.load(each.load.kind)
    assert kind is not None, "one of its settings overrules another"
    given = each.load.settings.get(kind.duration or "")
    return f"the load ends by time ({kind.duration} = {show(given)})"


def _by_count(each: Configuration, catalogue: Catalogue) -> list[str]:
    """Return the keys with their values that make the load of a contender end by its number of requests."""
    kind = catalogue.load(each.load.kind)
    return [f"load.settings.{key}={value}" for key, value in kind.by_count().items()] if kind else []


def _why_unused(
    values: Mapping[KeyPath, Any],
    form: StudyForm,
    size: str,
    chosen: Sequence[Configuration],
    catalogue: Catalogue,
) -> tuple[str, str]:
    """Return why the values have no effect, and what to type instead."""
    instead: dict[KeyPath, str] = {}
    keys = {key: value for path, value in values.items() if (key := _of_contender(path)) is not None}
    for key, value in keys.items():
        for each in chosen:
            if not _has(each, key, catalogue):
                continue
            place = each.where(*key)
            # One of a sweep's points is enough.
            whole = place[:4] if "contenders" in place[2:3] else place[:2]
            if whole not in instead:
                instead[whole] = _instead(place, key, value, form, _products(each, catalogue))
    if not instead:
        for key in keys:
            for each in chosen:
                if key[:2] == ("load", "settings") and key[2] == _overruled(each, catalogue):
                    typed = " ".join(f"--set {one}" for one in _by_count(each, catalogue))
                    return _by_time(each, catalogue), f"to end the load by {key[2]}, type {typed}"
        kinds = [kind for key in keys if key[0] == "lab" for kind in owners(key[1])]
        return f"no contender of size {size} has it", f"it is a key of lab {named(kinds)}" if kinds else ""
    alternatives = list(instead.values())
    shown = "; ".join(alternatives[:MOST_SHOWN]) + ("; ..." if len(alternatives) > MOST_SHOWN else "")
    return f"every contender of size {size} sets it itself", f"type {shown}"


def _products(each: Configuration, catalogue: Catalogue) -> Sequence[Product]:
    workload = catalogue.workload(each.workload)
    return workload.products if workload else ()


def _fitting(key: Sequence[str], value: Any, products: Iterable[Product]) -> dict[str, int]:
    """Return values of a load's settings whose product is fixed, with the wanted value or the nearest one."""
    if key[:2] != ("load", "settings") or type(value) is not int or value < 1:
        return {}
    found = (each.nearest({key[2]: value}) for each in products if key[2] in each.settings)
    return {f"load.settings.{name}": number for each in found for name, number in each.items()}


def _instead(
    place: KeyPath, key: Sequence[str], value: Any, form: StudyForm, products: Sequence[Product]
) -> str:
    """Return what to type to give a key another value, and in parentheses what sets it now."""
    full, shown = ".".join(key), show(value)
    match place:
        case ("sweeps", int(index), "values", int(number), "set", *_):
            sweep = form.sweeps[index]
            others = flat(ValueTable.model_validate(sweep.values[number]).set)
            fitting = {full: value} | _fitting(key, value, products)
            said = {".".join(_parts(each)): other for each, other in others} | fitting
            changes = ", ".join(f'"{each}" = {show(other)}' for each, other in said.items())
            point = f"{{ name = {show(str(said[full]))}, set = {{ {changes} }} }}"
            nearest = "" if said[full] == value else f"; {shown} does not fit, this is the nearest that does"
            return f"--set 'sweeps.{sweep.name}.values=[{point}]' (a value of sweep {sweep.name}{nearest})"
        case ("sweeps", int(index), "values", *_):
            name = form.sweeps[index].name
            return f"--set 'sweeps.{name}.values=[{shown}]' (a value of sweep {name})"
        case ("sweeps", int(index), "set", *_):
            name = form.sweeps[index].name
            return f"--set 'sweeps.{name}.{full}={shown}' (sweep {name} sets it)"
        case ("sweeps", int(index), "contenders", int(number), *_):
            sweep = form.sweeps[index]
            own = sweep.contenders[number]
            name = own if isinstance(own, str) else own.name
            return f"--set 'sweeps.{sweep.name}.contenders.{name}.{full}={shown}' ({name} sets it)"
        case ("contenders", int(index), *_):
            name = form.contenders[index].name
            return f"--set 'contenders.{name}.{full}={shown}' ({name} sets it)"
    return f"another value of {'.'.join(map(str, place))}"
