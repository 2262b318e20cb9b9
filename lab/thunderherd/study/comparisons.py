"""The pairs of contenders that a study compares, and the looks at which it compares them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from thunderherd.metrics.table import better_of
from thunderherd.study.file.contenders import MAIN, Configuration
from thunderherd.study.file.tables import StudyForm
from thunderherd.study.resolved import Comparison, Look


def compared_pairs(
    form: StudyForm, size: str, parts: Sequence[str], chosen: Sequence[Configuration]
) -> list[Comparison]:
    """Return each compared pair once for each of its metrics, in the order of its first declaration.

    With repetitions there is none, nor in a size that decides claims.

    Parameters
    ----------
    form
        The study.
    size
        The size that runs.
    parts
        The parts of the study that run.
    chosen
        The contenders that run.
    """
    if form.sizes[size].repetitions or form.sizes[size].decides == "claims":
        return []
    family: dict[tuple[str, frozenset[str]], Comparison] = {}
    here = {each.name for each in chosen}
    pairs = [pair for pair in _main_pairs(form) if here.issuperset(pair)] if MAIN in parts else []
    for metric in dict.fromkeys((form.measure.metric, *form.measure.further_metrics)):
        for a, b in pairs:
            pair = Comparison(a=a, b=b, metric=metric, better=better_of(metric))
            family.setdefault((metric, frozenset((a, b))), pair)
    for one, other in combinations(chosen, 2):
        sweep, point = one.sweep, one.point
        if sweep is None or point is None or sweep.compare == "none" or point is not other.point:
            continue
        for metric in dict.fromkeys((one.metric, *sweep.further_metrics)):
            family[metric, frozenset((one.name, other.name))] = Comparison(
                a=one.name,
                b=other.name,
                metric=metric,
                better=better_of(metric),
                sweep=sweep.name,
                point=point.name,
            )
    return list(family.values())


def _main_pairs(form: StudyForm) -> list[tuple[str, str]]:
    """Return the pairs of the main table, as declared."""
    tables = form.contenders
    pairs = [(pair[0], pair[1]) for pair in form.comparisons.pairs if len(pair) == 2]
    if form.comparisons.all_pairs:
        pairs += combinations((table.name for table in tables if not table.control_of), 2)
    return pairs + [(table.name, table.control_of) for table in tables if table.control_of]


def planned_looks(form: StudyForm, size: str) -> tuple[Look, ...]:
    """Return the planned looks of a size; with repetitions there is one, which spends no alpha."""
    # Imported here so that `thunderherd list` answers without numpy.
    from thunderherd.statistics import comparisons

    table = form.sizes[size]
    if table.repetitions is not None:
        return (Look(blocks=table.repetitions, alpha=0.0),)
    looks = comparisons.planned_looks(table.looks or (), form.measure.alpha, table.alpha_split or ())
    return tuple(Look(blocks=look.blocks, alpha=look.alpha) for look in looks)
