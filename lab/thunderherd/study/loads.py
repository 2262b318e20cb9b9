"""Checks of both ends: whether the engine accepts each, and whether they fit each other and their lab."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.dry_run import Answer, Command, ask, load_command, server_command
from thunderherd.engine.lines import Refused
from thunderherd.errors import Problem
from thunderherd.hosts.addresses import LOAD, THIS
from thunderherd.labs import KINDS
from thunderherd.labs.kind import Role
from thunderherd.study.checks.machine import ports_allowed
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.file.placeholders import DIR, HOST, PORT
from thunderherd.study.resolved import CONNECTIONS, KEPT, SOURCES, Contender, LoadPlan
from thunderherd.text.figures import count
from thunderherd.toml.file import KeyPath, Problems, show

Blamed = tuple[Sequence[tuple[str, ...]], Problem]
"""The keys of a contender that may be to blame, and the problem."""

OF_SERVER = {name: (name,) for name in ("design", "workload", "primitive", "receive")}
OF_LOAD = {
    "load": ("load", "kind"),
    "workload": ("workload",),
    "primitive": ("load", "primitive"),
    "receive": ("load", "receive"),
}
"""The keys of options of the engine that are no settings; the first is blamed if the engine names none."""

NOT_ON_HOSTS = "study.not_on_hosts"
OPTION = re.compile(r"--([a-z][a-z-]*)(?=( [0-9])?)")
"""An option in a message of the engine, and whether a number follows."""


def judged(command: Command, catalogue: Catalogue) -> Answer | None:
    """Return the engine's answer about a server or a load; None if the catalogue was read from a file."""
    return ask(catalogue.engine, command) if catalogue.engine else None


def command_of_load(plan: LoadPlan) -> Command:
    """Return the command of a load with the settings that the study gives."""
    given = {name: value for name, value in plan.engine_settings.items() if name in plan.given}
    files = [plan.folder / path for path in plan.named_files.values()]
    return load_command(plan.workload, plan.kind, plan.own_way, given, files)


OF_VALUES = ("setting.invalid_value", "load.warm_up_without_window")
"""The engine's codes for a value outside its range, and for what the lack of a value entails. The checks of
names report such values, with their key."""


def command_of_server(made: Contender, *, with_cpus: bool = False) -> Command:
    """Return the command of a contender's server."""
    way = {"primitive": made.primitive, "receive": made.receive}
    cpus = (made.lab.server_cpus or ()) if with_cpus else ()
    return server_command(made.design, made.workload, way, made.settings, cpus)


def check_ends(
    resolved: Sequence[tuple[Configuration, Contender]],
    catalogue: Catalogue,
    problems: Problems,
    *,
    on_this_machine: bool,
) -> None:
    """Check that the engine accepts both ends of each contender, and that they fit each other and the lab."""
    found: dict[tuple[KeyPath, Problem], list[str]] = {}
    are_sound = not len(problems)
    for each, made in resolved:
        if each.lab.kind not in KINDS:
            continue  # a problem already
        here = on_this_machine and are_sound and KINDS[each.lab.kind].is_here
        for keys, problem in _of_ends(each, made, catalogue, here):
            if problem.code in OF_VALUES and not are_sound:
                continue  # it follows from a value that is a problem already
            named = found.setdefault((_to_blame(each, keys, problems), problem), [])
            if each.name not in named:
                named.append(each.name)
    for (key, problem), names in found.items():
        whose = "every contender" if len(names) == len(resolved) else ", ".join(names)
        problems.add(key, replace(problem, message=f"{whose}: {problem.message}"))


def _to_blame(each: Configuration, keys: Sequence[tuple[str, ...]], problems: Problems) -> KeyPath:
    """Return the key to report: an overridden one, else one of the contender's own, else the first."""
    own = [key for key in keys if key in each.places]
    return problems.blame(*(each.where(*key) for key in (*own, *keys)))


def _of_ends(each: Configuration, made: Contender, catalogue: Catalogue, here: bool) -> Iterator[Blamed]:
    load, workload = made.load, catalogue.workload(made.workload)
    if catalogue.load(load.kind) is None or workload is None:
        return  # a problem already
    if catalogue.design(made.design) is None and made.own_server is None:
        return  # a problem already
    of_server = None if made.own_server else judged(command_of_server(made, with_cpus=here), catalogue)
    of_load = judged(command_of_load(load), catalogue)
    for answer, options, settings in (
        (of_server, OF_SERVER, ("settings",)),
        (of_load, OF_LOAD, ("load", "settings")),
    ):
        if isinstance(answer, Refused) and (here or not answer.only_here):
            keys = [options.get(name, (*settings, name)) for name in answer.settings]
            yield keys or [*options.values()][:1], _in_words(answer, made)
    if not isinstance(of_load, Refused):
        largest = of_load.largest if of_load else None
        for agreement in () if made.own_server or load.generator else workload.agreements:
            if broken := agreement.broken(load.engine_settings, made.settings, largest):
                keys = [("load", "settings", agreement.client), ("settings", agreement.service)]
                message, hint = broken
                yield keys, Problem(message, "study.contradicting_settings", hint)
    yield from _of_lab(each, made, catalogue)


def _in_words(refused: Refused, made: Contender) -> Problem:
    """Return what the engine refuses, with keys of a study, `pipeline = 2`, instead of options."""
    names = {*refused.settings, *made.settings, *made.load.settings}

    def key(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        return f"{name}{' =' * bool(found[2])}" if name in names else found[0]

    message, hint = (re.sub(OPTION, key, text) for text in (refused.message, refused.hint or ""))
    if not hint and {*refused.settings} & {*made.load.named_files}:
        hint = "paths begin at the study's folder"
    return Problem(message, refused.code, hint)


def _of_lab(each: Configuration, made: Contender, catalogue: Catalogue) -> Iterator[Blamed]:
    """Yield what does not fit the lab, and connections that the server cannot serve."""
    load = made.load
    if load.hosts > 1 and load.clients < load.hosts:
        yield (
            [("load", "settings", load.clients_by or ""), ("lab", LOAD)],
            Problem(
                f"{count(load.clients, 'client')} for {load.hosts} hosts of the load",
                "study.fewer_clients_than_hosts",
                f"give {load.clients_by or 'a load with clients'} = {load.hosts} or more, or fewer hosts",
            ),
        )
    if KINDS[each.lab.kind].reaches_hosts:
        yield from _not_on_hosts(made)
    if load.sources > 1 and not KINDS[each.lab.kind].is_here:
        yield (
            [("load", "settings", SOURCES)],
            Problem(
                f"{SOURCES} = {load.sources}: in lab {show(each.lab.kind)} each side has one address",
                "study.impossible_load",
                f"leave {SOURCES} out",
            ),
        )
    kind, design = catalogue.load(load.kind), catalogue.design(made.design)
    if kind is None or design is None or not kind.goes_by_a_schedule:
        return  # clients of a closed loop wait for their turn
    starved = load.settings.get(CONNECTIONS) == KEPT and design.starved(
        load.processes * load.clients, made.settings
    )
    if starved:
        keys = [("load", "settings", load.clients_by or ""), ("load", "settings", CONNECTIONS)]
        message, hint = starved
        yield keys, Problem(message, "study.impossible_load", hint)


def _not_on_hosts(made: Contender) -> Iterator[Blamed]:
    """Yield what a contender's own programs need and cannot have on other machines."""
    keys: dict[Role, tuple[str, ...]] = {"server": (), "load": ("load",)}
    files = [f"{{{name}}}" for name in made.load.named_files]
    for side, host, program in made.programs:
        words = [*program.command, *program.environment.values()]
        named = [each for each in (DIR, *files) if any(each in word for word in words)]
        if host.kind != THIS and program.build:
            hint = "build it there, and give the command of what was built"
            yield [(*keys[side], "build")], Problem("nothing is built on other hosts", NOT_ON_HOSTS, hint)
        for each in named if host.kind != THIS else ():
            message = f"{each} names files, which a command on another host does not have"
            yield [(*keys[side], "command")], Problem(message, NOT_ON_HOSTS, f"leave {each} out")
        if side == "load" and not any(HOST in word for word in words):
            message = f"the command of the load has no {HOST}, but the server is on another host"
            yield [("load", "command")], Problem(message, NOT_ON_HOSTS, f"write {HOST}:{PORT}")
    if made.load.generator is not None and made.load.hosts > 1:
        message = f"a load generator runs on one host, and the load has {made.load.hosts}"
        keys_of_load = [("lab", LOAD), ("load", "command")]
        yield keys_of_load, Problem(message, "study.several_load_hosts", "leave all hosts but one out")


def check_ports(
    each: Configuration, plan: LoadPlan, local_ports: int | None, catalogue: Catalogue, problems: Problems
) -> None:
    """Check that the connections of a trial use at most half of the kernel's local ports.

    `local_ports` is the number for one local address; None if connections use no ports.
    """
    factors, connections = plan.connections_by, plan.connections_per_trial
    if not factors or connections is None or local_ports is None:
        return
    allowed = ports_allowed(local_ports * plan.sources)
    warm_up = 0 if each.trial == "whole_life" else each.load.warm_up_connections
    if warm_up + connections <= allowed:
        return
    keys = [each.where("load", "settings", name) for name in reversed(factors)]
    keys += [each.where("load", "processes"), each.where("load", "warm_up_connections")]
    key = problems.blame(*(keys if warm_up <= connections else keys[::-1]))
    change = [f"lower load.settings.{factors[-1]}", *(["load.warm_up_connections"] if warm_up else [])]
    if addresses := _addresses(each, plan, local_ports, warm_up + connections, catalogue):
        change.append(f"give load.settings.{SOURCES} = {addresses}")
    problems.add(
        key,
        f"{warm_up} warm-up and {connections} measured connections to one port; allowed: {allowed}",
        code="study.too_few_ports",
        hint=f"{' or '.join(change)}; the limit is half of the local ports (net.ipv4.ip_local_port_range), "
        "since a closed connection keeps its port in TIME_WAIT",
    )


def _addresses(
    each: Configuration, plan: LoadPlan, local_ports: int, connections: int, catalogue: Catalogue
) -> int | None:
    """Return how many local addresses have enough ports; None if the load has only one address."""
    settings = catalogue.settings_of_load(plan.kind, each.load.way, plan.workload)
    one = ports_allowed(local_ports)
    if SOURCES not in settings or not KINDS[each.lab.kind].is_here or not one:
        return None
    needed = math.ceil(connections / one)
    return needed if settings[SOURCES].accepts(needed) else None
