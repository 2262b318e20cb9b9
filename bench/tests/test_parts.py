"""The benchmarks run, in their smallest form, and print a figure for each; the figures are not judged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from started import BENCH, bench, not_made, refused

import layers

FIGURE = re.compile(r"\s[0-9][0-9,.]*")

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one for the server and one for its clients"
    ),
]


def rows(printed: str, name: str) -> list[str]:
    """The rows of a design, without its name."""
    return [line.removeprefix(name) for line in printed.splitlines() if line.startswith(name + " ")]


def test_designs_benchmark_prints_figures_or_a_reason_per_design() -> None:
    printed = bench("designs", "epoll", "prefork", "iterative", "--rounds", "1", "--milliseconds", "50")
    assert re.match(r"bench: about [0-9]+ seconds? \(designs [0-9]+ seconds?\)", printed)
    for name in ("epoll", "prefork", "iterative"):
        seen = rows(printed, name)
        assert len(seen) == 4, printed
        assert all(FIGURE.search(row) or "keep the CPUs busy" in row for row in seen), printed
    crowded = [row for row in rows(printed, "iterative") if "in service" in row or "CPUs busy" in row]
    assert len(crowded) >= 2, printed


def test_memory_benchmark_prints_memory_of_idle_connections_and_the_rate() -> None:
    words = ("--rounds", "1", "--milliseconds", "200", "--connections", "50")
    printed = bench("memory", "epoll", "iterative", *words)
    assert "descriptors a process" in printed
    [epoll] = rows(printed, "epoll")
    assert len(epoll.split()) == 5 or "keep the CPUs busy" in epoll, printed
    [iterative] = rows(printed, "iterative")
    assert "1 of 8 connections in service" in iterative or "CPUs busy" in iterative, printed


def test_reach_benchmark_prints_connections_and_their_memory() -> None:
    printed = bench("reach", "--rounds", "1", "--connections", "60")
    for design in ("epoll", "io_uring"):
        seen = rows(printed, design)
        assert len(seen) == 2, printed
        # The back end, loads, connections, seconds, and KiB of four kinds; or why there are none.
        assert all(len(row.split()) == 8 or "is not available" in row for row in seen), printed


@pytest.mark.skipif(
    not all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in ("nginx", "wrk")),
    reason="needs nginx and wrk: apt-get install nginx-light wrk",
)
def test_nginx_benchmark_prints_nginx_and_a_design() -> None:
    printed = bench("nginx", "epoll", "--rounds", "1", "--seconds", "1")
    for name in ("nginx", "nginx, open_file_cache", "nginx, no sendfile", "epoll"):
        assert any(len(FIGURE.findall(row)) >= 4 for row in rows(printed, name)), printed


def test_counting_benchmark_compares_counted_trials_with_uncounted_ones() -> None:
    words = ("--rounds", "2", "--milliseconds", "60", "--counters", "page_faults", "system_calls,wakeups")
    printed = bench("counting", "epoll", *words)
    for name in ("nothing at all", "by default", "page_faults", "system_calls,wakeups"):
        [row] = rows(printed, name)
        assert FIGURE.search(row) or "keep the CPUs busy" in row or "perf" in row or "trac" in row, printed
    verdicts, _, work = printed.partition("what counting costs, by the rate")[2].partition("instructions")
    assert verdicts.count("epoll ") == 3 and verdicts.count("not decided") == 3, printed
    assert ("nothing, again" in work and work.count("    epoll ") == 4) or "per request: perf" in work, (
        printed
    )


@pytest.fixture
def quickly_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds the bare loops without optimisation, from what `cargo test` has compiled. The optimised program
    takes minutes to build, and no figure is judged."""
    if layers.missing():
        return
    run = subprocess.run

    def unoptimised(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
        return run([word for word in command if word != "--release"], **more)

    with monkeypatch.context() as patched:
        patched.setattr(layers.subprocess, "run", unoptimised)
        program = layers.built.__wrapped__()
    monkeypatch.setattr(layers, "built", lambda: program)


@pytest.mark.thorough
@pytest.mark.skipif(layers.missing() is not None, reason="needs cargo")
def test_bare_loops_are_built_with_optimisation() -> None:
    assert layers.built().is_file()


@pytest.mark.usefixtures("quickly_built")
def test_clients_benchmark_compares_request_counts_of_generator_and_server() -> None:
    printed = bench("clients", "epoll, 64 bytes", "--rounds", "1", "--seconds", "1")
    for name in ("ours, epoll", "ours, io_uring", "ours, io_uring, all bytes"):
        [row] = rows(printed, name)
        assert re.search(r"\s1\.000\d\s", row), printed
    for name in ("bare loop", "bare loop, polling"):
        [row] = rows(printed, name)
        assert FIGURE.search(row) or layers.missing(), printed
    for name in ("wrk", "hey", "h2load"):
        if shutil.which(name):
            [row] = rows(printed, name)
            # What a tool has under way as it ends, its server counts and it does not.
            assert re.search(r"\s(0\.99\d\d|1\.0\d\d\d)\s", row), printed
        else:
            assert f"{name} is not installed: apt-get install" in printed
    assert "no server is called 'apache'" in not_made("clients", "apache")


def test_transactions_benchmark_prints_every_kind_and_arrangement() -> None:
    printed = bench("transactions", "--choosing", "1", "--judging", "1", "--milliseconds", "100")
    for kind in ("connections kept", "connection each, RST", "connection each, FIN"):
        for arrangement in ("a CPU a side", "both on each", "our best"):
            [row] = rows(printed, f"{kind}: {arrangement}")
            assert FIGURE.search(row) or "could not be measured" in row, printed
        assert printed.count(f"{kind}: ") >= 20, printed
        assert f"{kind}: polling on each CPU, load polling recv_truncate " in printed, printed


def test_an_unknown_design_is_named() -> None:
    assert "no design is called 'epol'" in refused(sys.executable, str(BENCH), "designs", "epol")
    assert "no design is called 'epol'" in not_made("layers", "--design", "epol")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("frieze",), "no proof is called 'frieze'; there are freeze, delay, queue_0.3, queue_0.5, "),
        (("--scale", "0"), "--scale 0 is out of range"),
        (("--scale", "nan"), "--scale nan is out of range"),
        (("--attempts", "0"), "--attempts 0 is out of range"),
    ],
)
def test_a_proof_that_cannot_be_made_is_refused(words: tuple[str, ...], said: str) -> None:
    assert said in not_made("proofs", *words)


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """Leaves this process a single CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize(
    "part", ["designs", "memory", "nginx", "counting", "layers", "proofs", "clients", "transactions"]
)
def test_one_cpu_is_too_few(part: str) -> None:
    assert "needs two CPUs" in not_made(part)
