"""How much better one contender is than another: percent below twice, a factor from there on."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.show.sentences.leads import Lead

CPU, RATE, P99 = "server_cpu_per_request", "requests_per_second", "latency_p99_seconds"


@pytest.mark.parametrize(
    ("metric", "ratio", "amount", "interval"),
    [
        (CPU, 1.25, "20 % less", "17 to 23 %"),
        (P99, 1.25, "20 % lower", "17 to 23 %"),
        (RATE, 1.25, "25 % more", "20 to 30 %"),
        (RATE, 1.999, "100 % more", "95 to 105 %"),
        (CPU, 2.02, "2.0 times", "2.0 to 2.1"),
        (RATE, 2.345, "2.3 times", "2.3 to 2.4"),
        (CPU, 35.2, "35 times", "35 to 35"),
        (CPU, 0.98, "−2.0 % less", "−7.5 to 2.9 %"),
    ],
)
def test_percent_below_twice_and_a_factor_from_there_on(
    metric: str, ratio: float, amount: str, interval: str
) -> None:
    lead = Lead(metric, "a", "b", ratio, ratio - 0.05, ratio + 0.05)
    assert (lead.amount, lead.interval) == (amount, interval)


@pytest.mark.parametrize(("low", "is_factor"), [(0.49, True), (0.51, False), (None, False)])
def test_an_interval_that_begins_below_a_half_has_factors(low: float | None, is_factor: bool) -> None:
    """Percentages of such an interval are below −100 %."""
    lead = Lead(P99, "a", "b", 1.1, low, 3.2)
    assert lead.is_factor == is_factor
    assert ("%" in lead.in_short()) != is_factor and ("−" in lead.interval) == (low == 0.51)


def test_open_intervals_have_their_known_end() -> None:
    ends = [(None, None), (1.1, None), (None, 1.5)]
    found = [Lead(RATE, "a", "b", 1.3, low, high).interval for low, high in ends]
    assert re.findall(r"\d+", " ".join(found)) == ["10", "50"] and len({*found}) == 3


@given(ratio=st.floats(0.2, 50), metric=st.sampled_from((CPU, RATE, P99)), wide=st.floats(0.001, 0.1))
def test_both_names_the_amount_and_the_interval_are_in_the_sentence(
    ratio: float, metric: str, wide: float
) -> None:
    lead = Lead(metric, "first_one", "other_one", ratio, ratio * (1 - wide), ratio * (1 + wide))
    for said in (
        lead.in_words("has {} of it"),
        lead.over_the_next(named=True),
        f"first_one {lead.in_short()}",
    ):
        assert all(text in said for text in ("first_one", "other_one", lead.amount, lead.interval)), said
