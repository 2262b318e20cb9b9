"""Best results as shares of what the machine's limits allow: known answers, and cases without a bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from made.refusals import refused
from made.small_studies import MEASURE, head
from made.summaries.bounded import CALLED, LIMITS, SENT, bound

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.judge.summary.bounds import NOT_MEASURED, RULES, best_of_bounds, without_bounds
from thunderherd.judge.summary.summarise import summarise
from thunderherd.metrics.table import CPU_PER_CONNECTION, METRICS, metric
from thunderherd.records.directory import load
from thunderherd.records.limits import BoundSummary, MachineLimits
from thunderherd.records.summary import ContenderSummary, Estimate
from thunderherd.run.runner import NO_LIMITS, run_study
from thunderherd.show.report.page import render
from thunderherd.show.sentences.bounds import bounds_in_words
from thunderherd.show.terminal.study import print_study
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import Study, load_study
from thunderherd.text.layout import make_console


@pytest.fixture
def study(small_study: Study) -> Study:
    return small_study


def test_payload_is_copied_twice_in_blocks_as_large_as_a_send(study: Study) -> None:
    found = bound(study, "gigabits_per_second", {"gigabits_per_second": 32.0, **SENT})
    assert found is not None
    # 40 GB/s on each of two CPUs, every byte twice: 40 GB/s of payload, 320 Gbit/s.
    assert (found.bound, found.share, found.limit) == (pytest.approx(320), pytest.approx(0.1), "memcpy")
    assert all(part in found.why for part in (" twice on 2 CPUs", " 4,096 bytes ", " 40 GB/s"))
    alone = bound(study, "gigabits_per_second", {"gigabits_per_second": 32.0, **SENT}, cpus=(3,))
    assert alone is not None and alone.bound == pytest.approx(160)
    once = bound(study, "gigabits_per_second", {"gigabits_per_second": 32.0, **SENT}, copies=1)
    assert once is not None and once.bound == pytest.approx(640) and " once on 2 CPUs" in once.why


def test_payload_is_bounded_by_requests_if_they_allow_less(study: Study) -> None:
    alone = {"processes": 1, "settings": {**study.load.settings, "children": 1}}
    # 1,000 bytes a request, and at most as many requests as round trips of a byte through pipes.
    small = {"gigabits_per_second": 0.08, "requests_per_second": 1e4, **SENT}
    found = bound(study, "gigabits_per_second", small, load=alone)
    assert found is not None and found.limit == "pipe_round_trip"
    assert (found.bound, found.share) == (pytest.approx(8e-6 / 5e-6), pytest.approx(0.05))
    assert " 1,000 bytes " in found.why
    large = {"gigabits_per_second": 80.0, "requests_per_second": 1e4, **SENT}
    found = bound(study, "gigabits_per_second", large, load=alone)
    assert found is not None and found.limit == "memcpy"


@pytest.mark.parametrize(
    ("size", "gigabytes"), [(64, 10), (1024, 10), (2000, 40), (5000, 40), (16384, 20), (1e6, 20)]
)
def test_payload_bound_uses_the_faster_of_neighbouring_sizes(
    study: Study, size: float, gigabytes: float
) -> None:
    figures = {"gigabits_per_second": 1.0, "server.bytes_sent": 8 * size, "server.send_calls": 8.0}
    found = bound(study, "gigabits_per_second", figures)
    assert found is not None and found.bound == pytest.approx(8 * gigabytes)


def test_connections_cost_both_sides_work_on_all_cpus(study: Study) -> None:
    found = bound(study, "connections_per_second", {"connections_per_second": 10_000.0})
    assert found is not None and (found.bound, found.share) == (pytest.approx(40_000), pytest.approx(0.25))
    pinned = {"server_cpus": (0,), "client_cpus": (0,)}
    one = bound(study, "connections_per_second", {"connections_per_second": 10_000.0}, lab=pinned)
    assert one is not None and one.bound == pytest.approx(20_000) and "on one CPU" in one.why


def test_requests_are_bounded_by_round_trips_and_connections(study: Study) -> None:
    alone = {"processes": 1, "settings": {**study.load.settings, "children": 1}}
    round_trip = bound(study, "requests_per_second", {"requests_per_second": 1e5}, load=alone)
    assert round_trip is not None and round_trip.limit == "pipe_round_trip"
    assert round_trip.bound == pytest.approx(1 / 5e-6)
    connected = {"requests_per_second": 1e4, "connections": 100.0, "requests": 100.0}
    found = bound(study, "requests_per_second", connected)
    assert found is not None and found.limit == "tcp_connection"
    kept = {**connected, "connections": 2.0}
    assert bound(study, "requests_per_second", kept) is None, "several requests may be sent by one call"
    calls = {"server.send_calls_per_request": 1.0, "client.send_calls_per_request": 1.0}
    found = bound(study, "requests_per_second", kept | calls)
    assert found is not None and (found.limit, found.bound) == ("tcp_transfer", pytest.approx(2 / 2e-6))
    gathered = kept | calls | {"client.send_calls_per_request": 0.1}
    assert bound(study, "requests_per_second", gathered) is None


def test_round_trip_is_bounded_if_one_client_waits_and_both_ends_sleep(study: Study) -> None:
    alone = {"processes": 1, "settings": {**study.load.settings, "children": 1}}
    figures = {"latency_p50_seconds": 50e-6}
    anywhere = bound(study, "latency_p50_seconds", figures, load=alone)
    assert anywhere is not None and (anywhere.bound, anywhere.share) == (
        pytest.approx(5e-6),
        pytest.approx(0.1),
    )
    apart = {"server_cpus": (0,), "client_cpus": (1,)}
    across = bound(study, "latency_p50_seconds", figures, load=alone, lab=apart)
    assert across is not None and (across.bound, across.share) == (pytest.approx(45e-6), pytest.approx(0.9))
    assert bound(study, "latency_p50_seconds", figures) is None, "one call may carry several requests"
    calls = {"server.send_calls_per_request": 1.0, "client.send_calls_per_request": 1.0}
    awake = bound(study, "latency_p50_seconds", figures | calls)
    assert awake is not None and (awake.limit, awake.bound) == ("tcp_transfer", pytest.approx(2e-6))
    assert bound(study, "latency_p50_seconds", figures, load=alone, spins=True) is None


def test_process_control_is_bounded_by_process_creation(study: Study) -> None:
    control = Estimate(value=0.8, low=None, high=None)
    summaries = {
        each.name: each.model_copy(update={"process_control_seconds": control})
        for each in summarise(study, [], {}, seed=1).contenders
    }
    found = best_of_bounds(study, summaries.values(), LIMITS, (0, 1))
    (forked,) = found
    shown = study.measure.normalise_connections
    assert (forked.contender, forked.metric) == ("fork_per_client", "process_control_seconds")
    assert forked.bound == pytest.approx(100e-6 * shown) and forked.share == pytest.approx(
        100e-6 * shown / 0.8
    )
    text = bounds_in_words(summarise(study, [], {}, seed=1).model_copy(update={"bounds": found}))[0].text
    assert text.startswith("process control, fork_per_client: ") and f" 0.800 s per {shown:,} conn" in text


def test_equivalent_metrics_have_equivalent_bounds(study: Study) -> None:
    figures = {"duration_per_message": 50e-6, "connections": 1.0, "requests": 100.0, **SENT}
    calls = {"server.send_calls_per_request": 1.0, "client.send_calls_per_request": 1.0}
    found = bound(study, "duration_per_message", figures | calls)
    assert found is not None and (found.limit, found.bound) == ("tcp_transfer", pytest.approx(1e-6))
    alone = {"processes": 1, "settings": {**study.load.settings, "children": 1}}
    moved = {"round_trip_microseconds": 1000.0, "gigabits_per_second": 32.0, **SENT}
    took = bound(study, "round_trip_microseconds", moved, load=alone)
    assert took is not None and (took.limit, took.share) == ("memcpy", pytest.approx(0.1))
    assert bound(study, "round_trip_microseconds", moved) is None, "several clients at a time"


def test_no_bound_without_the_counts_and_limits_it_needs(study: Study) -> None:
    rate = {"gigabits_per_second": 1.0}
    assert bound(study, "gigabits_per_second", rate) is None, "how large a send is was not counted"
    assert bound(study, "gigabits_per_second", rate | SENT, copies=0) is None
    assert bound(study, "gigabits_per_second", rate | SENT, limits=None) is None
    nothing = MachineLimits(cpus=[0], settings={}, figures=[])
    for name in (each.name for each in METRICS.values() if each.bound):
        assert bound(study, name, {name: 1.0, **SENT}, limits=nothing) is None
    connections = {"connections_per_second": 1.0}
    assert bound(study, "connections_per_second", connections, lab={"kind": "unix"}) is None, "that is no TCP"
    assert bound(study, "elapsed_seconds", {"elapsed_seconds": 1.0}) is None
    assert bound(study, "connections_per_second", {"connections_per_second": 0.0}) is None


def test_every_rule_bounds_a_metric() -> None:
    assert {each.bound for each in METRICS.values() if each.bound} | {"task_clock"} == set(RULES)
    assert metric("server.task_clock").bound == "task_clock"


# Every bundled study ----------------------------------------------------------------------------------------

ALWAYS = {
    **SENT,
    **CALLED,
    "client.send_calls_per_request": 1.0,
    "gigabits_per_second": 1.0,
    "requests": 1000.0,
}
"""Figures that every trial has."""


def with_figures(study: Study) -> list[ContenderSummary]:
    """Return the contenders as a run would have them, each with all metrics that are shown."""
    shown = {sweep.name: sweep.metrics for sweep in study.sweeps}
    found = []
    for each in summarise(study, [], {}, seed=1).contenders:
        names = (study.measure.metric,) if each.sweep is None else shown[each.sweep]
        figures = dict.fromkeys(names, 1.0) | ALWAYS
        intervals = {name: Estimate(value=value, low=None, high=None) for name, value in figures.items()}
        found.append(each.model_copy(update={"metrics": intervals}))
    return found


@pytest.mark.parametrize("name", sorted(bundled_studies()))
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_table_of_a_bundled_study_has_a_bound_or_a_reason(name: str, size: str) -> None:
    try:
        study = load_study(name, size, [], client.catalogue())
    except UserError as mistake:
        if {each.code for each in mistake.problems} != {"study.nothing_to_run"}:
            raise
        pytest.skip(str(mistake))
    judged = {sweep.name: sweep.metric for sweep in study.sweeps}
    tables = {None: study.measure.metric} if study.main else {}
    for limits in (LIMITS, None):
        contenders = with_figures(study)
        bounds = best_of_bounds(study, contenders, limits, (0, 1))
        without = without_bounds(study, contenders, limits, (0, 1))
        bounded = {(each.sweep, each.metric) for each in bounds}
        said = {(each.sweep, each.metric) for each in without}
        for table in (tables | judged).items():
            assert (table in bounded) != (table in said), table
        assert all(each.why for each in without)
        of_servers = any(not metric.startswith("client_") for metric in (tables | judged).values())
        assert limits is not None or not bounds
        assert bounds or limits is None or not of_servers, "each study of servers has one at least"
        summary = summarise(study, [], {}, seed=1).model_copy(
            update={"bounds": bounds, "without_bounds": without}
        )
        words = bounds_in_words(summary)
        assert words and sum(not each.is_known for each in words) == len(
            {(each.metric, each.why) for each in without}
        )


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("self-test", "server_cpu_per_connection"),
        ("unp-ch30", "server_cpu_per_connection"),
        ("cse232-a2", "server.task_clock"),
    ],
)
def test_main_tables_are_bounded_for_each_of_their_designs(name: str, metric: str) -> None:
    study = load_study(name, "quick", [], client.catalogue())
    for each in with_figures(study):
        if each.sweep is None:
            (found,) = (b for b in best_of_bounds(study, [each], LIMITS, (0, 1)) if b.metric == metric)
            assert found.contender == each.name


def test_bound_is_shown_for_the_best_contender(study: Study) -> None:
    contenders = summarise(study, [], {}, seed=1).contenders
    measure = study.measure.model_copy(update={"metric": "connections_per_second"})
    rates = dict(zip((each.name for each in contenders), (100.0, 300.0, 200.0), strict=True))

    def with_rate(each: ContenderSummary) -> ContenderSummary:
        rate = Estimate(value=rates[each.name], low=None, high=None)
        return each.model_copy(update={"metrics": {"connections_per_second": rate}})

    of = study.model_copy(update={"measure": measure})
    found = best_of_bounds(of, map(with_rate, contenders), LIMITS, (0, 1))
    assert [(each.contender, each.value) for each in found] == [("fork_per_client", 300.0)]


WHY = "a bare connection takes 50 µs of a CPU, on one CPU"


def test_a_figure_above_its_bound_is_marked(study: Study) -> None:
    summary = summarise(study, [], {}, seed=1)

    def words(share: float) -> str:
        each = BoundSummary(
            metric="connections_per_second", sweep=None, contender="prefork", value=20_000 * share,
            bound=20_000,
            share=share, limit="tcp_connection", why=WHY,
        )  # fmt: skip
        changes = {"bounds": [each], "without_bounds": []}
        (told,) = bounds_in_words(summary.model_copy(update=changes))
        assert (told.is_known, told.heading) == (True, "Bound")
        return told.text

    half = words(0.5)
    assert half.startswith(f"{METRICS['connections_per_second'].words}, prefork: 10,000 /s")
    assert all(part in half for part in (" 50 % ", f"20,000 /s ({WHY}"))
    assert all(part in words(1.1) for part in ("22,000 /s", "above", "110 %", "20,000 /s"))
    assert "below 1 %" in words(0.001) and "above" not in words(1.0)


# A run ------------------------------------------------------------------------------------------------------


@pytest.fixture
def measuring(tmp_path: Path, some_catalogue: Catalogue) -> Study:
    """A study that measures limits, which the fake engine invents."""
    path = tmp_path / "measuring.toml"
    path.write_text(
        head("measuring", measure=MEASURE, limits="20ms")
        + "[sizes.quick]\nrepetitions = 1\n"
        + '[[contenders]]\nname = "iterative"\ndesign = "iterative"\n'
        + '[[contenders]]\nname = "fork_per_client"\ndesign = "fork_per_client"\n'
    )
    return load_study(str(path), "quick", [], some_catalogue)


def test_run_keeps_its_limits_and_shows_the_distance_from_them(
    measuring: Study, fake_engine: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine()
    run = tmp_path / "run"
    summary = run_study(measuring, run, seed=7)
    lines = (run / "limits.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["settings"] == {"duration": 20_000_000, "rounds": 1, "seed": 7}
    assert summary.limits is not None
    forked = summary.limits.figure("fork_exit_wait")
    assert forked is not None and forked.value == 15_000, "the median of 10 and 20 µs"
    found = next(each for each in summary.bounds if each.limit == "fork_exit_wait")
    # The fake engine reports 120 µs a connection.
    assert found.contender == "fork_per_client"
    assert found.share == pytest.approx(15 / 120, rel=0.01)
    kept = load(run).summary
    assert kept is not None and kept.limits == summary.limits and kept.bounds == summary.bounds

    print_study(summary, make_console())
    text = " ".join(capsys.readouterr().out.split())
    per = "s per 5,000 connections"
    of_forks = [each for each in bounds_in_words(summary) if ", fork_per_client: " in each.text]
    ((said, _, short),) = [each for each in of_forks if f"0.600 {per}" in each.text]
    assert all(part in short for part in (f"0.600 {per}", f"0.0750 {per}", "12.5 %")) and short in text
    assert said.startswith(short) and len(said) > len(short)
    page = render(summary)
    assert unescape(said) in unescape(page) and "tcp_connection" in page and 'id="limits"' in page

    fake_engine("no_limits")
    again = run_study(measuring, run, resume=True)
    assert again.limits == summary.limits, "a resumed run keeps those that it has"


def test_resumed_run_without_limits_measures_them(
    measuring: Study, fake_engine: Callable[..., Path], tmp_path: Path
) -> None:
    fake_engine("no_limits")
    run = tmp_path / "run"
    summary = run_study(measuring, run, seed=7)
    assert summary.limits is None and summary.bounds == []
    assert len([note for note in summary.study.notes if "limits" in note]) == 1
    assert not (run / "limits.jsonl").exists()
    fake_engine()
    assert run_study(measuring, run, resume=True).limits is not None


def test_broken_kept_limits_are_reported_and_not_used(
    measuring: Study, fake_engine: Callable[..., Path], tmp_path: Path
) -> None:
    fake_engine()
    run = tmp_path / "run"
    run_study(measuring, run, seed=7)
    for broken in ("", "{oops\n", '{"line": "limit_round"}\n'):
        (run / "limits.jsonl").write_text(broken)
        summary = run_study(measuring, run, resume=True)
        assert summary.limits is None
        assert len([note for note in summary.study.notes if "limits" in note]) == 1


def test_limits_can_be_switched_off(
    measuring: Study, fake_engine: Callable[..., Path], tmp_path: Path, some_catalogue: Catalogue
) -> None:
    fake_engine()
    without = load_study(str(measuring.path), "quick", ["measure.limits=0"], some_catalogue)
    summary = run_study(without, tmp_path / "run", seed=7)
    assert summary.limits is None and summary.bounds == []
    assert not (tmp_path / "run" / "limits.jsonl").exists()
    assert NO_LIMITS not in " ".join(summary.study.notes)
    said = f"{METRICS[CPU_PER_CONNECTION].words}: {NOT_MEASURED}"
    (told,) = bounds_in_words(summary)
    assert (told.text, told.is_known, told.heading) == (said, False, "No bound")
    assert f"<li>No bound: {said}</li>" in unescape(render(summary))


@pytest.mark.parametrize("wrong", ["-1", "20", "61s", "1.5ns", "long"])
def test_invalid_duration_of_limits_is_refused(
    measuring: Study, wrong: str, some_catalogue: Catalogue
) -> None:
    override = f"measure.limits={wrong}"
    (problem,) = refused(load_study, str(measuring.path), "quick", [override], some_catalogue)
    assert override in problem.where and wrong in problem.message
