"""The machine limits: medians with intervals, derived prices, the table."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from made.shown.tables import by_name
from rich.console import Console

from thunderherd.cli.main import run_command
from thunderherd.engine.catalogue import Limit
from thunderherd.engine.limit_lines import LimitRound, Limits, LimitUnavailable
from thunderherd.engine.line_base import Place
from thunderherd.machine.limits import machine_limits
from thunderherd.records.limits import MachineLimits
from thunderherd.show.tables.limits import limits_table, size_in_words
from thunderherd.show.terminal.limits import print_limits
from thunderherd.statistics.samples import median_estimate

HEAD = Limits.model_validate(
    {
        "line": "limits",
        "schema": 4,
        "cpus": [0, 1],
        "settings": {"rounds": 6, "duration": 100_000_000, "seed": 1},
    }
)
LISTED = [
    Limit(name="pipe_transfer", summary="through a pipe", figure="nanoseconds"),
    Limit(name="pipe_round_trip", summary="there and back", figure="nanoseconds"),
    Limit(name="memcpy", summary="copied", figure="bytes_per_second", sizes=(64, 1 << 20)),
]


def rounds(
    limit: str, each: list[float], *, place: Place = "one_cpu", size: int | None = None, times: int = 10
) -> list[LimitRound]:
    """Rounds in which one operation took these nanoseconds."""
    return [
        LimitRound(
            limit=limit,
            place=place,
            bytes=size,
            round=number,
            times=times,
            elapsed_ns=round(times * one),
            page_faults=0,
        )
        for number, one in enumerate(each, start=1)
    ]


def some_limits() -> MachineLimits:
    lost = LimitUnavailable(limit="memcpy", place="one_cpu", bytes=1 << 20, reason="Cannot allocate memory")
    return machine_limits(
        [
            HEAD,
            *rounds("memcpy", [2.0] * 5 + [4.0], size=64),
            lost,
            *rounds("pipe_round_trip", [5000, 5100, 5200, 5300, 5400, 9000]),
            *rounds("pipe_round_trip", [45_000, 46_000, 44_000, 47_000, 45_500, 90_000], place="two_cpus"),
            *rounds("pipe_transfer", [1000, 1010, 1020, 1030, 1040, 1500]),
        ],
        LISTED,
    )


@pytest.mark.parametrize(
    ("n", "k"),
    # Tables of the confidence interval of a median, such as that of Hollander and Wolfe (sign test) at 95 %.
    [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (31, 10), (50, 18)],
)
def test_the_interval_of_a_median_is_of_these_order_statistics(n: int, k: int) -> None:
    shuffled = np.random.default_rng(n).permutation(np.arange(1, n + 1))
    found = median_estimate(shuffled)
    assert (found.value, found.low, found.high, found.n) == ((n + 1) / 2, k, n + 1 - k, n)
    missed = 2 * sum(math.comb(n, below) for below in range(k)) / 2**n
    assert found.confidence == pytest.approx(1 - missed)
    assert missed <= 0.05 < missed + 2 * math.comb(n, k) / 2**n, "the narrowest that holds its word"


@pytest.mark.parametrize("n", range(1, 6))
def test_a_few_rounds_give_a_median_and_no_bounds(n: int) -> None:
    found = median_estimate(range(n))
    assert (found.value, found.low, found.high, found.confidence) == ((n - 1) / 2, None, None, 1.0)


def test_interval_of_a_median_has_the_stated_coverage() -> None:
    generator, held = np.random.default_rng(1), 0
    for _ in range(4000):
        found = median_estimate(generator.exponential(size=21))
        assert found.low is not None and found.high is not None
        held += found.low <= math.log(2) <= found.high
    assert 0.95 <= held / 4000 <= 0.985  # 97.3 % by arithmetic


@pytest.mark.parametrize("wrong", [[], [1.0, math.nan], [math.inf], [[1.0]]])
def test_a_median_is_of_finite_numbers(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        median_estimate(wrong)
    with pytest.raises(ValueError, match="confidence"):
        median_estimate([1.0], 1.0)


def test_figures_are_medians_in_the_order_of_the_catalogue() -> None:
    limits = some_limits()
    assert [(each.limit, each.place, each.bytes) for each in limits.figures] == [
        ("pipe_transfer", "one_cpu", None),
        ("pipe_round_trip", "one_cpu", None),
        ("pipe_round_trip", "two_cpus", None),
        ("memcpy", "one_cpu", 64),
        ("process_switch", "one_cpu", None),
        ("remote_wake_up", "two_cpus", None),
    ]
    trip = limits.figure("pipe_round_trip")
    assert trip is not None
    assert (trip.value, trip.low, trip.high, trip.best, trip.rounds) == (5250, 5000, 9000, 5000, 6)
    copied = limits.figure("memcpy", bytes=64)
    assert copied is not None
    assert (copied.unit, copied.value, copied.best) == ("bytes_per_second", 32e9, 32e9)
    assert copied.low == 16e9, "more is better, and the slowest round is the lowest"
    assert limits.figure("memcpy", bytes=128) is None
    assert [each.reason for each in limits.unavailable] == ["Cannot allocate memory"]


def test_derived_limits_are_computed_round_by_round() -> None:
    switch = some_limits().figure("process_switch")
    assert switch is not None and switch.derived
    # Half of each round trip less the transfer of the same round: 1500, 1540, 1580, 1620, 1660, 3000.
    assert (switch.value, switch.low, switch.high) == (1600, 1500, 3000)
    assert switch.best is None, "the least difference is one of a transfer that was slowed down"
    alone = machine_limits([HEAD, *rounds("pipe_round_trip", [5000])], LISTED)
    assert [each.limit for each in alone.figures] == ["pipe_round_trip"], "without a transfer nothing follows"
    apart = machine_limits(
        [HEAD, *rounds("pipe_round_trip", [5000]), *rounds("pipe_transfer", [1, 1000])[1:]], LISTED
    )
    assert not any(each.derived for each in apart.figures), "they have no round in common"


def test_unknown_or_incomplete_lines_are_refused() -> None:
    with pytest.raises(ValueError):
        machine_limits(rounds("memcpy", [1.0], size=64), LISTED)
    with pytest.raises(ValueError, match="nothing_known"):
        machine_limits([HEAD, *rounds("nothing_known", [1.0])], LISTED)


def test_the_page(golden: Callable[[str, str], None]) -> None:
    stream = io.StringIO()
    print_limits(some_limits(), Console(file=stream, width=80, highlight=False))
    golden("pages/limits.txt", stream.getvalue())


def test_the_table_fits_a_narrow_terminal() -> None:
    stream = io.StringIO()
    print_limits(some_limits(), Console(file=stream, width=60, highlight=False))
    assert max(map(len, stream.getvalue().splitlines())) <= 60
    assert "45.8" in stream.getvalue()


@pytest.mark.parametrize(
    ("size", "words"),
    [(1, "1 B"), (1000, "1,000 B"), (1 << 10, "1 KiB"), (1 << 26, "64 MiB"), (1536, "1,536 B")],
)
def test_sizes_have_binary_units(size: int, words: str) -> None:
    assert size_in_words(size) == words


def test_units_of_times_follow_their_size() -> None:
    def unit(nanoseconds: float) -> tuple[str, str]:
        found = machine_limits([HEAD, *rounds("pipe_transfer", [nanoseconds], times=1000)], LISTED)
        (row, *_) = by_name(limits_table(found)).values()
        return row["Median"].value, row["Unit"].value

    assert unit(21.5) == ("21.5", "ns")
    assert unit(999) == ("999", "ns")
    assert unit(1000) == ("1.00", "µs")
    assert unit(2_500_000) == ("2.50", "ms")


# The command ------------------------------------------------------------------------------------------------


def test_the_command_measures_on_this_machine(use_engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["limits", "--json", "--duration", "100ms", "--rounds", "2"]
    assert run_command([*words, "--cpus", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))]) == 0
    found = MachineLimits.model_validate_json(capsys.readouterr().out)
    assert {each.rounds for each in found.figures} == {2}
    assert all(each.value > 0 for each in found.figures if not each.derived)
    assert found.figure("system_call") is not None
    assert [each.bytes for each in found.sizes("memcpy")] == [4**power for power in range(3, 14)]
    assert all(each.low is None for each in found.figures), "two rounds bound nothing"


def test_the_command_prints_a_table(use_engine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["limits", "clock_read", "memcpy", "--duration", "50ms", "--rounds", "6"]) == 0
    text = capsys.readouterr().out
    assert (
        "clock_read" in text and "64 MiB" in text and "GB/s" in text and "pipe" not in text.split("memcpy")[1]
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["memcpi"], "'memcpy'"),
        (["--cpus", "0,x"], "0,x"),
        (["--cpus", "0,0"], "0,0"),
        (["--cpus", "4096"], "4096"),
        (["--rounds", "0"], "--rounds"),
        (["--duration", "soon"], "--duration"),
        (["--roundz", "3"], "--rounds"),
    ],
)
def test_invalid_options_are_refused_with_a_hint(
    words: list[str], said: str, use_engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["limits", *words]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("thunderherd: ") == 1 and said in written.err


def test_a_failure_of_the_engine_is_reported(
    fake_engine: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine("no_limits")
    assert run_command(["limits"]) == 1
    assert capsys.readouterr().err
    fake_engine()
    assert run_command(["limits", "--json"]) == 0
    assert [each["limit"] for each in json.loads(capsys.readouterr().out)["figures"]] == [
        "fork_exit_wait",
        "tcp_connection",
    ]
