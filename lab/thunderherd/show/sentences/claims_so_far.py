"""How far a run is with the claims that it decides: which are open, and what they are expected to need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunderherd.claims.claim_file import Claim
from thunderherd.judge.claims.blocks_needed import MOST
from thunderherd.judge.claims.claims import contenders_of, open_claims
from thunderherd.records.summary import ClaimSummary
from thunderherd.show.sentences.tables import claim_counts
from thunderherd.text.figures import count, duration

__all__ = ["claims_so_far"]


def claims_so_far(
    claims: Sequence[Claim], results: Sequence[ClaimSummary], blocks: int, seconds: Mapping[str, float]
) -> list[str]:
    """Return lines for the progress of a run: the counts, and a line for each open claim.

    Parameters
    ----------
    claims
        The claims of the study's source.
    results
        Their results after `blocks` blocks.
    blocks
        The number of blocks that count so far.
    seconds
        The mean time of a trial of each contender.
    """
    lines = [f"after {count(blocks, 'block')}: {claim_counts(results)}"]
    needed = {each.id: each.blocks_needed for each in results}
    for claim in open_claims(claims, results):
        expected = needed[claim.id]
        if expected is None:
            text = f"more than {MOST:,} blocks for a verdict"
        else:
            left = max(0, expected - blocks)
            time = left * sum(seconds.get(name, 0.0) for name in contenders_of([claim]))
            text = f"about {count(expected, 'block')} for a verdict, {duration(time)} from now"
        lines.append(f"  {claim.id} needs {text}")
    return lines
