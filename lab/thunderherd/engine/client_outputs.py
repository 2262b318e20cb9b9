"""What load generators print, read as counts and times. A parser is a function of the whole output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""Seconds in each unit of time that these programs print."""
TIMES = ("mean", "p50", "p90", "p99", "p999", "maximum")
"""The names of the latencies of an output."""


class UnreadableError(Exception):
    """An output that its parser cannot read, with what is missing."""


@dataclass(frozen=True)
class ClientOutput:
    """What a load generator reports of its run.

    `seconds` is its length. `latency` maps `TIMES` to seconds, as far as the program reports them. `bytes` is
    None if it reports no number of bytes, or a rounded one.
    """

    requests: int
    errors: int
    seconds: float
    bytes: int | None = None
    latency: Mapping[str, float] = field(default_factory=dict)


def _found(pattern: str, text: str, what: str) -> re.Match[str]:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise UnreadableError(f"no {what}")
    return found


def _time(number: str, unit: str) -> float:
    return float(number) * SECONDS[unit]


def _sum(pattern: str, text: str) -> int:
    """Return the sum of all numbers that the groups of a pattern match."""
    return sum(int(number) for found in re.finditer(pattern, text, re.MULTILINE) for number in found.groups())


TIME = r"([\d.]+)(us|ms|s|m|h)\b"
PERCENTILES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p999"}


def wrk(output: str) -> ClientOutput:
    """Read wrk, which prints percentiles with --latency. Its rate is more exact than its time."""
    done = _found(rf"^\s*(\d+) requests in {TIME}", output, "line of requests")
    errors = _sum(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    errors += _sum(r"Non-2xx or 3xx responses: (\d+)", output)
    latency = {}
    if line := re.search(rf"^\s*Latency\s+{TIME}\s+[\d.]+\w+\s+{TIME}", output, re.MULTILINE):
        latency = {"mean": _time(line[1], line[2]), "maximum": _time(line[3], line[4])}
    for share, name in PERCENTILES.items():
        if line := re.search(rf"^\s*{re.escape(share)}%\s+{TIME}", output, re.MULTILINE):
            latency[name] = _time(line[1], line[2])
    rate = float(_found(r"^Requests/sec:\s+([\d.]+)", output, "rate")[1])
    seconds = int(done[1]) / rate if rate > 0 else _time(done[2], done[3])
    return ClientOutput(int(done[1]), errors, seconds, latency=latency)


def ab(output: str) -> ClientOutput:
    """Read ab. Its percentiles have whole milliseconds and are left out; its mean is more exact."""
    seconds = _found(r"^Time taken for tests:\s+([\d.]+) seconds", output, "time")
    requests = _found(r"^Complete requests:\s+(\d+)", output, "number of requests")
    errors = _sum(r"^Failed requests:\s+(\d+)", output) + _sum(r"^Non-2xx responses:\s+(\d+)", output)
    mean = re.search(r"^Time per request:\s+([\d.]+) \[ms\] \(mean\)$", output, re.MULTILINE)
    received = re.search(r"^Total transferred:\s+(\d+) bytes", output, re.MULTILINE)
    return ClientOutput(
        int(requests[1]),
        errors,
        float(seconds[1]),
        bytes=int(received[1]) if received else None,
        latency={"mean": float(mean[1]) / 1e3} if mean else {},
    )


def hey(output: str) -> ClientOutput:
    """Read hey, whose times are rounded to 100 microseconds."""
    seconds = _found(r"^\s*Total:\s+([\d.]+) secs", output, "time")
    every = re.findall(r"^\s*\[(\d+)\]\s+(\d+) responses", output, re.MULTILINE)
    if not every:
        raise UnreadableError("no responses")
    errors = sum(int(number) for status, number in every if not status.startswith("2"))
    _, _, failed = output.partition("Error distribution:")
    errors += _sum(r"^\s*\[(\d+)\]\s", failed)
    latency = {}
    for name, word in (("mean", "Average"), ("maximum", "Slowest")):
        if line := re.search(rf"^\s*{word}:\s+([\d.]+) secs", output, re.MULTILINE):
            latency[name] = float(line[1])
    for share, name in PERCENTILES.items():
        if line := re.search(rf"^\s*{re.escape(share)}%+ in ([\d.]+) secs", output, re.MULTILINE):
            latency[name] = float(line[1])
    requests = sum(int(number) for status, number in every if status.startswith("2"))
    return ClientOutput(requests, errors, float(seconds[1]), latency=latency)


def h2load(output: str) -> ClientOutput:
    """Read h2load, which reports no percentiles."""
    ended = _found(rf"^finished in {TIME}, ([\d.]+) req/s", output, "time")
    counts = _found(
        r"(\d+) done, (\d+) succeeded, (\d+) failed, \d+ errored, \d+ timeout", output, "number of requests"
    )
    received = re.search(r"^traffic: \S+ \((\d+)\) total", output, re.MULTILINE)
    times = re.search(rf"^time for request:\s+{TIME}\s+{TIME}\s+{TIME}", output, re.MULTILINE)
    # The rate of a timed run leaves out the time of connecting.
    done, rate = int(counts[1]), float(ended[3])
    return ClientOutput(
        int(counts[2]),
        int(counts[3]),
        done / rate if rate > 0 else _time(ended[1], ended[2]),
        bytes=int(received[1]) if received else None,
        latency={"maximum": _time(times[3], times[4]), "mean": _time(times[5], times[6])} if times else {},
    )


def json_line(output: str) -> ClientOutput:
    """Read one JSON object: requests, errors, seconds; optionally bytes and `TIMES` in seconds."""
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) != 1:
        raise UnreadableError(f"{len(lines)} lines instead of one line of JSON")
    try:
        found = json.loads(lines[0])
    except (ValueError, RecursionError):
        raise UnreadableError("no JSON") from None
    if not isinstance(found, dict):
        raise UnreadableError("no JSON object")
    if unknown := sorted(found.keys() - {"requests", "errors", "seconds", "bytes", *TIMES}):
        raise UnreadableError(f"unknown key {unknown[0]}")
    return ClientOutput(
        int(_number(found, "requests", whole=True)),
        int(_number(found, "errors", whole=True)),
        _number(found, "seconds"),
        bytes=int(_number(found, "bytes", whole=True)) if "bytes" in found else None,
        latency={name: _number(found, name) for name in TIMES if name in found},
    )


LARGEST = 1e18
"""No count and no time is larger."""


def _number(found: Mapping[str, Any], key: str, *, whole: bool = False) -> float:
    value = found.get(key)
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= LARGEST:
        raise UnreadableError(f"no {'count' if whole else 'number'} {key}")
    return value


PARSERS: Mapping[str, Callable[[str], ClientOutput]] = {
    "wrk": wrk,
    "ab": ab,
    "hey": hey,
    "h2load": h2load,
    "json": json_line,
}
"""The name of a parser in a study → the parser."""


def parsed(parser: str, output: str) -> ClientOutput:
    """Read an output; raise `UnreadableError` if it is none of this parser, or has no time or no requests."""
    found = PARSERS[parser](output)
    if not 0 < found.seconds < LARGEST:
        raise UnreadableError("no time")
    return found
