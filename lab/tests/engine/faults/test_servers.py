"""System calls of servers that fail: every design serves on, or ends with a line that says why."""

from __future__ import annotations

import itertools

import pytest
from made.faults.asking import Asked, available, serves_on_or_says_why
from made.faults.injecting import ACCEPTS, FORKS, RECEIVES, SENDS, WAITS, Fault, Strace

from thunderherd.engine.client import catalogue

pytestmark = [pytest.mark.usefixtures("use_engine")]

BY_READINESS_ONCE = ("epoll_edge", "tokio")
"""Designs that the kernel tells once that a socket is ready: it never says EAGAIN before it says so again."""

FAULTS = {
    "accept finds an aborted connection": Fault(ACCEPTS, "ECONNABORTED", "2+3", True),
    "accept is interrupted": Fault(ACCEPTS, "EINTR", "2+3", True),
    "accept finds that another was faster": Fault(ACCEPTS, "EAGAIN", "2+3", True),
    "accept meets a fault of the network": Fault(ACCEPTS, "EPROTO", "2+3", True),
    "accept lacks buffers": Fault(ACCEPTS, "ENOBUFS", "3+4", True),
    "accept lacks memory": Fault(ACCEPTS, "ENOMEM", "3+4", True),
    "accept finds no descriptor": Fault(ACCEPTS, "EMFILE", "3+4", True),
    "accept does not exist": Fault(ACCEPTS, "ENOSYS", "1+", False),
    "a receive is interrupted": Fault(RECEIVES, "EINTR", "1+2", True),
    "a send is interrupted": Fault(SENDS, "EINTR", "1+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "1+2", True),
    "waiting for a child is interrupted": Fault("wait4", "EINTR", "1+2", True),
    "a ring's wait is interrupted": Fault("io_uring_enter", "EINTR", "2+2", True),
    "a receive fails": Fault(RECEIVES, "ENOMEM", "2+3", False, "read|recv"),
    "a send lacks buffers": Fault(SENDS, "ENOBUFS", "2+3", False),
    "a fork fails": Fault(FORKS, "EAGAIN", "3+2", False, "ulimit -u"),
    "watching a socket fails": Fault("epoll_ctl", "ENOMEM", "4+3", False),
    "an option cannot be set": Fault("setsockopt", "ENOBUFS", "3+3", False),
    "no memory is left": Fault("mmap", "ENOMEM", "2+1", False, "mapped|mmap|io_uring"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_does_not_end_a_server_or_says_why(what: str, strace: Strace) -> None:
    fault, failed = FAULTS[what], False
    for design in available():
        if fault.error == "EAGAIN" and fault.calls == ACCEPTS and design.name in BY_READINESS_ONCE:
            continue
        serves_on_or_says_why(design, fault, strace)
        failed |= strace.injected
    assert failed, "no design makes these calls"


FEATURES = {
    "epoll_create1": "epoll(7)",
    "epoll_ctl": "epoll(7)",
    "eventfd2": "eventfd(2)",
    "io_uring_setup": "io_uring(7)",
    "io_uring_register": "io_uring(7)",
    "io_uring_enter": "io_uring(7)",
    "socketpair": "unix(7), SCM_RIGHTS",
    "sendmsg": "unix(7), SCM_RIGHTS",
    "recvmsg": "unix(7), SCM_RIGHTS",
    "recvfrom": "unix(7), SCM_RIGHTS",
    "memfd_create": "fcntl(2), F_SETLKW of memfd_create(2)",
    "fcntl": "fcntl(2), F_SETLKW of memfd_create(2)",
}
"""Calls, and the feature that they belong to; another call belongs to the start of every server."""

ERRORS = {
    "socket": ("ENFILE", "EMFILE", "ENOBUFS", "ENOMEM", "EPERM"),
    "bind": ("ENOMEM", "EPERM"),
    "listen": ("ENOBUFS", "ENOMEM"),
    "setsockopt": ("ENOMEM", "ENOBUFS", "EPERM"),
    "getsockopt": ("ENOBUFS",),
    "pipe2": ("EMFILE", "ENFILE"),
    "signalfd4": ("ENFILE", "EMFILE", "ENOMEM"),
    "prctl": ("EPERM", "ENOSYS"),
    "setpgid": ("EPERM",),
    "prlimit64": ("EPERM", "ENOSYS"),
    "mmap": ("ENOMEM",),
    "clone,fork,vfork": ("ENOMEM", "EAGAIN", "ENOSYS"),
    "epoll_create1": ("EMFILE", "ENFILE", "ENOMEM", "ENOSYS"),
    "epoll_ctl": ("ENOSPC", "ENOMEM"),
    "eventfd2": ("EMFILE", "ENFILE", "ENOMEM", "ENOSYS"),
    "io_uring_setup": ("EPERM", "EMFILE", "ENFILE", "ENOMEM", "ENOSYS"),
    "io_uring_register": ("ENOMEM", "EPERM"),
    "io_uring_enter": ("EAGAIN", "ENOMEM"),
    "socketpair": ("EMFILE", "ENFILE", "ENOBUFS"),
    "sendmsg": ("ENOBUFS", "ENOMEM"),
    "recvmsg": ("ENOMEM",),
    "recvfrom": ("ENOMEM", "ENOBUFS"),
    "memfd_create": ("EMFILE", "ENFILE", "ENOMEM", "ENOSYS"),
    "fcntl": ("EMFILE", "ENOLCK"),
}
"""Calls, and the errors of each: the first in each run, all of them in the thorough tests."""

NAMES = {
    "socket": "socket|sock_diag",
    "signalfd4": "signalfd",
    "eventfd2": "eventfd|ulimit -n",
    "epoll_create1": "epoll_create1|ulimit -n",
    "epoll_ctl": "epoll_ctl|ulimit -n",
    "prlimit64": "setrlimit|getrlimit",
    "fcntl": "fcntl|ulimit -n",
    "mmap": "mapped|mmap|ulimit -u|io_uring_setup",
    "clone,fork,vfork": "ulimit -u",
    "recvfrom": "recv:",
    "io_uring_setup": "io_uring",
    "io_uring_register": "io_uring",
    "io_uring_enter": "io_uring",
}
"""What lines call a call, where it is not its name: the C library's name, or the limit that it has met."""


FIRST = {"mmap": 2}
"""The first call that may fail: Rust maps a stack for its signals before `main`, and aborts if it cannot."""


def fault_of(calls: str, error: str, when: str) -> Fault:
    """The fault of a call of that table."""
    # A thread without memory for its stack is one that could not be made (pthread_create(3), EAGAIN).
    return Fault(calls, error, when, False, NAMES.get(calls, ""), "EAGAIN" if calls == "mmap" else "")


@pytest.mark.parametrize("calls", [each for each in ERRORS if each not in FEATURES])
def test_each_call_of_a_start_may_fail(calls: str, strace: Strace) -> None:
    """The first one, the second one, and so on, of the default design."""
    (design,) = (each for each in available() if each.name == catalogue().defaults.design)
    for place in itertools.count(FIRST.get(calls, 1)):
        serves_on_or_says_why(design, fault_of(calls, ERRORS[calls][0], str(place)), strace, Asked(clients=2))
        if not strace.injected:
            break
    assert place > FIRST.get(calls, 1), "a start makes no such call"


@pytest.mark.parametrize("calls", FEATURES)
def test_calls_of_a_feature_may_fail(calls: str, strace: Strace) -> None:
    """Of each design that rests on it: all of them, or only the second one."""
    resting = [each for each in available() if FEATURES[calls] in {part.name for part in each.rests_on}]
    if not resting:
        pytest.skip(f"no design with {FEATURES[calls]} can run here")
    failed = False
    for design, when in itertools.product(resting, ("1+", "2")):
        serves_on_or_says_why(design, fault_of(calls, ERRORS[calls][0], when), strace, Asked(clients=3))
        failed |= strace.injected
    assert failed, "no design makes this call"


@pytest.mark.thorough
@pytest.mark.parametrize("calls", ERRORS)
def test_every_call_of_every_design_may_fail(calls: str, strace: Strace) -> None:
    """With every error, the first, second and third one, and all of them."""
    places = ("2", "3", "2+2") if calls in FIRST else ("1", "2", "3", "1+", "2+2")
    for design, error, when in itertools.product(available(), ERRORS[calls], places):
        serves_on_or_says_why(design, fault_of(calls, error, when), strace, Asked(clients=3))
