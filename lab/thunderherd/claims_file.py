"""The claims of a study's source: the models of `claims.toml`, and its loader.

A claim is a sentence with the figure that the source gives for it. What would make it true is written as
linear contrasts: sums of weight x metric over contenders, taken within each block, all of which must be above
zero. `claims.py` judges them; the head of a bundled `claims.toml` explains every key.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.catalogue import SettingValue
from thunderherd.study import Study
from thunderherd.study_checks import check_metric
from thunderherd.study_file import KeyPath, Problems, TomlFile, check_shape, show, unknown

Weight = Annotated[float, Field(ge=-1000, le=1000)]
Weights = Annotated[
    dict[str, Weight], Field(min_length=1, description="such as { prefork = 1, iterative = -1 }")
]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ContrastTable(_Table):
    """A test or a figure as its file has it; `metric` where it differs from the claim's."""

    label: str = Field(min_length=1, description="a few words")
    metric: str | None = Field(
        default=None, description='a metric of each trial, such as "clients_per_worker_sd"'
    )
    weights: Weights


class FigureTable(ContrastTable):
    """A figure may be a ratio."""

    over: Weights | None = Field(default=None, description="the weights of the ratio's denominator")


class ConditionsTable(_Table):
    """What a run must have been like for a claim to be judged by it."""

    contenders: dict[str, bool | int | str] = Field(
        default={}, description="settings of the claim's contenders, where they have them"
    )
    load: dict[str, bool | int | str] = Field(
        default={}, description="settings of the load; clients is one of them here"
    )


class ClaimTable(_Table):
    """One claim as its file has it."""

    id: str = Field(pattern=r"^[A-Z]\d+$", description="a letter and a number, such as H60")
    statement: str = Field(min_length=1, description="the source's sentence")
    condition: str | None = Field(default=None, description="under which circumstances the source says so")
    paper_figure: str = Field(min_length=1, description="the source's figures for it")
    paper_data_supports: str = Field(
        min_length=1, description='what the source\'s own data say, such as "yes"'
    )
    test_note: str | None = Field(default=None, description="what a judgement must take into account")
    test_note_honoured: str | None = Field(default=None, description="how it does so")
    reading: str | None = Field(default=None, description="how the words were made into numbers")
    metric: str = Field(
        description='the metric of its tests and figures, such as "server_cpu_per_connection"'
    )
    tests: list[ContrastTable] = Field(default=[], description="contrasts that must all be above zero")
    figures: list[FigureTable] = Field(default=[], description="contrasts and ratios that are shown only")
    undecided_because: str | None = Field(default=None, description="why this study cannot judge it yet")
    conditions: ConditionsTable = Field(default=ConditionsTable(), description="a table [claims.conditions]")


class ClaimsForm(_Table):
    """A whole claims file."""

    study: str = Field(description="the name of the study whose contenders the claims are about")
    source: str = Field(description="the source that makes the claims")
    conditions: ConditionsTable = Field(default=ConditionsTable(), description="a table [conditions]")
    claims: list[ClaimTable] = Field(min_length=1, description="tables [[claims]]")


class Contrast(BaseModel):
    """The sum of weight x metric over contenders, within a block; it says `label` where it is above zero."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    metric: str
    weights: dict[str, float]

    def contenders(self) -> set[str]:
        """The contenders that it needs."""
        return set(self.weights)


class Figure(Contrast):
    """A number to show beside the paper's: a contrast, or the ratio of two where `over` is given."""

    over: dict[str, float] | None

    def contenders(self) -> set[str]:
        """The contenders that it needs."""
        return {*self.weights, *(self.over or ())}


class Claim(BaseModel):
    """One claim, resolved against a study.

    All of `tests` must be above zero for it to hold; with `undecided_because` there are none. `note` is what
    the source gets wrong about it and must be shown with it. `unmet` says which of its conditions the study
    as resolved does not meet: where there are any, the claim is not testable by that run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    statement: str
    condition: str | None
    paper_figure: str
    paper_data_supports: str
    test_note: str | None
    test_note_honoured: str | None
    reading: str | None
    note: str | None
    tests: tuple[Contrast, ...]
    figures: tuple[Figure, ...]
    undecided_because: str | None
    unmet: tuple[str, ...]


def load_claims(study: Study) -> list[Claim]:
    """The claims of a study's source, in the order of their file; none if the study names no file.

    Raises
    ------
    UserError
        One line, with file and line, for each mistake of the file: unknown keys, contenders and metrics, a
        claim that nothing decides, a test note that nothing honours.
    """
    if study.claims_path is None:
        return []
    file = TomlFile(study.claims_path)
    problems = Problems(file)
    if check_shape(ClaimsForm, file.data, problems):
        problems.raise_any()
    form = ClaimsForm.model_validate(file.data)
    if form.study != study.name:
        problems.add(
            ("study",), f"study = {show(form.study)}, but study {show(study.name)} at {study.path} names it"
        )
    ids = [claim.id for claim in form.claims]
    for index, claim in enumerate(form.claims):
        if claim.id in ids[:index]:
            problems.add(("claims", index, "id"), f"claim {claim.id} is there twice")
        _check_claim(claim, ("claims", index), study, problems)
    _check_conditions(form.conditions, ("conditions",), study, problems)
    problems.raise_any()
    return [_resolved(claim, form.conditions, study) for claim in form.claims]


def _check_claim(claim: ClaimTable, here: KeyPath, study: Study, problems: Problems) -> None:
    if bool(claim.tests) == bool(claim.undecided_because):
        which = "both tests and" if claim.tests else "neither tests nor"
        problems.add(here, f"claim {claim.id} has {which} undecided_because; give one of them")
    if claim.test_note and not claim.test_note_honoured:
        problems.add(
            (*here, "test_note"), f"claim {claim.id}: test_note_honoured does not say how it is honoured"
        )
    check_metric(claim.metric, (*here, "metric"), study.measure.counters, problems)
    for number, test in enumerate(claim.tests):
        _check_contrast(test, {"weights": test.weights}, (*here, "tests", number), study, problems)
    for number, figure in enumerate(claim.figures):
        tables = {"weights": figure.weights, "over": figure.over or {}}
        _check_contrast(figure, tables, (*here, "figures", number), study, problems)
    _check_conditions(claim.conditions, (*here, "conditions"), study, problems)


def _check_contrast(
    contrast: ContrastTable,
    tables: Mapping[str, Weights],
    here: KeyPath,
    study: Study,
    problems: Problems,
) -> None:
    names = [each.name for each in study.contenders]
    if contrast.metric is not None:
        check_metric(contrast.metric, (*here, "metric"), study.measure.counters, problems)
    for table, weights in tables.items():
        for name, weight in weights.items():
            if name not in names:
                problems.add((*here, table, name), unknown("contender", name, names))
            elif weight == 0:
                problems.add((*here, table, name), f"{name} = 0 has no weight; leave it out")


def _check_conditions(conditions: ConditionsTable, here: KeyPath, study: Study, problems: Problems) -> None:
    known = {
        "load": list(_load_in_effect(study)),
        "contenders": list(dict.fromkeys(key for each in study.contenders for key in each.settings)),
    }
    for table, keys in (("load", conditions.load), ("contenders", conditions.contenders)):
        for key in keys:
            if key not in known[table]:
                problems.add((*here, table, key), unknown(f"setting of the {table}", key, known[table]))


def _load_in_effect(study: Study) -> dict[str, SettingValue]:
    return {"clients": study.load.clients, **study.load.settings}


def _resolved(claim: ClaimTable, common: ConditionsTable, study: Study) -> Claim:
    plain = claim.model_dump(exclude={"metric", "tests", "figures", "conditions"})
    tests = [Contrast.model_validate(_with_metric(test, claim)) for test in claim.tests]
    figures = [Figure.model_validate(_with_metric(figure, claim)) for figure in claim.figures]
    return Claim(
        **plain,
        note=study.notes_about(f"claim {claim.id}"),
        tests=tuple(tests),
        figures=tuple(figures),
        unmet=tuple(_unmet([*tests, *figures], claim.conditions, common, study)),
    )


def _with_metric(contrast: ContrastTable, claim: ClaimTable) -> dict[str, object]:
    return contrast.model_dump() | {"metric": contrast.metric or claim.metric}


def _unmet(
    contrasts: Sequence[Contrast], own: ConditionsTable, common: ConditionsTable, study: Study
) -> Iterator[str]:
    """In words, each condition that the study as resolved does not meet."""
    load = _load_in_effect(study)
    for key, wanted in (common.load | own.load).items():
        if load[key] != wanted:
            yield f"the claim is about {key} {show(wanted)} of the load, the run has {show(load[key])}"
    needed = {name for contrast in contrasts for name in contrast.contenders()}
    contenders = [contender for contender in study.contenders if contender.name in needed]
    for key, wanted in (common.contenders | own.contenders).items():
        others = [each for each in contenders if each.settings.get(key, wanted) != wanted]
        if others:
            seen = ", ".join(f"{each.name} {show(each.settings[key])}" for each in others)
            yield f"the claim is about {key} {show(wanted)}, the run has {seen}"
