"""The pure functions of comparisons.py: by hand, by definition, and by invariances."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from thunderherd.statistics.comparisons import (
    Look,
    PairResult,
    block_order,
    compare_at_looks,
    compare_family,
    contrast,
    first_look_blocks,
    letters,
    planned_looks,
)
from thunderherd.statistics.samples import hodges_lehmann, signed_rank
from thunderherd.statistics.verdicts import Verdict, all_decided, holm, separated_pairs

# Order, looks


def test_block_order_never_changes() -> None:
    names = ["iterative", "fork_per_client", "prefork", "thread_per_client"]
    assert block_order(names, 7, 0) == ["fork_per_client", "thread_per_client", "prefork", "iterative"]
    assert block_order(names, 7, 1) == ["fork_per_client", "prefork", "thread_per_client", "iterative"]
    assert block_order(names[::-1], 7, 1) == block_order(names, 7, 1)


def test_block_order_is_a_fair_shuffle() -> None:
    seen = Counter(
        tuple(block_order(["a", "b", "c", "d"], seed, block)) for seed in range(8) for block in range(600)
    )
    assert len(seen) == 24
    expected = 8 * 600 / 24
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 60  # 23 degrees of freedom


def test_block_order_needs_different_names() -> None:
    with pytest.raises(ValueError, match="'a', 'a'"):
        block_order(["a", "a"], 1, 1)


@pytest.mark.parametrize(
    ("comparisons", "split", "blocks"),
    [(1, 1, 10), (45, 1, 11), (51, 1, 11), (52, 1, 12), (45, 0.2, 14), (10, 0.2, 11)],
)
def test_first_look_lets_holm_reject(comparisons: int, split: float, blocks: int) -> None:
    assert first_look_blocks(comparisons, 0.05, split) == blocks
    assert 2 ** (1 - blocks) * comparisons <= 0.05 * split
    assert blocks == 10 or 2 ** (2 - blocks) * comparisons > 0.05 * split


def test_first_look_refuses_an_empty_family() -> None:
    with pytest.raises(ValueError, match=r"\b0\b"):
        first_look_blocks(0, 0.05)


def test_planned_looks_spend_alpha() -> None:
    looks = planned_looks([14, 20, 40], 0.05, [0.2, 0.3, 0.5])
    assert [look.blocks for look in looks] == [14, 20, 40]
    assert [look.alpha for look in looks] == pytest.approx([0.01, 0.015, 0.025])


@pytest.mark.parametrize(
    ("blocks", "alpha", "split", "wrong"),
    [
        ([10, 20], 0.05, [1.0], r"\[10, 20\]"),
        ([10, 20], 0.05, [0.6, 0.6], r"0\.6, 0\.6"),
        ([20, 10], 0.05, [0.5, 0.5], "20, 10"),
        ([10], 5.0, [1.0], r"5\.0"),
    ],
)
def test_planned_looks_refuse_impossible_plans(
    blocks: list[int], alpha: float, split: list[float], wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        planned_looks(blocks, alpha, split)


# Verdicts


def costs(blocks: int, seed: int = 1, noise: float = 0.02, **ratios: float) -> dict[str, list[float]]:
    generator = np.random.default_rng(seed)
    return {name: list(ratio * np.exp(generator.normal(0, noise, blocks))) for name, ratio in ratios.items()}


def one(results: list[PairResult]) -> PairResult:
    (result,) = results
    return result


@pytest.mark.parametrize(
    ("ratio", "noise", "verdict"),
    [
        (0.8, 0.02, Verdict.FASTER),
        (1.25, 0.02, Verdict.SLOWER),
        (1.0, 0.01, Verdict.EQUIVALENT),
        (1.015, 0.005, Verdict.EQUIVALENT),  # significant, and small enough not to matter
        (1.0, 0.2, Verdict.UNDECIDED),
    ],
)
def test_the_four_verdicts(ratio: float, noise: float, verdict: Verdict) -> None:
    result = one(compare_family(costs(20, noise=noise, a=ratio, b=1.0), [("a", "b")]))
    assert result.verdict is verdict
    assert result.ratio == pytest.approx(ratio, rel=3 * noise)
    assert result.blocks == 20
    assert result.decided_at == (None if verdict is Verdict.UNDECIDED else 20)
    assert result.low is not None
    assert result.high is not None
    if ratio == 1.015:
        assert result.p_adjusted < 0.05
    if verdict is Verdict.EQUIVALENT:
        assert 1 / 1.03 < result.low < result.high < 1.03
    if verdict in (Verdict.FASTER, Verdict.SLOWER):
        assert not result.low <= 1 <= result.high


def test_larger_family_has_larger_p_values_and_wider_bounds() -> None:
    values = costs(11, noise=0.01, a=1.0, b=1.02, c=1.04, d=1.2)
    pairs = list(combinations(values, 2))
    alone, family = compare_family(values, [("a", "b")]), compare_family(values, pairs)
    assert family[0].p == alone[0].p
    assert family[0].p_adjusted >= alone[0].p_adjusted
    for result in family:
        assert result.simultaneous_low is not None
        assert result.simultaneous_high is not None
        assert result.low is not None
        assert result.high is not None
        assert (
            result.simultaneous_low <= result.low <= result.ratio <= result.high <= result.simultaneous_high
        )
    assert_allclose([result.p_adjusted for result in family], holm([result.p for result in family]))


def test_too_few_blocks_have_no_simultaneous_bounds() -> None:
    values = costs(10, a=1.0, b=1.0, c=1.0, d=1.0, e=1.0, f=1.0, g=1.0, h=1.0, i=1.0, j=1.0)
    result = compare_family(values, list(combinations(values, 2)))[0]
    assert result.low is not None
    assert (result.simultaneous_low, result.simultaneous_high) == (None, None)
    assert result.smallest_detectable_percent is None


tied_costs = st.integers(7, 14).flatmap(
    lambda blocks: st.fixed_dictionaries(
        {name: st.lists(st.integers(1, 12).map(float), min_size=blocks, max_size=blocks) for name in "abc"}
    )
)
ALL_PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


@given(tied_costs, st.randoms(use_true_random=False))
def test_the_order_of_the_blocks_does_not_matter(values: dict[str, list[float]], random: object) -> None:
    order = list(range(len(values["a"])))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = {name: [observed[i] for i in order] for name, observed in values.items()}
    assert compare_family(shuffled, ALL_PAIRS) == compare_family(values, ALL_PAIRS)


@given(tied_costs)
def test_swapping_a_pair_inverts_its_result(values: dict[str, list[float]]) -> None:
    opposite = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    turned = compare_family(values, [(b, a) for a, b in ALL_PAIRS])
    for forth, back in zip(compare_family(values, ALL_PAIRS), turned, strict=True):
        assert back.verdict is opposite.get(forth.verdict, forth.verdict)
        assert back.ratio == pytest.approx(1 / forth.ratio)
        assert (back.low, back.high) == (
            None if forth.high is None else pytest.approx(1 / forth.high),
            None if forth.low is None else pytest.approx(1 / forth.low),
        )
        assert back.p_adjusted == forth.p_adjusted
        assert back.p_equivalent_adjusted == forth.p_equivalent_adjusted


@given(st.integers(0, 1000), st.floats(1e-9, 1e9))
def test_the_unit_does_not_matter(seed: int, unit: float) -> None:
    values = costs(12, seed, noise=0.03, a=1.0, b=1.03, c=1.1)
    scaled = {name: [unit * cost for cost in observed] for name, observed in values.items()}
    pairs = zip(compare_family(values, ALL_PAIRS), compare_family(scaled, ALL_PAIRS), strict=True)
    for before, after in pairs:
        assert after.verdict is before.verdict
        assert after.ratio == pytest.approx(before.ratio)
        assert after.p_adjusted == pytest.approx(before.p_adjusted)


@given(st.integers(0, 10_000))
def test_verdict_never_contradicts_its_interval(seed: int) -> None:
    values = costs(20, seed, noise=0.01, a=1.0, b=1.01, c=1.025, d=1.04, e=1.1)
    for result in compare_family(values, list(combinations(values, 2))):
        assert result.low is not None
        assert result.high is not None
        if result.verdict is Verdict.FASTER:
            assert result.high < 1
        elif result.verdict is Verdict.SLOWER:
            assert result.low > 1
        elif result.verdict is Verdict.EQUIVALENT:
            assert 1 / 1.03 < result.low < result.high < 1.03


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"a": [1.0, 2.0], "b": [1.0, 0.0]}, "^b: .* 0.0 .* 1$"),
        ({"a": [1.0, -2.0], "b": [1.0, 1.0]}, "^a: .* -2.0 .* 1$"),
        ({"a": [math.nan, 2.0], "b": [1.0, 1.0]}, "^a: .* nan .* 0$"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "a 2, b 1"),
        ({"a": [], "b": [1.0]}, "^a: "),
        ({"a": [1.0]}, "^b: "),
    ],
)
def test_values_that_cannot_be_compared_name_the_contender(
    values: dict[str, list[float]], wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        compare_family(values, [("a", "b")])


def test_a_family_is_declared_without_repetition() -> None:
    values = costs(10, a=1.0, b=1.0)
    with pytest.raises(ValueError, match=r"\bb\b.*\ba\b"):
        compare_family(values, [("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match=r"\ba\b"):
        compare_family(values, [("a", "a")])
    with pytest.raises(ValueError, match=r"0\.97"):
        compare_family(values, [("a", "b")], equivalence_ratio=0.97)
    assert compare_family(values, []) == []
    assert compare_at_looks(values, [], LOOKS) == []


# Several looks

LOOKS = planned_looks([10, 20, 40], 0.05, [0.2, 0.3, 0.5])


def at_looks(log_ratios: list[float]) -> PairResult:
    values = {"a": list(np.exp(log_ratios)), "b": [1.0] * len(log_ratios)}
    return one(compare_at_looks(values, [("a", "b")], LOOKS))


def test_nothing_is_decided_before_the_first_look() -> None:
    result = at_looks([-0.5 - 0.01 * i for i in range(9)])
    assert (result.verdict, result.decided_at, result.blocks) == (Verdict.UNDECIDED, None, 9)
    assert result.ratio < 0.7
    assert at_looks([0.1]).low is None


def test_result_between_looks_is_that_of_the_earlier_look() -> None:
    log_ratios = [-0.5 - 0.01 * i for i in range(19)]
    assert at_looks(log_ratios) == at_looks(log_ratios[:10])
    assert at_looks(log_ratios).verdict is Verdict.FASTER
    assert at_looks(log_ratios).decided_at == 10


def test_decision_of_a_look_is_kept() -> None:
    later = [0.3 * (-1) ** i + 0.001 * i for i in range(30)]
    result = at_looks([-0.1 - 0.01 * i for i in range(10)] + later)
    assert result.p_adjusted > 0.025
    assert (result.verdict, result.decided_at, result.blocks) == (Verdict.FASTER, 10, 40)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_verdict_that_later_blocks_contradict_is_withdrawn(sign: int) -> None:
    log_ratios = [-0.1 - 0.001 * i for i in range(10)] + [0.5 + 0.01 * i for i in range(30)]
    result = at_looks([sign * log_ratio for log_ratio in log_ratios])
    assert sign * math.log(result.ratio) > 0
    assert (result.verdict, result.decided_at) == (Verdict.UNDECIDED, None)


def test_equivalence_stays_decided() -> None:
    log_ratios = [0.002 * math.sin(i) for i in range(20)]
    result = at_looks(log_ratios)
    assert (result.verdict, result.decided_at, result.blocks) == (Verdict.EQUIVALENT, 10, 20)
    assert at_looks([*log_ratios[:10], *[0.2 + 0.01 * i for i in range(10)]]).verdict is Verdict.EQUIVALENT
    assert at_looks([*log_ratios[:10], *[0.2 + 0.01 * i for i in range(30)]]).verdict is Verdict.UNDECIDED


def test_small_difference_becomes_equivalent_at_a_later_look() -> None:
    log_ratios = [0.02 + 0.03 * math.sin(i) / math.sqrt(1 + i / 4) for i in range(40)]
    log_ratios[:10] = [0.02 + 0.002 * i for i in range(10)]
    assert at_looks(log_ratios[:10]).verdict is Verdict.SLOWER
    result = at_looks(log_ratios)
    assert (result.verdict, result.decided_at) == (Verdict.EQUIVALENT, 40)


def test_a_single_look_is_the_family_itself() -> None:
    values = costs(11, a=1.0, b=1.1, c=1.2)
    assert compare_at_looks(values, ALL_PAIRS, [Look(11, 0.05)]) == compare_family(
        values, ALL_PAIRS, alpha=0.05
    )


def test_a_run_may_stop_when_all_is_decided() -> None:
    results = compare_family(costs(20, noise=0.01, a=1.0, b=1.0, c=1.5), ALL_PAIRS)
    assert [result.verdict.value for result in results] == ["equivalent", "faster", "faster"]
    assert all_decided(results)
    assert separated_pairs(results) == [("a", "c"), ("b", "c")]
    assert not all_decided([]), "nothing was measured"
    assert not all_decided(compare_family(costs(20, noise=0.3, a=1.0, b=1.0), [("a", "b")]))


# Contrasts


def test_contrast_is_a_difference_within_blocks() -> None:
    values = {
        "fork": [9.0, 11.0, 10.0, 12.0, 10.5, 9.5, 13.0],
        "iterative": [1.0, 2.0, 1.5, 2.5, 1.0, 1.2, 2.2],
    }
    differences = np.array(values["fork"]) - np.array(values["iterative"])
    result = contrast(values, {"fork": 1, "iterative": -1}, 0.9)
    estimate, test = hodges_lehmann(differences, 0.9), signed_rank(differences)
    assert (result.value, result.low, result.high) == (estimate.value, estimate.low, estimate.high)
    assert (result.p_greater, result.p_less, result.blocks) == (test.p_greater, test.p_less, 7)


def test_contrast_judges_a_ratio_of_differences() -> None:
    values = {name: np.array(observed) for name, observed in costs(12, a=10.0, b=2.0, zero=1.0).items()}
    lists = {name: list(observed) for name, observed in values.items()}
    assert contrast(lists, {"a": 1, "b": -8, "zero": 7}).p_greater < 0.001  # 9 is more than 8 times 1
    assert contrast(lists, {"a": 1, "b": -10, "zero": 9}).p_less < 0.001


def test_a_contrast_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^prefork: "):
        contrast({"a": [1.0]}, {"a": 1, "prefork": -1})
    with pytest.raises(ValueError, match=r"^a: .* inf .* 0$"):
        contrast({"a": [math.inf]}, {"a": 1})
    with pytest.raises(ValueError):
        contrast({"a": [1.0]}, {})


# Letters


def test_letters_by_hand() -> None:
    assert letters("ABCD", []) == {"A": "a", "B": "a", "C": "a", "D": "a"}
    assert letters("ABC", [("A", "B"), ("A", "C"), ("C", "B")]) == {"A": "a", "B": "b", "C": "c"}
    overlapping = letters("ABCD", [("C", "A"), ("A", "D"), ("B", "D")])
    assert overlapping == {"A": "a", "B": "ab", "C": "bc", "D": "c"}
    assert letters([], []) == {}


def test_letters_refuse_unknown_and_repeated_names() -> None:
    with pytest.raises(ValueError, match="A and X"):
        letters("AB", [("A", "X")])
    with pytest.raises(ValueError, match="'A', 'A'"):
        letters("AA", [])


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(range(n * n))))))
@settings(max_examples=300)
def test_letters_are_shared_exactly_by_inseparable_contenders(graph: tuple[int, set[int]]) -> None:
    n, cells = graph
    order = [f"contender{i}" for i in range(n)]
    separated = [(order[cell // n], order[cell % n]) for cell in cells if cell // n < cell % n]
    shown = letters(order, separated)
    for a, b in combinations(order, 2):
        assert bool(set(shown[a]) & set(shown[b])) == ((a, b) not in separated)
    used = sorted(set("".join(shown.values())))
    assert used == [chr(ord("a") + i) for i in range(len(used))]
    assert shown[order[0]].startswith("a")
    for letter in used:  # none could be left out
        rest = {name: set(own) - {letter} for name, own in shown.items()}
        lost = [
            pair
            for pair in combinations(order, 2)
            if pair not in separated and not rest[pair[0]] & rest[pair[1]]
        ]
        assert lost or not all(rest.values())


def test_letters_continue_after_z() -> None:
    order = [f"c{i}" for i in range(28)]
    shown = letters(order, list(combinations(order, 2)))
    assert [shown["c25"], shown["c26"], shown["c27"]] == ["z", "a'", "b'"]


def test_a_comparison_that_cannot_be_made_stays_in_the_family() -> None:
    values = {"a": [1.0 + 0.01 * block for block in range(11)], "b": [2.0] * 11}
    alone, of_many = (compare_family(values, [("a", "b")], family=family)[0] for family in (None, 60))
    assert (alone.verdict, of_many.verdict) == (Verdict.FASTER, Verdict.UNDECIDED)
    assert of_many.p_adjusted == pytest.approx(60 * alone.p)
