"""What clients of a soak say to a server of each workload, and what honest ones expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from common import MICROSECOND
from thunderherd.engine.setting_rules import SettingValue

BYTES = 1000
"""The size of an honest reply, if the client chooses it."""
LARGE = 2_000_000
"""The size of a reply that nobody reads."""
PATTERN = bytes(range(251)) * 8
"""The beginning of every payload."""


@dataclass(frozen=True)
class Talk:
    """The messages of a workload."""

    request: bytes
    right: Callable[[bytes], bool]
    """Whether the reply to the request is right."""
    length: int
    """The length of that reply; 0: until the server closes."""
    begins: bytes
    """The beginning of a request."""
    endless: tuple[bytes, bytes]
    """A beginning, and what is sent after it again and again, so that no request ends or no reply is read."""
    unread: bytes
    """Requests with long replies, if there are such."""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """Of the server."""


def _is(expected: bytes) -> tuple[Callable[[bytes], bool], int]:
    """Return what tells whether a reply is this one, and its length."""
    return lambda reply: reply == expected, len(expected)


def _get(size: int) -> bytes:
    return f"GET /bytes/{size} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()


def _is_http(reply: bytes) -> bool:
    head, _, body = reply.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 200 ") and body == PATTERN[:BYTES]


def _is_count(reply: bytes) -> bool:
    """True if four bytes are a number of reads; a busy-polling server makes any number of them."""
    return len(reply) == 4 and int.from_bytes(reply, "big") > 0


A_LINE = (b"", b"1" * BYTES)
"""A line without an end."""
FIELDS, ITERATION = 72, 1500
"""The bytes of a message of `fields`, with fields of 9 bytes, and those of an iteration of `blast`."""
BLAST = (1).to_bytes(4, "big") + b"x" * ITERATION

TALKS: Mapping[str, Talk] = {
    "bytes": Talk(
        f"{BYTES}\n".encode(), *_is(PATTERN[:BYTES]), b"10", A_LINE, f"{LARGE}\n".encode(), {"limit": LARGE}
    ),
    "echo": Talk(PATTERN[:BYTES], *_is(PATTERN[:BYTES]), b"x", (b"", b"a" * BYTES), b"a" * LARGE),
    "top_processes": Talk(
        b"Requesting top 2 processes",
        lambda reply: reply.startswith(b"Process 1: PID=") and b"\nProcess 2: PID=" in reply,
        0,
        b"Requesting top",
        (b"Requesting top", b"Requesting top"),
        b"Requesting top 2 processes",
        {"closes": "server"},
    ),
    "bucket": Talk(
        b"0,0\n", *_is(b"0\n"), b"0,", A_LINE, b"0,0\n" * BYTES,
        {"unit": MICROSECOND, "keep_connections": True},
    ),
    "http": Talk(
        _get(BYTES),
        _is_http,
        0,
        b"GET / HT",
        (b"GET / HTTP/1.1\r\n", b"X-Header: " + b"a" * BYTES + b"\r\n"),
        _get(LARGE),
        {"largest_resource": LARGE},
    ),
    "stream": Talk(
        f"get {BYTES}\n".encode(), *_is(PATTERN[:BYTES]), b"put 5\n\0\1", A_LINE, f"get {LARGE}\n".encode()
    ),
    "fields": Talk(
        b"A" * FIELDS, *_is(PATTERN[:FIELDS]), b"AAAA", (b"", b"A" * FIELDS), b"A" * FIELDS * BYTES,
        {"field_size": FIELDS // 8},
    ),
    "blast": Talk(
        BLAST,
        _is_count,
        4,
        BLAST[:5],
        ((1_000_000).to_bytes(4, "big"), b"x" * ITERATION),
        BLAST * 10,
        {"count_form": "big_endian", "keep_connections": True},
    ),
}  # fmt: skip
"""The messages of each workload by its name."""
