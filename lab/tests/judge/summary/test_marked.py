"""A figure that is extrapolated carries its mark, and one that the machine does not tell its reason, at every
place where it would stand. The machine is made up: `counters_by_decree`."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache

import pytest
from made.shown.tables import cells, rows
from made.summaries.marked import HIDDEN, MACHINE, cse232, cse638, printed, sweep

from thunderherd.judge.summary.source_csv import text_of
from thunderherd.judge.why.counts import contender_counts
from thunderherd.records.extra_trials import CountingSummary, CountingTable
from thunderherd.records.summary import Summary
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.report.page import render
from thunderherd.show.report.why import why_view
from thunderherd.show.tables.claims import print_claims
from thunderherd.show.tables.main import main_table, print_pairs, print_study
from thunderherd.show.tables.model import Cell, Table
from thunderherd.show.tables.paper_counters import counted_tables
from thunderherd.show.tables.sweeps import sweep_tables
from thunderherd.text.figures import time_share
from thunderherd.trial.caveats import scaled_notes
from thunderherd.trial.counters import EXTRAPOLATED, TOO_FEW

SHARE = "and counted these for 40 % of the time"


@cache
def of_sizes(*overrides: str) -> Summary:
    return MACHINE.summary(cse638(*overrides))


@cache
def of_lives(metric: str = "server.cpu_cycles") -> Summary:
    return MACHINE.summary(cse232(f"measure.metric='{metric}'"))


def test_the_trials_warnings_are_told_once_for_each_side() -> None:
    """With the least share of each event: else each trial would have a note of its own."""
    trials = [
        replace(MACHINE, shares={"cpu_cycles": share}).trial(cse638(), cse638().contenders[0], 1, 1, 1.0)
        for share in (0.4, 0.3, 0.995, 1.0)
    ]
    assert [*scaled_notes(trials)] == [
        f"3 of 4 trials: {TOO_FEW}these events of the {side} were counted part of the time and "
        f"{EXTRAPOLATED}: cpu_cycles (30 % of the time)"
        for side in ("server", "client")
    ]
    notes = [note for note in of_sizes().study.notes if "too few counters" in note]
    assert len(notes) == 2
    assert time_share(0.995) == "more than 99 %" and time_share(0.001) == "less than 1 %"


def about(tables: list[Table], words: str) -> Table:
    return next(each for each in tables if each.caption.startswith(words))


def test_the_summary_says_so_by_metric_and_by_counter() -> None:
    summary = of_sizes()
    for contender in summary.contenders:
        for name in ("client.cpu_cycles", "client.cpu_cycles_per_byte", "both.cpu_cycles_per_byte"):
            assert contender.scaled[name] == pytest.approx(0.4)
        assert not {"client.cache_misses", "cpu_per_byte"} & contender.scaled.keys()
    assert summary.unavailable == {f"{side}.llc_load_misses": HIDDEN for side in ("server", "client")}
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
    assert all("client.cpu_cycles_per_second" in each.scaled for each in summary.contenders)


def test_tables_of_sweeps_mark_each_figure_and_say_why_another_is_none() -> None:
    tables = sweep_tables(of_sizes(), sweep(of_sizes()))
    cycles = about(tables, "CPU cycles of the clients per byte")
    assert {cell.mark for cell in cells(cycles)} == {"¹"}
    (note,) = [note for note in cycles.notes if note.startswith("¹")]
    assert note.startswith("¹ extrapolated: ") and SHARE in note
    missing = about(tables, "LLC load misses of the clients")
    assert {cell.value for cell in cells(missing)} == {"-"}
    assert any(note.endswith(HIDDEN) for note in missing.notes)
    plain = about(tables, "cache misses of the clients")
    assert {cell.mark for cell in cells(plain)} == {""}


def test_charts_say_so_in_themselves() -> None:
    summary = of_sizes()
    drawn = {
        name: json.dumps(sweep_chart(summary, sweep(summary), name))
        for name in ("client.cpu_cycles_per_byte", "client.llc_load_misses", "client.cache_misses")
    }
    joined = {name: text.replace('", "', " ") for name, text in drawn.items()}
    assert SHARE in joined["client.cpu_cycles_per_byte"]
    assert HIDDEN in joined["client.llc_load_misses"], "where the paper's figures stand alone"
    assert not any(said in joined["client.cache_misses"] for said in (SHARE, HIDDEN))


def test_repeated_runs_and_slopes_say_so() -> None:
    runs = printed(print_study, of_sizes("sizes.quick.repetitions=1"))
    assert "CPU cycles of the clients per byte of payload: extrapolated: " in runs
    assert SHARE in runs and HIDDEN in runs
    slopes = printed(print_study, of_lives())
    assert "What each connection adds" in slopes
    assert "context switches of the server: extrapolated: " in slopes


def test_the_main_table_and_its_pairs_say_so() -> None:
    summary = of_lives()
    figures = [row.cells[1] for row in main_table(summary).rows]
    assert {cell.mark for cell in figures} == {"¹"} and all(cell.value != "-" for cell in figures)
    assert "¹ extrapolated: " in printed(print_study, summary)
    assert "Ratios of CPU cycles of the server are extrapolated: " in printed(print_pairs, summary)
    lacking = of_lives("server.bus_cycles")
    assert {main_table(lacking).cells_of(1)[0]} == {Cell("-", mark="¹")}
    assert f"¹ bus cycles of the server: {HIDDEN}" in printed(print_study, lacking)
    assert f"bus cycles of the server: {HIDDEN}." in printed(print_pairs, lacking)


def test_the_sources_counters_say_so() -> None:
    for table in counted_tables(of_lives()):
        # The source's own mistakes have marks at the head of a row.
        own = {head.rstrip("¹²³⁴⁵⁶⁷⁸⁹⁰"): cells for head, cells in rows(table).items()}
        marks = {cell.mark for cell in own["cpu-cycles"]}
        assert len(marks) == 1 and any(note.startswith(f"{min(marks)} extrapolated") for note in table.notes)
        assert {cell.value for cell in own["bus-cycles"]} == {"-"}
        assert any(note.endswith(HIDDEN) for note in table.notes)
        assert {cell.mark for cell in own["task-clock (msec)"]} == {""}


def test_claims_and_answers_say_so() -> None:
    said = printed(print_claims, of_sizes(), 200)
    claims = {claim.id: claim for claim in of_sizes().claims}
    assert SHARE in claims["H21"].our_figure, claims["H21"].our_figure
    assert f"client.llc_load_misses is not available: {HIDDEN}" in said
    notes = [question.note or "" for question in of_sizes().questions]
    assert any("client.l1_dcache_load_misses: extrapolated: " in note for note in notes), notes


def test_the_sources_csv_has_a_column_for_it() -> None:
    text = text_of(cse638(), of_sizes())
    assert text is not None
    lines = list(csv.DictReader(text.splitlines()))
    assert list(lines[0])[-1] == "remarks"
    for line in lines:
        assert float(line["cycles"]) > 0, "a number, as the source has it"
        assert line["llc_misses"] == ""
        assert line["remarks"].startswith("cycles, context_switches: extrapolated: ")
        assert line["remarks"].endswith(f"llc_misses: not available: {HIDDEN}")


def test_counted_trials_say_so() -> None:
    study = cse638()
    contender = study.contenders[0]
    counts = contender_counts(contender, [MACHINE.trial(study, contender, 1, 1, 1.0)], ())
    assert counts.sides["client"].scaled == pytest.approx(MACHINE.shares)
    named = ["cpu_cycles", "cache_misses", "llc_load_misses"]
    table = CountingTable(trials=1, counters=named, contenders=[contender.name])
    counting = CountingSummary(trials=1, counters=table.counters, contenders=[counts])
    view = why_view(of_sizes().model_copy(update={"counting": counting}))
    assert view is not None
    server, _ = view.counted
    own = rows(server)
    assert {head: found[0].mark for head, found in own.items()} == {
        "cpu cycles": "¹", "cache misses": "", "llc load misses": "²"
    }  # fmt: skip
    assert (
        own["cache misses"][0].value.replace(",", "").isdecimal() and own["llc load misses"][0].value == "-"
    )
    assert "context switches" not in own, "those of all trials stand elsewhere"
    extrapolated, hidden = server.notes
    assert extrapolated.startswith("¹ extrapolated: ") and hidden == f"² {HIDDEN}"
    assert not any("extrapolated" in reason or HIDDEN in reason for reason in view.reasons)


def test_the_report_says_so() -> None:
    for summary in (of_sizes(), of_lives(), of_lives("server.bus_cycles")):
        shown = " ".join(render(summary).split())
        assert "extrapolated: " in shown and HIDDEN in shown
