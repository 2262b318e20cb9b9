"""The verdicts on a family, from p-values: by hand and by definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from thunderherd.statistics.verdicts import Finding, OneSided, holm, judge_family


def test_holm_by_hand() -> None:
    assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert_allclose(holm([0.5, 0.9, 0.01]), [1, 1, 0.03])
    assert holm([]) == []
    with pytest.raises(ValueError, match="between 0 and 1, got nan"):
        holm([0.1, math.nan])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_as_its_step_down_definition_does(p_values: list[float], alpha: float) -> None:
    ordered = sorted(p_values)
    steps = [p * (len(ordered) - i) <= alpha for i, p in enumerate(ordered)]
    rejected = len(ordered) if all(steps) else steps.index(False)
    assert sum(p <= alpha for p in holm(p_values)) == rejected


def test_holm_over_more_hypotheses_than_were_tested() -> None:
    assert holm([0.01, 0.04], family=4) == pytest.approx([0.04, 0.12])
    assert holm([], family=3) == []
    with pytest.raises(ValueError, match="family of 1"):
        holm([0.1, 0.2], family=1)


NONE = (0.5, 0.5)


@pytest.mark.parametrize(
    ("test", "finding"),
    [
        (OneSided(0.001, 0.999, *NONE), "less"),
        (OneSided(0.999, 0.001, *NONE), "more"),
        (OneSided(*NONE, 0.001, 0.002), "equivalent"),
        (OneSided(0.001, 0.999, 0.001, 0.002), "equivalent"),
        (OneSided(*NONE, 0.001, 0.5), "undecided"),
        (OneSided(0.03, 0.97, 0.03, 0.001), "undecided"),
    ],
)
def test_the_finding_on_one_ratio(test: OneSided, finding: Finding) -> None:
    (found,) = judge_family([test], 0.05)
    assert found.finding == finding
    assert found.p == pytest.approx(min(1, 2 * min(test.below_one, test.above_one)))


def test_a_finding_needs_more_in_a_larger_family() -> None:
    test = OneSided(0.01, 0.99, 0.99, 0.01)
    assert [judge_family([test], 0.05, family)[0].finding for family in (1, 2, 3)] == [
        "less",
        "less",
        "undecided",
    ]
    assert [each.p_adjusted for each in judge_family([test, test], 0.05)] == pytest.approx([0.04, 0.04])
