"""Loads of several targets, judged, on the terminal and as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.console import Console

from thunderherd.judge.summary.judged_loads import JudgedLoads
from thunderherd.show.sentences.compared import compared_in_words, head_and_phrase
from thunderherd.show.tables.model import Cell, Column, Row, Table, estimate_cell
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.statistics.estimates import Estimate
from thunderherd.text.figures import Unit, count, decimals, listed, unit_of
from thunderherd.text.layout import Sentence
from thunderherd.text.shown import ShownEstimate

__all__ = ["judged_as_json", "print_judged"]


def print_judged(found: JudgedLoads, console: Console) -> None:
    """Prints the answer in each metric, a row for each group, what to know, and what to do next."""
    sentences = []
    for metric in found.metrics:
        text, best = _answer(found, metric)
        verdicts = {pair.verdict for pair in found.pairs if pair.metric == metric}
        is_decided = bool(verdicts & {"faster", "slower"})
        sentences.append(
            Sentence(text, tuple(best) if is_decided else (), not is_decided and "undecided" in verdicts)
        )
    print_result(
        ResultPage(sentences, _table(found), _notes(found), _next(found), "the output of --json"), console
    )


def judged_as_json(found: JudgedLoads) -> dict[str, Any]:
    """Gives the answers, the groups with their estimates, and the notes, as `compare --json` does."""
    answers = []
    for metric in found.metrics:
        text, best = _answer(found, metric)
        pairs = [pair.model_dump(mode="json") for pair in found.pairs if pair.metric == metric]
        answers.append({"metric": metric, "sentence": text, "best": best, "pairs": pairs})
    return {
        "answers": answers,
        "contenders": [
            {
                "name": group.name,
                "files": [str(file) for file in group.files],
                "targets": found.targets[group.name],
                "metrics": {
                    metric: of_groups[group.name].model_dump(mode="json")
                    for metric, of_groups in found.estimates.items()
                },
            }
            for group in found.groups
        ],
        "workload": found.workload,
        "load": found.load,
        "blocks": found.blocks,
        "needed_blocks": found.needed,
        "notes": _notes(found),
    }


def _answer(found: JudgedLoads, metric: str) -> tuple[str, list[str]]:
    """Writes the answer in a metric, and lists the groups that no other beats."""
    pairs = [pair for pair in found.pairs if pair.metric == metric]
    return compared_in_words(pairs, metric, found.blocks, are_too_few=found.missing > 0)


def _table(found: JudgedLoads) -> Table:
    names = [group.name for group in found.groups]
    columns = [Column("Group", "name"), Column("Target", "words")]
    cells = [[Cell(name) for name in names], [Cell(listed(found.targets[name])) for name in names]]
    for metric, of_groups in found.estimates.items():
        unit = unit_of(metric, 1, [each.value for each in of_groups.values()], {})
        digits = decimals([unit.of(each.value) for each in of_groups.values()])
        head, _ = head_and_phrase(metric)
        columns.append(Column(f"{head} ({unit.name})"))
        cells.append([_cell(of_groups[name], unit, digits) for name in names])
    rows = tuple(Row(tuple(row)) for row in zip(*cells, strict=True))
    return Table(f"{found.workload}, {found.load}", tuple(columns), rows)


def _cell(found: Estimate, unit: Unit, digits: int) -> Cell:
    """Rounds an estimate, with its interval if it has a bound."""
    cell = estimate_cell(ShownEstimate(found.value, found.low, found.high), unit, digits)
    return cell if found.low is not None or found.high is not None else replace(cell, span="")


def _notes(found: JudgedLoads) -> list[str]:
    return [
        f"{count(len(found.groups), 'group')}, {count(found.blocks, 'block')} of one valid load each",
        *found.notes,
    ]


def _next(found: JudgedLoads) -> tuple[tuple[str, str], ...]:
    if found.missing:
        return (("Next", f"a verdict needs {count(found.missing, 'more load', 'more loads')} of each group"),)
    open_pairs = [pair for pair in found.pairs if pair.verdict == "undecided"]
    if open_pairs:
        return (("Next", "a new and larger number of blocks, chosen beforehand, finds smaller differences"),)
    return ()
