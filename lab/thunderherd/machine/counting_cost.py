"""What counting the processor's events costs here, tried in about a second: for whoever asks before a run.

Where a hypervisor traps each access to the processor's counters, every switch of a process that is counted
is dear. A run measures it with its own contenders and counters (`counting_cost`).
"""

from __future__ import annotations

from dataclasses import dataclass

from thunderherd.engine.catalogue import USUAL_DESIGN, Catalogue
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.errors import UserError
from thunderherd.machine import description

EVENTS = ("cycles", "instructions")
"""As perf calls them: what most studies of events ask for first."""
PAIRS = 3
SETTINGS = {"children": 1, "loops": 100}
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class CountingCheck:
    """By which factor a request's CPU time, of both sides, is more with events counted: the median of the
    pairs, the least, and the most of them. Or why that is not known."""

    events: tuple[str, ...]
    ratios: tuple[float, ...]
    reason: str | None = None

    @property
    def median(self) -> float:
        """Of the pairs."""
        return sorted(self.ratios)[len(self.ratios) // 2]


def counting_check(offered: Catalogue) -> CountingCheck | None:
    """Tries it; None where there is nothing to be tried: this is no virtual machine, as far as is known, or
    it has no such events. Main thread only."""
    there = {name for each in offered.counters if each.available for name in each.names_of_perf}
    events = tuple(each for each in EVENTS if each in there)
    try:
        if not events or not description.is_guest():
            return None
        pairs = []
        for number in range(PAIRS):
            # Which is first alternates: what one leaves behind for the next falls on both alike.
            sets: list[tuple[str, ...]] = [(), events] if number % 2 else [events, ()]
            costs = {counters: cpu_of_requests(offered.workloads[0].name, counters) for counters in sets}
            pairs.append(costs[events] / costs[()])
    except (EngineError, UserError, description.Unavailable, OSError, ZeroDivisionError) as error:
        return CountingCheck(events, (), str(error))
    return CountingCheck(events, tuple(pairs))


def cpu_of_requests(workload: str, counters: tuple[str, ...]) -> int:
    """Nanoseconds of CPU of some requests, both sides' whole lives together."""
    with Server(USUAL_DESIGN, workload=workload, counters=counters) as server:
        load = start_load(workload, server.ready.address, settings=dict(SETTINGS), counters=counters)
        try:
            result = load.wait(PATIENCE_SECONDS)
        finally:
            load.end()
        life = server.stop()
    if result.tally.errors:
        raise EngineError(f"requests failed; the first: {result.first_error}")
    return life.cpu_ns + result.user_ns + result.system_ns
