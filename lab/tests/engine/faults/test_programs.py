"""System calls that fail under commands that start others (`host`, `generate`, `count`), and under `conform`.

What they start has no faults: strace leaves a program when it becomes another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from made.faults.asking import answer, available, settings_of
from made.faults.injecting import WAITS, Fault, Strace, says_why
from made.faults.loading import ends_well_or_says_why

from thunderherd.engine.client import EngineError, OwnServer, Place, Server, catalogue
from thunderherd.engine.conformance import Conforming, cases_of
from thunderherd.engine.own_load import run_program
from thunderherd.errors import Refusal

pytestmark = [pytest.mark.usefixtures("use_engine")]

INTERRUPTED = {
    "a read is interrupted": Fault("read,recvfrom", "EINTR", "1+2", True),
    "a write is interrupted": Fault("write,sendto", "EINTR", "1+2", True),
    "waiting is interrupted": Fault(WAITS, "EINTR", "1+2", True),
    "waiting for a child is interrupted": Fault("wait4", "EINTR", "1+2", True),
}
ERRORS = {
    "pipe2": ("EMFILE", "ENFILE"),
    "signalfd4": ("ENFILE", "EMFILE", "ENOMEM"),
    "prctl": ("EPERM", "ENOSYS"),
    "prlimit64": ("EPERM",),
    "clone,fork,vfork": ("EAGAIN", "ENOMEM"),
    "clone3": ("EAGAIN",),
    "mmap": ("ENOMEM",),
    "socket": ("EMFILE", "ENOBUFS", "EPERM"),
    "bind": ("ENOMEM",),
    "fcntl": ("EMFILE",),
    "poll": ("ENOMEM",),
    "read": ("ENOMEM",),
    "write": ("ENOBUFS",),
    "setpgid": ("EPERM",),
}
"""Calls of these commands, and the errors of each: the first in each run, all in the thorough tests."""

NAMES = {
    "signalfd4": "signalfd",
    "prlimit64": "limit",
    "clone,fork,vfork": "ulimit -u",
    "clone3": "ulimit -u",
    "mmap": "mapped|mmap|ulimit -u",
    "socket": "socket|sock_diag|listening on|connecting to",
    "bind": "bind|listening on",
    "fcntl": "fcntl|duplicated|connect",
    "read": "read",
    "write": "writ",
    "poll": "poll|connect",
}
FIRST = {"mmap": 2}
"""The first call that may fail: Rust maps a stack for its signals before `main`, and aborts if it cannot."""
PLACES, MOST = 6, 30
"""So many of the first calls of a kind fail, one after another: in each run, and in the thorough tests."""

Run = Callable[[Fault, Strace], None]
"""Runs a command with a fault, and checks what it did."""


def hosts(fault: Fault, strace: Strace) -> None:
    """A server that is not ours, which is one of our own."""
    command = [str(strace.real), "serve", catalogue().defaults.design, "--listen", "{host}:{port}"]
    try:
        with OwnServer(command, name="own", place=Place(strace(fault, "host"))) as server:
            answered = [answer(server.ready.port or 0, str(fault)) for _ in range(2)]
            assert all(answered) or not fault.all_are_served, fault
            server.snapshot()
            summary = server.stop()
            assert summary is not None
            assert summary.died is None or (not fault.all_are_served and says_why(summary.died, fault)), (
                summary
            )
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{fault}: {error}"
        assert says_why(str(error), fault), f"{fault}: {error}"


def generates(fault: Fault, strace: Strace) -> None:
    """A program that prints a line."""
    try:
        status, printed = run_program(["echo", "a line"], 60, place=Place(strace(fault, "generate")))
    except EngineError as error:
        assert not fault.all_are_served, f"{fault}: {error}"
        assert says_why(str(error), fault), f"{fault}: {error}"
        return
    assert (status, printed) == (0, "a line\n") or (not fault.all_are_served and says_why(printed, fault)), (
        f"{fault}: {status}, {printed!r}"
    )


def counts_a_server(fault: Fault, strace: Strace) -> None:
    """A server whose whole life is counted."""
    (design,) = (each for each in available() if each.name == catalogue().defaults.design)
    try:
        with Server(
            design.name,
            workload="bytes",
            settings=settings_of(design),
            whole_life=True,
            place=Place(strace(fault, "count")),
        ) as server:
            assert all(answer(server.ready.port or 0, str(fault)) for _ in range(2)), fault
            assert server.stop().tally.requests == 2
            assert server.life is not None and server.life.status == 0 and server.life.elapsed_ns > 0
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{fault}: {error}"
        assert says_why(str(error), fault), f"{fault}: {error}"


def conforms(fault: Fault, strace: Strace) -> None:
    """Cases of a workload, against a server that keeps all rules: what fails is no fault of the server."""
    cases = [each.number for each in cases_of("bytes") if each.name in CASES]
    assert len(cases) == len(CASES)
    design = catalogue().defaults.design
    try:
        with Server(design, workload="bytes") as server:
            engine = strace(fault, "conform")
            found = [
                *Conforming("bytes").run(
                    server.ready.address, cases, stop=None, until_failure=False, place=Place(engine)
                )
            ]
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{fault}: {error}"
        assert says_why(str(error), fault), f"{fault}: {error}"
        return
    assert len(found) == len(cases)
    for each in found:
        allowed = ("passed", "allowed") if fault.all_are_served else ("passed", "allowed", "not_judged")
        assert each.verdict in allowed, f"{fault}: {each}"
        assert each.verdict != "not_judged" or says_why(each.actual or "", fault), f"{fault}: {each}"


CASES = ("correct replies", "request split in two", "giant request")
"""Cases that take little time, and whose clients make connections and a thread."""

COMMANDS: dict[str, Run] = {
    "host": hosts,
    "generate": generates,
    "count": counts_a_server,
    "conform": conforms,
}


WITHOUT_MEMORY = ("host", "generate", "count")
"""Commands that lack memory in these tests. `conform` starts threads; Rust aborts without their stacks."""


def calls_of(command: str) -> list[str]:
    """The calls that fail under a command."""
    return [calls for calls in ERRORS if calls != "mmap" or command in WITHOUT_MEMORY]


def fault_of(calls: str, error: str, when: str) -> Fault:
    """The fault of a call of the table."""
    return Fault(calls, error, when, False, NAMES.get(calls, ""), "EAGAIN" if calls == "mmap" else "")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", INTERRUPTED)
def test_interrupted_calls_are_made_again(what: str, command: str, strace: Strace) -> None:
    COMMANDS[command](INTERRUPTED[what], strace)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_call_may_fail(command: str, strace: Strace) -> None:
    """The first one, the second one, and so on."""
    for calls in calls_of(command):
        for place in range(FIRST.get(calls, 1), PLACES + 1):
            COMMANDS[command](fault_of(calls, ERRORS[calls][0], str(place)), strace)
            if not strace.injected:
                break


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("calls", ERRORS)
def test_each_call_may_fail_with_any_error(calls: str, command: str, strace: Strace) -> None:
    """One after another, and all of them."""
    if calls not in calls_of(command):
        return
    places = [str(place) for place in range(FIRST.get(calls, 1), MOST)]
    # If most writes fail, so does that of the line that says why.
    several = () if calls == "write" else ("2+", "2+2", "3+3")
    for error, when in itertools.product(ERRORS[calls], [*places, *several]):
        COMMANDS[command](fault_of(calls, error, when), strace)


@pytest.mark.parametrize("what", INTERRUPTED)
def test_a_counted_load_has_its_requests(what: str, strace: Strace) -> None:
    with Server(catalogue().defaults.design, workload="bytes") as server:
        for load in catalogue().loads:
            ends_well_or_says_why(load, INTERRUPTED[what], strace, server.ready.address, whole_life=True)
