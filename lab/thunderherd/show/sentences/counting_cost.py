"""Effect of counting the processor's events on the figures, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from thunderherd.metrics.table import BOTH, SIDES, metric
from thunderherd.records.extra_trials import CostEstimate, CountingCost
from thunderherd.records.summary import Summary
from thunderherd.text.figures import capital, count, percent, ratio_digits, span, words_of
from thunderherd.text.printable import printable

__all__ = ["about_cpu_time", "about_metrics", "cost_in_short", "cost_lines"]

OF_SIDE = {side: f"{side}_cpu_per_request" for side in SIDES}
"""The metric that shows how much counting changed a side."""


def cost_lines(summary: Summary) -> list[str]:
    """Writes how much counting changed, and the consequence; empty if the run did not measure it."""
    cost = summary.counting_cost
    if cost is None:
        return []
    changes = "; ".join(_by_metric(cost, _metrics(cost), with_ends=True))
    consequence = (
        "Times and cycles include this cost."
        if _changed(summary, _metrics(cost))
        else f"No change of more than {_band(summary)} is shown."
    )
    return [
        printable(f"Counting {_events(cost)} made {changes} ({_how(cost)}). {consequence}{_guest(summary)}")
    ]


def cost_in_short(summary: Summary) -> list[str]:
    """Writes the least and the largest factor by which counting changed figures; empty if unknown."""
    cost = summary.counting_cost
    if cost is None:
        return []
    values = [each.value for one in cost.contenders for each in one.ratios]
    if not values or not _changed(summary, _metrics(cost)):
        return cost_lines(summary)
    low, high = (f"{choose(values):.2f}" for choose in (min, max))
    return [
        printable(
            f"Counting {_events(cost)} made figures {low} to {high} times as high. Times and cycles include "
            "this cost."
        )
    ]


def about_metrics(summary: Summary, names: Iterable[str]) -> list[str]:
    """Lists the metrics of verdicts that counting changed by more than the equivalence band.

    For a counter, which trials without counters lack, the CPU time of its side is compared.
    """
    cost = summary.counting_cost
    if cost is None:
        return []
    lines = []
    for name in dict.fromkeys(names):
        if not _changed(summary, stand_ins(cost, name)):
            continue
        changes = "; ".join(_by_metric(cost, stand_ins(cost, name), with_ends=False))
        lines.append(
            printable(
                f"{capital(words_of(name))}: counting changed these programs by more than the "
                f"{_band(summary)} that count as equivalent. It made {changes}."
            )
        )
    return lines


def about_cpu_time(summary: Summary) -> list[str]:
    """Warns that counting changed the explained CPU time; empty if it did not, or if that is unknown."""
    cost = summary.counting_cost
    if cost is None or not _changed(summary, OF_SIDE.values()):
        return []
    return [
        *cost_lines(summary),
        "The explained CPU time includes the cost of counting. It has no price, so it is part of the rest.",
    ]


def stand_ins(cost: CountingCost, name: str) -> list[str]:
    """Lists the metrics that show how counting changed one: itself, or the CPU time of its sides."""
    if any(each.ratio(name) for each in cost.contenders):
        return [name]
    side = name.partition(".")[0]
    if side == BOTH:
        return [*OF_SIDE.values()]
    return [OF_SIDE[each] for each in SIDES if each == side or name.startswith(f"{each}_")]


def _metrics(cost: CountingCost) -> list[str]:
    return [*dict.fromkeys(each.metric for one in cost.contenders for each in one.ratios)]


def _changed(summary: Summary, names: Iterable[str]) -> bool:
    cost = summary.counting_cost
    band, wanted = summary.study.equivalence_percent, {*names}
    return cost is not None and any(
        each.metric in wanted and each.is_beyond(band) for one in cost.contenders for each in one.ratios
    )


def _by_metric(cost: CountingCost, names: Sequence[str], *, with_ends: bool) -> Iterator[str]:
    """Writes `server CPU per request 1.53 times as long with single (1.4 to 1.6), 1.31 with select (...)`."""
    for name in names:
        known = [(one, found) for one in cost.contenders if (found := one.ratio(name)) is not None]
        times = f" times as {'long' if metric(name).unit == 's' else 'high'}"
        texts: list[str] = []
        for one, found in known:
            digits = min(2, ratio_digits(found.value))
            ends = f" ({_ends(found, digits)})" if with_ends else ""
            texts.append(f"{found.value:.{digits}f}{'' if texts else times} with {one.contender}{ends}")
        if texts:
            yield f"{words_of(name)} {', '.join(texts)}"


def _ends(found: CostEstimate, digits: int) -> str:
    """Writes the ends of the interval; with too few pairs, the least and the largest ratio."""
    if found.low is None or found.high is None:
        return f"pairs: {span(found.least, found.most, digits)}"
    return span(found.low, found.high, digits)


def _events(cost: CountingCost) -> str:
    first, *others = cost.events or ["events"]
    more = f" and {count(len(others), 'more event')}" if others else ""
    return f"{first}{more} of the processor"


def _how(cost: CountingCost) -> str:
    ratios = [each for one in cost.contenders for each in one.ratios]
    fewest, most = min(each.pairs for each in ratios), max(each.pairs for each in ratios)
    pairs = count(most, "pair") if fewest == most else f"{fewest} to {most} pairs"
    known = [each.confidence for each in ratios if each.low is not None]
    intervals = f"; intervals: {percent(min(known))}" if known else ""
    few = "; 'pairs': least and largest, too few for an interval" if len(known) < len(ratios) else ""
    return f"{pairs} of trials for each contender, with and without all counters{intervals}{few}"


def _band(summary: Summary) -> str:
    return f"{summary.study.equivalence_percent:g} %"


def _guest(summary: Summary) -> str:
    """Names a possible cause, if this is a virtual machine."""
    if summary.machine.get("hypervisor", "none") == "none":
        return ""
    return " This is a virtual machine, whose hypervisor may trap each access to the processor's counters."
