"""Contrasts as written in files: sums over contenders, taken within each block, and their resolution.

A contrast is `constant` + the sum of weight x metric over contenders + the slope of a metric over a sweep.
Claims test and show them (`claim_file.py`); questions fill their answers from them (`question_tables.py`).
Loading expands each of them to weights over contenders, so judging only sees weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.errors import Problem
from thunderherd.study.checks.names import check_metric
from thunderherd.study.loading import Study
from thunderherd.toml.file import KeyPath, Problems, show, unknown
from thunderherd.toml.strict import StrictTable

Weight = Annotated[float, Field(ge=-1000, le=1000)]
Weights = Annotated[
    dict[str, Weight],
    Field(min_length=1, description='such as { prefork = 1, "prefork@pool_size=30" = -1 }'),
]
CONSTANT = ""
"""The name of the constant among a sum's contenders; no contender has this name."""

Of = Literal["value", "deviation", "logarithm"]


class SlopeTable(StrictTable):
    """The slope of a metric over a sweep: least squares over its points, in each block."""

    base: str = Field(description="a contender of the sweep, without its @SWEEP=POINT")
    sweep: str = Field(description="the name of a sweep whose points are numbers")
    minus: str | None = Field(default=None, description="a contender whose slope is subtracted")
    weight: Weight = Field(default=1.0, description="a factor; -1 reverses the direction")


class SumTable(StrictTable):
    """The keys that contrasts and figures share; `metric` if it differs from the claim's or question's."""

    metric: str | None = Field(
        default=None, description='a metric of each trial, such as "clients_per_worker_sd"'
    )
    weights: Weights | None = Field(
        default=None, description='such as { prefork = 1, "prefork@pool_size=30" = -1 }'
    )
    slope: SlopeTable | None = Field(
        default=None, description='such as { base = "prefork", sweep = "pool_size" }'
    )
    constant: float = Field(
        default=0.0,
        description="added to the sum, in the metric's own unit; of a ratio, the logarithm of a factor",
    )
    less: str | None = Field(
        default=None,
        description='a metric that is subtracted in each trial, such as "client.task_clock"',
    )
    of: Of = Field(
        default="value",
        description='"value"; "deviation": its distance from the median of that contender\'s blocks; '
        '"logarithm": the contrast is about a ratio, shown as one, with weights of 1 and -1',
    )


class ContrastTable(SumTable):
    """A test or a figure as written in its file."""

    label: str = Field(min_length=1, description="a few words")
    group: str | None = Field(
        default=None, description="tests of one group count as one, which holds if they all do"
    )
    margin: float | None = Field(
        default=None,
        gt=0,
        description="the largest difference that does not matter, in the metric's own unit; of a ratio, its "
        "logarithm. Null: by margin_percent",
    )


class StraightnessTable(StrictTable):
    """The straightness of the line of a slope."""

    base: str = Field(description="a contender of the sweep, without its @SWEEP=POINT")
    sweep: str = Field(description="the name of a sweep whose points are numbers")


class FigureTable(ContrastTable):
    """A figure, which may also be a ratio or the straightness of a line."""

    r_squared: StraightnessTable | None = Field(
        default=None,
        description="instead of weights: the share of a metric's variation over a sweep that a straight line "
        'explains, in each block, such as { base = "prefork", sweep = "pool_size" }',
    )
    over: Weights | None = Field(default=None, description="the weights of the ratio's denominator")


class Contrast(BaseModel):
    """`constant` + the sum of weight x metric over contenders, within a block; `label` names it.

    With `less` it is of the metric minus that other one, of the same trial. `margin` is the largest
    difference that does not matter: a sum like `weights`, with the constant under `CONSTANT`. None: every one
    matters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    label: str
    metric: str
    weights: dict[str, float]
    constant: float = 0.0
    less: str | None = None
    of: Of = "value"
    group: str | None = None
    margin: dict[str, float] | None = None

    def metrics(self) -> list[str]:
        """Return the metrics that it needs of each contender."""
        return [self.metric, *([self.less] if self.less else [])]

    def contenders(self) -> set[str]:
        """Return the contenders that it needs."""
        return set(self.weights)


class Figure(Contrast):
    """A number to show: a contrast, a ratio or the straightness of a line.

    With `over` it is the ratio of two contrasts. With `points`, the number of each contender's point, it is
    R² of the straight line through the metric at these points.
    """

    over: dict[str, float] | None = None
    points: dict[str, float] | None = None

    def contenders(self) -> set[str]:
        """Return the contenders that it needs."""
        return {*self.weights, *(self.over or ()), *(self.points or ())}


# Names ------------------------------------------------------------------------------------------------------


def known_contenders(study: Study) -> list[str]:
    """Return every contender that the study declares, whether this run has it or not."""
    return [*(each.name for each in study.contenders), *study.absent]


def points_of(study: Study, sweep: str) -> dict[str, float | None]:
    """Return the points of a sweep and their numbers, including those that this run leaves out."""
    found: dict[str, float | None] = {}
    for each in study.sweeps:
        if each.name == sweep:
            found |= {point.name: point.number for point in each.points}
    for name in known_contenders(study):
        _, own, point = parted(name)
        if own == sweep:
            found.setdefault(point, _number(point))
    return found


def parted(name: str) -> tuple[str, str, str]:
    """Split a contender's name into base, sweep and point; the latter two are empty in the main table."""
    base, _, rest = name.partition("@")
    sweep, _, point = rest.partition("=")
    return base, sweep, point


def at_point(base: str, sweep: str, point: str) -> str:
    """Return the name of a contender at a point of a sweep."""
    return f"{base}@{sweep}={point}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def declared_sweeps(study: Study) -> list[str]:
    """Return the names of all sweeps, including those that this run leaves out."""
    names = [each.name for each in study.sweeps]
    return list(dict.fromkeys([*names, *(parted(name)[1] for name in study.absent if "@" in name)]))


def bases_of(study: Study, sweep: str) -> list[str]:
    """Return the contenders of a sweep, without @SWEEP=POINT."""
    names = [parted(name) for name in known_contenders(study)]
    return list(dict.fromkeys(base for base, own, _ in names if own == sweep))


# Checking ---------------------------------------------------------------------------------------------------


def check_sum(table: SumTable, here: KeyPath, study: Study, problems: Problems) -> None:
    """Check that a contrast's contenders, sweep, metric and weights exist and make sense."""
    for key, name in (("metric", table.metric), ("less", table.less)):
        if name is not None:
            check_metric(name, (*here, key), study.measure.asked, problems)
    if table.of == "logarithm" and (table.slope or table.less):
        problems.add(
            (*here, "of"),
            "a ratio takes no slope or less",
            code="claims.ratio_of_more_than_weights",
            hint="give weights alone",
        )
    straightness = getattr(table, "r_squared", None)
    if straightness is not None:
        _check_straightness(table, straightness, here, study, problems)
    elif table.weights is None and table.slope is None:
        problems.add(
            here, "neither weights nor slope", code="claims.no_weights", hint="give one of them, or both"
        )
    check_weights(table.weights or {}, (*here, "weights"), study, problems)
    check_weights(getattr(table, "over", None) or {}, (*here, "over"), study, problems)
    if table.slope is not None:
        _check_slope(table.slope, (*here, "slope"), study, problems)


def check_weights(weights: Mapping[str, float], here: KeyPath, study: Study, problems: Problems) -> None:
    """Check that each weight is of a contender of the study and is not zero."""
    names = known_contenders(study)
    for name, weight in weights.items():
        if name not in names:
            problems.add((*here, name), unknown_contender(name, study))
        elif weight == 0:
            problems.add((*here, name), f"{name} = 0", code="claims.zero_weight", hint="leave it out")


def unknown_contender(name: str, study: Study) -> Problem:
    """Return what is wrong with a contender's name; for a contender of a sweep, with which part of it."""
    base, sweep, point = parted(name)
    if "@" not in name:
        main = [each for each in known_contenders(study) if "@" not in each]
        if not main and (sweeps := declared_sweeps(study)):
            hint = "write " + ", ".join(f"{name}@{each}=POINT" for each in sweeps)
            message = f"no such contender {show(name)}: the study has no main table"
            return Problem(message, "claims.unknown_contender", hint)
        return unknown("contender", name, main, "claims")
    if sweep not in (sweeps := declared_sweeps(study)):
        part = unknown("sweep", sweep, sweeps, "claims")
    elif base not in (bases := bases_of(study, sweep)):
        part = unknown(f"contender of sweep {sweep}", base, bases, "claims")
    else:
        part = unknown(f"point of sweep {sweep}", point, points_of(study, sweep), "claims")
    return replace(part, message=f"no such contender {show(name)}: {part.message}")


def _check_straightness(
    table: SumTable, straightness: StraightnessTable, here: KeyPath, study: Study, problems: Problems
) -> None:
    """Check that there is such a line, and that the figure has no other keys."""
    line = SlopeTable(base=straightness.base, sweep=straightness.sweep)
    _check_slope(line, (*here, "r_squared"), study, problems)
    others = ("weights", "slope", "over", "less", "constant")
    if given := [name for name in others if getattr(table, name, None)]:
        problems.add(
            (*here, "r_squared"),
            f"r_squared with {' and '.join(given)}",
            code="claims.r_squared_with_others",
            hint="r_squared is a figure by itself",
        )


def _check_slope(slope: SlopeTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if slope.sweep not in (sweeps := declared_sweeps(study)):
        problems.add((*here, "sweep"), unknown("sweep", slope.sweep, sweeps, "claims"))
        return
    bases, points = bases_of(study, slope.sweep), points_of(study, slope.sweep)
    for key, base in (("base", slope.base), ("minus", slope.minus)):
        if base is not None and base not in bases:
            problems.add((*here, key), unknown(f"contender of sweep {slope.sweep}", base, bases, "claims"))
    if slope.minus == slope.base:
        problems.add(
            (*here, "minus"),
            f"minus = {show(slope.minus)} is the base itself",
            code="claims.minus_itself",
            hint="name another contender of the sweep",
        )
    if slope.weight == 0:
        problems.add((*here, "weight"), "weight = 0", code="claims.zero_weight", hint="leave slope out")
    names_only = [name for name, number in points.items() if number is None]
    if names_only:
        problems.add(
            (*here, "sweep"),
            f"sweep {slope.sweep} has points that are no numbers ({', '.join(names_only)})",
            code="claims.points_without_numbers",
            hint="it has no slope; use weights",
        )
    elif len(set(points.values())) < 2:
        problems.add(
            (*here, "sweep"), f"sweep {slope.sweep} has one point and no slope", code="claims.single_point"
        )


# Resolving --------------------------------------------------------------------------------------------------


def weights_of(table: SumTable, study: Study) -> dict[str, float]:
    """Return a checked contrast's weights over contenders, with its slope expanded, without zeros."""
    weights = dict(table.weights or {})
    if (slope := table.slope) is not None:
        numbers = points_of(study, slope.sweep)
        signs = {slope.base: 1.0, **({slope.minus: -1.0} if slope.minus else {})}
        for base, sign in signs.items():
            for point, weight in straight_line(numbers).slope.items():
                name = at_point(base, slope.sweep, point)
                weights[name] = weights.get(name, 0.0) + sign * slope.weight * weight
    return {name: weight for name, weight in weights.items() if weight}


@dataclass(frozen=True)
class Line:
    """A straight line through values at points: its slope, and its value at zero.

    Each is a sum of weight x value over the points; these are the weights.
    """

    slope: dict[str, float]
    start: dict[str, float]


def straight_line(numbers: Mapping[str, float | None]) -> Line:
    """Return the least-squares line; it needs two different numbers. Points without a number are left out."""
    known = {name: number for name, number in numbers.items() if number is not None}
    mean = sum(known.values()) / len(known)
    squares = sum((number - mean) ** 2 for number in known.values())
    slope = {name: (number - mean) / squares for name, number in known.items()}
    return Line(slope, {name: 1 / len(known) - mean * weight for name, weight in slope.items()})


def resolved_contrast(
    table: ContrastTable, metric: str, study: Study, margin_percent: float | None = None
) -> Contrast:
    """Return a checked test; `metric` and `margin_percent` are its claim's."""
    return Contrast(
        label=table.label,
        metric=table.metric or metric,
        weights=weights_of(table, study),
        constant=table.constant,
        less=table.less,
        of=table.of,
        group=table.group,
        margin=_margin(table, margin_percent),
    )


def _margin(table: ContrastTable, percent: float | None) -> dict[str, float] | None:
    """Return the largest difference that does not matter: a number, or a share of what a test subtracts.

    A slope subtracts nothing of which a share would mean something.
    """
    if table.margin is not None:
        return {CONSTANT: table.margin}
    if not percent:
        return None
    if table.of == "logarithm":
        return {CONSTANT: math.log1p(percent / 100)}
    if table.slope is not None:
        return None
    sums = {**(table.weights or {}), CONSTANT: table.constant}
    return {name: -weight * percent / 100 for name, weight in sums.items() if weight < 0} or None


def resolved_figure(table: SumTable, label: str, metric: str, study: Study) -> Figure:
    """Return a checked figure; `metric` is its claim's or question's."""
    return Figure(
        label=label,
        metric=table.metric or metric,
        weights=weights_of(table, study),
        constant=table.constant,
        less=table.less,
        of=table.of,
        over=getattr(table, "over", None),
        points=_points(getattr(table, "r_squared", None), study),
    )


def _points(straightness: StraightnessTable | None, study: Study) -> dict[str, float] | None:
    """Return the points of a checked line, by contender."""
    if straightness is None:
        return None
    numbers = points_of(study, straightness.sweep)
    return {
        at_point(straightness.base, straightness.sweep, point): number
        for point, number in numbers.items()
        if number is not None
    }


# What a run does not have -----------------------------------------------------------------------------------


def left_out_here(names: set[str], study: Study) -> list[str]:
    """Return, in words, which of the contenders this machine cannot run."""
    reasons = {name: why for sweep in study.sweeps for name, why in sweep.absent.items()}
    alike: dict[str, list[str]] = {}
    for name in sorted(names & set(reasons)):
        alike.setdefault(reasons[name], []).append(name)
    return [
        f"{' and '.join(found)} {'was' if len(found) == 1 else 'were'} left out: {why}"
        for why, found in alike.items()
    ]


def outside_this_size(names: set[str], study: Study) -> list[str]:
    """Return, in words, which of the contenders this size does not run; each reason once."""
    here = {name for sweep in study.sweeps for name in sweep.absent}
    missing = sorted(names & (set(study.absent) - here))
    reasons: dict[str, list[str]] = {}
    for name in missing:
        reasons.setdefault(study.absent[name], []).append(name)
    return [f"this run does not have {_some(found)}: {why}" for why, found in reasons.items()]


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
