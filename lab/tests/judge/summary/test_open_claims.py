"""A run that decides claims: which contenders its blocks need, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from made.summaries.summary import COSTS, study
from made.summaries.trials import made_trial

from thunderherd.claims.claim_file import load_claims
from thunderherd.judge.claims.claims import contenders_of
from thunderherd.judge.summary.block_rejection import blocks_of
from thunderherd.judge.summary.open_claims import NOT_NEEDED, for_claims, selected
from thunderherd.judge.summary.pair_summaries import metric_values
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import TrialRecord
from thunderherd.run.plan import next_in_block, plan
from thunderherd.show.sentences.answer import answer
from thunderherd.show.sentences.tables import claim_counts
from thunderherd.study.loading import Look, Study

CPU = "server_cpu_per_connection"
LOOKS = (12, 20)
OPEN = "H62"
"""The claim that these trials leave open: row 3 costs as much as row 2, give or take more than its margin."""


@cache
def deciding() -> Study:
    """Return the main table of the first source's study in a size that decides claims."""
    looks = tuple(Look(blocks=each, alpha=0.025) for each in LOOKS)
    changes = {"decides": "claims", "looks": looks, "comparisons": ()}
    return for_claims(study().model_copy(update=changes))


@cache
def needed(*ids: str) -> frozenset[str]:
    """Return the contenders of these claims; of all that this size can judge by default."""
    claims = [each for each in load_claims(deciding()) if each.is_testable]
    return frozenset(contenders_of([each for each in claims if not ids or each.id in ids]))


EQUAL = COSTS | {"prefork_file_lock": COSTS["prefork"]}


def trials(
    blocks: int, names: Sequence[str], first: int = 1, costs: Mapping[str, float] = EQUAL
) -> list[TrialRecord]:
    """Return trials; with `EQUAL` costs, those of a file lock vary so much that they decide nothing."""
    generator = np.random.default_rng(first)
    found = []
    for block in range(first, first + blocks):
        for name in names:
            noise = 0.2 if costs is EQUAL and name == "prefork_file_lock" else 0.005
            cost = costs[name] / 5_000 * float(np.exp(generator.normal(0, noise)))
            found.append(made_trial(deciding(), name, block, cost=cost))
    return found


def test_only_contenders_of_claims_take_part() -> None:
    of = deciding()
    names = {each.name for each in of.contenders}
    assert names == contenders_of(load_claims(of)) & {each.name for each in study().contenders}
    left_out = {each.name for each in study().contenders} - names
    assert left_out and all(of.absent[name] == NOT_NEEDED for name in left_out)
    assert not of.comparisons


def test_claims_that_cannot_be_tested_need_no_contender() -> None:
    names = {each.name for each in deciding().contenders}
    assert selected(deciding(), []).settled == names - needed()
    first = plan(deciding(), [])
    assert first.trials_left == LOOKS[0] * len(needed())


def test_a_decided_claim_stops_needing_its_contenders() -> None:
    early = trials(LOOKS[0], sorted(needed()))
    found = selected(deciding(), early)
    results = {each.id: each for each in summarise(deciding(), early, {}, seed=1).claims}
    still = {each.id for each in load_claims(deciding()) if each.is_testable} & {
        name for name, each in results.items() if each.verdict == "undecided"
    }
    assert OPEN in still and still != {each.id for each in load_claims(deciding()) if each.is_testable}
    names = {each.name for each in deciding().contenders}
    assert found.settled == names - needed(*still)
    following = plan(deciding(), early)
    assert following.number == LOOKS[0] + 1
    block = []
    while (
        each := next_in_block(deciding(), 1, following.number, early + block, following.settled)
    ) is not None:
        block.append(made_trial(deciding(), each.contender, following.number))
    assert {each.contender for each in block} == needed(*still)


def test_the_values_of_a_settled_contender_are_those_of_its_blocks() -> None:
    early = trials(LOOKS[0], sorted(needed()))
    left = sorted({each.name for each in deciding().contenders} - selected(deciding(), early).settled)
    both = early + trials(LOOKS[1] - LOOKS[0], left, first=LOOKS[0] + 1)
    found = selected(deciding(), both)
    assert [each.look.blocks for each in found.reached] == [*LOOKS]
    blocks = {each.number: each for each in blocks_of(both)}
    values = metric_values(deciding(), {}, [blocks[number] for number in found.counted()], found.settled)[CPU]
    settled = sorted(needed() - {*left})
    for name in settled:
        assert None not in values[name][: LOOKS[0]]
        assert values[name][LOOKS[0] :] == [None] * (LOOKS[1] - LOOKS[0])
    for name in left:
        assert None not in values[name]


def test_verdicts_of_an_early_look_stand() -> None:
    early = trials(LOOKS[0], sorted(needed()))
    left = sorted({each.name for each in deciding().contenders} - selected(deciding(), early).settled)
    both = early + trials(LOOKS[1] - LOOKS[0], left, first=LOOKS[0] + 1)
    first, last = (summarise(deciding(), each, {}, seed=1) for each in (early, both))
    decided = {each.id: each for each in first.claims if each.decided_at}
    assert decided and all(each.decided_at == LOOKS[0] for each in decided.values())
    now = {each.id: each for each in last.claims}
    assert {name: now[name].verdict for name in decided} == {
        name: each.verdict for name, each in decided.items()
    }
    assert {now[name].decided_at for name in decided} == {LOOKS[0]}
    assert last.study.complete and not last.questions
    assert answer(last).sentence == f"{claim_counts(last.claims)}.", "no pair was compared"


def test_a_run_ends_with_its_last_claim() -> None:
    """A claim that more blocks may decide is all that keeps a run going."""
    names = sorted(needed())
    for costs in (COSTS, EQUAL):
        found = trials(LOOKS[0], names, costs=costs)
        judged = {each.id: each.verdict for each in summarise(deciding(), found, {}, seed=1).claims}
        testable = [each.id for each in load_claims(deciding()) if each.is_testable]
        still = [name for name in testable if judged[name] == "undecided"]
        assert (plan(deciding(), found).number is None) == (not still), costs
        assert bool(still) == (costs is EQUAL)
