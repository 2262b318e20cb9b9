"""What makes a study impossible although each of its keys is well formed: every check before the first trial.

The engine knows designs, settings and holes; the machine knows CPUs and ports; the rest is arithmetic.
Nothing here raises: problems are noted at the key to blame.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from thunderherd.engine.catalogue import USUAL_WAY, Catalogue, Setting, Way
from thunderherd.engine.counter_names import FORMS, how_to_write, may_be_asked_for, of_perf
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.metrics.table import METRICS, AskedCounters, asked_counters, metric_names
from thunderherd.study.file.contenders import MAIN, OWN, Configuration, declared, point_name, points
from thunderherd.study.file.tables import ContenderTable, LoadTable, StudyForm
from thunderherd.toml.file import KeyPath, Problems, flat, near, show, unknown

Settings = Mapping[str, SettingValue]

DIRECTIONS = {"primitive": "out", "receive": "in"}
"""The direction of the primitives that each key is for."""

SHARE_OF_PORTS = 0.5
"""A closed connection keeps its port for a minute (TIME_WAIT); beyond half of them, connect searches long."""


# Names and settings -----------------------------------------------------------------------------------------


def check_names(
    form: StudyForm, configurations: Sequence[Configuration], catalogue: Catalogue, problems: Problems
) -> None:
    """Metric, baseline, workload, load, designs, primitives, settings and pairs exist and fit together."""
    workloads, loads = [each.name for each in catalogue.workloads], [each.name for each in catalogue.loads]
    asked = asked_of(form, catalogue)
    check_metric(form.measure.metric, ("measure", "metric"), asked, problems)
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
    """A counter or an event may be asked for by that name, whether this machine has it or not."""
    if not may_be_asked_for(name, catalogue):
        known = [each.name for each in catalogue.counters if each.countable]
        listed = f"no such counter {show(name)}; known: {', '.join(known)}; {FORMS}"
        hint = near(name, [*known, *of_perf(catalogue)])
        problems.add(key, how_to_write(name, catalogue) or f"{listed}{hint}")


def asked_of(form: StudyForm, catalogue: Catalogue) -> AskedCounters:
    """What a study file asks both sides for."""
    return asked_counters(form.measure.counters, catalogue)


def check_metric(name: str, key: KeyPath, asked: AskedCounters, problems: Problems) -> None:
    """A metric exists, given the counters that the study asks for."""
    names = metric_names(asked)
    if name in names:
        return
    of_sides = [each for each in names if each not in METRICS]
    known = f"{', '.join(METRICS)}; of each side, such as {of_sides[0]}: {', '.join(asked.of_sides)}"
    hint = near(name, of_sides if "." in name else METRICS)
    problems.add(key, f"no such metric {show(name)}; known: {known}{hint}")


def _check_way(way: Way, table: KeyPath, catalogue: Catalogue, problems: Problems) -> None:
    for key, name in way._asdict().items():
        _check_primitive(key, name, (*table, key), catalogue, problems)


def _check_primitive(key: str, name: str, place: KeyPath, catalogue: Catalogue, problems: Problems) -> bool:
    """The primitive exists and moves bytes in the direction that its key (`primitive`, `receive`) is for."""
    known = [each.name for each in catalogue.primitives if each.moves == DIRECTIONS[key]]
    if name in known:
        return True
    if other := catalogue.primitive(name):
        does = "sends" if other.moves == "out" else "receives"
        problems.add(place, f"{key} = {show(name)}: that one {does}; {key} takes one of {', '.join(known)}")
    else:
        problems.add(place, unknown("primitive", name, known))
    return False


def _check_contenders(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    """Each contender that is declared, in the main table or by a sweep, has a name and a design of its
    own; its workload, if it has one, exists."""
    main = [table.name for table in form.contenders]
    real = [table.name for table in form.contenders if not table.control_of]
    _check_baseline(form, main, real, problems)
    taken: dict[tuple[KeyPath, str], KeyPath] = {}
    for base in declared(form):
        table, here = base.table, base.place
        # Two sweeps may each have a contender of their own of the same name.
        scope = here[:2] if here[0] == "sweeps" else ()
        if first := taken.get(((), table.name)) or taken.get((scope, table.name)):
            told = problems.where((*first, "name"))
            problems.add((*here, "name"), f"the name {show(table.name)} is taken by the contender at {told}")
        taken.setdefault((scope, table.name), here)
        if table.control_of:
            _check_control(table, here, main, real, problems)
        elif table.design is None:
            problems.add(here, f"contender {show(table.name)} has neither design nor control_of")
        if here[0] == "sweeps" and table.row is not None:
            problems.add(
                (*here, "row"), "a contender of a sweep has no row in the paper's table; leave row out"
            )
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
    baseline = form.measure.baseline
    if baseline is not None and baseline not in real:
        why = f"baseline = {show(baseline)} is a control; take one of {', '.join(real)}"
        problems.add(
            ("measure", "baseline"), why if baseline in main else unknown("contender", baseline, real)
        )


def _check_control(
    table: ContenderTable, here: KeyPath, names: Sequence[str], real: Sequence[str], problems: Problems
) -> None:
    key = (*here, "control_of")
    if table.control_of not in names:
        problems.add(key, unknown("contender", table.control_of, real))
    elif table.control_of not in real:
        problems.add(key, f"{show(table.control_of)} is a control itself; contenders: {', '.join(real)}")
    if table.design:
        problems.add(
            (*here, "design"), f"a control has the design of {show(table.control_of)}; leave design out"
        )
    if table.row is not None:
        problems.add((*here, "row"), "a control has no row in the paper's table; leave row out")
    if not any(flat(table.model_dump(exclude_unset=True, exclude=set(OWN)))):
        problems.add(here, f"control {show(table.name)} changes nothing; give it settings")


def _check_configuration(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    """Its server and its load move bytes by primitives that fit them, and both have the settings it
    gives."""
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
        for key, name in each.way._asdict().items():
            if hole := catalogue.hole_of_server(each.design, name, workload):
                combination = f"{each.design} with primitive {name} and workload {workload}"
                problems.add(_place_of_hole(each, key), f"{combination} does not exist: {hole}")
        settings = catalogue.settings_of_server(each.design, each.way, workload)
        owner = f"design {show(each.design)}"
        own = {name: each.where("settings", name) for name in each.table.settings}
        _check_settings(each.table.settings, settings, own, owner, form, catalogue, problems)
    _check_load(each, catalogue, problems)


def _place_of_hole(each: Configuration, key: str) -> KeyPath:
    """What to change where a server cannot have its primitive: that, if the contender has one of its own."""
    if (key,) in each.places:
        return each.where(key)
    if each.point:
        return each.place
    return (*each.base.place, "control_of" if each.base.table.control_of else "design")


def _check_load(each: Configuration, catalogue: Catalogue, problems: Problems) -> None:
    kind, key = each.load.kind, each.where("load", "kind")
    countable = [load.name for load in catalogue.loads if load.requests or load.duration]
    loads = [load.name for load in catalogue.loads]
    if kind not in loads:
        problems.add(key, unknown("load", kind, loads))
        return
    if kind not in countable:
        usable = ", ".join(countable) or "none of this engine's"
        why = "its number of requests is not known beforehand"
        problems.add(key, f"load {show(kind)} cannot be used in a study: {why}; use {usable}")
    workload = each.workload
    for name, primitive in each.load.way._asdict().items():
        place = each.where("load", name)
        if not _check_primitive(name, primitive, place, catalogue, problems):
            return
        if hole := catalogue.hole_of_load(kind, primitive, workload):
            combination = f"load {kind} with primitive {primitive} and workload {workload}"
            problems.add(place, f"{combination} does not exist: {hole}")
    allowed = catalogue.settings_of_load(kind, each.load.way, workload)
    given = each.table.load.settings
    own = {name: each.where("load", "settings", name) for name in given}
    _check_settings(given, allowed, own, _owner(each.load), each.form, catalogue, problems)


def _owner(load: LoadTable) -> str:
    """What has the settings of a load, in words."""
    own = [name for name, other in zip(load.way, USUAL_WAY, strict=True) if name != other]
    return f"load {show(load.kind)}" + (f" with primitive {' and '.join(own)}" if own else "")


def _check_common_settings(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    workload = form.server.workload
    if catalogue.workload(workload) is None:
        return
    server = catalogue.settings_of_server("", form.server.way, workload)
    own: dict[str, KeyPath] = {name: ("server", "settings", name) for name in form.server.settings}
    owner = f"every server of workload {show(workload)}"
    _check_settings(form.server.settings, server, own, owner, form, catalogue, problems)
    if catalogue.load(form.load.kind) is not None:
        load = catalogue.settings_of_load(form.load.kind, form.load.way, workload)
        own = {name: ("load", "settings", name) for name in form.load.settings}
        owner = _owner(form.load)
        _check_settings(form.load.settings, load, own, owner, form, catalogue, problems)


def _check_settings(
    given: Mapping[str, object],
    allowed: Mapping[str, Setting],
    places: Mapping[str, KeyPath],
    owner: str,
    form: StudyForm,
    catalogue: Catalogue,
    problems: Problems,
) -> None:
    for name, value in given.items():
        if name not in allowed:
            elsewhere = _owners(name, form, catalogue)
            hint = f"; it is a setting of {elsewhere}" if elsewhere else near(name, allowed)
            problems.add(
                places[name], f"{owner} has no setting {show(name)}; it has {', '.join(allowed)}{hint}"
            )
        elif not allowed[name].accepts(value):
            problems.add(places[name], f"{name} = {show(value)}; allowed: {allowed[name].allowed()}")


def _owners(name: str, form: StudyForm, catalogue: Catalogue) -> str:
    """Where a setting of that name belongs."""
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
            problems.add(key, f"pairs[{index}] = {show(pair)}; a pair is two different names")
        for name in pair:
            if name not in names:
                problems.add(key, unknown("contender", name, names))
    # The form lacks those that are not well formed, which says why.
    if form.sweeps or problems.file.data.get("sweeps"):
        return
    if not names:
        problems.add((), "there is nothing to run: give [[contenders]] or [[sweeps]]")
    elif not form.comparisons.pairs and not form.comparisons.all_pairs:
        # One alone can only be measured, if that is what is said.
        if len(names) > 1 and not any(table.control_of for table in form.contenders):
            problems.add(("comparisons",), "nothing is compared: say all_pairs = true, or give pairs")
    elif len(names) < 2:
        what = f"nothing is compared: {show(names[0])} is the only contender"
        problems.add(("contenders",), f"{what}; to measure it alone say comparisons.all_pairs = false")


# Arithmetic -------------------------------------------------------------------------------------------------


def check_size(
    form: StudyForm, size: str, sweeps: Sequence[str], comparisons: int | None, problems: Problems
) -> None:
    """A size has parts that exist, and either a number of repetitions or looks.

    Looks increase, each has its share of alpha, and the first is enough for so many comparisons. `sweeps` are
    the names of all, also where the form lacks them since one of them is not well formed.
    """
    table, key = form.sizes[size], ("sizes", size)
    names = [*([MAIN] if form.contenders else []), *sweeps]
    for index, part in enumerate(table.parts or ()):
        if part not in names:
            problems.add((*key, "parts", index), unknown("part", part, names))
        elif part in (table.parts or ())[:index]:
            problems.add((*key, "parts", index), f"parts = {show(table.parts)}: {show(part)} is named twice")
    _check_points(form, size, sweeps, problems)
    if table.repetitions is not None:
        for name in ("looks", "alpha_split"):
            if getattr(table, name) is not None:
                problems.add((*key, name), f"size {show(size)} has {name} and repetitions; give one of them")
        return
    if table.looks is None or table.alpha_split is None:
        lacks = "neither looks nor repetitions"
        if table.looks is not None or table.alpha_split is not None:
            lacks = "no alpha_split" if table.alpha_split is None else "no looks"
        problems.add(
            key,
            f"size {show(size)} has {lacks}; give looks = [11] with alpha_split = [1.0], or repetitions = 3",
        )
        return
    _check_looks(form, size, table.looks, table.alpha_split, comparisons, problems)


def _check_points(form: StudyForm, size: str, names: Sequence[str], problems: Problems) -> None:
    """A size's points are some of their sweep's."""
    sweeps = {sweep.name: index for index, sweep in enumerate(form.sweeps)}
    for name, chosen in form.sizes[size].points.items():
        key: KeyPath = ("sizes", size, "points", name)
        if name not in names:
            problems.add(key, unknown("sweep", name, names))
        if name not in sweeps:
            continue
        here: KeyPath = ("sweeps", sweeps[name])
        known = [point.name for point in points(form.sweeps[sweeps[name]], here)]
        if not chosen:
            problems.add(key, f"points of {name}: none at all; known: {', '.join(known)}, or leave it out")
        # A run of other points than the file's is none of the file's mistakes.
        for point in map(point_name, () if (*here, "values") in problems.overridden else chosen):
            if point not in known:
                problems.add(key, unknown(f"point of sweep {name}", point, known))


def _check_looks(
    form: StudyForm,
    size: str,
    looks: Sequence[int],
    split: Sequence[float],
    comparisons: int | None,
    problems: Problems,
) -> None:
    key: KeyPath = ("sizes", size)
    if any(later <= earlier for earlier, later in pairwise(looks)):
        problems.add((*key, "looks"), f"looks = {show(looks)}; each must be more than the one before")
    if len(split) != len(looks):
        counts = f"{len(split)} shares for {len(looks)} looks"
        problems.add((*key, "alpha_split"), f"alpha_split = {show(split)}: {counts}; one a look")
    if any(share <= 0 for share in split) or not math.isclose(sum(split), 1):
        total = f"sum {sum(split):g}"
        problems.add((*key, "alpha_split"), f"alpha_split = {show(split)}: {total}; shares > 0, sum 1")
        return
    if not comparisons:
        return
    alpha = form.measure.alpha * split[0]
    # Imported when it is needed: `thunderherd list` should answer without numpy.
    from thunderherd.statistics.comparisons import first_look_blocks

    needed = first_look_blocks(comparisons, form.measure.alpha, split[0])
    if looks[0] < needed:
        problems.add(
            problems.blame((*key, "looks"), (*key, "alpha_split"), ("measure", "alpha")),
            f"looks = {show(looks)}: the first look of size {show(size)} is too small; "
            f"{comparisons} comparisons at alpha {alpha:g} need at least {needed} blocks",
        )


def check_agreements(
    resolved: Sequence[tuple[Configuration, Settings, Settings]],
    catalogue: Catalogue,
    problems: Problems,
) -> None:
    """What the clients ask for and what the server gives do not contradict each other, nor themselves.

    `resolved` has each configuration with all the settings of its server and of its load; what must agree is
    its workload's to say.
    """
    found: dict[tuple[KeyPath, str], list[str]] = {}
    for each, server, load in resolved:
        workload = catalogue.workload(each.workload)
        if workload is None:
            continue
        for product in workload.products:
            if why := product.broken(load):
                both = (each.where("load", "settings", name) for name in product.settings)
                found.setdefault((problems.blame(*both), why), []).append(each.name)
        for agreement in workload.agreements:
            if why := agreement.broken(load, server):
                own = each.where("load", "settings", agreement.client)
                key = problems.blame(own, each.where("settings", agreement.service))
                found.setdefault((key, why), []).append(each.name)
    for (key, why), names in found.items():
        whose = "every contender" if len(names) == len(resolved) else ", ".join(names)
        problems.add(key, f"{whose}: {why}")


# The machine ------------------------------------------------------------------------------------------------


def check_cpus(each: Configuration, problems: Problems) -> None:
    """Lists of CPUs name one at least, and each once."""
    for name, cpus in _cpus_of(each):
        key, allowed = each.where("lab", name), _allowed_cpus()
        if not cpus:
            problems.add(key, f"{name} = []: no CPU at all; {allowed}, or leave {name} out")
        if len(set(cpus)) < len(cpus):
            problems.add(key, f"{name} = {show(cpus)}: a CPU is named twice; {allowed}")


def unavailable(each: Configuration, catalogue: Catalogue) -> Iterator[tuple[KeyPath, str]]:
    """What this machine does not have of what a configuration asks for: the key to blame, and the reason."""
    usable = os.sched_getaffinity(0)
    present = range(os.cpu_count() or max(usable) + 1)
    for name, cpus in _cpus_of(each):
        for cpu in sorted(set(cpus) - usable):
            why = (
                "which this process may not use (sched_getaffinity)"
                if cpu in present
                else "which is not there"
            )
            yield each.where("lab", name), f"{name} = {show(cpus)} names CPU {cpu}, {why}; {_allowed_cpus()}"
    design = catalogue.design(each.design)
    if design is not None and not design.available:
        yield each.where("design"), f"design {show(each.design)} cannot run here: {design.reason}"
    of_server = [(each.where(key), name) for key, name in each.way._asdict().items()]
    of_load = [(each.where("load", key), name) for key, name in each.load.way._asdict().items()]
    for place, name in (*of_server, *of_load):
        primitive = catalogue.primitive(name)
        if primitive is not None and not primitive.available:
            yield place, f"primitive {show(name)} cannot run here: {primitive.reason}"


def _cpus_of(each: Configuration) -> Iterator[tuple[str, list[int]]]:
    for name, cpus in (("server_cpus", each.lab.server_cpus), ("client_cpus", each.lab.client_cpus)):
        if isinstance(cpus, list):
            yield name, cpus


def _allowed_cpus() -> str:
    return f"allowed: {', '.join(map(str, sorted(os.sched_getaffinity(0))))}"


def ports_allowed(local_ports: int) -> int:
    """How many connections to one port may stand or be planned at once, of so many local ports."""
    return int(local_ports * SHARE_OF_PORTS)
