"""The result that a parser reads from an output, and the helpers that parsers share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""Seconds in each unit of time that these programs print."""
TIME = r"([\d.]+)(us|ms|s|m|h)\b"
"""The pattern of a time: a number and its unit."""
TIMES = ("mean", "p50", "p90", "p99", "p999", "maximum")
"""The names of the latencies of an output."""
Direction = Literal["to_server", "to_clients"]
"""The direction of a stream."""
LARGEST = 1e18
"""No count and no time is larger."""


class UnreadableError(Exception):
    """An output that its parser cannot read, with what is missing."""


@dataclass(frozen=True)
class LoadGeneratorOutput:
    """What a load generator reports of its run.

    `seconds` is its length. `requests` is None if the program counts none, as one that moves a stream: then
    `bytes` moved in one `direction`. Otherwise `bytes` are those of the replies with their headers, or None
    if the program reports no number of bytes, or a rounded one. `latency` maps `TIMES` to seconds, as far as
    the program reports them; it counts from the sending of a request, or from when it was due (intended).
    """

    requests: int | None
    errors: int
    seconds: float
    bytes: int | None = None
    latency: Mapping[str, float] = field(default_factory=dict)
    starts: Literal["sent", "intended"] = "sent"
    direction: Direction | None = None


def found(pattern: str, text: str, what: str) -> re.Match[str]:
    """Return the first match of a pattern; raise `UnreadableError` if there is none."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise UnreadableError(f"no {what}")
    return match


def time_of(number: str, unit: str) -> float:
    """Return a printed time in seconds."""
    return float(number) * SECONDS[unit]


def sum_of(pattern: str, text: str) -> int:
    """Return the sum of all numbers that the groups of a pattern match."""
    return sum(int(number) for match in re.finditer(pattern, text, re.MULTILINE) for number in match.groups())


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text is; raise `UnreadableError` if it is none."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableError("no JSON") from None
    if not isinstance(read, dict):
        raise UnreadableError("no JSON object")
    return read


def part(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object at a key of a JSON object; raise `UnreadableError` if there is none."""
    value = table.get(key)
    if not isinstance(value, dict):
        raise UnreadableError(f"no object {key}")
    return value


def number(table: Mapping[str, Any], key: str, *, whole: bool = False) -> float:
    """Return the number at a key of a JSON object, 0 to `LARGEST`; raise `UnreadableError` for others."""
    value = table.get(key)
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= LARGEST:
        raise UnreadableError(f"no {'count' if whole else 'number'} {key}")
    return value


def count(table: Mapping[str, Any], key: str) -> int:
    """Return the whole number at a key of a JSON object."""
    return int(number(table, key, whole=True))
