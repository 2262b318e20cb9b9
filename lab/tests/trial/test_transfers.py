"""Workloads that move many bytes: their metrics follow from the counts of both ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made.small_studies import head

from thunderherd.engine.client import catalogue
from thunderherd.engine.lines import Counted, LoadResult
from thunderherd.metrics.table import METRICS
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import load_study
from thunderherd.trial.metrics import figures_of, flow_of
from thunderherd.trial.observation import READ_LATE
from thunderherd.trial.trial import run_trial

CONTENDERS = """\
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[[contenders]]
name = "a"
design = "thread_per_client"
[[contenders]]
name = "b"
design = "epoll"
"""

Trial = Callable[..., TrialRecord]


@pytest.fixture
def trial(tmp_path: Path, use_engine: Path) -> Trial:
    """Runs a trial of contender `a` of a study with these parts."""

    def run(
        workload: str, load: str, client: str, service: str = "", warm_up: int = 0, processes: int = 1
    ) -> TrialRecord:
        path = tmp_path / "transfers.toml"
        path.write_text(
            head(
                "transfers",
                metric="gigabits_per_second",
                workload=workload,
                server=f"settings = {{ {service} }}\n",
                kind=load,
                load=f'processes = {processes}\nprimitive = "sendmsg"\nwarm_up_connections = {warm_up}\n',
                settings=client,
            )
            + CONTENDERS
        )
        study = load_study(str(path), "quick", [], catalogue(use_engine))
        for _ in range(5):  # On a busy machine the server may be read late, and its figures are left out.
            found = run_trial(study, study.contender("a"), block=1, position=1, seed=1)
            if READ_LATE not in found.warnings:
                break
        assert found.valid, found.invalid_reasons
        assert found.metrics is not None
        return found

    return run


def test_blast_reports_times_reads_and_rate(trial: Trial) -> None:
    found = trial("blast", "closed", "children = 1, loops = 3, repetitions = 500", warm_up=1)
    metrics, figures = found.metrics or {}, found.loads[0].figures
    assert figures["requests"] == 3
    assert {each.figure for each in METRICS.values() if each.figure} <= {*figures}
    assert metrics["server_reads"] == figures["server_reads"] / 3 >= 500
    sending, round_trip = metrics["sending_microseconds"], metrics["round_trip_microseconds"]
    assert sending is not None and round_trip is not None and 0 < sending < round_trip
    assert metrics["gigabits_per_second"] == pytest.approx(500 * 1500 * 8 / (round_trip * 1e3))


@pytest.mark.parametrize("load", ["closed", "closed_threads"])
def test_messages_that_echo_receives_in_parts_count_as_requests(trial: Trial, load: str) -> None:
    """The server cannot distinguish requests and counts receives. The test checks that both ends account for
    the same bytes, and that costs are per request of the clients."""
    if load == "closed":
        found = trial(load=load, workload="echo", client="children = 2, loops = 50, bytes = 65536", warm_up=4)
    else:
        timed = 'clients = 2, duration = "200ms", warm_up = "20ms", bytes = 65536'
        found = trial(load=load, workload="echo", client=f'{timed}, connections = "kept"')
    summary, metrics = found.summary, found.metrics or {}
    assert summary is not None
    asked = sum(each.tally.requests for each in (*found.warm_up, *found.loads))
    assert summary.tally.requests > 2 * asked, "several receives each, of at most 16 KiB"
    assert summary.account == {"echoed_bytes": asked * 65536}
    seconds, cost = metrics["server_cpu_seconds"], metrics["server_cpu_per_request"]
    requests = metrics["requests"]
    assert seconds and cost and requests
    # The server is read a little later than a window that ends by time.
    assert seconds / cost == pytest.approx(requests, rel=0.25 if load == "closed_threads" else 0.001)


BLASTS = 50_000


@pytest.mark.parametrize(("processes", "children"), [(1, 4), (2, 2)])
def test_blasts_of_several_clients_at_a_time_have_the_rate_of_all(
    trial: Trial, processes: int, children: int
) -> None:
    """Their total bytes by the time from the first start to the last end: with 4 at a time each takes most of
    it."""
    # So many bytes that the first client still sends when the last one, on a busy machine, begins.
    settings = f"children = {children}, loops = 1, repetitions = {BLASTS}"
    found = trial("blast", "closed", settings, processes=processes)
    metrics, figures = found.metrics or {}, figures_of(found.loads)
    rate, elapsed = metrics["gigabits_per_second"], metrics["elapsed_seconds"]
    assert rate is not None and elapsed is not None
    assert figures["payload_bytes"] == 4 * BLASTS * 1500
    began, ended = (
        edge(load.figures[name] for load in found.loads)
        for edge, name in ((min, "payload_began_ns"), (max, "payload_ended_ns"))
    )
    assert ended - began < figures["payload_ns"], "no two were under way at a time"
    assert rate == pytest.approx(figures["payload_bytes"] * 8 / (ended - began))
    assert figures["payload_bytes"] * 8e-9 / rate < elapsed


def test_fields_reports_the_rate_of_its_replies(trial: Trial) -> None:
    settings = 'clients = 2, connections = "kept", duration = "300ms", field_size = 4096'
    found = trial("fields", "closed_threads", settings, service="field_size = 4096")
    metrics, load = found.metrics or {}, found.loads[0]
    assert load.window is not None and load.requests_by_client is not None
    assert sum(load.requests_by_client) == load.window.requests == metrics["requests"]
    elapsed = metrics["elapsed_seconds"]
    assert elapsed == pytest.approx(0.3)
    assert metrics["gigabits_per_second"] == pytest.approx(load.window.requests * 8 * 4096 * 8e-9 / 0.3)
    assert metrics["duration_per_message"] == pytest.approx(0.3 / load.window.requests)


@pytest.mark.parametrize("direction", ["to_server", "to_client"])
def test_a_stream_is_counted_by_its_receiver(trial: Trial, direction: str) -> None:
    settings = f'clients = 2, duration = "300ms", warm_up = "50ms", direction = "{direction}"'
    found = trial("stream", "closed_threads", settings)
    metrics, load = found.metrics or {}, found.loads[0]
    assert load.window is not None and load.window.counted is not None
    measured_by = "bytes_to_server" if direction == "to_server" else "bytes_to_clients"
    assert (load.measured_by, load.window.requests, metrics["requests"]) == (measured_by, 0, 0)
    counted = load.window.counted
    moved = counted.bytes_sent if direction == "to_server" else counted.bytes_received
    rate = metrics["gigabits_per_second"]
    assert rate is not None
    # Both ends have seen the same stream, at moments that are not quite the same.
    assert rate == pytest.approx(moved * 8 / counted.elapsed_ns, rel=0.5)
    calls = {name: metrics[f"{name}_per_second"] for name in ("sends", "receives")}
    assert all(each is not None and each > 0 for each in calls.values()), calls
    own = calls["sends"] if direction == "to_server" else calls["receives"]
    assert own == pytest.approx(
        (counted.send_calls if direction == "to_server" else counted.receive_calls) * 1e9 / counted.elapsed_ns
    )
    if direction == "to_client":
        assert rate == pytest.approx(moved * 8 / counted.elapsed_ns)
    to_server = {"server": "received", "client": "sent"}
    ways = to_server if direction == "to_server" else {"server": "sent", "client": "received"}
    for side, way in ways.items():
        used, passed, cost = (
            metrics[name] for name in (f"{side}_cpu_seconds", f"{side}.bytes_{way}", f"{side}_cpu_per_byte")
        )
        assert used and passed and cost == pytest.approx(used / passed), side


def test_stream_with_a_byte_limit_has_the_rate_of_the_whole_load(trial: Trial) -> None:
    found = trial("stream", "closed", "children = 2, loops = 2, stream_size = 3000000", warm_up=2)
    metrics = found.metrics or {}
    elapsed = metrics["elapsed_seconds"]
    assert elapsed is not None
    assert metrics["gigabits_per_second"] == pytest.approx(12_000_000 * 8e-9 / elapsed)


def test_stalled_stream_has_a_rate_of_zero(trial: Trial) -> None:
    found = trial("stream", "closed_threads", 'clients = 1, duration = "200ms", direction = "to_client"')
    load = found.loads[0]
    assert load.window is not None
    nothing = Counted(elapsed_ns=1, bytes_sent=0, bytes_received=0, send_calls=0, receive_calls=0)
    still = load.model_copy(update={"window": load.window.model_copy(update={"counted": nothing})})
    flow = flow_of([still], None, None)
    assert flow is not None and flow.gigabits == 0


def test_figures_of_several_processes_are_added(trial: Trial) -> None:
    load: LoadResult = trial("blast", "closed", "children = 1, loops = 1, repetitions = 9").loads[0]
    figures = figures_of([load, load])
    assert figures["server_reads"] == 2 * load.figures["server_reads"]
    assert figures["last_server_reads"] == load.figures["last_server_reads"]
    later = load.model_copy(update={"figures": {**load.figures, "payload_ended_ns": 1 << 62}})
    figures = figures_of([later, load])
    assert figures["payload_ended_ns"] == 1 << 62
    assert figures["payload_began_ns"] == load.figures["payload_began_ns"]
