"""System calls of loads that fail: a load counts its errors, or ends with a line that says why."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from made.faults.injecting import RECEIVES, SENDS, WAITS, Fault, Strace
from made.faults.loading import ends_well_or_says_why

from thunderherd.engine.client import Server, catalogue

pytestmark = [pytest.mark.usefixtures("use_engine")]

FAULTS = {
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "2+2", True),
    "a send is interrupted": Fault(SENDS, "EINTR", "2+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "2+2", True),
    "waiting for a child is interrupted": Fault("wait4", "EINTR", "1+2", True),
    "waiting by the newest call is impossible": Fault("epoll_pwait2", "ENOSYS", "1+", True),
    "waiting by the newest call is forbidden": Fault("epoll_pwait2", "EPERM", "1+", True),
    "a receive fails": Fault(RECEIVES, "ENOMEM", "9+9", False, "read|recv"),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "3+5"),
    "the network is down": Fault("connect", "ENETUNREACH", "2+3"),
    "no port is left": Fault("connect", "EADDRNOTAVAIL", "2+3"),
    "no socket is left": Fault("socket", "EMFILE", "3+3"),
    "no buffer is left for a socket": Fault("socket", "ENOBUFS", "2+3"),
    "a fork fails": Fault("clone,clone3,fork,vfork", "EAGAIN", "2+2", False, "ulimit -u"),
    "an option cannot be set": Fault("setsockopt", "ENOBUFS", "3+3"),
    "a socket cannot be watched": Fault("epoll_ctl", "ENOSPC", "2+3"),
    "there is no epoll instance": Fault("epoll_create1", "EMFILE", "1+"),
    "timers cannot be exact": Fault("prctl", "EPERM", "2+"),
    "limits cannot be raised": Fault("prlimit64", "EPERM", "2+", False, "limit"),
    # A thread without memory for its stack is one that could not be made (pthread_create(3), EAGAIN).
    "no memory is left": Fault("mmap", "ENOMEM", "2+1", False, "mapped|mmap|ulimit -u", "EAGAIN"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_of_a_load_is_in_its_result_or_ends_it(what: str, strace: Strace) -> None:
    failed = False
    with Server("epoll", workload="bytes") as server:
        for load in catalogue().loads:
            ends_well_or_says_why(load, FAULTS[what], strace, server.ready.address)
            failed |= strace.injected
    assert failed, "no load makes these calls"


@pytest.mark.thorough
@pytest.mark.parametrize("what", FAULTS)
def test_each_call_of_a_load_may_fail(what: str, strace: Strace) -> None:
    """The first one, the second one, and so on, as many as a client makes in a few requests."""
    fault = FAULTS[what]
    # Rust maps a stack for its signals before `main` and in each thread, and aborts if it cannot.
    first = 2 if fault.calls == "mmap" else 1
    with Server("epoll", workload="bytes") as server:
        for load, place in itertools.product(catalogue().loads, range(first, 13)):
            ends_well_or_says_why(load, replace(fault, when=str(place)), strace, server.ready.address)
