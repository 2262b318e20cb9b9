"""Outputs of programs that measure sockets, by a stream or by transactions: iperf3, netperf, neper, sockperf.

Each reports a rate and a time, and their product is the amount. Patterns begin at the start of a line, so
that any output is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from thunderherd.engine.outputs.base import (
    Direction,
    LoadGeneratorOutput,
    UnreadableError,
    count,
    found,
    json_object,
    number,
    part,
)

BITS = 8


def iperf3(output: str) -> LoadGeneratorOutput:
    """Read `iperf3 -J`: the bytes that the receiving end counted, of all streams together."""
    read = json_object(output)
    if "error" in read:
        raise UnreadableError("an error of iperf3")
    test = part(part(read, "start"), "test_start")
    end = part(read, "end")
    if test.get("protocol") != "TCP":
        raise UnreadableError("no TCP test")
    if any("bidir" in name for name in end):
        raise UnreadableError("no single direction")
    received = part(end, "sum_received")
    direction: Direction = "to_clients" if count(test, "reverse") else "to_server"
    return LoadGeneratorOutput(
        None, 0, number(received, "seconds"), bytes=count(received, "bytes"), direction=direction
    )


DIRECTIONS: Mapping[str, Direction] = {"Send": "to_server", "Receive": "to_clients"}
"""netperf's directions of a stream. In transactions both ends send."""
TRANSACTIONS, MEGABITS = "Trans/s", "10^6bits/s"


def netperf(output: str) -> LoadGeneratorOutput:
    """Read netperf with `-k`: rate, time, and mean and maximum latency of transactions.

    Its percentiles are whole microseconds, which are left out.
    """
    read = _keys(output)
    rate, seconds = _known(read, "THROUGHPUT"), _known(read, "ELAPSED_TIME")
    unit, direction = read.get("THROUGHPUT_UNITS"), read.get("DIRECTION", "")
    if unit == TRANSACTIONS:
        times = {"mean": "MEAN_LATENCY", "maximum": "MAX_LATENCY"}
        latency = {name: _known(read, key) / 1e6 for name, key in times.items() if key in read}
        return LoadGeneratorOutput(round(rate * seconds), 0, seconds, latency=latency)
    if unit != MEGABITS or direction not in DIRECTIONS:
        raise UnreadableError(f"neither {TRANSACTIONS} nor {MEGABITS} in one direction")
    amount = round(rate * 1e6 * seconds / BITS)
    return LoadGeneratorOutput(None, 0, seconds, bytes=amount, direction=DIRECTIONS[direction])


OF_NEPER = {"latency_mean": "mean", "latency_max": "maximum"}
PERCENTILES = {"latency_p50": "p50", "latency_p90": "p90", "latency_p99": "p99", "latency_p99.9": "p999"}


def neper(output: str) -> LoadGeneratorOutput:
    """Read a client of neper: transactions, or the rate at which its server received a stream.

    neper's rate of transactions leaves out the start, so the time is that of as many at this rate. It prints
    the percentiles that -p names.
    """
    read = _keys(output)
    if "num_transactions" not in read:
        seconds = _known(read, "total_run_time")
        amount = round(_known(read, "remote_throughput") * seconds / BITS)
        return LoadGeneratorOutput(None, 0, seconds, bytes=amount, direction="to_server")
    requests, rate = int(_known(read, "num_transactions")), _known(read, "throughput")
    if not rate:
        raise UnreadableError("no throughput")
    times = {name: _known(read, key) for key, name in (OF_NEPER | PERCENTILES).items() if key in read}
    return LoadGeneratorOutput(requests, 0, requests / rate, latency=times)


def _keys(output: str) -> dict[str, str]:
    """Return the lines KEY=VALUE of an output."""
    lines = (line.partition("=") for line in output.splitlines())
    return {key.strip(): value.strip() for key, equals, value in lines if equals}


def _known(read: Mapping[str, str], key: str) -> float:
    """Return the number of a line; raise `UnreadableError` if there is none."""
    if key not in read:
        raise UnreadableError(f"no line {key}")
    return float(read[key])


SOCKPERF = r"^sockperf: (?:\x1b\[[0-9;]*m)?"
"""The start of a line of sockperf, which may be coloured."""
OF_SOCKPERF = {
    r"percentile 50\.000": "p50",
    r"percentile 90\.000": "p90",
    r"percentile 99\.000": "p99",
    r"percentile 99\.900": "p999",
    "<MAX> observation": "maximum",
}
MEBIBYTE = 1 << 20


def sockperf(output: str) -> LoadGeneratorOutput:
    """Read sockperf: ping-pong and its relatives, or throughput, whose messages are a stream.

    The rate is that of sockperf's valid duration, without its warm-up. Without --full-rtt sockperf reports
    half of each round trip; the latency here is the whole.
    """
    if stream := re.search(rf"{SOCKPERF}Summary: BandWidth is ([\d.]+) MBps ", output, re.MULTILINE):
        ended = found(rf"{SOCKPERF}Total of \d+ messages sent in ([\d.]+) sec", output, "number of messages")
        amount = round(float(stream[1]) * MEBIBYTE * float(ended[1]))
        return LoadGeneratorOutput(None, 0, float(ended[1]), bytes=amount, direction="to_server")
    runs = [
        found(
            rf"{SOCKPERF}\[{name}\] RunTime=([\d.]+) sec;.* ReceivedMessages=(\d+)$",
            output,
            f"line of {name}",
        )
        for name in ("Total Run", "Valid Duration")
    ]
    (_, requests), (seconds, valid) = ((float(run[1]), int(run[2])) for run in runs)
    lost = found(
        rf"{SOCKPERF}# dropped messages = (\d+); # duplicated messages = (\d+); "
        r"# out-of-order messages = (\d+)",
        output,
        "number of dropped messages",
    )
    mean = found(rf"{SOCKPERF}Summary: (Round trip|Latency) is ([\d.]+) usec", output, "mean of the latency")
    if not valid or not seconds:
        raise UnreadableError("no message in the valid duration")
    factor = (1 if mean[1] == "Round trip" else 2) / 1e6
    latency = {"mean": float(mean[2]) * factor}
    for words, name in OF_SOCKPERF.items():
        if line := re.search(rf"{SOCKPERF}---> {words} =[ \t]+([\d.]+)$", output, re.MULTILINE):
            latency[name] = float(line[1]) * factor
    errors = sum(int(each) for each in lost.groups())
    return LoadGeneratorOutput(requests, errors, requests * seconds / valid, latency=latency)
