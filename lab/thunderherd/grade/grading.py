"""Grades a server: first the cases of conformance, then its cost against a reference in the same blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from thunderherd.conform.server import Subject
from thunderherd.conform.verdicts import Conformance, conformance
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import EngineError
from thunderherd.engine.conform_lines import Conformed
from thunderherd.engine.conformance import cases_of
from thunderherd.errors import UserError
from thunderherd.grade.rubric import RubricFile
from thunderherd.records.directory import load
from thunderherd.records.summary import PairSummary, Summary
from thunderherd.records.trial import TrialRecord
from thunderherd.search.compare import check, compare
from thunderherd.search.request import GradeRequest
from thunderherd.show.sentences.compared import metric_answers
from thunderherd.trial.observation import TOO_BUSY

__all__ = [
    "COST",
    "Assignment",
    "Cost",
    "Grade",
    "Item",
    "NoVerdict",
    "Prediction",
    "grade",
    "graded",
    "is_own_fault",
]

Prediction = Literal["cheaper", "same", "dearer"]
"""The student's server compared with the reference."""
PREDICTIONS: tuple[Prediction, ...] = get_args(Prediction)

OUTCOMES: dict[str, Prediction] = {"faster": "cheaper", "equivalent": "same", "slower": "dearer"}
"""Verdict on the server's cost → what a student can have predicted."""

COST = "cost"
"""The number of the item that is no case."""


ATTEMPTS = 3
"""The most comparisons for one grade, if a busy machine spoils them."""

NOT_STARTED = "the server did not start"
"""The remark on each case; the first one has the reason."""

QUIETER = "raise cost.budget of the rubric, or use a quiet machine"


class NoVerdict(UserError):
    """The cost could not be judged, and not by the server's fault: there is no grade."""

    exit_status = 1


@dataclass(frozen=True)
class Item:
    """The points of a case, or of the cost."""

    number: str
    name: str
    points: float
    most: float
    remark: str = ""
    """What is worth knowing in a few words."""
    facts: tuple[tuple[str, str], ...] = ()
    """Of lost points: the rule, expected and actual behaviour, and the command that replays the case."""

    @property
    def is_full(self) -> bool:
        """True if no point is lost."""
        return self.points >= self.most


@dataclass(frozen=True)
class Cost:
    """The server's CPU per request over the reference's, with its interval, and the verdict."""

    ratio: float
    low: float
    high: float | None
    outcome: Prediction | None
    """None if the blocks do not decide."""
    sentence: str


@dataclass(frozen=True)
class Grade:
    """The points of one submission."""

    server: str
    reference: str
    workload: str
    visibility: str
    items: tuple[Item, ...]
    cost: Cost | None
    prediction: Prediction | None = None
    results: Path | None = None
    """The directory of the comparison."""

    @property
    def points(self) -> float:
        """The points of all items."""
        return round(sum(each.points for each in self.items), 6)

    @property
    def most(self) -> float:
        """The most points that there are."""
        return round(sum(each.most for each in self.items), 6)

    def measured(self) -> str:
        """Return what a prediction is compared with."""
        if self.cost is None:
            return "not measured"
        return self.cost.outcome or "undecided"


@dataclass(frozen=True)
class Assignment:
    """What is graded, against what, and how."""

    subject: Subject
    reference: str
    rubric: RubricFile
    catalogue: Catalogue
    lab: tuple[str, ...] = ()
    seed: int | None = None
    """The seed of the order of trials and of the cases' inputs. None: drawn, and 1."""
    patience: float = 5.0
    out: Path | None = None
    words: tuple[str, ...] = ()

    @property
    def request(self) -> GradeRequest:
        """The comparison that measures the cost."""
        own = self.rubric.rubric.cost
        words = {True: "true", False: "false"}
        settings = (
            (name.replace("-", "_"), words[value] if isinstance(value, bool) else str(value))
            for name, value in own.load.items()
        )
        return GradeRequest(
            contenders=(self.subject.typed, self.reference), settings=tuple(settings),
            workload=self.subject.workload, lab=self.lab, budget=own.budget, seed=self.seed, out=self.out,
            words=self.words, cost_alone=True, conform=False, has_resume=False,
        )  # fmt: skip

    def check(self) -> list[int]:
        """Return the numbers of the cases that count; raise `UserError` for every mistake before any runs."""
        cases = self.rubric.cases(cases_of(self.subject.workload))
        if self.rubric.rubric.most_for_cost:
            try:
                check(self.request)
            except UserError as error:
                raise self.rubric.blamed(error) from None
        return cases


def grade(assignment: Assignment, prediction: Prediction | None = None) -> Grade:
    """Grade a submission once. Main thread only. Raise `UserError` for mistakes, and `NoVerdict`.

    A server that does not start, or that fails under load, loses its points, and the items say why.
    """
    numbers, subject, rubric = assignment.check(), assignment.subject, assignment.rubric.rubric
    needed = [each for each in rubric.cost.needs if rubric.most_for_cost]
    found = _cases(assignment, sorted({*numbers, *needed}))
    names = {each.number: each.name for each in cases_of(subject.workload)}
    if isinstance(found, str):
        items = [
            Item(str(each), names[each], 0.0, rubric.points_of(each), NOT_STARTED,
                 () if at else (("actual", found),))
            for at, each in enumerate(numbers)
        ]  # fmt: skip
        failed = needed
    else:
        items = [_item(each, found, rubric.points_of(each.number), rubric.conformance.share_if_warned)
                 for each in found.cases if each.number in numbers]  # fmt: skip
        failed = [each.number for each in found.failed if each.number in needed]
    given = Grade(
        subject.typed,
        assignment.reference,
        subject.workload,
        rubric.visibility,
        tuple(items),
        None,
        prediction,
    )
    if not rubric.most_for_cost:
        return given
    if failed:
        which = f"case{'s' if failed[1:] else ''} {', '.join(map(str, failed))} must pass first"
        return _with_cost(given, rubric.most_for_cost, None, 0.0, which)
    cost, results, why = _cost(assignment)
    points = rubric.points_for(cost.low) if cost else 0.0
    return _with_cost(replace(given, results=results), rubric.most_for_cost, cost, points, why)


def _cases(assignment: Assignment, numbers: Sequence[int]) -> Conformance | str:
    """Run the cases; return why there are none if the server does not start."""
    seed = 1 if assignment.seed is None else assignment.seed
    try:
        if not numbers:
            return Conformance(assignment.subject, seed, ())
        return conformance(assignment.subject, numbers=numbers, seed=seed, patience=assignment.patience)
    except EngineError as error:
        if not assignment.subject.is_started:
            raise
        return " ".join(str(error).split())


def _item(case: Conformed, found: Conformance, most: float, share_if_warned: float) -> Item:
    """Return the points of a case. One that cannot be judged here costs the student nothing."""
    points = {"failed": 0.0, "warned": most * share_if_warned}.get(case.verdict, most)
    facts = (
        (("rule", case.rule), ("expected", case.expected or ""), ("actual", case.actual or ""),
         ("replay", found.replay(case)))
        if case.verdict in ("failed", "warned") else ()
    )  # fmt: skip
    verdict = case.verdict.replace("_", " ")
    remark = (
        f"{verdict}: {case.actual}" if case.verdict in ("allowed", "not_judged") and case.actual else verdict
    )
    return Item(str(case.number), case.name, points, most, remark, facts)


# The cost ---------------------------------------------------------------------------------------------------


def _with_cost(given: Grade, most: float, cost: Cost | None, points: float, why: str) -> Grade:
    remark = "not measured" if why else ""
    if cost is not None:
        ends = f" ({cost.low:.3g} to {cost.high:.3g})" if cost.high is not None else ""
        remark = f"{cost.ratio:.3g} times {given.reference}{ends}"
    name = "CPU per request against the reference"
    lost = (("actual", cost.sentence if cost else why),) if points < most else ()
    item = Item(COST, name, points, most, remark, lost)
    return replace(given, items=(*given.items, item), cost=cost)


def _cost(assignment: Assignment) -> tuple[Cost | None, Path | None, str]:
    """Measure the cost; return why there is none if the server failed under load.

    A comparison that a busy machine spoilt is repeated. Raise `NoVerdict` if the last one is spoilt, too.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _compared(assignment, attempt)
        except NoVerdict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("there is at least one attempt")


def _compared(assignment: Assignment, attempt: int) -> tuple[Cost | None, Path | None, str]:
    request = assignment.request
    if request.out is not None and attempt > 1:
        request = replace(request, out=request.out.with_name(f"{request.out.name}-{attempt}"))
    name = check(request)[0]
    try:
        summary, results = compare(request)
    except UserError as error:
        problem, where = error.problems[0], f"{request.command}: {name}"
        if problem.code != "compare.pilot_failed":
            raise assignment.rubric.blamed(error) from None
        if TOO_BUSY in problem.message:
            raise NoVerdict(problem.message, code="grade.too_busy", hint=QUIETER, where=where) from None
        if problem.where != where:
            raise
        return None, None, problem.message
    return _judged(summary, results)


def _judged(summary: Summary, results: Path) -> tuple[Cost | None, Path, str]:
    """Return the cost, or why the server has none; raise `NoVerdict` if that is not the server's fault."""
    first, reference = summary.contenders[:2]
    (answer,) = metric_answers(summary)
    (pair,) = summary.family
    where = f"grade: {results}"
    if pair.ratio is None:
        if first.base in summary.trials.given_up and is_own_fault(first.name, load(results).trials):
            return None, results, answer.sentence
        raise NoVerdict(
            f"no cost to compare with {reference.label}: {answer.sentence}",
            code="grade.not_compared",
            hint=QUIETER,
            where=where,
        )
    ratio, low, high = _from_view_of(first.name, pair)
    if low is None:
        message = f"{summary.study.blocks} blocks are too few for a verdict"
        raise NoVerdict(message, code="grade.too_few_blocks", hint=QUIETER, where=where)
    swapped = {"faster": "slower", "slower": "faster"}
    verdict = pair.verdict if pair.a == first.name else swapped.get(pair.verdict, pair.verdict)
    return Cost(ratio, low, high, OUTCOMES.get(verdict), answer.sentence), results, ""


def is_own_fault(name: str, trials: Sequence[TrialRecord]) -> bool:
    """True if most invalid trials of a contender are invalid for another reason than a busy machine."""
    invalid = [each for each in trials if each.contender == name and not each.valid]
    busy = [each for each in invalid if any(TOO_BUSY in reason for reason in each.invalid_reasons)]
    return 2 * len(busy) < len(invalid)


def _from_view_of(name: str, pair: PairSummary) -> tuple[float, float | None, float | None]:
    """Return the cost of a contender over that of the other: the estimate, and the ends of its interval."""
    assert pair.ratio is not None
    if pair.a == name:
        return pair.ratio, pair.simultaneous_low, pair.simultaneous_high
    low, high = (None if end is None else 1 / end for end in (pair.simultaneous_high, pair.simultaneous_low))
    return 1 / pair.ratio, low, high


# Repetitions ------------------------------------------------------------------------------------------------


def graded(grades: Sequence[Grade]) -> list[tuple[Item, float, int]]:
    """Return each item of repeated grades, with its most frequent points, and how often it had others."""
    found = []
    for each in grades[0].items:
        points = [next(i.points for i in one.items if i.number == each.number) for one in grades]
        usual, times = Counter(points).most_common(1)[0]
        found.append((each, usual, len(points) - times))
    return found
