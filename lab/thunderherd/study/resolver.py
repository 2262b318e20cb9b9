"""Turns the form of a study into the resolved study: one pass for each size, with or without overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Catalogue, Setting, Way, defaults
from thunderherd.engine.counter_names import figures_of_counters, states_of_counters
from thunderherd.engine.lines import Accepted
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, USUAL
from thunderherd.metrics.table import CPU_PER_CONNECTION, better_of
from thunderherd.records.summary import PROCESS_CONTROL, PaperFigure, SweepPoint
from thunderherd.study.checks.files import check_files, files_of
from thunderherd.study.checks.labs import check_lab
from thunderherd.study.checks.load_commands import check_placeholders, check_taken, notes_of_commands
from thunderherd.study.checks.machine import check_cpus, unavailable, unavailable_lab
from thunderherd.study.checks.names import asked_of, check_names
from thunderherd.study.checks.sizes import check_size
from thunderherd.study.checks.sweeps import check_ceilings, check_measurable, check_sweeps
from thunderherd.study.checks.unused_overrides import check_counts, check_used
from thunderherd.study.comparisons import compared_pairs, planned_looks
from thunderherd.study.defaults import read
from thunderherd.study.extra_trials import check_counters, choose_contenders, choose_cost_contenders
from thunderherd.study.file.contenders import (
    MAIN,
    Configuration,
    axis_name,
    configurations,
    label_of,
    point_name,
    points,
    x_label,
)
from thunderherd.study.file.tables import LabTable, LoadTable, ScaleTable, StudyForm, SweepTable
from thunderherd.study.labs import common_settings, lab_of, local_ports, notes_of, of_sockets
from thunderherd.study.loads import check_ends, check_ports, command_of_load, judged
from thunderherd.study.overrides import SettableKeys, parse_override
from thunderherd.study.own_programs import (
    check_load_generator,
    check_own_server,
    load_generator_of,
    load_settings,
    missing_programs,
    own_server_of,
)
from thunderherd.study.queueing_bound import at_least, check_at_least, check_bound, queueing_bound
from thunderherd.study.resolved import (
    Contender,
    LoadPlan,
    Measure,
    Settings,
    Study,
    Sweep,
    notes_of_left_out,
)
from thunderherd.study.scale import (
    OF_LOAD,
    OF_SERVER,
    check_remainders,
    check_scale,
    divided,
    factors,
    here,
    in_words,
    is_scaled,
    note_of,
    remarks,
    titled,
)
from thunderherd.study.source_figures import Paper
from thunderherd.toml.file import KeyPath, Problems, assign, dotted, flat, show
from thunderherd.toml.quantities import COUNT, TIME, parse_quantity, quantity_of

JUDGED_OR_REPEATED = {
    "repetitions": ("looks", "alpha_split"),
    "looks": ("repetitions",),
    "alpha_split": ("repetitions",),
}
"""Keys of a size that exclude each other: if one is overridden, the others are left out."""


OTHER_VALUES = "this run has other values of its sweep"
"""The reason why a contender is absent if the user has overridden the values of its sweep."""


class Resolver:
    """One pass over a study: one size, with or without overrides.

    Parameters
    ----------
    form
        The study as its file has it.
    data
        The data of the file without defaults, which follow the overrides.
    size
        The size of the pass.
    overrides
        The user's overrides, `key=value`.
    typed_as
        For overrides that were not typed as `--set`: the words that the user typed.
    catalogue
        The engine's catalogue.
    problems
        Receives the problems of the pass.
    whole
        Whether nothing in the file had to be mended.
    """

    def __init__(
        self,
        form: StudyForm,
        data: dict[str, Any],
        size: str,
        overrides: Sequence[str],
        typed_as: Mapping[str, str],
        catalogue: Catalogue,
        problems: Problems,
        whole: bool,
    ) -> None:
        self.size, self.overrides, self.catalogue, self.problems = size, tuple(overrides), catalogue, problems
        form = form.with_usual(catalogue.defaults)
        self.form, self.declared, self.whole = form, form, whole
        self.remainders: dict[str, dict[int, SettingValue]] = {}
        self.remedies: dict[str, dict[str, None]] = {}
        """Hint → the contenders that are absent until it is followed, in order."""
        if not (own := [*flat(form.sizes[size].set)]) and not overrides:
            return
        changed = deepcopy(data)
        keys = SettableKeys(form, size, catalogue)
        for key, value in own:
            place: KeyPath = ("sizes", size, "set", *key)
            self._set(changed, keys, dotted(key), value, problems.file.where(place))
        for text in overrides:
            try:
                name, value = parse_override(text)
            except UserError as error:
                for each in error.problems:
                    problems.note(each)
            else:
                paths = self._set(changed, keys, name, value, typed_as.get(text, f"--set {text}"))
                problems.overridden.update(dict.fromkeys(paths, value))
        form, _, unchanged = read(changed, catalogue, problems)
        self.form = form.with_usual(catalogue.defaults)
        self.whole = whole and unchanged

    def _set(
        self, data: dict[str, Any], keys: SettableKeys, key: str, value: Any, origin: str
    ) -> list[KeyPath]:
        """Give all places that a key means another value, and return the places."""
        try:
            paths = keys.find(key)
        except UserError as error:
            for each in error.problems:
                self.problems.note(each.at(origin))
            return []
        for path in paths:
            assign(data, path, value)
            if path[0] == "sizes" and path[-1] in JUDGED_OR_REPEATED:
                for other in JUDGED_OR_REPEATED[str(path[-1])]:
                    data["sizes"][path[1]].pop(other, None)
            self.problems.origins[path] = origin
        return paths

    def study(self, *, on_this_machine: bool) -> Study | None:
        """Return the study of this pass; None if it has problems."""
        problems, sweep_names = self.problems, [sweep.name for sweep in self.form.sweeps]
        self.form, everything = self._configurations()
        form = self.form
        chosen = [each for each in everything if self._is_of_size(each)]
        absent = {each.name: self._elsewhere(each) for each in everything if not self._is_of_size(each)}
        absent |= self._given_up(everything)
        if self.whole and not len(problems):
            check_used(form, self.size, chosen, self.catalogue, problems)
            check_counts(form, chosen, self.catalogue, problems)
        paper = Paper.read(form, asked_of(form, self.catalogue), problems)
        missing = self._missing(chosen) if on_this_machine else {}
        if missing:
            absent |= missing
            chosen = [each for each in chosen if each.name not in missing]
        load = self._load(form.load, form.server.workload, form.lab, form.scale)
        contenders = [self._contender(each) for each in chosen]
        sweeps = [
            self._sweep(sweep, chosen, contenders, missing)
            for sweep in form.sweeps
            if sweep.name in self.parts()
        ]
        family = compared_pairs(form, self.size, self.parts(), chosen)
        resolved = list(zip(chosen, contenders, strict=True))
        self._check_ends(resolved, on_this_machine)
        counted = check_counters(form.counting, self.catalogue, problems)
        counting = choose_contenders("counting", counted, contenders, sweeps, absent, problems)
        cost = choose_cost_contenders(form, contenders, sweeps, absent, problems)
        profiling = choose_contenders("profiling", form.profiling, contenders, sweeps, absent, problems)
        # If the file had to be mended, the number of comparisons and alpha are not known.
        check_size(form, self.size, sweep_names, len(family) if self.whole else None, problems)
        if self.whole and on_this_machine:
            self._check_ports(resolved)
        if len(problems) or not self.whole:
            return None
        return Study(
            **form.model_dump(include={"name", "title", "question", "source"}),
            size=self.size,
            measure=self._measure(),
            contenders=tuple(contenders),
            sweeps=tuple(sweeps),
            paper=tuple(self._figures(paper)),
            absent=absent,
            comparisons=tuple(family),
            looks=planned_looks(form, self.size),
            repetitions=form.sizes[self.size].repetitions,
            decides=form.sizes[self.size].decides,
            budget_seconds=self._budget(),
            load=load,
            lab=lab_of(form.lab, self.catalogue),
            noise=form.noise,
            counting=counting,
            counting_cost=cost,
            profiling=profiling,
            notes=tuple(self._notes(chosen, contenders, load, missing)),
            inconsistencies=paper.inconsistencies,
            units=self._units(contenders),
            path=problems.file.path,
            claims_path=paper.claims,
            paper_counters=form.paper_counters,
            source_csv=form.source_csv,
            overrides=self.overrides,
        )

    def _budget(self) -> float | None:
        """Return the time budget of this size in seconds; None without one."""
        text, key = self.form.sizes[self.size].budget, ("sizes", self.size, "budget")
        try:
            return None if text is None else parse_quantity(text, self.problems.where(key), TIME) / 1e9
        except UserError as error:
            for each in error.problems:
                self.problems.note(each)
            return None

    def _check_ends(self, resolved: Sequence[tuple[Configuration, Contender]], on_this_machine: bool) -> None:
        """Check that the scale's factor divides all values, and that servers and loads agree."""
        if not len(self.problems):  # an invalid value that the factor does not divide is one mistake
            check_remainders(self.form.scale, self.remainders, self.problems)
        if self.whole:
            check_ends(resolved, self.catalogue, self.problems, on_this_machine=on_this_machine)

    def _check_ports(self, resolved: Sequence[tuple[Configuration, Contender]]) -> None:
        """Check that this machine has enough ports for each contender, and can run at least one contender."""
        problems = self.problems
        for each, made in resolved:
            check_ports(each, made.load, local_ports(each.lab, self.catalogue), self.catalogue, problems)
        if not resolved and not len(problems):
            message = f"this machine can run no contender of size {show(self.size)}"
            problems.add(("sizes", self.size), message, code="study.nothing_to_run", hint=self._remedy())

    def _measure(self) -> Measure:
        """Return [measure] with the figures of the requested counters."""
        measure = self.form.measure
        return Measure.model_validate(
            measure.model_dump(exclude={"trial", "at_least"})
            | {
                "limits": TIME.read(measure.limits),
                "better": better_of(measure.metric),
                "counters": figures_of_counters(measure.counters, self.catalogue),
                "states": states_of_counters(measure.counters, self.catalogue),
            }
        )

    def _units(self, contenders: Sequence[Contender]) -> dict[str, str]:
        """Return the units of the settings of these contenders that are quantities."""
        names = {name for each in contenders for name in (*each.settings, *each.load.settings)}
        settings = {name: each for name, each in self.catalogue.of_ends.items() if name in names}
        return {
            name: each.unit
            for name, each in settings.items()
            if each.unit and quantity_of(each.unit) is not COUNT
        }

    def parts(self, size: str | None = None) -> list[str]:
        """Return the parts that a size (default: this one) runs: the main table, and sweeps by name."""
        everything = [MAIN, *(sweep.name for sweep in self.form.sweeps)]
        return self.form.sizes[size or self.size].parts or everything

    def _elsewhere(self, each: Configuration) -> str:
        """Return why a contender does not run, and which sizes run it."""
        if ("sizes", self.size, "parts") in self.problems.overridden and each.part not in self.parts():
            return f"{each.part} is not one of this run's parts: {', '.join(self.parts())}"
        # A size that decides claims runs what these need.
        sizes = [
            name
            for name, size in self.form.sizes.items()
            if name != self.size and size.decides != "claims" and self._is_of_size(each, name)
        ]
        return outside_size(self.size, *sizes)

    def _has_point(self, sweep: SweepTable, point: str | None, size: str | None = None) -> bool:
        """True if a size (default: this one) that runs a sweep also runs one of its points."""
        chosen = self.form.sizes[size or self.size].points.get(sweep.name)
        if chosen is None or point in [*map(point_name, chosen)]:
            return True
        # Overridden values of a sweep all run.
        return ("sweeps", self.form.sweeps.index(sweep), "values") in self.problems.overridden

    def _is_of_size(self, each: Configuration, size: str | None = None) -> bool:
        if each.sweep and each.point and not self._has_point(each.sweep, each.point.name, size):
            return False
        return each.part in self.parts(size)

    def _given_up(self, everything: Sequence[Configuration]) -> dict[str, str]:
        """Return the declared contenders that are absent because the run overrides a sweep's values."""
        if not self.whole or self.form.sweeps == self.declared.sweeps:
            return {}
        names = {each.name for each in everything}
        declared = [each.name for each in configurations(self.declared, self.catalogue)]
        return {name: OTHER_VALUES for name in declared if name not in names}

    def _configurations(self) -> tuple[StudyForm, list[Configuration]]:
        """Return the form and its contenders, after checking them.

        If one sweep is not well formed, the form has no sweeps.
        """
        form, problems = self.form, self.problems
        if not check_sweeps(form, self.catalogue, problems):
            form = form.model_copy(update={"sweeps": []})
            self.whole = False
        found = configurations(form, self.catalogue)
        check_names(form, found, self.catalogue, problems)
        for each in found:
            check_own_server(each, self.catalogue, self._folder, problems)
            check_load_generator(each, problems)
            check_taken(each, self.catalogue, problems)
            check_placeholders(each, self.catalogue, problems)
            check_measurable(each, problems)
            check_lab(each, self.catalogue, problems)
            check_files(each, self.catalogue, problems)
        self._check_proportions(found)
        check_ceilings(form, found, problems)
        return form, found

    def _check_proportions(self, found: Sequence[Configuration]) -> None:
        """Check that [scale], [queueing_bound] and `at_least` name settings of servers or of the load."""
        known = set[str]()
        for each in found:
            of_server = self.catalogue.settings_of_server(each.design, each.way, each.workload)
            known |= {f"{OF_SERVER}.{name}" for name in of_server}
            of_load = self.catalogue.settings_of_load(each.load.kind, each.load.way, each.workload)
            known |= {f"{OF_LOAD}.{name}" for name in of_load}
        check_scale(self.form, sorted(known), self.problems)
        check_bound(self.form.queueing_bound, sorted(known), self.problems)
        asked = asked_of(self.form, self.catalogue)
        check_at_least(self.form.measure, sorted(known), asked, self.problems)

    def _missing(self, chosen: Sequence[Configuration]) -> dict[str, str]:
        """Return the contenders to leave out because this machine cannot run them, with the reasons.

        A contender that may not be left out is a problem.
        """
        missing: dict[str, str] = {}
        for each in chosen:
            check_cpus(each, self.problems)
            lacks = []
            # Hosts are asked before the first trial.
            if not KINDS.get(each.lab.kind, USUAL).reaches_hosts:
                lacks += [*unavailable(each, self.catalogue), *unavailable_lab(each, self.catalogue)]
                lacks += missing_programs(each, self._folder)
            for key, problem in lacks:
                if each.may_be_left_out:
                    missing.setdefault(each.name, str(problem))
                    self.remedies.setdefault(problem.hint, {})[each.table.name] = None
                else:
                    self.problems.add(key, problem)
        return missing

    def _remedy(self) -> str:
        """Return what the absent contenders need, each with their names unless all need it."""
        every = {name for names in self.remedies.values() for name in names}
        by_number = sorted(self.remedies.items(), key=lambda item: -len(item[1]))
        return "; ".join(
            hint if len(names) == len(every) else f"for {', '.join(names)}: {hint}"
            for hint, names in by_number
            if hint
        )

    def _figures(self, paper: Paper) -> Iterator[PaperFigure]:
        """Yield the source's figures of the parts and points that this size runs."""
        if MAIN in self.parts():
            yield from paper.figures[None]
        for sweep in self.form.sweeps:
            if sweep.name in self.parts():
                yield from (each for each in paper.figures[sweep.name] if self._has_point(sweep, each.point))

    def _contender(self, each: Configuration) -> Contender:
        table, base = each.base.table, each.base.start
        allowed = self.catalogue.settings_of_server(each.design, each.way, each.workload)
        allowed = of_sockets(each.lab, allowed, self.catalogue)
        label = table.label or label_of(table, base)
        scale = self.form.scale if is_scaled(each) else None
        settings = (
            defaults(allowed)
            | _known(common_settings(each.lab), allowed)
            | _known(self.form.server.settings, allowed)
            | _known(each.table.settings, allowed)
        )
        settings = divided(settings, OF_SERVER, scale, allowed, self.remainders)
        own_server = own_server_of(each, self.catalogue, self._folder)
        settings = {} if own_server else settings
        load = self._load(each.load, each.workload, each.lab, scale, load_settings(each))
        if generator := load_generator_of(each, self._folder):
            load = load.model_copy(update={"generator": generator, "parser": each.load.parser})
        if each.sweep and each.point:
            ran = here(scale, each.point)
            point = SweepPoint(name=each.point.name, number=each.point.number, here=ran)
            label = f"{label}; {axis_name(each.sweep)} {point.label}"
        is_main, workload = each.sweep is None, self.catalogue.workload(each.workload)
        return Contender(
            name=each.name,
            label=label,
            base=table.name,
            sweep=each.sweep.name if each.sweep else None,
            point=each.point.name if each.point else None,
            row=table.row if is_main and isinstance(table.row, int) else None,
            design=each.design,
            own_server=own_server,
            **each.way._asdict(),
            **self._seen_of(self.catalogue.defaults.way if own_server else each.way),
            **self.catalogue.facts_of(
                each.design, each.way, each.load.way, settings=(settings, load.settings)
            ),
            workload=each.workload,
            settings=settings,
            load=load,
            lab=lab_of(each.lab, self.catalogue),
            trial=each.trial,
            metric=each.metric,
            better=better_of(each.metric),
            may_be_left_out=each.may_be_left_out,
            scale=in_words(scale, settings),
            divided_by=factors(scale),
            queueing_bound=queueing_bound(self.form.queueing_bound, settings, load),
            at_least=at_least(self.form.measure.at_least, load),
            counts_requests=own_server is None and (workload is None or workload.counts_requests),
            control_of=table.control_of if is_main else None,
        )

    @property
    def _folder(self) -> Path:
        """The folder of the study, where its paths begin."""
        return self.problems.file.path.parent

    def _load(
        self,
        load: LoadTable,
        workload: str,
        lab: LabTable,
        scale: ScaleTable | None,
        implied: Settings | None = None,
    ) -> LoadPlan:
        allowed = self.catalogue.settings_of_load(load.kind, load.way, workload)
        allowed = of_sockets(lab, allowed, self.catalogue)
        common = _known(common_settings(lab), allowed)
        given = _known({**(implied or {}), **load.settings}, allowed)
        usual = defaults(allowed)
        settings = divided(usual | common | given, OF_LOAD, scale, allowed, self.remainders)
        changed = {name for name, value in settings.items() if value != usual[name]}
        kind, way, catalogue = self.catalogue.load(load.kind), load.way._asdict(), self.catalogue
        folder = self._folder
        plan = LoadPlan(
            kind=load.kind,
            **way,
            **self._seen_of(load.way),
            workload=workload,
            processes=load.processes,
            hosts=max(1, len(lab.load or ())),
            settings=settings,
            warm_up_connections=load.warm_up_connections,
            **files_of(settings, allowed, folder, catalogue.file_prefix),
            requests=kind.requests if kind else (),
            duration=kind.duration if kind else None,
            warm_up=kind.warm_up if kind else None,
            clients_by=kind.clients if kind else None,
            times=frozenset(name for name, each in allowed.items() if quantity_of(each.unit) is TIME),
            own_way={key: each for key, each in way.items() if each != getattr(catalogue.defaults, key)},
            given=frozenset(changed | given.keys() | common.keys()),
        )
        answer = judged(command_of_load(plan), catalogue)
        if not isinstance(answer, Accepted):
            return plan
        left = {name: value for name, value in settings.items() if name not in answer.replaced}
        return plan.model_copy(update={"settings": left})

    def _seen_of(self, way: Way) -> dict[str, Any]:
        """Return whether the receive primitive stores bytes, and the send primitive reports completions."""
        sends, receives = self.catalogue.primitive(way.primitive), self.catalogue.primitive(way.receive)
        return {
            "stores": receives is None or receives.stores,
            "completes": sends is not None and sends.completes,
        }

    def _sweep(
        self,
        sweep: SweepTable,
        chosen: Sequence[Configuration],
        contenders: Sequence[Contender],
        missing: Mapping[str, str],
    ) -> Sweep:
        own = [each for each in chosen if each.sweep is sweep]
        metric = sweep.metric or self.form.measure.metric
        place: KeyPath = ("sweeps", self.form.sweeps.index(sweep))
        resolved = [each for each in contenders if each.sweep == sweep.name]
        scale = self.form.scale if sweep.scaled else None
        shown = [
            SweepPoint(name=point.name, number=point.number, here=here(scale, point))
            for point in points(sweep, place)
            if self._has_point(sweep, point.name)
        ]
        is_smaller = any(point.here is not None for point in shown)
        return Sweep.model_validate(
            sweep.model_dump(include={*Sweep.model_fields})
            | {
                "title": titled(sweep, resolved, self.catalogue.of_ends, place, self.problems),
                "x_label": f"{x_label(sweep)}, source's size" if is_smaller else x_label(sweep),
                "metric": metric,
                "better": better_of(metric),
                "metrics": tuple(dict.fromkeys([metric, *sweep.further_metrics, *sweep.metrics])),
                "trial": sweep.trial or self.form.measure.trial,
                "points": shown,
                "contenders": tuple(dict.fromkeys(each.base.table.name for each in own)),
                "absent": {name: why for name, why in missing.items() if f"@{sweep.name}=" in name},
                "remarks": remarks(sweep, resolved),
            }
        )

    def _shows_connections(self) -> bool:
        """Return whether the main table has a cost per connection."""
        costs = (CPU_PER_CONNECTION, PROCESS_CONTROL)
        shown = [self.form.measure.metric, *self.form.measure.further_metrics]
        shown += [table.metric for table in self.form.paper]
        shown += [metric for table in self.form.paper for metric in table.figures or ()]
        return any(metric in costs for metric in shown)

    def _notes(
        self,
        chosen: Sequence[Configuration],
        contenders: Sequence[Contender],
        load: LoadPlan,
        missing: Mapping[str, str],
    ) -> Iterator[str]:
        """Yield the notes that belong to every figure."""
        if smaller := note_of(self.form.scale):
            yield smaller
        shown = self.form.measure.normalise_connections
        measured = load.connections_per_trial
        has_main = any(each.sweep is None for each in contenders)
        if has_main and self._shows_connections() and measured not in (None, shown):
            yield (
                f"{measured} connections a trial, shown per {shown}: "
                "the cost is scaled, not measured at that number"
            )
        lab = lab_of(self.form.lab, self.catalogue)
        labs: dict[str | None, set[str]] = {}
        for made in contenders:
            labs.setdefault(made.sweep, set()).add(made.lab.network)
        if {lab.network} not in labs.values():
            lab = lab.model_copy(update={"settings": {}})  # no part runs in the study's own lab
        running = [made.own_server is not None and made.own_server.url is not None for made in contenders]
        yield from notes_of(lab, self.form.lab.placement, places_servers=not all(running) or not running)
        yield from notes_of_commands(chosen, self.catalogue, self.problems)
        yield from notes_of_left_out(missing)
        by_reason: dict[str, list[str]] = {}
        for each in self.catalogue.counters:
            if each.name in self.form.measure.counters and not each.available:
                by_reason.setdefault(each.reason or "", []).append(each.name)
        for reason, alike in by_reason.items():
            are = f"counter {alike[0]} is" if len(alike) == 1 else f"counters {', '.join(alike)} are"
            yield f"{are} not available on this machine: {reason}"


def outside_size(size: str, *others: str) -> str:
    """Return why a contender does not run in a size; `others` are the sizes that run it."""
    return f"not part of size {size}" + (f", but of {' and '.join(others)}" if others else "")


def _known(settings: Settings, allowed: Mapping[str, Setting]) -> Settings:
    """Return the valid settings, quantities as numbers; the others are problems already."""
    return {
        key: allowed[key].read(value)
        for key, value in settings.items()
        if key in allowed and allowed[key].accepts(value)
    }
