"""Judges the claims of a study's source by the blocks of a run.

A claim holds if each of its contrasts (a sum of weight x metric over contenders, within a block) is above
zero.

- *Supported*: each contrast is shown to be above zero. All must be, so no test needs a correction
  (intersection-union test): the claim's p is the largest of them.
- *Refuted*: at least one contrast is shown to be below zero. Any may be, so the smallest p is multiplied by
  their number (Bonferroni).
- A claim may need only `enough` of its contrasts ("in most cases"), k of n. It is supported if at least k
  are shown to be above zero, and refuted if at least n - k + 1 are shown to be below. The j-th smallest of
  n p-values, times n - j + 1, tests that at least j are (partial conjunction, Benjamini and Heller 2008,
  Biometrics 64). With k = n these are the two tests above. The contrasts of one group count as one, which
  holds if all of them do.
- *No difference that matters*: at least one contrast is shown to lie inside the claim's margin, by two
  one-sided tests (Schuirmann 1987): it is neither above nor below zero by as much as the margin. Any may be,
  so the smallest p is multiplied by their number. A contrast that is shown to be below zero, and not shown to
  lie inside its margin, refutes the claim all the same.
- *Undecided*: none of these is shown; or trials of the run lack what the claim needs; or the claims file
  says why this study cannot judge the claim; or the size repeats runs without judging, or has only some parts
  of the study.
- *Not testable here*: the conditions of the run differ from the claim's, or this machine does not offer what
  the claim needs, or cannot run one of its contenders.

Both directions are tested, so p is doubled. Holm's method runs over the claims that were to be tested by all
that is known before the run. A claim that the run then leaves without data stays in that family. So among all
verdicts supported and refuted of a study, any is false with probability at most alpha. The verdicts of no
difference are a family of their own, with the same alpha.

If a study has several planned looks, the claims are judged at each look with its share of alpha, and a
verdict stands at later looks. A claim with a verdict of a family no longer counts in that family: all of its
verdicts before the first false one are true. The promise holds however early the run stopped.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from thunderherd.claims.claim_file import Claim, load_claims
from thunderherd.claims.contrast_tables import Contrast
from thunderherd.judge.claims.blocks_needed import MOST, expected_blocks
from thunderherd.judge.claims.contrasts import (
    LOGARITHM,
    ContrastResult,
    all_lack,
    is_out_of_reach,
    lacks,
    measure,
    units,
)
from thunderherd.records.summary import ClaimSummary, ClaimVerdict, Estimate
from thunderherd.statistics.columns import Values
from thunderherd.statistics.verdicts import holm
from thunderherd.study.loading import Look, Study
from thunderherd.text.figures import count
from thunderherd.trial.caveats import Shares, copied_after_all, remarks

__all__ = [
    "ClaimResult",
    "alpha_at",
    "at_least",
    "contenders_of",
    "judge",
    "judged_after",
    "open_after",
    "open_claims",
]

DIFFERENT: tuple[ClaimVerdict, ...] = ("supported", "refuted")
ALIKE: ClaimVerdict = "no difference that matters"

ClaimResult = ClaimSummary
"""The result for one claim, as in `summary.json`."""


def judge(
    study: Study,
    values: Values,
    alpha: float | None = None,
    *,
    claims: Sequence[Claim] | None = None,
    unavailable: Mapping[str, str] | None = None,
    scaled: Shares | None = None,
) -> list[ClaimResult]:
    """Return the verdict on every claim of the study's source, in the order of its claims file.

    The verdict of a claim is that of the first look that had one; its figures are those of all blocks.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The blocks that count. A contender that lacks a value in one of them is left out.
    alpha
        The chance of any false verdict over all claims, judged once; by default that of each look.
    claims
        By default those of `study.claims_path`.
    unavailable
        Why this machine does not offer a metric, by metric; shown if a claim needs it.
    scaled
        Which figures are extrapolated, by contender and metric; reported with each figure that uses them.

    Raises
    ------
    UserError
        The claims file has mistakes.
    """
    claims = load_claims(study) if claims is None else claims
    verdicts, over, several = _verdicts(study, values, alpha, claims, unavailable or {}, scaled or {})
    shown = [_Case(claim, study, values, unavailable or {}, scaled or {}) for claim in claims]
    return [case.result(verdicts[case.claim.id], over, several) for case in shown]


def _verdicts(
    study: Study,
    values: Values,
    alpha: float | None,
    claims: Sequence[Claim],
    unavailable: Mapping[str, str],
    scaled: Shares,
) -> tuple[dict[str, _Verdict], _Over, bool]:
    """Return the verdicts by claim, what those of the last look were judged by, and if there were several."""
    last_alpha, early = judged_after(study, values, alpha)
    blocks = blocks_of(values)
    reached = [look for look in study.looks if look.blocks <= blocks]
    if alpha is not None or early:
        reached = [Look(blocks=blocks, alpha=last_alpha)]
    # A claim that cannot be judged for what happened in the run stays in the family.
    declared = sum(claim.is_testable for claim in claims)
    verdicts: dict[str, _Verdict] = {}
    for place, look in enumerate(reached):
        seen = values if look.blocks == blocks else _first(values, look.blocks)
        cases = [
            _Case(claim, study, seen, unavailable, scaled)
            for claim in claims
            if place == 0 or verdicts[claim.id].verdict == "undecided"
        ]
        over = _Over(
            declared - sum(each.verdict in DIFFERENT for each in verdicts.values()),
            declared - sum(each.verdict == ALIKE for each in verdicts.values()),
            look.alpha,
            early,
            look.blocks,
        )
        verdicts |= _at_look(cases, over)
    return verdicts, over, len(reached) > 1


def _at_look(cases: Sequence[_Case], over: _Over) -> dict[str, _Verdict]:
    """Return the verdicts of one look on the claims that have none yet."""
    tested = [case for case in cases if case.tests]
    different, alike = (
        dict(zip([case.claim.id for case in tested], holm(p_values, family=family), strict=True))
        for p_values, family in (
            ([case.p for case in tested], over.family),
            ([case.p_alike for case in tested], over.alike_family),
        )
    )
    return {
        case.claim.id: _Verdict(
            *case.verdict(different.get(case.claim.id), alike.get(case.claim.id), over), over.blocks
        )
        for case in cases
    }


def blocks_of(values: Values) -> int:
    """Return the number of blocks that count."""
    return max((len(column) for columns in values.values() for column in columns.values()), default=0)


def _first(values: Values, blocks: int) -> Values:
    """Return the values of the first blocks."""
    return {
        metric: {name: column[:blocks] for name, column in columns.items()}
        for metric, columns in values.items()
    }


@dataclass(frozen=True)
class _Verdict:
    """A verdict with its reason, after a number of blocks."""

    verdict: ClaimVerdict
    why: str
    blocks: int


@dataclass(frozen=True)
class _Over:
    """What the claims are judged by at a look.

    That is the number of claims without a verdict of each family, alpha, why nothing may be judged yet, and
    the number of blocks.
    """

    family: int
    alike_family: int
    alpha: float
    early: str | None
    blocks: int


def alpha_at(study: Study, blocks: int) -> float | None:
    """Return alpha of the last planned look that there are enough blocks for; None before the first."""
    reached = [look.alpha for look in study.looks if look.blocks <= blocks]
    return reached[-1] if reached else None


def judged_after(study: Study, values: Values, alpha: float | None = None) -> tuple[float, str | None]:
    """Return the alpha that these values may be judged at; or 0, and why nothing may be judged yet."""
    if study.repetitions is not None:
        return 0.0, f"size {study.size} has {count(study.repetitions, 'repetition')} and no looks"
    blocks = blocks_of(values)
    alpha = alpha_at(study, blocks) if alpha is None else alpha
    if alpha is not None:
        return alpha, None
    first = count(study.looks[0].blocks, "block")
    return 0.0, f"the first look comes after {first}; this run has {blocks}"


# What is still open -----------------------------------------------------------------------------------------


def open_claims(claims: Sequence[Claim], results: Sequence[ClaimResult]) -> list[Claim]:
    """Return the claims that more blocks may decide."""
    tests = {each.id: sum(one["kind"] == "test" for one in each.contrasts) for each in results}
    measured = [claim for claim in claims if tests[claim.id] == len(claim.tests)]
    return _open(claims, {each.id: each.verdict for each in results}, measured)


def open_after(study: Study, values: Values, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that more blocks than these may decide, without the figures of a judgement."""
    verdicts, _, _ = _verdicts(study, values, None, claims, {}, {})
    measured = [claim for claim in claims if not all_lack(claim.tests, values, {})]
    return _open(claims, {name: each.verdict for name, each in verdicts.items()}, measured)


def _open(
    claims: Sequence[Claim], verdicts: Mapping[str, ClaimVerdict], measured: Sequence[Claim]
) -> list[Claim]:
    """Return the claims without a verdict, of those that the blocks have all figures of."""
    if any(claim.refuted_ends and verdicts[claim.id] == "refuted" for claim in claims):
        return []
    return [claim for claim in measured if verdicts[claim.id] == "undecided" and claim.is_testable]


def contenders_of(claims: Sequence[Claim]) -> set[str]:
    """Return the contenders that the tests and figures of claims need."""
    return {name for claim in claims for each in (*claim.tests, *claim.figures) for name in each.contenders()}


# One claim ------------------------------------------------------------------------------------------------


class _Case:
    """A claim with the run's figures for it."""

    def __init__(
        self,
        claim: Claim,
        study: Study,
        values: Values,
        unavailable: Mapping[str, str],
        scaled: Shares,
    ) -> None:
        self.claim, self.scaled = claim, scaled
        self.missing = all_lack(claim.tests, values, unavailable)
        self.study, self.values, self.unavailable = study, values, unavailable
        self.shown_tests = self._measured(claim.tests)
        # Only if the verdict can come from them.
        self.tests = [] if self.obstacle() else self.shown_tests

    def _measured(self, contrasts: Sequence[Contrast]) -> list[ContrastResult]:
        """Return the results of those contrasts that the run has the figures for."""
        return [
            measure(each, self.study, self.values)
            for each in contrasts
            if not lacks(each, self.values, self.unavailable)
        ]

    @cached_property
    def figures(self) -> list[ContrastResult]:
        """The figures beside the source's. No verdict needs them, and the interval of a ratio takes long."""
        return self._measured(self.claim.figures)

    def obstacle(self) -> tuple[ClaimVerdict, str] | None:
        """Return the verdict without a test and its reason, if something prevents a judgement."""
        if before := self.claim.obstacle():
            return before
        if not self.missing:
            return None
        # What only some trials lack, another run may have.
        never = any(is_out_of_reach(each, self.values, self.unavailable) for each in self.claim.tests)
        return "not testable here" if never else "undecided", "; ".join(self.missing)

    @property
    def groups(self) -> list[list[ContrastResult]]:
        """The tests by group; a test without a group is one by itself."""
        found: dict[str, list[ContrastResult]] = {}
        groups = {test.label: test.group for test in self.claim.tests}
        for place, each in enumerate(self.tests):
            found.setdefault(groups.get(each.label) or f"\0{place}", []).append(each)
        return list(found.values())

    @property
    def enough(self) -> int:
        """The number of groups that must hold."""
        return self.claim.enough or len(self.groups)

    @property
    def p_supported(self) -> float:
        largest = sorted(max(each.p_greater or 0.0 for each in group) for group in self.groups)
        return at_least(self.enough, largest)

    @property
    def p_refuted(self) -> float:
        smallest = sorted(
            min(1.0, len(group) * min(1.0 if each.p_less is None else each.p_less for each in group))
            for group in self.groups
        )
        return at_least(len(smallest) - self.enough + 1, smallest)

    @property
    def p(self) -> float:
        """The two-sided p of "neither supported nor refuted", before Holm's correction."""
        return min(1.0, 2 * min(self.p_supported, self.p_refuted))

    @property
    def p_alike(self) -> float:
        """The p of "too many contrasts reach their margins", before Holm's correction."""
        smallest = sorted(min(1.0, 2 * len(group) * min(map(_p_inside, group))) for group in self.groups)
        return at_least(len(smallest) - self.enough + 1, smallest)

    def _blocks_needed(self, over: _Over) -> int | None:
        """Return after how many blocks a verdict is expected; None: more than anybody would run."""
        # Before the first look, that of the last one: the claims that it decides are those that need most.
        alpha = over.alpha or self.study.looks[-1].alpha or self.study.measure.alpha
        return expected_blocks(self.groups, self.enough, alpha / max(1, over.family))

    # Verdict

    def result(self, found: _Verdict, over: _Over, several_looks: bool) -> ClaimResult:
        """Return the record of the claim: a verdict of a look, with the figures of this case."""
        verdict, why = found.verdict, found.why
        if several_looks and verdict in (*DIFFERENT, ALIKE):
            why = f"{why}, after {count(found.blocks, 'block')}"
        if verdict in (*DIFFERENT, ALIKE):
            tested = {name for each in self.tests for name in each.weights}
            why = "; ".join([why, *self._scales(tested)])
        # One or two blocks do not tell how much blocks vary.
        is_open = verdict == "undecided" and min((each.blocks for each in self.tests), default=0) > 2
        needed = self._blocks_needed(over) if is_open else None
        claim = self.claim
        shown = self.figures or self.shown_tests
        condition = f" ({claim.condition})" if claim.condition else ""
        return ClaimSummary(
            id=claim.id,
            statement=claim.statement,
            source_note="\n".join(self._notes()) or None,
            paper_figure=f"{claim.paper_figure}{condition}" if claim.paper_figure else None,
            our_figure="\n".join([*(each.text() + self._remarks(each) for each in shown), *units(shown)]),
            estimate=self._estimate(),
            verdict=verdict,
            why=f"{why}; {_needs(needed)}" if is_open and not over.early else why,
            blocks_needed=needed,
            decided_at=found.blocks if verdict in (*DIFFERENT, ALIKE) else None,
            contrasts=[
                *(each.as_dict("test") for each in self.shown_tests),
                *(each.as_dict("figure") for each in self.figures),
            ],
        )

    def _remarks(self, shown: ContrastResult) -> str:
        """Return the caveats of every figure.

        They say how this run differs from the source's experiment, which zero-copy sends were copied after
        all, and what is extrapolated.
        """
        about = {*shown.weights, *(shown.over or ())}
        texts = [*self._scales(about), *self.claim.remarks, *copied_after_all(self.study, self.values, about)]
        metrics = [shown.metric, *([shown.less] if shown.less else [])]
        texts += remarks(self.scaled, metrics, {*about, *(shown.points or ())})
        return f" [{'; '.join(texts)}]" if texts else ""

    def _scales(self, names: Container[str]) -> list[str]:
        """Return how these contenders are scaled down from the source's experiment."""
        scales = [each.scale for each in self.study.contenders if each.name in names]
        return list(dict.fromkeys(each for each in scales if each))

    def _notes(self) -> list[str]:
        claim = self.claim
        notes = [claim.note] if claim.note else []
        if claim.paper_data_supports not in (None, "yes"):
            notes.append(f"the source's own data support it: {claim.paper_data_supports}")
        if claim.test_note:
            how = claim.test_note_honoured or "not taken into account"
            notes.append(f"test note: {claim.test_note}; this run: {how}")
        if claim.reading:
            notes.append(f"read as: {claim.reading}")
        return notes

    def _estimate(self) -> Estimate | None:
        """Return the claim in one figure: its ratio, else the difference that is least clearly above zero."""
        ratios = [each for each in self.figures if each.over is not None]
        tests = sorted(self.shown_tests, key=lambda each: each.p_greater or 0.0, reverse=True)
        shown = [*ratios, *tests, *self.figures]
        return shown[0].interval() if shown else None

    def verdict(self, p: float | None, p_alike: float | None, over: _Over) -> tuple[ClaimVerdict, str]:
        """Return the verdict and its reason, from the p-values after Holm's correction."""
        if obstacle := self.obstacle():
            return obstacle
        if over.early or p is None or p_alike is None:
            return "undecided", over.early or "no block counts"
        family = count(over.family, "claim")
        how = f"Holm's p {p:.2g}, {family}"
        refutes = p <= over.alpha and self.p_refuted < self.p_supported
        below = min(self.tests, key=lambda each: each.p_less or 0.0)
        beyond = refutes and 2 * _p_inside(below) > over.alpha
        if p_alike <= over.alpha and not beyond:
            inside = min(self.tests, key=_p_inside)
            alike = count(over.alike_family, "claim")
            several = len(self.tests) > 1
            inside_all = sum(2 * _p_inside(each) <= over.alpha for each in self.tests)
            how_many = f"{inside_all} of the {len(self.tests)} differences that it needs"
            which = f"inside the margin: {how_many}, such as " if several else ""
            return ALIKE, f"{which}{inside.within()} (Holm's p {p_alike:.2g}, {alike})"
        if self.claim.enough:
            return self._verdict_of_some(p <= over.alpha, how)
        if refutes:
            return "refuted", f"below zero: {below.text()} ({how})"
        if p <= over.alpha:
            one = len(self.tests) == 1
            what = "the difference is" if one else f"each of the {len(self.tests)} differences is"
            return "supported", f"{what} above zero ({how})"
        # The tests whose own two-sided p exceeds alpha; if none does, the number of claims is the reason.
        open_ones = [each for each in self.tests if 2 * (each.p_greater or 0.0) > over.alpha]
        if not open_ones:
            return "undecided", f"too few blocks for so many claims ({how})"
        return (
            "undecided",
            f"not significantly above zero: {'; '.join(each.text() for each in open_ones)} ({how})",
        )

    def _verdict_of_some(self, decided: bool, over: str) -> tuple[ClaimVerdict, str]:
        """Return the verdict on a claim that holds if enough of its tests do."""
        holds = sum(all(_is_above(each) for each in group) for group in self.groups)
        seen = f"{holds} of {len(self.groups)} estimates are above zero, {self.enough} are enough ({over})"
        if not decided:
            return "undecided", f"not significant: {seen}"
        return ("supported" if self.p_supported <= self.p_refuted else "refuted"), seen


def _needs(blocks: int | None) -> str:
    if blocks is None:
        return f"more than {MOST:,} blocks would be needed"
    return f"about {blocks:,} blocks would decide it"


def _p_inside(each: ContrastResult) -> float:
    """Return the p of "the difference reaches its margin"; 1 without a margin."""
    return 1.0 if each.p_inside is None else each.p_inside


def _is_above(each: ContrastResult) -> bool:
    """Return whether the estimate is above zero, or, of a ratio, above one."""
    return (each.value or 0.0) > (1.0 if each.of == LOGARITHM else 0.0)


def at_least(count: int, p_values: Sequence[float]) -> float:
    """Return the p of "fewer than `count` of these hypotheses are false", from ascending p-values."""
    return min(1.0, (len(p_values) - count + 1) * p_values[count - 1])
