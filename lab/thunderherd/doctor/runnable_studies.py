"""Which of the bundled studies this machine can run: wholly, in part, or not.

A study can run where its usual size answers its question: where it resolves here, all contenders of its main
table have room, and each of its sweeps keeps a contender. It runs in part where sweeps leave contenders out
that this machine cannot have, where another of its sizes cannot run, and where counters are missing that its
claims are about, or that its counted trials have to tell why one contender is cheaper than another, or where
it has no such trials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from thunderherd.doctor import resources
from thunderherd.doctor.kind import Change, Told
from thunderherd.engine.catalogue import MOST_WORKERS, Catalogue
from thunderherd.machine import description
from thunderherd.study.file.names import DEFAULT_SIZE, bundled_studies
from thunderherd.study.loading import Contender, Study, load_sizes

Runs = Literal["wholly", "in part", "not"]

CLIENTS = ("clients", "children")
"""The settings of loads that say how many clients each of its processes has."""
OTHER_TASKS, OTHER_DESCRIPTORS = 16, 64
"""What a trial has beside workers and clients, and a process beside its connections, generously."""


class LeftOut(Told):
    """Contenders that cannot run here, and why."""

    contenders: tuple[str, ...]
    reason: str
    changes: tuple[Change, ...] = ()


class SizeHere(Told):
    """A size of a study. `reasons` are why it cannot run, as `thunderherd run` would say."""

    runs: Runs
    reasons: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class StudyHere(Told):
    """A bundled study, with each of its sizes."""

    name: str
    runs: Runs
    usual_size: str = Field(description="what `thunderherd run STUDY` takes: without it, it cannot run")
    sizes: dict[str, SizeHere]
    uncounted: tuple[str, ...] = Field(description="counters that it asks for, and that are not here")
    has_counted_trials: bool = Field(
        default=True,
        description="whether a size has some: without them nothing tells why a contender is cheaper",
    )
    uncounted_apart: tuple[str, ...] = Field(
        default=(), description="counters that its counted trials ask for, and that are not here"
    )


def studies_here(catalogue: Catalogue) -> tuple[StudyHere, ...]:
    """All bundled studies. Takes some seconds."""
    return tuple(study_here(name, catalogue) for name in bundled_studies())


def study_here(name: str, catalogue: Catalogue) -> StudyHere:
    """What this machine makes of one study."""
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
    )


def size_here(study: Study | list[str], catalogue: Catalogue) -> SizeHere:
    """What becomes of a size that resolves here, or does not."""
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
    """A problem without the file and the line, which are ours and not the user's to mend."""
    return re.sub(r"^\S.*?\.toml:\d+: ", "", line)


# Room -------------------------------------------------------------------------------------------------------


def without_room(contenders: Sequence[Contender], catalogue: Catalogue) -> Iterator[LeftOut]:
    """Those that need more processes, threads or descriptors than there can be."""
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
            continue  # a bound that is not told is none that could be compared; the page says so under limits
        cramped = tuple(name for name, need in needs.items() if need > room.number)
        if cramped:
            reason = f"up to {most:,} {what} are needed, and there is room for {room}: {room.bound}"
            yield LeftOut(contenders=cramped, reason=reason, changes=room.changes)


def tasks_of(contender: Contender, catalogue: Catalogue) -> int:
    """Processes and threads of a trial, at most: workers, or one for each connection where the server waits
    in the call, and those of the load."""
    load = catalogue.load(contender.load.kind)
    of_load = clients_of(contender) if load is None or load.waits == "in_the_call" else 0
    return _workers(contender, catalogue) + of_load + contender.load.processes + OTHER_TASKS


def threads_of(contender: Contender, catalogue: Catalogue) -> int:
    """Threads of its largest process, at most."""
    return max(_workers(contender, catalogue), clients_of(contender) // contender.load.processes)


def descriptors_of(contender: Contender, catalogue: Catalogue) -> int:
    """Descriptors of its largest process, at most: a server may be one process that has all connections."""
    return clients_of(contender) + OTHER_DESCRIPTORS


def clients_of(contender: Contender) -> int:
    """Clients at once, those of all processes of the load together."""
    settings = contender.load.settings
    return contender.load.processes * max(
        (int(settings[key]) for key in CLIENTS if key in settings), default=1
    )


def _workers(contender: Contender, catalogue: Catalogue) -> int:
    pool = [int(contender.settings[key]) for key in MOST_WORKERS if key in contender.settings]
    design = catalogue.design(contender.design)
    one_each = design is None or design.waits == "in_the_call"
    return max(pool) if pool else clients_of(contender) if one_each else 1
