"""From what was measured to metrics: all that are declared are computed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from thunderherd.engine_lines import Tally
from thunderherd.metrics import METRICS, OF_A_TALLY, is_of_clients, metric, metric_names
from thunderherd.study import Study
from thunderherd.trial import run_trial
from thunderherd.trial_metrics import COMPUTED

TIMED_ALONE = [
    *("connections", "requests", "client_cpu_seconds", "client_cpu_per_request", "elapsed_seconds"),
    *("connections_per_second", "requests_per_second", "gigabits_per_second"),
    *("share_of_rate", "share_of_ceiling"),
    *("sends_per_second", "receives_per_second", "queueing_bound", "share_of_queueing_bound"),
    *("latency_mean_seconds", "latency_p50_seconds", "latency_p90_seconds", "latency_p99_seconds"),
    *("latency_p999_seconds", "latency_maximum_seconds", "duration_per_message"),
    *("sending_microseconds", "round_trip_microseconds", "server_reads"),
]


def test_what_is_declared_is_computed_and_nothing_else() -> None:
    assert list(COMPUTED) == list(METRICS)


def test_whose_a_metric_is() -> None:
    assert [name for name in METRICS if is_of_clients(name)] == TIMED_ALONE
    assert is_of_clients("client.send_calls_per_request")
    assert not is_of_clients("server.send_calls_per_request")
    assert not is_of_clients("no_such_metric")


def test_narrow_columns_have_heads() -> None:
    assert metric("elapsed_seconds").short == "Time"
    assert metric("listen_drops").short == METRICS["listen_drops"].words


def test_counts_of_both_sides_are_metrics(small_study: Study, fake_engine: Callable[..., Path]) -> None:
    assert OF_A_TALLY.keys() <= Tally.model_fields.keys()
    fake_engine()
    found = run_trial(small_study, small_study.contender("prefork"), block=1, position=1, seed=1)
    assert found.metrics is not None
    expected = {
        "server": {"send_calls": 2, "receive_calls": 3, "bytes_sent": 4000, "bytes_received": 5},
        "client": {"send_calls": 1, "receive_calls": 4, "bytes_sent": 5, "bytes_received": 4000},
    }
    for side, counts in expected.items():
        for name, each in counts.items():
            assert found.metrics[f"{side}.{name}"] == 100 * each, name
            assert found.metrics[f"{side}.{name}_per_request"] == pytest.approx(each), name
            assert f"{side}.{name}_per_request" in metric_names()
    assert metric("client.send_calls_per_request").words == "send calls of the clients per request"
    assert metric("server.send_calls").whole
