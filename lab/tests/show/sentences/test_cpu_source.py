"""The CPU source falls back from cycles to task-clock to the system's accounts, and is always named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from made.shown.tables import cells, heads
from made.summaries.marked import HIDDEN, MACHINE, cse232, cse638, printed, sweep

from thunderherd.metrics.cpu_sources import cpu_sources_below
from thunderherd.records.summary import Summary
from thunderherd.show.report.page import render
from thunderherd.show.sentences.cpu_source import cpu_cost_lines, in_place_of
from thunderherd.show.tables.sweeps import main_further, sweep_tables
from thunderherd.show.terminal.study import print_study

CYCLES = "client.cpu_cycles_per_byte"


@cache
def without(*hidden: str) -> Summary:
    return replace(MACHINE, hidden=dict.fromkeys(hidden, HIDDEN), shares={}).summary(cse638())


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("server.cpu_cycles", ["server.task_clock", "server_cpu_seconds"]),
        (CYCLES, ["client.task_clock_per_byte", "client_cpu_per_byte"]),
        ("both.cpu_cycles_per_byte", ["both.task_clock_per_byte", "cpu_per_byte"]),
        ("both.cpu_cycles_per_request", ["both.task_clock_per_request"]),
        ("server.task_clock_per_request", ["server_cpu_per_request"]),
        ("server.cpu_cycles_per_second", []),
        ("server.cache_misses", []),
        ("latency_mean_seconds", []),
    ],
)
def test_the_cpu_sources_below(name: str, below: list[str]) -> None:
    assert cpu_sources_below(name) == below


@pytest.mark.parametrize(
    ("hidden", "instead"),
    [
        (("cpu_cycles",), "client.task_clock_per_byte"),
        (("cpu_cycles", "task_clock"), "client_cpu_per_byte"),
        ((), None),
    ],
)
def test_an_unavailable_cpu_source_is_replaced_by_the_next(
    hidden: tuple[str, ...], instead: str | None
) -> None:
    summary = without(*hidden)
    assert sweep(summary).substitutes.get(CYCLES) == instead
    captions = [each.caption for each in sweep_tables(summary, sweep(summary))]
    label = in_place_of(CYCLES)
    # CPU per byte is alone in that table.
    assert any(label in caption for caption in captions) == (instead == "client.task_clock_per_byte")


def test_tables_and_report_have_the_cpu_source_with_its_reason(golden: Callable[[str, str], None]) -> None:
    hidden = without("cpu_cycles")
    shown = [printed(print_study, hidden), " ".join(render(hidden).replace("&#39;", "'").split())]
    names = ["client.task_clock_per_byte", "server_cpu_per_request"]
    clock, system = cpu_cost_lines(hidden, names)
    assert HIDDEN in clock and "cpu.stat" in system and HIDDEN in system
    assert all(line in text for line in (clock, system) for text in shown)
    (here,) = cpu_cost_lines(without(), ["server_cpu_per_request"])
    assert "cpu.stat" in here and HIDDEN not in here and here in printed(print_study, without())
    study = without().study.model_copy(update={"cpu_sources": {"process_clocks": "no group"}, "counters": {}})
    clocks = without().model_copy(update={"study": study})
    (no_group,) = cpu_cost_lines(clocks, ["server_cpu_per_request"])
    assert "no group" in no_group
    assert cpu_cost_lines(without(), ["latency_mean_seconds"]) == []
    golden("show/cpu_sources.txt", "\n".join([clock, system, here, no_group]) + "\n")


def test_the_main_table_has_the_next_cpu_source_and_the_reason() -> None:
    hidden = {"task_clock": HIDDEN, "cpu_cycles": HIDDEN}
    summary = replace(MACHINE, hidden=hidden, shares={}).summary(cse232())
    table = main_further(summary)
    assert table is not None
    (column,) = heads(table)
    assert column.endswith(f", {in_place_of('server.task_clock')}")
    assert all(cell.value != "-" for cell in cells(table))
    assert f": {HIDDEN}" in printed(print_study, summary)
