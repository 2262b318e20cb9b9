"""What load generators print, read as counts and times. A parser is a function of the whole output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args

from thunderherd.engine.outputs import sockets, web
from thunderherd.engine.outputs.base import (
    LARGEST,
    TIMES,
    Direction,
    LoadGeneratorOutput,
    UnreadableError,
    count,
    json_object,
    number,
)

__all__ = ["PARSERS", "LoadGeneratorOutput", "UnreadableError", "parsed"]


DIRECTION = "direction"
QUANTILES = ("p50", "p90", "p99", "p999", "maximum")
"""The latencies that are never less than those before."""


def json_line(output: str) -> LoadGeneratorOutput:
    """Read one JSON object: requests, errors, seconds; optionally bytes and `TIMES` in seconds.

    With a direction the bytes are those of a stream, and requests are optional.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) != 1:
        raise UnreadableError(f"{len(lines)} lines instead of one line of JSON")
    read = json_object(lines[0])
    if unknown := sorted(read.keys() - {"requests", "errors", "seconds", "bytes", DIRECTION, *TIMES}):
        raise UnreadableError(f"unknown key {unknown[0]}")
    direction = read.get(DIRECTION)
    if direction not in (None, *get_args(Direction)):
        raise UnreadableError(f"no {DIRECTION}")
    is_stream = direction is not None and "requests" not in read
    return LoadGeneratorOutput(
        None if is_stream else count(read, "requests"),
        count(read, "errors"),
        number(read, "seconds"),
        bytes=count(read, "bytes") if is_stream or "bytes" in read else None,
        latency={name: number(read, name) for name in TIMES if name in read},
        direction=direction,
    )


PARSERS: Mapping[str, Callable[[str], LoadGeneratorOutput]] = {
    "wrk": web.wrk,
    "wrk2": web.wrk2,
    "ab": web.ab,
    "hey": web.hey,
    "h2load": web.h2load,
    "oha": web.oha,
    "vegeta": web.vegeta,
    "iperf3": sockets.iperf3,
    "netperf": sockets.netperf,
    "neper": sockets.neper,
    "sockperf": sockets.sockperf,
    "json": json_line,
}
"""The name of a parser in a study → the parser."""


def parsed(parser: str, output: str) -> LoadGeneratorOutput:
    """Read an output; raise `UnreadableError` if it is none of this parser, or has no time and no amount."""
    try:
        read = PARSERS[parser](output)
    except (ValueError, ArithmeticError):
        raise UnreadableError("a number that cannot be read") from None
    if not 0 < read.seconds < LARGEST:
        raise UnreadableError("no time")
    if read.requests is None and (read.bytes is None or read.direction is None):
        raise UnreadableError("neither requests nor bytes")
    counts = [read.requests or 0, read.errors, read.bytes or 0, *read.latency.values()]
    if not all(0 <= each <= LARGEST for each in counts):
        raise UnreadableError("a number out of range")
    quantiles = [read.latency[name] for name in QUANTILES if name in read.latency]
    if quantiles != sorted(quantiles):
        raise UnreadableError("a percentile of latency above a higher one")
    return read
