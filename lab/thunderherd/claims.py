"""Judges the claims of a study's source by the blocks of a run.

A claim holds if each of its contrasts (a sum of weight x metric over contenders, within a block) is above
zero.

- *Supported*: each contrast is shown to be above zero. All must be, so none of their tests needs a correction
  (intersection-union test): the claim's p is the largest of them.
- *Refuted*: one contrast at least is shown to be below zero. Any may be, so the smallest p is multiplied
  by their number (Bonferroni).
- *Undecided*: neither; or the claims file says why this study cannot judge the claim yet.
- *Not testable here*: the run was made under other conditions than the claim's, or lacks what it needs.

Both directions are tested, so p is doubled, and Holm runs over the claims that were to be tested by all that
is known before the run (one that the run then leaves without its data stays in the family): of all the
verdicts supported and refuted of a study, one is false with probability alpha at most. Where a study has
several planned looks, alpha is the share of the look at which the run stands, which keeps that promise
however early it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thunderherd.claims_file import Claim, Contrast, Figure, load_claims
from thunderherd.figures import count, decimals, number, percent, span
from thunderherd.records import ClaimSummary, ClaimVerdict, Interval
from thunderherd.samples import signed_rank
from thunderherd.statistics import contrast, holm
from thunderherd.study import Study

__all__ = ["ClaimResult", "Ratio", "alpha_at", "judge", "ratio"]

ClaimResult = ClaimSummary
"""What is found out about one claim, as `summary.json` holds it."""

Values = Mapping[str, Mapping[str, Sequence[float]]]
"""By metric, then contender: one value a block, all contenders of a metric aligned."""


def judge(
    study: Study,
    values: Values,
    alpha: float | None = None,
    *,
    claims: Sequence[Claim] | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> list[ClaimResult]:
    """The verdict on every claim of the study's source, in the order of its claims file.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The blocks that count. A contender without a value in each of them is left out.
    alpha
        The chance of a false verdict over all claims; that of the look reached (`alpha_at`) if not given.
    claims
        Those of `study.claims_path` if not given.
    unavailable
        Why this machine does not offer a metric, by metric; shown where a claim needs it.

    Raises
    ------
    UserError
        The claims file has mistakes.
    """
    claims = load_claims(study) if claims is None else claims
    blocks = _blocks(values)
    alpha = alpha_at(study, blocks) if alpha is None else alpha
    cases = [_Case(claim, study, values, unavailable or {}) for claim in claims]
    tested = [case for case in cases if case.tests]
    # A claim that cannot be judged for what happened in the run stays in the family.
    family = sum(case.is_declared for case in cases)
    adjusted = holm([case.p for case in tested], family=family)
    p_values = {case.claim.id: p for case, p in zip(tested, adjusted, strict=True)}
    early = None
    if alpha is None:
        early = (
            f"the first planned look comes after {count(study.looks[0].blocks, 'block')}, there are {blocks}"
        )
    return [case.result(p_values.get(case.claim.id), family, alpha or 0.0, early) for case in cases]


def alpha_at(study: Study, blocks: int) -> float | None:
    """The share of alpha of the last planned look that so many blocks suffice for; None before the first."""
    reached = [look.alpha for look in study.looks if look.blocks <= blocks]
    return reached[-1] if reached else None


def _blocks(values: Values) -> int:
    return max((len(column) for columns in values.values() for column in columns.values()), default=0)


# One claim ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    """A contrast or figure of a claim with what the run says about it, in the unit in which it is shown."""

    label: str
    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    confidence: float
    blocks: int
    p_greater: float | None
    p_less: float | None
    weights: Mapping[str, float]
    over: Mapping[str, float] | None = None

    def text(self) -> str:
        """`row 1, process-control CPU: 1.42 s (1.26 to 1.84)`; `_units` says per what, and how sure."""
        digits = self.digits()
        if self.value is None:
            found = "no ratio, what it is divided by is not above zero"
        else:
            found = f"{number(self.value, digits)} {self.unit.partition(' per ')[0]}".rstrip()
        if self.low is None and self.high is None:
            return f"{self.label}: {found} (no interval)"
        return f"{self.label}: {found} ({span(self.low, self.high, digits)})"

    def digits(self) -> int:
        """Two significant digits of half the interval's width; without an interval, three of the value."""
        if self.low is not None and self.high is not None and self.high > self.low:
            return min(6, decimals([(self.high - self.low) / 2], significant=2))
        return decimals([self.value or self.low or 1.0])

    def as_dict(self, kind: Literal["test", "figure"]) -> dict[str, Any]:
        """For `summary.json`."""
        return {
            "kind": kind,
            "label": self.label,
            "metric": self.metric,
            "unit": self.unit,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "blocks": self.blocks,
            "p_greater": self.p_greater,
            "p_less": self.p_less,
            "weights": dict(self.weights),
            "over": dict(self.over) if self.over is not None else None,
        }

    def interval(self) -> Interval | None:
        if self.value is None:
            return None
        return Interval(
            value=self.value, low=self.low, high=self.high, confidence=self.confidence, blocks=self.blocks
        )


class _Case:
    """A claim, and what the run has to say about it."""

    def __init__(self, claim: Claim, study: Study, values: Values, unavailable: Mapping[str, str]) -> None:
        self.claim, self.study, self.values = claim, study, values
        lacks = [reason for each in claim.tests for reason in self._lacks(each, unavailable)]
        self.missing = list(dict.fromkeys(lacks))
        self.figures = [self._measure(each) for each in claim.figures if not self._lacks(each, unavailable)]
        self.shown_tests = [self._measure(each) for each in claim.tests if not self._lacks(each, unavailable)]
        # Only if the verdict can come from them.
        self.tests = [] if self.obstacle() else self.shown_tests

    def _lacks(self, needed: Contrast | Figure, unavailable: Mapping[str, str]) -> list[str]:
        """In words, what the run does not have of what a contrast needs."""
        columns = self.values.get(needed.metric, {})
        absent = sorted(needed.contenders() - set(columns))
        if not absent:
            return []
        if reason := unavailable.get(needed.metric):
            return [f"{needed.metric} is not available: {reason}"]
        anything = {name for others in self.values.values() for name in others}
        return [
            f"{name} has no {needed.metric}" if name in anything else f"the run has no valid trials of {name}"
            for name in absent
        ]

    @property
    def is_declared(self) -> bool:
        """Whether the claim was to be tested, by all that is known before the run."""
        return bool(self.claim.tests) and self._obstacle_before() is None

    def obstacle(self) -> tuple[ClaimVerdict, str] | None:
        """What stands in the way of a judgement, if anything does."""
        if before := self._obstacle_before():
            return before
        return ("not testable here", "; ".join(self.missing)) if self.missing else None

    def _obstacle_before(self) -> tuple[ClaimVerdict, str] | None:
        """What stands in the way whatever the run finds: the study's settings, or the claim itself."""
        claim = self.claim
        if claim.unmet:
            return "not testable here", "; ".join(claim.unmet)
        if claim.undecided_because:
            return "undecided", claim.undecided_because
        if claim.test_note and not claim.test_note_honoured:
            return "undecided", f"its test note is not followed: {claim.test_note}"
        return None

    @property
    def p_supported(self) -> float:
        return max(each.p_greater or 0.0 for each in self.tests)

    @property
    def p_refuted(self) -> float:
        return min(
            1.0, len(self.tests) * min(1.0 if each.p_less is None else each.p_less for each in self.tests)
        )

    @property
    def p(self) -> float:
        """Of "neither supported nor refuted", two-sided, before Holm."""
        return min(1.0, 2 * min(self.p_supported, self.p_refuted))

    # Verdict

    def result(self, p: float | None, family: int, alpha: float, early: str | None) -> ClaimResult:
        verdict, why = self._verdict(p, family, alpha, early)
        claim = self.claim
        shown = self.figures or self.shown_tests
        condition = f" ({claim.condition})" if claim.condition else ""
        return ClaimSummary(
            id=claim.id,
            statement=claim.statement,
            source_note="\n".join(self._notes()) or None,
            paper_figure=f"{claim.paper_figure}{condition}",
            our_figure="\n".join([*(each.text() for each in shown), *_units(shown)]),
            estimate=self._estimate(),
            verdict=verdict,
            why=why,
            contrasts=[
                *(each.as_dict("test") for each in self.shown_tests),
                *(each.as_dict("figure") for each in self.figures),
            ],
        )

    def _notes(self) -> list[str]:
        claim = self.claim
        notes = [claim.note] if claim.note else []
        if claim.paper_data_supports != "yes":
            notes.append(f"does the source's own data support it? {claim.paper_data_supports}")
        if claim.test_note:
            notes.append(
                f"to be tested with: {claim.test_note}; here: {claim.test_note_honoured or 'not done'}"
            )
        if claim.reading:
            notes.append(f"read as: {claim.reading}")
        return notes

    def _estimate(self) -> Interval | None:
        """The claim in one figure: its ratio, or else the difference that is least clearly above zero."""
        ratios = [each for each in self.figures if each.over is not None]
        tests = sorted(self.shown_tests, key=lambda each: each.p_greater or 0.0, reverse=True)
        shown = [*ratios, *tests, *self.figures]
        return shown[0].interval() if shown else None

    def _verdict(
        self, p: float | None, family: int, alpha: float, early: str | None
    ) -> tuple[ClaimVerdict, str]:
        if obstacle := self.obstacle():
            return obstacle
        if early or p is None:
            return "undecided", early or "there are no blocks"
        over = f"Holm's p {p:.2g}, {count(family, 'claim')}"
        if p <= alpha and self.p_supported <= self.p_refuted:
            one = len(self.tests) == 1
            what = "the difference is" if one else f"each of the {len(self.tests)} differences is"
            return "supported", f"{what} above zero ({over})"
        if p <= alpha:
            below = min(self.tests, key=lambda each: each.p_less or 0.0)
            return "refuted", f"below zero: {below.text()} ({over})"
        # Those whose own test, two-sided, stays above alpha; if there are none, it is the number of claims.
        open_ones = [each for each in self.tests if 2 * (each.p_greater or 0.0) > alpha]
        if not open_ones:
            return "undecided", f"too few blocks for so many claims ({over})"
        return (
            "undecided",
            f"not shown to be above zero: {'; '.join(each.text() for each in open_ones)} ({over})",
        )

    # Measuring

    def _measure(self, what: Contrast | Figure) -> _Measured:
        columns = self.values[what.metric]
        confidence = 1 - self.study.measure.alpha
        scale, unit = _unit(what.metric, self.study.measure.normalise_connections)
        if isinstance(what, Figure) and what.over is not None:
            found = ratio(_sums(columns, what.weights), _sums(columns, what.over), confidence)
            return _Measured(
                label=what.label,
                metric=what.metric,
                unit="times",
                value=found.value,
                low=found.low,
                high=found.high,
                confidence=found.confidence,
                blocks=found.blocks,
                p_greater=None,
                p_less=None,
                weights=what.weights,
                over=what.over,
            )
        scaled = {name: [value * scale for value in columns[name]] for name in what.weights}
        tested = contrast(scaled, what.weights, confidence)
        return _Measured(
            label=what.label,
            metric=what.metric,
            unit=unit,
            value=tested.value,
            low=tested.low,
            high=tested.high,
            confidence=tested.confidence,
            blocks=tested.blocks,
            p_greater=tested.p_greater,
            p_less=tested.p_less,
            weights=what.weights,
        )


CPU = "server_cpu_per_connection"


def _unit(metric: str, connections: int) -> tuple[float, str]:
    """By what a metric is multiplied to be shown, and its unit then."""
    if metric == CPU:
        return connections, f"s per {connections:,} connections"
    if metric.startswith("clients_per_worker"):
        return 1, "connections"
    return 1, "s" if metric.endswith("_seconds") else ""


def _units(shown: Sequence[_Measured]) -> list[str]:
    """One line, below the figures, that says what holds for them all; none where there are no figures."""
    per = {each.unit for each in shown if " per " in each.unit}
    bounded = {each.confidence for each in shown if each.low is not None or each.high is not None}
    parts = [*sorted(per), *([f"in brackets {percent(min(bounded))} intervals"] if bounded else [])]
    return [f"({'; '.join(parts)})"] if parts else []


def _sums(columns: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """The weighted sum of each block."""
    sums: NDArray[np.float64] = np.sum(
        [weight * np.asarray(columns[name], dtype=np.float64) for name, weight in weights.items()], axis=0
    )
    return sums


# Ratios ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """A ratio above zero with its interval. None as `high`: no bound; as `value` too: no ratio can be
    told.
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    blocks: int


def ratio(above: NDArray[np.float64], below: NDArray[np.float64], confidence: float = 0.95) -> Ratio:
    """How many times `below` goes into `above`, paired by block; for amounts that may come near zero.

    The interval holds every r > 0 for which the signed-rank test does not reject "above - r x below is
    symmetric about zero": Fieller's idea with ranks, so it agrees with the test of the same contrast and
    needs no block's own ratio, which explodes where its denominator is small. Where `below` is not
    clearly above zero it has no upper end. The estimate is the r at which the two tails are equal: the
    median of (a_i + a_j) / (b_i + b_j).
    """
    first, second = np.triu_indices(above.size)
    upper, lower = above[first] + above[second], below[first] + below[second]
    # A pair whose denominator is not above zero says "larger than any ratio" if its numerator is.
    ratios = np.where(lower > 0, upper / np.where(lower > 0, lower, 1), np.where(upper > 0, math.inf, 0.0))
    value = float(np.median(ratios))
    turns = upper[lower != 0] / lower[lower != 0]  # where the sign of a pair changes, and with it a rank
    ends = np.unique(np.concatenate([[0.0], turns[turns > 0]]))
    inside = [
        (ends[k], ends[k + 1] if k + 1 < ends.size else math.inf)
        for k in range(ends.size)
        if _compatible(above, below, _between(ends, k), 1 - confidence)
    ]
    if not inside:
        return Ratio(value if math.isfinite(value) else None, None, None, confidence, above.size)
    low, high = float(inside[0][0]), float(inside[-1][1])
    return Ratio(
        value if math.isfinite(value) and value > 0 else None,
        low if low > 0 else None,
        high if math.isfinite(high) else None,
        confidence,
        above.size,
    )


def _between(ends: NDArray[np.float64], k: int) -> float:
    """A ratio inside the k-th gap, where no signed rank changes."""
    if k + 1 < ends.size:
        return float((ends[k] + ends[k + 1]) / 2)
    return float(ends[k] * 2 + 1)


def _compatible(
    above: NDArray[np.float64], below: NDArray[np.float64], candidate: float, alpha: float
) -> bool:
    return signed_rank(above - candidate * below).p_two_sided > alpha
