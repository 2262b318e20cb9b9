"""Checks of cse232-a2: processes, threads, CPUs, networks, and clients that cannot connect."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from made.source_checks.common import (
    PATIENCE_SECONDS,
    Check,
    Run,
    cpus_of,
    eventually,
    is_load,
    mappings,
    processes,
    the_listener_has_the_sources_backlog,
    threads,
)

CLIENTS = 4
"""Those of its loads."""


@contextmanager
def each_side_stays_on_its_cpu(run: Run) -> Iterator[None]:
    if not os.sched_getaffinity(0) >= {0, 1}:
        pytest.skip("needs CPUs 0 and 1, one for each side")
    assert [cpus_of(process) for process in (run.supervisor, run.server)] == [{"0"}, {"0"}]
    # The clients wait for their replies until they have been looked at.
    os.killpg(run.server, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        seen = thread.submit(cpus_of_clients, run)
        yield
    assert seen.result() == {"1"}


def cpus_of_clients(run: Run) -> set[str]:
    """Returns the CPUs of every thread of the load, once all exist; the server then continues."""

    def of_all() -> set[str] | None:
        found = [each for each in processes() if is_load(each, run.port)]
        return cpus_of(found[0]) if found and len(threads(found[0])) == CLIENTS + 1 else None

    try:
        return eventually("the load has all its threads", of_all)
    finally:
        os.killpg(run.server, signal.SIGCONT)


@contextmanager
def slow_clients_keep_nobody_waiting(run: Run) -> Iterator[None]:
    """The server has a thread for each silent connection, and serves others meanwhile."""
    with ExitStack() as silent:
        for _ in range(3):
            silent.enter_context(socket.create_connection(("127.0.0.1", run.port)))
        eventually("each has a thread", lambda: len(threads(run.server)) == 1 + 3 or None)
        yield
        eventually("and no other is left", lambda: len(threads(run.server)) == 1 + 3 or None)
    eventually("threads end with their connections", lambda: len(threads(run.server)) == 1 or None)


@contextmanager
def threads_leave_nothing_behind(run: Run) -> Iterator[None]:
    """A thread that is neither detached nor joined keeps its stack, a mapping and its guard."""
    with slow_clients_keep_nobody_waiting(run):
        yield
    before = mappings(run.server)
    for _ in range(100):
        with socket.create_connection(("127.0.0.1", run.port)) as client:
            client.sendall(b"Requesting top 2 processes")
            while client.recv(4096):
                pass
    eventually("threads end with their connections", lambda: len(threads(run.server)) == 1 or None)
    assert mappings(run.server) < before + 20


@contextmanager
def a_connection_that_fails_is_told(run: Run) -> Iterator[None]:
    with socket.socket() as nobody:  # bound, so that nobody else has the port, and not listening
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        command = run.row.client.replace("127.0.0.1:8080", address).split()
        command[0] = str(Path(sys.executable).with_name("thunderherd"))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1, done
    for client in range(1, CLIENTS + 1):
        assert f"client {client} -> failed: connecting to {address}: Connection refused" in done.stdout
    yield


@contextmanager
def each_side_has_a_network_of_its_own(run: Run) -> Iterator[None]:
    """The segments of its connections are those of a packet of 1500 bytes; loopback's are larger."""
    yield
    summary = json.loads((run.directory / "small" / "summary.json").read_text())
    for contender in summary["contenders"]:
        ends = contender["connections"]
        assert {side: ends[side]["segment_bytes"] for side in ends} == {"server": 1448, "client": 1448}


CHECKS: dict[str, Check] = {
    "cse232-a2-isolation-CPU-pinning": each_side_stays_on_its_cpu,
    "cse232-a2-isolation-containers": each_side_has_a_network_of_its_own,
    "cse232-a2-server-port-backlog": the_listener_has_the_sources_backlog,
    "cse232-a2-server-multithreaded": slow_clients_keep_nobody_waiting,
    "cse232-a2-server-detached-threads": threads_leave_nothing_behind,
    "cse232-a2-client-behaviour": a_connection_that_fails_is_told,
}
