"""Extrapolated figures carry a mark and unavailable ones a reason, wherever they are shown.

The machine is made up: `counters_by_decree`.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache

import pytest
from made.shown.tables import cells, rows
from made.summaries.marked import HIDDEN, MACHINE, cse232, cse638, printed, sweep

from thunderherd.judge.summary.source_csv import text_of
from thunderherd.judge.why.counts import contender_counts
from thunderherd.metrics.table import metric
from thunderherd.records.extra_trials import CountingSummary, CountingTable
from thunderherd.records.summary import Summary
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.report.page import render
from thunderherd.show.report.why import why_section
from thunderherd.show.tables.main import main_table
from thunderherd.show.tables.model import Cell, Table
from thunderherd.show.tables.paper_counters import counted_tables
from thunderherd.show.tables.sweeps import sweep_tables
from thunderherd.show.terminal.claims import print_claims
from thunderherd.show.terminal.study import print_pairs, print_study
from thunderherd.text.figures import extrapolated, time_share
from thunderherd.trial.caveats import scaled_notes

SHARE = extrapolated([0.4])
EXTRAPOLATED = SHARE.partition(" ")[0]
CYCLES, SWITCHES, BUS = (
    metric(f"server.{each}").words for each in ("cpu_cycles", "context_switches", "bus_cycles")
)


@cache
def of_sizes(*overrides: str) -> Summary:
    return MACHINE.summary(cse638(*overrides))


@cache
def of_lives(metric: str = "server.cpu_cycles") -> Summary:
    return MACHINE.summary(cse232(f"measure.metric='{metric}'"))


def test_warnings_of_trials_become_one_note_for_each_side() -> None:
    """One note a side, with the least share of each event; otherwise each trial would have its own note."""
    trials = [
        replace(MACHINE, shares={"cpu_cycles": share}).trial(cse638(), cse638().contenders[0], 1, 1, 1.0)
        for share in (0.4, 0.3, 0.995, 1.0)
    ]
    for note, side in zip(scaled_notes(trials), ("server", "client"), strict=True):
        assert note.startswith("3 of 4 trials: ") and f" {side}" in note
        assert f"cpu_cycles ({time_share(0.3)} " in note
    notes = [note for note in of_sizes().study.notes if "cpu_cycles (" in note]
    assert len(notes) == 2
    assert "99 %" in time_share(0.995) and "1 %" in time_share(0.001)


def about(tables: list[Table], words: str) -> Table:
    return next(each for each in tables if each.caption.startswith(words))


def test_summary_lists_extrapolated_and_unavailable_metrics() -> None:
    summary = of_sizes()
    for contender in summary.contenders:
        for name in ("client.cpu_cycles", "client.cpu_cycles_per_byte", "both.cpu_cycles_per_byte"):
            assert contender.scaled[name] == pytest.approx(0.4)
        assert not {"client.cache_misses", "cpu_per_byte"} & contender.scaled.keys()
    assert summary.unavailable == {f"{side}.llc_load_misses": HIDDEN for side in ("server", "client")}
    assert Summary.model_validate_json(summary.model_dump_json()) == summary
    assert all("client.cpu_cycles_per_second" in each.scaled for each in summary.contenders)


def test_sweep_tables_mark_extrapolated_and_explain_missing_figures() -> None:
    tables = sweep_tables(of_sizes(), sweep(of_sizes()))
    cycles = about(tables, "CPU cycles of the clients per byte")
    assert {cell.mark for cell in cells(cycles)} == {"¹"}
    (note,) = [note for note in cycles.notes if note.startswith("¹")]
    assert note.startswith("¹ ") and SHARE in note
    missing = about(tables, "LLC load misses of the clients")
    assert {cell.value for cell in cells(missing)} == {"-"}
    assert any(note.endswith(HIDDEN) for note in missing.notes)
    plain = about(tables, "cache misses of the clients")
    assert {cell.mark for cell in cells(plain)} == {""}


def test_charts_name_extrapolated_and_missing_figures() -> None:
    summary = of_sizes()
    drawn = {
        name: json.dumps(sweep_chart(summary, sweep(summary), name))
        for name in ("client.cpu_cycles_per_byte", "client.llc_load_misses", "client.cache_misses")
    }
    joined = {name: text.replace('", "', " ") for name, text in drawn.items()}
    assert SHARE in joined["client.cpu_cycles_per_byte"]
    assert HIDDEN in joined["client.llc_load_misses"], "where the paper's figures stand alone"
    assert not any(said in joined["client.cache_misses"] for said in (SHARE, HIDDEN))


def test_repeated_runs_and_slopes_note_extrapolated_figures() -> None:
    runs = printed(print_study, of_sizes("sizes.quick.repetitions=1"))
    assert f"{metric('client.cpu_cycles_per_byte').words}: {SHARE}" in runs and HIDDEN in runs
    slopes = printed(print_study, of_lives())
    assert f"{SWITCHES}: {EXTRAPOLATED}" in slopes


def test_main_table_and_pairs_mark_extrapolated_and_missing_figures() -> None:
    summary = of_lives()
    figures = [row.cells[1] for row in main_table(summary).rows]
    assert {cell.mark for cell in figures} == {"¹"} and all(cell.value != "-" for cell in figures)
    assert f"¹ {EXTRAPOLATED}" in printed(print_study, summary)
    (note,) = re.findall(rf"[^.]*{CYCLES}[^.]*{EXTRAPOLATED}", printed(print_pairs, summary))
    assert HIDDEN not in note
    lacking = of_lives("server.bus_cycles")
    assert {main_table(lacking).cells_of(1)[0]} == {Cell("-", mark="¹")}
    assert f"¹ {BUS}: {HIDDEN}" in printed(print_study, lacking)
    assert f"{BUS}: {HIDDEN}." in printed(print_pairs, lacking)


def test_paper_counter_tables_mark_extrapolated_and_missing_figures() -> None:
    for table in counted_tables(of_lives()):
        # The source's own mistakes have marks at the head of a row.
        own = {head.rstrip("¹²³⁴⁵⁶⁷⁸⁹⁰"): cells for head, cells in rows(table).items()}
        marks = {cell.mark for cell in own["cpu-cycles"]}
        assert len(marks) == 1 and any(
            note.startswith(f"{min(marks)} {EXTRAPOLATED}") for note in table.notes
        )
        assert {cell.value for cell in own["bus-cycles"]} == {"-"}
        assert any(note.endswith(HIDDEN) for note in table.notes)
        assert {cell.mark for cell in own["task-clock (msec)"]} == {""}


def test_claims_and_answers_note_extrapolated_and_missing_figures() -> None:
    said = printed(print_claims, of_sizes(), 200)
    claims = {claim.id: claim for claim in of_sizes().claims}
    assert SHARE in claims["H21"].our_figure, claims["H21"].our_figure
    assert re.search(rf"client\.llc_load_misses .*: {HIDDEN}", said)
    notes = [question.note or "" for question in of_sizes().questions]
    assert any(f"client.l1_dcache_load_misses: {EXTRAPOLATED}" in note for note in notes), notes


def test_source_csv_has_a_remarks_column() -> None:
    text = text_of(cse638(), of_sizes())
    assert text is not None
    lines = list(csv.DictReader(text.splitlines()))
    assert list(lines[0])[-1] == "remarks"
    for line in lines:
        assert float(line["cycles"]) > 0, "a number, as the source has it"
        assert line["llc_misses"] == ""
        assert line["remarks"].startswith(f"cycles, context_switches: {EXTRAPOLATED}")
        assert line["remarks"].partition("llc_misses: ")[2].endswith(f": {HIDDEN}")


def test_counted_tables_mark_extrapolated_counts() -> None:
    study = cse638()
    contender = study.contenders[0]
    counts = contender_counts(contender, [MACHINE.trial(study, contender, 1, 1, 1.0)], ())
    assert counts.sides["client"].scaled == pytest.approx(MACHINE.shares)
    named = ["cpu_cycles", "cache_misses", "llc_load_misses"]
    table = CountingTable(trials=1, counters=named, contenders=[contender.name])
    counting = CountingSummary(trials=1, counters=table.counters, contenders=[counts])
    view = why_section(of_sizes().model_copy(update={"counting": counting}))
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
    assert extrapolated.startswith(f"¹ {EXTRAPOLATED}") and hidden == f"² {HIDDEN}"
    assert not any("extrapolated" in reason or HIDDEN in reason for reason in view.reasons)


def test_report_names_extrapolated_and_missing_figures() -> None:
    for summary in (of_sizes(), of_lives(), of_lives("server.bus_cycles")):
        shown = " ".join(render(summary).split())
        assert EXTRAPOLATED in shown and HIDDEN in shown
