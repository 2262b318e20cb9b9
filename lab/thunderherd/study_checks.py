"""What makes a study impossible although each of its keys is well formed: every check before the first trial.

The engine knows designs, settings and holes; the machine knows CPUs and ports; the rest is arithmetic.
Nothing here raises: problems are noted at the key to blame.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from thunderherd import noise
from thunderherd.catalogue import Catalogue, Setting, SettingValue
from thunderherd.metrics import metric_names
from thunderherd.study_file import KeyPath, Problems, near, show, unknown
from thunderherd.study_form import ContenderTable, StudyForm

Settings = Mapping[str, SettingValue]

SHARE_OF_PORTS = 0.5
"""A closed connection keeps its port for a minute (TIME_WAIT); beyond half of them, connect searches long."""


# Names and settings -----------------------------------------------------------------------------------------


def with_bases(form: StudyForm) -> Iterator[tuple[ContenderTable, ContenderTable]]:
    """Each contender with the one whose configuration it starts from: itself, or what it is control of."""
    tables = {table.name: table for table in form.contenders if not table.control_of}
    for table in form.contenders:
        yield table, tables.get(table.control_of, table) if table.control_of else table


def check_names(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    """Metric, baseline, workload, load, designs, primitives, settings and pairs exist and fit together."""
    workloads, loads = [each.name for each in catalogue.workloads], [each.name for each in catalogue.loads]
    countable = [each.name for each in catalogue.loads if each.requests]
    check_metric(form.measure.metric, ("measure", "metric"), form.measure.counters, problems)
    if form.server.workload not in workloads:
        problems.add(("server", "workload"), unknown("workload", form.server.workload, workloads))
    _check_primitive(form.server.primitive, ("server", "primitive"), catalogue, problems)
    if form.load.kind not in loads:
        problems.add(("load", "kind"), unknown("load", form.load.kind, loads))
    elif form.load.kind not in countable:
        usable = ", ".join(countable) or "none of this engine's"
        why = "its number of requests is not known beforehand"
        problems.add(
            ("load", "kind"), f"load {show(form.load.kind)} cannot be used in a study: {why}; use {usable}"
        )
    _check_contenders(form, catalogue, problems)
    _check_common_settings(form, catalogue, problems)
    _check_pairs(form, problems)


def check_metric(name: str, key: KeyPath, counters: Sequence[str], problems: Problems) -> None:
    """A metric exists, given the counters that the study asks for."""
    if name not in (names := metric_names(counters)):
        problems.add(key, unknown("metric", name, names))


def _check_primitive(name: str, key: KeyPath, catalogue: Catalogue, problems: Problems) -> None:
    known = [each.name for each in catalogue.primitives]
    if name not in known:
        problems.add(key, unknown("primitive", name, known))


def _check_contenders(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    workload_is_known = catalogue.workload(form.server.workload) is not None
    names = [table.name for table in form.contenders]
    real = [table.name for table in form.contenders if not table.control_of]
    designs = [each.name for each in catalogue.designs]
    if form.measure.baseline not in real:
        baseline = form.measure.baseline
        why = f"baseline = {show(baseline)} is a control; take one of {', '.join(real)}"
        problems.add(
            ("measure", "baseline"), why if baseline in names else unknown("contender", baseline, real)
        )
    for index, (table, base) in enumerate(with_bases(form)):
        here: KeyPath = ("contenders", index)
        if table.name in names[:index]:
            first = problems.where(("contenders", names.index(table.name), "name"))
            problems.add((*here, "name"), f"the name {show(table.name)} is taken by the contender at {first}")
        if table.control_of:
            _check_control(table, here, names, real, problems)
        elif table.design is None:
            problems.add(here, f"contender {show(table.name)} has neither design nor control_of")
        design = base.design
        if table.design and table.design not in designs:
            problems.add((*here, "design"), unknown("design", table.design, designs))
        if table.primitive:
            _check_primitive(table.primitive, (*here, "primitive"), catalogue, problems)
        if design is None or design not in designs:
            continue
        primitive = table.primitive or base.primitive or form.server.primitive
        if hole := catalogue.hole(design, primitive, form.server.workload):
            combination = f"{design} with primitive {primitive} and workload {form.server.workload}"
            key = "design" if table.design else "control_of"
            problems.add((*here, key), f"{combination} does not exist: {hole}")
        if workload_is_known:
            allowed = catalogue.settings_of_server(design, primitive, form.server.workload)
            owner = f"design {show(design)}"
            _check_settings(table.settings, allowed, (*here, "settings"), owner, form, catalogue, problems)


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
    if not table.settings and not table.primitive:
        problems.add(here, f"control {show(table.name)} changes nothing; give it settings")


def _check_common_settings(form: StudyForm, catalogue: Catalogue, problems: Problems) -> None:
    workload = form.server.workload
    if catalogue.workload(workload) is None:
        return
    server = catalogue.settings_of_server("", form.server.primitive, workload)
    owner = f"every server of workload {show(workload)}"
    _check_settings(form.server.settings, server, ("server", "settings"), owner, form, catalogue, problems)
    if catalogue.load(form.load.kind) is not None:
        load = catalogue.settings_of_load(form.load.kind, workload)
        owner = f"load {show(form.load.kind)}"
        _check_settings(form.load.settings, load, ("load", "settings"), owner, form, catalogue, problems)


def _check_settings(
    given: Mapping[str, object],
    allowed: Mapping[str, Setting],
    table: KeyPath,
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
                (*table, name), f"{owner} has no setting {show(name)}; it has {', '.join(allowed)}{hint}"
            )
        elif not allowed[name].accepts(value):
            problems.add((*table, name), f"{name} = {show(value)}; allowed: {allowed[name].allowed()}")


def _owners(name: str, form: StudyForm, catalogue: Catalogue) -> str:
    """Where a setting of that name belongs."""
    workload = form.server.workload
    owners = [each.name for each in catalogue.designs if any(own.name == name for own in each.settings)]
    if name in catalogue.settings_of_server("", form.server.primitive, workload):
        owners.append("[server.settings]")
    if name in catalogue.settings_of_load(form.load.kind, workload):
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
    if not form.comparisons.pairs and not form.comparisons.all_pairs:
        if not any(table.control_of for table in form.contenders):
            problems.add(("comparisons",), "nothing is compared: say all_pairs = true, or give pairs")
    elif len(names) < 2:
        problems.add(("contenders",), f"nothing is compared: {show(names[0])} is the only contender")


# Arithmetic -------------------------------------------------------------------------------------------------


def check_looks(form: StudyForm, size: str, comparisons: int | None, problems: Problems) -> None:
    """Looks increase, each has its share of alpha, and the first is enough for so many comparisons."""
    table, key = form.sizes[size], ("sizes", size)
    if any(later <= earlier for earlier, later in zip(table.looks, table.looks[1:], strict=False)):
        problems.add((*key, "looks"), f"looks = {show(table.looks)}; each must be more than the one before")
    if len(table.alpha_split) != len(table.looks):
        counts = f"{len(table.alpha_split)} shares for {len(table.looks)} looks"
        problems.add((*key, "alpha_split"), f"alpha_split = {show(table.alpha_split)}: {counts}; one a look")
    if any(share <= 0 for share in table.alpha_split) or not math.isclose(sum(table.alpha_split), 1):
        total = f"sum {sum(table.alpha_split):g}"
        problems.add(
            (*key, "alpha_split"), f"alpha_split = {show(table.alpha_split)}: {total}; shares > 0, sum 1"
        )
        return
    if not comparisons:
        return
    alpha = form.measure.alpha * table.alpha_split[0]
    # Imported when it is needed: `thunderherd list` should answer without numpy.
    from thunderherd.statistics import first_look_blocks

    needed = first_look_blocks(comparisons, form.measure.alpha, table.alpha_split[0])
    if table.looks[0] < needed:
        problems.add(
            problems.blame((*key, "looks"), (*key, "alpha_split"), ("measure", "alpha")),
            f"looks = {show(table.looks)}: the first look of size {show(size)} is too small; "
            f"{comparisons} comparisons at alpha {alpha:g} need at least {needed} blocks",
        )


def requests_of(requests: Sequence[str], clients: int, settings: Settings) -> int:
    """Requests in the measured window, all clients together; each is a connection of its own.

    `requests` names the settings whose product is the number of requests of one client (`Load.requests`).
    """
    return clients * math.prod(int(settings[name]) for name in requests)


def _check_bytes(server: Settings, load: Settings) -> str | None:
    if int(load["bytes"]) <= int(server["limit"]):
        return None
    return f"the client asks for {load['bytes']} bytes, more than the server's limit of {server['limit']}"


_CONTRADICTIONS: dict[str, tuple[str, str, Callable[[Settings, Settings], str | None]]] = {
    "bytes": ("bytes", "limit", _check_bytes)
}
"""For a workload, a setting of its load and one of its servers that may contradict each other, and how."""


def check_workload(
    form: StudyForm, contenders: Mapping[str, Settings], load: Settings, problems: Problems
) -> None:
    """What the client asks and what the server gives do not contradict each other."""
    if form.server.workload not in _CONTRADICTIONS:
        return
    of_load, of_server, check = _CONTRADICTIONS[form.server.workload]
    found: dict[str, list[str]] = {}
    for name, settings in contenders.items():
        if why := check(settings, load):
            found.setdefault(why, []).append(name)
    key = problems.blame(("load", "settings", of_load), ("server", "settings", of_server))
    for why, names in found.items():
        whose = "every contender" if len(names) == len(contenders) else ", ".join(names)
        problems.add(key, f"{whose}: {why}; every request would fail: lower {of_load} or raise {of_server}")


# The machine ------------------------------------------------------------------------------------------------


def check_cpus(form: StudyForm, problems: Problems) -> None:
    """The CPUs asked for exist, and this process may use them."""
    usable = os.sched_getaffinity(0)
    present = range(os.cpu_count() or max(usable) + 1)
    for name, cpus in (("server_cpus", form.lab.server_cpus), ("client_cpus", form.lab.client_cpus)):
        if cpus is None:
            continue
        key: KeyPath = ("lab", name)
        allowed = f"allowed: {', '.join(map(str, sorted(usable)))}"
        if not cpus:
            problems.add(key, f"{name} = []: no CPU at all; {allowed}, or leave {name} out")
        if len(set(cpus)) < len(cpus):
            problems.add(key, f"{name} = {show(cpus)}: a CPU is named twice; {allowed}")
        for cpu in sorted(set(cpus) - usable):
            why = (
                "which this process may not use (sched_getaffinity)"
                if cpu in present
                else "which is not there"
            )
            problems.add(key, f"{name} = {show(cpus)} names CPU {cpu}, {why}; {allowed}")


def ports_allowed() -> int:
    """How many connections to one port may stand or be planned at once."""
    return int(noise.local_ports() * SHARE_OF_PORTS)


def check_ports(form: StudyForm, requests: Sequence[str], load: Settings, problems: Problems) -> None:
    """A trial's connections to its one destination take at most half of the kernel's ports."""
    if not requests:
        return
    allowed = ports_allowed()
    warm_up, window = (
        form.load.warm_up_connections,
        requests_of(requests, form.load.clients, load),
    )
    if warm_up + window <= allowed:
        return
    keys: list[KeyPath] = [("load", "settings", name) for name in reversed(requests)]
    keys += [("load", "clients"), ("load", "warm_up_connections")]
    key = problems.blame(*(keys if warm_up <= window else keys[::-1]))
    problems.add(
        key,
        f"{warm_up} warm-up and {window} measured connections to one port; allowed: {allowed}, half of "
        f"the local ports (net.ipv4.ip_local_port_range), since each stays in TIME_WAIT; "
        f"lower load.settings.{requests[-1]} or load.warm_up_connections",
    )
