"""Runs on a machine that hides the processor's counters."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from made.summaries.counters_by_decree import Counters
from thunderherd.engine import client
from thunderherd.records.summary import Summary
from thunderherd.study.loading import Contender, Study, load_study

HIDDEN = "the stand-in is configured without them"


def table(of: Study, name: str) -> list[dict[str, str]]:
    with Path(of.path.parent / name).open(newline="") as file:
        return list(csv.DictReader(file))


DESIGNS = {"single": "single_threaded", "multi": "multi_threaded"}


@cache
def cse232() -> Study:
    return load_study("cse232-a2", "quick", ("parts=['main', 'lives']",), client.catalogue())


@cache
def report_of_cse232() -> dict[tuple[str, str, str], float]:
    rows = table(cse232(), "perf_stat.csv")
    return {(row["design"], row["role"], row["event"]): float(row["value"]) for row in rows}


def by_the_report(contender: Contender, side: str, counter: str) -> float:
    """What the report's perf stat printed; of designs that it does not have, as of select."""
    base = contender.base.partition("_")[0]
    value = report_of_cse232()[DESIGNS.get(base, "select"), side, counter.replace("_", "-")]
    return value * (1e6 if counter.endswith("_clock") else 1)


@cache
def of_the_report() -> Summary:
    """A run on a machine with the report's counters, but no bus-cycles, and cycles only in part."""
    machine = Counters(
        by_the_report,
        requests=lambda contender: 4,
        noise=0.0,
        hidden={"bus_cycles": HIDDEN},
        shares={"cpu_cycles": 0.4},
    )
    return machine.summary(cse232())
