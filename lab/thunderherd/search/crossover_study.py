"""The two studies that a search for a crossover runs, as TOML: made from what the user typed.

Both are whole study files, so that `thunderherd run` runs either again. The first has a coarse grid over the
whole range, the second a dense one around the crossing, and what the first found. Each spends half of alpha,
so that a crossing that is not there is told with at most all of it.
"""

from __future__ import annotations

import math
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from thunderherd.engine.catalogue import USUAL_DESIGN, WARM_UP, Catalogue, ChoiceSetting, Load, Way
from thunderherd.errors import UserError
from thunderherd.labs import USUAL
from thunderherd.labs.words import WRITTEN, written
from thunderherd.metrics.table import PAYLOAD_RATE, asked_counters, metric_names
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.contenders import (
    SIDE_CHOICES,
    Common,
    Swept,
    check_directions,
    contender,
    names_of_settings,
    swept,
)
from thunderherd.search.crossover_effect import DIRECTION
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.statistics.crossings import DENSE_POINTS, grid
from thunderherd.study.file.contenders import declared
from thunderherd.study.file.names import find_study
from thunderherd.study.file.recovery import shaped
from thunderherd.study.file.tables import LoadTable, StudyForm, SweepTable, keys_of
from thunderherd.study.lab_option import read as read_lab
from thunderherd.study.overrides import parse_override
from thunderherd.study.resolved import CONNECTIONS, KEPT
from thunderherd.text.figures import words_of
from thunderherd.text.quantities import Range, amounts, parse_range
from thunderherd.toml.file import KeyPath, Problems, TomlFile, flat, near, show, unknown
from thunderherd.toml.write import inline, toml_text

__all__ = ["Asked", "coarse_study", "dense_study", "name_of", "range_of"]

ALPHA = 0.05 / 2
"""What each stage may spend."""

METRICS = {
    "requests": "requests_per_second",
    "bytes_to_server": PAYLOAD_RATE,
    "bytes_to_clients": PAYLOAD_RATE,
}
"""What is compared where the user says nothing, by what the workload is measured by."""

WARM_UP_SHARE = 0.2
"""Of the window."""

FEWEST_POINTS, MOST_POINTS = 5, 13
OCTAVES = 2.0
"""Neighbours of the coarse grid are about so many doublings apart."""

OF_LOAD = "load.settings"
"""Where a load's settings stand in a contender's table."""

OWN_TABLES = ("measure", "server", "load", "lab", "noise")
"""What is taken over from a study."""


@dataclass(frozen=True)
class Asked:
    """What the user typed. None and empty stand for what was left out.

    `lab` is what `--lab` takes (`lab_option`).
    """

    a: str
    b: str
    over: str
    study: str | None = None
    workload: str | None = None
    load: str | None = None
    design: str | None = None
    side: str | None = None
    metric: str | None = None
    show: tuple[str, ...] = ()
    lab: tuple[str, ...] = ()
    milliseconds: int | None = None
    points: int | None = None
    blocks: int = 12


# The first stage --------------------------------------------------------------------------------------------


def coarse_study(asked: Asked, catalogue: Catalogue, fixed: Sequence[str] = ()) -> str:
    """The study of the first stage. Raises UserError for every mistake that can be told from the words.

    `fixed` are `key=value` texts, as for `run --set`, which the study itself does not have.
    """
    range_ = range_of(asked, catalogue)
    tables, of_study, sweeps = _taken_over(asked) if asked.study else ({}, {}, [])
    lab = read_lab(asked.lab, command="crossover: ")
    tables["lab"] = {**tables.get("lab", {}), **lab}
    common = _common(asked, range_, tables, fixed, catalogue)
    pair = [contender(typed, common, of_study) for typed in (asked.a, asked.b)]
    _check_pair(asked, pair, catalogue)
    given = tables.get("server", {}).get("settings", {})
    over = swept(range_, common, pair, given)
    _check_free(asked, range_, over, common, sweeps)
    _check_fixed(range_, over, lab)
    sizes = _coarse_sizes(asked, range_)
    _check_blocks(asked, len(sizes))
    _check_metrics(asked, tables, catalogue)
    metric = asked.metric or tables.get("measure", {}).get("metric") or _usual_metric(common)
    names, unit = [table["name"] for table in pair], over.setting.unit or ""
    study: dict[str, Any] = {
        "name": name_of(*names),
        "title": f"{names[0]} against {names[1]} over {over.name}: where they change places",
        "question": f"From which {over.name} on does {names[0]} beat {names[1]} ({words_of(metric)})?",
        "measure": {
            "equivalence_percent": 3.0,
            **tables.get("measure", {}),
            "metric": metric,
            "alpha": ALPHA,
        },
        "server": _server(common, tables, over),
        "load": _load(asked, common, tables, over),
        "lab": tables["lab"],
        "noise": tables.get("noise", {}),
        "sizes": {"quick": {"looks": [asked.blocks], "alpha_split": [1.0], **_own_set(tables)}},
        "sweeps": [
            {
                "name": "coarse",
                "title": f"The whole range: {amounts(range_.low, range_.high, unit or over.name)}",
                **_values(over.keys, over.by_all, sizes),
                "axis": "logarithmic",
                "x_label": _label(over),
                **({"metrics": list(asked.show)} if asked.show else {}),
                **_raised_note(over),
                "crossover": {"a": names[0], "b": names[1], "unit": unit},
                "contenders": pair,
            }
        ],
    }
    return toml_text({key: value for key, value in study.items() if value})


def range_of(asked: Asked, catalogue: Catalogue) -> Range:
    """What is swept. Of a name that nothing has it is not told which units its values could have."""
    try:
        return parse_range(asked.over, "crossover: --over", WRITTEN)
    except UserError:
        name, equals, _ = asked.over.partition("=")
        leaf, known = name.strip().rpartition(".")[2], names_of_settings(catalogue)
        if equals and leaf and leaf not in known:
            hint = near(leaf, known) or f"; known: {', '.join(known)}"
            raise UserError(f"crossover: --over {asked.over}: no such setting {show(leaf)}{hint}") from None
        raise


def name_of(a: str, b: str) -> str:
    """What the study of two contenders is called."""
    return "-".join(["crossover", a.replace("_", "-"), b.replace("_", "-")]).strip("-")


def _common(
    asked: Asked, range_: Range, tables: Mapping[str, Any], fixed: Sequence[str], catalogue: Catalogue
) -> Common:
    server, load = tables.get("server", {}), tables.get("load", {})
    workload = asked.workload or server.get("workload") or _workload_with(range_, catalogue)
    _check_known("workload", workload, [each.name for each in catalogue.workloads])
    kind = asked.load or load.get("kind") or _timed_load(catalogue)
    _check_known("load", kind, [each.name for each in catalogue.loads])
    design = asked.design or USUAL_DESIGN
    _check_known("design", design, [each.name for each in catalogue.designs])
    if asked.side is not None:
        _check_known("side", asked.side, SIDE_CHOICES)
    return Common(
        catalogue=catalogue,
        workload=workload,
        load=kind,
        design=design,
        server_way=_way(server),
        load_way=_way(load),
        side=asked.side,
        lab=tables["lab"].get("kind", USUAL.name),
        direction=_direction(load, fixed),
    )


def _direction(load: Mapping[str, Any], fixed: Sequence[str]) -> object:
    """Which way the bytes of a stream go, as the study says, or the user, who wins."""
    said = load.get("settings", {}).get(DIRECTION)
    for key, value in map(parse_override, fixed):
        said = value if key.rpartition(".")[2] == DIRECTION else said
    return said


def _way(table: Mapping[str, Any]) -> Way:
    usual = LoadTable.model_fields
    return Way(*(table.get(field, usual[field].default) for field in Way._fields))


def _usual_metric(common: Common) -> str:
    workload = common.catalogue.workload(common.workload)
    return METRICS[workload.measured_by if workload else "requests"]


def _check_metrics(asked: Asked, tables: Mapping[str, Any], catalogue: Catalogue) -> None:
    known = metric_names(asked_counters(tables.get("measure", {}).get("counters", ()), catalogue))
    for option, names in (("--metric", (asked.metric,)), ("--show", asked.show)):
        for name in names:
            if name is not None and name not in known:
                raise UserError(f"crossover: {option} {name}: {unknown('metric', name, known)}")


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UserError(f"crossover: {unknown(what, name, known)}")


def _workload_with(range_: Range, catalogue: Catalogue) -> str:
    """The first workload that has the setting; of a setting that none has, the first of all."""
    leaf = range_.name.rpartition(".")[2]
    for each in catalogue.workloads:
        if leaf in {setting.name for setting in (*each.client_settings, *each.service_settings)}:
            return each.name
    return catalogue.workloads[0].name


def _timed_load(catalogue: Catalogue) -> str:
    """The first load that can end by time: a trial then lasts as long at every size."""
    return next((each.name for each in catalogue.loads if each.duration), catalogue.loads[0].name)


def _check_pair(asked: Asked, pair: Sequence[dict[str, Any]], catalogue: Catalogue) -> None:
    one, other = ({key: value for key, value in table.items() if key != "name"} for table in pair)
    if one == other:
        raise UserError(
            f"crossover: {asked.a} and {asked.b} are the same contender, and nothing changes places with "
            "itself; give the second another design, primitive or setting"
        )
    check_directions((asked.a, asked.b), pair, catalogue)
    if pair[0]["name"] == pair[1]["name"]:
        pair[1]["name"] += "_b"


def _check_free(
    asked: Asked, range_: Range, over: Swept, common: Common, sweeps: Sequence[SweepTable]
) -> None:
    """Every whole number of the range can be a size.

    Of a setting whose product with another is given few can, and none lie around a crossing.
    """
    workload = common.catalogue.workload(common.workload)
    for product in workload.products if workload else ():
        if over.name not in product.settings or over.keys != (f"{OF_LOAD}.{over.name}",):
            continue
        known = product.pairs(over.name)
        pairs = [each for each in known if range_.low <= each[over.name] <= range_.high]
        fitting = ", ".join(str(each[over.name]) for each in pairs) or "none"
        why = (
            f"crossover: --over {asked.over.strip()}: {' times '.join(product.settings)} of workload "
            f"{common.workload} must be {product.product}, so few sizes of the range can be had: {fitting}"
        )
        if not pairs:
            below = [each for each in known if each[over.name] < range_.low]
            above = [each for each in known if each[over.name] > range_.high]
            pairs = [*below[-1:], *above[:1]]
            why += f", and the nearest are {' and '.join(str(each[over.name]) for each in pairs)}"
        step = math.ceil(len(pairs) / MOST_POINTS)
        sets = [{f"{OF_LOAD}.{name}": value for name, value in each.items()} for each in pairs[::step]]
        points = inline([{"name": str(each[over.keys[0]]), "set": each} for each in sets])
        raise UserError(f"{why}; {_compared_at(points, asked, over, sweeps)}")


def _check_fixed(range_: Range, over: Swept, lab: Mapping[str, Any]) -> None:
    """What is swept has no value of its own."""
    for key in lab:
        if over.keys == (f"lab.{key}",):
            raise UserError(
                f"crossover: --over {range_.name} and --lab {key}={lab[key]} contradict each other; leave "
                f"--lab {key}={lab[key]} out"
            )


def _compared_at(points: str, asked: Asked, over: Swept, sweeps: Sequence[SweepTable]) -> str:
    """What to type instead of a search: a run of the study's sweep over the setting, at these points."""
    for sweep in sweeps:
        known = {each if isinstance(each, str) else each.name for each in sweep.contenders}
        keys = {".".join(map(str, path)) for value in sweep.values for path in _set_by(value)} | {*sweep.keys}
        if {asked.a, asked.b} <= known and over.keys[0] in keys:
            words = ["thunderherd", "run", asked.study or ""]
            words += [
                "--set",
                f"parts={inline([sweep.name])}",
                "--set",
                f"sweeps.{sweep.name}.values={points}",
            ]
            return f"compare both at those: {shlex.join(words)}"
    return f"compare both at those, by a study with a sweep of values = {points}"


def _set_by(value: Any) -> list[KeyPath]:
    """The keys that a point of a sweep sets, where it is a table."""
    return [path for path, _ in flat(value.get("set", {}))] if isinstance(value, dict) else []


def _coarse_sizes(asked: Asked, range_: Range) -> tuple[int, ...]:
    points = asked.points
    if points is None:
        octaves = math.log2(range_.high / range_.low)
        points = min(MOST_POINTS, max(FEWEST_POINTS, round(octaves / OCTAVES) + 1))
    return tuple(map(int, grid(range_.low, range_.high, points, whole=True)))


def _check_blocks(asked: Asked, sizes: int) -> None:
    needed = first_look_blocks(max(sizes, DENSE_POINTS), ALPHA)
    if asked.blocks < needed:
        raise UserError(
            f"crossover: --blocks {asked.blocks} are too few: with {sizes} sizes at alpha {ALPHA:g} no test "
            f"could show anything; it takes {needed} at least"
        )


def _server(common: Common, tables: Mapping[str, Any], over: Swept) -> dict[str, Any]:
    own = tables.get("server", {})
    return {
        **own,
        "workload": common.workload,
        **common.server_way._asdict(),
        "settings": {**own.get("settings", {}), **over.raised},
    }


def _load(asked: Asked, common: Common, tables: Mapping[str, Any], over: Swept) -> dict[str, Any]:
    """That of the study; without one, a load that ends by time, its connections kept for two primitives.

    Where the number of each client's requests is swept, it ends by that.
    """
    known = common.settings_of_load({})
    kind = common.catalogue.load(common.load)
    counted = kind.by_count() if kind and _is_count(over, kind) else {}
    if "load" in tables:
        own = dict(tables["load"])
        return {**own, "settings": {**own.get("settings", {}), **counted}} if counted else own
    settings: dict[str, Any] = dict(counted)
    if counted and asked.milliseconds is not None:
        raise UserError(
            f"crossover: --over {over.name} and --milliseconds contradict each other: a load ends when every "
            "client has made so many requests, or by time; leave --milliseconds out"
        )
    if kind and kind.duration and not counted:
        milliseconds = asked.milliseconds or 500
        settings[kind.duration] = milliseconds
        if WARM_UP in known:
            settings[WARM_UP] = round(milliseconds * WARM_UP_SHARE)
    elif asked.milliseconds is not None and not counted:
        raise UserError(
            f"crossover: --milliseconds {asked.milliseconds}: load {common.load} does not end by time; give "
            f"another --load, or --set load.settings.{(kind.requests if kind else ('loops',))[-1]}=..."
        )
    primitives = {each.name for each in common.catalogue.primitives}
    kept = known.get(CONNECTIONS)
    if {asked.a, asked.b} <= primitives and isinstance(kept, ChoiceSetting) and KEPT in kept.choices:
        settings[CONNECTIONS] = KEPT
    return {"kind": common.load, "processes": 1, "settings": settings}


def _is_count(over: Swept, kind: Load) -> bool:
    """Whether what is swept is how many requests each client makes."""
    return over.keys == tuple(f"{OF_LOAD}.{name}" for name in kind.requests[-1:])


def _label(over: Swept) -> str:
    return over.name.replace("_", " ")


def _values(keys: Sequence[str], is_plain: bool, sizes: Sequence[float]) -> dict[str, Any]:
    """The points of a sweep: the values of keys that every contender has; otherwise tables."""
    whole = [int(size) for size in sizes]
    if is_plain and all(_value(key, size) == size for key in keys for size in whole):
        return {"key": keys[0] if len(keys) == 1 else list(keys), "values": whole}
    return {
        "values": [{"name": str(size), "set": {key: _value(key, size) for key in keys}} for size in whole]
    }


def _value(key: str, size: int) -> int | str:
    """A size as a study has it under a key: a quantity of [lab] may have a unit."""
    table, _, name = key.partition(".")
    return written(name, size) if table == "lab" else size


def _raised_note(over: Swept) -> dict[str, str]:
    raised = [f"{name} of the server is raised to {value:,}" for name, value in over.raised.items()]
    return {"note": f"{'; '.join(raised)}, as {over.name} goes so far"} if raised else {}


# What a study hands over ------------------------------------------------------------------------------------


def _taken_over(asked: Asked) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[SweepTable]]:
    """The tables of a study that both stages take over; its contenders by name; and its sweeps."""
    for option, said in (
        ("--workload", asked.workload),
        ("--load", asked.load),
        ("--milliseconds", asked.milliseconds),
    ):
        if said is not None:
            raise UserError(
                f"crossover: {option} {said} contradicts --study {asked.study}, which has its own; give one "
                "of them, or --set a key of the study"
            )
    file = TomlFile(find_study(asked.study or ""))
    problems = Problems(file)
    form, data, _ = shaped(file.data, problems)
    problems.raise_any()
    if form.scale is not None:
        raise UserError(
            f"crossover: --study {asked.study} has a [scale], which makes some sizes run the experiment "
            "smaller, a range with it; take a contender's settings over as design=...,setting=value"
        )
    tables = {name: deepcopy(data[name]) for name in OWN_TABLES if name in data}
    for name in ("baseline", "single_runs", "trial"):
        tables["measure"].pop(name, None)
    tables["set"] = _size_set(form)
    return tables, {base.table.name: base.own()[0] for base in declared(form)}, form.sweeps


def _size_set(form: StudyForm) -> dict[str, Any]:
    """What the study's quick size sets, but for what it sets of contenders and sweeps."""
    quick = form.sizes.get("quick")
    own = {} if quick is None else quick.set
    return {key: value for key, value in own.items() if key.partition(".")[0] in OWN_TABLES}


def _own_set(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {"set": tables["set"]} if tables.get("set") else {}


# The second stage -------------------------------------------------------------------------------------------


def dense_study(coarse: str, sizes: Sequence[float], found: CrossoverSummary, trials: tuple[int, int]) -> str:
    """The study of the second stage.

    Parameters
    ----------
    coarse
        The text of the first stage's.
    sizes
        Those of the dense grid.
    found
        What the first stage found.
    trials
        How many of its trials were valid, and of how many.
    """
    study = tomllib.loads(coarse)
    (sweep,) = study["sweeps"]
    unit, first, last = sweep["crossover"]["unit"], sizes[0], sizes[-1]
    is_plain = "key" in sweep
    keys = keys_of(sweep["key"]) if is_plain else tuple(sweep["values"][0]["set"])
    sweep |= {
        "name": "dense",
        "title": f"Around the crossing: {amounts(first, last, unit)}",
        **_values(keys, is_plain, sizes),
    }
    sweep["crossover"] |= {
        "stage": "dense",
        "coarse_blocks": found.blocks,
        "coarse_trials": {"valid": trials[0], "all": trials[1]},
        "coarse": [point.model_dump(exclude={"stage"}, exclude_none=True) for point in found.points],
    }
    return toml_text(study)
