"""[scale]: the experiment of a source made smaller in proportion, and the notes that its figures need.

The table names the settings of every contender that are divided by its factor: numbers (workers, clients) and
durations. Results that depend on their proportions stay the same. The factor must divide every value without
remainder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from thunderherd.engine.catalogue import Setting
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.study.file.contenders import Configuration, Point
from thunderherd.study.file.tables import ScaleTable, StudyForm, SweepTable
from thunderherd.study.resolved import Contender, Settings
from thunderherd.toml.file import KeyPath, Problems, show, unknown
from thunderherd.toml.quantities import TIME

ABSENT = "-"
"""The value of a placeholder in a title that no contender of this run has."""

OF_SERVER, OF_LOAD = "settings", "load.settings"
"""The tables whose settings can be divided."""


def check_scale(form: StudyForm, known: Sequence[str], problems: Problems) -> None:
    """Check that the divided keys are settings of a server or of the load, and `time` is one of them."""
    scale = form.scale
    if scale is None:
        return
    for index, key in enumerate(scale.divides):
        if key not in known:
            problems.add(("scale", "divides", index), unknown("setting", key, known))
    if scale.time is not None and scale.time not in scale.divides:
        message, hint = f"time = {show(scale.time)} is not in divides", f"divides: {show(scale.divides)}"
        problems.add(("scale", "time"), message, code="study.time_not_divided", hint=hint)
    if (scale.time is None) != (scale.of is None):
        problems.add(
            ("scale",),
            "scale has only one of time and of",
            code="study.incomplete_scale",
            hint="time is the setting that is the length of a unit of time, of its value in the source",
        )


def check_remainders(
    scale: ScaleTable | None, remainders: Mapping[str, Mapping[int, SettingValue]], problems: Problems
) -> None:
    """Check that the factor divides all values; one problem names those that it does not divide."""
    if scale is None or not remainders:
        return
    listed = {key: ", ".join(str(own[value]) for value in sorted(own)) for key, own in remainders.items()}
    values = "; ".join(f"{key} = {own}" for key, own in listed.items())
    message = f"factor = {scale.factor} does not divide {values}"
    hint = "choose a factor that divides them all, such as 1"
    problems.add(("scale", "factor"), message, code="study.indivisible", hint=hint)


def divided(
    settings: Settings,
    table: str,
    scale: ScaleTable | None,
    allowed: Mapping[str, Setting],
    remainders: dict[str, dict[int, SettingValue]],
) -> Settings:
    """Return the settings of one table (`OF_SERVER`, `OF_LOAD`), the scaled ones divided by the factor.

    Values that the factor does not divide are added to `remainders`, by key, also as a study has them.
    """
    if scale is None or scale.factor == 1:
        return settings
    found: dict[str, SettingValue] = dict(settings)
    for key in scale.divides:
        of, _, name = key.rpartition(".")
        value = settings.get(name)
        if of != table or not isinstance(value, int) or isinstance(value, bool):
            continue
        setting = allowed[name]
        if value % (scale.factor * setting.resolution):
            remainders.setdefault(key, {})[value] = setting.write(value)
        found[name] = value // (scale.factor * setting.resolution) * setting.resolution
    return found


def is_scaled(each: Configuration) -> bool:
    """True if [scale] applies to a contender; a sweep can exclude its contenders."""
    return each.sweep is None or each.sweep.scaled


def in_words(scale: ScaleTable | None, settings: Mapping[str, SettingValue]) -> str | None:
    """Return how much smaller a contender with these settings is; None if it has the source's size.

    A unit of time that was changed alone counts too.
    """
    if scale is None:
        return None
    if scale.factor > 1:
        return f"scaled 1:{scale.factor}"
    unit = settings.get((scale.time or "").rpartition(".")[2])
    of = TIME.read(scale.of) if scale.of else None
    if of is None or not isinstance(unit, int) or unit == of:
        return None
    if unit < of:
        return f"time scale 1:{of / unit:g}"
    return f"time scale {unit / of:g}:1"


def factors(scale: ScaleTable | None) -> dict[str, int]:
    """Return what the settings of a contender and of its load were divided by."""
    if scale is None or scale.factor == 1:
        return {}
    return {key.rpartition(".")[2]: scale.factor for key in scale.divides}


def note_of(scale: ScaleTable | None) -> str | None:
    """Return the note of a scaled run, which applies to all its figures."""
    if scale is None or scale.factor == 1:
        return None
    names = ", ".join(key.rpartition(".")[2] for key in scale.divides)
    return (
        f"scaled 1:{scale.factor}: {names} are the source's values divided by {scale.factor}, so their "
        "proportions are the source's"
    )


def here(scale: ScaleTable | None, point: Point) -> int | None:
    """Return the value that runs at a point whose name is a divided number; None if it runs as named."""
    if scale is None or scale.factor == 1:
        return None
    for change in point.changes:
        is_divided = ".".join(map(str, change.path)) in scale.divides
        if is_divided and str(change.value) == point.name and point.number is not None:
            return int(point.number) // scale.factor
    return None


PLACEHOLDER = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)+)\}")


def titled(
    sweep: SweepTable,
    contenders: Sequence[Contender],
    known: Mapping[str, Setting],
    place: KeyPath,
    problems: Problems,
) -> str:
    """Return a sweep's title with the values of this run in place of each `{settings.pool}`."""
    configured: list[dict[str, Any]] = [each.configured() for each in contenders]

    def is_setting(key: str) -> bool:
        table, _, name = key.rpartition(".")
        return table in (OF_SERVER, OF_LOAD) and name in known

    def value(found: re.Match[str]) -> str:
        name = found[1].rpartition(".")[2]
        values = dict.fromkeys(
            str(known[name].write(each[found[1]]) if is_setting(found[1]) else each[found[1]])
            for each in configured
            if found[1] in each
        )
        if configured and not values:
            keys = dict.fromkeys(key for each in configured for key in each)
            problems.add((*place, "title"), unknown("key of its contenders", found[1], keys))
        return ", ".join(values) or ABSENT

    return PLACEHOLDER.sub(value, sweep.title)


def cpus_in_words(source_cpus: int | None, contenders: Sequence[Contender]) -> str | None:
    """Return the source's number of CPUs, if this machine differs and the server may use all of its CPUs."""
    here = len(os.sched_getaffinity(0))
    if source_cpus in (None, here) or all(each.lab.server_cpus for each in contenders):
        return None
    return f"the source had {source_cpus} CPUs, this machine has {here}"


def remarks(sweep: SweepTable, contenders: Sequence[Contender]) -> tuple[str, ...]:
    """Return the notes that belong to every figure of a sweep."""
    found = [*(each.scale for each in contenders), cpus_in_words(sweep.source_cpus, contenders)]
    return tuple(dict.fromkeys(each for each in found if each))
