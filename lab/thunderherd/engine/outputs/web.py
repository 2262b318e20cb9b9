"""Outputs of load generators for HTTP: wrk, ab, hey and h2load.

Patterns begin at the start of a line, or with fixed words, so that any output is read in linear time.
"""

from __future__ import annotations

import re

from thunderherd.engine.outputs.base import (
    TIME,
    ClientOutput,
    UnreadableError,
    found,
    sum_of,
    time_of,
)

PERCENTILES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p999"}
GAP = r"[ \t]+"
START = r"^[ \t]*"
"""The start of a line, with spaces. A pattern of any white space would read a blank output line by line."""


def wrk(output: str) -> ClientOutput:
    """Read wrk, which prints percentiles with --latency. Its rate is more exact than its time."""
    done = found(rf"{START}(\d+) requests in {TIME}", output, "line of requests")
    errors = sum_of(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    errors += sum_of(r"Non-2xx or 3xx responses: (\d+)", output)
    latency = {}
    if line := re.search(rf"{START}Latency{GAP}{TIME}{GAP}[\d.]+\w+{GAP}{TIME}", output, re.MULTILINE):
        latency = {"mean": time_of(line[1], line[2]), "maximum": time_of(line[3], line[4])}
    for share, name in PERCENTILES.items():
        if line := re.search(rf"{START}{re.escape(share)}%{GAP}{TIME}", output, re.MULTILINE):
            latency[name] = time_of(line[1], line[2])
    rate = float(found(rf"^Requests/sec:{GAP}([\d.]+)", output, "rate")[1])
    seconds = int(done[1]) / rate if rate > 0 else time_of(done[2], done[3])
    return ClientOutput(int(done[1]), errors, seconds, latency=latency)


def ab(output: str) -> ClientOutput:
    """Read ab. Its percentiles have whole milliseconds and are left out; its mean is more exact."""
    seconds = found(rf"^Time taken for tests:{GAP}([\d.]+) seconds", output, "time")
    requests = found(rf"^Complete requests:{GAP}(\d+)", output, "number of requests")
    errors = sum_of(rf"^Failed requests:{GAP}(\d+)", output)
    errors += sum_of(rf"^Non-2xx responses:{GAP}(\d+)", output)
    mean = re.search(rf"^Time per request:{GAP}([\d.]+) \[ms\] \(mean\)$", output, re.MULTILINE)
    received = re.search(rf"^Total transferred:{GAP}(\d+) bytes", output, re.MULTILINE)
    return ClientOutput(
        int(requests[1]),
        errors,
        float(seconds[1]),
        bytes=int(received[1]) if received else None,
        latency={"mean": float(mean[1]) / 1e3} if mean else {},
    )


def hey(output: str) -> ClientOutput:
    """Read hey, whose times are rounded to 100 microseconds."""
    seconds = found(rf"{START}Total:{GAP}([\d.]+) secs", output, "time")
    every = re.findall(rf"{START}\[(\d+)\]{GAP}(\d+) responses", output, re.MULTILINE)
    if not every:
        raise UnreadableError("no responses")
    errors = sum(int(times) for status, times in every if not status.startswith("2"))
    _, _, failed = output.partition("Error distribution:")
    errors += sum_of(rf"{START}\[(\d+)\][ \t]", failed)
    latency = {}
    for name, word in (("mean", "Average"), ("maximum", "Slowest")):
        if line := re.search(rf"{START}{word}:{GAP}([\d.]+) secs", output, re.MULTILINE):
            latency[name] = float(line[1])
    for share, name in PERCENTILES.items():
        if line := re.search(rf"{START}{re.escape(share)}%+ in ([\d.]+) secs", output, re.MULTILINE):
            latency[name] = float(line[1])
    requests = sum(int(times) for status, times in every if status.startswith("2"))
    return ClientOutput(requests, errors, float(seconds[1]), latency=latency)


def h2load(output: str) -> ClientOutput:
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
    return ClientOutput(
        int(counts[2]),
        int(counts[3]),
        done / rate if rate > 0 else time_of(ended[1], ended[2]),
        bytes=int(received[1]) if received else None,
        latency={"maximum": time_of(times[3], times[4]), "mean": time_of(times[5], times[6])}
        if times
        else {},
    )
