"""A gate in words and as a table, for a terminal and for Markdown: how far it is, and its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thunderherd.gate.calibration import Calibration
from thunderherd.gate.verdict import NOT_SLOWER, SLOWER, UNDECIDED, GateResult, GateRow
from thunderherd.judge.claims.blocks_needed import smallest_found
from thunderherd.records.summary import Estimate, Summary
from thunderherd.search.compare_study import COMMON_RATE
from thunderherd.show.sentences.compared import head_and_phrase
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, count, duration, listed, number, unit_of

if TYPE_CHECKING:
    from thunderherd.gate.study import Question
    from thunderherd.show.sentences.claims_so_far import SoFar

__all__ = ["calibrated", "facts", "found_by_calibrated", "gate_so_far", "gate_table", "sentence", "slowdown"]

STYLES = {NOT_SLOWER: "faster", SLOWER: "slower", UNDECIDED: "undecided"}
"""The kind of cell of each verdict, which has its colour."""


def sentence(found: GateResult) -> str:
    """Return the verdict in one sentence."""
    slower = [each for each in found.rows if each.verdict == SLOWER]
    if slower:
        parts = [
            f"by {slowdown(each.slowdown_percent)} in {_subject(each)} (allowed: {each.margin_percent:g} %)"
            for each in slower
        ]
        return f"Slower: head is slower than base {listed(parts)}."
    limits = listed([f"{each.margin_percent:g} % in {_subject(each)}" for each in _open_or_all(found)])
    if found.verdict == NOT_SLOWER:
        least = [each.would_find_percent for each in found.rows if each.would_find_percent is not None]
        would = f"; a slowdown of {max(least):.1f} % would have been found" if least else ""
        return f"Not slower: any slowdown of head is at most {limits}{would}."
    return (
        f"Undecided after {count(found.blocks, 'block')}: head may or may not be slower than base "
        f"by more than {limits}."
    )


def _open_or_all(found: GateResult) -> list[GateRow]:
    """Return the rows without a verdict; all, if each has one."""
    return [each for each in found.rows if each.verdict == UNDECIDED] or found.rows


def gate_so_far(found: SoFar, questions: Sequence[Question], power: float) -> list[str]:
    """Return a line of progress: the slowdown that the time budget can find, by the blocks so far."""
    results = {each.id: each for each in found.results}
    parts = []
    for each in questions:
        test: dict[str, Any] = next(iter(results[each.id].contrasts), {})
        shift = smallest_found(test.get("spread"), found.room, found.alpha / len(questions), power)
        if shift is not None:
            percent = 100 * (each.factor * math.exp(shift) - 1)
            parts.append(f"{percent:.1f} % in {_subject(each)}")
    if not parts:
        return []
    return [
        f"after {count(found.blocks, 'block')}: the budget has room for about {count(found.room, 'block')}, "
        f"enough to find a slowdown of {listed(parts)} with a chance of {100 * power:g} %"
    ]


def gate_table(found: GateResult, summary: Summary) -> Table:
    """Return the table: a row for each metric and place."""
    percent = f"{100 * found.power:g} %"
    columns = (
        Column("metric", "name"),
        Column("base"),
        Column("head"),
        Column("head is slower by"),
        Column("allowed"),
        Column("would find"),
        Column("verdict", "short"),
    )
    rows = tuple(
        Row(
            (
                Cell(_subject(each)),
                *_figures(each, summary),
                Cell(_percent(each)),
                Cell(f"{each.margin_percent:g} %"),
                Cell(ABSENT if each.would_find_percent is None else f"{each.would_find_percent:.1f} %"),
                Cell(each.verdict, kind=STYLES[each.verdict]),
            )
        )
        for each in found.rows
    )
    notes = [
        "would find: the smallest slowdown that this many blocks would have found with a chance of "
        f"{percent}, by their spread"
    ]
    return Table("", columns, rows, tuple(notes))


def facts(found: GateResult) -> list[tuple[str, str]]:
    """Return the lines below the verdict, each as a heading and a text."""
    known = [("Base", found.base), ("Head", found.head)]
    open_rows = [each for each in found.rows if each.verdict == UNDECIDED]
    if found.verdict == UNDECIDED:
        known += [("Undecided", f"{_subject(each)}: {each.why}") for each in open_rows]
        known.append(("Next", _needed(found)))
    elif open_rows:
        metrics = listed([_subject(each) for each in open_rows])
        known.append(("Undecided", f"{metrics}: the gate ended first, since one slower metric ends it"))
    known.append(("False alarms", calibrated(found.calibration)))
    known += [("Note", each) for each in found.notes]
    return known


def calibrated(found: Calibration | None) -> str:
    """Return how often gates of a server with itself alarmed on this machine."""
    if found is None:
        return "not measured on this machine; `thunderherd gate --calibrate N` measures it"
    allowed = " or ".join(f"{each:g} %" for each in dict.fromkeys(found.margins.values()))
    return (
        f"{found.alarms} of {count(found.gates, 'gate')} of {_calibrated_server(found)} with itself on this "
        f"machine, {found.undecided} undecided ({found.measured[:10]}, at most "
        f"{duration(found.budget_seconds)} each, allowed: {allowed})"
    )


def found_by_calibrated(found: Calibration, metrics: Sequence[str]) -> list[str]:
    """Return a line for a gate that is about to run: what gates of a calibration would have found."""
    known = found.would_find_percent
    parts = [f"{known[each]:.1f} % in {_metric(each)}" for each in metrics if each in known]
    if not parts:
        return []
    return [
        f"before the run: {count(found.gates, 'gate')} of {_calibrated_server(found)} with itself here would "
        f"have found a slowdown of {listed(parts)} with a chance of {100 * found.power:g} % "
        f"(at most {duration(found.budget_seconds)} each)"
    ]


def _calibrated_server(found: Calibration) -> str:
    return f"{found.server} ({found.workload})" if found.workload else found.server


def _needed(found: GateResult) -> str:
    if found.seconds_needed is None:
        return (
            "a longer --budget, a larger --margin, or a quieter machine; the blocks so far do not show "
            "which one would help"
        )
    return (
        f"a new gate with a longer --budget, about {duration(found.seconds_needed)}, is expected to decide; "
        "this one has used up its error rate"
    )


def _subject(of: GateRow | Question) -> str:
    name = _metric(of.metric)
    return f"{name} ({of.sweep} = {of.point})" if of.sweep not in (None, COMMON_RATE) else name


def _metric(metric: str) -> str:
    return head_and_phrase(metric)[0]


def _percent(row: GateRow) -> str:
    return slowdown(row.slowdown_percent)


def slowdown(found: Estimate | None) -> str:
    """Return `5.2 % (4.1 to 6.3)`; a negative one is a speedup."""
    if found is None:
        return ABSENT
    ends = [ABSENT if end is None else f"{end:.1f}".replace("-", "−") for end in (found.low, found.high)]
    return f"{found.value:.1f} % ({ends[0]} to {ends[1]})".replace("-", "−", 1 if found.value < 0 else 0)


def _figures(row: GateRow, summary: Summary) -> tuple[Cell, Cell]:
    known: list[Estimate] = [each for each in (row.base, row.head) if each is not None]
    unit = unit_of(
        row.metric,
        summary.study.normalise_connections,
        [each.value for each in known],
        summary.study.counters,
    )

    def cell(found: Estimate | None) -> Cell:
        return Cell(ABSENT if found is None else f"{number(unit.of(found.value), 2)} {unit.name}".strip())

    return cell(row.base), cell(row.head)
