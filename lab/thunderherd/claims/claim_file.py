"""The claims of a study's source: the models of `claims.toml` and its loader.

A claim is a sentence with the source's figure for it. The conditions under which it is true are linear
contrasts: sums of weight x metric over contenders, taken within each block, that must all be above zero.
`judge.claims` judges them; the head of a bundled `claims.toml` explains every key. The other half of the
file, its questions, is in `question_tables.py`.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.claims.contrast_tables import (
    Contrast,
    ContrastTable,
    Figure,
    FigureTable,
    SumTable,
    check_sum,
    declared_sweeps,
    left_out_here,
    outside_this_size,
    resolved_contrast,
    resolved_figure,
)
from thunderherd.claims.question_tables import (
    Question,
    QuestionTable,
    check_question,
    resolved_question,
)
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.labs import unfit
from thunderherd.labs.words import is_like
from thunderherd.records.summary import ClaimVerdict
from thunderherd.study.checks.names import check_metric
from thunderherd.study.file.tables import keys_of
from thunderherd.study.loading import Contender, LoadPlan, Study
from thunderherd.study.scale import cpus_in_words
from thunderherd.toml.file import KeyPath, Problems, TomlFile, formed, show, unknown
from thunderherd.toml.strict import StrictTable

FEW = 3
"""More contenders than this with the same value are not all listed by name."""

__all__ = ["Claim", "Contrast", "Figure", "Source", "load_claims", "load_questions", "load_source"]


class SweepConditionsTable(StrictTable):
    """The settings that a claim needs of the contenders of one sweep."""

    contenders: dict[str, bool | int | float | str] = Field(
        default={}, description="settings of the claim's contenders in this sweep"
    )
    load: dict[str, bool | int | float | str] = Field(
        default={},
        description="settings of their load, including primitive, receive and processes",
    )
    scaled: bool = Field(default=True, description="whether [scale] may make them smaller")


class ConditionsTable(StrictTable):
    """The settings of a run that a claim needs to be judged."""

    contenders: dict[str, bool | int | float | str] = Field(
        default={}, description="settings of the claim's contenders, if they have them"
    )
    load: dict[str, bool | int | float | str] = Field(
        default={},
        description="settings of the load, including primitive, receive and processes",
    )
    lab: dict[str, int | str] = Field(
        default={}, description='keys of [lab], such as { kind = "veth", mtu = 1500 }'
    )
    sweeps: dict[str, SweepConditionsTable] = Field(
        default={},
        description="by sweep, the conditions that differ, such as { herd = { load = { processes = 1 } } }",
    )
    otherwise: Literal["not testable here", "undecided"] | None = Field(
        default=None, description='the verdict under other conditions: "not testable here" or "undecided"'
    )
    because: str | None = Field(default=None, description="why the claim cannot be judged under others")


class ClaimTable(StrictTable):
    """One claim as written in its file."""

    id: str = Field(pattern=r"^[A-Z]\d+$", description="a letter and a number, such as H60")
    statement: str = Field(min_length=1, description="the source's sentence")
    condition: str | None = Field(
        default=None, description="the circumstances under which the source says so"
    )
    paper_figure: str | None = Field(
        default=None, min_length=1, description="the source's figures for it, if there are any"
    )
    paper_data_supports: str | None = Field(
        default=None, min_length=1, description='what the source\'s own data say, such as "yes"'
    )
    test_note: str | None = Field(default=None, description="what a judgement must take into account")
    test_note_honoured: str | None = Field(default=None, description="how the tests take it into account")
    reading: str | None = Field(default=None, description="how the sentence was turned into tests")
    source_cpus: int | None = Field(
        default=None,
        ge=1,
        description="CPUs of the source's server; shown if this machine's server has a different number",
    )
    cpus: int | None = Field(
        default=None,
        ge=1,
        description="CPUs that the claim is about; with fewer it is not testable, and its figures are shown",
    )
    metric: str = Field(
        description='the metric of its tests and figures, such as "server_cpu_per_connection"'
    )
    tests: list[ContrastTable] = Field(default=[], description="contrasts that must all be above zero")
    margin_percent: float | None = Field(
        default=None,
        ge=0,
        le=50,
        description="as in the whole file, for this claim; 0: every difference matters",
    )
    enough: int | None = Field(
        default=None,
        ge=1,
        description='the number of its tests, or of their groups, that is enough: "in most cases"',
    )
    refuted_ends: bool = Field(
        default=False, description="once it is refuted, a run that decides claims ends: no other matters"
    )
    figures: list[FigureTable] = Field(
        default=[], description="contrasts and ratios that are shown, not tested"
    )
    undecided_because: str | None = Field(default=None, description="why this study cannot judge it")
    conditions: ConditionsTable = Field(default=ConditionsTable(), description="a table [claims.conditions]")


class ClaimsForm(StrictTable):
    """A whole claims file."""

    study: str = Field(description="the name of the study whose contenders the claims are about")
    source: str = Field(description="the source that makes the claims")
    margin_percent: float | None = Field(
        default=None,
        gt=0,
        le=50,
        description="the largest difference that does not matter, as a share of what a test subtracts; a "
        "test may state its own margin",
    )
    conditions: ConditionsTable = Field(default=ConditionsTable(), description="a table [conditions]")
    claims: list[ClaimTable] = Field(default=[], description="tables [[claims]]")
    questions: list[QuestionTable] = Field(default=[], description="tables [[questions]]")


class Claim(BaseModel):
    """One claim, resolved against a study.

    - `tests` must all be above zero for it to hold, or `enough` of them (or of their groups). With
      `undecided_because` there are none.
    - `note` is what the source gets wrong about it; it is always shown with the claim.
    - `unmet` are the conditions that the study does not meet. If there are any, `unmet_verdict` is the
      verdict.
    - `left_out` are the contenders of its tests that this machine cannot run, and missing counters and CPUs.
    - `outside` are the contenders of its tests that this size does not have.
    - `remarks` say how this machine differs from the source's; they are shown with each figure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    statement: str
    condition: str | None
    paper_figure: str | None
    paper_data_supports: str | None
    test_note: str | None
    test_note_honoured: str | None
    reading: str | None
    note: str | None
    tests: tuple[Contrast, ...]
    figures: tuple[Figure, ...]
    enough: int | None = None
    refuted_ends: bool = False
    undecided_because: str | None
    unmet: tuple[str, ...]
    unmet_verdict: Literal["not testable here", "undecided"] = "not testable here"
    left_out: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def is_testable(self) -> bool:
        """True if the claim is to be tested, by all that is known before a run."""
        return bool(self.tests) and self.obstacle() is None

    def obstacle(self) -> tuple[ClaimVerdict, str] | None:
        """Return what prevents a judgement whatever a run finds: the study's settings or the claim."""
        if self.left_out:
            return "not testable here", "; ".join(self.left_out)
        if self.unmet:
            return self.unmet_verdict, "; ".join(self.unmet)
        if self.undecided_because:
            return "undecided", self.undecided_because
        if self.outside:
            return "undecided", "; ".join(self.outside)
        if self.test_note and not self.test_note_honoured:
            return "undecided", f"its test note is not taken into account: {self.test_note}"
        return None


class Source(BaseModel):
    """The claims and questions of a source, in the order of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    claims: tuple[Claim, ...] = ()
    questions: tuple[Question, ...] = ()


def load_claims(study: Study) -> list[Claim]:
    """Return the claims of a study's source; none if the study names no file. Raises as `load_source`."""
    return list(load_source(study).claims)


def load_questions(study: Study) -> list[Question]:
    """Return the questions of a study's source; none if it names no file. Raises as `load_source`."""
    return list(load_source(study).questions)


def load_source(study: Study) -> Source:
    """Return the claims and questions of a study's source; neither if the study names no file.

    Raises
    ------
    UserError
        A problem for each mistake in the file, with its line.
    """
    if study.claims_path is None:
        return Source()
    file = TomlFile(study.claims_path, area="claims")
    problems = Problems(file)
    form, _ = formed(ClaimsForm, file.data, problems)
    if form is None:
        problems.raise_any()
        raise AssertionError("unreachable: there was a problem")
    if form.study != study.name:
        problems.add(
            ("study",),
            f"study = {show(form.study)}, but study {show(study.name)} names this file",
            code="claims.other_study",
            hint=f"see claims in {study.path}",
        )
    if not form.claims and not form.questions:
        problems.add(
            (),
            "neither [[claims]] nor [[questions]]",
            code="claims.empty",
            hint="leave `claims` out of the study",
        )
    _check_ids("claims", [claim.id for claim in form.claims], problems)
    _check_ids("questions", [question.id for question in form.questions], problems)
    for index, claim in enumerate(form.claims):
        _check_claim(claim, ("claims", index), study, problems)
    for index, question in enumerate(form.questions):
        check_question(question, ("questions", index), study, problems)
    _check_conditions(form.conditions, ("conditions",), study, problems)
    problems.raise_any()
    return Source(
        claims=tuple(_resolved(claim, form, study) for claim in form.claims),
        questions=tuple(resolved_question(question, study) for question in form.questions),
    )


def _check_ids(tables: str, ids: Sequence[str], problems: Problems) -> None:
    for index, name in enumerate(ids):
        if name in ids[:index]:
            twice = f"two {tables} have id {name}"
            problems.add((tables, index, "id"), twice, code="claims.duplicate_id")


def _check_claim(claim: ClaimTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if bool(claim.tests) == bool(claim.undecided_because):
        which = "both tests and" if claim.tests else "neither tests nor"
        problems.add(
            here,
            f"claim {claim.id} has {which} undecided_because",
            code="claims.tested_and_undecided" if claim.tests else "claims.not_tested",
            hint="give one of them",
        )
    if claim.test_note and not claim.test_note_honoured:
        problems.add(
            (*here, "test_note"),
            f"claim {claim.id} has a test_note, but no test_note_honoured",
            code="claims.test_note_not_honoured",
            hint="describe in test_note_honoured how the tests follow it",
        )
    if claim.enough and claim.enough > (
        most := len({(each.group, each.group or each.label) for each in claim.tests})
    ):
        problems.add(
            (*here, "enough"),
            f"claim {claim.id}: enough = {claim.enough}, but there are {most} tests",
            code="claims.enough_exceeds_tests",
            hint="the tests of a group count as one",
        )
    check_metric(claim.metric, (*here, "metric"), study.measure.asked, problems)
    tables: dict[str, Sequence[SumTable]] = {"tests": claim.tests, "figures": claim.figures}
    for table, contrasts in tables.items():
        for number, contrast in enumerate(contrasts):
            check_sum(contrast, (*here, table, number), study, problems)
    _check_conditions(claim.conditions, (*here, "conditions"), study, problems)


def _check_conditions(conditions: ConditionsTable, here: KeyPath, study: Study, problems: Problems) -> None:
    loads = [study.load, *(each.load for each in study.contenders)]
    known = {
        "load": list(dict.fromkeys(key for each in loads for key in _load_in_effect(each))),
        "contenders": list(dict.fromkeys(key for each in study.contenders for key in each.settings)),
    }
    places: list[tuple[KeyPath, ConditionsTable | SweepConditionsTable]] = [(here, conditions)]
    for name, of_sweep in conditions.sweeps.items():
        places.append(((*here, "sweeps", name), of_sweep))
        if name not in (sweeps := declared_sweeps(study)):
            problems.add((*here, "sweeps", name), unknown("sweep", name, sweeps, "claims"))
    for place, each in places:
        for table, keys in (("load", each.load), ("contenders", each.contenders)):
            for key in keys:
                if key not in known[table]:
                    no_such = unknown(f"setting of the {table}", key, known[table], "claims")
                    problems.add((*place, table, key), no_such)
    for key, value in conditions.lab.items():
        if why := unfit(key, value):
            problems.add((*here, "lab", key), why, code="claims.impossible_lab")


def _load_in_effect(load: LoadPlan) -> dict[str, SettingValue]:
    way = {"primitive": load.primitive, "receive": load.receive}
    return {**way, "processes": load.processes, **load.settings}


def _resolved(claim: ClaimTable, form: ClaimsForm, study: Study) -> Claim:
    common = form.conditions
    plain = claim.model_dump(
        exclude=set(ClaimTable.model_fields) - set(Claim.model_fields) | {"tests", "figures"}
    )
    percent = form.margin_percent if claim.margin_percent is None else claim.margin_percent
    tests = [resolved_contrast(test, claim.metric, study, percent) for test in claim.tests]
    figures = [resolved_figure(figure, figure.label, claim.metric, study) for figure in claim.figures]
    tested = {name for test in tests for name in test.contenders()}
    needed = {name for each in [*tests, *figures] for name in each.contenders()}
    about = [each for each in study.contenders if each.name in needed]
    cpus = cpus_in_words(claim.cpus or claim.source_cpus, about)
    own = claim.conditions
    unmet = list(_unmet([*tests, *figures], own, common, study))
    because = own.because or common.because
    return Claim(
        **plain,
        note=study.notes_about(f"claim {claim.id}"),
        tests=tuple(tests),
        figures=tuple(figures),
        unmet=(*unmet, because) if unmet and because else tuple(unmet),
        unmet_verdict=own.otherwise or common.otherwise or "not testable here",
        remarks=(cpus,) if cpus else (),
        left_out=(*_too_few_cpus(claim.cpus), *left_out_here(tested, study)),
        outside=tuple(outside_this_size(tested, study)),
    )


def _too_few_cpus(needed: int | None) -> Iterator[str]:
    here = len(os.sched_getaffinity(0))
    if needed is not None and here < needed:
        yield f"the claim is about {needed} CPUs, this machine has {here}"


def _unmet(
    contrasts: Sequence[Contrast], own: ConditionsTable, common: ConditionsTable, study: Study
) -> Iterator[str]:
    """Yield each condition that the study does not meet, in words.

    What a sweep varies is no condition of its contenders: the claim names the points that it is about.
    """
    needed = {name for contrast in contrasts for name in contrast.contenders()}
    contenders = [contender for contender in study.contenders if contender.name in needed]
    sweeps = {**common.sweeps, **own.sweeps}
    ordinary = [contender for contender in contenders if contender.sweep not in sweeps]
    load, settings = common.load | own.load, common.contenders | own.contenders
    if ordinary or not needed:
        yield from _unmet_by(ordinary, load, settings, study)
        yield from _unmet_by_lab(ordinary, common.lab | own.lab, study)
    for name, special in sweeps.items():
        of_sweep = [contender for contender in contenders if contender.sweep == name]
        if of_sweep:
            yield from _unmet_by(of_sweep, load | special.load, settings | special.contenders, study)
            if not special.scaled and (smaller := [each for each in of_sweep if each.divided_by]):
                yield f"the claim is about the source's sizes, the run has {name} {smaller[0].scale}"


def _unmet_by(
    contenders: Sequence[Contender],
    load: Mapping[str, object],
    settings: Mapping[str, object],
    study: Study,
) -> Iterator[str]:
    """Yield the unmet conditions of the contenders of one sweep, or of all others."""
    for key, wanted in load.items():
        if contenders:
            others = _others(contenders, study, key, wanted, lambda each: _load_in_effect(each.load))
        else:
            has_it = _load_in_effect(study.load).get(key)
            others = {} if has_it is None or has_it == study.read(key, wanted) else {"the run": has_it}
        if others:
            alike = len(others) >= len(contenders) and len(set(others.values())) == 1
            has = study.written(key, next(iter(others.values()))) if alike else _listed(others, key, study)
            about = study.written(key, study.read(key, wanted))
            yield f"the claim is about {key} {about} of the load, the run has {has}"
    for key, wanted in settings.items():
        if others := _others(contenders, study, key, wanted, lambda each: each.settings):
            about = study.written(key, study.read(key, wanted))
            yield f"the claim is about {key} {about}, the run has {_listed(others, key, study)}"


def _unmet_by_lab(
    contenders: Sequence[Contender], wanted: Mapping[str, int | str], study: Study
) -> Iterator[str]:
    """Yield the labs of the run that the claim is not about; sweeps over labs are ignored."""
    if not wanted:
        return

    def is_varied(contender: Contender) -> bool:
        along = {each.lab.network for each in study.contenders if each.sweep == contender.sweep}
        return contender.sweep is not None and len(along) > 1

    labs = [each.lab for each in contenders if not is_varied(each)] if contenders else [study.lab]
    others = {each.network for each in labs if not is_like(each.kind, each.settings, wanted)}
    if others:
        about = ", ".join(f"{key} {show(value)}" for key, value in wanted.items())
        yield f"the claim is about a lab with {about}, the run has {' and '.join(sorted(others))}"


def _others(
    contenders: Sequence[Contender],
    study: Study,
    key: str,
    wanted: object,
    values: Callable[[Contender], Mapping[str, SettingValue]],
) -> dict[str, SettingValue]:
    """Return the contenders with another value of a key than a condition wants, by name."""

    def is_varied(contender: Contender) -> bool:
        along = [
            each for each in study.contenders if (each.base, each.sweep) == (contender.base, contender.sweep)
        ]
        sweep = next((each for each in study.sweeps if each.name == contender.sweep), None)
        is_key = sweep is not None and key in [each.rpartition(".")[2] for each in keys_of(sweep.key)]
        return is_key or len({values(each).get(key) for each in along}) > 1

    in_base = study.read(key, wanted)

    def in_source(contender: Contender) -> object:
        """Return the value that the source has; a scaled study divides it."""
        value = values(contender).get(key)
        if value is None:
            return in_base
        return value * contender.divided_by.get(key, 1) if isinstance(value, int | float) else value

    return {
        each.name: values(each)[key]
        for each in contenders
        if in_source(each) != in_base and not (each.sweep and is_varied(each))
    }


def _listed(values: Mapping[str, SettingValue], key: str, study: Study) -> str:
    if len(values) > FEW and len(set(values.values())) == 1:
        name, value = next(iter(values.items()))
        return f"{study.written(key, value)} ({name} and {len(values) - 1} more)"
    return ", ".join(f"{name} {study.written(key, value)}" for name, value in values.items())
