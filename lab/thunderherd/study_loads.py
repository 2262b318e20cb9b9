"""Loads of a study that the engine would refuse at the first trial, refused before it."""

from collections.abc import Iterator, Sequence

from thunderherd.catalogue import USUAL_WAY, WARM_UP, Catalogue
from thunderherd.labs import KINDS
from thunderherd.study_configurations import Configuration
from thunderherd.study_file import KeyPath, Problems, show
from thunderherd.study_resolved import CONNECTIONS, KEPT, PIPELINE, SOURCES, Contender, LoadPlan


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
        problems.add(key, f"{whose}: {why}")


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
