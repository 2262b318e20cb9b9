"""Which blocks count: rejected for outside noise only, replaced, never more than allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made.summaries.trials import made_trial

from thunderherd.judge.summary.block_rejection import (
    GIVE_UP_BLOCKS,
    Selection,
    blocks_of,
    most_blocks,
    select,
)
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import TrialRecord
from thunderherd.run.plan import Next, next_in_block, plan
from thunderherd.study.loading import Look, Study

NAMES = ["iterative", "fork_per_client", "prefork"]


def strict(study: Study) -> Study:
    """A study with a limit on noise: 10 % of the machine used by others."""
    return study.model_copy(update={"noise": study.noise.model_copy(update={"foreign": "10%"})})


def trials_of(study: Study, noises: Sequence[float], broken: Sequence[int] = ()) -> list[TrialRecord]:
    """Select from blocks, other processes use this share; prefork stays invalid in the `broken` ones."""
    found = []
    for block, foreign in enumerate(noises, start=1):
        for name in NAMES:
            bad = block in broken and name == "prefork"
            for attempt in (1, 2) if bad else (1,):
                found.append(made_trial(study, name, block, foreign=foreign, valid=not bad, attempt=attempt))
    return found


def selected(study: Study, noises: Sequence[float], broken: Sequence[int] = ()) -> Selection:
    return select(study, trials_of(study, noises, broken))


@pytest.mark.parametrize(
    ("blocks", "percent", "most"),
    [(11, 25, 14), (10, 25, 13), (12, 25, 16), (20, 25, 26), (40, 25, 53), (11, 0, 11)],
)
def test_rejected_share_of_blocks_is_limited(blocks: int, percent: float, most: int) -> None:
    assert most_blocks(Look(blocks=blocks, alpha=0.05), percent) == most
    assert (most - blocks) / most <= percent / 100


# Each trial of these takes 0.4 s, so a block takes 1.2 s.


def with_budget(study: Study, seconds: float) -> Study:
    return study.model_copy(update={"budget_seconds": seconds})


@pytest.mark.parametrize(("blocks", "is_up"), [(1, False), (4, False), (5, True), (6, True)])
def test_time_is_up_if_another_block_would_exceed_the_budget(
    small_study: Study, blocks: int, is_up: bool
) -> None:
    found = selected(with_budget(small_study, 5.2), [0.0] * blocks)
    assert found.time_was_up == is_up
    assert (
        plan(with_budget(small_study, 5.2), trials_of(small_study, [0.0] * blocks)).number is None
    ) == is_up


def test_the_last_look_is_taken_with_the_blocks_there_are_and_all_alpha_left(
    small_full_study: Study,
) -> None:
    """Looks after 10, 12 and 16 blocks are planned, and the time is up after 14."""
    found = selected(with_budget(small_full_study, 17.0), [0.0] * 14)
    first, second, third = small_full_study.looks
    assert [look.blocks for look in found.looks] == [10, 12, 14]
    assert found.looks[:2] == (first, second) and found.looks[2].alpha == pytest.approx(third.alpha)
    assert [each.look for each in found.reached] == list(found.looks)
    assert found.next_look is None and len(found.counted()) == 14
    early = selected(with_budget(small_full_study, 5.2), [0.0] * 5)
    assert [look.blocks for look in early.looks] == [5]
    assert early.looks[0].alpha == pytest.approx(sum(look.alpha for look in small_full_study.looks))
    at_a_look = selected(with_budget(small_full_study, 14.5), [0.0] * 12)
    assert at_a_look.looks == (first, second) and at_a_look.next_look is None


def test_plan_is_for_the_blocks_that_the_time_budget_has_room_for(small_study: Study) -> None:
    trials = trials_of(small_study, [0.0] * 2)
    assert plan(small_study, trials).blocks == 10 and plan(small_study, trials).trials_left == 24
    planned = plan(with_budget(small_study, 5.2), trials)
    assert (planned.blocks, planned.trials_left) == (5, 9)


def test_a_block_that_was_begun_is_finished_before_the_time_is_up(small_study: Study) -> None:
    study = with_budget(small_study, 5.2)
    trials = trials_of(study, [0.0] * 5)
    assert not select(study, trials[:-1]).time_was_up
    assert plan(study, trials[:-1]).number == 5


def test_when_the_time_is_up_noisy_blocks_count_if_too_many_would_be_rejected(small_study: Study) -> None:
    study = with_budget(strict(small_study), 7.76)
    found = selected(study, [0.0, 0.2, 0.0, 0.15, 0.0, 0.3, 0.0, 0.0])
    assert found.time_was_up and found.rejected == (2, 6) and found.noisy_kept == (4,)
    assert found.looks[-1].blocks == 6
    noisy = selected(study, [0.2] * 8)
    assert noisy.time_was_up and len(noisy.accepted) == 6


def test_if_no_block_is_complete_the_time_is_up_without_a_look(small_study: Study) -> None:
    study = with_budget(small_study, 5.2)
    trials = trials_of(study, [0.0] * 2, broken=[1, 2])
    found = select(study, [each.model_copy(update={"wall_seconds": 2.0}) for each in trials])
    assert found.time_was_up and found.reached == () and found.looks == tuple(small_study.looks)


def test_if_every_contender_is_given_up_no_block_is_complete(small_study: Study) -> None:
    """On a machine that is too busy for its windows, all trials may be invalid until the time is up."""
    study = with_budget(small_study, 5.2)
    trials = [
        made_trial(study, name, block, valid=False, attempt=attempt)
        for block in (1, 2, 3)
        for name in NAMES
        for attempt in (1, 2)
    ]
    found = select(study, trials)
    assert set(found.given_up) == set(NAMES) and found.time_was_up
    assert (found.accepted, found.complete, found.incomplete, found.reached) == ((), (), (1, 2, 3), ())
    summary = summarise(study, trials, {}, seed=1)
    assert summary.study.blocks == 0 and {each.verdict for each in summary.family} == {"undecided"}


def test_quiet_blocks_count_in_their_order(small_study: Study) -> None:
    found = selected(small_study, [0.0] * 9)
    assert found.accepted == tuple(range(1, 10))
    assert found.counted() == found.accepted
    assert found.reached == ()
    assert found.next_look == small_study.looks[0]
    found = selected(small_study, [0.0] * 10)
    assert found.next_look is None
    assert [each.look.blocks for each in found.reached] == [10]


def test_a_noisy_block_is_replaced(small_study: Study) -> None:
    study = strict(small_study)
    noises = [0.0, 0.5, *[0.0] * 8]
    assert selected(study, noises).next_look is not None
    found = selected(study, [*noises, 0.0])
    assert found.accepted == (1, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    assert found.rejected == (2,)
    assert found.noisy_kept == ()
    assert found.reached[0].run == 11


def test_least_noisy_blocks_are_kept_if_too_many_are_noisy(small_study: Study) -> None:
    study = strict(small_study)
    noises = [0.5, 0.2, 0.9, 0.3, 0.8, 0.7, *[0.0] * 6]
    found = selected(study, noises)
    assert found.next_look is not None  # a thirteenth is allowed, so it is waited for
    found = selected(study, [*noises, 0.0])
    assert found.accepted == (7, 8, 9, 10, 11, 12, 13, 2, 4, 1)
    assert found.noisy_kept == (1, 2, 4)
    assert found.rejected == (3, 5, 6)
    assert found.next_look is None
    assert not found.exhausted


def test_later_look_keeps_the_blocks_of_an_earlier_one(small_full_study: Study) -> None:
    """Looks are taken on a growing list: a look keeps the blocks that decided it."""
    study = strict(small_full_study)
    noises = [0.5, 0.5, 0.5, 0.5, *[0.0] * 9]
    first = selected(study, noises)
    assert [each.look.blocks for each in first.reached] == [10]
    assert first.accepted[:10] == (5, 6, 7, 8, 9, 10, 11, 12, 13, 1)
    later = selected(study, [*noises, 0.0, 0.0, 0.0])
    assert later.accepted[:10] == first.accepted[:10]
    assert [each.look.blocks for each in later.reached] == [10, 12]


def test_an_invalid_trial_that_was_repeated_well_costs_nothing(small_study: Study) -> None:
    trials = trials_of(small_study, [0.0] * 10)
    again = made_trial(small_study, "prefork", 3, valid=False)
    repeated = made_trial(small_study, "prefork", 3, attempt=2)
    place = trials.index(made_trial(small_study, "prefork", 3))
    found = select(small_study, [*trials[:place], again, *trials[place + 1 :], repeated])
    assert found.accepted == tuple(range(1, 11))
    assert found.incomplete == ()


def test_an_incomplete_block_is_replaced(small_study: Study) -> None:
    found = selected(small_study, [0.0] * 11, broken=[4])
    assert found.incomplete == (4,)
    assert found.accepted == (1, 2, 3, 5, 6, 7, 8, 9, 10, 11)
    assert found.given_up == {}


def test_a_look_is_out_of_reach_when_too_many_are_incomplete(small_study: Study) -> None:
    # Failures spread so that never more than a quarter failed: otherwise 4 of 13 would give up prefork.
    found = selected(small_study, [0.0] * 13, broken=[11, 12, 13])
    assert found.given_up == {}
    assert found.next_look is None  # ten good ones came first
    study = small_study.model_copy(update={"looks": (Look(blocks=11, alpha=0.05),)})
    assert not selected(study, [0.0] * 13, broken=[8, 12, 13]).exhausted
    found = selected(study, [0.0] * 14, broken=[8, 12, 13])
    assert len(found.accepted) == 11
    study = study.model_copy(update={"noise": study.noise.model_copy(update={"reject_at_most": "0"})})
    found = selected(study, [0.0] * 11, broken=[8])
    assert found.exhausted
    assert found.next_look is not None


def test_a_contender_that_stays_invalid_is_given_up(small_study: Study) -> None:
    found = selected(small_study, [0.0] * (GIVE_UP_BLOCKS - 1), broken=[1, 2])
    assert found.given_up == {}
    assert found.accepted == ()
    found = selected(small_study, [0.0] * GIVE_UP_BLOCKS, broken=[1, 2, 3])
    (lost, why), *others = found.given_up.items()
    assert (lost, others) == ("prefork", [])
    assert re.findall(r"\d+", why)[:2] == ["3", "3"] and why.endswith(": load: errors: 2 refused")
    # The other contenders continue without it, and blocks with its invalid trials count for them.
    assert found.accepted == (1, 2, 3)


def test_a_look_keeps_its_blocks_when_a_contender_is_given_up_later(small_full_study: Study) -> None:
    """The spoilt blocks count for the others from then on, not in the look that was taken."""
    first = selected(small_full_study, [0.0] * 11, broken=[2])
    assert [each.look.blocks for each in first.reached] == [10]
    assert first.counted() == (1, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    later = selected(small_full_study, [0.0] * 14, broken=[2, 12, 13, 14])
    assert set(later.given_up) == {"prefork"}
    assert later.accepted[:10] == first.counted()
    assert later.counted() == (*first.counted(), 2, 12)
    assert later.complete == (*first.counted(), 2, 12, 13, 14)
    assert [each.run for each in later.reached] == [10, 14]


def test_a_block_in_progress_does_not_count(small_study: Study) -> None:
    trials = trials_of(small_study, [0.0] * 10)[:-1]
    assert select(small_study, trials).accepted == tuple(range(1, 10))
    assert [block.number for block in blocks_of(trials)] == list(range(1, 11))


def attempts(study: Study, *made: tuple[str, float, bool]) -> list[TrialRecord]:
    """The trials of block 1: name, share used by others, and whether it is valid, in the order they ran."""
    found: list[TrialRecord] = []
    for name, foreign, valid in made:
        attempt = 1 + sum(each.contender == name for each in found)
        found.append(made_trial(study, name, 1, foreign=foreign, valid=valid, attempt=attempt))
    return found


QUIET, NOISY = 0.0, 0.5


def test_a_noisy_trial_is_repeated_once_at_the_end_of_its_block(small_study: Study) -> None:
    study = strict(small_study)
    first = [("fork_per_client", NOISY, True), ("iterative", QUIET, True), ("prefork", QUIET, True)]
    repeated = next_in_block(study, 1, 1, attempts(study, *first))
    assert repeated is not None and (repeated.contender, repeated.attempt) == ("fork_per_client", 2)
    quiet = attempts(study, *first, ("fork_per_client", QUIET, True))
    assert next_in_block(study, 1, 1, quiet) is None
    assert select(study, quiet).accepted == (1,)
    # The repetition is not repeated, and it counts even if it is the noisier one.
    noisy = attempts(study, *first[1:], ("fork_per_client", 0.2, True), ("fork_per_client", NOISY, True))
    assert next_in_block(study, 1, 1, noisy) is None
    (block,) = blocks_of(noisy)
    assert block.trials["fork_per_client"].attempt == 2 and select(study, noisy).accepted == ()


def test_a_resumed_run_repeats_what_was_left(small_study: Study) -> None:
    study = strict(small_study)
    first = [("fork_per_client", NOISY, True), ("iterative", QUIET, True), ("prefork", QUIET, True)]
    assert plan(study, attempts(study, *first)).number == 1
    assert plan(study, attempts(study, *first, ("fork_per_client", QUIET, True))).number == 2


def test_a_noisy_trial_counts_if_its_repetition_is_invalid(small_study: Study) -> None:
    study = strict(small_study)
    first = [("fork_per_client", NOISY, True), ("iterative", QUIET, True), ("prefork", QUIET, True)]
    trials = attempts(study, *first, ("fork_per_client", QUIET, False))
    (block,) = blocks_of(trials)
    assert next_in_block(study, 1, 1, trials) is None
    assert block.trials["fork_per_client"].attempt == 1 and block.is_complete(NAMES)


def test_trials_are_not_repeated_if_many_of_a_block_are_noisy(small_study: Study) -> None:
    study = strict(small_study)
    trials = attempts(
        study, ("fork_per_client", NOISY, True), ("iterative", NOISY, True), ("prefork", QUIET, True)
    )
    assert next_in_block(study, 1, 1, trials) is None


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(outcomes=st.lists(st.tuples(st.sampled_from([QUIET, NOISY]), st.booleans()), min_size=6, max_size=6))
def test_a_block_ends_after_two_attempts_of_each_at_most(
    small_study: Study, outcomes: list[tuple[float, bool]]
) -> None:
    """Whatever noise and faults there are."""
    study, trials, planned = strict(small_study), list[TrialRecord](), list[Next]()
    for foreign, valid in outcomes:
        following = next_in_block(study, 1, 1, trials)
        if following is None:
            break
        planned.append(following)
        name, attempt = following.contender, following.attempt
        trials.append(made_trial(study, name, 1, foreign=foreign, valid=valid, attempt=attempt))
    assert next_in_block(study, 1, 1, trials) is None
    assert len({(each.contender, each.attempt) for each in planned}) == len(planned)
    (block,) = blocks_of(trials)
    assert block.is_finished(NAMES)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noises=st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.4, 0.9]), max_size=22), data=st.data())
def test_selection_never_drops_an_accepted_block(
    small_full_study: Study, noises: list[float], data: st.DataObject
) -> None:
    """Whatever the noise, a reached look keeps its blocks, and no look rejects more than allowed."""
    study = strict(small_full_study)
    broken = data.draw(st.lists(st.integers(1, 22), max_size=6))
    before: tuple[int, ...] = ()
    for count in range(1, len(noises) + 1):
        found = selected(study, noises[:count], broken)
        taken = found.counted() if found.reached else ()
        assert taken[: len(before)] == before
        assert len(set(found.accepted)) == len(found.accepted)
        for each in found.reached:
            spoilt = sum(block <= count for block in set(broken))
            assert each.run - each.look.blocks <= 0.25 * (each.run + spoilt)
        before = taken
