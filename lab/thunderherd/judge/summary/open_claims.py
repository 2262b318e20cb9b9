"""What a run that decides claims still needs: the claims without a verdict, and their contenders."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from thunderherd.claims.claim_file import Claim, load_claims
from thunderherd.judge.claims.claims import ClaimResult, contenders_of, judge, open_after
from thunderherd.judge.summary.block_rejection import Block, Selection, blocks_of, select
from thunderherd.judge.summary.ceilings import with_ceilings
from thunderherd.judge.summary.pair_summaries import is_decided as are_decided
from thunderherd.judge.summary.pair_summaries import metric_values
from thunderherd.records.summary import PairSummary, TrialRecord
from thunderherd.study.loading import Study

__all__ = ["claims_after", "claims_before_a_look", "for_claims", "is_decided", "selected"]

NOT_NEEDED = "no claim needs it"


def for_claims(study: Study) -> Study:
    """Return the study with the contenders that its claims need, if its size decides claims."""
    if study.decides != "claims":
        return study
    return study.only(contenders_of(load_claims(study)), NOT_NEEDED)


def selected(study: Study, trials: Iterable[TrialRecord]) -> Selection:
    """Return which blocks count (`select`); a run that decides claims settles contenders."""
    return select(study, trials, _settling(study))


def is_decided(study: Study, selection: Selection, pairs: Sequence[PairSummary]) -> bool:
    """Return whether all that the run is to decide has a verdict, so that it may stop."""
    if study.decides != "claims":
        return are_decided(pairs)
    return selection.settled.issuperset(each.name for each in study.contenders)


def claims_after(
    study: Study, trials: Sequence[TrialRecord], selection: Selection
) -> tuple[list[Claim], list[ClaimResult]]:
    """Return the claims, and their results after the blocks that count so far."""
    claims = load_claims(study)
    by_number = {block.number: with_ceilings(study, block) for block in blocks_of(trials)}
    blocks = [by_number[number] for number in selection.accepted]
    values = metric_values(study, selection.given_up, blocks, selection.settled)
    return claims, judge(study, values, claims=claims)


def claims_before_a_look(
    study: Study, trials: Sequence[TrialRecord]
) -> tuple[list[Claim], list[ClaimResult]]:
    """Return the claims, and what the first blocks of an earlier run say of them: no verdict, but figures.

    Before its first look a run measures each contender. So each claim that is testable has the number of
    blocks that it is expected to need.
    """
    claims = load_claims(study)
    blocks = blocks_of(trials)[: study.looks[0].blocks - 1]
    counted = [with_ceilings(study, block) for block in blocks]
    names = frozenset(each.name for each in study.contenders)
    return claims, judge(study, metric_values(study, (), counted, names), claims=claims)


def _settling(study: Study) -> Callable[[Sequence[Block], Container[str]], frozenset[str]] | None:
    # A run that is watched from elsewhere does not know its claims.
    if study.decides != "claims" or study.claims_path is None:
        return None
    names = frozenset(each.name for each in study.contenders)
    claims = load_claims(study)

    def settled(blocks: Sequence[Block], given_up: Container[str]) -> frozenset[str]:
        if not blocks:
            return names - contenders_of([claim for claim in claims if claim.is_testable])
        counted = [with_ceilings(study, block) for block in blocks]
        values = metric_values(study, given_up, counted, names)
        return names - contenders_of(open_after(study, values, claims))

    return settled
