"""The study cse232-a2 reproduces the experiment and the claims of its source."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from thunderherd.claims.claim_file import load_claims, load_questions
from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.claims.paper_counters import load_counters
from thunderherd.records.summary import Summary
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.study.resolver import OTHER_VALUES, outside_size

DESIGNS = ["single", "multi", "select", "poll", "epoll"]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return client.catalogue()


def study(catalogue: Catalogue, size: str = "quick", *overrides: str) -> Study:
    return load_study("cse232-a2", size, overrides, catalogue)


def test_study_matches_the_sources_experiment(catalogue: Catalogue) -> None:
    resolved = study(catalogue)
    own = [each for each in resolved.main if not each.control_of]
    assert [each.name for each in own] == DESIGNS
    assert [each.design for each in own] == ["iterative", "thread_per_client", "select", "poll", "epoll"]
    for each in own:
        assert (each.settings["backlog"], each.settings["nodelay"]) == (3, False)
        assert (each.lab.server_cpus, each.lab.client_cpus) == ((0,), (1,))
        assert (each.trial, each.load.kind, each.load.requests_per_trial) == (
            "whole_life",
            "closed_threads",
            4,
        )
    unpinned = [each for each in resolved.main if each.name.endswith("_unpinned")]
    assert [(each.lab.server_cpus, each.lab.client_cpus) for each in unpinned] == [(None, None)] * 3


def test_sweeps_have_the_sources_points_and_a_large_backlog(catalogue: Catalogue) -> None:
    full = study(catalogue, "full")
    points = {sweep.name: [point.name for point in sweep.points] for sweep in full.sweeps}
    assert points["lives"] == ["1", "4", "16", "64"]
    assert points["connections"] == [str(2**power) for power in range(9)]
    assert {each.settings["backlog"] for each in full.contenders if each.sweep} == {1024}
    assert {each.trial for each in full.contenders if each.sweep == "lives"} == {"whole_life"}
    timed = [each for each in full.contenders if each.sweep == "connections"]
    assert all(each.load.is_timed and each.load.settings["duration"] == 4 * 10**9 for each in timed)
    quick = study(catalogue)
    assert [point.name for point in quick.sweeps[2].points] == ["1", "64"]
    assert quick.absent["multi@connections=256"] == outside_size("quick", "full")


def test_claims_are_the_sources(catalogue: Catalogue) -> None:
    claims = load_claims(study(catalogue, "full"))
    assert [claim.id for claim in claims] == [f"H{number:02}" for number in range(1, 18)]
    assert [claim.id for claim in claims if claim.unmet or claim.outside or claim.undecided_because] == []
    assert [claim.id for claim in claims if claim.left_out] == []
    assert {claim.id for claim in claims if not claim.test_note} == {"H05", "H07", "H12", "H15"}
    assert [claim.id for claim in load_claims(study(catalogue)) if claim.outside] == ["H16"]
    assert len(load_questions(study(catalogue))) == 3


def test_other_conditions_leave_claims_unmet(catalogue: Catalogue) -> None:
    # H16 is about the sweep of connections alone, whatever the number of the others.
    for override, met in (("load.settings.clients=8", {"H16"}), ("server.settings.nodelay=true", set())):
        claims = load_claims(study(catalogue, "quick", override))
        assert {claim.id for claim in claims if not claim.unmet} == met, override


def test_other_points_leave_claims_untested(catalogue: Catalogue) -> None:
    resolved = study(catalogue, "quick", "lives.values=[1,16]")
    outside = {claim.id: claim.outside for claim in load_claims(resolved) if claim.outside}
    assert {"H01", "H09"} <= set(outside)
    assert OTHER_VALUES in outside["H09"][0]
    chosen = study(catalogue, "quick", "waiting.values=[0, '500us']")
    assert [point.name for point in chosen.sweeps[4].points] == ["0", "500us"]


PAPER_METRICS = {
    "server.context_switches_per_request": "context-switches",
    "server.context_switches": "context-switches",
    "server.cpu_cycles": "cpu-cycles",
    "server.cache_misses": "cache-misses",
    "server.cache_misses_per_request": "cache-misses",
    "server.page_faults": "page-faults",
    "client.elapsed_seconds": "elapsed",
}


def test_papers_own_figures_give_the_expected_contrasts(catalogue: Catalogue) -> None:
    """The contrasts at four connections, given the figures of the report, come out as its own data do."""
    resolved = study(catalogue)
    names = {"single_threaded": "single", "multi_threaded": "multi", "select": "select"}
    figures: dict[tuple[str, str, str], float] = {}
    with resolved.path.with_name("perf_stat.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            figures[row["role"], row["event"], names[row["design"]]] = float(row["value"])
    supported = {}
    for claim in load_claims(resolved):
        tests = [
            test for test in claim.tests if test.metric in PAPER_METRICS and set(test.weights) <= set(DESIGNS)
        ]
        if tests:
            sums = [
                sum(
                    weight * figures[test.metric.split(".")[0], PAPER_METRICS[test.metric], name]
                    for name, weight in test.weights.items()
                )
                for test in tests
            ]
            supported[claim.id] = all(value > 0 for value in sums)
    assert {claim for claim, holds in supported.items() if not holds} == {"H06", "H15"}
    assert set(supported) == {"H02", "H03", "H04", "H06", "H08", "H09", "H12", "H13", "H15"}


def test_study_counts_the_events_of_the_report(catalogue: Catalogue) -> None:
    resolved = study(catalogue, "full")
    paper = load_counters(resolved)
    assert paper is not None
    asked = set(resolved.measure.counters)
    elsewhere = {"elapsed_seconds", "user_seconds", "system_seconds"}
    assert {paper.table.events[event] for event in paper.events} == asked | elsewhere


def test_every_event_of_the_report_has_a_metric(catalogue: Catalogue) -> None:
    resolved = study(catalogue)
    paper = load_counters(resolved)
    assert paper is not None
    assert len(paper.events) == 15
    assert {event for event in paper.events if paper.metric_of(event, "server") is None} == set()
    noted = {event for event in paper.events if resolved.notes_about(f"event {event}")}
    assert noted == {
        "cpu-migrations", "bus-cycles", "instructions", "cpu-cycles", "cache-misses", "context-switches",
        "elapsed", "duration_time",
    }  # fmt: skip


def test_runs_end_to_end(tmp_path: Path, catalogue: Catalogue) -> None:
    small = study(
        catalogue, "quick", "parts=['main', 'unpinned', 'waiting']", "repetitions=1", "waiting.values=[0]",
        "steal=100%", "foreign=100%", "unpinned.values=[4]", "limits=0",
        "counting_cost.trials=0",
    )  # fmt: skip
    run_study(small, tmp_path / "out", seed=1)
    summary = Summary.model_validate_json((tmp_path / "out" / "summary.json").read_text())
    assert summary.trials.valid >= len(small.contenders)
    assert {claim.verdict for claim in summary.claims} <= {"undecided", "not testable here"}
    counted = summary.counted
    assert counted is not None
    assert counted.contenders == DESIGNS
    cells = {(cell.event, cell.side, cell.base): cell for cell in counted.cells}
    assert cells["cpu-migrations", "server", "single"].paper == 0
    for event in (
        "cpu-cycles",
        "instructions",
        "bus-cycles",
        "branch-instructions",
        "branch-misses",
        "cpu-clock",
    ):
        found = cells[event, "server", "single"]
        offered = next(each for each in catalogue.counters if each.name == event.replace("-", "_"))
        assert (found.why is None) == offered.available, event
        assert found.why == offered.reason, event
    assert "event" not in counted.notes
    assert "Ctrl+C" in counted.notes["duration_time"]
    ours = cells["task-clock", "client", "multi"].value
    assert ours is not None and ours.value > 0


def test_slopes_per_connection_cover_every_counter_and_design(catalogue: Catalogue) -> None:
    sweeps = {sweep.name: sweep for sweep in study(catalogue, "full").sweeps}
    assert {name for name, sweep in sweeps.items() if sweep.slope == "connection"} == {"lives", "unpinned"}
    assert list(sweeps["lives"].contenders) == DESIGNS
    counted = ["task_clock", "context_switches", "page_faults", "cpu_migrations", "elapsed_seconds"]
    assert set(sweeps["lives"].metrics) == {
        f"{side}.{name}" for side in ("server", "client") for name in counted
    }
