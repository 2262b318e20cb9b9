"""Processes and threads that cannot be made: each in turn, of every design and every load."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from made.faults.asking import Asked, available, serves_on_or_says_why
from made.faults.injecting import Fault, Strace
from made.faults.loading import ends_well_or_says_why

from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import Server, catalogue
from thunderherd.engine.setting_rules import SettingValue

pytestmark = [pytest.mark.usefixtures("use_engine")]

MAKING = {"fork(2)": "clone,fork,vfork", "pthread_create(3)": "clone3"}
"""Features, and the calls behind them. Each process counts its own: the first fork is that of the server."""

POOL, CLIENTS = 3, 4
SEVERAL_THREADS: dict[str, SettingValue] = {"runtime": "multi_thread", "worker_threads": 2}
MOST = 20
"""More than a trial with this pool and these clients makes."""


def making(feature: str) -> Iterator[Design]:
    """The designs that make processes, or threads."""
    for design in available():
        if feature in {each.name for each in design.rests_on}:
            yield design


@pytest.mark.parametrize("feature", MAKING)
def test_any_fork_or_thread_of_a_server_may_fail(feature: str, strace: Strace) -> None:
    for design in making(feature):
        has = {each.name for each in design.settings}
        asked = Asked(
            CLIENTS, settings={name: value for name, value in SEVERAL_THREADS.items() if name in has}
        )
        for place in itertools.count(1):
            fault = Fault(MAKING[feature], "EAGAIN", str(place), False, "ulimit -u")
            serves_on_or_says_why(design, fault, strace, asked, POOL)
            if not strace.injected:
                break
        assert 1 < place < MOST, f"{design.name}: {place}"


def test_where_threads_are_made_by_a_call_that_does_not_exist_an_older_one_makes_them(strace: Strace) -> None:
    """That is the C library's fallback."""
    for design in making("pthread_create(3)"):
        serves_on_or_says_why(design, Fault("clone3", "ENOSYS", "1+", True), strace, Asked(CLIENTS))


@pytest.mark.parametrize("feature", MAKING)
def test_any_fork_or_thread_of_a_load_may_fail(feature: str, strace: Strace) -> None:
    made = False
    with Server(catalogue().defaults.design, workload="bytes") as server:
        for load in catalogue().loads:
            for place in itertools.count(1):
                fault = Fault(MAKING[feature], "EAGAIN", str(place), False, "ulimit -u|--threads")
                ends_well_or_says_why(load, fault, strace, server.ready.address, threads=3)
                if not strace.injected:
                    break
            made |= place > 1
            assert place < MOST, load.name
    assert made, "no load makes these calls"
