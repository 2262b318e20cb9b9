"""What makes a sweep impossible: its points, its keys, its contenders, its metrics. Problems are noted at
their key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thunderherd.engine.catalogue import Catalogue, Way
from thunderherd.metrics.table import (
    OF_A_LIFE,
    RATIOS,
    UNITS_OF_TIME,
    AskedCounters,
    counters_of,
    metric_names,
)
from thunderherd.study.checks.names import asked_of, check_metric
from thunderherd.study.file.contenders import (
    MAIN,
    Change,
    Configuration,
    bases,
    common_changes,
    declared,
    points,
    way_of,
    workload_of,
)
from thunderherd.study.file.tables import (
    ChangesTable,
    ContenderTable,
    LabChanges,
    LoadChanges,
    StudyForm,
    SweepTable,
    ValueTable,
)
from thunderherd.toml.file import KeyPath, Problems, assign, formed, show, unknown

KEYS = (
    "design",
    *Way._fields,
    *(f"load.{name}" for name in LoadChanges.model_fields if name != "settings"),
    *(f"lab.{name}" for name in LabChanges.model_fields),
)
"""The keys of contenders that a sweep may give another value, beside `settings.NAME` and
`load.settings.NAME`."""

SUCH_AS = "such as settings.pool, load.settings.loops, load.processes, lab.placement or primitive"


def check_sweeps(form: StudyForm, catalogue: Catalogue, problems: Problems) -> bool:
    """Each sweep has points and contenders; whether all are well formed, so that they can be expanded."""
    before = len(problems)
    names, asked = [sweep.name for sweep in form.sweeps], asked_of(form, catalogue)
    for index, sweep in enumerate(form.sweeps):
        here: KeyPath = ("sweeps", index)
        if sweep.name == MAIN or sweep.name in names[:index]:
            whose = "the main table" if sweep.name == MAIN else f"the {names.index(sweep.name) + 1}. sweep"
            problems.add((*here, "name"), f"the name {show(sweep.name)} is taken by {whose}")
        _check_contenders(form, sweep, here, problems)
        for name, key in (
            (sweep.metric, (*here, "metric")),
            *((each, (*here, "metrics", place)) for place, each in enumerate(sweep.metrics)),
        ):
            if name is not None:
                check_metric(name, key, asked, problems)
        shown = (sweep.metric or form.measure.metric, *sweep.metrics)
        # Of a metric that there is not has been told.
        all_known = set(shown) <= set(metric_names(asked))
        for place, each in enumerate(sweep.logarithmic):
            if all_known and each not in shown:
                why = f"{show(each)} is not shown here; shown are {', '.join(shown)}"
                problems.add((*here, "logarithmic", place), why)
        if _check_values(sweep, here, problems):
            _check_changes(form, index, catalogue, problems)
            _check_slope(sweep, sweep.metric or form.measure.metric, here, problems)
            _check_crossover(form, index, problems)
    _check_source_csv(form, asked, problems)
    return len(problems) == before


def _check_source_csv(form: StudyForm, asked: AskedCounters, problems: Problems) -> None:
    """The lines and columns of the source's own CSV are something that the study has."""
    table, here = form.source_csv, ("source_csv",)
    if table is None:
        return
    known = [sweep.name for sweep in form.sweeps]
    for place, name in enumerate(table.sweeps):
        if name not in known:
            problems.add((*here, "sweeps", place), unknown("sweep", name, known))
    for head, column in table.columns.items():
        key: KeyPath = (*here, "columns", head)
        given = [name for name in ("names", "key", "metric") if getattr(column, name) is not None]
        if len(given) != 1:
            has = " and ".join(given) or "none of them"
            problems.add(key, f"column {head}: give one of names, key and metric; it has {has}")
        elif column.key is not None:
            _check_key(tuple(column.key.split(".")), (*key, "key"), problems)
        elif column.metric is not None:
            check_metric(column.metric, (*key, "metric"), asked, problems)
        for base in column.names or {}:
            if base not in (bases := [each.table.name for each in declared(form)]):
                problems.add((*key, "names", base), unknown("contender", base, bases))
        if column.unit and column.unit not in UNITS_OF_TIME:
            problems.add((*key, "unit"), unknown("unit of time", column.unit, list(UNITS_OF_TIME)))


def _check_contenders(form: StudyForm, sweep: SweepTable, here: KeyPath, problems: Problems) -> None:
    known = [base.table.name for base in declared(form)]
    seen: list[str] = []
    for index, named in enumerate(sweep.contenders):
        key = (*here, "contenders", index)
        if isinstance(named, ContenderTable):
            continue
        if named not in known:
            problems.add(key, unknown("contender", named, known))
        elif named in seen:
            problems.add(key, f"contenders: {show(named)} is named twice")
        seen.append(named)


def _check_values(sweep: SweepTable, here: KeyPath, problems: Problems) -> bool:
    """The form of the values, which may be plain or tables; whether points can be made of them."""
    before = len(problems)
    for index, value in enumerate(sweep.values):
        key = (*here, "values", index)
        if isinstance(value, dict):
            formed(ValueTable, value, problems, key)
        elif not sweep.keys:
            problems.add(
                key, f"values: what is {show(value)} the value of? Give key, {SUCH_AS}; or write tables"
            )
        elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
            problems.add(key, f"values: {show(value)} is no value of {' and '.join(sweep.keys)}")
    if len(problems) > before:
        return False
    names: dict[str, int] = {}
    for index, point in enumerate(points(sweep, here)):
        if point.name in names:
            problems.add(point.place, f"values: the point {point.name} is there twice")
        names.setdefault(point.name, index)
    return True


def _check_slope(sweep: SweepTable, metric: str, here: KeyPath, problems: Problems) -> None:
    """What each further one adds is a slope, which takes two points that are numbers, of metrics that are
    shown; `metric` is that of its verdicts."""
    if sweep.slope is None:
        if sweep.slope_metrics:
            problems.add((*here, "slope_metrics"), "slope_metrics without slope; say what one more is called")
        return
    for index, name in enumerate(sweep.slope_metrics):
        if name not in (shown := [metric, *sweep.metrics]):
            problems.add((*here, "slope_metrics", index), unknown("metric that it shows", name, shown))
    named = points(sweep, here)
    key = (*here, "slope")
    if names := [point.name for point in named if point.number is None]:
        why = f"points that are no numbers ({', '.join(names)})"
        problems.add(key, f"slope = {show(sweep.slope)}: the sweep has {why}, so no slope; leave slope out")
    elif len({point.number for point in named}) < 2 and (*here, "values") not in problems.overridden:
        problems.add(
            key, f"slope = {show(sweep.slope)}: one point has no slope; give more, or leave slope out"
        )


def _check_crossover(form: StudyForm, index: int, problems: Problems) -> None:
    """Two contenders of a sweep that are compared at points that are numbers above zero."""
    sweep, here = form.sweeps[index], ("sweeps", index)
    asked = sweep.crossover
    if asked is None:
        return
    key = (*here, "crossover")
    known = [base.table.name for base in bases(form, index)]
    for end, name in (("a", asked.a), ("b", asked.b)):
        if name not in known:
            problems.add((*key, end), unknown(f"contender of sweep {sweep.name}", name, known))
    if asked.a == asked.b:
        problems.add((*key, "b"), f"b = {show(asked.b)}: nothing changes places with itself")
    if sweep.compare == "none":
        problems.add(key, 'a crossover rests on the verdicts at its points: leave compare = "none" out')
    if asked.stage == "coarse" and asked.coarse:
        problems.add((*key, "coarse"), 'what a first stage found belongs to a second: say stage = "dense"')
    numbers = {point.name: point.number for point in points(sweep, here)}
    if wrong := [name for name, number in numbers.items() if number is None or number <= 0]:
        why = f"points that are no numbers above 0 ({', '.join(wrong)})"
        problems.add(key, f"the sweep has {why}, so no crossover; leave crossover out")
    elif len(set(numbers.values())) < 2 and (*here, "values") not in problems.overridden:
        problems.add(key, "one point brackets nothing; give more, or leave crossover out")


def _check_changes(form: StudyForm, index: int, catalogue: Catalogue, problems: Problems) -> None:
    """Every key that the sweep gives another value is one of a contender, and one contender at least has
    it."""
    sweep, here = form.sweeps[index], ("sweeps", index)
    # Once, for its own sake: with each value it would be complained about as often.
    sound = _check_keys(sweep, (*here, "key"), problems)
    changes = [*common_changes(sweep, here)]
    changes += [change for point in points(sweep, here) for change in point.changes]
    for change in changes:
        if change.path in sound if change.required else _check_key(change.path, change.place, problems):
            data: dict[str, Any] = {}
            assign(data, change.path, change.value)
            formed(ChangesTable, data, problems, change.place)
            if (
                change.path[0] == "settings"
                and not change.required
                and not _is_owned(form, index, change, catalogue)
            ):
                what = f"has a setting {show(change.path[-1])}"
                problems.add(change.place, f"no contender of sweep {show(sweep.name)} {what}")


def _check_keys(sweep: SweepTable, place: KeyPath, problems: Problems) -> set[KeyPath]:
    """What its values are of is a key of contenders each, named once; those that are."""
    sound: set[KeyPath] = set()
    for index, key in enumerate(sweep.keys):
        here = place if isinstance(sweep.key, str) else (*place, index)
        if key in sweep.keys[:index]:
            problems.add(here, f"key: {show(key)} is named twice")
        elif _check_key(path := tuple(key.split(".")), here, problems):
            sound.add(path)
    return sound


def _check_key(path: Sequence[str | int], place: KeyPath, problems: Problems) -> bool:
    """Whether it is a key of contenders."""
    key = ".".join(map(str, path))
    depth = {"settings": 2, "load": 3}.get(str(path[0]))
    if key in KEYS or (len(path) == depth and "settings" in path[:2]):
        return True
    problems.add(
        place,
        f"{unknown('key of contenders', key, [*KEYS, 'settings.NAME', 'load.settings.NAME'])}; {SUCH_AS}",
    )
    return False


def _is_owned(form: StudyForm, index: int, change: Change, catalogue: Catalogue) -> bool:
    """Whether a contender of the sweep has the setting, at a point that gives it a value.

    What a server can be told depends on its design and primitive, which the sweep may change as well.
    """
    sweep, here = form.sweeps[index], ("sweeps", index)
    common = common_changes(sweep, here)
    for changes in ([*common, *point.changes] for point in points(sweep, here)):
        if change not in changes:
            continue
        given = {str(each.path[0]): each.value for each in changes if len(each.path) == 1}
        for base in bases(form, index):
            data = {**base.own()[0], **given}
            way = way_of(data, form)
            settings = catalogue.settings_of_server(data.get("design", ""), way, workload_of(data, form))
            if change.path[-1] in settings:
                return True
    return False


def check_ceilings(form: StudyForm, found: Sequence[Configuration], problems: Problems) -> None:
    """What a sweep's rates are shares of is a contender of the study, or was one before an override."""
    names = [each.name for each in found]
    for index, sweep in enumerate(form.sweeps):
        if sweep.ceiling is None or sweep.ceiling in names:
            continue
        _, _, rest = sweep.ceiling.partition("@")
        of_sweep = [each.name for each in found if each.sweep and each.sweep.name == rest.partition("=")[0]]
        whose = next((place for place, each in enumerate(form.sweeps) if f"{each.name}=" in rest), None)
        if whose is None or ("sweeps", whose, "values") not in problems.overridden:
            problems.add(("sweeps", index, "ceiling"), unknown("contender", sweep.ceiling, of_sweep or names))


def check_measurable(each: Configuration, problems: Problems) -> None:
    """What a contender is judged by, and what is shown of it, is something that its trial gives."""
    named: list[tuple[str, KeyPath]] = []
    if each.sweep is None:
        named = [(each.form.measure.metric, ("measure", "metric"))]
    if each.sweep is not None:
        here = each.place[:2]
        named = [(each.sweep.metric, (*here, "metric"))] if each.sweep.metric else []
        named += [(name, (*here, "metrics", place)) for place, name in enumerate(each.sweep.metrics)]
    for name, key in named:
        # What is divided by the time is told of a window too.
        above = set(counters_of(name)[:1] if name.partition(".")[2] in RATIOS else counters_of(name))
        of_a_life = OF_A_LIFE.keys() & above
        if name.startswith("server.") and of_a_life and each.trial == "window":
            problems.add(
                key,
                f'{name} is known of a whole life only: give trial = "whole_life", or ask for a counter',
            )
