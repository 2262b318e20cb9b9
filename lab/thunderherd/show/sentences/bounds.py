"""The best results of a run compared with their bounds, in sentences."""

from __future__ import annotations

from typing import NamedTuple

from thunderherd.metrics.table import better_of
from thunderherd.records.limits import BoundSummary
from thunderherd.records.summary import PROCESS_CONTROL, Summary
from thunderherd.text.figures import Unit, decimals, number, seconds_per, unit_of, words_of
from thunderherd.text.printable import printable


class BoundInWords(NamedTuple):
    """A sentence about a bound, or about why a table has none."""

    text: str
    is_known: bool
    """True if there is a bound."""
    short: str
    """The same without the reasons of the bound."""

    @property
    def heading(self) -> str:
        return "Bound" if self.is_known else "No bound"


def bounds_in_words(summary: Summary) -> list[BoundInWords]:
    """Compares the best result with each bound, and explains which tables have no bound.

    Tables whose own metric has no bound for the same reason share a sentence.
    """
    sentences = []
    for bound in summary.bounds:
        short = _in_words(bound, summary)
        sentences.append(BoundInWords(f"{short} ({bound.why})", is_known=True, short=short))
    without: dict[tuple[str, str], list[str | None]] = {}
    for each in summary.without_bounds:
        without.setdefault((each.metric, each.why), []).append(each.sweep)
    for (metric, why), sweeps in without.items():
        names = ", ".join(name for name in sweeps if name is not None)
        where = f", {'sweep' if len(sweeps) == 1 else 'sweeps'} {names}" if names else ""
        text = printable(f"{words_of(metric)}{where}: {why}")
        sentences.append(BoundInWords(text, is_known=False, short=text))
    return sentences


def _in_words(each: BoundSummary, summary: Summary) -> str:
    study, is_control = summary.study, each.metric == PROCESS_CONTROL
    texts = []
    for figure in (each.value, each.bound):
        unit = unit_of(each.metric, study.normalise_connections, [figure], study.counters)
        if is_control:
            unit = Unit(1, seconds_per(study.normalise_connections))
        texts.append(f"{number(unit.of(figure), decimals([unit.of(figure)]))} {unit.name}".rstrip())
    value, bound = texts
    share = _share(each.share)
    if is_control or better_of(each.metric) == "less":
        verdict = (
            f"{value}, below the bound of {bound}, which is {share} of it"
            if each.share > 1
            else f"{value}; the bound, {bound}, is {share} of it"
        )
    elif each.share > 1:
        verdict = f"{value}, above the bound: {share} of {bound}"
    else:
        verdict = f"{value}, {share} of the bound, {bound}"
    words = "process control" if is_control else words_of(each.metric)
    return f"{words}, {each.contender}: {verdict}"


def _share(share: float) -> str:
    """Writes a share with three digits, or `below 1 %`."""
    return f"{100 * share:.3g} %" if share >= 0.01 else "below 1 %"
