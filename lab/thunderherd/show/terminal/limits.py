"""The machine's limits on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from thunderherd.records.limits import MachineLimits
from thunderherd.show.tables.limits import about, answer, limits_table, point_in_words
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.text.layout import Sentence

__all__ = ["print_limits"]

MEANING = "thunderherd list limits"
PRICES = "thunderherd explain DIR (DIR: a run's results)"


def print_limits(limits: MachineLimits, console: Console) -> None:
    """Prints the range of the limits, their table, and which of them could not be measured."""
    table = replace(limits_table(limits), caption="", notes=())
    page = ResultPage(
        [Sentence(answer(limits))],
        table,
        [*([limits.disturbed] if limits.disturbed else []), *_unavailable(limits), *about(limits)],
        [("Meaning", MEANING), ("Next", PRICES)],
        others_in="the output of --json",
    )
    print_result(page, console)


def _unavailable(limits: MachineLimits) -> Sequence[str]:
    """Lists the limits without a figure; those with the same reason are one note."""
    places: dict[str, list[str]] = {}
    for each in limits.unavailable:
        name = f"{each.limit} ({point_in_words(each.place, each.bytes)})"
        places.setdefault(each.reason, []).append(name)
    return [f"not measured: {', '.join(names)}: {reason}" for reason, names in places.items()]
