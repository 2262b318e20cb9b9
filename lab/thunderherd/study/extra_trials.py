"""The contenders of a study that have extra trials, and the counters of these trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.counter_names import called
from thunderherd.records.extra_trials import (
    MOST_CONTENDERS,
    WHAT_EXPLAINS,
    CostTable,
    CountingTable,
    ExtraTrialsTable,
)
from thunderherd.study.checks.names import check_counter
from thunderherd.study.file.tables import StudyForm
from thunderherd.study.resolved import Contender, Sweep
from thunderherd.toml.file import Problems, unknown

Table = TypeVar("Table", bound=ExtraTrialsTable)


def choose_contenders(
    name: str,
    table: Table,
    contenders: Sequence[Contender],
    sweeps: Sequence[Sweep],
    absent: Mapping[str, str],
    problems: Problems,
) -> Table:
    """Return a table of extra trials with its contenders in this run; unknown names are problems.

    By default these are the contenders of the main table. Counted trials also include those at the first and
    the last point of each sweep. Other extra trials take those at the last point if there is no main table.

    Parameters
    ----------
    name
        The name of the table in the study.
    table
        The table as written.
    contenders
        The contenders of this run.
    sweeps
        The sweeps of this run.
    absent
        The declared contenders that do not take part in this run, with the reasons.
    problems
        Receives the problems.
    """
    names = [each.name for each in contenders]
    for index, each in enumerate(table.contenders):
        if each not in names and each not in absent:
            problems.add((name, "contenders", index), unknown("contender", each, names))
    if not table.trials:
        return table.model_copy(update={"contenders": []})
    if table.contenders:
        chosen = [*dict.fromkeys(each for each in table.contenders if each in names)]
    else:
        main = [each.name for each in contenders if each.sweep is None]
        points = {
            sweep.name: {sweep.points[place].name for place in ((0, -1) if table.at_both_ends else (-1,))}
            for sweep in sweeps
            if sweep.points
        }
        at_points = [
            each.name for each in contenders if each.sweep and each.point in points.get(each.sweep, ())
        ]
        chosen = [*main, *at_points] if table.at_both_ends else main or at_points
    return table.model_copy(update={"contenders": chosen})


def choose_cost_contenders(
    form: StudyForm,
    contenders: Sequence[Contender],
    sweeps: Sequence[Sweep],
    absent: Mapping[str, str],
    problems: Problems,
) -> CostTable:
    """Return the contenders whose extra trials measure what counting costs.

    There are none if the study requests no counter. By default they are a few of the contenders that other
    extra trials take, spread evenly. Controls are left out, since they only vary another contender.
    """
    table = choose_contenders("counting_cost", form.counting_cost, contenders, sweeps, absent, problems)
    if not form.measure.counters:
        return table.model_copy(update={"contenders": []})
    if form.counting_cost.contenders:
        return table
    controls = {each.name for each in contenders if each.control_of is not None}
    own = [name for name in table.contenders if name not in controls]
    few = min(len(own), MOST_CONTENDERS)
    chosen = {own[round(place * (len(own) - 1) / max(1, few - 1))] for place in range(few)}
    return table.model_copy(update={"contenders": [name for name in own if name in chosen]})


def check_counters(table: CountingTable, catalogue: Catalogue, problems: Problems) -> CountingTable:
    """Return the table with all its counters under the engine's names, and those that explain differences.

    If there are counted trials, unknown counters are problems.
    """
    for index, name in enumerate(table.counters if table.trials else ()):
        check_counter(name, ("counting", "counters", index), catalogue, problems)
    names = dict.fromkeys(called(name, catalogue) for name in (*WHAT_EXPLAINS, *table.counters))
    return table.model_copy(update={"counters": [*names]})
