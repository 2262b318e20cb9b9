"""Explanations on the terminal: of one pair by cause, of several pairs with a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from thunderherd.records.explanation import Explanation
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.counting_cost import about_cpu_time
from thunderherd.show.sentences.explanation import (
    brief_legend,
    calls_that_differ,
    overview,
    reasons,
    remarks,
    sentence,
)
from thunderherd.show.tables.explanation import causes_table, pairs_table
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.text.layout import Sentence
from thunderherd.text.printable import printable

__all__ = ["Explained", "print_explained", "print_not_explained"]


@dataclass(frozen=True)
class Explained:
    """The explanations of a run, by pair: of the server, and of both sides."""

    pairs: Sequence[Sequence[Explanation]]
    notes: Sequence[str]
    """What to know about the run, behind the notes on the figures."""
    following: Sequence[tuple[str, str]]


def print_explained(found: Explained, summary: Summary, console: Console) -> None:
    """Prints one pair by cause, or several pairs with their largest causes."""
    of_all = [each for pair in found.pairs for each in pair]
    disturbed = [f"{summary.limits.disturbed}"] if summary.limits and summary.limits.disturbed else []
    about = [*about_cpu_time(summary), *remarks(of_all), *reasons(of_all), *disturbed]
    if len(found.pairs) == 1:
        ((first, *others),) = found.pairs
        answer = [_said(each) for each in (first, *others)]
        table = replace(causes_table(first), caption="")
        lines = [calls_that_differ(first), *about, *found.notes, *brief_legend(first)]
    else:
        firsts = [pair[0] for pair in found.pairs]
        is_undecided = not any(each.difference.is_shown for each in firsts)
        answer, table = (
            [Sentence(printable(overview(firsts)), (), is_undecided)],
            pairs_table(firsts, summary),
        )
        lines = [*about, *found.notes, *brief_legend(firsts[0])]
    print_result(ResultPage(answer, table, [*filter(None, lines)], found.following), console)


def _said(each: Explanation) -> Sentence:
    between = each.difference
    better = (each.a if between.value < 0 else each.b,) if between.is_shown else ()
    return Sentence(printable(sentence(each)), better, not between.is_shown)


def print_not_explained(
    why: str, notes: Sequence[str], following: Sequence[tuple[str, str]], console: Console
) -> None:
    """Prints why there is no explanation by cause, and what the samples show."""
    answer = [Sentence(printable(f"Not by cause: {why}"), (), is_undecided=True)]
    print_result(ResultPage(answer, None, notes, following), console)
