"""What became of bytes that were not to be copied: said beside every figure of whoever moved them so.

The kernel may copy what it was asked not to copy: over loopback, and between namespaces, every such send.
What a run gains by it is then nothing, and what it costs (a completion for each send) is there all the same.
Where nothing tells what became of them, that is said in place of the share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from thunderherd.metrics.table import COPIED_SHARE, NOT_COPIED_SHARE, SIDES, Side
from thunderherd.statistics.columns import Values, known
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import percent

__all__ = ["copied_after_all", "unknown_shares"]

WHOSE: dict[Side, str] = {"server": "the server's", "client": "the clients'"}

NO_COMPLETION = "no completion was read in what was measured, nor over the whole life of at least one trial"
SOME_WITHOUT = "no completion was read in some of its trials"
OF_LIFE = ", over its whole life where no completion was read in the window or the server was read late"
"""Behind a share for which completions stand in that were read outside of the window."""


def copied_after_all(study: Study, values: Values, names: Collection[str] | None = None) -> tuple[str, ...]:
    """In words, by contender, the share that was copied of what it sent or received without copying, or why
    that is not known.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The blocks that count.
    names
        Of these contenders only; of all if not given. The points of a sweep are told by their base, with the
        least and the largest share; by themselves where the share of others is known.
    """
    chosen = [each for each in study.contenders if names is None or each.name in names]
    shares: dict[tuple[str, str], list[float]] = {}
    of_life: set[tuple[str, str]] = set()
    told: dict[str, list[str]] = {}
    for contender in chosen:
        for what, column, is_of_life in _shares(contender, values):
            shares.setdefault((contender.base, what), []).extend(column)
            of_life |= {(contender.base, what)} if is_of_life else set()
    for (base, what), column in shares.items():
        after = OF_LIFE if (base, what) in of_life else ""
        told.setdefault(f"{_span(column)} of {what} were copied after all{after}", []).append(base)
    for words, those in _unknown(chosen, values).items():
        known_too = {each.base for each in chosen if each.name not in {one.name for one in those}}
        named = dict.fromkeys(each.name if each.base in known_too else each.base for each in those)
        told.setdefault(words, []).extend(named)
    return tuple(f"{', '.join(bases)}: {words}" for words, bases in told.items())


def unknown_shares(contender: Contender, values: Values) -> dict[str, str]:
    """By metric, why nothing tells the copied share of what a contender has sent without copying."""
    completes = {"server": contender.completes, "client": contender.load.completes}
    is_measured = any(contender.name in of_all for of_all in values.values())
    found = {}
    for side in SIDES:
        metric, sent = f"{side}.{COPIED_SHARE}", _column(values, f"{side}.send_calls", contender)
        has_sent = is_measured and completes[side] and (not sent or any(sent))
        if has_sent and not _column(values, metric, contender):
            completed = _column(values, f"{side}.completions", contender)
            found[metric] = SOME_WITHOUT if any(completed) else NO_COMPLETION
    return found


def _unknown(contenders: Sequence[Contender], values: Values) -> dict[str, list[Contender]]:
    """In words, whose copied share is not known."""
    found: dict[str, list[Contender]] = {}
    for contender in contenders:
        reasons = unknown_shares(contender, values)
        for side, whose in WHOSE.items():
            if why := reasons.get(f"{side}.{COPIED_SHARE}"):
                found.setdefault(f"copied share of {whose} sends not known: {why}", []).append(contender)
    return found


def _shares(contender: Contender, values: Values) -> Iterator[tuple[str, Sequence[float], bool]]:
    """Of what, the shares that were copied, and whether some are of more than the window."""
    stores = {"server": contender.stores, "client": contender.load.stores}
    for side in SIDES:
        if sent := _column(values, f"{side}.{COPIED_SHARE}", contender):
            # A trial that was read late has no count of its window, and where all were there is no column.
            completions = values.get(f"{side}.completions", {}).get(contender.name, [])
            is_of_life = not completions or not all(completions)
            yield f"{WHOSE[side]} sends that were not to copy", sent, is_of_life
        if not stores[side] and (kept := _column(values, f"{side}.{NOT_COPIED_SHARE}", contender)):
            copied = [1 - share for share in kept]
            yield f"the bytes that {WHOSE[side]} end was to receive without copying", copied, False


def _column(values: Values, metric: str, contender: Contender) -> Sequence[float]:
    return known(values.get(metric, {}).get(contender.name, []))


def _span(column: Sequence[float]) -> str:
    low, high = percent(min(column)), percent(max(column))
    return high if low == high else f"{low} to {high}"
