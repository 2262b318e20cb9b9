"""The columns of a run's table of trials: name, kind, unit and meaning, for the table and its README."""

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
    """A column of the table of trials."""

    name: str
    kind: Kind
    unit: str
    """Empty if it has none."""
    meaning: str


_FIRST = (
    Column("study", "text", "", "name of the study"),
    Column("contender", "text", "", "name of the contender; at a point of a sweep, BASE@SWEEP=POINT"),
    Column("base", "text", "", "the contender without @SWEEP=POINT"),
    Column("sweep", "text", "", "the sweep; empty for the main table"),
    Column("point", "text", "", "the point of the sweep; empty for the main table"),
    Column("design", "text", "", "design of the server"),
    Column("primitive", "text", "", "send primitive of the server"),
    Column("receive", "text", "", "receive primitive of the server"),
    Column("workload", "text", "", "the workload, which is the protocol"),
    Column("block", "whole", "", "number of the block, from 1; each block has one trial of each contender"),
    Column("position", "whole", "", "position in the order of the block, from 1"),
    Column("attempt", "whole", "", "1, or 2 for the repetition of an invalid or noisy trial"),
    Column("seed", "whole", "", "seed of the order of trials"),
    Column("started", "text", "", "start of the trial, local time with offset (ISO 8601)"),
    Column("wall_seconds", "real", "s", "duration of the whole trial, including set-up and warm-up"),
    Column("valid", "true or false", "", "whether the trial is valid"),
    Column("invalid_reasons", "text", "", "why the trial is invalid; empty if it is valid"),
    Column(
        "used",
        "true or false",
        "",
        "whether the figures of the run use it: valid, in an accepted block, and not repeated",
    ),
    Column(
        "trial", "text", "", "window: measured between two snapshots; whole_life: measured from exec to exit"
    ),
    Column("cpu_scope", "text", "", "what server_cpu_seconds covers: window or whole_life"),
    Column("server_host", "text", "", "host of the server; empty: this machine"),
    Column("load_hosts", "text", "", "hosts of the load; empty: this machine"),
    Column(
        "start_skew_seconds",
        "real",
        "s",
        "time between the first and the last start of load processes that agreed on a start",
    ),
    Column("time_wait_before", "whole", "sockets", "sockets in TIME_WAIT before the trial"),
    Column("steal_share", "real", "share", "share of the machine's CPU time that the hypervisor took"),
    Column(
        "foreign_share",
        "real",
        "share",
        "share of the machine's CPU time used by processes outside the trial",
    ),
    Column("throttled", "whole", "", "how often the control group was throttled"),
    Column(
        "retransmitted",
        "whole",
        "segments",
        "TCP segments retransmitted in the network namespaces of both sides",
    ),
    Column(SOFTIRQ_RATES, "list of real", "ms/s", "time in soft interrupts per second, by CPU"),
)

_LAST = Column(WORKERS, "list of whole", "connections", "connections of each worker of a pool in the window")

LISTS = (WORKERS, SOFTIRQ_RATES)
"""The columns that hold a list in each row; in the CSV they are JSON texts."""


def trial_columns(reported: Iterable[str], counters: Mapping[str, str]) -> list[Column]:
    """The columns of the table: facts of each trial, then one column per metric.

    The metrics are those with a fixed name and further ones that trials report. `counters` are the counters
    that the study requests, with their units.
    """
    measured = []
    for name in in_order([*METRICS, *reported]):
        found = metric(name, counters)
        measured.append(Column(name, "whole" if found.whole else "real", found.unit, found.words))
    return [*_FIRST, *measured, _LAST]
