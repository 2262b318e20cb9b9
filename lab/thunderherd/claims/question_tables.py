"""The questions of a source, `[[questions]]` in its claims file: answers that cannot contradict the run.

An answer is a list of sentences with placeholders; each sentence has at least one. A placeholder is filled
with

- a *figure*: a contrast or ratio, with its unit and its interval;
- a *verdict*: the words for a contrast that is shown to be above zero, or below, or neither;
- the *best* point of a sweep, with the points that do not differ significantly from it;
- a *turn* in a sweep: the neighbouring points between which the verdict on two contenders changes;
- a *given*: a setting or the number of clients, as configured.

```toml
[[questions]]
id = "Q1"
text = "Is a pool larger than the number of clients worth it?"
metric = "server_cpu_per_connection"
answer = [
    "For {clients} clients, {small} of CPU with {fewest} workers and {large} with 120.",
    "The larger pool's CPU {more} that of the smaller; the least was seen with {best} workers.",
    "Against prefork_mutex the verdict changes {turn}.",
]
[questions.figures]
small = { weights = { "prefork@pool_size=10" = 1 } }
large = { weights = { "prefork@pool_size=120" = 1 } }
[questions.verdicts]
more = { weights = { "prefork@pool_size=120" = 1, "prefork@pool_size=10" = -1 } }
[questions.best]
best = { base = "prefork", sweep = "pool_size" }
[questions.turns]
turn = { sweep = "pool_size", base = "prefork", against = "prefork_mutex" }
[questions.given]
clients = { contender = "prefork@pool_size=10", key = "load.processes", times = "load.settings.children" }
fewest = { contender = "prefork@pool_size=10", key = "settings.pool" }
```
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.claims.contrast_tables import (
    Contrast,
    Figure,
    SumTable,
    Weights,
    at_point,
    bases_of,
    check_sum,
    declared_sweeps,
    known_contenders,
    points_of,
    resolved_figure,
    unknown_contender,
    weights_of,
)
from thunderherd.study.checks.names import check_metric
from thunderherd.study.loading import Study
from thunderherd.toml.file import KeyPath, Problems, show, suggest, unknown
from thunderherd.toml.strict import StrictTable


class QuestionFigureTable(SumTable):
    """A figure by the name of its placeholder; a ratio if it has `over`."""

    over: Weights | None = Field(default=None, description="the weights of the ratio's denominator")


class WordsTable(StrictTable):
    """The words for each outcome of a test."""

    above: str = Field(default="is more than", min_length=1, description="the words if it is above zero")
    below: str = Field(default="is less than", min_length=1, description="the words if it is below zero")
    open: str = Field(
        default="does not differ significantly from",
        min_length=1,
        description="the words if neither is shown",
    )


class VerdictTable(WordsTable, SumTable):
    """A contrast to test, with the words for each outcome."""


class BestTable(StrictTable):
    """The point of a sweep at which a contender's metric is best."""

    base: str = Field(description="a contender of the sweep, without its @SWEEP=POINT")
    sweep: str = Field(description="the name of a sweep")
    metric: str | None = Field(default=None, description="if it differs from the question's")


class TurnTable(WordsTable):
    """The points of a sweep between which the verdict on a contender against another changes."""

    sweep: str = Field(description="the name of a sweep")
    base: str = Field(description="a contender of the sweep, without its @SWEEP=POINT")
    against: str = Field(description="another one, whose metric is subtracted at each point")
    metric: str | None = Field(default=None, description="if it differs from the question's")


class GivenTable(StrictTable):
    """A value that a contender was configured with; no measurement."""

    contender: str = Field(description="the name of a contender")
    key: str = Field(description='such as "settings.pool", "load.processes" or "load.settings.children"')
    times: str | None = Field(default=None, description="another such key, by which it is multiplied")
    plus: int = Field(default=0, description="a number that is added")


class QuestionTable(StrictTable):
    """One question as written in its file."""

    id: str = Field(pattern=r"^[A-Z]\d+$", description="a letter and a number, such as Q1")
    text: str = Field(min_length=1, description="the source's question")
    note: str | None = Field(default=None, description="what the source says, or a caveat")
    metric: str = Field(description='the metric of its placeholders, such as "server_cpu_per_connection"')
    answer: list[str] = Field(
        min_length=1, description='sentences with placeholders, such as ["It costs {few}."]'
    )
    figures: dict[str, QuestionFigureTable] = Field(default={}, description="a table [questions.figures]")
    verdicts: dict[str, VerdictTable] = Field(default={}, description="a table [questions.verdicts]")
    best: dict[str, BestTable] = Field(default={}, description="a table [questions.best]")
    turns: dict[str, TurnTable] = Field(default={}, description="a table [questions.turns]")
    given: dict[str, GivenTable] = Field(default={}, description="a table [questions.given]")

    def placeholders(self) -> dict[str, list[str]]:
        """Return the names that its answer may use, with the tables of each (one, unless by mistake)."""
        found: dict[str, list[str]] = {}
        for table in ("figures", "verdicts", "best", "turns", "given"):
            for name in getattr(self, table):
                found.setdefault(name, []).append(table)
        return found


class VerdictWords(Contrast):
    """A contrast with the words for each outcome of its test."""

    above: str
    below: str
    open: str


class Best(BaseModel):
    """The points of a sweep in this run, among which a contender's best is looked for, by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    metric: str
    points: dict[str, str]


class Question(BaseModel):
    """A question resolved against a study; `given` are texts already.

    A turn is the verdict at each point of its sweep, in the order of the axis. If the run lacks the sweep, it
    has all of its points.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    text: str
    note: str | None
    answer: tuple[str, ...]
    figures: dict[str, Figure]
    verdicts: dict[str, VerdictWords]
    best: dict[str, Best]
    turns: dict[str, dict[str, VerdictWords]]
    given: dict[str, str]

    def tests(self) -> dict[str, VerdictWords]:
        """Return every test that its words rest on, by placeholder; tests of a turn are called NAME=POINT."""
        turned = {
            f"{name}={point}": words for name, points in self.turns.items() for point, words in points.items()
        }
        return {**self.verdicts, **turned}


# Checking ---------------------------------------------------------------------------------------------------


def check_question(question: QuestionTable, here: KeyPath, study: Study, problems: Problems) -> None:
    """Check that all names exist, each sentence has a placeholder, and each placeholder is used."""
    check_metric(question.metric, (*here, "metric"), study.measure.asked, problems)
    sums: dict[str, Mapping[str, SumTable]] = {"figures": question.figures, "verdicts": question.verdicts}
    for table, entries in sums.items():
        for name, entry in entries.items():
            check_sum(entry, (*here, table, name), study, problems)
    for name, best in question.best.items():
        _check_best(best, (*here, "best", name), study, problems)
    for name, turn in question.turns.items():
        _check_turn(turn, (*here, "turns", name), study, problems)
    for name, given in question.given.items():
        _check_given(given, (*here, "given", name), study, problems)
    _check_answer(question, here, problems)


def _check_answer(question: QuestionTable, here: KeyPath, problems: Problems) -> None:
    known, used = question.placeholders(), set[str]()
    for name, tables in known.items():
        if len(tables) > 1:
            problems.add(
                (*here, tables[-1], name),
                f"two placeholders are called {name}",
                code="claims.duplicate_placeholder",
                hint="rename one of them",
            )
    for number, sentence in enumerate(question.answer):
        key = (*here, "answer", number)
        try:
            names = list(placeholders_in(sentence))
        except ValueError as error:
            problems.add(
                key,
                f"{show(sentence)}: {error}",
                code="claims.bad_placeholder",
                hint="write {NAME}, and {{ or }} for a brace",
            )
            continue
        if not names:
            problems.add(
                key,
                f"{show(sentence)} has no placeholder",
                code="claims.sentence_without_figure",
                hint="each sentence needs one, such as {NAME}, so that no run can contradict it",
            )
        for name in names:
            if name not in known:
                problems.add(key, unknown("placeholder", name, known, "claims"))
        used |= set(names)
    for name, tables in known.items():
        if name not in used:
            problems.add(
                (*here, tables[-1], name),
                f"no sentence of the answer uses {name}",
                code="claims.unused_placeholder",
                hint="leave it out",
            )


def placeholders_in(sentence: str) -> Iterator[str]:
    """Yield the placeholders of a sentence; ValueError, in words, if its braces make no sense."""
    for _, name, specification, conversion in string.Formatter().parse(sentence):
        if name is None:
            continue
        if specification or conversion or not name.isidentifier():
            raise ValueError(f"{{{name}}} is no plain name")
        yield name


def _check_best(best: BestTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if best.metric is not None:
        check_metric(best.metric, (*here, "metric"), study.measure.asked, problems)
    if best.sweep not in (sweeps := declared_sweeps(study)):
        problems.add((*here, "sweep"), unknown("sweep", best.sweep, sweeps, "claims"))
    elif best.base not in (bases := bases_of(study, best.sweep)):
        no_such = unknown(f"contender of sweep {best.sweep}", best.base, bases, "claims")
        problems.add((*here, "base"), no_such)


def _check_turn(turn: TurnTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if turn.metric is not None:
        check_metric(turn.metric, (*here, "metric"), study.measure.asked, problems)
    if turn.sweep not in (sweeps := declared_sweeps(study)):
        problems.add((*here, "sweep"), unknown("sweep", turn.sweep, sweeps, "claims"))
        return
    bases = bases_of(study, turn.sweep)
    for key, base in (("base", turn.base), ("against", turn.against)):
        if base not in bases:
            problems.add((*here, key), unknown(f"contender of sweep {turn.sweep}", base, bases, "claims"))
    if turn.base == turn.against:
        problems.add(
            (*here, "against"),
            f"against = {show(turn.against)} is the base itself",
            code="claims.against_itself",
            hint="name another contender of the sweep",
        )


def _check_given(given: GivenTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if given.contender not in known_contenders(study):
        problems.add((*here, "contender"), unknown_contender(given.contender, study))
        return
    contender = next((each for each in study.contenders if each.name == given.contender), None)
    if contender is None:
        return  # not in this run: what it is configured with is not known
    values = contender.configured()
    for key, name in (("key", given.key), ("times", given.times)):
        if name is None:
            continue
        if name not in values:
            problems.add(
                (*here, key),
                f"contender {given.contender} has no {show(name)}",
                code="claims.unknown_setting",
                hint=suggest(name, values, f"it has {', '.join(values)}"),
            )
        elif (given.times or given.plus) and not _is_number(values[name]):
            problems.add(
                (*here, key),
                f"{name} is {show(values[name])}, which is no number",
                code="claims.not_a_number",
                hint="leave times and plus out",
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Resolving --------------------------------------------------------------------------------------------------


def resolved_question(question: QuestionTable, study: Study) -> Question:
    """Return a checked question, resolved."""
    return Question(
        **question.model_dump(include={"id", "text", "note"}),
        answer=tuple(question.answer),
        figures={
            name: resolved_figure(each, name, each.metric or question.metric, study)
            for name, each in question.figures.items()
        },
        verdicts={
            name: VerdictWords(
                label=name,
                metric=each.metric or question.metric,
                weights=weights_of(each, study),
                **each.model_dump(include={"constant", "less", "of", "above", "below", "open"}),
            )
            for name, each in question.verdicts.items()
        },
        best={
            name: Best(metric=each.metric or question.metric, points=_points(each, study))
            for name, each in question.best.items()
        },
        turns={
            name: _turn(each, each.metric or question.metric, study) for name, each in question.turns.items()
        },
        given={name: _given(each, study) for name, each in question.given.items()},
    )


def _turn(turn: TurnTable, metric: str, study: Study) -> dict[str, VerdictWords]:
    here = [point.name for sweep in study.sweeps if sweep.name == turn.sweep for point in sweep.points]
    numbers = points_of(study, turn.sweep)
    names = here or list(numbers)
    if all(numbers[name] is not None for name in names):
        names.sort(key=lambda name: numbers[name] or 0.0)
    return {
        name: VerdictWords(
            label=name,
            metric=metric,
            weights={
                at_point(turn.base, turn.sweep, name): 1.0,
                at_point(turn.against, turn.sweep, name): -1.0,
            },
            **turn.model_dump(include={"above", "below", "open"}),
        )
        for name in names
    }


def _points(best: BestTable, study: Study) -> dict[str, str]:
    return {
        each.name: each.point or ""
        for each in study.contenders
        if (each.sweep, each.base) == (best.sweep, best.base)
    }


def _given(given: GivenTable, study: Study) -> str:
    contender = next((each for each in study.contenders if each.name == given.contender), None)
    if contender is None:
        return f"(not in this run: {study.absent.get(given.contender, given.contender)})"
    values = contender.configured()
    value, name = values[given.key], given.key.rpartition(".")[2]
    if not _is_number(value):
        return str(value)
    if name in study.units and given.times is None and not given.plus:
        return study.quantity(name).say(value)  # type: ignore[arg-type]
    factor = values[given.times] if given.times else 1
    return f"{value * factor + given.plus:,}"  # type: ignore[operator]
