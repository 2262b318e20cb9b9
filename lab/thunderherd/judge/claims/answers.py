"""Answers the questions of a study's source: every sentence is filled with figures of the run.

The tests behind the words of all answers are one family (Holm, two-sided, at the alpha of the look reached),
separate from that of the claims. The best point is the one with the best estimate. The tests of all pairs of
points show which others do not differ significantly from it. These are a separate family, since the data
choose the best point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from thunderherd.claims.claim_file import load_questions
from thunderherd.claims.contrast_tables import outside_this_size
from thunderherd.claims.question_tables import Best, Question, VerdictWords
from thunderherd.judge.claims.claims import judged_after
from thunderherd.judge.claims.contrasts import ContrastResult, lacks, measure
from thunderherd.metrics.table import metric
from thunderherd.records.summary import QuestionSummary
from thunderherd.statistics.columns import Values, together
from thunderherd.statistics.samples import hodges_lehmann, signed_rank
from thunderherd.statistics.verdicts import holm
from thunderherd.study.loading import Study
from thunderherd.trial.caveats import Shares, copied_after_all, remarks

__all__ = ["NOT_JUDGED", "answers"]

NOT_JUDGED = "[not judged]"
"""The words instead of a verdict if no test may be made yet, or none at all."""


def answers(
    study: Study,
    values: Values,
    *,
    questions: Sequence[Question] | None = None,
    unavailable: Mapping[str, str] | None = None,
    scaled: Shares | None = None,
) -> list[QuestionSummary]:
    """Return the answer to every question of the study's source, in the order of its file.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The blocks that count.
    questions
        By default those of `study.claims_path`.
    unavailable
        Why this machine does not offer a metric, by metric.
    scaled
        Which figures are extrapolated, by contender and metric.

    Raises
    ------
    UserError
        The file has mistakes.
    """
    questions = load_questions(study) if questions is None else questions
    alpha, early = judged_after(study, values)
    verdicts = _verdicts(questions, study, values, unavailable or {}, alpha)
    return [
        _answer(question, study, values, unavailable or {}, scaled or {}, verdicts, alpha, early)
        for question in questions
    ]


# Words ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Verdict:
    """A tested contrast, its adjusted p, and the words that follow."""

    measured: ContrastResult
    p: float
    words: str
    outcome: str


def _verdicts(
    questions: Sequence[Question], study: Study, values: Values, unavailable: Mapping[str, str], alpha: float
) -> dict[tuple[str, str], _Verdict]:
    """Return the outcome of every test that can be made, by question and placeholder.

    The family has all tests, including those that cannot be made.
    """
    declared = {(each.id, name): words for each in questions for name, words in each.tests().items()}
    tested = {
        key: measure(words, study, values)
        for key, words in declared.items()
        if not lacks(words, values, unavailable)
    }
    p_values = [min(1.0, 2 * min(each.p_greater or 0.0, each.p_less or 0.0)) for each in tested.values()]
    adjusted = dict(zip(tested, holm(p_values, family=len(declared)), strict=True))
    return {
        key: _worded(declared[key], measured, adjusted[key], adjusted[key] <= alpha)
        for key, measured in tested.items()
    }


def _worded(words: VerdictWords, measured: ContrastResult, p: float, is_significant: bool) -> _Verdict:
    if not is_significant:
        return _Verdict(measured, p, words.open, "open")
    if (measured.p_greater or 0.0) <= (measured.p_less or 0.0):
        return _Verdict(measured, p, words.above, "above")
    return _Verdict(measured, p, words.below, "below")


# One question -----------------------------------------------------------------------------------------------


def _answer(
    question: Question,
    study: Study,
    values: Values,
    unavailable: Mapping[str, str],
    scaled: Shares,
    verdicts: Mapping[tuple[str, str], _Verdict],
    alpha: float,
    early: str | None,
) -> QuestionSummary:
    if outside := _outside(question, study):
        return QuestionSummary(
            id=question.id, text=question.text, answer=[outside], note=question.note, figures=[]
        )
    filled, figures = dict(question.given), list[dict[str, Any]]()
    for name, figure in question.figures.items():
        if missing := lacks(figure, values, unavailable):
            filled[name] = _missing(missing, study)
            continue
        measured = measure(figure, study, values)
        filled[name] = measured.figure(per=True)
        figures.append({"name": name, **measured.as_dict("figure")})
    for name, words in question.tests().items():
        verdict = verdicts.get((question.id, name))
        if verdict is None:
            filled[name] = _missing(lacks(words, values, unavailable), study)
            continue
        filled[name] = NOT_JUDGED if early else verdict.words
        tested = verdict.measured.as_dict("test")
        judged = {"p_adjusted": None if early else verdict.p, "outcome": None if early else verdict.outcome}
        figures.append({"name": name, **tested, **judged})
    for name, points in question.turns.items():
        found = {point: verdicts.get((question.id, f"{name}={point}")) for point in points}
        filled[name] = NOT_JUDGED if early else _turn(found)
    for name, best in question.best.items():
        filled[name] = _best(best, values, unavailable, alpha if early is None else None)
    about = {
        name
        for each in (*question.figures.values(), *question.tests().values())
        for name in each.contenders()
    }
    notes = [*([question.note] if question.note else []), *copied_after_all(study, values, about)]
    notes += _extrapolated(question, scaled)
    if early and (question.tests() or question.best):
        notes.append(f"nothing is judged: {early}")
    return QuestionSummary(
        id=question.id,
        text=question.text,
        answer=[sentence.format_map(filled) for sentence in question.answer],
        note="\n".join(notes) or None,
        figures=figures,
    )


def _extrapolated(question: Question, scaled: Shares) -> list[str]:
    """Return the notes on figures whose events were counted for a part of the time."""
    needed = [
        (each.metrics(), each.contenders())
        for each in (*question.figures.values(), *question.tests().values())
    ]
    needed += [([best.metric], {*best.points}) for best in question.best.values()]
    found: dict[str, set[str]] = {}
    for metrics, contenders in needed:
        for name in metrics:
            found.setdefault(name, set()).update(contenders)
    return [
        f"{name}: {remark}"
        for name, contenders in found.items()
        for remark in remarks(scaled, [name], contenders)
    ]


def _outside(question: Question, study: Study) -> str | None:
    """Return the text instead of an answer whose figures all belong to parts that this size leaves out."""
    needed = [*question.figures.values(), *question.tests().values()]
    names = {name for each in needed for name in each.contenders()}
    has_best = any(each.points for each in question.best.values())
    if has_best or not names or names - set(study.absent):
        return None
    reasons = outside_this_size(names, study)
    return f"[not measured: {'; '.join(reasons)}]" if reasons else None


def _missing(reasons: Sequence[str], study: Study) -> str:
    """Return the text instead of a figure that the run does not have."""
    known = {f"the run has no valid trials of {name}": f"{name}: {why}" for name, why in study.absent.items()}
    return f"[not measured: {'; '.join(known.get(reason, reason) for reason in reasons)}]"


def _turn(verdicts: Mapping[str, _Verdict | None]) -> str:
    """Return `between 250 and 1000 (from "is more than" to "is less than")`, or `nowhere (...)`."""
    known = [(point, verdict.words) for point, verdict in verdicts.items() if verdict]
    if not known:
        return "[not measured: no point has both]"
    changes = [
        f'between {point} and {following} (from "{words}" to "{others}")'
        for (point, words), (following, others) in pairwise(known)
        if words != others
    ]
    if changes:
        return " and ".join(changes)
    return f'nowhere ("{known[0][1]}" at {", ".join(point for point, _ in known)})'


def _best(best: Best, values: Values, unavailable: Mapping[str, str], alpha: float | None) -> str:
    """Return `30 (no significant difference: 15, 45)`, by the blocks that have all points."""
    own = values.get(best.metric, {})
    shared = together({name: own[name] for name in best.points if name in own})
    columns = {name: np.asarray(column) for name, column in shared.items() if column}
    measured = list(columns)
    if not measured:
        why = unavailable.get(best.metric)
        reason = f"{best.metric} is unavailable: {why}" if why else f"no point has {best.metric}"
        return f"[not measured: {reason}]"
    sign = -1 if metric(best.metric).better == "more" else 1
    first = min(measured, key=lambda name: sign * hodges_lehmann(columns[name]).value)
    point, others = best.points[first], [name for name in measured if name != first]
    if alpha is None or not others:
        return f"{point} (by estimate alone)"
    pairs = list(combinations(measured, 2))
    adjusted = holm([signed_rank(columns[a] - columns[b]).p_two_sided for a, b in pairs])
    p_of = {frozenset(pair): p for pair, p in zip(pairs, adjusted, strict=True)}
    level = [best.points[name] for name in others if p_of[frozenset((first, name))] > alpha]
    if not level:
        return f"{point} (all others differ significantly)"
    return f"{point} (no significant difference: {', '.join(level)})"
