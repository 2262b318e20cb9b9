"""The ceiling of a sweep: a contender's payload rate as a share of another's in the same block.

Both ran in the same block, in random order, so a temporary slowdown of the machine affects both.
"""

from __future__ import annotations

from thunderherd.judge.summary.block_rejection import Block
from thunderherd.metrics.table import PAYLOAD_RATE, SHARE_OF_CEILING
from thunderherd.study.loading import Study

__all__ = ["with_ceilings"]


def with_ceilings(study: Study, block: Block) -> Block:
    """Return the block with the share of the ceiling in each trial of a sweep that has one.

    A trial stays as it is if it or its ceiling is invalid, or if either counts no payload.
    """
    ceilings = {sweep.name: sweep.ceiling for sweep in study.sweeps if sweep.ceiling is not None}
    trials = dict(block.trials)
    for contender in study.contenders:
        ceiling = block.trials.get(ceilings.get(contender.sweep or "") or "")
        own = block.trials.get(contender.name)
        if ceiling is None or own is None or not (ceiling.valid and own.valid):
            continue
        moved, most = (own.metrics or {}).get(PAYLOAD_RATE), (ceiling.metrics or {}).get(PAYLOAD_RATE)
        if moved is not None and most:
            metrics = {**(own.metrics or {}), SHARE_OF_CEILING: moved / most}
            trials[contender.name] = own.model_copy(update={"metrics": metrics})
    return Block(block.number, trials)
