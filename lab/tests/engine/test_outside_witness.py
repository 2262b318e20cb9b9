"""A packet capture on loopback by tshark confirms the results of a load."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from thunderherd.engine.client import Server, catalogue, start_load
from thunderherd.engine.lines import LoadResult
from thunderherd.statistics.histograms import merged

PATIENCE_SECONDS = 60.0
FIELDS = (
    "frame.time_epoch", "tcp.stream", "tcp.dstport", "tcp.flags.syn", "tcp.flags.ack", "tcp.flags.fin",
    "tcp.flags.reset", "tcp.len", "tcp.seq_raw",
)  # fmt: skip

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("tshark", "dumpcap"))), reason="needs tshark: apt-get install tshark"
    ),
]


@dataclass(frozen=True)
class Segment:
    """One TCP segment."""

    at: float
    stream: int
    to_server: bool
    opens: bool
    fin: bool
    reset: bool
    length: int
    sequence: int


@contextmanager
def captured(port: int, into: list[Segment]) -> Iterator[None]:
    """Whatever goes over loopback to and from a port while the block runs."""
    with tempfile.TemporaryDirectory(prefix="thunderherd-witness-") as folder:
        path, said = Path(folder) / "capture.pcapng", Path(folder) / "said"
        command = ["dumpcap", "-q", "-i", "lo", "-f", f"tcp port {port}", "-s", "96", "-w", str(path)]
        with said.open("w") as errors:
            capture = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            begin(capture, path, said)
            yield
            # What was sent last is on its way through the capture's buffer.
            time.sleep(0.5)
        finally:
            capture.send_signal(signal.SIGINT)
            capture.wait(PATIENCE_SECONDS)
        dropped = re.search(r"received/dropped on interface.*?: (\d+)/(\d+)", said.read_text())
        assert dropped, said.read_text()
        if int(dropped[2]):
            pytest.skip(f"the capture has lost {dropped[2]} segments: the machine was not quiet")
        into += dissected(path, port)


def begin(capture: subprocess.Popen[bytes], path: Path, said: Path) -> None:
    """Waits until the capture runs; skips the test where this user may make none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (path.exists() and "File: " in said.read_text()):
        if capture.poll() is not None:
            pytest.skip(f"this user may not capture on loopback: {said.read_text().strip()}")
        assert time.monotonic() < deadline, said.read_text()
        time.sleep(0.02)
    # It prints this before it reads its first packet.
    time.sleep(0.3)


def dissected(path: Path, port: int) -> list[Segment]:
    """The segments of a capture, as tshark's dissector has them, each once."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    found = []
    for line in done.stdout.splitlines():
        at, stream, to, syn, ack, fin, reset, length, sequence = line.split("\t")
        yes = {"1": True, "0": False, "True": True, "False": False}
        found.append(
            Segment(
                at=float(at),
                stream=int(stream),
                to_server=int(to) == port,
                opens=yes[syn] and not yes[ack],
                fin=yes[fin],
                reset=yes[reset],
                length=int(length),
                sequence=int(sequence),
            )
        )
    once = {
        (each.stream, each.to_server, each.sequence, each.length, each.fin, each.reset): each
        for each in found
    }
    return sorted(once.values(), key=lambda each: each.at)


def witnessed(kind: str, **settings: str | int) -> tuple[LoadResult, list[Segment]]:
    """The result of a load of this kind, and its packets."""
    segments: list[Segment] = []
    with Server("epoll", workload="bytes") as server:
        assert server.ready.port is not None
        with captured(server.ready.port, segments):
            load = start_load("bytes", server.ready.address, kind=kind, settings=settings)
            try:
                result = load.wait(PATIENCE_SECONDS)
            finally:
                load.end()
            tally = server.stop().tally
    assert not result.tally.errors, result.first_error
    assert tally.requests == result.tally.requests
    return result, segments


def payload(segments: list[Segment], to_server: bool) -> int:
    """Bytes that went one way."""
    return sum(each.length for each in segments if each.to_server == to_server)


def closers(segments: list[Segment]) -> dict[int, str]:
    """For each connection, the sender and the kind of the first segment that ends it.

    That end holds TIME_WAIT, unless the segment is a reset.
    """
    found: dict[int, str] = {}
    for each in segments:
        if each.fin or each.reset:
            who = "client" if each.to_server else "server"
            found.setdefault(each.stream, f"{'RST' if each.reset else 'FIN'} of the {who}")
    return found


@pytest.mark.parametrize(
    ("closing", "ending"), [("fin", "FIN of the client"), ("reset", "RST of the client")]
)
@pytest.mark.parametrize("back_end", ["epoll", "io_uring"])
def test_packets_confirm_connections_bytes_and_closings_of_the_load(
    closing: str, ending: str, back_end: str
) -> None:
    if back_end == "io_uring":
        (ring,) = (design for design in catalogue().designs if design.name == "io_uring")
        if not ring.available:
            pytest.skip(f"no io_uring here: {ring.reason}")
    result, segments = witnessed(
        "closed_connections", clients=4, loops=25, bytes=3000, connections="per_request",
        closing=closing, back_end=back_end,
    )  # fmt: skip
    assert sum(each.opens for each in segments) == result.tally.connections == 100
    assert payload(segments, to_server=True) == result.tally.bytes_sent == 100 * len("3000\n")
    assert payload(segments, to_server=False) == result.tally.bytes_received == 100 * 3000
    assert sum(each.to_server and each.length > 0 for each in segments) == 100, "a segment for each request"
    ends = closers(segments)
    assert len(ends) == 100 and set(ends.values()) == {ending}
    if closing == "reset":
        assert not any(each.fin and each.to_server for each in segments)


def test_packets_confirm_the_send_times_of_the_load() -> None:
    result, segments = witnessed(
        "open", rate=1000, duration=2_000_000_000, clients=8, connections="kept", bytes=100, wait="spin"
    )
    schedule = result.scheduled
    assert schedule is not None and schedule.gaps is not None and schedule.service_time is not None
    requests = [each for each in segments if each.to_server and each.length]
    assert len(requests) == result.tally.requests == schedule.due == schedule.sent
    assert sum(each.opens for each in segments) == result.tally.connections
    assert payload(segments, to_server=False) == result.tally.bytes_received
    seen = 1e9 * np.diff([each.at for each in requests])
    told = merged([schedule.gaps.histogram or ""])
    assert told.total_count == len(seen)
    # A gap is between two readings of the load's clock, each just before the call that sends.
    assert seen.sum() == pytest.approx(told.get_mean_value() * told.total_count, rel=0.005)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        expected = told.get_value_at_percentile(100 * share)
        assert np.quantile(seen, share) == pytest.approx(expected, rel=0.05, abs=50_000), share
    assert schedule.gap_variation is not None
    assert seen.std() / seen.mean() == pytest.approx(schedule.gap_variation, rel=0.05)


def test_service_times_enclose_those_on_the_wire() -> None:
    """The time from request segment to reply segment is nearly all of the time that the load measures."""
    result, segments = witnessed(
        "open",
        rate=500,
        duration=1_000_000_000,
        clients=4,
        connections="kept",
        bytes=100,
        arrivals="constant",
    )
    assert result.scheduled is not None and result.scheduled.service_time is not None
    asked: dict[int, float] = {}
    seen = []
    for each in segments:
        if each.length and each.to_server:
            asked[each.stream] = each.at
        elif each.length:
            seen.append(1e9 * (each.at - asked.pop(each.stream)))
    assert len(seen) == result.tally.requests
    told = merged([result.scheduled.service_time.histogram or ""])
    for share in (0.25, 0.5, 0.75):
        outside = told.get_value_at_percentile(100 * share) - np.quantile(seen, share)
        # An HdrHistogram of three digits, and the capture's own clock: it may be a little less than nothing.
        assert -5_000 < outside < 500_000, (share, outside)
