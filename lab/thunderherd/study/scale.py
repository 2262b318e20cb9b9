"""The experiment of a source made smaller in proportion, and what must then stand beside every figure.

`[scale]` names the settings that are divided by its factor in every contender: those that say how many there
are (workers, clients) and those that say how long things last, so that what depends on their proportions
stays as it was. A division leaves no remainder, or the factor is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from thunderherd.engine.setting_rules import SettingValue
from thunderherd.study.file.contenders import Configuration, Point
from thunderherd.study.file.tables import ScaleTable, StudyForm, SweepTable
from thunderherd.study.resolved import Contender, Settings
from thunderherd.toml.file import KeyPath, Problems, show, unknown

ABSENT = "-"
"""In a title, what nothing that runs here has."""

OF_SERVER, OF_LOAD = "settings", "load.settings"
"""The two tables whose settings can be divided."""


def check_scale(form: StudyForm, known: Sequence[str], problems: Problems) -> None:
    """Every key that is divided is a setting of a server or of the load; `time` is one of them."""
    scale = form.scale
    if scale is None:
        return
    for index, key in enumerate(scale.divides):
        if key not in known:
            problems.add(("scale", "divides", index), unknown("setting", key, known))
    if scale.time is not None and scale.time not in scale.divides:
        problems.add(("scale", "time"), f"time = {show(scale.time)} is none of divides")
    if (scale.time is None) != (scale.of is None):
        problems.add(("scale",), "time and of go together: which setting says how long a unit of time is")


def check_remainders(
    scale: ScaleTable | None, remainders: Mapping[str, set[int]], problems: Problems
) -> None:
    """The factor divides every value of what it divides: one complaint for them all."""
    if scale is None or not remainders:
        return
    told = "; ".join(f"{key} = {', '.join(map(str, sorted(own)))}" for key, own in remainders.items())
    problems.add(("scale", "factor"), f"factor = {scale.factor} does not divide {told}")


def divided(
    settings: Settings, table: str, scale: ScaleTable | None, remainders: dict[str, set[int]]
) -> Settings:
    """The settings of one table (`OF_SERVER`, `OF_LOAD`), those that are scaled divided by the factor; what
    it does not divide is noted among `remainders`, by key."""
    if scale is None or scale.factor == 1:
        return settings
    found: dict[str, SettingValue] = dict(settings)
    for key in scale.divides:
        of, _, name = key.rpartition(".")
        value = settings.get(name)
        if of != table or not isinstance(value, int) or isinstance(value, bool):
            continue
        if value % scale.factor:
            remainders.setdefault(key, set()).add(value)
        found[name] = value // scale.factor
    return found


def is_scaled(each: Configuration) -> bool:
    """Whether `[scale]` is about a contender: of a sweep's, unless the sweep says that it is not."""
    return each.sweep is None or each.sweep.scaled


def in_words(scale: ScaleTable | None, settings: Mapping[str, SettingValue]) -> str | None:
    """How much smaller a contender with these settings is; None where it is as large as the source's.

    A unit of time that was changed by itself counts too.
    """
    if scale is None:
        return None
    if scale.factor > 1:
        return f"scaled 1:{scale.factor}"
    unit = settings.get((scale.time or "").rpartition(".")[2])
    if scale.of is None or not isinstance(unit, int) or unit == scale.of:
        return None
    if unit < scale.of:
        return f"time scale 1:{scale.of / unit:g}"
    return f"time scale {unit / scale.of:g}:1"


def note_of(scale: ScaleTable | None) -> str | None:
    """What a scaled run is, once for all its figures."""
    if scale is None or scale.factor == 1:
        return None
    names = ", ".join(key.rpartition(".")[2] for key in scale.divides)
    return (
        f"scaled 1:{scale.factor}: {names} are the source's divided by {scale.factor}, so that their "
        "proportions are the source's; no claim is judged by it"
    )


def here(scale: ScaleTable | None, point: Point) -> int | None:
    """What runs at a point that is named by a number which is divided; None where it is what it says."""
    if scale is None or scale.factor == 1:
        return None
    for change in point.changes:
        if ".".join(map(str, change.path)) in scale.divides and str(change.value) == point.name:
            return int(change.value) // scale.factor
    return None


PLACEHOLDER = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)+)\}")


def titled(sweep: SweepTable, contenders: Sequence[Contender], place: KeyPath, problems: Problems) -> str:
    """A sweep's title, with what ran in place of each `{settings.pool}`: what a scaled run had differs from
    what the source had."""
    configured = [each.configured() for each in contenders]

    def value(found: re.Match[str]) -> str:
        values = dict.fromkeys(str(each[found[1]]) for each in configured if found[1] in each)
        if configured and not values:
            known = dict.fromkeys(key for each in configured for key in each)
            problems.add((*place, "title"), unknown("key of its contenders", found[1], known))
        return ", ".join(values) or ABSENT

    return PLACEHOLDER.sub(value, sweep.title)


def cpus_in_words(source_cpus: int | None, contenders: Sequence[Contender]) -> str | None:
    """How many CPUs the source's server had, where those that may use all of this machine have another
    number."""
    here = len(os.sched_getaffinity(0))
    if source_cpus in (None, here) or all(each.lab.server_cpus for each in contenders):
        return None
    return f"the source had {source_cpus} cores, this machine has {here}"


def remarks(sweep: SweepTable, contenders: Sequence[Contender]) -> tuple[str, ...]:
    """What must stand beside every figure of a sweep."""
    said = [*(each.scale for each in contenders), cpus_in_words(sweep.source_cpus, contenders)]
    return tuple(dict.fromkeys(each for each in said if each))
