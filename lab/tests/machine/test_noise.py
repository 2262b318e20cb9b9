"""Noise: the arithmetic with canned clocks, the readings on this machine."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.machine import noise
from thunderherd.machine.tcp_sockets import OWN_NETWORK, TcpCounts
from thunderherd.records.summary import Noise

LIMITS = SimpleNamespace(steal_percent=5, others_percent=15)

STAT = """\
cpu  100 20 30 4000 50 6 7 80 9 1
cpu0 50 10 15 2000 25 3 3 40 5 0
cpu1 50 10 15 2000 25 3 4 40 4 1
intr 1
"""

START = noise.Sample(
    monotonic=100.0, cpus=2, tasks=10.0, interrupts=1.0, steal=3.0, own=1.0, children=5.0, supervisor=0.0,
    throttled=4,
)  # fmt: skip


@pytest.fixture(autouse=True)
def known_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "interrupt_time_is_apart", lambda: False)
    monkeypatch.setattr(noise, "sampling_rate", lambda: 100)


def made(**changes: float) -> Noise:
    """The noise of ten seconds on two CPUs in which the clocks advanced by `changes`."""
    values = {name: getattr(START, name) + change for name, change in changes.items() if name != "server"}
    return noise.between(
        START, replace(START, monotonic=110.0, **values), server_seconds=changes.get("server", 0)
    )


def test_proc_stat_is_read_by_its_columns() -> None:
    ticks = noise.TICKS_A_SECOND
    assert noise.parse_stat(STAT) == (2, 150 / ticks, 13 / ticks, 80 / ticks)


def test_soft_interrupts_are_counted_per_cpu() -> None:
    ticks = noise.TICKS_A_SECOND
    assert noise.softirq_seconds(STAT) == (3 / ticks, 4 / ticks)
    before = replace(START, softirqs=(1.0, 2.0), tcp=TcpCounts(7, 3, 4))
    after = replace(START, monotonic=110.0, softirqs=(1.5, 2.0), tcp=TcpCounts(9, 3, 5))
    found = noise.between(before, after, server_seconds=0)
    assert (found.softirq_seconds, found.retransmitted) == ([0.5, 0.0], 2)
    assert (found.retransmitted_syns, found.dropped_connections) == (0, 1)
    unknown = noise.between(START, after, server_seconds=0)
    assert unknown.retransmitted is None and unknown.dropped_connections is None


def test_what_was_sent_again_is_that_of_the_networks() -> None:
    here = noise.sample(networks=(OWN_NETWORK,))
    assert here.tcp is not None and len(here.softirqs) == here.cpus
    twice = noise.sample(networks=(OWN_NETWORK, OWN_NETWORK))
    assert twice.tcp is not None and twice.tcp.segments >= 2 * here.tcp.segments
    assert noise.sample().tcp is None


def test_shares_are_of_all_cpus() -> None:
    found = made(tasks=12.0, interrupts=1.0, steal=0.8, own=0.5, children=4.0, supervisor=0.25, server=6.25)
    assert found.steal_share == pytest.approx(0.8 / 20)
    assert found.foreign_share == pytest.approx((13.0 - 11.0) / 20)
    assert found.machine_busy_seconds == pytest.approx(13.0)
    assert found.wall_seconds == pytest.approx(10.0)
    # Two standard deviations of 2000 looks at a machine that is busy 65 % of the time.
    assert found.foreign_uncertainty == pytest.approx(2 * math.sqrt(0.65 * 0.35 / 2000))


def test_interrupts_count_only_where_tasks_are_charged_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "interrupt_time_is_apart", lambda: True)
    assert made(tasks=2.0, interrupts=1.0).foreign_share == pytest.approx(2.0 / 20)


def test_clocks_that_disagree_give_no_negative_noise() -> None:
    assert made(tasks=1.0, server=1.5).foreign_share == 0.0


def test_noise_shares_are_at_most_one() -> None:
    """A tick can be longer than a measurement of a few milliseconds."""
    before, after = START, replace(START, monotonic=100.004, tasks=10.02, steal=3.01)
    found = noise.between(before, after, server_seconds=0)
    assert (found.foreign_share, found.steal_share) == (1.0, 1.0)
    assert noise.loudness(found, SimpleNamespace(steal_percent=100, others_percent=100)) <= 1


def test_loudness_is_a_multiple_of_what_is_allowed() -> None:
    quiet = made()
    assert noise.loudness(quiet, LIMITS) == 0.0
    assert noise.describe(quiet, LIMITS) == ""
    stolen = made(steal=2.0)
    assert noise.loudness(stolen, LIMITS) == pytest.approx(2.0)
    found = noise.describe(stolen, LIMITS)
    assert found.startswith("10% ") and found.endswith("(allowed: 5 %)")
    little = stolen.model_copy(update={"steal_share": 0.0028})
    strict = SimpleNamespace(steal_percent=0.05, others_percent=15)
    assert noise.describe(little, strict).startswith("0.28% ")
    others = made(tasks=8.0)
    assert noise.loudness(others, LIMITS) == pytest.approx(
        100 * (others.foreign_share - others.foreign_uncertainty) / 15
    )
    assert noise.describe(others, LIMITS).startswith("40% ")


def test_uncertainty_of_the_clock_is_no_noise() -> None:
    brief = Noise(
        steal_share=0.0, foreign_share=0.17, foreign_uncertainty=0.03, wall_seconds=0.2,
        machine_busy_seconds=0.1, throttled=0,
    )  # fmt: skip
    assert noise.loudness(brief, LIMITS) < 1
    assert noise.loudness(brief.model_copy(update={"foreign_uncertainty": 0.01}), LIMITS) > 1


def test_a_throttled_trial_is_noisy_whatever_the_limits() -> None:
    found = made(throttled=1)
    assert noise.loudness(found, SimpleNamespace(steal_percent=100, others_percent=100)) == math.inf
    assert noise.describe(found, LIMITS).startswith("throttled 1 ")


def test_limit_of_zero_rejects_any_noise() -> None:
    strict = SimpleNamespace(steal_percent=0, others_percent=0)
    assert noise.loudness(made(), strict) == 0.0
    assert noise.loudness(made(steal=0.01), strict) == math.inf


@given(st.floats(0, 20), st.floats(0, 20), st.floats(0, 20))
def test_noise_shares_are_between_zero_and_one(tasks: float, server: float, steal: float) -> None:
    found = noise.between(
        START, replace(START, monotonic=110.0, tasks=10 + tasks, steal=3 + steal), server_seconds=server
    )
    assert 0 <= found.foreign_share <= 1
    assert 0 <= found.steal_share <= 1
    assert 0 <= found.foreign_uncertainty <= 1


# This machine


def test_cpu_time_of_other_processes_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process outside the sample, busy for 0.3 s of CPU time, is another; our own work is not."""
    monkeypatch.undo()
    done, report = os.pipe()
    before = noise.sample()
    child = os.fork()
    if child == 0:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        os.write(report, b".")
        signal.pause()
    assert os.read(done, 1) == b"."
    running = noise.sample()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)  # from now on it is one of our ended children
    reaped = noise.sample()
    others, known = (noise.between(before, after, 0) for after in (running, reaped))
    assert others.foreign_share * others.wall_seconds * running.cpus > 0.1
    assert known.foreign_share < others.foreign_share


def test_cpu_time_of_an_ended_process_is_zero() -> None:
    assert noise.process_cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert noise.process_cpu_seconds(child) == 0.0
