"""Outputs of load generators for HTTP: wrk, wrk2, ab, hey, h2load, oha and vegeta.

Patterns begin at the start of a line, or with fixed words, so that any output is read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from thunderherd.engine.outputs.base import (
    TIME,
    LoadGeneratorOutput,
    UnreadableError,
    count,
    found,
    json_object,
    number,
    part,
    sum_of,
    time_of,
)

PERCENTILES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p999"}
OF_WRK2 = {"50.000": "p50", "90.000": "p90", "99.000": "p99", "99.900": "p999"}
OF_OHA = {"p50": "p50", "p90": "p90", "p99": "p99", "p99.9": "p999"}
OF_VEGETA = {"mean": "mean", "50th": "p50", "90th": "p90", "99th": "p99", "max": "maximum"}
GAP = r"[ \t]+"
START = r"^[ \t]*"
"""The start of a line, with spaces. A pattern of any white space would read a blank output line by line."""


def wrk(output: str) -> LoadGeneratorOutput:
    """Read wrk, which prints percentiles with --latency."""
    return _of_wrk(output, PERCENTILES)


def wrk2(output: str) -> LoadGeneratorOutput:
    """Read wrk2, whose latency counts from when a request was due. It prints percentiles with --latency."""
    return replace(_of_wrk(output, OF_WRK2), starts="intended")


def _of_wrk(output: str, percentiles: Mapping[str, str]) -> LoadGeneratorOutput:
    """Read wrk or wrk2, whose rate is more exact than its time."""
    done = found(rf"{START}(\d+) requests in {TIME}", output, "line of requests")
    errors = sum_of(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    errors += sum_of(r"Non-2xx or 3xx responses: (\d+)", output)
    latency = {}
    if line := re.search(rf"{START}Latency{GAP}{TIME}{GAP}[\d.]+\w+{GAP}{TIME}", output, re.MULTILINE):
        latency = {"mean": time_of(line[1], line[2]), "maximum": time_of(line[3], line[4])}
    for share, name in percentiles.items():
        if line := re.search(rf"{START}{re.escape(share)}%{GAP}{TIME}", output, re.MULTILINE):
            latency[name] = time_of(line[1], line[2])
    rate = float(found(rf"^Requests/sec:{GAP}([\d.]+)", output, "rate")[1])
    seconds = int(done[1]) / rate if rate > 0 else time_of(done[2], done[3])
    return LoadGeneratorOutput(int(done[1]), errors, seconds, latency=latency)


def ab(output: str) -> LoadGeneratorOutput:
    """Read ab. Its percentiles have whole milliseconds and are left out; its mean is more exact."""
    seconds = found(rf"^Time taken for tests:{GAP}([\d.]+) seconds", output, "time")
    requests = found(rf"^Complete requests:{GAP}(\d+)", output, "number of requests")
    errors = sum_of(rf"^Failed requests:{GAP}(\d+)", output)
    errors += sum_of(rf"^Non-2xx responses:{GAP}(\d+)", output)
    mean = re.search(rf"^Time per request:{GAP}([\d.]+) \[ms\] \(mean\)$", output, re.MULTILINE)
    received = re.search(rf"^Total transferred:{GAP}(\d+) bytes", output, re.MULTILINE)
    return LoadGeneratorOutput(
        int(requests[1]),
        errors,
        float(seconds[1]),
        bytes=int(received[1]) if received else None,
        latency={"mean": float(mean[1]) / 1e3} if mean else {},
    )


def hey(output: str) -> LoadGeneratorOutput:
    """Read hey. Its latencies are rounded to 100 microseconds, so only the maximum is kept."""
    seconds = found(rf"{START}Total:{GAP}([\d.]+) secs", output, "time")
    every = re.findall(rf"{START}\[(\d+)\]{GAP}(\d+) responses", output, re.MULTILINE)
    if not every:
        raise UnreadableError("no responses")
    errors = sum(int(times) for status, times in every if not status.startswith("2"))
    _, _, failed = output.partition("Error distribution:")
    errors += sum_of(rf"{START}\[(\d+)\][ \t]", failed)
    slowest = re.search(rf"{START}Slowest:{GAP}([\d.]+) secs", output, re.MULTILINE)
    requests = sum(int(times) for status, times in every if status.startswith("2"))
    return LoadGeneratorOutput(
        requests, errors, float(seconds[1]), latency={"maximum": float(slowest[1])} if slowest else {}
    )


def h2load(output: str) -> LoadGeneratorOutput:
    """Read h2load, which reports no percentiles."""
    ended = found(rf"^finished in {TIME}, ([\d.]+) req/s", output, "time")
    counts = found(
        r"^requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, "
        r"\d+ errored, \d+ timeout",
        output,
        "number of requests",
    )
    received = re.search(r"^traffic: \S+ \((\d+)\) total", output, re.MULTILINE)
    times = re.search(rf"^time for request:{GAP}{TIME}{GAP}{TIME}{GAP}{TIME}", output, re.MULTILINE)
    # The rate of a timed run leaves out the time of connecting.
    done, rate = int(counts[1]), float(ended[3])
    return LoadGeneratorOutput(
        int(counts[2]),
        int(counts[3]),
        done / rate if rate > 0 else time_of(ended[1], ended[2]),
        bytes=int(received[1]) if received else None,
        latency={"maximum": time_of(times[3], times[4]), "mean": time_of(times[5], times[6])}
        if times
        else {},
    )


AT_DEADLINE = "aborted due to deadline"
"""oha's name for requests in flight at the end of a timed run, which are no errors."""


def oha(output: str) -> LoadGeneratorOutput:
    """Read oha's --output-format json. It counts bytes of bodies only, which are left out."""
    read = json_object(output)
    summary, percentiles = part(read, "summary"), part(read, "latencyPercentiles")
    requests, errors = _by_status(part(read, "statusCodeDistribution"))
    failed = part(read, "errorDistribution")
    errors += sum(count(failed, why) for why in failed if why != AT_DEADLINE)
    times = {"mean": summary.get("average"), "maximum": summary.get("slowest")}
    times |= {name: percentiles.get(key) for key, name in OF_OHA.items()}
    known = {name: value for name, value in times.items() if value is not None}
    return LoadGeneratorOutput(
        requests,
        errors,
        number(summary, "total"),
        latency={name: number(known, name) for name in known},
    )


def vegeta(output: str) -> LoadGeneratorOutput:
    """Read `vegeta report -type=json`. It counts bytes of bodies only, which are left out."""
    read = json_object(output)
    times = part(read, "latencies")
    requests, errors = _by_status(part(read, "status_codes"))
    return LoadGeneratorOutput(
        requests,
        errors,
        (number(read, "duration") + number(read, "wait")) / 1e9,
        latency={name: number(times, key) / 1e9 for key, name in OF_VEGETA.items() if key in times},
    )


def _by_status(replies: Mapping[str, object]) -> tuple[int, int]:
    """Return the number of replies with a status of success, and of all others."""
    requests = sum(count(replies, status) for status in replies if status.startswith("2"))
    return requests, sum(count(replies, status) for status in replies) - requests
