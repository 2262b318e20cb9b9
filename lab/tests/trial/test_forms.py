"""All forms of trials: loads that end by time, persistent connections, whole lives, counters, accounts; and
runs of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.small_studies import head
from made.summaries.swept import STUDY, loaded
from made.summaries.trials import made_trial

from thunderherd.engine import client
from thunderherd.metrics.table import metric
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import runner
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Contender, Study, load_study
from thunderherd.trial import trial
from thunderherd.trial.faults import NO_WINDOW
from thunderherd.trial.observation import READ_LATE, TOO_BUSY

Fake = Callable[..., Path]

FORMS = STUDY.replace(
    "normalise_connections = 5000", "normalise_connections = 5000\ncounters = ['task_clock']"
)


def tried_once(study: Study, name: str) -> TrialRecord:
    return trial.run_trial(study, study.contender(name), block=1, position=1, seed=1)


def tried(study: Study, name: str, at_most: int = 5) -> TrialRecord:
    """Run a trial; again, while other work on this machine delays the readings at the edges of its window."""
    for _ in range(at_most):
        found = tried_once(study, name)
        if not any(TOO_BUSY in reason for reason in found.invalid_reasons):
            return found
    pytest.skip(f"{TOO_BUSY}, {at_most} times")


def test_a_trial_of_a_point_has_its_own_load(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    found = tried(loaded(tmp_path, FORMS), "prefork@pool_size=10")
    assert found.invalid_reasons == []
    assert found.ready is not None
    assert found.ready.settings["pool"] == "10"
    metrics = found.metrics
    assert metrics is not None
    assert metrics["requests"] == 2 * 2 * 20
    assert metrics["latency_p50_seconds"] is None  # two load processes
    assert metrics["latency_mean_seconds"] == pytest.approx(0.002)
    assert metrics["server.task_clock"] == pytest.approx(3 * 80 / 1e9)
    assert metrics["client.task_clock_per_request"] == pytest.approx(5 / 1e9)
    assert metrics["client.user_seconds"] == pytest.approx(0.002)
    # Two processes do not start at one moment: by the time of both together, from before the first reading to
    # after the last, since CPU time after the last reply is counted too.
    began = min(load.counted_from_ns or 0 for load in found.loads)
    seconds = (max(load.counted_to_ns or 0 for load in found.loads) - began) / 1e9
    assert seconds > 0.05
    assert metrics["client.cpus_utilized"] == pytest.approx(metrics["client.task_clock"] / seconds)


TIMED = FORMS.replace(
    '"load.settings.loops" = 20 }',
    '"load.kind" = "timed", "load.settings.duration" = "500ms", "load.processes" = 1 }',
)


def test_timed_load_gets_no_number_of_requests(tmp_path: Path) -> None:
    """The engine refuses both settings together."""
    for text, told in ((TIMED, False), (FORMS, True)):
        load = loaded(tmp_path, text).contender("prefork@pool_size=5").load
        assert "loops" in load.settings
        assert ("loops" in load.engine_settings) == told
        assert load.engine_settings.keys() | {"loops"} == load.settings.keys()


def test_timed_load_is_measured_between_its_marks(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    study = loaded(tmp_path, TIMED)
    assert study.contender("prefork@pool_size=5").load.requests_per_trial is None
    found = tried(study, "prefork@pool_size=5")
    assert found.invalid_reasons == []
    assert [mark.mark for mark in found.marks] == ["window_started", "window_ended"]
    assert found.before is not None
    assert found.rest_before is not None
    assert found.before.tally.requests - found.rest_before.tally.requests == 20
    metrics = found.metrics
    assert metrics is not None
    assert (metrics["requests"], metrics["connections"]) == (300, 300)
    assert metrics["server_cpu_per_request"] == pytest.approx(40e-6)
    assert metrics["server_cpu_seconds"] == pytest.approx(300 * 40e-6)
    assert metrics["client_cpu_per_request"] == pytest.approx(0.003 / 325)
    assert metrics["latency_p50_seconds"] == pytest.approx(0.0015)
    assert metrics["latency_p99_seconds"] is None
    assert metrics["requests_per_second"] == pytest.approx(300 / float(metrics["elapsed_seconds"] or 0))
    # From before the first reading to after the second: requests until then may be in it.
    assert found.after is not None and found.after.read_ns is not None
    seconds = (found.after.read_ns - found.before.monotonic_ns) / 1e9
    assert metrics["server.cpus_utilized"] == pytest.approx(metrics["server.task_clock"] / seconds)


def test_metrics_of_persistent_connections_are_per_request(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    text = TIMED.replace('"load.processes" = 1', '"load.processes" = 1, "load.settings.connections" = "kept"')
    study = loaded(tmp_path, text)
    assert study.contender("prefork@pool_size=5").load.connections_per_trial == 2
    found = tried(study, "prefork@pool_size=5")
    assert found.invalid_reasons == []
    metrics = found.metrics
    assert metrics is not None
    assert metrics["connections"] == 0
    per_connection = [
        value for name, value in metrics.items() if name.endswith(("per_connection", "ons_per_second"))
    ]
    assert per_connection == [None] * len(per_connection)
    assert metrics["server_cpu_per_request"] == pytest.approx(40e-6)
    assert metrics["requests"] == 300


def test_a_timed_load_without_marks_is_invalid(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("no_marks")
    found = tried(loaded(tmp_path, TIMED), "prefork@pool_size=5")
    assert found.invalid_reasons == [NO_WINDOW]
    assert found.metrics is None


def test_server_read_too_late_invalidates_the_trial(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("late")
    found = tried_once(loaded(tmp_path, TIMED), "prefork@pool_size=5")
    assert not found.valid
    assert found.invalid_reasons[0].endswith(TOO_BUSY)


def test_client_metrics_are_kept_if_the_server_was_read_late(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("late")
    text = TIMED[: TIMED.index("[[sweeps.paper]]")]
    text = text.replace('axis = "log', 'metric = "requests_per_second"\naxis = "log')
    found = tried(loaded(tmp_path, text), "prefork@pool_size=5")
    assert found.invalid_reasons == []
    assert READ_LATE in found.warnings
    metrics = found.metrics
    assert metrics is not None
    assert metrics["requests"] == 300
    assert metrics["requests_per_second"]
    assert metrics["server_cpu_per_request"] is None
    assert metrics["server.task_clock"] is None
    assert metrics["clients_per_worker_sd"] is None
    assert found.worker_connections is None


WHOLE = FORMS.replace('axis = "log', 'trial = "whole_life"\naxis = "log').replace(
    '["voluntary_switches_per_connection"]', '["server.user_seconds", "client.minor_faults"]'
)


def test_a_whole_life_is_counted_from_exec_to_exit(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    found = tried(loaded(tmp_path, WHOLE), "prefork@pool_size=5")
    assert found.invalid_reasons == []
    assert (found.before, found.after, found.warm_up) == (None, None, [])
    assert (found.trial, found.cpu_scope, found.warnings) == ("whole_life", "whole_life", [])
    metrics = found.metrics
    assert metrics is not None
    assert (metrics["connections"], metrics["requests"]) == (80, 80)
    assert metrics["server_cpu_seconds"] == pytest.approx(0.04)
    assert metrics["server.user_seconds"] == pytest.approx(0.03)
    assert metrics["server.elapsed_seconds"] == metrics["client.elapsed_seconds"] == pytest.approx(2)
    assert metrics["client.minor_faults"] == 2 * 700
    assert metrics["server.cpus_utilized"] == pytest.approx(1e-6 / 2)
    # One client begins after the other, so both together last longer than either.
    first, last = sorted(each.started_monotonic_ns or 0 for each in found.client_lives)
    assert last > first > 0
    assert metrics["client.cpus_utilized"] == pytest.approx(2e-6 / (2 + (last - first) / 1e9))
    assert metrics["server.task_clock"] == pytest.approx(1e-6)
    assert TrialRecord.model_validate_json(found.model_dump_json(by_alias=True)) == found


@pytest.mark.parametrize("text", [TIMED, WHOLE], ids=["timed", "whole life"])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("account_fault", r": a bucket is short$"),
        ("wrong_account", "account: busy: "),
        ("server_error", "server: errors: 3 reset"),
        ("tally_short", r"server .*\d.* clients .*\d"),
    ],
)
def test_trial_with_inconsistent_counts_or_server_errors_is_invalid(
    fake_engine: Fake, tmp_path: Path, text: str, fault: str, reason: str
) -> None:
    fake_engine(fault)
    found = tried(loaded(tmp_path, text.replace("warm_up_connections = 10", "warm_up_connections = 0")),
                  "prefork@pool_size=5")  # fmt: skip
    assert any(re.search(reason, each) for each in found.invalid_reasons), found.invalid_reasons


def test_an_unavailable_counter_has_its_reason(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("task_clock")
    # A reason that both sides share is reported once.
    for text, reasons in ((FORMS, ["no such thing here", "not for clients"]), (WHOLE, ["not here"])):
        found = tried(loaded(tmp_path, text), "prefork@pool_size=5")
        assert found.valid
        assert [each.rpartition(": ")[2] for each in found.warnings] == reasons
        assert all("task_clock" in each for each in found.warnings)
        assert found.metrics is not None
        assert found.metrics["server.task_clock"] is None
        assert found.metrics["client.task_clock"] is None


def test_pool_switches_are_counted_in_the_window(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    study = loaded(tmp_path, FORMS.replace("task_clock", "voluntary_switches"))
    pool, none = tried(study, "prefork"), tried(study, "iterative")
    assert pool.metrics is not None
    assert none.metrics is not None
    assert pool.metrics["voluntary_switches_per_connection"] == pytest.approx(3)
    assert none.metrics["voluntary_switches_per_connection"] == pytest.approx(2)  # of the whole life


# Whole runs -------------------------------------------------------------------------------------------------


def run(study: Study, directory: Path) -> Summary:
    return run_study(study, directory, seed=5, command=["thunderherd", "run", "swept"])


def test_a_run_of_repetitions_shows_every_run(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    summary = run(loaded(tmp_path, STUDY, "repetitions=2", "parts=['pool_size']"), tmp_path / "run")
    assert (summary.study.repetitions, summary.study.complete, summary.pairs) == (2, True, [])
    assert [each.name for each in summary.contenders][:2] == ["prefork@pool_size=5", "control@pool_size=5"]
    for each in summary.contenders:
        assert each.blocks == len(each.runs) == 2
        assert each.runs[0]["requests"] == 80
        assert each.metrics["requests"].value == 80
        assert (each.load or {})["settings"]["loops"] == 20
    (sweep,) = summary.sweeps
    assert (sweep.unit, sweep.better, sweep.contenders) == ("s", "less", ["prefork", "control"])
    assert [point.number for point in sweep.points] == [5, 10, 30]


def invented(study: Study, contender: Contender, **where: Any) -> TrialRecord:
    """A trial that costs the same for every contender."""
    return made_trial(study, contender.name, where["block"], position=where["position"], seed=where["seed"])


def test_a_run_with_a_sweep_is_judged_with_it(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine()
    monkeypatch.setattr(runner, "run_trial", invented)
    summary = run(loaded(tmp_path, STUDY, "pool_size.values=[4]"), tmp_path / "run")
    assert summary.study.family_size == 5
    pair = next(pair for pair in summary.pairs if pair.sweep)
    assert (pair.sweep, pair.point, pair.metric) == ("pool_size", "4", "server_cpu_per_connection")
    assert pair.verdict == "equivalent"
    assert {each.rank for each in summary.contenders if each.sweep} == {None}
    main = [each for each in summary.contenders if not each.sweep]
    assert sorted(each.rank for each in main if each.rank) == [1, 2, 3]


REAL = (
    head("real-sweep", load="processes = 1\nwarm_up_connections = 10\n")
    + """\
[sizes.quick]
repetitions = 2
[[sweeps]]
name = "pool_size"
title = "The pool"
key = "settings.pool"
values = [2, 4]
[[sweeps.contenders]]
name = "prefork"
design = "prefork"
[[sweeps.contenders]]
name = "threads"
design = "prethread"
"""
)


def test_a_sweep_runs_on_the_engine(
    use_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "real.toml"
    path.write_text(REAL)
    summary = run(load_study(str(path), "quick", [], client.catalogue()), tmp_path / "run")
    assert summary.trials.invalid_reasons == {}
    assert [each.name for each in summary.contenders] == [
        "prefork@pool_size=2", "threads@pool_size=2", "prefork@pool_size=4", "threads@pool_size=4",
    ]  # fmt: skip
    for each in summary.contenders:
        assert [run["requests"] for run in each.runs] == [50, 50]
        assert each.clients_per_worker is not None
        assert len(each.worker_connections or []) == int(each.point or 0)


FORMS_OF_THE_ENGINE = (
    head(
        "real-forms",
        measure='counters = ["context_switches", "task_clock"]\n',
        kind="closed_threads",
        load="processes = 1\n",
        settings='clients = 2, duration = "1s", warm_up = "50ms", bytes = 4000',
    )
    + """\
[sizes.quick]
repetitions = 1
[[sweeps]]
name = "kept"
title = "By time, a connection for every request and one for all"
key = "load.settings.connections"
values = ["per_request", "kept"]
contenders = [{ name = "threads", design = "thread_per_client" }]
[[sweeps]]
name = "life"
title = "Whole lives"
key = "load.settings.loops"
values = [5, 50]
set = { "load.settings.duration" = 0, "load.settings.warm_up" = 0 }
trial = "whole_life"
metrics = ["server.user_seconds"]
contenders = [{ name = "threads", design = "thread_per_client" }]
"""
)


def test_all_forms_run_on_the_engine(use_engine: Path, tmp_path: Path) -> None:
    path = tmp_path / "real-sweep.toml"
    path.write_text(FORMS_OF_THE_ENGINE)
    study = load_study(str(path), "quick", [], client.catalogue())
    trials = {each.name: tried(study, each.name) for each in study.contenders}
    timed, kept = trials["threads@kept=per_request"], trials["threads@kept=kept"]
    for found in (timed, kept):
        assert found.invalid_reasons == []
        assert found.metrics is not None
        assert int(found.metrics["requests"] or 0) > 0
        assert 1e-7 < (found.metrics["server_cpu_per_request"] or 0) < 0.1
        assert 1e-7 < (found.metrics["latency_mean_seconds"] or 0) < 10
    assert kept.metrics is not None
    assert kept.metrics["connections"] == 0
    assert kept.metrics["server_cpu_per_connection"] is None
    for loops in (5, 50):
        life = trials[f"threads@life={loops}"]
        assert life.invalid_reasons == []
        assert life.metrics is not None
        assert life.metrics["requests"] == 2 * loops
        assert (life.metrics["server.elapsed_seconds"] or 0) >= (life.metrics["elapsed_seconds"] or 0)
        assert (life.metrics["server.task_clock"] or 0) > 0 or life.warnings


def test_counters_of_time_are_in_seconds(use_engine: Path) -> None:
    units = {each.name: each.unit or "" for each in client.catalogue().counters if each.countable}
    of_time = {name for name in units if metric(f"server.{name}", units).unit == "s"}
    assert of_time == {"task_clock", "cpu_clock", "process_clocks"}
    assert metric("client.task_clock_per_request", units).unit == "s"
    assert metric("client.context_switches", units).whole
