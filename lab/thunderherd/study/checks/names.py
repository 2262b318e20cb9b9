"""Checks that designs, primitives, loads, settings, counters and pairs exist.

The engine's catalogue has the names and the settings. Each problem is added at the key to change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunderherd.engine.catalogue import Catalogue, Setting, Way
from thunderherd.engine.counter_names import FORMS, how_to_write, may_be_asked_for, of_perf
from thunderherd.metrics.table import METRICS, AskedCounters, asked_counters, metric_names
from thunderherd.study.file.contenders import OWN, Configuration, declared
from thunderherd.study.file.tables import ContenderTable, LoadTable, StudyForm
from thunderherd.toml.file import LISTS, KeyPath, Problems, flat, nearest, shortened, show, suggest, unknown

DIRECTIONS = {"primitive": "out", "receive": "in"}
"""The direction of the primitives that each key takes."""


def check_names(
    form: StudyForm, configurations: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """Check that metrics, counters, designs, primitives, loads, settings and pairs exist."""
    workloads, loads = [each.name for each in catalogue.workloads], [each.name for each in catalogue.loads]
    asked = asked_of(form, catalogue)
    check_metric(form.measure.metric, ("measure", "metric"), asked, problems)
    for place, name in enumerate(form.measure.further_metrics):
        check_metric(name, ("measure", "further_metrics", place), asked, problems)
    for index, name in enumerate(form.measure.counters):
        check_counter(name, ("measure", "counters", index), catalogue, problems)
    if form.server.workload not in workloads:
        problems.add(("server", "workload"), unknown("workload", form.server.workload, workloads))
    _check_way(form.server.way, ("server",), catalogue, problems)
    if form.load.kind not in loads:
        problems.add(("load", "kind"), unknown("load", form.load.kind, loads))
    _check_way(form.load.way, ("load",), catalogue, problems)
    _check_contenders(form, catalogue, problems)
    _check_common_settings(form, catalogue, problems)
    for configuration in configurations:
        _check_configuration(configuration, catalogue, problems)
    _check_pairs(form, problems)


def check_counter(name: str, key: KeyPath, catalogue: Catalogue, problems: Problems) -> None:
    """Check the name of a counter or event. Whether this machine has it does not matter."""
    if not may_be_asked_for(name, catalogue):
        counters = [each.name for each in catalogue.counters if each.countable]
        known = f"known: {shortened(', '.join(counters), LISTS['counter'])}; {FORMS}"
        found = nearest(name, [*counters, *of_perf(catalogue)])
        hint = how_to_write(name, catalogue) or (f"did you mean '{found}'? {known}" if found else known)
        problems.add(key, f"no such counter {show(name)}", code="study.unknown_counter", hint=hint)


def asked_of(form: StudyForm, catalogue: Catalogue) -> AskedCounters:
    """Return the counters that a study requests from both sides."""
    return asked_counters(form.measure.counters, catalogue)


ALL_METRICS = "docs/generated/reference/metrics.md"
"""The page that lists all metrics."""


def check_metric(name: str, key: KeyPath, asked: AskedCounters, problems: Problems) -> None:
    """Check that a metric exists with these counters."""
    names = metric_names(asked)
    if name in names:
        return
    of_sides = [each for each in names if each not in METRICS]
    hint = suggest(name, of_sides if "." in name else METRICS, f"all: {ALL_METRICS}")
    problems.add(key, f"no such metric {show(name)}", code=f"{problems.file.area}.unknown_metric", hint=hint)


def _check_way(way: Way, table: KeyPath, catalogue: Catalogue, problems: Problems) -> None:
    for key, name in way._asdict().items():
        _check_primitive(key, name, (*table, key), catalogue, problems)


def _check_primitive(key: str, name: str, place: KeyPath, catalogue: Catalogue, problems: Problems) -> bool:
    """Check that a primitive exists and moves bytes in the direction of its key; return whether it does."""
    known = [each.name for each in catalogue.primitives if each.moves == DIRECTIONS[key]]
    if name in known:
        return True
    if other := catalogue.primitive(name):
        problems.add(
            place,
            f"{key} = {show(name)}: that primitive {'sends' if other.moves == 'out' else 'receives'}",
            code="study.wrong_direction",
            hint=f"{key} takes one of {', '.join(known)}",
        )
    else:
        problems.add(place, unknown("primitive", name, known))
    return False


def _check_contenders(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    """Check that each declared contender has its own name, and a design or a contender to vary."""
    main = [table.name for table in form.contenders]
    real = [table.name for table in form.contenders if not table.control_of]
    _check_baseline(form, main, real, problems)
    taken: dict[tuple[KeyPath, str], KeyPath] = {}
    for base in declared(form):
        table, here = base.table, base.place
        # Two sweeps may each have their own contender of the same name.
        scope = here[:2] if here[0] == "sweeps" else ()
        if first := taken.get(((), table.name)) or taken.get((scope, table.name)):
            problems.add(
                (*here, "name"),
                f"the name {show(table.name)} is already taken",
                code="study.duplicate_name",
                hint=f"the other contender is at {problems.where((*first, 'name'))}",
            )
        taken.setdefault((scope, table.name), here)
        if table.control_of:
            _check_control(table, here, main, real, problems)
        elif (
            {table.design, table.url} == {None}
            and table.command is None
            and not (problems.has_settled(here, "design", "command", "url", "control_of"))
        ):
            problems.add(
                here,
                f"contender {show(table.name)} has no design",
                code="study.no_design",
                hint="give design, command or url; or control_of, the contender that it varies",
            )
        if here[0] == "sweeps" and table.row is not None:
            _add_row_not_allowed(here, "a contender of a sweep", problems)
        designs = [each.name for each in catalogue.designs]
        if table.design and table.design not in designs:
            problems.add((*here, "design"), unknown("design", table.design, designs))
        workloads = [each.name for each in catalogue.workloads]
        if table.workload and table.workload not in workloads:
            problems.add((*here, "workload"), unknown("workload", table.workload, workloads))
        for key in Way._fields:
            if name := getattr(table, key):
                _check_primitive(key, name, (*here, key), catalogue, problems)


def _check_baseline(form: StudyForm, main: Sequence[str], real: Sequence[str], problems: Problems) -> None:
    baseline, key = form.measure.baseline, ("measure", "baseline")
    if baseline is None or baseline in real:
        return
    if baseline in main:
        problems.add(
            key,
            f"baseline = {show(baseline)} is a control",
            code="study.control_as_baseline",
            hint=f"take one of {', '.join(real)}",
        )
    else:
        problems.add(key, unknown("contender", baseline, real))


def _check_control(
    table: ContenderTable, here: KeyPath, names: Sequence[str], real: Sequence[str], problems: Problems
) -> None:
    key = (*here, "control_of")
    if table.control_of not in names:
        problems.add(key, unknown("contender", table.control_of, real))
    elif table.control_of not in real:
        problems.add(
            key,
            f"{show(table.control_of)} is a control itself",
            code="study.control_of_control",
            hint=f"contenders: {', '.join(real)}",
        )
    if table.design:
        problems.add(
            (*here, "design"),
            f"a control has the design of {show(table.control_of)}",
            code="study.design_of_control",
            hint="leave design out",
        )
    if table.row is not None:
        _add_row_not_allowed(here, "a control", problems)
    if not any(flat(table.model_dump(exclude_unset=True, exclude=set(OWN)))):
        problems.add(
            here,
            f"control {show(table.name)} changes nothing",
            code="study.empty_control",
            hint="give it settings",
        )


def _add_row_not_allowed(here: KeyPath, owner: str, problems: Problems) -> None:
    message = f"{owner} has no row in the source's table"
    problems.add((*here, "row"), message, code="study.row_not_allowed", hint="leave row out")


def _check_configuration(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Check that server and load have the given settings and primitives."""
    form, workload = each.form, each.workload
    designs = [entry.name for entry in catalogue.designs]
    if each.point and each.design and each.design not in designs:
        problems.add(each.where("design"), unknown("design", each.design, designs))
    if each.point:
        for key, name in each.way._asdict().items():
            _check_primitive(key, name, each.where(key), catalogue, problems)
    if catalogue.workload(workload) is None:
        return
    if each.design in designs:
        settings = catalogue.settings_of_server(each.design, each.way, workload)
        owner = _Owner(
            f"design {show(each.design)}", f"thunderherd serve {each.design} {workload} --help-all"
        )
        own = {name: each.where("settings", name) for name in each.table.settings}
        _check_settings(each.table.settings, settings, own, owner, form, catalogue, problems)
    _check_load(each, catalogue, problems)


def _check_load(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    kind, key = each.load.kind, each.where("load", "kind")
    countable = [load.name for load in catalogue.loads if load.requests or load.duration]
    loads = [load.name for load in catalogue.loads]
    if kind not in loads:
        problems.add(key, unknown("load", kind, loads))
        return
    if kind not in countable:
        problems.add(
            key,
            f"load {show(kind)} has no number of requests known beforehand, so no study can use it",
            code="study.load_without_end",
            hint=f"use {', '.join(countable) or 'none of the loads of this engine'}",
        )
    workload = each.workload
    for name, primitive in each.load.way._asdict().items():
        place = each.where("load", name)
        if not _check_primitive(name, primitive, place, catalogue, problems):
            return
    allowed = catalogue.settings_of_load(kind, each.load.way, workload)
    given = each.table.load.settings
    own = {name: each.where("load", "settings", name) for name in given}
    owner = _owner(each.load, workload, catalogue)
    _check_settings(given, allowed, own, owner, each.form, catalogue, problems)


@dataclass(frozen=True)
class _Owner:
    """What has settings, in words, and the command that lists all of them."""

    words: str
    listed: str


def _owner(load: LoadTable, workload: str, catalogue: Catalogue) -> _Owner:
    """Return a name for the owner of a load's settings: the load and its unusual primitives."""
    own = [name for name, other in zip(load.way, catalogue.defaults.way, strict=True) if name != other]
    words = f"load {show(load.kind)}" + (f" with primitive {' and '.join(own)}" if own else "")
    return _Owner(words, f"thunderherd load {workload} --load {load.kind} --help-all")


def _check_common_settings(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    workload = form.server.workload
    if catalogue.workload(workload) is None:
        return
    server = catalogue.settings_of_server("", form.server.way, workload)
    own: dict[str, KeyPath] = {name: ("server", "settings", name) for name in form.server.settings}
    design = catalogue.defaults.design
    words = f"every server of workload {show(workload)}"
    owner = _Owner(words, f"thunderherd serve {design} {workload} --help-all")
    _check_settings(form.server.settings, server, own, owner, form, catalogue, problems)
    if catalogue.load(form.load.kind) is not None:
        load = catalogue.settings_of_load(form.load.kind, form.load.way, workload)
        own = {name: ("load", "settings", name) for name in form.load.settings}
        owner = _owner(form.load, workload, catalogue)
        _check_settings(form.load.settings, load, own, owner, form, catalogue, problems)


def _check_settings(
    given: Mapping[str, object],
    allowed: Mapping[str, Setting],
    places: Mapping[str, KeyPath],
    owner: _Owner,
    form: StudyForm,
    catalogue: Catalogue,
    problems: Problems,
) -> None:
    for name, value in given.items():
        if name not in allowed:
            elsewhere = _owners(name, form, catalogue)
            known = shortened(f"known: {', '.join(allowed)}", owner.listed)
            hint = f"it is a setting of {elsewhere}; {known}" if elsewhere else suggest(name, allowed, known)
            problems.add(
                places[name],
                f"{owner.words} has no setting {show(name)}",
                code="study.unknown_setting",
                hint=hint,
            )
        else:
            check_value(name, value, allowed[name], places[name], problems)


def check_value(name: str, value: object, setting: Setting, place: KeyPath, problems: Problems) -> None:
    """Check that the value of a setting is one that it accepts."""
    if refusal := setting.refusal(value):
        joined = " " if refusal.code == "invalid_setting" else ": "
        message = f"{name} = {show(value)}{joined}{refusal.message}"
        problems.add(place, message, code=f"study.{refusal.code}", hint=refusal.hint)


def _owners(name: str, form: StudyForm, catalogue: Catalogue) -> str:
    """Return the designs and tables that have a setting of that name."""
    workload = form.server.workload
    owners = [each.name for each in catalogue.designs if any(own.name == name for own in each.settings)]
    if name in catalogue.settings_of_server("", form.server.way, workload):
        owners.append("[server.settings]")
    if name in catalogue.settings_of_load(form.load.kind, form.load.way, workload):
        owners.append("[load.settings]")
    return ", ".join(owners)


def _check_pairs(form: StudyForm, problems: Problems) -> None:
    names = [table.name for table in form.contenders]
    for index, pair in enumerate(form.comparisons.pairs):
        key: KeyPath = ("comparisons", "pairs", index)
        if len(pair) != 2 or pair[0] == pair[1]:
            message = f"pairs[{index}] = {show(pair)} is no pair"
            problems.add(key, message, code="study.invalid_pair", hint="a pair is two different names")
        for name in pair:
            if name not in names:
                problems.add(key, unknown("contender", name, names))
    # The form has no sweeps if one of them is not well formed, which is a problem already.
    if form.sweeps or problems.file.data.get("sweeps"):
        return
    if not names:
        hint = "give [[contenders]] or [[sweeps]]"
        problems.add((), "there is nothing to run", code="study.nothing_to_run", hint=hint)
    elif not form.comparisons.pairs and not form.comparisons.all_pairs:
        # A single contender can be measured without a comparison, if all_pairs is false.
        if len(names) > 1 and not any(table.control_of for table in form.contenders):
            hint = "say all_pairs = true, or give pairs"
            problems.add(("comparisons",), "nothing is compared", code="study.nothing_to_compare", hint=hint)
    elif len(names) < 2:
        problems.add(
            ("contenders",),
            f"nothing is compared: {show(names[0])} is the only contender",
            code="study.nothing_to_compare",
            hint="to measure it alone, set comparisons.all_pairs = false",
        )
