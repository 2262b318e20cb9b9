"""The source's counters with ours: every event is shown, and uncounted ones with their reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.shown.printed import printed
from made.shown.tables import rows
from made.summaries import sweeps as synthetic_sweeps

from thunderherd.engine.lines import Life
from thunderherd.judge.claims.paper_counters import NOT_COUNTED, load_counters
from thunderherd.records.paper_counters import CountedCell, CountedSummary
from thunderherd.records.summary import Summary
from thunderherd.show.tables.model import Table
from thunderherd.show.tables.paper_counters import counted_tables
from thunderherd.text.figures import estimator
from thunderherd.trial.caveats import unavailable_counters

EVENTS = ["task-clock", "context-switches", "cpu-cycles", "elapsed"]


def summary(directory: Path, **changes: Any) -> Summary:
    return synthetic_sweeps.summary_of(synthetic_sweeps.write_counters(directory, **changes))


def counted(of: Summary) -> CountedSummary:
    assert of.counted is not None
    return of.counted


def cell(of: Summary, event: str, side: str, base: str) -> CountedCell:
    return next(
        each for each in counted(of).cells if (each.event, each.side, each.base) == (event, side, base)
    )


def table(of: Summary, side: str) -> Table:
    return next(each for each in counted_tables(of) if each.caption.lower().startswith(side))


def test_table_has_every_event_of_both_sides_per_contender(tmp_path: Path) -> None:
    found = counted(summary(tmp_path))
    assert (found.events, found.contenders) == (EVENTS, ["iterative", "prefork", "thread_per_client"])
    assert len(found.cells) == 2 * 4 * 3
    assert list(rows(table(summary(tmp_path), "server"))) == [
        "task-clock (msec)", "context-switches", "cpu-cycles", "elapsed (s)"
    ]  # fmt: skip


def test_figures_have_the_unit_of_the_source(tmp_path: Path) -> None:
    of = summary(tmp_path)
    clock = cell(of, "task-clock", "server", "prefork")
    own = {each.name: each for each in of.contenders}["prefork@whole_life=4"].metrics["server.task_clock"]
    assert clock.value is not None and clock.value.value == pytest.approx(own.value * 1000)
    assert (clock.paper, clock.unit, clock.metric) == (2.79, "msec", "server.task_clock")
    assert cell(of, "task-clock", "client", "thread_per_client").paper is None, (
        "the source has no such design"
    )


def test_repeated_runs_have_the_mean_of_their_other_tables(tmp_path: Path) -> None:
    written = synthetic_sweeps.write_counters(tmp_path)
    update = {"paper_counters": written.paper_counters, "path": written.path}
    of = synthetic_sweeps.summary_of(synthetic_sweeps.study(repetitions=3).model_copy(update=update))
    own = {each.name: each for each in of.contenders}["prefork@whole_life=4"].spread["server.task_clock"]
    clock = rows(table(of, "server"))["task-clock (msec)"]
    assert clock[1].value == f"{own.mean * 1000:.2f}"
    assert clock[1].span == f"sd {(own.standard_deviation or 0) * 1000:.2f}"
    text = printed(of, 100)
    assert "no bounds" not in text and f"{estimator(of)}. Paper: " in text
    assert " size quick " in text.splitlines()[-1] and "0 comparisons" not in text


def test_uncounted_event_shows_a_dash_and_a_reason(tmp_path: Path) -> None:
    of = summary(tmp_path, reasons={"cpu-cycles": "counted later"})
    cycles = cell(of, "cpu-cycles", "server", "iterative")
    assert (cycles.value, cycles.paper, cycles.why) == (None, 7200631.0, "counted later")
    shown = table(of, "server")
    row = rows(shown)["cpu-cycles"]
    assert [(each.value, each.mark, each.paper) for each in row] == [
        ("-", "¹", "7,200,631"), ("-", "¹", "7,874,479"), ("-", "¹", "-")
    ]  # fmt: skip
    assert shown.notes == ("¹ counted later",)
    assert cell(summary(tmp_path), "cpu-cycles", "server", "iterative").why == NOT_COUNTED


def test_unavailable_event_has_the_engines_reason(tmp_path: Path) -> None:
    of = synthetic_sweeps.write_counters(tmp_path)
    trials = synthetic_sweeps.trials(of, 1)[:40]
    life = Life(
        unavailable={"task_clock": "perf_event_paranoid is 3"}, elapsed_ns=1, user_ns=1, system_ns=1,
        voluntary_switches=0, involuntary_switches=0, minor_faults=0, major_faults=0, status=0,
    )  # fmt: skip
    without = [
        trial.model_copy(
            update={
                "server_life": life,
                "metrics": {
                    key: each for key, each in (trial.metrics or {}).items() if key != "server.task_clock"
                },
            }
        )
        for trial in trials
    ]
    assert unavailable_counters(of, without)["server.task_clock"] == "perf_event_paranoid is 3"
    assert "client.task_clock" not in unavailable_counters(of, without)
    found = synthetic_sweeps.summarised(of, without)
    assert cell(found, "task-clock", "server", "prefork").why == "perf_event_paranoid is 3"


def test_a_size_without_its_sweep_has_no_table(tmp_path: Path) -> None:
    of = synthetic_sweeps.write_counters(tmp_path)
    lives = [each for each in of.contenders if each.sweep == "whole_life"]
    smaller = of.model_copy(
        update={
            "contenders": tuple(each for each in of.contenders if each not in lives),
            "sweeps": of.sweeps[:2],
            "absent": {**of.absent, **{each.name: "not part of size quick" for each in lives}},
        }
    )
    assert load_counters(smaller) is not None, "it is checked all the same"
    assert synthetic_sweeps.summary_of(smaller).counted is None


def test_study_without_paper_counters_has_no_table() -> None:
    assert synthetic_sweeps.summary().counted is None
    assert counted_tables(synthetic_sweeps.summary()) == []


@pytest.mark.parametrize(
    ("changes", "code", "offers"),
    [
        ({"file": "perf.csv"}, "file.unreadable", "perf.csv"),
        ({"sweep": "whole_lives"}, "study.unknown_sweep", "'whole_life'?"),
        ({"point": "5"}, "study.unknown_point", '"5"'),
        ({"point": None}, "study.sweep_without_point", ""),
        ({"sweep": None}, "study.point_without_sweep", ""),
        ({"designs": {"single": "iterative"}}, "study.unknown_design", "'single_threaded'?"),
        ({"designs": {"select": "iteratives"}}, "study.unknown_contender", "'iterative'?"),
        ({"events": {"task_clock": "task_clock"}}, "study.unknown_event", "'task-clock'?"),
        ({"events": {"cpu-cycles": "cpu_cycles"}}, "study.counter_not_requested", '"cpu_cycles"'),
        ({"events": {"context-switches": "task_clock"}}, "source.unknown_unit_of_time", '"count"'),
        ({"reasons": {"cycles": "later"}}, "study.unknown_event", '"cycles"'),
        ({"reasons": {"task-clock": "later"}}, "study.reason_of_counted_event", '"task-clock"'),
        ({"columns": {"side": "sides"}}, "", '"sides"'),
    ],
)
def test_mistakes_are_refused_at_their_line(
    changes: dict[str, Any], code: str, offers: str, tmp_path: Path
) -> None:
    found = refused(load_counters, synthetic_sweeps.write_counters(tmp_path, **changes))
    at_study = [each for each in found if Path(each.where).name.startswith("study.toml:")]
    assert any(code in ("", each.code) and offers in str(each) for each in at_study), found


@pytest.mark.parametrize(
    ("old", "new", "code", "offers"),
    [
        ("client,task-clock,1.93", "client,task-clock,many", "source.not_a_number", 'value = "many"'),
        ("select,client,task-clock", "select,peer,task-clock", "source.unknown_side", 'role = "peer"'),
        ("task-clock,1.93,msec", "task-clock,1.93,s", "source.several_units", '"msec"'),
        ("select,client,context-switches", "select,client,task-clock", "source.duplicate_figure", "select"),
    ],
)
def test_mistakes_of_the_file_are_refused(old: str, new: str, code: str, offers: str, tmp_path: Path) -> None:
    of = synthetic_sweeps.write_counters(tmp_path)
    path = tmp_path / "perf_stat.csv"
    right = path.read_text()
    path.write_text(right.replace(old, new))
    lines = zip(right.splitlines(), path.read_text().splitlines(), strict=True)
    changed = next(number for number, (before, after) in enumerate(lines, 1) if before != after)
    (problem,) = [each for each in refused(load_counters, of) if each.code == code]
    assert offers in problem.message and problem.where == f"{path}:{changed}"
