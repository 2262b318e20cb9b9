"""Trials in which neither the server nor the load is ours."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from made.small_studies import one_block

from thunderherd.engine import client
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.trial import run_trial

STAY = Path(__file__).resolve().parents[2] / "thunderherd/studies/peers/stay.sh"
"""What keeps the contract of a server for programs that do not."""

ONE_TEST = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    print("listens", flush=True)
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass
    print("one test is over")
    sys.exit(STATUS)
"""
"""A server that takes its first connection for its client's, and ends after it."""
POLLS = """
import contextlib, socket, sys
listener, held = socket.create_server(("127.0.0.1", int(sys.argv[1]))), []
listener.setblocking(False)
print("listens", flush=True)
while True:
    with contextlib.suppress(BlockingIOError):
        held.append(listener.accept()[0])
        held[-1].setblocking(False)
    for each in held:
        with contextlib.suppress(BlockingIOError):
            each.recv(65536)
"""
"""A server that never sleeps."""
SENDER = """
import json, socket, sys, time
connection, sent, began = socket.create_connection((sys.argv[1], int(sys.argv[2]))), 0, time.monotonic()
while time.monotonic() - began < float(sys.argv[3]):
    sent += connection.send(bytes(1000))
line = {"errors": 0, "seconds": time.monotonic() - began, "bytes": sent, "direction": "to_server"}
print(json.dumps(line | MORE))
"""
SETTINGS = 'clients = 1, duration = "DURATION"'
STUDY = (
    one_block(
        "pair",
        workload="stream",
        kind="closed_threads",
        settings=SETTINGS,
        metric="gigabits_per_second",
    )
    + """\
[[contenders]]
name = "pair"
command = SERVER
READY
[contenders.load]
command = CLIENT
parser = "PARSER"
"""
)

pytestmark = pytest.mark.usefixtures("use_engine")


def study(
    directory: Path,
    server: list[str],
    load: list[str],
    parser: str = "json",
    *,
    ready: str | None = None,
    duration: str = "200ms",
) -> Study:
    path = directory / "pair.toml"
    text = STUDY.replace("SERVER", json.dumps(server)).replace("CLIENT", json.dumps(load))
    text = text.replace("PARSER", parser).replace("DURATION", duration)
    path.write_text(text.replace("READY", f"ready_line = {json.dumps(ready)}" if ready else ""))
    return load_study(str(path), "quick", (), client.catalogue())


def run(made: Study) -> TrialRecord:
    return run_trial(made, made.contenders[0], block=1, position=1, seed=1)


def one_test(directory: Path, *, status: int = 0, stays: bool = True) -> list[str]:
    (directory / "server.py").write_text(ONE_TEST.replace("STATUS", str(status)))
    return [*(["sh", str(STAY)] if stays else []), sys.executable, "server.py", "{port}"]


def sender(directory: Path, more: dict[str, object] | None = None) -> list[str]:
    (directory / "client.py").write_text(SENDER.replace("MORE", repr(more or {})))
    return [sys.executable, "client.py", "{host}", "{port}", "{duration}"]


@pytest.mark.parametrize("status", [0, 1])
def test_a_stream_between_programs_of_others_has_a_rate_and_a_cost(status: int, tmp_path: Path) -> None:
    made = study(tmp_path, one_test(tmp_path, status=status), sender(tmp_path), ready="listens")
    found = run(made)
    assert found.valid, found.invalid_reasons
    (load,), metrics = found.loads, found.metrics or {}
    assert load.measured_by == "bytes_to_server" and load.tally.bytes_sent > 0
    rate = load.tally.bytes_sent * 8 / load.elapsed_ns
    assert metrics["gigabits_per_second"] == pytest.approx(rate)
    assert metrics["server_cpu_per_byte"] == pytest.approx(
        metrics["server_cpu_seconds"] / load.tally.bytes_sent  # type: ignore[operator]
    )
    absent = (
        "requests",
        "requests_per_second",
        "connections",
        "latency_p50_seconds",
        "server_cpu_per_request",
    )
    assert [metrics[name] for name in absent] == [None] * len(absent)
    (shown,) = summarise(made, [found], {}, seed=1).contenders
    assert {name: shown.unknown.get(name, "").partition(" ")[0] for name in absent} == dict.fromkeys(
        absent, "json"
    )


def test_the_notes_say_that_nothing_is_checked(tmp_path: Path) -> None:
    made = study(tmp_path, one_test(tmp_path), sender(tmp_path), ready="listens")
    notes = summarise(made, [run(made)], {}, seed=1).study.notes
    assert len([note for note in notes if "neither end" in note and note.endswith(" pair")]) == 1
    assert not [note for note in notes if "only the clients' counts" in note]


def test_the_cpu_time_of_a_server_that_busy_polls_is_unknown(tmp_path: Path) -> None:
    """It would include polling before and after the load, which cannot be separated."""
    (tmp_path / "server.py").write_text(POLLS)
    made = study(tmp_path, [sys.executable, "server.py", "{port}"], sender(tmp_path), ready="listens")
    # It is told by half of a CPU, which a busy machine may not give it.
    for _ in range(15):
        found = run(made)
        if found.ready and found.ready.spins:
            break
    assert found.valid and found.ready and found.ready.spins, found.invalid_reasons
    metrics = found.metrics or {}
    assert metrics["server_cpu_per_byte"] is metrics["server_cpu_seconds"] is None
    assert metrics["gigabits_per_second"] and metrics["client_cpu_per_byte"]
    (shown,) = summarise(made, [found], {}, seed=1).contenders
    assert "busy-polls" in shown.unknown["server_cpu_per_byte"]


@pytest.mark.parametrize("ready", ["listens", None], ids=["its line", "its socket"])
def test_readiness_takes_no_connection(ready: str | None, tmp_path: Path) -> None:
    """The server takes its first connection for its client's."""
    found = run(study(tmp_path, one_test(tmp_path), sender(tmp_path), ready=ready))
    assert found.valid, found.invalid_reasons


def test_a_server_that_ends_after_one_test_breaks_the_contract(tmp_path: Path) -> None:
    found = run(study(tmp_path, one_test(tmp_path, stays=False), sender(tmp_path), ready="listens"))
    assert not found.valid and "one test is over" in " ".join(found.invalid_reasons)


@pytest.mark.parametrize(
    "more", [{"bytes": 0}, {"bytes": -1}, {"direction": "up"}, {"errors": 3}, {"seconds": 0}]
)
def test_a_load_that_moves_nothing_or_fails_makes_its_trial_invalid(
    more: dict[str, object], tmp_path: Path
) -> None:
    found = run(study(tmp_path, one_test(tmp_path), sender(tmp_path, more), ready="listens"))
    assert not found.valid


IPERF3 = (
    ["sh", str(STAY), "iperf3", "-s", "-1", "--forceflush", "-B", "{host}", "-p", "{port}"],
    ["iperf3", "-c", "{host}", "-p", "{port}", "-t", "{duration}", "-J"],
)
NETPERF = (
    ["netserver", "-D", "-4", "-L", "{host}", "-p", "{port}"],
    ["netperf", "-4", "-H", "{host}", "-p", "{port}", "-l", "{duration}", "-t"],
)
NETPERF_KEYS = "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,DIRECTION,MEAN_LATENCY,MAX_LATENCY"
SOCKPERF = ["--tcp", "-i", "{host}", "-p", "{port}"]
TOOLS: dict[str, tuple[list[str], list[str], str]] = {
    "iperf3": (*IPERF3, "Server listening"),
    "iperf3 -R": (IPERF3[0], [*IPERF3[1], "-R"], "Server listening"),
    "netperf TCP_STREAM": (NETPERF[0], [*NETPERF[1], "TCP_STREAM", "--", "-k", NETPERF_KEYS], ""),
    "netperf TCP_RR": (NETPERF[0], [*NETPERF[1], "TCP_RR", "--", "-D", "-k", NETPERF_KEYS], ""),
    "sockperf ping-pong": (
        ["sockperf", "server", *SOCKPERF],
        ["sockperf", "ping-pong", *SOCKPERF, "-t", "{duration}", "--full-rtt"],
        "",
    ),
    "sockperf throughput": (
        ["sockperf", "server", *SOCKPERF],
        ["sockperf", "throughput", *SOCKPERF, "-t", "{duration}", "-m", "1024"],
        "",
    ),
}
REQUESTS = ("netperf TCP_RR", "sockperf ping-pong")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_measures_its_own_server(tool: str, tmp_path: Path) -> None:
    server, load, ready = TOOLS[tool]
    if shutil.which(load[0]) is None:
        pytest.skip(f"{load[0]} is not installed")
    found = run(study(tmp_path, server, load, load[0], ready=ready, duration="1s"))
    assert found.valid, found.invalid_reasons
    metrics = found.metrics or {}
    of_requests, of_bytes = metrics["requests_per_second"], metrics["gigabits_per_second"]
    assert (of_requests or 0) > 0 if tool in REQUESTS else of_requests is None
    assert of_bytes is None if tool in REQUESTS else (of_bytes or 0) > 0
    assert (metrics["server_cpu_seconds"] or 0) > 0
    assert (found.loads[0].latency is not None) == (tool in REQUESTS)
