"""Loads of a study that the engine would refuse at the first trial, refused before it."""

import math
from collections.abc import Iterator, Sequence

from thunderherd.engine.catalogue import USUAL_WAY, WARM_UP, Catalogue
from thunderherd.labs import KINDS
from thunderherd.study.checks.machine import ports_allowed
from thunderherd.study.file.contenders import Configuration
from thunderherd.study.resolved import CONNECTIONS, KEPT, PIPELINE, SOURCES, Contender, LoadPlan
from thunderherd.toml.file import KeyPath, Problems, show


def check_loads(
    resolved: Sequence[tuple[Configuration, Contender]], catalogue: Catalogue, problems: Problems
) -> None:
    """Whether each configuration's load can be made as it is told."""
    found: dict[tuple[KeyPath, str], list[str]] = {}
    for each, made in resolved:
        for keys, why in (*_broken(made.load, each.lab.kind, catalogue), *_starved(made, catalogue)):
            key = problems.blame(*(each.where("load", *path) for path in keys))
            found.setdefault((key, why), []).append(each.name)
    for (key, why), names in found.items():
        whose = "every contender" if len(names) == len(resolved) else ", ".join(names)
        problems.add(key, f"{whose}: {why}", code="study.impossible_load")


def _broken(plan: LoadPlan, lab: str, catalogue: Catalogue) -> Iterator[tuple[list[tuple[str, ...]], str]]:
    """What cannot be, with the keys of the load's table that it is of."""
    load, workload = catalogue.load(plan.kind), catalogue.workload(plan.workload)
    if load is None or workload is None or lab not in KINDS:
        return  # it has been complained about
    for requirement in load.requirements:
        if why := requirement.broken(plan.settings):
            yield [("settings", requirement.setting), ("settings", requirement.other)], why
    if load.duration and not plan.is_timed and plan.settings.get(WARM_UP):
        yield (
            [("settings", WARM_UP)],
            f"{WARM_UP} comes before the window of a load that ends by time; give {load.duration} too",
        )
    if load.goes_by_a_schedule and workload.measured_by != "requests":
        yield (
            [("kind",)],
            f"load {show(plan.kind)} needs requests that are answered one by one, and those of "
            f"{plan.workload} take as long as the load; a closed load makes them",
        )
    if plan.sources > 1 and KINDS[lab].has_namespaces:
        yield (
            [("settings", SOURCES)],
            f"{SOURCES} = {plan.sources}: in lab {show(lab)} each side has one address; leave {SOURCES} out",
        )
    if int(plan.settings.get(PIPELINE, 1)) > 1:
        if not workload.pipelines:
            others = ", ".join(each.name for each in catalogue.workloads if each.pipelines)
            yield (
                [("settings", PIPELINE)],
                f"{PIPELINE} = {plan.settings[PIPELINE]}: clients of {plan.workload} cannot tell replies "
                f"apart that come together; those of {others} can",
            )
        if not plan.stores:
            yield (
                [("settings", PIPELINE), ("receive",)],
                f"{PIPELINE} = {plan.settings[PIPELINE]} with receive = {show(plan.receive)}: what comes has "
                "to be told apart, and the primitive does not store it",
            )
    if not plan.uses_primitives and (plan.primitive, plan.receive) != USUAL_WAY:
        name, word = plan.without_primitives or ("", "")
        key = "receive" if plan.primitive == USUAL_WAY.primitive else "primitive"
        yield (
            [(key,), ("settings", name)],
            f"{name} = {show(word)} moves bytes itself, and no primitive has a part in it: leave {key} "
            f"out, or {name}",
        )


def _starved(made: Contender, catalogue: Catalogue) -> Iterator[tuple[list[tuple[str, ...]], str]]:
    """An open load that keeps more connections than its server serves at a time: what is due on the others is
    never answered. Clients of a closed loop wait for their turn."""
    load, design = catalogue.load(made.load.kind), catalogue.design(made.design)
    if load is None or design is None or not load.goes_by_a_schedule:
        return
    if made.load.settings.get(CONNECTIONS) == KEPT:
        connections = made.load.processes * int(made.load.settings["clients"])
        if why := design.starved(connections, made.settings):
            yield [("settings", "clients"), ("settings", CONNECTIONS)], why


def check_ports(
    each: Configuration, plan: LoadPlan, local_ports: int | None, catalogue: Catalogue, problems: Problems
) -> None:
    """A trial's connections to its one destination take at most half of the kernel's ports.

    `local_ports` are those of one local address; None where connections take none.
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
        f"{warm_up} warm-up and {connections} measured connections to one port; allowed: {allowed}, half of "
        f"the local ports (net.ipv4.ip_local_port_range), since each stays in TIME_WAIT; "
        f"{' or '.join(change)}",
        code="study.too_few_ports",
    )


def _addresses(
    each: Configuration, plan: LoadPlan, local_ports: int, connections: int, catalogue: Catalogue
) -> int | None:
    """From how many local addresses there are ports for so many connections; None where it has one alone."""
    settings = catalogue.settings_of_load(plan.kind, each.load.way, plan.workload)
    one = ports_allowed(local_ports)
    if SOURCES not in settings or KINDS[each.lab.kind].has_namespaces or not one:
        return None
    needed = math.ceil(connections / one)
    return needed if settings[SOURCES].accepts(needed) else None
