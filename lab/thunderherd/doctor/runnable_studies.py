"""Determines which bundled studies this machine can run: wholly, in part, or not.

A study can run if its usual size answers its question: the size resolves here, all contenders of its main
table have room, and each of its sweeps keeps a contender.

It runs in part if sweeps leave out contenders that are unavailable on this machine, or if another of its
sizes cannot run. It also runs in part if counters are missing that its claims need, or that counted trials
need to explain differences, or if it has no counted trials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from thunderherd.claims.claim_file import load_claims
from thunderherd.doctor import resources
from thunderherd.doctor.kind import Change, DoctorOutput
from thunderherd.engine.catalogue import Catalogue
from thunderherd.machine import description
from thunderherd.metrics.table import SIDES, made_of, metric_names
from thunderherd.study.file.names import DEFAULT_SIZE, bundled_studies
from thunderherd.study.loading import Contender, Study, load_sizes

Runs = Literal["wholly", "in part", "not"]

OTHER_TASKS, OTHER_DESCRIPTORS = 16, 64
"""Generous numbers: tasks of a trial besides workers and clients, descriptors of a process besides
connections."""


class LeftOut(DoctorOutput):
    """Contenders that cannot run on this machine, and why."""

    contenders: tuple[str, ...] = Field(description="names of the contenders")
    reason: str = Field(description="why they cannot run")
    changes: tuple[Change, ...] = Field(default=(), description="commands that change it; each of them helps")


class SizeHere(DoctorOutput):
    """The part of one size of a study that this machine can run."""

    runs: Runs = Field(description="wholly, in part (without some contenders of sweeps) or not")
    reasons: tuple[str, ...] = Field(
        default=(), description="why it cannot run, as `thunderherd run` would print; empty if it can"
    )
    left_out: tuple[LeftOut, ...] = Field(default=(), description="contenders that cannot run")


class ClaimsHere(DoctorOutput):
    """The claims of a study's source that this machine can decide."""

    testable: tuple[str, ...] = Field(description="identifiers of the claims that a run here can decide")
    not_testable: dict[str, str] = Field(description="by claim, why no run here can decide it")


class StudyHere(DoctorOutput):
    """The part of a bundled study that this machine can run."""

    name: str = Field(description="name of the study")
    runs: Runs = Field(description="wholly, in part or not")
    usual_size: str = Field(
        description="the size that `thunderherd run STUDY` runs; if it cannot run, neither can the study"
    )
    sizes: dict[str, SizeHere] = Field(description="by size, what this machine can run of it")
    uncounted: tuple[str, ...] = Field(description="requested counters that are unavailable on this machine")
    has_counted_trials: bool = Field(
        default=True,
        description="whether a size has counted trials; without them, no difference in cost is explained",
    )
    uncounted_apart: tuple[str, ...] = Field(
        default=(), description="counters requested for counted trials that are unavailable on this machine"
    )
    claims: ClaimsHere | None = Field(
        default=None,
        description="what this machine can decide of the claims of its source. Null: it has no size for them",
    )


def studies_here(catalogue: Catalogue) -> tuple[StudyHere, ...]:
    """Return every bundled study with what can run of it. This takes some seconds."""
    return tuple(study_here(name, catalogue) for name in bundled_studies())


def study_here(name: str, catalogue: Catalogue) -> StudyHere:
    """Return the part of one study that this machine can run."""
    loaded = load_sizes(name, catalogue)
    sizes = {size: size_here(study, catalogue) for size, study in loaded.items()}
    missing = {each.name for each in catalogue.counters if not each.available}
    resolved = [study for study in loaded.values() if isinstance(study, Study)]
    asked_for = [each for study in resolved for each in study.measure.counters]
    asked_extra = [
        each for study in resolved if study.counting.is_asked_for for each in study.counting.counters
    ]
    uncounted = tuple(dict.fromkeys(each for each in asked_for if each in missing))
    uncounted_apart = tuple(dict.fromkeys(each for each in asked_extra if each in missing))
    has_counted_trials = not resolved or any(study.counting.is_asked_for for study in resolved)
    has_all = has_counted_trials and not uncounted and not uncounted_apart
    is_whole = has_all and all(size.runs == "wholly" for size in sizes.values())
    runs: Runs = "not" if sizes[DEFAULT_SIZE].runs == "not" else "wholly" if is_whole else "in part"
    return StudyHere(
        name=name,
        runs=runs,
        usual_size=DEFAULT_SIZE,
        sizes=sizes,
        uncounted=uncounted,
        has_counted_trials=has_counted_trials,
        uncounted_apart=uncounted_apart,
        claims=next((claims_here(study, catalogue) for study in resolved if study.decides == "claims"), None),
    )


def claims_here(study: Study, catalogue: Catalogue) -> ClaimsHere:
    """Return the claims that this machine can decide; it must have their contenders and their counters."""
    missing = {
        name: f"{each.name} is not counted here"
        for each in catalogue.counters
        if not each.available
        for side in SIDES
        for name in made_of(side, each.name, metric_names(study.measure.asked))
    }
    found: dict[str, str | None] = {}
    for claim in load_claims(study):
        obstacle = claim.obstacle()
        needed = [metric for test in claim.tests for metric in test.metrics()]
        found[claim.id] = (
            obstacle[1] if obstacle else next((missing[name] for name in needed if name in missing), None)
        )
    return ClaimsHere(
        testable=tuple(name for name, why in found.items() if why is None),
        not_testable={name: why for name, why in found.items() if why is not None},
    )


def size_here(study: Study | list[str], catalogue: Catalogue) -> SizeHere:
    """Return the part of a size, resolved or refused, that this machine can run."""
    if not isinstance(study, Study):
        return SizeHere(runs="not", reasons=tuple(_without_place(line) for line in study))
    cramped = tuple(without_room(study.contenders, catalogue))
    names = {name for each in cramped for name in each.contenders}
    of_main = [each.name for each in study.main if each.name in names]
    emptied = [sweep.name for sweep in study.sweeps if not _left(study, sweep.name, names)]
    absent = {name: why for sweep in study.sweeps for name, why in sweep.absent.items()}
    left_out = (*_by_reason(absent), *cramped)
    runs: Runs = "not" if of_main or emptied else "in part" if left_out else "wholly"
    return SizeHere(runs=runs, left_out=left_out)


def _left(study: Study, sweep: str, without: Iterable[str]) -> bool:
    return any(each.sweep == sweep and each.name not in without for each in study.contenders)


def _by_reason(absent: Mapping[str, str]) -> Iterator[LeftOut]:
    for reason in dict.fromkeys(absent.values()):
        yield LeftOut(contenders=tuple(name for name, why in absent.items() if why == reason), reason=reason)


def _without_place(line: str) -> str:
    """Return a problem without file and line: users do not edit bundled studies."""
    return re.sub(r"^\S.*?\.toml:\d+: ", "", line)


# Room -------------------------------------------------------------------------------------------------------


def without_room(contenders: Sequence[Contender], catalogue: Catalogue) -> Iterator[LeftOut]:
    """Yield contenders that need more processes, threads or descriptors than the limits allow."""
    bounds = (
        ("processes and threads", tasks_of, resources.tasks),
        ("threads of one process", threads_of, resources.threads_of_a_process),
        ("descriptors of one process", descriptors_of, resources.descriptors),
    )
    for what, needed_by, room_for in bounds:
        needs = {each.name: needed_by(each, catalogue) for each in contenders}
        most = max(needs.values(), default=0)
        try:
            room = room_for(most)
        except (description.Unavailable, OSError, ValueError):
            continue  # An unknown limit cannot be compared; the examination of limits reports it.
        cramped = tuple(name for name, need in needs.items() if need > room.number)
        if cramped:
            reason = f"needs up to {most:,} {what}; the limit is {room}: {room.bound}"
            yield LeftOut(contenders=cramped, reason=reason, changes=room.changes)


def tasks_of(contender: Contender, catalogue: Catalogue) -> int:
    """Return the maximum number of processes and threads of a trial, of the server and of the load.

    The server has its workers, or one per connection if the design waits in the call.
    """
    load = catalogue.load(contender.load.kind)
    of_load = clients_of(contender) if load is None or load.waits == "in_the_call" else 0
    return _workers(contender, catalogue) + of_load + contender.load.processes + OTHER_TASKS


def threads_of(contender: Contender, catalogue: Catalogue) -> int:
    """Return the maximum number of threads of a contender's largest process."""
    return max(_workers(contender, catalogue), clients_of(contender) // contender.load.processes)


def descriptors_of(contender: Contender, catalogue: Catalogue) -> int:
    """Return the maximum number of descriptors of one process: a server may have all connections in one."""
    return clients_of(contender) + OTHER_DESCRIPTORS


def clients_of(contender: Contender) -> int:
    """Return the number of simultaneous clients, of all load processes together."""
    return contender.load.processes * contender.load.clients


def _workers(contender: Contender, catalogue: Catalogue) -> int:
    design = catalogue.design(contender.design)
    if design and design.most_workers:
        return int(contender.settings[design.most_workers])
    one_each = design is None or design.waits == "in_the_call"
    return clients_of(contender) if one_each else 1
