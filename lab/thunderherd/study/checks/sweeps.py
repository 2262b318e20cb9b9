"""Checks of the sweeps of a study: points, keys, contenders, metrics. Each problem is added at its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    "workload",
    *Way._fields,
    *(f"load.{name}" for name in LoadChanges.model_fields if name != "settings"),
    *(f"lab.{name}" for name in LabChanges.model_fields),
)
"""The keys of contenders that a sweep may change, except `settings.NAME` and `load.settings.NAME`."""

SUCH_AS = "such as settings.pool, load.settings.loops, load.processes, lab.placement or primitive"


def check_sweeps(form: StudyForm, catalogue: Catalogue, problems: Problems) -> bool:
    """Check the sweeps; return whether all are well formed, so that they can be expanded."""
    before = len(problems)
    names, asked = [sweep.name for sweep in form.sweeps], asked_of(form, catalogue)
    for index, sweep in enumerate(form.sweeps):
        here: KeyPath = ("sweeps", index)
        if sweep.name == MAIN or sweep.name in names[:index]:
            owner = "the main table" if sweep.name == MAIN else f"sweep {names.index(sweep.name) + 1}"
            problems.add(
                (*here, "name"),
                f"the name {show(sweep.name)} is already taken",
                code="study.duplicate_name",
                hint=f"it is the name of {owner}",
            )
        _check_contenders(form, sweep, here, problems)
        for name, key in (
            (sweep.metric, (*here, "metric")),
            *((each, (*here, "metrics", place)) for place, each in enumerate(sweep.metrics)),
            *((each, (*here, "further_metrics", place)) for place, each in enumerate(sweep.further_metrics)),
        ):
            if name is not None:
                check_metric(name, key, asked, problems)
        shown = (sweep.metric or form.measure.metric, *sweep.metrics)
        # An unknown metric is a problem already.
        all_known = set(shown) <= set(metric_names(asked))
        for place, each in enumerate(sweep.logarithmic):
            if all_known and each not in shown:
                problems.add(
                    (*here, "logarithmic", place),
                    f"sweep {sweep.name} does not show {show(each)}",
                    code="study.metric_not_shown",
                    hint=f"it shows {', '.join(shown)}",
                )
        if _check_values(sweep, here, problems):
            _check_changes(form, index, catalogue, problems)
            _check_slope(sweep, sweep.metric or form.measure.metric, here, problems)
            _check_crossover(form, index, problems)
    _check_source_csv(form, asked, problems)
    return len(problems) == before


OF_RUNS = ("trials.csv", "estimates.csv", "unavailable.csv", "extrapolated.csv")
"""The CSV files of every run."""


def _check_source_csv(form: StudyForm, asked: AskedCounters, problems: Problems) -> None:
    """Check that the study has the lines and columns of the source's own CSV file."""
    table, here = form.source_csv, ("source_csv",)
    if table is None:
        return
    if table.file in OF_RUNS:
        problems.add(
            (*here, "file"),
            f"file: {show(table.file)} is a file of the run itself",
            code="study.file_of_run",
            hint="choose another name, such as results.csv",
        )
    known = [sweep.name for sweep in form.sweeps]
    for place, name in enumerate(table.sweeps):
        if name not in known:
            problems.add((*here, "sweeps", place), unknown("sweep", name, known))
    for head, column in table.columns.items():
        key: KeyPath = (*here, "columns", head)
        given = [name for name in ("names", "key", "metric") if getattr(column, name) is not None]
        if len(given) != 1:
            problems.add(
                key,
                f"column {head} has {' and '.join(given) or 'no content'}",
                code="study.invalid_column",
                hint="give one of names, key and metric",
            )
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
            message = f"contenders: {show(named)} is named twice"
            problems.add(key, message, code="study.duplicate_contender", hint="leave one of them out")
        seen.append(named)


def _check_values(sweep: SweepTable, here: KeyPath, problems: Problems) -> bool:
    """Check the form of a sweep's values, plain or tables; return whether points can be made of them."""
    before = len(problems)
    for index, value in enumerate(sweep.values):
        key = (*here, "values", index)
        if isinstance(value, dict):
            formed(ValueTable, value, problems, key)
        elif not sweep.keys:
            problems.add(
                key,
                f"values: {show(value)} has no key",
                code="study.value_without_key",
                hint=f"give key, {SUCH_AS}; or write tables",
            )
        elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
            problems.add(
                key,
                f"values: {show(value)} is no value of {' and '.join(sweep.keys)}",
                code="study.invalid_point",
                hint="give plain values, or tables with name and set",
            )
    if len(problems) > before:
        return False
    names: dict[str, int] = {}
    for index, point in enumerate(points(sweep, here)):
        if point.name in names:
            message = f"values: the point {point.name} occurs twice"
            problems.add(point.place, message, code="study.duplicate_point", hint="leave one of them out")
        names.setdefault(point.name, index)
    return True


def _check_slope(sweep: SweepTable, metric: str, here: KeyPath, problems: Problems) -> None:
    """Check that a sweep with a slope has two points that are numbers, and shows the slope's metrics.

    `metric` is the one that its contenders are compared by.
    """
    if sweep.slope is None:
        if sweep.slope_metrics:
            problems.add(
                (*here, "slope_metrics"),
                "slope_metrics without slope",
                code="study.slope_metrics_without_slope",
                hint="give slope, the name of one unit on the axis",
            )
        return
    for index, name in enumerate(sweep.slope_metrics):
        if name not in (shown := [metric, *sweep.metrics]):
            problems.add((*here, "slope_metrics", index), unknown("metric of the sweep", name, shown))
    named = points(sweep, here)
    key = (*here, "slope")
    if names := [point.name for point in named if point.number is None]:
        problems.add(
            key,
            f"slope = {show(sweep.slope)}: the sweep has points that are not numbers ({', '.join(names)})",
            code="study.points_not_numbers",
            hint="leave slope out",
        )
    elif len({point.number for point in named}) < 2 and (*here, "values") not in problems.overridden:
        problems.add(
            key,
            f"slope = {show(sweep.slope)}: the sweep has only one point",
            code="study.one_point",
            hint="give more points, or leave slope out",
        )


def _check_crossover(form: StudyForm, index: int, problems: Problems) -> None:
    """Check that a crossover has two contenders of the sweep, compared at points that are numbers above 0."""
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
        message, hint = f"b = {show(asked.b)} is compared with itself", "choose two different contenders"
        problems.add((*key, "b"), message, code="study.same_contender", hint=hint)
    if sweep.compare == "none":
        problems.add(
            key,
            "a crossover needs comparisons at the sweep's points",
            code="study.crossover_without_comparisons",
            hint='leave compare = "none" out',
        )
    if asked.stage == "coarse" and asked.coarse:
        problems.add(
            (*key, "coarse"),
            "a coarse stage has no results of an earlier stage",
            code="study.coarse_of_coarse",
            hint='say stage = "dense", or leave coarse out',
        )
    numbers = {point.name: point.number for point in points(sweep, here)}
    if wrong := [name for name, number in numbers.items() if number is None or number <= 0]:
        problems.add(
            key,
            f"crossover: the sweep has points that are not numbers above 0 ({', '.join(wrong)})",
            code="study.points_not_numbers",
            hint="leave crossover out",
        )
    elif len(set(numbers.values())) < 2 and (*here, "values") not in problems.overridden:
        message, hint = "crossover: the sweep has only one point", "give more points, or leave crossover out"
        problems.add(key, message, code="study.one_point", hint=hint)


def _check_changes(form: StudyForm, index: int, catalogue: Catalogue, problems: Problems) -> None:
    """Check that the keys that a sweep changes are keys of contenders, and that at least one has each."""
    sweep, here = form.sweeps[index], ("sweeps", index)
    # The keys are checked once, not with each value.
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
                message = f"no contender of sweep {sweep.name} has a setting {show(change.path[-1])}"
                problems.add(change.place, message, code="study.unknown_setting")


def _check_keys(sweep: SweepTable, place: KeyPath, problems: Problems) -> set[KeyPath]:
    """Check that the keys of a sweep are keys of contenders, each named once; return those that are."""
    sound: set[KeyPath] = set()
    for index, key in enumerate(sweep.keys):
        here = place if isinstance(sweep.key, str) else (*place, index)
        if key in sweep.keys[:index]:
            message = f"key: {show(key)} is named twice"
            problems.add(here, message, code="study.duplicate_key", hint="leave one of them out")
        elif _check_key(path := tuple(key.split(".")), here, problems):
            sound.add(path)
    return sound


def _check_key(path: Sequence[str | int], place: KeyPath, problems: Problems) -> bool:
    """Check that a path is a key of contenders; return whether it is."""
    key = ".".join(map(str, path))
    depth = {"settings": 2, "load": 3}.get(str(path[0]))
    if key in KEYS or (len(path) == depth and "settings" in path[:2]):
        return True
    found = unknown("key of contenders", key, [*KEYS, "settings.NAME", "load.settings.NAME"])
    problems.add(place, replace(found, hint=f"{found.hint}; {SUCH_AS}"))
    return False


def _is_owned(form: StudyForm, index: int, change: Change, catalogue: Catalogue) -> bool:
    """Return whether a contender of the sweep has the setting, at a point that sets it.

    The settings of a server depend on its design and primitives, which the sweep may change as well.
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
    """Check that the ceiling of a sweep is a contender of the study, or was one before an override."""
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
    """Check that the trial of a contender measures the metrics that are compared and shown."""
    named: list[tuple[str, KeyPath]] = []
    if each.sweep is None:
        named = [(each.form.measure.metric, ("measure", "metric"))]
    if each.sweep is not None:
        here = each.place[:2]
        named = [(each.sweep.metric, (*here, "metric"))] if each.sweep.metric else []
        named += [(name, (*here, "metrics", place)) for place, name in enumerate(each.sweep.metrics)]
    for name, key in named:
        # Ratios to a time are known for windows too.
        above = set(counters_of(name)[:1] if name.partition(".")[2] in RATIOS else counters_of(name))
        of_a_life = OF_A_LIFE.keys() & above
        if name.startswith("server.") and of_a_life and each.trial == "window":
            problems.add(
                key,
                f"{name} is known for whole lives only",
                code="study.only_of_whole_lives",
                hint='give trial = "whole_life", or request a counter',
            )
