"""Which contenders of a study have trials in which more is counted, and whether its counters exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunderherd.catalogue import EVENT_OF_A_MACHINE, Catalogue
from thunderherd.counting_form import CountingTable
from thunderherd.study_file import Problems, unknown
from thunderherd.study_resolved import Contender, Sweep


def counted_apart(
    table: CountingTable,
    contenders: Sequence[Contender],
    sweeps: Sequence[Sweep],
    absent: Mapping[str, str],
    catalogue: Catalogue,
    problems: Problems,
) -> CountingTable:
    """The table with the names of those that take part in this run; what does not exist is a problem.

    Without names: those of the main table; of sweeps alone, those at the last point of each. `absent`:
    declared contenders that do not take part.
    """
    offered = [each.name for each in catalogue.counters if each.countable]
    for index, name in enumerate(table.counters if table.trials else ()):
        if name not in offered and not EVENT_OF_A_MACHINE.fullmatch(name):
            problems.add(("counting", "counters", index), unknown("counter", name, offered))
    names = [each.name for each in contenders]
    for index, name in enumerate(table.contenders):
        if name not in names and name not in absent:
            problems.add(("counting", "contenders", index), unknown("contender", name, names))
    if not table.trials:
        return table.model_copy(update={"contenders": []})
    if table.contenders:
        chosen = [*dict.fromkeys(name for name in table.contenders if name in names)]
    else:
        last = {sweep.name: sweep.points[-1].name for sweep in sweeps if sweep.points}
        main = [each.name for each in contenders if each.sweep is None]
        chosen = main or [
            each.name for each in contenders if each.sweep and last.get(each.sweep) == each.point
        ]
    return table.model_copy(update={"contenders": chosen})
