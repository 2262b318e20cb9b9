"""The verdict of a gate: the shape of its JSON, published as docs/generated/reference/gate.schema.json."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from thunderherd.gate.calibration import Calibration
from thunderherd.gate.study import Question
from thunderherd.judge.claims.blocks_needed import smallest_found
from thunderherd.records.summary import ClaimSummary, Estimate, Record, Summary, TrialRecord

__all__ = [
    "EXIT_STATUS",
    "NOT_SLOWER",
    "SLOWER",
    "UNDECIDED",
    "GateResult",
    "GateRow",
    "result_of",
    "together",
]

Outcome = Literal["not slower", "slower", "undecided"]

NOT_SLOWER: Outcome = "not slower"
SLOWER: Outcome = "slower"
UNDECIDED: Outcome = "undecided"

EXIT_STATUS: dict[Outcome, int] = {NOT_SLOWER: 0, SLOWER: 1, UNDECIDED: 125}
"""The exit status of each outcome. `git bisect run` skips a commit with 125, and stops at 128 and more."""

OF_CLAIMS: dict[str, Outcome] = {"supported": NOT_SLOWER, "refuted": SLOWER}


class GateRow(Record):
    """Head compared with base in one metric, in one place of the study."""

    metric: str = Field(description="the metric")
    sweep: str | None = Field(description="the sweep of the study. Null: its main table")
    point: str | None = Field(description="the point of the sweep. Null: the main table")
    base: Estimate | None = Field(description="the figure of base, in the metric's own unit. Null: none")
    head: Estimate | None = Field(description="the figure of head, in the metric's own unit. Null: none")
    slowdown_percent: Estimate | None = Field(
        description="by how much head is slower, percent: the ratio of costs minus one; negative: head is "
        "faster. Null: no block has both"
    )
    margin_percent: float = Field(description="the slowdown that is allowed, percent")
    would_find_percent: float | None = Field(
        description="the smallest slowdown that this many blocks would have found with the chance `power`, "
        "by their spread, percent. Null: too few blocks"
    )
    verdict: Outcome = Field(description="whether head is slower by more than the margin")
    why: str = Field(description="reason of the verdict")
    blocks_needed: int | None = Field(
        description="expected number of blocks in all for a verdict. Null: it has one, or more than 10,000"
    )


class GateResult(Record):
    """A gate that has ended."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kind: Literal["gate"] = "gate"
    verdict: Outcome = Field(
        description="slower: in at least one row; not slower: in no row; undecided: neither is shown"
    )
    exit_status: int = Field(description="0: not slower; 1: slower; 125: undecided")
    sentence: str = Field(description="the verdict in words")
    base: str = Field(description="what base is")
    head: str = Field(description="what head is")
    rows: list[GateRow] = Field(description="one for each metric and place")
    power: float = Field(description="the chance in `would_find_percent`")
    blocks: int = Field(description="number of blocks that count")
    seconds: float = Field(description="time of all trials, seconds")
    seconds_needed: float | None = Field(
        description="expected time of a gate with a verdict, seconds. Null: this has one, or it is unknown"
    )
    alpha: float = Field(description="the chance of any false verdict slower, and of any false not slower")
    calibration: Calibration | None = Field(
        default=None, description="how often gates of a server with itself were wrong here. Null: unknown"
    )
    notes: list[str] = Field(description="what to know beside the figures")
    directory: str = Field(description="the results of the run")


def result_of(
    summary: Summary,
    trials: Sequence[TrialRecord],
    questions: Sequence[Question],
    labels: tuple[str, str],
    *,
    power: float,
    pilot_seconds: float,
    directory: str,
    calibration: Calibration | None,
    notes: Sequence[str],
) -> GateResult:
    """Return the verdict of a gate from its run, without the sentence, which `page` writes."""
    claims = {each.id: each for each in summary.claims}
    rows = [_row(each, claims[each.id], summary, power) for each in questions]
    verdict = together([each.verdict for each in rows])
    seconds = sum(each.wall_seconds for each in trials)
    blocks = summary.study.blocks
    return GateResult(
        verdict=verdict,
        exit_status=EXIT_STATUS[verdict],
        sentence="",
        base=labels[0],
        head=labels[1],
        rows=rows,
        power=power,
        blocks=blocks,
        seconds=seconds,
        seconds_needed=_seconds_needed(rows, verdict, blocks, seconds, pilot_seconds),
        alpha=summary.study.alpha,
        calibration=calibration,
        notes=list(notes),
        directory=directory,
    )


def together(verdicts: Sequence[Outcome]) -> Outcome:
    """Return the verdict over all metrics: one slower metric makes head slower."""
    if SLOWER in verdicts:
        return SLOWER
    return NOT_SLOWER if verdicts and all(each == NOT_SLOWER for each in verdicts) else UNDECIDED


def _row(question: Question, claim: ClaimSummary, summary: Summary, power: float) -> GateRow:
    test: dict[str, Any] = next((each for each in claim.contrasts if each["kind"] == "test"), {})
    figures = {each.name: each.metrics.get(question.metric) for each in summary.contenders}
    factor, taken = question.factor, [each.alpha for each in summary.study.looks if each.taken]
    shift = None
    if test and taken:
        alpha = taken[-1] / len(summary.claims)
        shift = smallest_found(test["spread"], test["blocks"], alpha, power)
    return GateRow(
        metric=question.metric,
        sweep=question.sweep,
        point=question.point,
        base=figures.get(question.base),
        head=figures.get(question.head),
        slowdown_percent=_slowdown(test, factor),
        margin_percent=question.margin_percent,
        would_find_percent=None if shift is None else 100 * (factor * math.exp(shift) - 1),
        verdict=OF_CLAIMS.get(claim.verdict, UNDECIDED),
        why=claim.why,
        blocks_needed=claim.blocks_needed,
    )


def _slowdown(test: dict[str, Any], factor: float) -> Estimate | None:
    """Return the ratio of costs minus one in percent: the contrast is `factor` / that ratio."""
    if not test or test["value"] is None:
        return None

    def percent(end: float | None) -> float | None:
        return None if not end else 100 * (factor / end - 1)

    value = percent(test["value"])
    assert value is not None, "a ratio is above zero"
    return Estimate(
        value=value,
        low=percent(test["high"]),
        high=percent(test["low"]),
        confidence=test["confidence"],
        blocks=test["blocks"],
    )


def _seconds_needed(
    rows: Sequence[GateRow], verdict: Outcome, blocks: int, seconds: float, pilot_seconds: float
) -> float | None:
    """Return the budget that is expected to decide: a budget also pays for the pilot."""
    open_rows = [each for each in rows if each.verdict == UNDECIDED]
    if verdict != UNDECIDED or not blocks or not all(each.blocks_needed for each in open_rows):
        return None
    most = max(each.blocks_needed or 0 for each in open_rows)
    return pilot_seconds + max(most, blocks) * seconds / blocks
