"""A comparison on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.compared import merged, metric_answers, to_know
from thunderherd.show.tables.main import metrics_table
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.text.layout import Sentence

__all__ = ["print_compared"]


def print_compared(
    summary: Summary, console: Console, report: Path | None, following: tuple[tuple[str, str], ...] = ()
) -> None:
    """Prints the answer in each metric, a row for each contender, what to know, and where the report is."""
    answers = metric_answers(summary)
    if any(each.is_undecided and any(pair.ratio for pair in each.pairs) for each in answers):
        following = (*following, ("Next", "the same with a longer --budget decides more"))
    elif answers and all(each.why_none for each in answers) and summary.trials.invalid:
        following = (
            *following,
            ("Next", "the same without other work on this machine, or a longer --budget"),
        )
    page = ResultPage(
        [Sentence(each.sentence, each.better, each.is_undecided) for each in merged(answers)],
        metrics_table(summary),
        to_know(summary),
        (("Report", "" if report is None else str(report)), *following),
    )
    print_result(page, console)
