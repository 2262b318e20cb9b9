"""One trial: its metrics, and every reason for which it is invalid."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made.engines import processes_of
from made.refusals import refused

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import Server
from thunderherd.engine.lines import Ready, Snapshot
from thunderherd.engine.places import channel
from thunderherd.machine import tcp_sockets
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study, load_study
from thunderherd.trial import observation, trial
from thunderherd.trial.observation import NO_CPU_TIME, OF_WHOLE_LIFE

Fake = Callable[..., Path]


def run(study: Study, name: str = "prefork") -> TrialRecord:
    return trial.run_trial(study, study.contender(name), block=3, position=2, seed=7)


def test_a_trial_with_the_stand_in(fake_engine: Fake, small_study: Study) -> None:
    fake_engine()
    found = run(small_study)
    assert found.invalid_reasons == []
    assert found.valid
    assert (found.study, found.contender) == ("small", "prefork")
    assert (found.block, found.position, found.seed) == (3, 2, 7)
    metrics = found.metrics
    assert metrics is not None
    # 2 clients x 2 children x 25 loops, and the warm-up's 10 connections outside of the window
    assert (metrics["connections"], metrics["requests"]) == (100, 100)
    assert metrics["server_cpu_per_connection"] == pytest.approx(40e-6)
    assert metrics["server_cpu_seconds"] == pytest.approx(0.004)
    assert metrics["client_cpu_seconds"] == pytest.approx(2 * 0.003)
    assert metrics["voluntary_switches_per_connection"] == pytest.approx(2)
    assert found.worker_connections is not None
    assert sum(found.worker_connections) == 100
    assert metrics["clients_per_worker_max"] == max(found.worker_connections)
    assert metrics["connections_per_second"] == pytest.approx(100 / metrics["elapsed_seconds"])
    assert [load.expected_requests for load in found.warm_up] == [10]
    assert found.cpu_scope == "window"
    assert found.noise is not None
    assert found.time_wait_before is not None


def test_a_design_without_a_pool_has_no_spread(fake_engine: Fake, small_study: Study) -> None:
    fake_engine()
    found = run(small_study, "iterative")
    metrics = found.metrics
    assert metrics is not None
    assert found.worker_connections is None
    assert metrics["clients_per_worker_sd"] is None
    assert metrics["clients_per_worker_min"] is None


def test_golden_page_of_reasons_and_warnings(
    fake_engine: Fake, small_study: Study, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    parts = []
    for fault in (
        "load_error", "server_error", "worker_lost", "drops", "tally_short", "account_fault", "restless",
        "left_open", "no_cpu", "crash", "dies", "garbage", "whole_life",
    ):  # fmt: skip
        fake_engine(fault)
        # Only these two never become idle; the others do, on a busy machine later.
        monkeypatch.setattr(trial, "SETTLE_SECONDS", 0.1 if fault in ("restless", "left_open") else 60.0)
        # The stand-in drops connections only once 150 have come, so let the window have 200.
        study = bigger(small_study, loops=50) if fault == "drops" else small_study
        found = run(with_load(study, warm_up_connections=0) if fault == "tally_short" else study)
        assert found.valid == (fault == "whole_life")
        lines = [f"invalid: {each}" for each in found.invalid_reasons]
        parts.append(
            "\n".join(
                [
                    f"{fault}:",
                    *lines,
                    *(f"warning: {each}" for each in found.warnings if "tw_buckets" not in each),
                ]
            )
        )
    golden("trial/reasons.txt", "\n\n".join(parts) + "\n")


def bigger(study: Study, loops: int) -> Study:
    return with_load(study, settings={**study.load.settings, "loops": loops})


def with_load(study: Study, **update: object) -> Study:
    load = study.load.model_copy(update=update)
    contenders = tuple(each.model_copy(update={"load": load}) for each in study.contenders)
    return study.model_copy(update={"load": load, "contenders": contenders})


def test_trial_with_different_counts_of_both_ends_is_invalid(fake_engine: Fake, small_study: Study) -> None:
    fake_engine("tally_short")
    found = run(with_load(small_study, warm_up_connections=0))
    (reason,) = found.invalid_reasons
    assert re.findall(r"\d+", reason) == ["99", "100"]
    assert found.warm_up == []


def test_a_server_that_does_not_become_idle(
    fake_engine: Fake, small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("restless")
    monkeypatch.setattr(trial, "SETTLE_SECONDS", 0.2)
    found = run(small_study)
    assert not found.valid
    assert found.metrics is None
    assert trial.NOT_IDLE in found.invalid_reasons[0] and " 1.000 ms " in found.invalid_reasons[0]


def test_no_trial_is_invalid_without_a_reason(fake_engine: Fake, small_study: Study) -> None:
    fake_engine("no_cpu")
    found = run(small_study)
    assert not found.valid
    assert found.metrics is None
    (reason,) = found.invalid_reasons
    assert reason.endswith(NO_CPU_TIME)


def test_a_server_with_an_open_connection_is_not_idle(
    fake_engine: Fake, small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is ready to run but gets no CPU uses none, too."""
    fake_engine("left_open")
    monkeypatch.setattr(trial, "SETTLE_SECONDS", 0.2)
    (reason, *_) = run(small_study).invalid_reasons
    assert trial.NOT_IDLE in reason and " 0.000 ms " in reason
    # What a lost worker had open is never closed: nothing is waited for, and its loss is the reason.
    fake_engine("left_open", "worker_lost")
    monkeypatch.setattr(trial, "SETTLE_SECONDS", 60.0)
    assert run(small_study).invalid_reasons == ["server: 1 worker died"]


def test_cpu_of_the_whole_life_is_labelled(fake_engine: Fake, small_study: Study) -> None:
    fake_engine("whole_life")
    found = run(small_study)
    assert found.valid
    assert found.cpu_scope == "whole_life"
    assert found.metrics is not None
    # All 110 connections, warm-up included, and all CPU: divided by all of them.
    assert found.metrics["server_cpu_seconds"] == pytest.approx(110 * 40e-6)
    assert found.metrics["server_cpu_per_connection"] == pytest.approx(40e-6)
    assert found.metrics["connections"] == 100
    # There are further reasons if the machine's table of TIME_WAIT sockets is full.
    label = f"CPU time {OF_WHOLE_LIFE}: perf_event: not permitted"
    assert label in found.warnings


def test_a_load_that_hangs_ends_in_time(
    fake_engine: Fake, small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("load_hangs")
    monkeypatch.setattr(trial, "LOAD_SECONDS", 0.3)
    monkeypatch.setattr(trial, "SECONDS_A_REQUEST", 0.0)
    monkeypatch.setattr(channel, "KILL_SECONDS", 0.3)
    found = run(small_study)
    (reason,) = found.invalid_reasons
    assert reason.startswith("load bytes ")


def test_a_mistake_of_the_users_is_not_an_invalid_trial(fake_engine: Fake, small_study: Study) -> None:
    fake_engine("no_such_port")
    (problem,) = refused(run, small_study)
    assert "port 80" in str(problem)


def test_trial_that_exhausts_ports_is_invalid(
    fake_engine: Fake, small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine()
    monkeypatch.setattr(tcp_sockets, "time_wait_of_port", lambda port: 30)
    monkeypatch.setattr(tcp_sockets, "local_ports", lambda: 279)
    found = run(small_study)  # 30 + 10 + 100 > 279 // 2
    assert not found.valid
    assert re.findall(r"\d+", found.invalid_reasons[0])[:2] == ["30", "110"]
    monkeypatch.setattr(tcp_sockets, "local_ports", lambda: 280)
    assert run(small_study).valid


def test_warm_up_scales_the_last_of_the_settings_that_count(small_study: Study) -> None:
    def warm_up(connections: int, *requests: str, **settings: int) -> object:
        update = {"settings": settings, "requests": requests, "warm_up_connections": connections}
        return trial.warm_up_settings(small_study.load.model_copy(update=update))

    settings = {"children": 5, "loops": 500, "bytes": 4000}
    assert warm_up(100, "children", "loops", **settings) == {"children": 5, "loops": 20, "bytes": 4000}
    assert warm_up(101, "children", "loops", **settings) == {"children": 5, "loops": 21, "bytes": 4000}
    assert warm_up(0, "children", "loops", **settings) is None
    assert warm_up(100, "rounds", rounds=7, bytes=1) == {"rounds": 100, "bytes": 1}


def test_a_replaced_worker_counts_from_zero() -> None:
    assert observation.workers_in_window([5, 7], [6, 7, 3]) == [1, 0, 3]
    assert observation.workers_in_window(None, [1]) is None


def test_settling_waits_until_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    class Settling(Server):
        def __init__(self, spins: bool = False) -> None:
            self.used = [0, 900_000, 1_500_000, 1_510_000]
            self.ready = Ready.model_construct(spins=spins)

        def snapshot(self):  # type: ignore[no-untyped-def]
            return CANNED.model_copy(update={"cpu_ns": self.used.pop(0)})

    server = Settling()
    assert trial.settle(server).cpu_ns == 1_510_000
    assert server.used == []
    # A busy-polling server is idle without connections; nothing is counted.
    assert trial.settle(Settling(spins=True)).cpu_ns == 900_000


CANNED = Snapshot.model_validate(
    {
        "monotonic_ns": 1,
        "cpu_ns": 0,
        "listen_drops": 0,
        "tally": dict.fromkeys(
            ["connections", "closed", "requests", "bytes_received", "bytes_sent", "bytes_not_copied",
             "receive_calls", "send_calls", "completions", "completions_copied", "empty_wakeups",
             "workers_lost", "workers_replaced"],
            0,
        ),
    }
)  # fmt: skip


# The engine itself


@pytest.mark.parametrize("name", ["iterative", "fork_per_client", "prefork"])
def test_a_real_trial(copied_engine: Path, small_study_file: Path, name: str) -> None:
    study = load_study(str(small_study_file), "quick", [], real_catalogue())
    found = run(study, name)
    assert found.invalid_reasons == []
    assert found.metrics is not None
    assert found.metrics["requests"] == found.metrics["connections"] == 100
    assert 1e-6 < (found.metrics["server_cpu_per_connection"] or 0) < 0.1
    assert (found.worker_connections is not None) == (name == "prefork")
    assert found.noise is not None
    # Of all CPUs, for as long as the trial took; that is long on a busy machine.
    assert found.noise.machine_busy_seconds < (os.cpu_count() or 1) * (found.noise.wall_seconds + 1)
    assert processes_of(copied_engine) == {}
    assert TrialRecord.model_validate_json(found.model_dump_json(by_alias=True)) == found


def real_catalogue() -> Catalogue:
    return client.catalogue()
