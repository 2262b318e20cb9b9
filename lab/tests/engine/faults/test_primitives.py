"""System calls of primitives that fail, and sends that the kernel takes in part: no byte is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from made.faults.asking import Asked, available, receives, serves_on_or_says_why
from made.faults.injecting import Fault, Strace
from made.faults.loading import ends_well_or_says_why

from thunderherd.engine.catalogue import Design, Primitive
from thunderherd.engine.client import Server, catalogue
from thunderherd.engine.setting_rules import SettingValue

pytestmark = [pytest.mark.usefixtures("use_engine")]

BLOCKING, BY_READINESS = "thread_per_client", "epoll"

SENDS = "write,writev,sendto,sendmsg,sendfile,splice,vmsplice,io_uring_enter"
WITH_ROOM = "writev,sendto,sendmsg,sendfile,splice,vmsplice"
RECEIVES = "read,readv,recvfrom,recvmsg"

BYTES, BUFFER = 200_000, 4096
PERIOD, MODULUS = 65_536, 251
STREAM = bytes(place % PERIOD % MODULUS for place in range(BYTES))
"""A stream as the workload sends it. A client with so small a buffer takes it in many parts."""

SETTINGS: dict[str, SettingValue] = {"source": "memfd", "source_size": 1 << 20, "message_size": 16 << 10}

# The supervisor writes too, but not as often as a stream is cut.
OUT = {
    "a send is interrupted": Fault(SENDS, "EINTR", "1+2", True),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "9+3", False, "write|writ|send|splice|io_uring"),
    "a send lacks memory": Fault(SENDS, "ENOMEM", "9+3", False, "write|writ|send|splice|io_uring"),
}
WOULD_BLOCK = Fault(WITH_ROOM, "EAGAIN", "1+3", True)
"""A full socket, of which the kernel says later that it has room."""
IN = {
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "1+2", True),
    "a receive lacks memory": Fault(RECEIVES, "ENOMEM", "2+3", False, "read|recv"),
}
PREPARING = {"pipe2": "EMFILE", "fcntl": "EMFILE", "io_uring_setup": "ENOMEM", "setsockopt": "ENOMEM"}
"""Calls that send primitives make before the first byte, and an error of each."""
NAMES = {"fcntl": "fcntl|ulimit -n", "io_uring_setup": "io_uring"}


def gets(port: int, told: str) -> bool:
    """Whether a stream came, which is right if it did."""
    received = receives(port, f"get {BYTES}\n".encode(), BYTES, told, BUFFER)
    assert received in (None, STREAM), f"{told}: the stream is wrong"
    return received is not None


def puts(port: int, told: str) -> bool:
    """Whether the server has taken a stream, of which it then says how many bytes came."""
    said = f"{BYTES}\n".encode()
    received = receives(port, f"put {BYTES}\n".encode() + STREAM, len(said), told)
    assert received in (None, said), f"{told}: {received!r}"
    return received is not None


def fits(primitive: Primitive, design: Design) -> bool:
    """Whether a primitive can run here, with this design and with streams."""
    holes = [each for each in catalogue().holes if each.primitive == primitive.name]
    return primitive.available and not any(
        each.design == design.name or each.workload == "stream" for each in holes
    )


def pairs(moves: str, *names: str) -> Iterator[tuple[Design, Primitive]]:
    """Designs of these names, each with each primitive of a direction that fits."""
    designs = [each for each in available() if each.name in names]
    primitives = [each for each in catalogue().primitives if each.moves == moves]
    return ((each, other) for each, other in itertools.product(designs, primitives) if fits(other, each))


@pytest.mark.parametrize("what", OUT)
def test_a_send_primitive_repeats_or_fails_one_connection(what: str, strace: Strace) -> None:
    failed = set()
    for design, primitive in pairs("out", BLOCKING, BY_READINESS):
        asked = Asked(3, "stream", SETTINGS, gets, primitive=primitive.name)
        serves_on_or_says_why(design, OUT[what], strace, asked)
        failed |= {primitive.name} if strace.injected else set()
    assert failed == {primitive.name for _, primitive in pairs("out", BLOCKING, BY_READINESS)}


def test_a_send_primitive_waits_for_room(strace: Strace) -> None:
    for design, primitive in pairs("out", BY_READINESS):
        serves_on_or_says_why(
            design, WOULD_BLOCK, strace, Asked(2, "stream", SETTINGS, gets, primitive=primitive.name)
        )


@pytest.mark.parametrize("what", IN)
def test_a_receive_primitive_repeats_or_fails_one_connection(what: str, strace: Strace) -> None:
    for design, primitive in pairs("in", BLOCKING, BY_READINESS):
        asked = Asked(3, "stream", ask=puts, receive=primitive.name)
        serves_on_or_says_why(design, IN[what], strace, asked)


@pytest.mark.parametrize("calls", PREPARING)
def test_a_primitive_that_cannot_be_prepared_fails_one_connection(calls: str, strace: Strace) -> None:
    """The first call of each thread."""
    failed = False
    for design, primitive in pairs("out", BLOCKING):
        fault = Fault(calls, PREPARING[calls], "1", False, NAMES.get(calls, ""))
        asked = Asked(2, "stream", SETTINGS, gets, primitive=primitive.name)
        serves_on_or_says_why(design, fault, strace, asked)
        failed |= strace.injected
    assert failed, "no primitive makes these calls"


@pytest.mark.thorough
@pytest.mark.parametrize("what", [*OUT, *IN])
def test_a_primitive_of_a_load_repeats_or_fails_one_request(what: str, strace: Strace) -> None:
    moves, fault = ("out", OUT[what]) if what in OUT else ("in", IN[what])
    with Server(BY_READINESS, workload="bytes") as server:
        for load, primitive in itertools.product(catalogue().loads, catalogue().primitives):
            holes = {
                (each.load, each.workload) for each in catalogue().holes if each.primitive == primitive.name
            }
            if (
                primitive.moves != moves
                or not primitive.available
                or holes & {(load.name, None), (None, "bytes")}
            ):
                continue
            out, into = (primitive.name, None) if moves == "out" else (None, primitive.name)
            ends_well_or_says_why(load, fault, strace, server.ready.address, primitive=out, receive=into)
