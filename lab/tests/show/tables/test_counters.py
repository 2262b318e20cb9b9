"""Every requested counter has a figure or a reason for each side and contender.

The machine is invented: `counters_by_decree`.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from made.refusals import refused
from made.shown.tables import heads, rows
from made.summaries.counters_by_decree import Counters
from made.summaries.trials import made_trial
from rich.console import Console

from thunderherd.cli import results
from thunderherd.engine import client
from thunderherd.judge.summary.summarise import summarise
from thunderherd.metrics.table import PER, SIDES
from thunderherd.records.directory import RunDirectory, RunInfo
from thunderherd.records.summary import Summary
from thunderherd.show.report.page import render
from thunderherd.show.tables.counters import FURTHER, WHOSE, counter_tables
from thunderherd.show.terminal.study import print_counters
from thunderherd.study.loading import Study, load_study

HIDDEN = "the stand-in is configured without them"
ASKED = ["cycles", "instructions", "dTLB-load-misses", "bus-cycles", "task-clock", "memory"]
MACHINE = Counters(
    lambda contender, side, counter: 2e6 if counter == "cpu_cycles" else 1e6,
    hidden={"bus_cycles": HIDDEN},
    shares={"cpu_cycles": 0.4, "dTLB-load-misses": 0.7},
    noise=0.0,
)


@cache
def of_designs() -> Summary:
    return MACHINE.summary(
        load_study("self-test", "quick", [f"measure.counters={ASKED}"], client.catalogue())
    )


def test_every_counter_and_derived_figure_has_a_row_per_side() -> None:
    (place,) = counter_tables(of_designs())
    server, clients = place.first
    assert (place.where, server.caption, clients.caption) == ("", "Server", "Clients")
    for table in place.first:
        found = rows(table)
        assert heads(table) == ["prefork", "twin", "slowed"]
        expected = [
            "CPU cycles per request", "instructions per request", "dTLB-load-misses per request",
            "bus cycles", "task clock per request (µs)", "memory (KiB)", "CPUs utilized",
            "instructions per cycle",
        ]  # fmt: skip
        assert [head for head in found if head in expected] == expected
        assert {cell.value for cell in found[expected[0]]} == {"2000"}
        assert {cell.value for cell in found["instructions per cycle"]} == {"0.500"}
        assert all(cell.value != "-" or cell.mark for cells in found.values() for cell in cells)


def test_marks_are_at_the_figures_and_each_reason_stands_once() -> None:
    (place,) = counter_tables(of_designs())
    for table in [*place.first, *place.further]:
        found = rows(table)
        by_mark = {note[0]: note[2:] for note in table.notes}
        assert len(set(by_mark.values())) == len(table.notes)
        (cycles,) = {cell.mark for head, cells in found.items() if "CPU cycles" in head for cell in cells}
        assert by_mark[cycles].startswith("extrapolated: ") and "40 % of the time" in by_mark[cycles]
        (bus,) = {cell.mark for head, cells in found.items() if "bus cycles" in head for cell in cells}
        assert by_mark[bus] == HIDDEN
        (exact,) = {cell.mark for head, cells in found.items() if "task clock" in head for cell in cells} or {
            ""
        }
        assert exact == ""
    captions = [table.caption for table in place.further]
    assert {f"{WHOSE[side]}, {PER[per]}" for side in SIDES for per in FURTHER} >= {*captions}
    assert f"Server, {PER['_per_second']}" in captions and f"Clients, {PER['_per_cpu_second']}" in captions


def test_points_of_sweeps_have_tables_of_their_own() -> None:
    study = load_study("cse638-pa02", "quick", ("parts=['sizes_8']",), client.catalogue())
    places = counter_tables(MACHINE.summary(study))
    assert [place.where for place in places] == [
        f"Sweep sizes_8 at {point.name}" for point in study.sweeps[0].points
    ]
    assert any(table.caption == f"Server, {PER['_per_byte']}" for table in places[0].further)


def test_terminal_and_report_show_counter_tables() -> None:
    written = io.StringIO()
    print_counters(of_designs(), Console(file=written, width=100))
    html = render(of_designs()).partition('<section id="counters">')[2].partition("</section>")[0]
    for text in (" ".join(written.getvalue().split()), " ".join(html.split())):
        for said in ("dTLB-load-misses per request", "instructions per cycle", HIDDEN, "extrapolated: "):
            assert said in text, said


def test_run_without_counters_has_no_counter_table(small_study: Study, tmp_path: Path) -> None:
    trials = [made_trial(small_study, each.name, 1) for each in small_study.contenders]
    summary = summarise(small_study, trials, {}, seed=1)
    assert counter_tables(summary) == []
    assert '<section id="counters">' not in render(summary)
    info = RunInfo(
        study=small_study.model_dump(mode="json"), digest="", seed=1, overrides=[], command=[],
        started="2025-01-02T03:04:05+00:00", version="0.1.0", machine={},
    )  # fmt: skip
    with RunDirectory.create(tmp_path / "run", info) as directory:
        directory.finish(summary, [])
    (problem,) = refused(results.show_table, tmp_path / "run", pairs=False, counters=True)
    assert problem.code == "table.no_counters" and "--set 'measure.counters=" in problem.hint


def test_state_has_no_row_per_byte_or_per_second() -> None:
    summary = of_designs()
    assert "memory" in summary.study.states
    # Nor if it was refused, which is reported once, in the first table.
    refused = {f"{side}.memory": "forbidden" for side in ("server", "client")}
    bare = [
        each.model_copy(update={"metrics": {k: v for k, v in each.metrics.items() if "memory" not in k}})
        for each in summary.contenders
    ]
    hidden = summary.model_copy(update={"contenders": bare, "unavailable": refused})
    for told in (summary, hidden):
        (place,) = counter_tables(told)
        assert any(head.startswith("memory") for head in rows(place.first[0]))
        further = [head for table in place.further for head in rows(table)]
        assert further and not [head for head in further if head.startswith("memory")]
