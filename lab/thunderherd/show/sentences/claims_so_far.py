"""How far a run is with the claims that it decides: which are open, and what they are expected to need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from thunderherd.claims.claim_file import Claim
from thunderherd.judge.claims.blocks_needed import MOST
from thunderherd.judge.claims.claims import contenders_of, open_claims
from thunderherd.records.summary import ClaimSummary
from thunderherd.show.sentences.tables import claim_counts
from thunderherd.text.figures import count, duration

__all__ = ["SoFar", "Telling", "claims_so_far"]


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
