"""What counting the processor's events changed, in words: beside figures, verdicts and explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from thunderherd.metrics.table import BOTH, SIDES, metric
from thunderherd.records.extra_trials import CostEstimate, CountingCost
from thunderherd.records.summary import Summary
from thunderherd.text.figures import capital, count, percent, printable, ratio_digits, span, words_of

__all__ = ["about_cpu_time", "about_metrics", "cost_lines"]

OF_SIDE = {side: f"{side}_cpu_per_request" for side in SIDES}
"""By what it is told how much counting changed a side whose own counters are compared."""


def cost_lines(summary: Summary) -> list[str]:
    """How much it changed, and what that means; nothing where the run has not measured it."""
    cost = summary.counting_cost
    if cost is None:
        return []
    told = "; ".join(_by_metric(cost, _metrics(cost), with_ends=True))
    means = (
        ": figures of time and cycles are of a program that is counted"
        if _changed(summary, _metrics(cost))
        else f": that this changes anything by more than {_band(summary)} is not shown"
    )
    return [printable(f"Counting {_events(cost)} made {told} ({_how(cost)}){means}{_guest(summary)}.")]


def about_metrics(summary: Summary, names: Iterable[str]) -> list[str]:
    """Which of the metrics that verdicts rest on counting changed by more than what counts as equivalent; of
    a counter that is not there without being asked for, how much it changed that side's CPU time."""
    cost = summary.counting_cost
    if cost is None:
        return []
    lines = []
    for name in dict.fromkeys(names):
        if not _changed(summary, stand_ins(cost, name)):
            continue
        told = "; ".join(_by_metric(cost, stand_ins(cost, name), with_ends=False))
        lines.append(
            printable(
                f"{capital(words_of(name))}: of programs that counting changed, by more than the "
                f"{_band(summary)} that count as equivalent: it made {told}."
            )
        )
    return lines


def about_cpu_time(summary: Summary) -> list[str]:
    """That CPU time is explained which counting has changed; nothing where it has not, or nobody knows."""
    cost = summary.counting_cost
    if cost is None or not _changed(summary, OF_SIDE.values()):
        return []
    return [
        *cost_lines(summary),
        "What is explained has the cost of counting in it, which none of the prices is: it is in the rest.",
    ]


def stand_ins(cost: CountingCost, name: str) -> list[str]:
    """The metrics that tell how counting changed one: itself, or the CPU time of whose counter it is."""
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
    """`server CPU per request 1.53 times as long with single (1.4 to 1.6), 1.31 with select (1.2 to 1.4)`."""
    for name in names:
        known = [(one, found) for one in cost.contenders if (found := one.ratio(name)) is not None]
        times = f" times as {'long' if metric(name).unit == 's' else 'high'}"
        told: list[str] = []
        for one, found in known:
            digits = min(2, ratio_digits(found.value))
            ends = f" ({_ends(found, digits)})" if with_ends else ""
            told.append(f"{found.value:.{digits}f}{'' if told else times} with {one.contender}{ends}")
        if told:
            yield f"{words_of(name)} {', '.join(told)}"


def _ends(found: CostEstimate, digits: int) -> str:
    """Of the interval; of pairs that are too few for one, the least and the greatest of them."""
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
    few = "; 'pairs': too few for an interval" if len(known) < len(ratios) else ""
    return f"{pairs} of trials of a contender, with all counters and without{intervals}{few}"


def _band(summary: Summary) -> str:
    return f"{summary.study.equivalence_percent:g} %"


def _guest(summary: Summary) -> str:
    """Where it may come from, if this is a virtual machine."""
    if summary.machine.get("hypervisor", "none") == "none":
        return ""
    return "; this is a virtual machine, whose hypervisor may trap each access to the processor's counters"
