"""The parts that a search takes over from --study: contenders, and the tables that they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from thunderherd.engine.catalogue import Catalogue
from thunderherd.search.request import CrossoverRequest
from thunderherd.search.written_study import SIZE
from thunderherd.study.defaults import filled
from thunderherd.study.file.contenders import declared
from thunderherd.study.file.names import find_study
from thunderherd.study.file.recovery import shaped
from thunderherd.study.file.tables import StudyForm, SweepTable
from thunderherd.toml.file import Problems, TomlFile

__all__ = ["OWN_TABLES", "TakenOver", "taken_over"]

OWN_TABLES = ("measure", "server", "load", "lab", "noise")
"""The tables that a search takes over from a study."""


@dataclass(frozen=True)
class TakenOver:
    """The parts that a search takes over from a study: tables, contenders by name, sweeps."""

    tables: Mapping[str, Any] = field(default_factory=dict)
    contenders: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    sweeps: Sequence[SweepTable] = ()


def taken_over(request: CrossoverRequest, catalogue: Catalogue) -> TakenOver:
    """Return the parts that both stages take over from --study; raise `UserError` for contradictions."""
    if not request.study:
        return TakenOver()
    for name in ("workload", "load", "duration"):
        if (value := getattr(request, name)) is not None:
            raise request.refusal(
                f"--{name} {value}",
                f"--study {request.study} has its own",
                "crossover.option_contradicts_study",
                "leave one out, or --set a key of the study",
            )
    file = TomlFile(find_study(request.study))
    problems = Problems(file)
    form, data, _ = shaped(filled(file.data, catalogue), problems)
    problems.raise_any()
    if form.scale is not None:
        raise request.refusal(
            f"--study {request.study}",
            "this study has a [scale], which also scales the range",
            "crossover.study_is_scaled",
            "leave --study out, and give contenders as design=...,setting=value",
        )
    tables = {name: deepcopy(data[name]) for name in OWN_TABLES if name in data}
    for name in ("baseline", "single_runs", "trial"):
        tables["measure"].pop(name, None)
    tables["set"] = _size_set(form)
    return TakenOver(tables, {base.table.name: base.own()[0] for base in declared(form)}, form.sweeps)


def _size_set(form: StudyForm) -> dict[str, Any]:
    """Return the keys that the study's quick size sets, except for contenders and sweeps."""
    quick = form.sizes.get(SIZE)
    own = {} if quick is None else quick.set
    return {key: value for key, value in own.items() if key.partition(".")[0] in OWN_TABLES}
