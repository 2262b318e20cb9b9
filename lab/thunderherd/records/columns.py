"""The columns of a run's table of trials: name, kind, unit and meaning, in one place for table and README."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from thunderherd.metrics.table import METRICS, in_order, metric
from thunderherd.records.noise import SOFTIRQ_RATES
from thunderherd.records.summary import WORKERS

__all__ = ["LISTS", "Column", "Kind", "trial_columns"]

Kind = Literal["text", "whole", "real", "true or false", "list of real", "list of whole"]


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    kind: Kind
    unit: str
    """Empty of what has none."""
    meaning: str


_FIRST = (
    Column("study", "text", "", "name of the study"),
    Column("contender", "text", "", "what is compared; of a sweep BASE@SWEEP=POINT"),
    Column("base", "text", "", "the contender without its point"),
    Column("sweep", "text", "", "the sweep that it is a point of; empty: the main table"),
    Column("point", "text", "", "the point of the sweep"),
    Column("design", "text", "", "of the server"),
    Column("primitive", "text", "", "by which the server sends"),
    Column("receive", "text", "", "by which the server receives"),
    Column("workload", "text", "", "the protocol"),
    Column("block", "whole", "", "from 1; each contender has a trial in each block"),
    Column("position", "whole", "", "place in the block's order, from 1"),
    Column("attempt", "whole", "", "2: the first was invalid, and was run once more"),
    Column("seed", "whole", "", "of the order of trials"),
    Column("started", "text", "", "local time with offset, ISO 8601"),
    Column("wall_seconds", "real", "s", "how long the whole trial took, set-up and warm-up included"),
    Column("valid", "true or false", "", "whether the trial counts as measured"),
    Column("invalid_reasons", "text", "", "why not"),
    Column("used", "true or false", "", "whether figures rest on it: valid, and of an accepted block"),
    Column("trial", "text", "", "window: measured between two snapshots; whole_life: from exec to exit"),
    Column("cpu_scope", "text", "", "what server_cpu_seconds covers: window or whole_life"),
    Column("time_wait_before", "whole", "sockets", "in TIME_WAIT before the trial"),
    Column("steal_share", "real", "share", "of the machine's CPU time, taken by the hypervisor"),
    Column("foreign_share", "real", "share", "of it, used by processes that are not of the trial"),
    Column("throttled", "whole", "", "times that the control group was throttled"),
    Column("retransmitted", "whole", "segments", "TCP segments of any socket of both sides' networks"),
    Column(SOFTIRQ_RATES, "list of real", "ms/s", "time in soft interrupts, by CPU"),
)

_LAST = Column(WORKERS, "list of whole", "connections", "of each worker of a pool in the window")

LISTS = (WORKERS, SOFTIRQ_RATES)
"""The columns that hold a list in each row; in the CSV they are JSON texts."""


def trial_columns(told: Iterable[str], counters: Mapping[str, str]) -> list[Column]:
    """What each trial has, then a column for each metric: all that have a fixed name, and those that trials
    told besides. `counters` are those that the study asks for, with their units."""
    measured = []
    for name in in_order([*METRICS, *told]):
        found = metric(name, counters)
        measured.append(Column(name, "whole" if found.whole else "real", found.unit, found.words))
    return [*_FIRST, *measured, _LAST]
