"""Studies: TOML in, one frozen `Study` out in which nothing is left to be guessed.

`load_study` reads a study's file, applies a size and the user's overrides, holds everything against what the
engine offers and what this machine has, and fills in every default. All mistakes of a file come in one
UserError, one line each: file and line (or the override), value seen, values allowed, near match. The parts
are in `study_file` (TOML with lines), `study_form` (what a file may contain), `study_overrides`, `study_checks`
and `study_resolved` (what it becomes).
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from thunderherd import study_checks as checks
from thunderherd.catalogue import Catalogue, Setting, defaults
from thunderherd.errors import UserError
from thunderherd.metrics import Better, metric
from thunderherd.study_file import (
    KeyPath,
    Problems,
    TomlFile,
    check_shape,
    dotted,
    field_at,
    near,
    show,
    unknown,
)
from thunderherd.study_form import ContenderTable, LabTable, StudyForm
from thunderherd.study_overrides import SettableKeys, assign, flat, parse_override
from thunderherd.study_paper import Paper
from thunderherd.study_resolved import (
    Comparison,
    Contender,
    Lab,
    LoadPlan,
    Look,
    Measure,
    Noise,
    Settings,
    Study,
    Sweep,
)

__all__ = [
    "DEFAULT_SIZE",
    "Comparison",
    "Contender",
    "Lab",
    "LoadPlan",
    "Look",
    "Study",
    "Sweep",
    "bundled_studies",
    "load_study",
]

DEFAULT_SIZE = "quick"
"""The size of a run that names none."""


# Finding and loading ----------------------------------------------------------------------------------------


def bundled_studies() -> dict[str, Path]:
    """The studies that come with Thunderherd: name -> file, sorted by name."""
    folder = Path(str(resources.files("thunderherd"))) / "studies"
    files = [path for path in folder.glob("*/*.toml") if path.name != "claims.toml"]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def find_study(name_or_path: str) -> Path:
    """The file of a bundled study, or the path itself if it ends in .toml. Raises UserError."""
    if name_or_path.endswith(".toml"):
        return Path(name_or_path)
    bundled = bundled_studies()
    if name_or_path not in bundled:
        known = f"{', '.join(bundled) or 'none'}, or the path of a .toml file"
        raise UserError(f"no such study {show(name_or_path)}; known: {known}{near(name_or_path, bundled)}")
    return bundled[name_or_path]


def load_study(name_or_path: str, size: str, overrides: Sequence[str], catalogue: Catalogue) -> Study:
    """Reads, checks and resolves a study.

    Parameters
    ----------
    name_or_path
        The name of a bundled study, or the path of a .toml file.
    size
        One of the sizes that the study declares; `DEFAULT_SIZE` where the user named none.
    overrides
        `key=value` texts, as given to --set; later ones win.
    catalogue
        What the engine offers.

    Raises
    ------
    UserError
        One line for each mistake. The other sizes are checked too, except for what depends on this machine.
    """
    file = TomlFile(find_study(name_or_path))
    problems = Problems(file)
    form, data, whole = _shaped(file.data, problems)
    if size not in form.sizes:
        problems.add(("sizes",), unknown("size", size, form.sizes))
        problems.raise_any()
    study = None
    for each in form.sizes:
        pass_ = Problems(file)
        pass_.settled |= problems.settled
        chosen = each == size
        resolver = _Resolver(form, data, each, overrides if chosen else (), catalogue, pass_, whole)
        resolved = resolver.study(on_this_machine=chosen)
        problems.absorb(pass_)
        study = resolved if chosen else study
    problems.raise_any()
    if study is None:
        raise UserError(f"{file.path}: could not be resolved")
    text = json.dumps(study.model_dump(mode="json", exclude={"digest"}), sort_keys=True)
    return study.model_copy(update={"digest": hashlib.sha256(text.encode()).hexdigest()})


def _shaped(data: dict[str, Any], problems: Problems) -> tuple[StudyForm, dict[str, Any], bool]:
    """The form of a file, its data, and whether nothing had to be mended for that.

    What is wrong by itself is noted, then left out or filled in, so that the rest can be checked in the same
    run; where nothing sensible remains the problems are raised.
    """
    wrong = check_shape(StudyForm, data, problems)
    if not wrong:
        return StudyForm.model_validate(data), data, True
    problems.settled.update(wrong)
    mended, silent = deepcopy(data), Problems(problems.file)
    # Leaving a key out may make it missing, and a table that is filled in has keys that are missing.
    for _ in range(4):
        if not wrong:
            return StudyForm.model_validate(mended), mended, False
        for key in sorted(wrong, key=lambda key: [str(part).zfill(6) for part in key], reverse=True):
            if not _mend(mended, key):
                problems.raise_any()
        wrong = check_shape(StudyForm, mended, silent)
        problems.settled.update(wrong)
    problems.raise_any()
    raise AssertionError("unreachable: there was a problem")


def _mend(data: dict[str, Any], key: KeyPath) -> bool:
    """Leaves a wrong key out, or fills a missing one in; False where neither makes sense."""
    here: Any = data
    for part in key[:-1]:
        here = here[part]
    present = not isinstance(here, dict) or key[-1] in here
    # Without its name, or moved up by another's absence, a contender is not the one that other keys mean.
    if key[0] == "contenders" and (len(key) <= 2 or key[-1] == "name"):
        return False
    if present:
        del here[key[-1]]
        return True
    field = field_at(StudyForm, key)
    kind = field.annotation if field else None
    fillings: dict[Any, Any] = {str: "x", int: 1}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fillings[kind] = {}
    if kind not in fillings:
        return False
    here[key[-1]] = fillings[kind]
    return True


# Resolving --------------------------------------------------------------------------------------------------


class _Resolver:
    """One pass over a study: one size, with or without overrides."""

    def __init__(
        self,
        form: StudyForm,
        data: dict[str, Any],
        size: str,
        overrides: Sequence[str],
        catalogue: Catalogue,
        problems: Problems,
        whole: bool,
    ) -> None:
        self.size, self.overrides, self.catalogue, self.problems = size, tuple(overrides), catalogue, problems
        changed = deepcopy(data)
        keys = SettableKeys(form, size, catalogue)
        for key, value in flat(form.sizes[size].set):
            place: KeyPath = ("sizes", size, "set", *key)
            self._set(changed, keys, dotted(key), value, problems.file.where(place))
        for text in overrides:
            try:
                name, value = parse_override(text)
            except UserError as error:
                problems.note(str(error))
            else:
                paths = self._set(changed, keys, name, value, f"--set {text}")
                problems.overridden.update(paths)
        self.form, _, unchanged = _shaped(changed, problems)
        self.whole = whole and unchanged

    def _set(
        self, data: dict[str, Any], keys: SettableKeys, key: str, value: Any, origin: str
    ) -> list[KeyPath]:
        """Gives all the places that a key means another value, and returns them."""
        try:
            paths = keys.find(key)
        except UserError as error:
            self.problems.note(f"{origin}: {error}")
            return []
        for path in paths:
            assign(data, path, value)
            self.problems.origins[path] = origin
        return paths

    def study(self, *, on_this_machine: bool) -> Study | None:
        """The study of this pass; None if anything is wrong with it."""
        form, problems = self.form, self.problems
        checks.check_names(form, self.catalogue, problems)
        paper = Paper.read(form, problems)
        contenders, load, family = tuple(self._contenders(paper)), self._load(), self._family()
        measure = form.measure.model_dump()
        measure = Measure.model_validate(measure | {"better": better_of(form.measure.metric)})
        if self.whole:
            checks.check_workload(
                form, {each.name: each.settings for each in contenders}, load.settings, problems
            )
        # Of a file that had to be mended, neither the family nor alpha are sure.
        checks.check_looks(form, self.size, len(family) if self.whole else None, problems)
        if self.whole and on_this_machine:
            checks.check_ports(form, load.requests, load.settings, problems)
        if on_this_machine:
            checks.check_cpus(form, problems)
        if len(problems) or not self.whole:
            return None
        # Imported when it is needed: `thunderherd list` should answer without numpy.
        from thunderherd.statistics import planned_looks

        size, lab = form.sizes[self.size], _place(form.lab)
        return Study(
            **form.model_dump(include={"name", "title", "question", "source"}),
            size=self.size,
            measure=measure,
            contenders=contenders,
            sweeps=(),
            absent={},
            repetitions=None,
            comparisons=tuple(family),
            looks=tuple(
                Look(blocks=look.blocks, alpha=look.alpha)
                for look in planned_looks(size.looks, measure.alpha, size.alpha_split)
            ),
            load=load,
            lab=lab,
            noise=Noise.model_validate(form.noise.model_dump()),
            notes=tuple(_notes(load, measure, lab, form.lab)),
            inconsistencies=paper.inconsistencies,
            path=problems.file.path,
            claims_path=paper.claims,
            paper_counters=form.paper_counters,
            overrides=self.overrides,
        )

    def _contenders(self, paper: Paper) -> Iterator[Contender]:
        server = self.form.server
        for index, (table, base) in enumerate(checks.with_bases(self.form)):
            design = base.design or ""
            primitive = table.primitive or base.primitive or server.primitive
            allowed = self.catalogue.settings_of_server(design, primitive, server.workload)
            yield Contender(
                name=table.name,
                label=table.label or _label(table, base),
                base=table.name,
                sweep=None,
                point=None,
                row=table.row if isinstance(table.row, int) else None,
                design=design,
                primitive=primitive,
                workload=server.workload,
                settings=defaults(allowed)
                | _known(server.settings, allowed)
                | _known(base.settings, allowed)
                | _known(table.settings, allowed),
                load=self._load(),
                lab=_place(self.form.lab),
                trial="window",
                metric=self.form.measure.metric,
                better=better_of(self.form.measure.metric),
                control_of=table.control_of,
                paper_seconds=paper.seconds_of(table, index, self.problems),
                paper_note=paper.note_of(table),
            )

    def _load(self) -> LoadPlan:
        load, workload = self.form.load, self.form.server.workload
        allowed, kind = self.catalogue.settings_of_load(load.kind, workload), self.catalogue.load(load.kind)
        return LoadPlan(
            kind=load.kind,
            workload=workload,
            clients=load.clients,
            settings=defaults(allowed) | _known(load.settings, allowed),
            warm_up_connections=load.warm_up_connections,
            requests=kind.requests if kind else (),
            duration=kind.duration if kind else None,
        )

    def _family(self) -> list[Comparison]:
        """Each pair once, whichever of the two is named first where it is declared again."""
        tables = self.form.contenders
        pairs = [(pair[0], pair[1]) for pair in self.form.comparisons.pairs if len(pair) == 2]
        if self.form.comparisons.all_pairs:
            pairs += combinations((table.name for table in tables if not table.control_of), 2)
        pairs += [(table.name, table.control_of) for table in tables if table.control_of]
        family: dict[frozenset[str], Comparison] = {}
        for a, b in pairs:
            metric = self.form.measure.metric
            family.setdefault(
                frozenset((a, b)), Comparison(a=a, b=b, metric=metric, better=better_of(metric))
            )
        return list(family.values())


def better_of(name: str) -> Better:
    """The better direction of a metric; of one that does not exist, which was complained about, less."""
    try:
        return metric(name).better
    except KeyError:
        return "less"


def _known(settings: Settings, allowed: Mapping[str, Setting]) -> Settings:
    """The settings that are right; the others have been complained about."""
    return {key: value for key, value in settings.items() if key in allowed and allowed[key].accepts(value)}


def _label(table: ContenderTable, base: ContenderTable) -> str:
    if table is base:
        return table.name
    changed = ", ".join(f"{key} {show(value)}" for key, value in table.settings.items())
    return f"{base.label or base.name}; {changed}"


def _place(table: LabTable) -> Lab:
    """The CPUs of both sides, with what `apart` means on this machine."""
    server, client = table.server_cpus, table.client_cpus
    usable = sorted(os.sched_getaffinity(0))
    if table.placement == "apart" and len(usable) > 1:
        server = server or [cpu for cpu in usable if cpu not in (client or ())][:1]
        client = client or [cpu for cpu in usable if cpu not in server]
    return Lab(server_cpus=tuple(server) if server else None, client_cpus=tuple(client) if client else None)


def _notes(load: LoadPlan, measure: Measure, lab: Lab, table: LabTable) -> Iterator[str]:
    if load.requests_per_trial != measure.normalise_connections:
        yield (
            f"{load.requests_per_trial} connections a trial, shown per {measure.normalise_connections}: "
            "what a trial costs is scaled, not measured at that length"
        )
    if lab.server_cpus or lab.client_cpus:
        server, client = (_cpus(cpus) for cpus in (lab.server_cpus, lab.client_cpus))
        yield f"the server runs on {server}, the clients on {client}"
    elif table.placement == "apart":
        yield "this process may use one CPU only: server and clients share it"


def _cpus(cpus: tuple[int, ...] | None) -> str:
    if cpus is None:
        return "any CPU"
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"CPUs {', '.join(map(str, cpus))}"
