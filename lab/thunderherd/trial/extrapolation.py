"""Which metrics of trials rest on events that took turns on the CPU's counters, and how long they had one.

Such a figure is extrapolated (METHODOLOGY.md); it carries a mark wherever it is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thunderherd.metrics.table import made_of, metric_names
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Study
from thunderherd.text.figures import extrapolated
from thunderherd.trial.counters import scaled_in_words, scaled_of_sides

__all__ = ["Shares", "remarks", "scaled_metrics", "scaled_notes"]

Shares = Mapping[str, Mapping[str, float]]
"""By contender, then metric: the least share of the time in which it was counted."""


def scaled_metrics(study: Study, trials: Iterable[TrialRecord]) -> dict[str, float]:
    """Of some trials, the metrics that are extrapolated in one of them, each with its least share."""
    least: dict[tuple[str, str], float] = {}
    for trial in trials:
        for side, shares in scaled_of_sides(trial).items():
            for counter, share in shares.items():
                least[side, counter] = min(share, least.get((side, counter), 1.0))
    names = metric_names(study.measure.asked) if least else []
    found: dict[str, float] = {}
    for (side, counter), share in least.items():
        for name in made_of(side, counter, names):
            found[name] = min(share, found.get(name, 1.0))
    return found


def scaled_notes(trials: Sequence[TrialRecord]) -> Iterator[str]:
    """The warnings of all trials that events were counted for a part of the time, as one for each side: with
    each event's least share."""
    found: dict[str, dict[str, float]] = {}
    count: Counter[str] = Counter()
    for trial in trials:
        for side, shares in scaled_of_sides(trial).items():
            count[side] += bool(shares)
            least = found.setdefault(side, {})
            for name, share in shares.items():
                least[name] = min(share, least.get(name, 1.0))
    for side, least in found.items():
        yield from (
            f"{count[side]} of {len(trials)} trials: {each}" for each in scaled_in_words({side: least})
        )


def remarks(scaled: Shares, metrics: Iterable[str], contenders: Iterable[str]) -> Iterator[str]:
    """What belongs beside a figure that rests on these metrics of these contenders; nothing where all was
    counted all the time."""
    wanted = {*metrics}
    shares = [
        share for name in contenders for metric, share in scaled.get(name, {}).items() if metric in wanted
    ]
    if said := extrapolated(shares):
        yield said
