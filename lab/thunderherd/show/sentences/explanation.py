"""Explanations of differences in CPU time, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from thunderherd.judge.why.pairs import command_to_run_again
from thunderherd.records.explanation import Cause, CauseName, Difference, Explanation, Range
from thunderherd.records.extra_trials import SWITCHES
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.text.figures import (
    ABSENT,
    SMALL_SECONDS,
    Unit,
    count,
    decimals,
    listed,
    number,
    percent,
    span,
)
from thunderherd.text.printable import printable

__all__ = [
    "ALMOST",
    "CAUSES",
    "NAMED_FROM",
    "SWITCHES_ALONE",
    "THINGS",
    "WHOSE",
    "WITHIN_CALLS",
    "brief_legend",
    "calls_that_differ",
    "command_to_count",
    "digits_of",
    "elsewhere",
    "how_often",
    "largest_cause",
    "largest_of",
    "legend",
    "name_of",
    "overview",
    "reasons",
    "remarks",
    "scale_of",
    "sentence",
    "unit_of_times",
    "why_lines",
]


CAUSES: dict[CauseName, str] = {
    "connections": "connections made",
    "processes": "processes made",
    "threads": "threads made",
    "system_calls": "system calls",
    "switches_and_wakeups": "switches, wake-ups",
    "page_faults": "page faults",
    "copies": "copies",
    "rest": "the rest",
}
"""The causes in tables."""

THINGS: dict[CauseName, tuple[str, str]] = {
    "connections": ("connection", "connections"),
    "processes": ("process", "processes"),
    "threads": ("thread", "threads"),
    "system_calls": ("system call", "system calls"),
    "switches_and_wakeups": ("switch with its wake-up", "switches with their wake-ups"),
    "page_faults": ("page fault", "page faults"),
    "copies": ("byte copied", "bytes copied"),
}
"""What each cause counts, in sentences: singular and plural."""

WHOSE = {
    "server": "server CPU",
    "client": "client CPU",
    "both": "CPU of server and clients together",
}

WITHIN_CALLS = " (this includes an unknown amount of kernel work within system calls)"
"""A caveat of the rest: calls are priced as empty ones, and no counter covers their other work."""

NAMED_FROM = 0.01
"""The smallest share of the difference at which the sentence names a cause."""
ALMOST = 0.005
"""A count nearer to a whole number than this is written as one."""


SWITCHES_ALONE = "switches without wake-ups"
"""The cause if no wake-ups were counted."""


def name_of(cause: Cause) -> str:
    """Names a cause in tables."""
    return SWITCHES_ALONE if cause.unit == SWITCHES else CAUSES[cause.cause]


def unit_of_times(explanation: Explanation) -> Unit:
    """Chooses the unit in which the figures of an explanation are easiest to read."""
    between = explanation.difference
    amounts = [each.amount.value for each in explanation.causes if each.amount]
    largest = max(map(abs, [between.a, between.b, between.value, *amounts]))
    for below, factor, name in SMALL_SECONDS:
        if 0 < largest < below:
            return Unit(factor, name)
    return Unit(1, "s")


def digits_of(explanation: Explanation, unit: Unit) -> int:
    """Counts the decimals that give the difference three significant digits."""
    return min(3, decimals([unit.of(explanation.difference.value)]))


def sentence(explanation: Explanation) -> str:
    """Writes an explanation in a sentence.

    `epoll needs 12.3 µs less server CPU per request than prefork (95 % interval 11.0 to 13.1): 11.8 µs are 3
    fewer switches with their wake-ups; 0.5 µs cannot be attributed (...)`.
    """
    between, unit = explanation.difference, unit_of_times(explanation)
    digits = digits_of(explanation, unit)
    # A difference that is not significant keeps its sign, and so do its parts.
    sign = -1 if between.value < 0 and (between.is_shown or between.low is None) else 1
    parts, others = _named(explanation)
    texts = [
        f"{number(unit.of(sign * amount.value), digits)} {unit.name} {_things(cause, explanation)}"
        for cause, amount in parts
    ]
    rest_of = sum(amount.value for _, amount in others)
    if number(unit.of(rest_of), digits).strip("-0."):
        texts.append(f"{number(unit.of(sign * rest_of), digits)} {unit.name} all other priced causes")
    if texts:
        texts[0] = texts[0].replace(f" {unit.name} ", f" {unit.name} are ", 1)
    rest = explanation.rest.amount
    remains = f"{number(unit.of(sign * rest.value), digits)} {unit.name}" if rest else ABSENT
    because = f"{', '.join(texts)}; " if texts else ""
    missing = [CAUSES[each.cause] for each in explanation.causes if each.amount is None]
    including = f", including {listed(missing)}," if missing else ""
    within = (
        WITHIN_CALLS if explanation.network is None else _network(explanation.network, unit, digits, sign)
    )
    head = _head(explanation, unit, digits)
    return f"{head}: {because}{remains}{including} cannot be attributed{within}."


def overview(explanations: Sequence[Explanation]) -> str:
    """Counts the significant differences of several pairs, and writes the largest one."""
    first = explanations[0]
    what = f"{WHOSE[first.side]} per {first.per}"
    pairs = count(len(explanations), "pair")
    largest = largest_of(explanations)
    if largest is None:
        return f"None of {pairs} differs significantly in {what}."
    unit = unit_of_times(largest)
    head = _head(largest, unit, digits_of(largest, unit))
    shown = sum(each.difference.is_shown for each in explanations)
    return f"{shown} of {pairs} differ significantly in {what}. The largest difference: {head}."


def largest_cause(explanation: Explanation) -> str:
    """Writes the priced cause with the largest amount: `switches, wake-ups: -0.16 s`."""
    named, _ = _named(explanation)
    if not named:
        return "none has a price"
    unit = unit_of_times(explanation)
    cause, amount = named[0]
    return f"{name_of(cause)}: {number(unit.of(amount.value), digits_of(explanation, unit))} {unit.name}"


def largest_of(explanations: Sequence[Explanation]) -> Explanation | None:
    """Gives the explanation of the largest significant difference, relative to the lesser of both."""
    shown = [each for each in explanations if each.difference.is_shown]
    return max(shown, key=lambda each: abs(each.difference.value) / _least(each.difference), default=None)


def _least(between: Difference) -> float:
    return max(min(between.a, between.b), 1e-12)


def _network(part: Range, unit: Unit, digits: int, sign: int) -> str:
    """Writes how much of the difference is network code, which has no price, by the profiles of both."""
    ends = sorted(sign * each for each in (part.low, part.high))
    return (
        " (this includes kernel work within system calls; by the profiles, network code, which has no price, "
        f"is {number(unit.of(sign * part.value), digits)} {unit.name} of the difference, bounds "
        f"{span(unit.of(ends[0]), unit.of(ends[1]), digits)})"
    )


def _head(explanation: Explanation, unit: Unit, digits: int) -> str:
    """Writes the difference, and whether it is significant."""
    between = explanation.difference
    what = f"{WHOSE[explanation.side]} per {explanation.per}"
    size = f"{number(unit.of(abs(between.value)), digits)} {unit.name}"
    if not between.is_shown and between.low is not None:
        return (
            f"{explanation.a} and {explanation.b} do not differ significantly in {what} "
            f"({number(unit.of(between.value), digits)} {unit.name}{_interval(between, unit, digits, 1)})"
        )
    more = "less" if between.value < 0 else "more"
    sign = -1 if between.value < 0 else 1
    if between.low is None:
        few = f"{count(between.blocks, 'block')}, too few for an interval"
        return f"{explanation.a} needs {size} {more} {what} than {explanation.b} ({few})"
    return (
        f"{explanation.a} needs {size} {more} {what} than {explanation.b}"
        f" ({_interval(between, unit, digits, sign).removeprefix(', ')})"
    )


def _interval(between: Difference, unit: Unit, digits: int, sign: int) -> str:
    ends = [None if each is None else sign * each for each in (between.low, between.high)]
    low, high = ends if sign > 0 else reversed(ends)
    known = f"{percent(between.confidence)} interval " if between.confidence else "interval "
    return f", {known}{span(unit.of(low), unit.of(high), digits)}"


def _named(explanation: Explanation) -> tuple[list[tuple[Cause, Range]], list[tuple[Cause, Range]]]:
    """Splits the priced causes: those that a sentence names, and those that it sums up."""
    priced = [(each, each.amount) for each in explanation.causes[:-1] if each.amount and each.amount.value]
    least = NAMED_FROM * abs(explanation.difference.value)
    named = [pair for pair in priced if abs(pair[1].value) >= least]
    return named, [pair for pair in priced if pair not in named]


def _things(cause: Cause, explanation: Explanation) -> str:
    """Writes `1 fewer process`, `49.1 more page faults`."""
    if cause.cause == "rest" or cause.a is None or cause.b is None:
        return CAUSES[cause.cause]
    singular, plural = ("switch", "switches") if cause.unit == SWITCHES else THINGS[cause.cause]
    more = cause.a - cause.b
    if cause.cause == "copies" and not more:
        return (
            "copies in smaller blocks"
            if cause.amount and cause.amount.value > 0
            else "copies in larger blocks"
        )
    often = how_often(abs(more) * scale_of(explanation))
    what = f"{singular if often == '1' else plural}{' a MB' if explanation.per == 'byte' else ''}"
    return f"{often} {'more' if more > 0 else 'fewer'} {what}"


def scale_of(explanation: Explanation) -> float:
    """Gives the factor of counts: those per byte are shown per million bytes."""
    return 1e6 if explanation.per == "byte" else 1.0


def how_often(value: float) -> str:
    """Writes a count: `1`, `0.33`, `49.1`, `4,005`."""
    if abs(value - round(value)) < ALMOST:
        return f"{round(value):,}"
    return number(value, decimals([value]))


def reasons(explanations: Sequence[Explanation]) -> list[str]:
    """Lists why causes have no amount, each reason once with all of its causes."""
    causes_of: dict[str, list[str]] = {}
    for explanation in explanations:
        for each in explanation.causes:
            if each.why:
                causes_of.setdefault(each.why, []).append(name_of(each))
    return [printable(f"{'; '.join(dict.fromkeys(causes))}: {why}") for why, causes in causes_of.items()]


def remarks(explanations: Sequence[Explanation]) -> list[str]:
    """Writes the caveats of their figures, each once."""
    texts = dict.fromkeys(text for each in explanations for text in each.remarks)
    return [printable(f"Applies to every figure: {'; '.join(texts)}.")] if texts else []


def _known_by(between: Difference) -> str:
    """Writes `a 95.8 % interval over 12 blocks, paired`, or that there are too few blocks."""
    blocks = count(between.blocks, "block")
    if between.low is None:
        return f"from {blocks}, paired, too few for an interval"
    known = f"a {percent(between.confidence)} interval over" if between.confidence else "from"
    return f"{known} {blocks}, paired"


def legend(explanation: Explanation) -> list[str]:
    """Explains the prices, what they leave out, and the intervals."""
    trials = " and ".join(str(each) for each in explanation.trials)
    return [
        "Only CPU time is explained: the server's, and that of both sides together. Elapsed time also "
        "contains waiting, which has no price.",
        "Amount: how much more often something happens, times its price, which is the cost of a bare "
        "operation (`thunderherd limits`). That is the least that it may cost: an empty system call does "
        "nothing, and a small process forks faster than a large one. The rest has what the prices leave out.",
        "The price of a process or thread includes its own system calls, switches and page faults, which are "
        "not priced again. The price of a connection (connect, accept, close) covers both sides' work. It is "
        "a cause in the CPU of both together, if one contender opens more connections per request. The price "
        "of a switch includes the wake-up that ends it, on one CPU; waking another CPU costs more.",
        f"Difference: {_known_by(explanation.difference)}. Bounds of a cause: least and most of its counts "
        f"({trials} counted trials) and of its price, all at their worst. Bounds of the rest: all of these "
        "in quadrature.",
        *(
            [
                "Network code: the share of samples in the kernel's network code, without its copying, "
                "switches, wake-ups and page faults, times the CPU time of the judged trials. Its bounds "
                "combine those of both in quadrature. It is no further cause, but a part of the rest."
            ]
            if explanation.network
            else []
        ),
    ]


def brief_legend(explanation: Explanation) -> list[str]:
    """Explains the columns in a line each, for a terminal; the report has the whole legend."""
    trials = " and ".join(str(each) for each in explanation.trials)
    return [
        "amount: how much more often a does something than b, times the price of a bare operation; that is "
        "the least that it may cost",
        "the rest has no price, such as the work of the kernel within system calls",
        f"difference: {_known_by(explanation.difference)}; counts: {trials} counted trials",
    ]


def calls_that_differ(explanation: Explanation) -> str:
    """Writes the system calls that differ most: `recvfrom 23,246 and 264,056`; empty if none do.

    Calls that differ only in digits that are not shown are left out.
    """
    scale = scale_of(explanation)
    items = [item for each in explanation.causes if each.cause == "system_calls" for item in each.items]
    shown = [(each.name, how_often(each.a * scale), how_often(each.b * scale)) for each in items]
    texts = [f"{name} {a} and {b}" for name, a, b in shown if a != b]
    if not texts:
        return ""
    more = f", and {count(len(texts) - MOST_CALLS, 'more call')}" if len(texts) > MOST_CALLS else ""
    per = "MB" if explanation.per == "byte" else explanation.per
    return f"system calls that differ, per {per}: {', '.join(texts[:MOST_CALLS])}{more}"


MOST_CALLS = 4
"""The most system calls that a line names."""


def why_lines(summary: Summary, sweep: SweepSummary) -> list[str]:
    """Names the command that explains the differences at counted points, and the one that counts at others.

    Empty for a sweep of one contender.
    """
    lines = []
    if sweep.counted_points:
        names = [f"{base}@{sweep.name}={sweep.counted_points[-1]}" for base in sweep.contenders[:2]]
        command = shlex.join(["thunderherd", "explain", "DIR", *names])
        lines.append(f"Why, at {', '.join(sweep.counted_points)}: `{command}`, or the report's section Why.")
    if (others := elsewhere(summary, sweep)) is not None:
        lines.append(f"Why, at other points: {others}.")
    return [printable(each) for each in lines]


def elsewhere(summary: Summary, sweep: SweepSummary) -> str | None:
    """Lists the points of a sweep that were not counted, with the command that counts at the first of them.

    None if there are none.
    """
    missing = sweep.uncounted_points
    if not missing:
        return None
    points = "point" if len(missing) == 1 else "points"
    command = command_to_count(summary, sweep)
    return printable(f"not counted at {points} {', '.join(missing)}; to count at {missing[0]}: `{command}`")


def command_to_count(summary: Summary, sweep: SweepSummary) -> str:
    """Writes the command that counts at the first point of a sweep that was not counted."""
    place = (sweep.name, sweep.uncounted_points[0])
    at = [each.name for each in summary.contenders if (each.sweep, each.point) == place]
    return command_to_run_again(summary, at).strip("`")
