"""Metrics from observations: all declared metrics are computed, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from thunderherd.engine.lines import Tally, Times
from thunderherd.metrics.table import (
    METRICS,
    OF_A_TALLY,
    REQUESTS_OF_MAXIMUM,
    TIMES,
    AskedCounters,
    is_of_clients,
    metric,
    metric_names,
)
from thunderherd.statistics.histograms import OF_MAXIMUM
from thunderherd.study.loading import Study
from thunderherd.trial.metrics import COMPUTED, Counting, Flow, MeasuredWindow, of_both, of_side
from thunderherd.trial.trial import run_trial

TIMED_ALONE = [
    *("connections", "requests", "client_cpu_seconds", "client_cpu_per_request"),
    *("client_cpu_per_byte", "elapsed_seconds"),
    *("connections_per_second", "requests_per_second", "gigabits_per_second"),
    *("share_of_rate", "share_of_ceiling"),
    *("sends_per_second", "receives_per_second", "queueing_bound", "share_of_queueing_bound"),
    *(
        f"{what}_{part}_seconds"
        for what in ("latency", "connecting", "service_time", "send_lag", "connection_wait")
        for part in ("mean", "p50", "p90", "p99", "p999", "maximum")
    ),
    *("offered_per_second", "share_of_offered", "waited_share", "never_sent", "in_system", "generator_share"),
    "duration_per_message",
    *("sending_microseconds", "round_trip_microseconds", "server_reads"),
]


def test_computed_metrics_match_the_declared_ones() -> None:
    assert list(COMPUTED) == [name for name, each in METRICS.items() if not each.figure]


def test_workload_figures_are_per_request() -> None:
    figures = {"requests": 4, "sending_ns": 5000, "round_trip_ns": 20_000, "server_reads": 10}
    found = measured(figures=figures).metrics()
    assert found["sending_microseconds"] == pytest.approx(1.25)
    assert found["round_trip_microseconds"] == pytest.approx(5)
    assert found["server_reads"] == pytest.approx(2.5)
    assert measured(figures={}).metrics()["server_reads"] is None


def test_metrics_of_clients_are_recognised() -> None:
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
            # The replies are the payload: 4,000 bytes of each request.
            assert found.metrics[f"{side}.{name}_per_byte"] == pytest.approx(each / 4000), name
    assert metric("client.send_calls_per_request").words.endswith("per request")
    assert metric("server.send_calls").whole


def measured(**changes: Any) -> MeasuredWindow:
    work = Tally(
        connections=2, closed=2, requests=50, bytes_received=0, bytes_sent=0, bytes_not_copied=0,
        receive_calls=0, send_calls=0, completions=0, completions_copied=0, empty_wakeups=0, workers_lost=0,
        workers_replaced=0,
    )  # fmt: skip
    plain: dict[str, Any] = {
        "work": work, "server_seconds": 0.5, "served": work, "client_seconds": 1.0, "machine_seconds": 3.0,
        "load_requests": 100, "answered": 40, "counts_requests": True, "opened": 2, "elapsed_seconds": 1.0,
        "times": {what: [] for what in TIMES},
        "schedules": [], "validities": [],
        "figures": {"payload_bytes": 40 * 1000}, "flow": None, "queueing_bound": None,
        "switches_per_connection": None, "listener_holders": None, "workers": None, "listen_drops": 0,
            "rate_gigabits": None, "replied": 100 * 4000, "sent": 0,
    }  # fmt: skip
    return MeasuredWindow(**{**plain, **changes})


def test_maximum_latency_needs_a_hundred_requests_of_all_processes() -> None:
    seen = HdrHistogram(1, 2**53, 3)
    for nanoseconds in range(1, 61):
        seen.record_value(nanoseconds * 1_000_000)
    one = Times(requests=60, mean_ns=1.0, histogram=seen.encode().decode())
    times: dict[str, list[Times | None]] = {what: [] for what in TIMES}
    for processes, longest in ((1, None), (2, pytest.approx(0.06, rel=2e-3))):
        found = measured(times={**times, "latency": [one] * processes}).metrics()
        assert found["latency_maximum_seconds"] == longest
    longest = METRICS["latency_maximum_seconds"]
    assert longest.fewest_requests == REQUESTS_OF_MAXIMUM == OF_MAXIMUM


def test_cpu_per_byte_uses_the_requests_of_each_side() -> None:
    """The server's CPU time is of the 50 requests of its window, the clients' of all 100 of their load."""
    found = measured().metrics()
    assert found["server_cpu_per_byte"] == pytest.approx(0.5 / 50 / 1000)
    assert found["client_cpu_per_byte"] == pytest.approx(1.0 / 100 / 1000)
    assert found["cpu_per_byte"] == pytest.approx(0.5 / 50 / 1000 + 1.0 / 100 / 1000)
    assert found["machine_cpu_per_byte"] == pytest.approx(3.0 / 100 / 1000)


@pytest.mark.parametrize(
    ("to_server", "server", "clients"), [(True, 3_000_000, 8000), (False, 2_000_000, 400_000)]
)
def test_cpu_per_byte_of_a_stream_uses_the_bytes_of_each_side(
    to_server: bool, server: int, clients: int
) -> None:
    """A stream has no request that ends in the window. Its payload is what passed each side: the server in
    its window, the clients in the whole load."""
    work = measured().work.model_copy(
        update={"requests": 0, "bytes_received": 3_000_000, "bytes_sent": 2_000_000}
    )
    flow = Flow(gigabits=1.0, sends=1.0, receives=1.0, to_server=to_server)
    found = measured(work=work, served=work, flow=flow, answered=0, sent=8000).metrics()
    assert found["server_cpu_per_byte"] == pytest.approx(0.5 / server)
    assert found["client_cpu_per_byte"] == pytest.approx(1.0 / clients)
    assert found["cpu_per_byte"] == pytest.approx(0.5 / server + 1.0 / clients)
    assert found["machine_cpu_per_byte"] == pytest.approx(3.0 / clients)
    by = Counting(0, None, moved=server)
    assert of_side("server", {"cpu_cycles": 5000}, by)["server.cpu_cycles_per_byte"] == 5000 / server


def test_payload_defaults_to_the_replies() -> None:
    assert measured().bytes_per_request() == 1000, "its own, of the 40 requests that count"
    assert measured(figures={}).bytes_per_request() == 4000, "of all 100 that the clients were answered"
    replies = measured(figures={}).metrics()
    assert replies["cpu_per_byte"] == pytest.approx((0.5 / 50 + 1.0 / 100) / 4000)
    for nothing in (measured(figures={"payload_bytes": 0}), measured(figures={}, replied=0)):
        assert nothing.bytes_per_request() is None
        assert nothing.metrics()["cpu_per_byte"] is None


def test_both_metrics_exist_per_request_and_per_byte_only() -> None:
    server = of_side("server", {"cpu_cycles": 5000, "cache_misses": None}, Counting(50, 1000.0))
    client = of_side("client", {"cpu_cycles": 20_000, "cache_misses": 7}, Counting(100, 1000.0))
    assert server["server.cpu_cycles_per_byte"] == pytest.approx(0.1)
    assert of_both(server, client) == {
        "both.cpu_cycles_per_request": pytest.approx(300),
        "both.cpu_cycles_per_byte": pytest.approx(0.3),
        "both.cache_misses_per_request": None,
        "both.cache_misses_per_byte": None,
    }
    names = metric_names(AskedCounters(("cpu_cycles",)))
    assert {"both.cpu_cycles_per_byte", "client.cpu_cycles_per_byte", "server.cpu_cycles"} <= set(names)
    assert "both.cpu_cycles" not in names
    assert metric("both.cpu_cycles_per_byte").words.startswith("CPU cycles ")
    with pytest.raises(KeyError):
        metric("both.cpu_cycles")


SECOND = 1_000_000_000
ROUND_TRIPS = {"payload_bytes": 3_000_000, "requests": 4, "payload_ns": 4 * SECOND}


@pytest.mark.parametrize(
    ("edges", "seconds"),
    [
        ({"payload_began_ns": 10 * SECOND, "payload_ended_ns": 12 * SECOND}, 2),
        # One client, which waits between its requests: only they count.
        ({"payload_began_ns": 10 * SECOND, "payload_ended_ns": 16 * SECOND}, 4),
        ({}, 4),
    ],
)
def test_payload_rate_uses_the_time_between_its_edges(edges: dict[str, int], seconds: int) -> None:
    found = measured(figures=ROUND_TRIPS | edges, rate_gigabits=1.0).metrics()
    assert found["gigabits_per_second"] == pytest.approx(0.024 / seconds)
    assert found["share_of_rate"] == found["gigabits_per_second"]


def test_payload_rate_defaults_to_the_time_of_the_load() -> None:
    found = measured(figures={"payload_bytes": 5_000_000}, elapsed_seconds=0.5).metrics()
    assert found["gigabits_per_second"] == pytest.approx(0.08)
