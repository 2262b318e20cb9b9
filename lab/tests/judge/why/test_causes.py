"""The difference of two contenders by cause: known counts at known prices, and missing ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

import pytest
from made.shown.tables import rows

from thunderherd.judge.why import causes
from thunderherd.judge.why.causes import (
    NOT_DIVIDED,
    SWITCHES_OF_PROC,
    UNKNOWN_KIND,
    explain,
)
from thunderherd.judge.why.side import NO_CONNECTION
from thunderherd.records.explanation import Cause, Difference, Explanation, Range
from thunderherd.records.extra_trials import ContenderCounts, Count, SideCounts
from thunderherd.records.limits import LimitFigure, LimitReason, MachineLimits
from thunderherd.show.sentences.explanation import (
    SWITCHES_ALONE,
    WITHIN_CALLS,
    calls_that_differ,
    how_often,
    legend,
    reasons,
    sentence,
)
from thunderherd.show.tables.explanation import causes_table
from thunderherd.show.tables.model import Cell

MICROSECOND = 1e-6


def figure(
    limit: str, value: float, low: float | None = None, high: float | None = None, **more: object
) -> LimitFigure:
    return LimitFigure.model_validate(
        {
            "limit": limit, "place": "one_cpu", "bytes": None, "unit": "nanoseconds", "value": value,
            "low": low, "high": high, "confidence": 0.95, "rounds": 31, "best": value, **more,
        }
    )  # fmt: skip


def limits(*without: str) -> MachineLimits:
    """An empty call costs 0.2 µs, a switch 5, a fault 1, a thread 20, a process 100 with 20 faults.

    Copying 4 KiB runs at 10 GB/s.
    """
    every = [
        figure("system_call", 200, 190, 220),
        figure("process_switch", 5_000),
        figure("page_fault", 1_000),
        figure("fork_exit_wait", 100_000, 90_000, 120_000, page_faults=20),
        figure("thread_creation", 20_000),
        figure("memcpy", 10e9, bytes=4096, unit="bytes_per_second"),
    ]
    reasons = [LimitReason(limit=name, place="one_cpu", bytes=None, reason="forbidden") for name in without]
    kept = [each for each in every if each.limit not in without]
    return MachineLimits(cpus=[0], settings={}, figures=kept, unavailable=reasons)


def counts(
    name: str, unavailable: Mapping[str, str] | None = None, **of: float | tuple[float, float]
) -> ContenderCounts:
    """Return a contender's counts per request; `calls_read` is system_calls.read."""
    found = {}
    for key, value in of.items():
        least, most = value if isinstance(value, tuple) else (value, value)
        each = Count(
            per_request=(least + most) / 2, least=least, most=most, per_byte=(least + most) / 2 / 4000
        )
        found[key.replace("calls_", "system_calls.")] = each
    side = SideCounts(counts=found, unavailable=dict(unavailable or {}))
    return ContenderCounts(
        contender=name, trials=1, requests=1000, requests_per_connection=2.0, sides={"server": side}
    )


NOTHING = {"wakeups": 0, "context_switches": 0, "page_faults": 0}
MOVED = {"bytes_copied": 4096, "bytes_sent": 4096, "bytes_received": 0, "send_calls": 1, "receive_calls": 0}
LEAN = counts("lean", system_calls=3, calls_read=3, **NOTHING, **MOVED)


def between(value: float, low: float | None = None, high: float | None = None) -> Difference:
    """Return a difference in microseconds."""
    ends = [None if each is None else each * MICROSECOND for each in (low, high)]
    return Difference(
        a=(value + 50) * MICROSECOND, b=50 * MICROSECOND, value=value * MICROSECOND,
        low=ends[0], high=ends[1], confidence=0.95, blocks=11,
    )  # fmt: skip


def amounts(explanation: Explanation) -> dict[str, float | None]:
    """Return microseconds by cause; None if it has no amount."""
    return {
        each.cause: None if each.amount is None else round(each.amount.value / MICROSECOND, 6)
        for each in explanation.causes
    }


def cause(explanation: Explanation, name: str) -> Cause:
    (found,) = [each for each in explanation.causes if each.cause == name]
    return found


def has(text: str, *parts: str) -> bool:
    """Return whether the text has all of these, in this order."""
    return re.search(".*".join(map(re.escape, parts)), text) is not None


def test_process_price_includes_its_calls_faults_and_switches() -> None:
    forks = counts(
        "forks", system_calls=3 + 1 + 3 + 2, calls_read=3, calls_clone=1, calls_exit_group=1, calls_close=2,
        calls_wait4=1, calls_set_robust_list=1, wakeups=3, context_switches=3, page_faults=50, **MOVED,
    )  # fmt: skip
    found = explain(forks, LEAN, limits(), between(150, 140, 165))
    # The last switch of the ending process is not among the three; its price includes two and a wake-up.
    assert amounts(found) == {
        "processes": 100, "page_faults": 30, "switches_and_wakeups": 10, "system_calls": 0.4,
        "threads": 0, "copies": 0, "rest": 9.6,
    }  # fmt: skip
    assert (cause(found, "page_faults").a, cause(found, "system_calls").a) == (30, 5)
    items = {each.name: (each.a, each.b, each.priced) for each in cause(found, "system_calls").items}
    assert items["close"] == (2, 0, True) and items["clone"] == (1, 0, False) and "read" not in items
    assert found.causes[-1].cause == "rest" and found.causes[0].cause == "processes"
    text = sentence(found)
    parts = (
        "forks",
        "150 µs",
        "lean",
        "95 %",
        "140 to 165",
        "100 µs",
        "1 more process",
        "30 µs",
        "30 more page faults",
    )
    assert has(text, *parts, "10 µs", "2 more switches", "10 µs") and text.endswith(f"{WITHIN_CALLS}.")


def test_threads_and_processes_are_distinguished_by_how_they_end() -> None:
    threads = counts(
        "threads", system_calls=5, calls_read=3, calls_clone3=1, calls_exit=1, **NOTHING, **MOVED
    )
    found = explain(threads, LEAN, limits(), between(25))
    assert amounts(found)["threads"] == 20 and amounts(found)["processes"] == 0
    assert amounts(found)["system_calls"] == 0
    both = counts("both", system_calls=9, calls_clone=4, calls_exit=1, calls_exit_group=3, **NOTHING, **MOVED)
    mixed = explain(both, LEAN, limits(), between(400))
    assert (amounts(mixed)["processes"], amounts(mixed)["threads"]) == (300, 20)
    # In a whole life more tasks end than were created: its first process, too.
    life = counts(
        "life", system_calls=14, calls_read=3, calls_clone=1, calls_clone3=4, calls_exit=4,
        calls_exit_group=2, **NOTHING, **MOVED,
    )  # fmt: skip
    whole = explain(life, LEAN, limits(), between(400))
    assert (amounts(whole)["processes"], amounts(whole)["threads"]) == (100, 80)
    alone = counts("alone", system_calls=4, calls_read=3, calls_exit_group=1, **NOTHING, **MOVED)
    assert amounts(explain(alone, LEAN, limits(), between(1)))["processes"] == 0
    unknown = counts("unknown", system_calls=7, calls_clone=4, **NOTHING, **MOVED)
    told = explain(unknown, LEAN, limits(), between(400))
    assert amounts(told)["processes"] == 0
    assert cause(told, "processes").why == UNKNOWN_KIND.format(name="unknown")


def test_bounds_combine_counts_and_prices_and_the_rest_has_all() -> None:
    more = counts("more", system_calls=(13, 23), calls_read=(13, 23), **NOTHING, **MOVED)
    found = explain(more, LEAN, limits(), between(10, 7, 14))
    calls = cause(found, "system_calls").amount
    assert calls is not None
    assert [round(each / MICROSECOND, 6) for each in (calls.value, calls.low, calls.high)] == [3, 1.9, 4.4]
    rest = found.rest.amount
    assert rest is not None
    assert rest.value / MICROSECOND == pytest.approx(7)
    assert (rest.value - rest.low) / MICROSECOND == pytest.approx((3**2 + 1.4**2) ** 0.5)
    assert (rest.high - rest.value) / MICROSECOND == pytest.approx((4**2 + 1.1**2) ** 0.5)


def test_switch_may_be_paid_by_either_side() -> None:
    sleeps = counts(
        "sleeps", system_calls=3, calls_read=3, wakeups=1, context_switches=4, page_faults=0, **MOVED
    )
    amount = cause(explain(sleeps, LEAN, limits(), between(20)), "switches_and_wakeups").amount
    assert amount is not None
    assert [each / MICROSECOND for each in (amount.low, amount.value, amount.high)] == pytest.approx(
        [5, 12.5, 20]
    )


def test_the_larger_count_of_switches_is_taken() -> None:
    """/proc misses switches of short-lived threads; perf misses the last switch of each."""
    known = {"system_calls": 4, "calls_exit": 1, "wakeups": 0, "page_faults": 0, **MOVED}
    proc = counts("proc", voluntary_switches=1, involuntary_switches=0, context_switches=3, **known)
    switches = cause(explain(proc, LEAN, limits(), between(20)), "switches_and_wakeups").items[0]
    assert (switches.name, switches.a) == ("context switches", 4)
    without = counts("without", voluntary_switches=7, involuntary_switches=1, **known)
    switches = cause(explain(without, LEAN, limits(), between(20)), "switches_and_wakeups").items[0]
    assert switches.a == 8


def test_uncounted_cause_has_a_reason_and_is_in_the_rest() -> None:
    why = {"wakeups": "tracefs is not mounted", "system_calls": "perf_event_paranoid is 3"}
    blind = counts("blind", why, page_faults=10, context_switches=2, **MOVED)
    found = explain(blind, LEAN, limits(), between(30))
    assert amounts(found) == {
        "page_faults": 10, "processes": None, "threads": None, "system_calls": None,
        "switches_and_wakeups": 10, "copies": 0, "rest": 10,
    }  # fmt: skip
    why_switches = cause(found, "switches_and_wakeups").why or ""
    assert why_switches.endswith(f": {why['wakeups']}; {causes.SWITCHES_ALONE}")
    assert (cause(found, "system_calls").why or "").endswith(f": {why['system_calls']}")
    assert "including" in sentence(found) and "system calls" in sentence(found)
    assert f"switches without wake-ups: {why_switches}" in reasons([found])
    assert len(reasons([found])) == len({each.why for each in found.causes if each.why})
    left_out = counts("left_out", system_calls=3, calls_read=3, wakeups=0, context_switches=0, **MOVED)
    reason = cause(explain(left_out, LEAN, limits(), between(1)), "page_faults").why
    assert " page_faults" in (reason or "")


def test_unmeasured_price_has_a_reason() -> None:
    more = counts("more", system_calls=13, calls_read=13, **NOTHING, **MOVED)
    found = explain(more, LEAN, limits("system_call", "memcpy"), between(10))
    assert amounts(found)["system_calls"] is None and amounts(found)["copies"] is None
    assert has(cause(found, "system_calls").why or "", " system_call,", ": forbidden")
    assert amounts(found)["rest"] == 10


def test_copies_are_priced_in_blocks_as_large_as_their_calls() -> None:
    twice = {**MOVED, "bytes_copied": 8192, "bytes_received": 4096, "receive_calls": 1}
    found = explain(
        counts("twice", system_calls=3, calls_read=3, **NOTHING, **twice), LEAN, limits(), between(1)
    )
    assert amounts(found)["copies"] == pytest.approx(0.4096)
    nothing = {**MOVED, "bytes_copied": 0}
    spared = explain(
        counts("spared", system_calls=3, calls_read=3, **NOTHING, **nothing), LEAN, limits(), between(1)
    )
    assert amounts(spared)["copies"] == pytest.approx(-0.4096)


def test_per_byte_and_per_connection() -> None:
    more = counts("more", system_calls=13, calls_read=13, **NOTHING, **MOVED)
    by_connection = explain(more, LEAN, limits(), between(10), per="connection")
    assert amounts(by_connection)["system_calls"] == 4
    by_byte = explain(more, LEAN, limits(), between(10), per="byte")
    assert cause(by_byte, "system_calls").a == pytest.approx(13 / 4000)
    small = explain(more, LEAN, limits(), between(0.001), per="byte")
    assert re.search(r"\b2,500 .*system calls\b.*MB", sentence(small))
    assert "read 3,250 and 750" in calls_that_differ(by_byte)
    unopened = more.model_copy(update={"requests_per_connection": None})
    told = cause(explain(unopened, LEAN, limits(), between(10), per="connection"), "system_calls")
    assert told.amount is None and (told.why or "").endswith(f": {NO_CONNECTION}")


def test_calls_whose_shown_counts_are_equal_do_not_differ() -> None:
    more = counts("more", system_calls=13, calls_read=13, **NOTHING, **MOVED)
    found = explain(more, LEAN, limits(), between(10))
    calls = cause(found, "system_calls")
    (item,) = calls.items
    rare = item.model_copy(update={"name": "madvise", "a": 1e-7, "b": 3e-7})
    with_rare = calls.model_copy(update={"items": [item, rare]})
    causes_ = [with_rare if each is calls else each for each in found.causes]
    text = calls_that_differ(found.model_copy(update={"causes": causes_}))
    assert item.name in text and "madvise" not in text


@pytest.mark.parametrize("seed", range(60))
def test_causes_and_rest_add_up_and_swapping_sides_flips_signs(seed: int) -> None:
    draw = random.Random(seed)
    names = ["system_calls", "calls_read", "calls_clone", "calls_exit", "calls_exit_group", "calls_wait4"]
    names += ["wakeups", "context_switches", "voluntary_switches", "involuntary_switches", "page_faults"]
    pair = []
    for name in "ab":
        there = [each for each in [*names, *MOVED] if draw.random() < 0.9]
        of = {each: tuple(sorted((draw.uniform(0, 50), draw.uniform(0, 50)))) for each in there}
        pair.append(counts(name, **of))  # type: ignore[arg-type]
    value, missing = draw.uniform(-300, 300), draw.sample(["system_call", "memcpy", "page_fault"], k=1)
    priced = limits(*missing) if draw.random() < 0.3 else limits()
    found = explain(pair[0], pair[1], priced, between(value, value - 5, value + 9))
    total = sum(each.amount.value for each in found.causes if each.amount)
    assert total == pytest.approx(value * MICROSECOND, abs=1e-15)
    for each in found.causes:
        assert each.amount is None or each.amount.low <= each.amount.value <= each.amount.high
        assert (each.amount is None) <= (each.why is not None)
    turned = amounts(explain(pair[1], pair[0], priced, between(-value, -value - 9, -value + 5)))
    for name, amount in amounts(found).items():
        other = turned[name]
        assert amount == (None if other is None else pytest.approx(-other, abs=1e-5))
    assert sentence(found)


def connecting(name: str, requests_per_connection: float | None, calls: float) -> ContenderCounts:
    found = counts(name, system_calls=calls, calls_close=2 if requests_per_connection == 1 else 0)
    sides = {"server": found.sides["server"], "both": found.sides["server"]}
    return found.model_copy(update={"requests_per_connection": requests_per_connection, "sides": sides})


def test_connections_are_a_cause_if_one_contender_opens_more() -> None:
    anew, kept = connecting("anew", 1.0, 9), connecting("kept", None, 4)
    known = limits()
    priced = known.model_copy(update={"figures": [*known.figures, figure("tcp_connection", 50_000)]})
    both = explain(anew, kept, priced, between(60, 5), side="both")
    found = cause(both, "connections")
    assert (found.a, found.b) == (1.0, 0.0)
    assert found.amount is not None and found.amount.value == pytest.approx(50 * MICROSECOND)
    calls = cause(both, "system_calls")
    assert calls.a == pytest.approx(7) and calls.b == pytest.approx(4), (
        "both closes are in the connection's price"
    )
    assert re.search(r"\b50\.0 µs .*\b1 .*connection\b", sentence(both))
    server = cause(explain(anew, kept, priced, between(60, 5)), "connections")
    assert server.amount is None and server.why == NOT_DIVIDED
    assert cause(explain(anew, kept, priced, between(60, 5)), "system_calls").a == pytest.approx(9)
    for alike in (
        explain(anew, connecting("other", 1.0, 9), priced, between(60, 5), side="both"),
        explain(anew, connecting("ends of a window", 1.03, 9), priced, between(60, 5), side="both"),
        explain(anew, kept, priced, between(60, 5), side="both", per="connection"),
        explain(anew, kept, priced, between(60, 5), side="both", has_tcp=False),
    ):
        assert "connections" not in {each.cause for each in alike.causes}
    unmeasured = cause(explain(anew, kept, known, between(60, 5), side="both"), "connections")
    assert unmeasured.amount is None and " tcp_connection," in (unmeasured.why or "")


def test_sentence_names_the_explained_and_the_unexplained_part() -> None:
    found = explain(counts("a"), counts("b"), limits(), between(2, 1))
    assert "(connect, accept, close)" in " ".join(legend(found))
    assert sentence(found).endswith(f"{WITHIN_CALLS}.")


def test_network_code_of_profiles_is_shown_with_the_rest_and_is_no_cause() -> None:
    found = explain(counts("a"), counts("b"), limits(), between(-20, -22, -18))
    network = Range(value=-12 * MICROSECOND, low=-15 * MICROSECOND, high=-9 * MICROSECOND)
    told = found.model_copy(update={"network": network})
    text = sentence(told)
    without = sentence(found)
    assert without.endswith(f"{WITHIN_CALLS}.")
    assert text.startswith(without.removesuffix(f"{WITHIN_CALLS}.")) and WITHIN_CALLS not in text
    assert has(text, "12.0 µs", "9.0 to 15.0)")
    own, plain = rows(causes_table(told)), [*rows(causes_table(found))]
    names = [*own]
    assert names[-3:] == [plain[-2], names[-2], plain[-1]] and "network code" in names[-2]
    assert own[names[-2]][-1] == Cell("-12.0", "-15.0 to -9.0")
    assert told.rest == found.rest
    assert any("Network code" in line for line in legend(told))
    assert not any("Network code" in line for line in legend(found))


def test_bounds_of_ranges() -> None:
    one, other = Range(value=2, low=1, high=4), Range(value=-1, low=-3, high=2)
    assert (one - other).model_dump() == {"value": 3, "low": -1, "high": 7}
    assert (one * other).model_dump() == {"value": -2, "low": -12, "high": 8}
    assert other.at_least_zero().model_dump() == {"value": 0, "low": 0, "high": 2}


def test_an_undecided_difference_is_not_described_as_one() -> None:
    text = sentence(
        explain(LEAN, counts("other", system_calls=4, **NOTHING, **MOVED), limits(), between(-1, -3, 2))
    )
    assert has(text, "lean", "other", "-3.00 to 2.00")
    assert has(text, "): -0.20 µs", "1 fewer system call", "; -0.80 µs"), "they add up to what is told"


def test_few_blocks_give_a_difference_without_an_interval() -> None:
    other = counts("other", system_calls=13, **NOTHING, **MOVED)
    assert has(sentence(explain(LEAN, other, limits(), between(-5))), "lean", "5.00 µs", "other (11 blocks")
    few = " ".join(legend(explain(LEAN, other, limits(), between(-5))))
    assert " 11 blocks" in few and " 95 %" not in few
    enough = " ".join(legend(explain(LEAN, other, limits(), between(-5, -6, -4))))
    assert has(enough, " 95 %", " 11 blocks")


def test_a_lower_cost_is_described_from_the_side_that_needs_less() -> None:
    more = counts("more", system_calls=53, calls_read=53, **NOTHING, **MOVED)
    text = sentence(explain(LEAN, more, limits(), between(-12.3, -13.1, -11)))
    parts = ("lean", "12.3 µs", "more", "11.0 to 13.1", "10.0 µs", "50 fewer system calls", "2.3 µs")
    assert has(text, *parts, f"{WITHIN_CALLS}.")


def test_every_explanation_in_words(golden: Callable[[str, str], None]) -> None:
    """The wording of sentences, legends and reasons; the figures in them are asserted above."""
    other = counts("other", system_calls=13, **NOTHING, **MOVED)
    blind = counts("blind", {"system_calls": "perf_event_paranoid is 3"}, context_switches=2, **MOVED)
    forks = counts(
        "forks", system_calls=5, calls_clone=1, calls_exit_group=1, wakeups=3, context_switches=3,
        page_faults=50, **MOVED,
    )  # fmt: skip
    found = [
        explain(forks, LEAN, limits(), between(150, 140, 165)),
        explain(LEAN, other, limits(), between(-5)),
        explain(LEAN, other, limits(), between(-1, -3, 2)),
        explain(blind, LEAN, limits("memcpy"), between(30, 20, 40)),
        explain(counts("unknown", calls_clone=4, system_calls=7, **MOVED), LEAN, limits(), between(400)),
    ]
    pages = ["\n".join([sentence(each), *reasons([each])]) for each in found]
    pages += ["\n".join(legend(found[0])), "\n".join(legend(found[1])[-1:])]
    golden("explanation-sentences.txt", "\n\n".join(pages) + "\n")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1, "1"), (1.0004, "1"), (0.333, "0.333"), (49.06, "49.1"), (4005, "4,005")]
)
def test_how_often_in_words(value: float, text: str) -> None:
    assert how_often(value) == text


def test_without_wake_ups_the_switches_of_proc_are_explained_and_labelled() -> None:
    """As for an ordinary user, whom the kernel refuses its tracepoints and events."""
    refused = dict.fromkeys(("system_calls", "wakeups", "context_switches"), "it takes root")
    told = [
        counts(name, refused, voluntary_switches=each, involuntary_switches=1, page_faults=0, **MOVED)
        for name, each in (("many", 4), ("few", 1))
    ]
    found = explain(told[0], told[1], limits(), between(20, 18, 22))
    assert amounts(found)["switches_and_wakeups"] == 15
    (cause,) = [each for each in found.causes if each.cause == "switches_and_wakeups"]
    assert (cause.a, cause.b, cause.unit) == (5, 2, "switches")
    assert cause.why is not None and "it takes root" in cause.why
    assert cause.why.endswith(f"; {SWITCHES_OF_PROC}")
    assert "3 more switches" in sentence(found) and "wake-ups" not in sentence(found)
    assert SWITCHES_ALONE in rows(causes_table(found))
    assert any(text.startswith(f"{SWITCHES_ALONE}: ") for text in reasons([found]))
    with_perf = [each.model_copy(deep=True) for each in told]
    for each in with_perf:
        counted = each.sides["server"].counts
        counted["context_switches"] = counted["voluntary_switches"]
    found = explain(with_perf[0], with_perf[1], limits(), between(20))
    (cause,) = [each for each in found.causes if each.unit == "switches"]
    assert cause.why is not None and "/proc" not in cause.why
