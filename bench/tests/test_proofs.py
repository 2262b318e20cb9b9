"""The proofs of the load generator, in a short form with wider tolerances, and how an attempt counts.

`python bench proofs` makes them at full length. Here an attempt is rejected by what others do with the
machine meanwhile, never by its result; where all are, the test is skipped.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

import proofs
from proofs import Outcome, Quiet, decided
from proving import trials
from proving.trials import Attempt, Finding
from thunderherd.engine.client import Server, start_load
from thunderherd.errors import UserError
from thunderherd.machine import noise
from thunderherd.records.summary import Noise
from thunderherd.statistics.histograms import merged

ATTEMPTS = 3
LIMITS = Quiet(steal_percent=3, others_percent=10)
OF_A_QUEUE = Quiet(steal_percent=proofs.QUEUE_STEAL_PERCENT, others_percent=3)
"""In one pause of 75 ms, 3 % of its time, so many come that all of its waits are half as long again."""

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one for the server and one for its clients"
)

needs_quiet_cpus = pytest.mark.alone(
    "it compares times of replies with known ones, and other programs on the CPUs lengthen these times"
)


def proved(outcome: Outcome) -> list[Finding]:
    """Prints and returns the findings of the accepted attempt; skips the test if there is none."""
    proofs.show(outcome)
    if outcome.attempt is None:
        pytest.skip(f"the machine was not quiet: {'; '.join(outcome.disturbed)}")
    return outcome.attempt.findings


@needs_two_cpus
@needs_quiet_cpus
@pytest.mark.usefixtures("use_engine")
def test_open_load_sees_stalls_in_full_and_closed_load_misses_them() -> None:
    found = proved(decided(lambda seed: trials.freeze(0.1, seed, 0.1), ATTEMPTS, LIMITS))
    judged = {each.what: each for each in found if each.tolerance is not None}
    assert list(judged) == ["open: 99% within"]
    assert all(each.holds for each in judged.values()), judged
    by_the_open, by_the_closed = found[-2:]
    assert by_the_closed.measured < 1 < by_the_open.measured, "percent of requests that are slow"


@needs_two_cpus
@needs_quiet_cpus
@pytest.mark.usefixtures("use_engine")
def test_known_delay_is_measured_correctly() -> None:
    found = proved(decided(lambda seed: trials.delay(0.1, seed, 0.05), ATTEMPTS, LIMITS))
    assert found[0].holds, found


@needs_two_cpus
@needs_quiet_cpus
@pytest.mark.usefixtures("use_engine")
def test_waits_match_the_formula_of_the_queue() -> None:
    attempt = partial(trials.queue, 0.2, utilisation=0.5, tolerance=0.15)
    (found,) = proved(decided(attempt, ATTEMPTS, OF_A_QUEUE))
    # Five standard errors: the tolerance, which sets the number of requests, is three of them.
    assert abs(found.deviation) < 0.25, found


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(
    ("design", "settings"), [("epoll", {}), ("prefork", {"pool": 4}), ("epoll_offload", {}), ("tokio", {})]
)
def test_stall_stops_the_whole_server_of_every_design(design: str, settings: dict[str, int]) -> None:
    """A stall stops all workers of the server, so every client has one slow request in each stall."""
    stalls = {"stall": 150_000_000, "stall_every": 300_000_000}
    clients = 4
    client: dict[str, int | str] = {
        "clients": clients,
        "connections": "kept",
        "duration": 1_200_000_000,
        "bytes": 10,
    }
    with Server(design, workload="bytes", settings={**settings, **stalls}) as server:
        load = start_load("bytes", server.ready.address, kind="closed_connections", settings=client)
        try:
            result = load.wait(60)
        finally:
            load.end()
    assert not result.tally.errors, result.first_error
    assert result.window is not None and result.latency is not None and result.latency.histogram
    slow = trials.beyond(merged([result.latency.histogram]), 100) * result.window.requests
    # At least three whole stalls are in 1.2 s; one that a busy machine wakes late is caught by less of one.
    assert slow >= 2 * clients, slow
    assert result.window.requests > 3 * slow, "between stalls it serves"


@pytest.mark.usefixtures("use_engine")
def test_a_stall_that_never_ends_is_refused() -> None:
    stalls = {"stall": 300_000_000, "stall_every": 300_000_000}
    with (
        pytest.raises(UserError, match=r"--stall-every .*300") as refusal,
        Server("epoll", workload="bytes", settings=stalls),
    ):
        pass
    assert refusal.value.codes == ("stall.too_long",)


def made(*shares: float) -> list[Noise]:
    """What the machine does, look by look: before an attempt, then during it."""
    return [
        Noise(steal_share=0, foreign_share=share, wall_seconds=1, machine_busy_seconds=share, throttled=0)
        for share in shares
    ]


@pytest.mark.parametrize(
    ("shares", "counts", "tried"),
    [
        ((0.0, 0.0), 0, 1),
        ((0.0, 0.5, 0.0, 0.0), 1, 2),
        ((0.5, 0.0, 0.0), 1, 1),
        ((0.0, 0.5, 0.5, 0.0, 0.5), None, 2),
    ],
)
def test_the_first_attempt_on_a_quiet_machine_counts(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[float, ...], counts: int | None, tried: int
) -> None:
    looks = iter(made(*shares))
    monkeypatch.setattr(noise, "between", lambda *_: next(looks))
    monkeypatch.setattr(proofs, "LOOK_SECONDS", 0)
    numbers: list[int] = []

    def attempt(number: int) -> Attempt:
        numbers.append(number)
        return Attempt([Finding("of no use", 1.0, 2.0, "", 0.01)], [])

    outcome = decided(attempt, 3, Quiet(1, 3))
    assert len(numbers) == tried
    if counts is None:
        assert outcome.attempt is None and outcome.holds is None and len(outcome.disturbed) == 3
        assert "other processes" in outcome.disturbed[0]
    else:
        assert numbers[-1] == counts and len(outcome.disturbed) == counts
        assert outcome.holds is False, "it counts although it does not hold"


def test_a_finding_holds_within_its_tolerance_and_is_printed_with_it() -> None:
    assert Finding("p99", 100, 101.9, "ms", 0.02).holds is True
    assert Finding("p99", 100, 97.9, "ms", 0.02).holds is False
    assert Finding("beside", 100, 300, "ms").holds is None
    line = proofs.row(Finding("p99", 50, 50.9, "ms", 0.02))
    assert line.split() == ["p99", "50.000", "ms", "50.900", "ms", "1.80", "%", "2", "%", "holds"]
