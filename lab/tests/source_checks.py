"""What an item of a source says and no pattern in the output can show: looked at while the commands of its
row run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager as Context
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from thunderherd.engine import catalogue
from thunderherd.sources import SourceRow

PATIENCE_SECONDS = 20.0
CLIENTS = 4
"""Those of the rows of cse232-a2."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Run:
    """The commands of a row, on a port of their own; `supervisor` is its server's process, which listens."""

    row: SourceRow
    directory: Path
    port: int
    supervisor: int

    @property
    def server(self) -> int:
        """The server's own process, which leads a group."""
        (process,) = children(self.supervisor)
        return process


def check_of(run: Run) -> Context[None]:
    """To be entered when the row's server listens, and left when its clients have ended."""
    check = CHECKS.get(run.row.name)
    return check(run) if check else nullcontext()


# cse232-a2 --------------------------------------------------------------------------------------------------


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
    """The CPUs of every thread of the load, once it has them all; then the server goes on."""

    def of_all() -> set[str] | None:
        found = [each for each in processes() if is_load(each, run.port)]
        return cpus_of(found[0]) if found and len(threads(found[0])) == CLIENTS + 1 else None

    try:
        return eventually("the load has all its threads", of_all)
    finally:
        os.killpg(run.server, signal.SIGCONT)


@contextmanager
def the_listener_has_the_sources_backlog(run: Run) -> Iterator[None]:
    if shutil.which("ss") is None:
        pytest.skip("needs ss: apt-get install iproute2")
    command = ["ss", "--no-header", "-ltn", f"sport = :{run.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (listener,) = done.stdout.splitlines()
    # Of a listener, Send-Q is the most connections that may wait (ss(8)).
    _state, _waiting, backlog, address, *_ = listener.split()
    said = re.search(r"--backlog (\d+)\b", run.row.server)
    assert said and (backlog, address) == (said[1], f"127.0.0.1:{run.port}")
    yield


@contextmanager
def slow_clients_keep_nobody_waiting(run: Run) -> Iterator[None]:
    """A thread for each of those that are connected and silent; others are served beside them."""
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


# erss-hw4 ---------------------------------------------------------------------------------------------------

DELAY_SECONDS = 2.0


@contextmanager
def the_delay_is_spent_on_a_cpu(run: Run) -> Iterator[None]:
    """The thread that is asked runs that long, or is ready to where others have the CPU: it never sleeps."""
    with ThreadPoolExecutor(1) as thread:
        ended: list[bool] = []
        busy = thread.submit(busiest_thread, run.server, ended)
        try:
            yield
        finally:
            ended.append(True)
    assert busy.result() > 0.75 * DELAY_SECONDS


def busiest_thread(process: int, ended: list[bool]) -> float:
    """The most seconds that any thread has run and waited for a CPU, as long as it could be seen."""
    most = 0.0
    while not ended:
        for thread in threads(process):
            try:
                run, waited, _ = (thread / "schedstat").read_text().split()
            except OSError:
                continue
            most = max(most, (int(run) + int(waited)) / 1e9)
        time.sleep(0.02)
    return most


@contextmanager
def the_report_has_its_charts(run: Run) -> Iterator[None]:
    """Drawn, each with error bars; with lines over cores and buckets, between which there is something."""
    yield
    report = (run.directory / "small" / "report.html").read_text()
    charts = charts_of(run)
    for sweep, marks in (("cores", {"rule", "line"}), ("delay", {"rule"}), ("buckets", {"rule", "line"})):
        name = f"sweep-{sweep}-0"
        assert marks | {"point"} <= set(marks_of(charts[name])), name
        figure = re.search(rf'<figure id="{name}">(.*?)</figure>', report, re.DOTALL)
        assert figure, f"no {name} in the report"
        for mark in marks | {"symbol"}:
            drawn = rf'<g class="mark-{mark} role-mark [^>]*>\s*<(path [^>]*d="M|line )'
            assert re.search(drawn, figure[1]), f"{name} has no {mark} that is drawn"


# cse638-pa02 ------------------------------------------------------------------------------------------------

COLUMNS = "impl,field_size,threads,throughput_gbps,latency_us,cycles,cache_misses,llc_misses,context_switches"


@contextmanager
def the_csv_is_that_of_the_source(run: Run) -> Iterator[None]:
    """Its columns first, and a line for each cell of its matrix; what the machine does not count is empty."""
    yield
    lines = (run.directory / "small" / "original.csv").read_text().splitlines()
    assert lines[0] == f"{COLUMNS},copied_share"
    shares = {line.split(",")[0]: line.rpartition(",")[2] for line in lines[1:]}
    assert shares == {"a1": "", "a2": "", "a3": "1"}, "over veth the kernel copies every send"
    cells = {tuple(line.split(",")[:3]) for line in lines[1:]}
    sizes, threads = ("64", "256", "1024", "4096"), ("1", "2", "4", "8")
    assert cells == {
        (impl, size, count) for impl in ("a1", "a2", "a3") for size in sizes for count in threads
    }
    assert all(float(line.split(",")[3]) > 0 and float(line.split(",")[4]) > 0 for line in lines[1:])


@contextmanager
def the_plots_of_the_source_are_drawn(run: Run) -> Iterator[None]:
    """Over message size at 8 threads, and over threads at 1024 bytes, with the source's points."""
    yield
    charts = charts_of(run)
    # Throughput, cache misses, cycles per byte; and what the source calls latency, over threads.
    for name in (*(f"sweep-sizes_8-{place}" for place in range(3)), "sweep-threads-0"):
        assert {"line", "point"} <= set(marks_of(charts[name])), name
        rows = [row for each in charts[name]["datasets"].values() for row in each]
        assert {row["base"] for row in rows if row["whose"] == "the paper"} == {
            "two_copy", "one_copy", "zero_copy",
        }, name  # fmt: skip


def charts_of(run: Run) -> dict[str, Any]:
    """The specifications of the charts of the row's report, by name."""
    report = (run.directory / "small" / "report.html").read_text()
    data = re.search(r'<script type="application/json" id="charts">(.*?)</script>', report, re.DOTALL)
    assert data, "no data of charts in the report"
    return {chart["id"]: chart["wide"] for chart in json.loads(data[1])}


def marks_of(specification: Any) -> Iterator[str]:
    """The marks of a Vega-Lite specification and of its layers."""
    if isinstance(specification, dict):
        mark = specification.get("mark")
        if mark:
            yield mark["type"] if isinstance(mark, dict) else mark
    for part in specification.values() if isinstance(specification, dict) else specification:
        if isinstance(part, dict | list):
            yield from marks_of(part)


# css503-p4 --------------------------------------------------------------------------------------------------


@contextmanager
def namespaces_are_to_be_had(run: Run) -> Iterator[None]:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    yield


RUNS_OF_CSS503 = (
    *("experiment-matrix", "experiment-repetition", "environment-network", "output-tables"),
    "claim-discussion",
)

CHECKS: dict[str, Callable[[Run], Context[None]]] = {
    **{f"css503-p4-{row}": namespaces_are_to_be_had for row in RUNS_OF_CSS503},
    "css503-p4-server-details": the_listener_has_the_sources_backlog,
    "cse232-a2-isolation-CPU-pinning": each_side_stays_on_its_cpu,
    "cse232-a2-server-port-backlog": the_listener_has_the_sources_backlog,
    "cse232-a2-server-multithreaded": slow_clients_keep_nobody_waiting,
    "cse232-a2-server-detached-threads": threads_leave_nothing_behind,
    "cse232-a2-client-behaviour": a_connection_that_fails_is_told,
    "erss-hw4-protocol-delay": the_delay_is_spent_on_a_cpu,
    "erss-hw4-output-tables-plots": the_report_has_its_charts,
    "cse638-pa02-output-CSV": the_csv_is_that_of_the_source,
    "cse638-pa02-output-plots": the_plots_of_the_source_are_drawn,
}


# Processes as /proc shows them (proc(5)) --------------------------------------------------------------------


def eventually(what: str, look: Callable[[], Found | None]) -> Found:
    """What is looked for, as soon as it is there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.01)
    return found


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def children(parent: int) -> list[int]:
    return [each for each in processes() if status_of(Path(f"/proc/{each}")).get("PPid") == str(parent)]


def threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []


def cpus_of(process: int) -> set[str]:
    """The lists of CPUs that its threads may run on."""
    return {status_of(thread)["Cpus_allowed_list"] for thread in threads(process)}


def mappings(process: int) -> int:
    return len(Path(f"/proc/{process}/maps").read_text().splitlines())


def is_load(process: int, port: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "load" in words and f"127.0.0.1:{port}" in words


def status_of(folder: Path) -> dict[str, str]:
    """The lines of a status by name; none of a process that is gone."""
    try:
        text = (folder / "status").read_text()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
