"""Comparison with other tools: parsing of their real output, and the choice of forms in separate rounds."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from started import BENCH, bench, in_a_place

import round_trips
import streams
from common import processes_of, until_done
from compare import contest, http_tools, peers, places
from compare.contest import Comparison, Seen, held
from thunderherd.engine.catalogue import Catalogue, Primitive
from thunderherd.engine.client import EngineError
from thunderherd.engine.lines import Tally
from thunderherd.labs import USUAL

SAID = Path(__file__).with_name("data") / "peers"
"""What the tools have said: iperf 3.12, netperf 2.7.0, neper 1.1.0, sockperf 3.7, wrk 4.1.0, hey 0.1.4,
h2load 1.52.0, netbench of October 2022."""


READERS = [
    peers.iperf3_bits,
    peers.netperf_figure,
    peers.neper_throughput,
    peers.sockperf_seconds,
    peers.netbench_requests,
    *(tool.parsed for tool in http_tools.TOOLS),
]


def said(name: str) -> str:
    return (SAID / name).read_text()


def test_figures_are_parsed_from_the_output_of_tools() -> None:
    assert peers.iperf3_bits(said("iperf3.json")) == pytest.approx(8.922000e9, rel=1e-5)
    assert peers.netperf_figure(said("netperf_stream.txt")) == 8352.48
    # The first line has the figure, a second the sizes of the other end's buffers.
    assert peers.netperf_figure(said("netperf_round_trips.txt")) == 25223.55
    assert peers.neper_throughput(said("neper_stream.txt")) == 7343.06
    assert peers.neper_throughput(said("neper_round_trips.txt")) == 1615.05
    assert peers.sockperf_seconds(said("sockperf.txt")) == pytest.approx(40.996e-6)
    assert peers.netbench_requests(said("netbench.txt")) == 29443


@pytest.mark.parametrize(
    ("tool", "requests", "per_second"),
    [
        (http_tools.WRK, 25027, 24689.57),
        (http_tools.HEY, 6849, 6679.0422),
        (http_tools.H2LOAD, 17776, 17776.0),
    ],
)
def test_requests_and_rate_are_parsed_from_the_output_of_http_tools(
    tool: http_tools.Tool, requests: int, per_second: float
) -> None:
    assert tool.parsed(said(f"{tool.name}.txt")) == http_tools.ToolResult(requests, per_second)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (http_tools.WRK, "Socket errors: connect 0, read 1, write 0, timeout 0"),
        (http_tools.WRK, "Non-2xx or 3xx responses: 7"),
        (http_tools.HEY, "[404]\t40 responses"),
        (http_tools.HEY, said("hey_errors.txt")),
        (http_tools.H2LOAD, said("h2load_errors.txt")),
    ],
)
def test_a_run_with_errors_has_no_figure(tool: http_tools.Tool, words: str) -> None:
    with pytest.raises(EngineError, match="errors"):
        tool.parsed(said(f"{tool.name}.txt") + words)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("text", ["", "\n", "{}", '{"error": "unable to connect"}', "nothing of use"])
def test_output_without_a_figure_is_an_error(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(EngineError):
        read(text)


def test_runs_that_choose_a_form_are_not_judged() -> None:
    # By luck `lucky` is the better one while it is chosen, and not afterwards.
    figures = {"lucky": ([9.0, 9.0], 4.0), "steady": ([8.0, 8.0], 8.0), "peer": ([5.0, 5.0], 5.0)}
    asked: list[tuple[str, bool]] = []

    def run(name: str, choosing: bool) -> Seen:
        asked.append((name, choosing))
        return Seen(figures[name][0][0] if choosing else figures[name][1])

    seen = held([Comparison("all", ("lucky", "steady"), ("peer",))], run, 2, 6, "a cell")
    [outcome] = seen.outcomes
    assert (outcome.ours, outcome.peer) == ("lucky", "peer")
    assert seen.values("lucky") == [4.0] * 6
    assert seen.compared("lucky", "peer") == "0.80 (0.80..0.80)"
    assert sum(choosing for _, choosing in asked) == 6
    # A form that was not chosen is not measured again.
    assert [name for name, choosing in asked if not choosing].count("steady") == 0
    assert not seen.failed


def test_ratio_uses_the_rounds_that_have_both() -> None:
    # Every round is twice as fast as the one before; in the third one the peer fails, and fails again.
    coming = {"ours": [3, 6, 12, 24, 48, 96, 192], "peer": [1, 2, None, None, 8, 16, 32, 64]}

    def run(name: str, choosing: bool) -> Seen:
        value = 1 if choosing else coming[name].pop(0)
        if value is None:
            raise EngineError("disturbed")
        return Seen(value)

    seen = held([Comparison("all", ("ours",), ("peer",))], run, 1, 7, "a cell")
    assert len(seen.values("ours")) == 7 and len(seen.values("peer")) == 6
    assert seen.compared("ours", "peer") == "3.00 (3.00..3.00)"
    assert seen.failed == {"peer": "disturbed"}


def test_a_form_that_fails_is_not_chosen_and_has_its_reason() -> None:
    asked = []

    def run(name: str, choosing: bool) -> Seen:
        asked.append(name)
        if name.startswith("broken"):
            raise EngineError(f"{name}: no pipe")
        return Seen(1.0, copied=0.5)

    compared = [
        Comparison("one", ("broken", "sound"), ("peer",)),
        Comparison("other", ("sound",), ("broken peer",)),
    ]
    seen = held(compared, run, 3, 2, "a cell")
    assert [(each.ours, each.peer) for each in seen.outcomes] == [("sound", "peer"), ("sound", None)]
    assert [bool(each.why_alone) for each in seen.outcomes] == [False, True]
    assert seen.failed == {name: f"{name}: no pipe" for name in ("broken", "broken peer")}
    assert asked.count("broken") == contest.ATTEMPTS
    assert seen.copied("sound") == 0.5 and seen.copied("broken") is None
    assert seen.compared("sound", "broken peer") == "-" and seen.figure("broken peer", 1, 0) == "-"


@pytest.mark.usefixtures("use_engine")
def test_streams_are_compared_with_peers_of_the_same_kind() -> None:
    compared = {each.name: each for each in streams.comparisons(streams.OURS, peers.STREAMS)}
    assert list(compared) == [streams.EACH, streams.COPYING, streams.DISCARDING, streams.ALL]
    assert compared[streams.EACH].ours == ("send_each → recv",)
    assert compared[streams.EACH].peers == ("iperf3", "netperf", "neper")
    discarding = compared[streams.DISCARDING]
    assert {name.partition(" → ")[2] for name in discarding.ours} == {
        "recv_truncate",
        "recv_zerocopy",
        "busy_poll_truncate",
    }
    assert discarding.peers == ("iperf3 --skip-rx-copy", "neper --skip-rx-copy")
    assert not {*discarding.ours, *discarding.peers} & {
        *compared[streams.COPYING].ours,
        *compared[streams.COPYING].peers,
    }
    assert {*compared[streams.ALL].ours} == {form.name for form in streams.OURS}
    # We are compared with nothing where no peer is installed, and no peer is where we have nothing.
    only = [peer for peer in peers.STREAMS if not peer.discards]
    alone = {each.name: each for each in streams.comparisons(streams.OURS, only)}
    assert alone[streams.DISCARDING].ours == discarding.ours and alone[streams.DISCARDING].peers == ()
    copying = [form for form in streams.OURS if not form.discards]
    assert streams.DISCARDING not in [each.name for each in streams.comparisons(copying, peers.STREAMS)]


def test_discarding_receivers_come_from_the_catalogue(
    monkeypatch: pytest.MonkeyPatch, some_catalogue: Catalogue
) -> None:
    further = Primitive(name="recv_elsewhere", summary="a further one", moves="in", stores=False)
    found = some_catalogue.model_copy(update={"primitives": (*some_catalogue.primitives, further)})
    monkeypatch.setattr(streams, "catalogue", lambda: found)
    form = streams.Form("send_each", further.name)
    assert form.discards and not streams.Form("send_each").discards
    earlier = Tally(
        connections=1, closed=0, requests=0, bytes_received=100, bytes_sent=0, bytes_not_copied=90,
        receive_calls=0, send_calls=0, completions=0, completions_copied=0, empty_wakeups=0, workers_lost=0,
        workers_replaced=0,
    )  # fmt: skip
    later = earlier.model_copy(update={"bytes_received": 300, "bytes_not_copied": 140})
    assert streams.copied_share(form, earlier, later, earlier) == pytest.approx(0.75)
    assert streams.copied_share(streams.Form("send_each"), earlier, later, earlier) is None


def test_names_of_forms_are_unique() -> None:
    for names in (
        [form.name for form in streams.OURS] + [peer.name for peer in peers.STREAMS],
        [
            round_trips.labelled(kind, each.name)
            for kind, sides in round_trips.KINDS.items()
            for side in sides
            for each in side
        ],
    ):
        assert len(set(names)) == len(names)


def test_sizes_have_their_usual_names() -> None:
    assert [streams.words(size) for size in (*streams.SIZES, 1500)] == [
        "64 B",
        "1 KiB",
        "16 KiB",
        "128 KiB",
        "1 MiB",
        "1500 B",
    ]


def test_figure_of_a_peer_on_each_cpu_is_the_sum_of_its_runs() -> None:
    """Its sides are together on each CPU, with a share of the connections; the runs overlap."""
    server, client = places.Side((2,), "/ns/a", ("in", "a")), places.Side((5,), "/ns/b", ("in", "b"))
    where = places.Place("veth", "veth", "10.0.0.1", server, client, "reno")
    seen: list[peers.Run] = []
    both_there = threading.Barrier(2, timeout=10)

    def run(given: peers.Run) -> float:
        both_there.wait()
        seen.append(given)
        return float(given.place.server.cpus[0])

    peer = peers.on_each_cpu(peers.Peer("a peer", "true", "", run))
    assert peer.name.startswith("a peer ") and peer.name.endswith(" CPU")
    assert peer.run(peers.Run(where, 64, 1, "reno", flows=64)) == 7.0
    assert sorted(each.place.server.cpus for each in seen) == [(2,), (5,)]
    for each in seen:
        assert each.place.server.cpus == each.place.client.cpus and each.flows == 32
        assert (each.place.server.namespace, each.place.client.enter) == ("/ns/a", ("in", "b"))


def test_a_missing_tool_is_listed_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("THUNDERHERD_PEERS", raising=False)
    missing = peers.missing([peer for peer in peers.STREAMS if peer.program == "tcp_stream"])
    assert [(line.split()[0], line.partition(": ")[2]) for line in missing] == [("tcp_stream", peers.NEPER)]


def test_a_peer_is_found_where_it_was_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "tcp_stream"
    program.write_text("#!/bin/sh\necho --no-such\n")
    program.chmod(0o755)
    monkeypatch.setenv("THUNDERHERD_PEERS", str(tmp_path))
    assert peers.found("tcp_stream") == str(program)
    [skipping] = [peer for peer in peers.STREAMS if peer.name == "neper --skip-rx-copy"]
    lacking = skipping.missing() or ""
    assert "tcp_stream" in lacking and "--skip-rx-copy" in lacking


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("name", places.NAMES)
def test_server_of_a_peer_runs_in_its_place_and_ends_with_its_run(name: str, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import os, socket, sys, time\n"
        "if os.fork():\n"
        "    listener = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
        "time.sleep(60)\n"
    )
    with in_a_place(name) as where:
        port = places.free_port()
        run = peers.Run(where, 1, 1, "reno")
        command = [sys.executable, str(program), where.address, str(port)]
        with peers.server(command, port, run):
            [group] = [
                int(folder.name)
                for folder in Path("/proc").glob("[0-9]*")
                if str(program).encode() in cmdline(folder)
                and os.getpgid(int(folder.name)) == int(folder.name)
            ]
            assert os.sched_getaffinity(group) == set(where.server.cpus)
            mine = Path(f"/proc/{group}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
            assert mine != places.has_namespaces(name)
        assert not [folder for folder in processes_of(group) if lives(folder)]


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("name", places.NAMES)
def test_server_of_a_peer_dies_with_its_parent(name: str, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(
        "import socket, sys, time\n"
        "listener = socket.create_server((sys.argv[1], int(sys.argv[2])))\n"
        "time.sleep(600)\n"
    )
    bench = f"""
import sys, time
sys.path.insert(0, {str(BENCH)!r})
from compare import peers, places
with places.place({name!r}, "reno") as where:
    port = places.free_port()
    command = [sys.executable, {str(program)!r}, where.address, str(port)]
    with peers.server(command, port, peers.Run(where, 1, 1, "reno")):
        print("listens", flush=True)
        time.sleep(60)
"""
    with in_a_place(name):
        pass
    with subprocess.Popen([sys.executable, "-c", bench], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "listens\n"

        def servers() -> list[Path]:
            found = [each for each in Path("/proc").glob("[0-9]*") if str(program).encode() in cmdline(each)]
            return [each for each in found if int(each.name) != parent.pid and lives(each)]

        assert servers()
        parent.kill()
    for _ in until_done(10):
        if not servers():
            break
    left = servers()
    for each in left:
        os.kill(int(each.name), signal.SIGKILL)
    assert not left


def lives(folder: Path) -> bool:
    """Not yet waited for, but dead, is whose parent has died before it."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def cmdline(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_failing_tool_raises_an_error_with_its_output() -> None:
    side = places.Side(tuple(sorted(os.sched_getaffinity(0)))[:1])
    where = places.Place("loopback", "loopback", "127.0.0.1", side, side, "reno")
    run = peers.Run(where, 1, 1, "reno")
    with pytest.raises(EngineError, match=r"\b3: no luck"):
        peers.client(["sh", "-c", "echo no luck; exit 3"], run)
    with (
        pytest.raises(EngineError, match="no luck"),
        peers.server(["sh", "-c", "echo no luck"], places.free_port(), run),
    ):
        pass
    with pytest.raises(EngineError, match="no_such_tool"):
        peers.client(["no_such_tool"], run)
    command = ["sh", "-c", "echo here; echo there >&2"]
    assert peers.client(command, run) == "here\n"
    assert peers.client(command, run, reports_on_stderr=True) == "there\n"


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("form", streams.OURS, ids=lambda form: form.name)
def test_every_form_of_the_engine_moves_bytes(form: streams.Form) -> None:
    if form not in streams.our_forms(1 << 20):
        pytest.skip("not on this machine")
    with in_a_place(USUAL.name) as where:
        seen = streams.ours(form, where, 16 << 10, 300, "reno")
        assert seen.value > 0
        assert (seen.copied is not None) == (form.primitive == "zerocopy" or form.discards)


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.skipif(shutil.which("iperf3") is None, reason=f"needs iperf3: {peers.IPERF3}")
def test_streams_benchmark_prints_a_row_per_comparison() -> None:
    words = ("--congestion", "reno", "--choosing", "1", "--judging", "1", "--duration", "50ms")
    printed = bench("streams", "16384", "--places", "loopback", *words)
    assert "bench: about " in printed and ", loopback, reno" in printed
    for name in (streams.EACH, streams.COPYING, streams.ALL):
        [row] = [line for line in printed.splitlines() if line.strip().startswith(f"16 KiB  {name}")]
        assert "→" in row or "could not" in row, printed


@pytest.fixture
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other tool that measures sockets is installed."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("THUNDERHERD_PEERS", raising=False)
    if any(peer.missing() is None for peer in (*peers.STREAMS, *peers.BLOCKING, *peers.SPINNING)):
        pytest.skip("there are peers in the administrator's folders, too")


BRIEFLY = ("--congestion", "reno", "--choosing", "1", "--judging", "1", "--duration", "50ms")


@pytest.mark.usefixtures("use_engine", "no_peers")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_round_trips_of_the_engine_are_shown_without_peers() -> None:
    printed = bench("round_trips", *BRIEFLY, "--places", "loopback")
    for kind in (*round_trips.KINDS, round_trips.AGAINST_SLEEPING):
        [row] = [line for line in printed.splitlines() if line.startswith(kind + " ")]
        assert re.search(r"(send|write)_each, \w+ +[\d,]+ +- +- +-  no peer ", row), printed
    assert re.search(rf"^missing: sockperf .*: {re.escape(peers.SOCKPERF)}$", printed, re.MULTILINE)


@pytest.mark.usefixtures("use_engine", "no_peers")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_streams_of_the_engine_are_shown_without_peers() -> None:
    printed = bench("streams", "1024", *BRIEFLY, "--places", "loopback")
    for name in (streams.EACH, streams.COPYING, streams.DISCARDING, streams.ALL):
        [row] = [line for line in printed.splitlines() if line.strip().startswith(f"1 KiB  {name} ")]
        assert re.search(r" → \w+.* [\d.]+ +- +- +-  no peer ", row), printed
    assert re.search(rf"^missing: iperf3 .*: {re.escape(peers.IPERF3)}$", printed, re.MULTILINE)


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.skipif(
    not any(peer.missing() is None for peer in peers.BLOCKING), reason="needs netperf, neper or sockperf"
)
def test_round_trips_benchmark_prints_a_row_per_kind() -> None:
    words = ("--congestion", "reno", "--choosing", "1", "--judging", "1", "--duration", "50ms")
    printed = bench("round_trips", *words)
    for kind in (*round_trips.KINDS, round_trips.AGAINST_SLEEPING):
        assert any(line.startswith(kind + " ") for line in printed.splitlines()), printed


def test_the_estimated_duration_grows_with_the_number_of_places() -> None:
    parser = argparse.ArgumentParser()
    round_trips.options(parser)
    once, twice = (
        round_trips.seconds(parser.parse_args(["--places", *given]))
        for given in (["loopback"], ["loopback", "veth"])
    )
    assert twice == pytest.approx(2 * once) and once > 0
