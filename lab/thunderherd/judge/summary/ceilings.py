"""What a contender moves as a share of what another one does in the same block, which shows how much there
is to be had: the ceiling of a sweep.

Both ran within the same block, in random order, so that what slows the machine down for a while slows both.
"""

from __future__ import annotations

from thunderherd.judge.summary.selection import Block
from thunderherd.metrics.table import PAYLOAD_RATE, SHARE_OF_CEILING
from thunderherd.study.loading import Study

__all__ = ["beside_ceilings"]


def beside_ceilings(study: Study, block: Block) -> Block:
    """The block, each trial of a sweep with a ceiling having its share of it.

    A trial without one (of the two, either is invalid, or moved no payload that is counted) stays as it is.
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
