"""What claims are expected to need: before a run that decides them, and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from thunderherd.claims.claim_file import Claim
from thunderherd.judge.claims.blocks_needed import MOST
from thunderherd.judge.claims.claims import contenders_of, open_claims
from thunderherd.records.summary import ClaimSummary
from thunderherd.show.sentences.tables import claim_counts
from thunderherd.text.figures import count, duration, listed

__all__ = ["SoFar", "Telling", "claims_expected", "claims_so_far"]


@dataclass(frozen=True)
class SoFar:
    """A run that decides claims, before its end."""

    claims: Sequence[Claim]
    """The claims of the study's source."""
    results: Sequence[ClaimSummary]
    """Their results after `blocks` blocks."""
    blocks: int
    """The number of blocks that count so far."""
    seconds: Mapping[str, float]
    """The mean time of a trial of each contender."""
    room: int
    """The number of blocks that the run has room for in all."""
    alpha: float
    """The alpha of the look after so many blocks."""


Telling = Callable[[SoFar], list[str]]
"""Returns lines for the progress of a run that decides claims."""


def claims_expected(
    claims: Sequence[Claim], results: Sequence[ClaimSummary], seconds: Mapping[str, float], most: int
) -> list[str]:
    """Return a line for each claim that a run of at most `most` blocks is to decide, then one for all.

    Parameters
    ----------
    claims
        Those of the study's source.
    results
        What an earlier run says of them, with the number of blocks that each is expected to need.
    seconds
        That run's mean time of a trial of each contender.
    most
        The number of blocks of the last look.
    """
    needed = {each.id: each.blocks_needed for each in results}
    open_ones = open_claims(claims, results)
    blocks_with: dict[str, int] = {}
    lines = []
    for claim in open_ones:
        expected = needed[claim.id]
        names = contenders_of([claim])
        blocks = most if expected is None else min(expected, most)
        time = duration(blocks * sum(seconds.get(name, 0.0) for name in names))
        several = f"more than {MOST:,} blocks" if expected is None else f"about {count(expected, 'block')}"
        ends = "" if expected == blocks else f"; the run ends after {most:,}"
        lines.append(f"  {claim.id} needs {several}{ends} ({time})")
        blocks_with |= {name: max(blocks, blocks_with.get(name, 0)) for name in names}
    in_all = sum(blocks * seconds.get(name, 0.0) for name, blocks in blocks_with.items())
    if open_ones:
        lines.append(f"  all {len(open_ones)} together: about {duration(in_all)}")
    known = {claim.id for claim in open_ones}
    if others := [each.id for each in results if each.id not in known]:
        lines.append(f"  nothing is known of {listed(others)}: the run lacks what they need")
    return lines


def claims_so_far(found: SoFar) -> list[str]:
    """Return the counts, and a line for each open claim."""
    blocks = found.blocks
    lines = [f"after {count(blocks, 'block')}: {claim_counts(found.results)}"]
    needed = {each.id: each.blocks_needed for each in found.results}
    for claim in open_claims(found.claims, found.results):
        expected = needed[claim.id]
        if expected is None:
            text = f"more than {MOST:,} blocks for a verdict"
        else:
            left = max(0, expected - blocks)
            time = left * sum(found.seconds.get(name, 0.0) for name in contenders_of([claim]))
            text = f"about {count(expected, 'block')} for a verdict, {duration(time)} from now"
        lines.append(f"  {claim.id} needs {text}")
    return lines
