"""Counters and events by the names that they may be asked for: those of the engine's list, perf's own names,
and forms that name an event of this machine's kernel or processor.

Whether a machine has an event is no matter of its name: one that it lacks is a counter that is unavailable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from thunderherd.engine.catalogue import Catalogue

_WORD = r"[A-Za-z0-9_-]+"
_VALUE = r"(?:0[xX]0*[0-9a-fA-F]{1,16}|0*[0-9]{1,20})"
_TERM = rf"{_WORD}(?:={_VALUE})?"
_TRACEPOINT = rf"{_WORD}:{_WORD}"
_OF_PMU = rf"{_WORD}/{_TERM}(?:,{_TERM})*"
_RAW = r"r(?=[a-fA-F]*[0-9])[0-9a-fA-F]{1,16}"

EVENT_OF_A_MACHINE = re.compile(rf"{_TRACEPOINT}|{_OF_PMU}/|{_RAW}")
"""A tracepoint (`sched:sched_switch`), an event of a PMU (`cpu/cache-misses/`, `cpu/event=0x3c,umask=0x0/`),
a number of the processor's manual (`r003c`). No dot: it stands between a counter and a part of its
figures."""

_LARGEST = 2**64 - 1
"""The largest value of a key, as perf_event_open(2) has room for it."""


def _is_event_of_a_machine(name: str) -> bool:
    """Whether a name has the form of one, and the values of its keys have room."""
    if not EVENT_OF_A_MACHINE.fullmatch(name):
        return False
    decimals = re.findall(r"=0*([0-9]+)(?=[,/])", name)
    return all(int(each) <= _LARGEST for each in decimals)


def names_in(words: str) -> tuple[str, ...]:
    """The names of a list with commas between them, as the engine's `--count` takes it. Those between two
    slashes are of one name."""
    return tuple(re.findall(r"(?:[^,/]|/[^/]*/?)+", words))


_MODIFIED = re.compile(r"(.+?)(?::|(?<=/))([ukhGHIpPSDWeb]+)")


def called(name: str, catalogue: Catalogue) -> str:
    """The name that the engine tells its figures by: of what perf calls otherwise, the counter's own."""
    return next((each.name for each in catalogue.counters if name in each.names_of_perf), name)


def may_be_asked_for(name: str, catalogue: Catalogue) -> bool:
    """Whether the engine takes the name, be there such an event on this machine or not."""
    if any(each.countable and each.name == name for each in catalogue.counters):
        return True
    if name in of_perf(catalogue):
        return True
    return _is_event_of_a_machine(name) and _without_modifiers(name, catalogue) is None


def _without_modifiers(name: str, catalogue: Catalogue) -> str | None:
    """The event alone, where what stands behind it says to count a part of it (perf-list(1))."""
    found = _MODIFIED.fullmatch(name)
    return found[1] if found and may_be_asked_for(found[1], catalogue) else None


def how_to_write(name: str, catalogue: Catalogue) -> str | None:
    """What to write in the place of a name that would be one if it were written otherwise; None: it is far
    from any."""
    if event := _without_modifiers(name, catalogue):
        together = "program and kernel are counted together, always"
        return f"{name} asks for a part of an event; {together}: write {event}"
    if re.fullmatch(_OF_PMU, name):
        return f"{name} lacks the slash that ends it, as in cpu/cache-misses/"
    return None


FORMS = "or an event by its name: perf's own, subsystem:name, pmu/event/, pmu/key=value/, rNNNN"
"""What else there is besides the counters of the list, for whoever is told these."""


def of_perf(catalogue: Catalogue) -> list[str]:
    """The names that perf has for counters and events."""
    return [
        *(name for each in catalogue.counters if each.countable for name in each.names_of_perf),
        *catalogue.events_of_perf,
    ]


def figures_of_counters(names: Iterable[str], catalogue: Catalogue) -> dict[str, str]:
    """Every figure of these counters, the parts of those with several too, and its unit."""
    known = {each.name: each for each in catalogue.counters}
    own_names = (called(name, catalogue) for name in names)
    found = [known[name].units if name in known else {name: ""} for name in own_names]
    return {name: unit for units in found for name, unit in units.items()}


def states_of_counters(names: Iterable[str], catalogue: Catalogue) -> list[str]:
    """Those of them that tell of one moment."""
    states = {each.name for each in catalogue.counters if each.kind == "state"}
    return [name for name in figures_of_counters(names, catalogue) if name.partition(".")[0] in states]
