"""Explanations in sentences, for the terminal and the report."""

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
    number,
    percent,
    printable,
    span,
)

__all__ = [
    "ALMOST",
    "CAUSES",
    "NAMED_FROM",
    "SWITCHES_ALONE",
    "THINGS",
    "WHOSE",
    "WITHIN_CALLS",
    "digits_of",
    "elsewhere",
    "how_often",
    "legend",
    "name_of",
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
"""The causes as tables have them."""

THINGS: dict[CauseName, tuple[str, str]] = {
    "connections": ("connection", "connections"),
    "processes": ("process", "processes"),
    "threads": ("thread", "threads"),
    "system_calls": ("system call", "system calls"),
    "switches_and_wakeups": ("switch with its wake-up", "switches with their wake-ups"),
    "page_faults": ("page fault", "page faults"),
    "copies": ("byte copied", "bytes copied"),
}
"""What each counts, as sentences have it."""

WHOSE = {
    "server": "server CPU",
    "client": "client CPU",
    "both": "CPU of server and clients together",
}

WITHIN_CALLS = " (work of the kernel within system calls is in it: how much of it cannot be told)"
"""Calls are priced as empty ones, and no count says what else they do."""

NAMED_FROM = 0.01
"""A cause is named in the sentence that is at least so large a part of the difference."""
ALMOST = 0.005
"""A count that is nearer to a whole number is written as one."""


SWITCHES_ALONE = "switches without wake-ups"
"""The cause where no wake-ups were counted."""


def name_of(cause: Cause) -> str:
    """A cause as tables have it."""
    return SWITCHES_ALONE if cause.unit == SWITCHES else CAUSES[cause.cause]


def unit_of_times(explanation: Explanation) -> Unit:
    """The unit in which the figures of an explanation are read most easily."""
    between = explanation.difference
    amounts = [each.amount.value for each in explanation.causes if each.amount]
    largest = max(map(abs, [between.a, between.b, between.value, *amounts]))
    for below, factor, name in SMALL_SECONDS:
        if 0 < largest < below:
            return Unit(factor, name)
    return Unit(1, "s")


def digits_of(explanation: Explanation, unit: Unit) -> int:
    """Decimals that give the difference three significant digits."""
    return min(3, decimals([unit.of(explanation.difference.value)]))


def sentence(explanation: Explanation) -> str:
    """`epoll needs 12.3 µs less server CPU per request than prefork (95 % interval 11.0 to 13.1): 11.8 µs are
    3 switches with their wake-ups less; 0.5 µs cannot be attributed, ...`, and what is in that."""
    between, unit = explanation.difference, unit_of_times(explanation)
    digits = digits_of(explanation, unit)
    # Of a difference that is not shown the figure is told as it is, and so are its parts.
    sign = -1 if between.value < 0 and (between.is_shown or between.low is None) else 1
    parts, others = _named(explanation)
    told = [
        f"{number(unit.of(sign * amount.value), digits)} {unit.name} {_things(cause, explanation)}"
        for cause, amount in parts
    ]
    if others:
        rest_of = sum(amount.value for _, amount in others)
        told.append(f"{number(unit.of(sign * rest_of), digits)} {unit.name} all else that has a price")
    if told:
        told[0] = told[0].replace(f" {unit.name} ", f" {unit.name} are ", 1)
    rest = explanation.rest.amount
    remains = f"{number(unit.of(sign * rest.value), digits)} {unit.name}" if rest else ABSENT
    because = f"{', '.join(told)}; " if told else ""
    text = f"{_head(explanation, unit, digits)}: {because}{remains} cannot be attributed"
    missing = [CAUSES[each.cause] for each in explanation.causes if each.amount is None]
    within = (
        WITHIN_CALLS if explanation.network is None else _network(explanation.network, unit, digits, sign)
    )
    return f"{text}{f', {_listed(missing)} among it' if missing else ''}{within}."


def _network(part: Range, unit: Unit, digits: int, sign: int) -> str:
    """What is known of the rest where both were sampled: how much of the difference has no price as it is
    network code."""
    ends = sorted(sign * each for each in (part.low, part.high))
    return (
        f" (work of the kernel within system calls is in it: by the profiles its network code, which has no "
        f"price, makes {number(unit.of(sign * part.value), digits)} {unit.name} of the difference, bounds "
        f"{span(unit.of(ends[0]), unit.of(ends[1]), digits)})"
    )


def _head(explanation: Explanation, unit: Unit, digits: int) -> str:
    """What is to be explained, in words; that it is not shown, where it is not."""
    between = explanation.difference
    what = f"{WHOSE[explanation.side]} per {explanation.per}"
    size = f"{number(unit.of(abs(between.value)), digits)} {unit.name}"
    if not between.is_shown and between.low is not None:
        return (
            f"{explanation.a} and {explanation.b} are not separated in {what} "
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
    """The causes that a sentence names, and those that it takes together."""
    priced = [(each, each.amount) for each in explanation.causes[:-1] if each.amount and each.amount.value]
    least = NAMED_FROM * abs(explanation.difference.value)
    named = [pair for pair in priced if abs(pair[1].value) >= least]
    return named, [pair for pair in priced if pair not in named]


def _things(cause: Cause, explanation: Explanation) -> str:
    """`1 process less`, `49.1 page faults more`."""
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
    return f"{often} {what} {'more' if more > 0 else 'less'}"


def scale_of(explanation: Explanation) -> float:
    """What counts are multiplied by: of a byte they are told for a million."""
    return 1e6 if explanation.per == "byte" else 1.0


def how_often(value: float) -> str:
    """`1`, `0.33`, `49.1`, `4,005`: so many of something in a request."""
    if abs(value - round(value)) < ALMOST:
        return f"{round(value):,}"
    return number(value, decimals([value]))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def reasons(explanations: Sequence[Explanation]) -> list[str]:
    """Why causes have no amount, each reason once with all the causes that it is of."""
    told: dict[str, list[str]] = {}
    for explanation in explanations:
        for each in explanation.causes:
            if each.why:
                told.setdefault(each.why, []).append(name_of(each))
    return [printable(f"{'; '.join(dict.fromkeys(causes))}: {why}") for why, causes in told.items()]


def remarks(explanations: Sequence[Explanation]) -> list[str]:
    """What belongs beside their figures, each once."""
    told = dict.fromkeys(text for each in explanations for text in each.remarks)
    return [printable(f"Beside each figure: {'; '.join(told)}.")] if told else []


def _known_by(between: Difference) -> str:
    """`a 95.8 % interval over 12 blocks, paired`; of few blocks, that they give none."""
    blocks = count(between.blocks, "block")
    if between.low is None:
        return f"from {blocks}, paired, too few for an interval"
    known = f"a {percent(between.confidence)} interval over" if between.confidence else "from"
    return f"{known} {blocks}, paired"


def legend(explanation: Explanation) -> list[str]:
    """How to read it: what the prices are, what they leave out, and what the intervals are."""
    trials = " and ".join(str(each) for each in explanation.trials)
    return [
        "Explained is CPU time, the server's and that of both sides together; elapsed time is not: it has "
        "waiting in it, which none of the prices is.",
        "Amounts: how much more often it happens, times what one of it costs when nothing else is done "
        "(`thunderherd limits`), which is the least that it may cost: an empty system call does nothing, a "
        "small process is forked more quickly than a large one. What that leaves out is in the rest.",
        "The price of a process, and of a thread, has its own system calls, switches and page faults in it; "
        "they are not priced again. A connection (connect, accept, close) has a price that is both sides' "
        "work: it is a cause where one opens more of them for a request than the other, of both together. A "
        "switch is priced with the wake-up that ends it, on one CPU; to wake "
        "another CPU costs more.",
        f"The difference: {_known_by(explanation.difference)}. Of a cause: least "
        f"and most of its counts ({trials} counted trials) and of its price, all at their worst. Of the "
        "rest: all of these in quadrature.",
        *(
            [
                "Network code: the share of the samples that found the kernel in it, its copying, switches, "
                "wake-ups and page faults left out, of the CPU time of the judged trials; its bounds are "
                "those of both in quadrature. It is no further cause, but what profiles say of the rest."
            ]
            if explanation.network
            else []
        ),
    ]


def why_lines(summary: Summary, sweep: SweepSummary) -> list[str]:
    """At which points it is known why one costs more than another and what shows it; at which it is not, and
    what to type for that. Nothing of a sweep of one contender."""
    lines = []
    if sweep.counted_points:
        names = [f"{base}@{sweep.name}={sweep.counted_points[-1]}" for base in sweep.contenders[:2]]
        command = shlex.join(["thunderherd", "explain", "DIR", *names])
        lines.append(f"Why, at {', '.join(sweep.counted_points)}: `{command}`, and the report's section Why.")
    if (others := elsewhere(summary, sweep)) is not None:
        lines.append(f"Why, elsewhere: {others}.")
    return [printable(each) for each in lines]


def elsewhere(summary: Summary, sweep: SweepSummary) -> str | None:
    """At which points of a sweep nothing was counted, and the command that counts at the first of them; None
    where there are none."""
    missing = sweep.uncounted_points
    if not missing:
        return None
    at = [each.name for each in summary.contenders if (each.sweep, each.point) == (sweep.name, missing[0])]
    points = "point" if len(missing) == 1 else "points"
    command = command_to_run_again(summary, at)
    return printable(f"not counted at {points} {', '.join(missing)}; to count at {missing[0]}: {command}")
