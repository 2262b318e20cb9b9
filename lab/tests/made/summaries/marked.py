"""Runs of a made-up machine whose figures carry marks."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache

from rich.console import Console

from made.summaries.counters_by_decree import Counters
from thunderherd.engine import client
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.study.loading import Study, load_study

HIDDEN = "the stand-in is configured without them"


METRICS = (
    "sizes_8.metrics=['client.cache_misses', 'client.cpu_cycles_per_byte', 'client.llc_load_misses', "
    "'duration_per_message', 'client.context_switches', 'client_cpu_per_byte', 'server_cpu_per_byte', "
    "'both.cpu_cycles_per_byte']"
)
"""Half of those that the study shows, each in a table and a chart: of every kind of mark there is one."""


@cache
def cse638(*overrides: str) -> Study:
    return load_study("cse638-pa02", "quick", ("parts=['sizes_8']", METRICS, *overrides), client.catalogue())


@cache
def cse232(*overrides: str) -> Study:
    return load_study("cse232-a2", "quick", ("parts=['main', 'lives']", *overrides), client.catalogue())


MACHINE = Counters(
    lambda contender, side, counter: 1e6 * (1 + len(contender.base)),
    hidden={"llc_load_misses": HIDDEN, "bus_cycles": HIDDEN},
    shares={"cpu_cycles": 0.4, "context_switches": 0.4, "l1_dcache_load_misses": 0.4},
)


def printed(show: Callable[[Summary, Console], None], summary: Summary, width: int = 100) -> str:
    out = io.StringIO()
    show(summary, Console(file=out, width=width))
    return " ".join(out.getvalue().split())


def sweep(summary: Summary) -> SweepSummary:
    (found,) = summary.sweeps
    return found
