"""The cost of counting the processor's events: pairs of measurements, and their ratio.

A hypervisor may trap each access to the processor's counters. Every switch of a counted process is then
expensive. Three users share this module:

- a run measures its own contenders and counters with pairs of trials (`run/counting_cost.py`),
- `thunderherd doctor` checks it within about a second (`counting_check`),
- the benchmark `counting` estimates it for whole sets of counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.errors import UserError
from thunderherd.machine import description
from thunderherd.records.extra_trials import CostEstimate

Measured = TypeVar("Measured")

CONFIDENCE = 0.95


def measure_pair(number: int, measure: Callable[[bool], Measured]) -> tuple[Measured, Measured]:
    """Measure once with counters (`measure(True)`) and once without; return both in this order.

    Odd numbers begin with counters, even numbers without. What one measurement leaves behind for the next
    then affects both alike.
    """
    if number % 2:
        counted = measure(True)
        return counted, measure(False)
    plain = measure(False)
    return measure(True), plain


def cost_of_counting(
    metric: str, ratios: Sequence[float], confidence: float = CONFIDENCE
) -> CostEstimate | None:
    """Estimate the ratio of a metric with counters to without, from one ratio per pair; None without pairs.

    The estimate is the Hodges-Lehmann estimate of the logarithms, taken back.
    """
    if not ratios:
        return None
    # Imported here: commands that only examine the machine start faster without numpy.
    from thunderherd.statistics.samples import hodges_lehmann

    found = hodges_lehmann([math.log(each) for each in ratios], confidence)
    return CostEstimate(
        metric=metric,
        value=math.exp(found.value),
        low=None if found.low is None else math.exp(found.low),
        high=None if found.high is None else math.exp(found.high),
        confidence=found.confidence,
        least=min(ratios),
        most=max(ratios),
        pairs=found.n,
    )


# The check by `thunderherd doctor` --------------------------------------------------------------------------

EVENTS = ("cycles", "instructions")
"""The events of the check, by their names in perf(1): most studies that count events begin with these."""
PAIRS = 3
REQUESTS = 100
"""Requests of the one client."""
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class CountingCheck:
    """The check's result: the ratio of each pair, or the reason why there is none.

    A ratio is the CPU time of a request, of both sides together, with events counted to without.
    """

    events: tuple[str, ...]
    ratios: tuple[float, ...]
    reason: str | None = None

    @property
    def cost(self) -> CostEstimate | None:
        """The estimate over the pairs; None without pairs."""
        return cost_of_counting("cpu_per_request", self.ratios)


def counting_check(offered: Catalogue) -> CountingCheck | None:
    """Measure what counting costs a small server and its clients. Main thread only.

    None on a machine that is not known to be virtual, and on a machine without these events.
    """
    there = {name for each in offered.counters if each.available for name in each.names_of_perf}
    events = tuple(each for each in EVENTS if each in there)

    def measure(counted: bool) -> int:
        return cpu_of_requests(offered, events if counted else ())

    try:
        if not events or not description.is_guest():
            return None
        pairs = [measure_pair(number, measure) for number in range(1, PAIRS + 1)]
        return CountingCheck(events, tuple(counted / plain for counted, plain in pairs))
    except (EngineError, UserError, description.Unavailable, OSError, ZeroDivisionError) as error:
        return CountingCheck(events, (), str(error))


def cpu_of_requests(offered: Catalogue, counters: tuple[str, ...]) -> int:
    """Return the CPU time of a short load in nanoseconds: of both sides, over their whole lives."""
    usual = offered.defaults
    kind = offered.load(usual.load)
    settings = dict.fromkeys(kind.requests, 1) | {kind.requests[-1]: REQUESTS} if kind else {}
    with Server(usual.design, workload=usual.workload, counters=counters) as server:
        load = start_load(usual.workload, server.ready.address, settings=settings, counters=counters)
        try:
            result = load.wait(PATIENCE_SECONDS)
        finally:
            load.end()
        life = server.stop()
    if result.tally.errors:
        raise EngineError(f"requests failed; the first: {result.first_error}")
    return life.cpu_ns + result.user_ns + result.system_ns
