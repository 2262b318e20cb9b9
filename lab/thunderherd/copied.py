"""What became of bytes that were not to be copied: said beside every figure of whoever moved them so.

The kernel may copy what it was asked not to copy: over loopback, and between namespaces, every such send.
What a run gains by it is then nothing, and what it costs (a completion for each send) is there all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from thunderherd.columns import Values, known
from thunderherd.figures import percent
from thunderherd.metrics import COPIED_SHARE, NOT_COPIED_SHARE, SIDES
from thunderherd.study import Contender, Study

WHOSE = {"server": "the server's", "client": "the clients'"}


def copied_after_all(study: Study, values: Values, names: Collection[str] | None = None) -> tuple[str, ...]:
    """In words, by contender, the share that was copied of what it sent or received without copying.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The blocks that count.
    names
        Of these contenders only; of all if not given. The points of a sweep are told by their base, with the
        least and the largest share.
    """
    shares: dict[tuple[str, str], list[float]] = {}
    for contender in study.contenders:
        if names is None or contender.name in names:
            for what, column in _shares(contender, values):
                shares.setdefault((contender.base, what), []).extend(column)
    told: dict[str, list[str]] = {}
    for (base, what), column in shares.items():
        told.setdefault(f"{_span(column)} of {what} were copied after all", []).append(base)
    return tuple(f"{', '.join(bases)}: {words}" for words, bases in told.items())


def _shares(contender: Contender, values: Values) -> Iterator[tuple[str, Sequence[float]]]:
    stores = {"server": contender.stores, "client": contender.load.stores}
    for side in SIDES:
        if sent := _column(values, f"{side}.{COPIED_SHARE}", contender):
            yield f"{WHOSE[side]} sends that were not to copy", sent
        if not stores[side] and (kept := _column(values, f"{side}.{NOT_COPIED_SHARE}", contender)):
            yield (
                f"the bytes that {WHOSE[side]} end was to receive without copying",
                [1 - share for share in kept],
            )


def _column(values: Values, metric: str, contender: Contender) -> Sequence[float]:
    return known(values.get(metric, {}).get(contender.name, []))


def _span(column: Sequence[float]) -> str:
    low, high = percent(min(column)), percent(max(column))
    return high if low == high else f"{low} to {high}"
