"""Estimates as tables and charts show them: in the metric's unit, with an interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from thunderherd.metrics.table import ELAPSED, SIDES, known_metric
from thunderherd.records.summary import ContenderSummary, Estimate, Spread, Summary, SweepSummary
from thunderherd.text.figures import BETWEEN, Unit, decimals, number, span, unit_of, words_of

DECADES = 100.0
"""If the figures of a table differ by more than this factor, each row has its own decimals."""


@dataclass(frozen=True)
class ShownEstimate:
    """An estimate with its interval, or a mean with its deviation, in the metric's own unit."""

    value: float
    low: float | None
    high: float | None
    deviation: float | None = None
    is_mean: bool = False

    def span(self, unit: Unit, digits: int, between: str = BETWEEN) -> str:
        """Writes the interval, or the deviation of repeated runs."""
        if not self.is_mean:
            return span(unit.of(self.low), unit.of(self.high), digits, between)
        return "" if self.deviation is None else f"sd {number(unit.of(self.deviation), digits)}"


def shown_of(summary: Summary, contender: ContenderSummary | None, name: str) -> ShownEstimate | None:
    """Gives a contender's estimate of a metric, or the mean of repeated runs; None without one."""
    if contender is None:
        return None
    return shown(summary, contender.metrics.get(name), contender.spread.get(name))


def shown(summary: Summary, estimate: Estimate | None, spread: Spread | None) -> ShownEstimate | None:
    """Chooses the estimate over blocks, or the mean of repeated runs."""
    if not summary.study.repetitions:
        return ShownEstimate(estimate.value, estimate.low, estimate.high) if estimate else None
    if spread is None:
        return None
    around = spread.standard_deviation
    low, high = (None, None) if around is None else (spread.mean - around, spread.mean + around)
    return ShownEstimate(spread.mean, low, high, around, is_mean=True)


def at_least_in_words(summary: Summary, contender: ContenderSummary, name: str) -> str:
    """Writes `at least 122,000/s (limited by the clients)`: a rate that is a lower bound."""
    value = contender.at_least[name].value
    unit = unit_of(name, summary.study.normalise_connections, [value], summary.study.counters)
    figure = number(unit.of(value), decimals([unit.of(value)], 3))
    return f"at least {figure}{'' if unit.name.startswith('/') else ' '}{unit.name} (limited by the clients)"


def unit_for(summary: Summary, name: str, figures: Iterable[ShownEstimate | None]) -> Unit:
    """Chooses the unit that suits all these figures of a metric."""
    study = summary.study
    return unit_of(
        name, study.normalise_connections, [each.value for each in figures if each], study.counters
    )


def caption_of(name: str, unit: Unit) -> str:
    """Writes a metric and its unit as a heading: `requests per second`, `median latency (ms)`."""
    words = words_of(name)
    if " per " in unit.name:  # the unit says per what
        return f"{words.partition(' per ')[0]} ({unit.name})"
    is_named = unit.name in ("", "/s") or unit.name in words.split()
    return words if is_named else f"{words} ({unit.name})"


def counted_over(summary: Summary, name: str, contenders: Iterable[ContenderSummary | None]) -> str:
    """Writes `counted over 0.41 to 0.44 s`: the time over which a side's events were counted.

    The source may have counted over another time. Empty if the metric is no count or no contender has it.
    """
    side = name.partition(".")[0]
    if side not in SIDES or not is_count(summary, name):
        return ""
    times = [
        elapsed.value
        for each in contenders
        if shown_of(summary, each, name)
        # In a window the server reports no elapsed time.
        and (elapsed := shown_of(summary, each, f"{side}.{ELAPSED}") or shown_of(summary, each, ELAPSED))
    ]
    if not times:
        return ""
    digits = decimals(times, 2)
    ends = dict.fromkeys(number(end, digits) for end in (min(times), max(times)))
    return f"counted over {' to '.join(ends)} s"


def is_count(summary: Summary, name: str) -> bool:
    """True if a metric is a whole number in each run; only its means have decimals."""
    found = known_metric(name, summary.study.counters)
    return found is not None and found.whole


def digits_for(values: Iterable[float], name: str) -> int:
    """Counts the decimals that give the smallest of these figures the digits of its metric."""
    found = known_metric(name)
    return decimals(not_tiny(values), found.digits if found else 3)


def not_tiny(values: Iterable[float]) -> list[float]:
    """Leaves out values near zero, which would give the others meaningless decimals."""
    sizes = [abs(value) for value in values]
    return [size for size in sizes if size * DECADES >= max(sizes)]


def at_points(summary: Summary, sweep: SweepSummary) -> dict[tuple[str, str], ContenderSummary]:
    """Gives the contenders of a sweep by base and point."""
    return {(each.base, each.point or ""): each for each in summary.contenders if each.sweep == sweep.name}
