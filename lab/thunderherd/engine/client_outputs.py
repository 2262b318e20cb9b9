"""What load generators print, read as counts and times. A parser is a function of the whole output."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thunderherd.engine.outputs import web
from thunderherd.engine.outputs.base import (
    LARGEST,
    TIMES,
    ClientOutput,
    UnreadableError,
    count,
    json_object,
    number,
)

__all__ = ["PARSERS", "ClientOutput", "UnreadableError", "parsed"]


def json_line(output: str) -> ClientOutput:
    """Read one JSON object: requests, errors, seconds; optionally bytes and `TIMES` in seconds."""
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) != 1:
        raise UnreadableError(f"{len(lines)} lines instead of one line of JSON")
    read = json_object(lines[0])
    if unknown := sorted(read.keys() - {"requests", "errors", "seconds", "bytes", *TIMES}):
        raise UnreadableError(f"unknown key {unknown[0]}")
    return ClientOutput(
        count(read, "requests"),
        count(read, "errors"),
        number(read, "seconds"),
        bytes=count(read, "bytes") if "bytes" in read else None,
        latency={name: number(read, name) for name in TIMES if name in read},
    )


PARSERS: Mapping[str, Callable[[str], ClientOutput]] = {
    "wrk": web.wrk,
    "wrk2": web.wrk2,
    "ab": web.ab,
    "hey": web.hey,
    "h2load": web.h2load,
    "oha": web.oha,
    "vegeta": web.vegeta,
    "json": json_line,
}
"""The name of a parser in a study → the parser."""


def parsed(parser: str, output: str) -> ClientOutput:
    """Read an output; raise `UnreadableError` if it is none of this parser, or has no time or no requests."""
    try:
        read = PARSERS[parser](output)
    except (ValueError, ArithmeticError):
        raise UnreadableError("a number that cannot be read") from None
    if not 0 < read.seconds < LARGEST:
        raise UnreadableError("no time")
    counts = [read.requests, read.errors, read.bytes or 0, *read.latency.values()]
    if not all(0 <= each <= LARGEST for each in counts):
        raise UnreadableError("a number out of range")
    return read
