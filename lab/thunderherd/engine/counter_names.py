"""Names by which counters and events can be requested.

They are those of the engine's list, perf's own names, and forms that name an event of a machine's kernel or
processor. A valid name does not mean that a machine has the event: one that it lacks is unavailable.
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
"""Forms of events that depend on the machine; none has a dot, which separates a counter from a part.

They are a tracepoint (`sched:sched_switch`), an event of a PMU (`cpu/cache-misses/`,
`cpu/event=0x3c,umask=0x0/`), and a number of the processor's manual (`r003c`)."""

_LARGEST = 2**64 - 1
"""The largest value of a key that fits into perf_event_open(2)."""


def _is_event_of_a_machine(name: str) -> bool:
    """True if a name has such a form, and the values of its keys fit."""
    if not EVENT_OF_A_MACHINE.fullmatch(name):
        return False
    decimals = re.findall(r"=0*([0-9]+)(?=[,/])", name)
    return all(int(each) <= _LARGEST for each in decimals)


def names_in(words: str) -> tuple[str, ...]:
    """Split a list of names at commas, as the engine's `--count` does.

    A comma between two slashes belongs to a name.
    """
    return tuple(re.findall(r"(?:[^,/]|/[^/]*/?)+", words))


_MODIFIED = re.compile(r"(.+?)(?::|(?<=/))([ukhGHIpPSDWeb]+)")


def called(name: str, catalogue: Catalogue) -> str:
    """Return the name under which the engine reports it: a counter's own name instead of perf's."""
    return next((each.name for each in catalogue.counters if name in each.names_of_perf), name)


def may_be_asked_for(name: str, catalogue: Catalogue) -> bool:
    """True if the engine accepts the name, even if this machine lacks the event."""
    if any(each.countable and each.name == name for each in catalogue.counters):
        return True
    if name in of_perf(catalogue):
        return True
    return _is_event_of_a_machine(name) and _without_modifiers(name, catalogue) is None


def _without_modifiers(name: str, catalogue: Catalogue) -> str | None:
    """Return the event without its modifiers (perf-list(1)); None if the name has none."""
    found = _MODIFIED.fullmatch(name)
    return found[1] if found and may_be_asked_for(found[1], catalogue) else None


def how_to_write(name: str, catalogue: Catalogue) -> str | None:
    """Return a hint on a name that is nearly valid; None if it is far from any valid name."""
    if event := _without_modifiers(name, catalogue):
        return f"write {event}, without modifiers: program and kernel are always counted together"
    if re.fullmatch(_OF_PMU, name):
        return f"write {name}/, as in cpu/cache-misses/"
    return None


FORMS = "or an event by its name: perf's own, subsystem:name, pmu/event/, pmu/key=value/, rNNNN"
"""Forms of names besides the counters of the list, for hints."""


def of_perf(catalogue: Catalogue) -> list[str]:
    """Return perf's names of counters and events."""
    return [
        *(name for each in catalogue.counters if each.countable for name in each.names_of_perf),
        *catalogue.events_of_perf,
    ]


def figures_of_counters(names: Iterable[str], catalogue: Catalogue) -> dict[str, str]:
    """Return figure → unit for these counters, parts included."""
    known = {each.name: each for each in catalogue.counters}
    own_names = (called(name, catalogue) for name in names)
    found = [known[name].units if name in known else {name: ""} for name in own_names]
    return {name: unit for units in found for name, unit in units.items()}


def states_of_counters(names: Iterable[str], catalogue: Catalogue) -> list[str]:
    """Return the figures of these counters that are states, which describe one moment."""
    states = {each.name for each in catalogue.counters if each.kind == "state"}
    return [name for name in figures_of_counters(names, catalogue) if name.partition(".")[0] in states]
