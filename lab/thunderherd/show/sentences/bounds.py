"""How far from the machine's limits the best results of a run are, for readers."""

from __future__ import annotations

from typing import NamedTuple

from thunderherd.metrics.table import better_of
from thunderherd.records.limits import BoundSummary
from thunderherd.records.summary import PROCESS_CONTROL, Summary
from thunderherd.text.figures import Unit, decimals, number, printable, seconds_per, unit_of, words_of


class BoundInWords(NamedTuple):
    """What is said of a bound, or why a table has none."""

    text: str
    is_known: bool
    """Whether there is a bound."""

    @property
    def heading(self) -> str:
        return "Bound" if self.is_known else "No bound"


def bounds_in_words(summary: Summary) -> list[BoundInWords]:
    """For each bound: the best result, the bound, and the share; what is better than its bound says so. For
    each table whose own metric has none: the reason; those of one reason together."""
    told = [BoundInWords(_in_words(each, summary), is_known=True) for each in summary.bounds]
    without: dict[tuple[str, str], list[str | None]] = {}
    for each in summary.without_bounds:
        without.setdefault((each.metric, each.why), []).append(each.sweep)
    for (metric, why), sweeps in without.items():
        names = ", ".join(name for name in sweeps if name is not None)
        where = f", {'sweep' if len(sweeps) == 1 else 'sweeps'} {names}" if names else ""
        told.append(BoundInWords(printable(f"{words_of(metric)}{where}: {why}"), is_known=False))
    return told


def _in_words(each: BoundSummary, summary: Summary) -> str:
    study, is_control = summary.study, each.metric == PROCESS_CONTROL
    told = []
    for one in (each.value, each.bound):
        unit = unit_of(each.metric, study.normalise_connections, [one], study.counters)
        if is_control:
            unit = Unit(1, seconds_per(study.normalise_connections))
        told.append(f"{number(unit.of(one), decimals([unit.of(one)]))} {unit.name}".rstrip())
    value, bound = told
    share = _share(each.share)
    if is_control or better_of(each.metric) == "less":
        verdict = (
            f"{value} is below the bound, {bound}, which is {share} of it"
            if each.share > 1
            else f"of {value} the bound, {bound}, is {share}"
        )
    elif each.share > 1:
        verdict = f"{value} is above the bound: {share} of it, {bound}"
    else:
        verdict = f"{value} is {share} of the bound, {bound}"
    words = "process control" if is_control else words_of(each.metric)
    return f"{words}, {each.contender}: {verdict} ({each.why})"


def _share(share: float) -> str:
    """Of a bound, which may be far: with three digits, and the least of it in words."""
    return f"{100 * share:.3g} %" if share >= 0.01 else "below 1 %"
