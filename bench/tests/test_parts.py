"""The benchmarks run, in their smallest form, and print a figure for each; the figures are not judged."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

import pytest
from started import BENCH, bench, refusal, refused

import instructions
import layers
from thunderherd.engine.client import catalogue

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


def is_reason(row: str) -> bool:
    """Whether a row, or the rest of one, is words instead of figures: on a busy machine a window may fail."""
    return row.strip()[:1].isalpha()


def is_measured(row: str) -> bool:
    """Whether a row begins with a figure."""
    return row.strip()[:1].isdigit()


def numbers(row: str) -> list[str]:
    """The numbers in a row."""
    return re.findall(r"[0-9][0-9,.]*", row)


def test_reach_benchmark_prints_connections_and_their_memory() -> None:
    for _ in range(5):  # On a busy machine a window may be too short.
        printed = bench("reach", "--rounds", "1", "--connections", "60")
        if "too short on this machine" not in printed:
            break
    (ring,) = (each for each in catalogue().designs if each.name == "io_uring")
    for design in ("epoll", "io_uring"):
        seen = rows(printed, design)
        assert len(seen) == 2, printed
        for row in seen:
            # The back end, loads, connections, seconds, and KiB of four kinds; or why there are none.
            needs_ring = "io_uring" in (design, row.split()[0])
            assert len(row.split()) == 8 or (needs_ring and not ring.available), printed


@pytest.mark.thorough
def test_counting_benchmark_compares_counted_trials_with_uncounted_ones() -> None:
    words = ("--rounds", "2", "--duration", "60ms", "--counters", "page_faults", "system_calls,wakeups")
    printed = bench("counting", "epoll", *words)
    for name in ("nothing at all", "by default", "page_faults", "system_calls,wakeups"):
        [row] = rows(printed, name)
        assert FIGURE.search(row) or is_reason(row), printed
    costs = re.findall(r"^(\S.*):\n    epoll +(\S.*)$", printed, re.MULTILINE)
    by_rate = costs[:3]
    assert [name for name, _ in by_rate] == ["by default", "page_faults", "system_calls,wakeups"], printed
    assert not any(" to " in cost for _, cost in by_rate), "two rounds have no interval"
    reason = instructions.why_not()
    if reason is None:
        assert len(costs) == 7 and "nothing, again" in [name for name, _ in costs[3:]], printed
    else:
        assert len(costs) == 3 and printed.rstrip().endswith(reason), printed


@pytest.mark.thorough
@pytest.mark.skipif(layers.missing() is not None, reason="needs cargo")
def test_bare_loops_are_built_with_optimisation() -> None:
    assert layers.built().is_file()


def test_an_unknown_design_is_named() -> None:
    assert "'epol'" in refused(sys.executable, str(BENCH), "layers", "--design", "epol")


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (("frieze",), "unknown_proof", ("'frieze'", "freeze", "delay", "queue_0.3", "queue_0.5")),
        (("--scale", "0"), "bad_scale", ("--scale 0 ",)),
        (("--scale", "nan"), "bad_scale", ("--scale nan ",)),
        (("--attempts", "0"), "bad_attempts", ("--attempts 0 ",)),
    ],
)
def test_a_proof_that_cannot_be_made_is_refused(
    words: tuple[str, ...], code: str, facts: tuple[str, ...]
) -> None:
    error = refusal("proofs", *words)
    assert error.codes == (f"bench.{code}",)
    assert [fact for fact in facts if fact not in str(error)] == []


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """Leaves this process a single CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_cpu")
@pytest.mark.parametrize("part", ["reach", "counting", "layers", "proofs"])
def test_one_cpu_is_too_few(part: str) -> None:
    assert refusal(part).codes == ("bench.one_cpu",)
