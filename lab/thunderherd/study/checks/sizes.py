"""Checks of the sizes of a study: parts, points, looks and their shares of alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from thunderherd.study.file.contenders import MAIN, point_name, points
from thunderherd.study.file.tables import StudyForm
from thunderherd.toml.file import KeyPath, Problems, show, unknown


def check_size(
    form: StudyForm, size: str, sweeps: Sequence[str], comparisons: int | None, problems: Problems
) -> None:
    """Check that a size has parts that exist, and either repetitions or looks.

    Parameters
    ----------
    form
        The study.
    size
        The size's name.
    sweeps
        The names of all sweeps, also if the form has none of them because one is not well formed.
    comparisons
        The number of comparisons, for which the first look must have enough blocks; None if unknown.
    problems
        Receives the problems.
    """
    table, key = form.sizes[size], ("sizes", size)
    names = [*([MAIN] if form.contenders else []), *sweeps]
    for index, part in enumerate(table.parts or ()):
        if part not in names:
            problems.add((*key, "parts", index), unknown("part", part, names))
        elif part in (table.parts or ())[:index]:
            message = f"parts = {show(table.parts)}: {show(part)} is named twice"
            problems.add(
                (*key, "parts", index), message, code="study.duplicate_part", hint="leave one of them out"
            )
    _check_points(form, size, sweeps, problems)
    if table.repetitions is not None:
        for name in ("looks", "alpha_split"):
            if getattr(table, name) is not None:
                problems.add(
                    (*key, name),
                    f"size {show(size)} has both {name} and repetitions",
                    code="study.looks_and_repetitions",
                    hint="give one of them",
                )
        return
    if table.looks is None or table.alpha_split is None:
        lacks = "neither looks nor repetitions"
        if table.looks is not None or table.alpha_split is not None:
            lacks = "no alpha_split" if table.alpha_split is None else "no looks"
        problems.add(
            key,
            f"size {show(size)} has {lacks}",
            code="study.no_looks",
            hint="give looks = [11] with alpha_split = [1.0], or repetitions = 3",
        )
        return
    _check_looks(form, size, table.looks, table.alpha_split, comparisons, problems)


def _check_points(form: StudyForm, size: str, names: Sequence[str], problems: Problems) -> None:
    """Check that the points of a size are points of their sweep."""
    sweeps = {sweep.name: index for index, sweep in enumerate(form.sweeps)}
    for name, chosen in form.sizes[size].points.items():
        key: KeyPath = ("sizes", size, "points", name)
        if name not in names:
            problems.add(key, unknown("sweep", name, names))
        if name not in sweeps:
            continue
        here: KeyPath = ("sweeps", sweeps[name])
        known = [point.name for point in points(form.sweeps[sweeps[name]], here)]
        if not chosen:
            problems.add(
                key,
                f"no points of sweep {name}",
                code="study.no_points",
                hint=f"known: {', '.join(known)}; or leave {name} out",
            )
        # If the user has overridden the sweep's values, the file's points need not be among them.
        for point in map(point_name, () if (*here, "values") in problems.overridden else chosen):
            if point not in known:
                problems.add(key, unknown(f"point of sweep {name}", point, known))


def _check_looks(
    form: StudyForm,
    size: str,
    looks: Sequence[int],
    split: Sequence[float],
    comparisons: int | None,
    problems: Problems,
) -> None:
    of_looks: KeyPath = ("sizes", size, "looks")
    of_split: KeyPath = ("sizes", size, "alpha_split")
    if any(later <= earlier for earlier, later in pairwise(looks)):
        hint = "each must be more than the one before"
        message = f"looks = {show(looks)} do not rise"
        problems.add(of_looks, message, code="study.looks_not_rising", hint=hint)
    if len(split) != len(looks):
        message = f"alpha_split = {show(split)}: {len(split)} shares for {len(looks)} looks"
        problems.add(of_split, message, code="study.shares_without_looks", hint="give one share a look")
    if any(share <= 0 for share in split) or not math.isclose(sum(split), 1):
        message = f"alpha_split = {show(split)}: sum {sum(split):g}"
        hint = "shares are above 0, and their sum is 1"
        problems.add(of_split, message, code="study.invalid_shares", hint=hint)
        return
    if not comparisons:
        return
    alpha = form.measure.alpha * split[0]
    # Imported here so that `thunderherd list` answers without numpy.
    from thunderherd.statistics.comparisons import first_look_blocks

    needed = first_look_blocks(comparisons, form.measure.alpha, split[0])
    if looks[0] < needed:
        problems.add(
            problems.blame(of_looks, of_split, ("measure", "alpha")),
            f"looks = {show(looks)}: the first look of size {show(size)} is too early",
            code="study.look_too_early",
            hint=f"{comparisons} comparisons at alpha {alpha:g} need at least {needed} blocks",
        )
