"""The two studies of a search for a crossover, made from what the user typed.

The first has a coarse grid over the whole range. The second has a dense grid around the crossing, and what
the first found. Each spends half of alpha, so a false crossing is reported with at most all of it. Both are
whole study files: `thunderherd run` runs either again.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from thunderherd.engine.catalogue import Catalogue, Load, Way, Workload
from thunderherd.errors import UserError
from thunderherd.labs import USUAL
from thunderherd.labs.words import OPTION
from thunderherd.metrics.table import PAYLOAD_RATE, asked_counters, metric_names
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.contenders import (
    SIDE_CHOICES,
    Basis,
    Swept,
    check_directions,
    contender,
    names_of_settings,
    ranges_of,
    swept,
)
from thunderherd.search.request import CrossoverRequest
from thunderherd.search.taken_over import OWN_TABLES, taken_over
from thunderherd.search.written_study import SIZE, Tables, Typed
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.statistics.crossings import DENSE_POINTS, grid
from thunderherd.study.defaults import DURATION, has_persistent, timed_load, window
from thunderherd.study.file.tables import SweepTable, keys_of
from thunderherd.study.lab_option import read as read_lab
from thunderherd.study.overrides import parse_override
from thunderherd.study.resolved import CONNECTIONS, KEPT
from thunderherd.text.figures import words_of
from thunderherd.toml.file import KeyPath, flat, show, suggest, unknown
from thunderherd.toml.quantities import BIT_RATE, SHARE, TIME, Range, amounts, parse_range
from thunderherd.toml.write import inline

__all__ = ["coarse_study", "dense_study", "name_of", "typed_keys"]

ALPHA = 0.05 / 2
"""The alpha that each stage may spend."""

METRICS = {
    "requests": "requests_per_second",
    "bytes_to_server": PAYLOAD_RATE,
    "bytes_to_clients": PAYLOAD_RATE,
}
"""The default metric, by what the workload is measured by."""

FEWEST_POINTS, MOST_POINTS = 5, 13
OCTAVES = 2.0
"""Doublings between neighbours of the coarse grid, about."""

OF_LOAD = "load.settings"
"""The place of a load's settings in a contender's table."""


# The first stage --------------------------------------------------------------------------------------------


def coarse_study(request: CrossoverRequest, catalogue: Catalogue) -> Tables:
    """Return the study of the first stage, without the keys of --set.

    Raise `UserError` for every mistake that the command line alone shows.
    """
    range_ = _range_of(request, catalogue)
    study_parts = taken_over(request, catalogue)
    lab = request.lab_keys()
    tables: dict[str, Any] = {**study_parts.tables, "lab": {**study_parts.tables.get("lab", {}), **lab}}
    basis = _basis(request, range_, tables, catalogue)
    pair = [contender(typed, basis, study_parts.contenders) for typed in (request.a, request.b)]
    _check_pair(request, pair, catalogue)
    given = tables.get("server", {}).get("settings", {})
    over = swept(request, range_, basis, pair, given)
    _check_sizes_fit(request, range_, over, basis, study_parts.sweeps)
    _check_not_fixed(request, over, lab)
    _check_not_zero(request, range_)
    sizes = _coarse_sizes(request, range_, over.setting.resolution)
    _check_blocks(request, len(sizes))
    _check_metrics(request, tables, catalogue)
    metric = request.metric or tables.get("measure", {}).get("metric") or _usual_metric(basis)
    names, unit = [table["name"] for table in pair], over.unit
    study: Tables = {
        "name": name_of(*names),
        "title": f"Crossover of {names[0]} and {names[1]} over {over.name}",
        "question": f"For which values of {over.name} does {names[0]} beat {names[1]} ({words_of(metric)})?",
        "measure": {
            "equivalence": "3%",
            **tables.get("measure", {}),
            "metric": metric,
            "alpha": ALPHA,
        },
        "server": _server(basis, tables, over),
        "load": _load(request, basis, tables, over),
        "lab": tables["lab"],
        "noise": tables.get("noise", {}),
        "sizes": {SIZE: {"looks": [request.blocks], "alpha_split": [1.0], **_own_set(tables)}},
        "sweeps": [
            {
                "name": "coarse",
                "title": f"The whole range: {over.span(range_.low, range_.high)}",
                **_values(over.keys, over.by_all, [over.written(size) for size in sizes]),
                "axis": "logarithmic",
                "x_label": over.name.replace("_", " "),
                **({"metrics": list(request.show)} if request.show else {}),
                **_raised_note(over),
                "crossover": {"a": names[0], "b": names[1], "unit": unit},
                "contenders": pair,
            }
        ],
    }
    return {key: value for key, value in study.items() if value}


def typed_keys(request: CrossoverRequest, catalogue: Catalogue) -> Typed:
    """Return the options by which the keys of both studies were typed."""
    load = catalogue.load(request.load or timed_load(catalogue))
    options: dict[KeyPath, tuple[str, Any]] = {
        ("server", "workload"): ("--workload", request.workload),
        ("load", "kind"): ("--load", request.load),
        ("measure", "metric"): ("--metric", request.metric),
        ("sizes", SIZE, "looks"): ("--blocks", request.blocks),
        ("sweeps", 0, "values"): ("--over", request.over),
        ("sweeps", 0, "metrics"): ("--show", " --show ".join(request.show)),
    }
    if load and load.duration and not request.study:
        options["load", "settings", load.duration] = ("--duration", request.duration)
    keys = {key: option if value is None else f"{option} {value}" for key, (option, value) in options.items()}
    if request.study:
        keys |= {(table,): f"--study {request.study}" for table in OWN_TABLES}
    keys |= {("lab", key): f"{OPTION} {text}" for text in request.lab for key in read_lab([text])}
    keys |= {("sweeps", 0, "contenders", place): each for place, each in enumerate((request.a, request.b))}
    return Typed(request.command, keys)


def _range_of(request: CrossoverRequest, catalogue: Catalogue) -> Range:
    """Return the range of --over. Report an unknown setting by its name, not by the units of its values."""
    try:
        return parse_range(request.over, "crossover: --over", ranges_of(catalogue))
    except UserError:
        name, equals, _ = request.over.partition("=")
        leaf, known = name.strip().rpartition(".")[2], names_of_settings(catalogue)
        if equals and leaf and leaf not in known:
            hint = suggest(leaf, known) or f"known: {', '.join(known)}"
            message = f"no such setting {show(leaf)}"
            raise request.refusal(f"--over {request.over}", message, "crossover.over_unknown", hint) from None
        raise


def name_of(a: str, b: str) -> str:
    """Return the name of the study of two contenders."""
    return "-".join(["crossover", a.replace("_", "-"), b.replace("_", "-")]).strip("-")


def _basis(
    request: CrossoverRequest, range_: Range, tables: Mapping[str, Any], catalogue: Catalogue
) -> Basis:
    server, load = tables.get("server", {}), tables.get("load", {})
    workload = request.workload
    if workload is None:
        workload = server.get("workload") or _workload_with(range_, catalogue)
    _check_known(request, "workload", workload, [each.name for each in catalogue.workloads])
    kind = request.load or load.get("kind") or timed_load(catalogue)
    _check_known(request, "load", kind, [each.name for each in catalogue.loads])
    design = request.design or catalogue.defaults.design
    _check_known(request, "design", design, [each.name for each in catalogue.designs])
    if request.side is not None:
        _check_known(request, "side", request.side, SIDE_CHOICES)
    return Basis(
        catalogue=catalogue,
        workload=workload,
        load=kind,
        design=design,
        server_way=_way(server, catalogue),
        load_way=_way(load, catalogue),
        side=request.side,
        lab=tables["lab"].get("kind", USUAL.name),
        turned=_turned(load, request.fixed, catalogue.workload(workload)),
    )


def _turned(load: Mapping[str, Any], fixed: Sequence[str], workload: Workload | None) -> object:
    """Return the direction of a stream's bytes: that of --set, else that of the study."""
    if workload is None or workload.direction is None:
        return None
    setting = workload.direction.setting
    turned = load.get("settings", {}).get(setting)
    for key, value in map(parse_override, fixed):
        turned = value if key.rpartition(".")[2] == setting else turned
    return turned


def _way(table: Mapping[str, Any], catalogue: Catalogue) -> Way:
    return Way(*(table.get(field, getattr(catalogue.defaults, field)) for field in Way._fields))


def _usual_metric(basis: Basis) -> str:
    workload = basis.catalogue.workload(basis.workload)
    return METRICS[workload.measured_by if workload else "requests"]


def _check_metrics(request: CrossoverRequest, tables: Mapping[str, Any], catalogue: Catalogue) -> None:
    known = metric_names(asked_counters(tables.get("measure", {}).get("counters", ()), catalogue))
    for option, names in (("--metric", (request.metric,)), ("--show", request.show)):
        for name in names:
            if name is not None and name not in known:
                where = f"crossover: {option} {name}"
                raise UserError(unknown("metric", name, known, "crossover").at(where))


def _check_known(request: CrossoverRequest, what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        option = f"--{what} {name}" if getattr(request, what) == name else f"--study {request.study}"
        where = f"{request.command}: {option}"
        raise UserError(unknown(what, name, known, "crossover").at(where))


def _workload_with(range_: Range, catalogue: Catalogue) -> str:
    """Return the first workload with the setting, or the first of all."""
    leaf = range_.name.rpartition(".")[2]
    for each in catalogue.workloads:
        if leaf in {setting.name for setting in (*each.client_settings, *each.service_settings)}:
            return each.name
    return catalogue.workloads[0].name


def _check_pair(request: CrossoverRequest, pair: Sequence[dict[str, Any]], catalogue: Catalogue) -> None:
    one, other = ({key: value for key, value in table.items() if key != "name"} for table in pair)
    if one == other:
        raise request.refusal(
            "",
            f"{request.a} and {request.b} are the same contender",
            "crossover.same_contender",
            "give the second another design, primitive or setting",
        )
    check_directions(request, pair, catalogue)
    if pair[0]["name"] == pair[1]["name"]:
        pair[1]["name"] += "_b"


def _check_sizes_fit(
    request: CrossoverRequest, range_: Range, over: Swept, basis: Basis, sweeps: Sequence[SweepTable]
) -> None:
    """Check that every whole number of the range can be a size.

    If a workload fixes the product of two settings, few numbers can, and none around a crossing.
    """
    workload = basis.catalogue.workload(basis.workload)
    for product in workload.products if workload else ():
        if over.name not in product.settings or over.keys != (f"{OF_LOAD}.{over.name}",):
            continue
        known = product.pairs(over.name)
        pairs = [each for each in known if range_.low <= each[over.name] <= range_.high]
        fitting = ", ".join(str(each[over.name]) for each in pairs) or "none"
        hint = f"sizes of the range that fit: {fitting}"
        if not pairs:
            below = [each for each in known if each[over.name] < range_.low]
            above = [each for each in known if each[over.name] > range_.high]
            pairs = [*below[-1:], *above[:1]]
            hint += f", and the nearest are {' and '.join(str(each[over.name]) for each in pairs)}"
        step = math.ceil(len(pairs) / MOST_POINTS)
        sets = [{f"{OF_LOAD}.{name}": value for name, value in each.items()} for each in pairs[::step]]
        points = inline([{"name": str(each[over.keys[0]]), "set": each} for each in sets])
        raise request.refusal(
            f"--over {request.over.strip()}",
            f"{' times '.join(product.settings)} of workload {basis.workload} must be {product.product}",
            "crossover.over_has_gaps",
            f"{hint}; {_compared_at(points, request, over, sweeps)}",
        )


def _check_not_fixed(request: CrossoverRequest, over: Swept, lab: Mapping[str, Any]) -> None:
    """Check that the searched setting has no fixed value."""
    for key, value in lab.items():
        if over.keys == (f"lab.{key}",):
            option = f"{OPTION} {key}={value}"
            raise request.refusal(
                f"--over {request.over.strip()}",
                f"{option} contradicts it",
                "crossover.over_is_fixed",
                f"leave {option} out",
            )


def _check_not_zero(request: CrossoverRequest, range_: Range) -> None:
    """Check that the range begins above 0: its sizes are spaced by their logarithm."""
    if range_.low < 1:
        raise request.refusal(
            f"--over {request.over.strip()}",
            "the range begins at 0, and its sizes are spaced by their logarithm",
            "quantity.range_from_zero",
            "begin above 0",
        )


def _compared_at(points: str, request: CrossoverRequest, over: Swept, sweeps: Sequence[SweepTable]) -> str:
    """Return an alternative to the search: the command that runs the study's sweep at these points."""
    for sweep in sweeps:
        known = {each if isinstance(each, str) else each.name for each in sweep.contenders}
        keys = {".".join(map(str, path)) for value in sweep.values for path in _set_by(value)} | {*sweep.keys}
        if {request.a, request.b} <= known and over.keys[0] in keys:
            words = ["thunderherd", "run", request.study or ""]
            words += ["--set", f"parts={inline([sweep.name])}"]
            words += ["--set", f"sweeps.{sweep.name}.values={points}"]
            return f"compare both at those: {shlex.join(words)}"
    return f"compare both at those, by a study with a sweep of values = {points}"


def _set_by(value: Any) -> list[KeyPath]:
    """Return the keys that a point of a sweep sets, if it is a table."""
    return [path for path, _ in flat(value.get("set", {}))] if isinstance(value, dict) else []


def _coarse_sizes(request: CrossoverRequest, range_: Range, step: int) -> tuple[int, ...]:
    """Return the sizes of the coarse grid, which are multiples of the setting's smallest step."""
    points = request.points
    if points is None:
        octaves = math.log2(range_.high / range_.low)
        points = min(MOST_POINTS, max(FEWEST_POINTS, round(octaves / OCTAVES) + 1))
    low, high = range_.low // step, range_.high // step
    return tuple(int(size) * step for size in grid(low, high, points, whole=True))


def _check_blocks(request: CrossoverRequest, sizes: int) -> None:
    needed = first_look_blocks(max(sizes, DENSE_POINTS), ALPHA)
    if request.blocks < needed:
        raise request.refusal(
            f"--blocks {request.blocks}",
            f"too few blocks: with {sizes} sizes at alpha {ALPHA:g} no test can be significant",
            "crossover.too_few_blocks",
            f"give at least {needed}",
        )


def _server(basis: Basis, tables: Mapping[str, Any], over: Swept) -> dict[str, Any]:
    own = tables.get("server", {})
    return {
        **own,
        "workload": basis.workload,
        **basis.server_way._asdict(),
        "settings": {**own.get("settings", {}), **over.raised},
    }


def _load(request: CrossoverRequest, basis: Basis, tables: Mapping[str, Any], over: Swept) -> dict[str, Any]:
    """Return the study's load, or one that ends by time, with persistent connections for two primitives.

    If --over is the number of each client's requests, the load ends by that number instead.
    """
    known = basis.settings_of_load({})
    kind = basis.catalogue.load(basis.load)
    counted = kind.by_count() if kind and _is_count(over, kind) else {}
    if "load" in tables:
        own = dict(tables["load"])
        return {**own, "settings": {**own.get("settings", {}), **counted}} if counted else own
    settings: dict[str, Any] = dict(counted)
    if counted and request.duration is not None:
        raise request.refusal(
            f"--duration {request.duration}",
            f"--over {over.name} contradicts it: that load ends by its number of requests",
            "crossover.duration_contradicts_over",
            "leave --duration out",
        )
    if kind and kind.duration and not counted:
        settings |= window(kind, request.nanoseconds or DURATION)
    elif request.duration is not None and not counted:
        requests = (kind.requests if kind else ("loops",))[-1]
        raise request.refusal(
            f"--duration {request.duration}",
            f"load {basis.load} does not end by time",
            "crossover.load_without_time",
            f"give another --load, or --set load.settings.{requests}=...",
        )
    primitives = {each.name for each in basis.catalogue.primitives}
    if {request.a, request.b} <= primitives and has_persistent(known):
        settings[CONNECTIONS] = KEPT
    return {"kind": basis.load, "processes": 1, "settings": settings}


def _is_count(over: Swept, kind: Load) -> bool:
    """True if --over is the number of requests that each client makes."""
    return over.keys == tuple(f"{OF_LOAD}.{name}" for name in kind.requests[-1:])


def _values(keys: Sequence[str], is_plain: bool, sizes: Sequence[int | str]) -> dict[str, Any]:
    """Return the points of a sweep: the values of keys if every contender has these, otherwise tables."""
    if is_plain:
        return {"key": keys[0] if len(keys) == 1 else list(keys), "values": list(sizes)}
    return {"values": [{"name": str(size), "set": dict.fromkeys(keys, size)} for size in sizes]}


def _raised_note(over: Swept) -> dict[str, str]:
    raised = [f"{name} of the server is raised to {value:,}" for name, value in over.raised.items()]
    return {"note": f"{'; '.join(raised)}, because the range of {over.name} goes that far"} if raised else {}


def _own_set(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {"set": tables["set"]} if tables.get("set") else {}


# The second stage -------------------------------------------------------------------------------------------


def dense_study(
    coarse: Tables, sizes: Sequence[float], found: CrossoverSummary, trials: tuple[int, int]
) -> Tables:
    """Return the study of the second stage.

    Parameters
    ----------
    coarse
        The study of the first stage.
    sizes
        The sizes of the dense grid.
    found
        What the first stage found.
    trials
        How many of its trials were valid, and of how many.
    """
    study = deepcopy(coarse)
    (sweep,) = study["sweeps"]
    unit, first, last = sweep["crossover"]["unit"], sizes[0], sizes[-1]
    is_plain = "key" in sweep
    keys = keys_of(sweep["key"]) if is_plain else tuple(sweep["values"][0]["set"])
    sweep |= {
        "name": "dense",
        "title": f"Around the crossing: {amounts(first, last, unit)}",
        **_values(keys, is_plain, [_typed(size, unit) for size in sizes]),
    }
    sweep["crossover"] |= {
        "stage": "dense",
        "coarse_blocks": found.blocks,
        "coarse_trials": {"valid": trials[0], "all": trials[1]},
        "coarse": [point.model_dump(exclude={"stage"}, exclude_none=True) for point in found.points],
    }
    return study


def _typed(size: float, unit: str) -> int | str:
    """Return a number of an axis as a study has it: with a unit if the axis has one of a quantity."""
    for kind in (TIME, BIT_RATE, SHARE):
        if unit in kind.words:
            return kind.write(round(size * kind.words[unit]))
    return int(size)
