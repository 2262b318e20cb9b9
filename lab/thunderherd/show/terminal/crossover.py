"""The answer of a search for a crossover on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.compared import to_know
from thunderherd.show.sentences.crossover import sentences
from thunderherd.show.tables.searches import sizes_table
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.text.figures import capital
from thunderherd.text.layout import Sentence
from thunderherd.text.printable import printable

__all__ = ["print_crossover"]


def print_crossover(
    stages: Sequence[Summary], console: Console, following: Sequence[tuple[str, str]] = ()
) -> None:
    """Prints the answer, a row for each size, and what to know. The last of the stages has the answer."""
    last = stages[-1]
    sweep = last.sweeps[0]
    found = sweep.crossover
    assert found is not None, "both studies have a crossover"
    answer, *caveats = map(printable, sentences(last, sweep))
    better = tuple(each.after for each in found.brackets) or ((found.ahead,) if found.ahead else ())
    is_undecided = found.outcome in (None, "nowhere_separated")
    # The caveats have the number of trials and the remarks of the sweep.
    _, *notes = to_know(last)
    notes = [each for each in notes if each not in sweep.remarks]
    page = ResultPage(
        [Sentence(answer, better if len(better) == 1 else (), is_undecided)],
        sizes_table(stages),
        [*map(capital, caveats), *notes],
        following,
    )
    print_result(page, console)
