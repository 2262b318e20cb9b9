"""How much better one contender is than another, in words: percent below twice, a factor from there on."""

from __future__ import annotations

from dataclasses import dataclass

from thunderherd.metrics.table import is_latency, metric

__all__ = ["FACTOR_FROM", "Lead"]

FACTOR_FROM = 2.0
"""The ratio from which a lead is written as a factor."""


@dataclass(frozen=True)
class Lead:
    """The lead of a contender over another, with the interval of the ratio; None: no bound."""

    metric: str
    first: str
    other: str
    ratio: float
    """The cost of the other over that of the first: above 1, the first is better."""
    low: float | None
    high: float | None

    @property
    def is_factor(self) -> bool:
        """True from twice on, and if the interval is so wide that it begins below a half."""
        return self.ratio >= FACTOR_FROM or (self.low is not None and self.low < 1 / FACTOR_FROM)

    @property
    def more_is_better(self) -> bool:
        return metric(self.metric).better == "more"

    @property
    def amount(self) -> str:
        """Writes `42 % less`, `50 % more` or `2.3 times`."""
        if self.is_factor:
            return f"{_factor(self.ratio)} times"
        word = "more" if self.more_is_better else "lower" if is_latency(self.metric) else "less"
        return f"{_percent(self._in_percent(self.ratio))} % {word}"

    @property
    def interval(self) -> str:
        """Writes `39 to 45 %`, `2.1 to 2.5`, or the one end that is known."""
        if self.is_factor:
            texts, unit = [None if end is None else _factor(end) for end in (self.low, self.high)], ""
        else:
            ends = (self.low, self.high)
            texts = [None if end is None else _percent(self._in_percent(end)) for end in ends]
            unit = " %"
        low, high = texts
        if low is None and high is None:
            return "too few blocks for an interval"
        if low is None:
            return f"at most {high}{unit}"
        return f"at least {low}{unit}" if high is None else f"{low} to {high}{unit}"

    def in_words(self, phrase: str, *, before: str = "", with_interval: bool = True) -> str:
        """Writes `a uses 42 % less CPU than b (39 to 45 %)`, or `b uses 2.3 times the CPU of a (2.1 to 2.5)`.

        `phrase` has the amount's place: `uses {} CPU`. `before` precedes the interval.
        """
        around = f" ({before}{self.interval})" if with_interval else ""
        if not self.is_factor:
            return f"{self.first} {phrase.format(self.amount)} than {self.other}{around}"
        times = phrase.format(f"{self.amount} the")
        if self.more_is_better:
            return f"{self.first} {times} of {self.other}{around}"
        return f"{self.other} {times} of {self.first}{around}"

    def in_short(self) -> str:
        """Writes `42 % less than b: 39 to 45 %`, or `b has 2.3 times as much: 2.1 to 2.5`."""
        if not self.is_factor:
            return f"{self.amount} than {self.other}: {self.interval}"
        if self.more_is_better:
            return f"{self.amount} as much as {self.other}: {self.interval}"
        return f"{self.other} has {self.amount} as much: {self.interval}"

    def over_the_next(self, *, before: str = "", named: bool = False) -> str:
        """Writes `42 % less than the next, b (39 to 45 %)`, behind a sentence that names the metric.

        With `named`, the first is named too.
        """
        if named:
            good = " as good" if self.is_factor else ""
            by = f"{self.amount}{good}: {before}{self.interval}"
            return f"{self.first} is better than the next, {self.other} ({by})"
        around = f"({before}{self.interval})"
        if not self.is_factor:
            return f"{self.amount} than the next, {self.other} {around}"
        if self.more_is_better:
            return f"{self.amount} as much as the next, {self.other} {around}"
        return f"the next, {self.other}, has {self.amount} as much {around}"

    def _in_percent(self, ratio: float) -> float:
        """Gives how much more the first has if more is better, and how much less otherwise."""
        return 100 * (ratio - 1) if self.more_is_better else 100 * (1 - 1 / ratio)


def _percent(value: float) -> str:
    text = f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    return text.replace("-", "−")


def _factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
