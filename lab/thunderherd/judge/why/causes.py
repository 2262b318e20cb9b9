"""Why one contender needs more CPU time than another: what happens more often per request, at its price.

Counts come from counted trials, prices from the machine's limits, the difference from judged trials. A price
is the cost of a bare operation, so it is the least that the operation may cost. An empty system call does
nothing, and a small process forks faster than a large one. What remains is the rest, which is always
reported. The causes and the rest add up to the difference by construction; that is no test of any of them.

Bounds. A cause's bounds are those of its counts (least and most of the counted trials) times those of its
price, all at their worst at once. The bounds of the rest combine those of the difference and of the causes in
quadrature, since they come from independent trials and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thunderherd.judge.why.counts import COPIED
from thunderherd.judge.why.side import MAKING, NOTHING, WITHIN, Counted
from thunderherd.metrics.table import SideOrBoth
from thunderherd.records.explanation import Cause, CauseName, Difference, Explanation, Item, Per, Range
from thunderherd.records.extra_trials import (
    CONTEXT_SWITCHES,
    PAGE_FAULTS,
    SWITCHES,
    SYSTEM_CALLS,
    WAKEUPS,
    ContenderCounts,
)
from thunderherd.records.limits import NANOSECOND, LimitFigure, MachineLimits

__all__ = ["PRICES", "explain"]

PRICES: Mapping[CauseName, str] = {
    "connections": "tcp_connection",
    "processes": "fork_exit_wait",
    "threads": "thread_creation",
    "system_calls": "system_call",
    "switches_and_wakeups": "process_switch",
    "page_faults": "page_fault",
    "copies": "memcpy",
}
"""The limit that is the price of each cause."""

SWITCHES_WITHIN, WAKEUPS_WITHIN = 2, 1
"""The switches and wake-ups in the price of a process or thread.

They are the switches to the new one and back, and the wake-up of the one that waits for its end.
"""

SAME = 0.01
"""System calls whose numbers differ by a smaller share than this are not listed."""
SAME_CONNECTIONS = 0.05
"""The same share for connections. At each end of a window, some have their request outside it."""
ITEMS = 12
"""The most system calls that are listed, by the largest differences."""


def explain(
    a: ContenderCounts,
    b: ContenderCounts,
    limits: MachineLimits,
    difference: Difference,
    *,
    side: SideOrBoth = "server",
    per: Per = "request",
    has_tcp: bool = True,
) -> Explanation:
    """Explain the difference between the CPU times of two contenders, by cause.

    Both need counted trials (`ContenderCounts.trials` is not 0). `has_tcp` says whether the connections of
    both are TCP's. A cause that was not counted, or has no price, has no amount and says why; it is part of
    the rest.
    """
    pair = Counted(a, side, per), Counted(b, side, per)
    connected = _connections(*pair, limits) if has_tcp else None
    if connected is not None and connected.amount is not None:
        pair = (replace(pair[0], has_priced_connections=True), replace(pair[1], has_priced_connections=True))
    causes = [*([connected] if connected else []), *(cause(*pair, limits) for cause in CAUSES)]
    amounts = [each.amount for each in causes if each.amount is not None]
    rest = difference.value - sum(each.value for each in amounts)
    down = _together(_below(difference.value, difference.low), [each.high - each.value for each in amounts])
    up = _together(_below(difference.high, difference.value), [each.value - each.low for each in amounts])
    causes.sort(key=lambda each: -abs(each.amount.value) if each.amount else 0.0)
    remains = Cause(
        cause="rest",
        a=None,
        b=None,
        unit="",
        price=None,
        limit=None,
        amount=Range(value=rest, low=rest - down, high=rest + up),
    )
    return Explanation(
        a=a.contender,
        b=b.contender,
        side=side,
        per=per,
        difference=difference,
        causes=[*causes, remains],
        trials=(a.trials, b.trials),
    )


def _below(upper: float | None, lower: float | None) -> float:
    """Return how far `lower` is below `upper`; 0 if either is unknown."""
    return 0.0 if upper is None or lower is None else upper - lower


def _together(one: float, others: Sequence[float]) -> float:
    return math.hypot(one, *others)


# Prices -----------------------------------------------------------------------------------------------------


def _price(found: LimitFigure | None) -> Range | None:
    """Return a price in seconds."""
    if found is None:
        return None
    low, high = found.low, found.high
    return Range(
        value=found.value * NANOSECOND,
        low=(found.value if low is None else low) * NANOSECOND,
        high=(found.value if high is None else high) * NANOSECOND,
    )


def _not_measured(limit: str, limits: MachineLimits) -> str:
    reasons = (each.reason for each in limits.unavailable if each.limit == limit)
    return f"its price, the limit {limit}, was not measured: {next(reasons, 'it was left out')}"


def _cause(
    name: CauseName,
    counts: tuple[Range | None, Range | None],
    unit: str,
    limits: MachineLimits,
    missing: str,
    *,
    why: str | None = None,
    items: Sequence[Item] = (),
) -> Cause:
    """Return a cause as counts times its price; `missing` says why a count is not there."""
    a, b = counts
    price = _price(limits.figure(PRICES[name]))
    amount = (a - b) * price if a is not None and b is not None and price is not None else None
    if amount is None:
        why = missing if a is None or b is None else _not_measured(PRICES[name], limits)
    return Cause(
        cause=name,
        a=None if a is None else a.value,
        b=None if b is None else b.value,
        unit=unit,
        price=price,
        limit=PRICES[name],
        amount=amount,
        why=why,
        items=list(items),
    )


def _missing(a: Counted, b: Counted, name: str) -> str:
    """Return why something was not counted, for the first of both that lacks it."""
    without = next((each for each in (a, b) if each.get(name) is None), a)
    return f"not counted: {without.why_not(name)}"


# Causes -----------------------------------------------------------------------------------------------------

NOT_DIVIDED = (
    "its price, the limit tcp_connection, covers both sides, and one side's share is unknown; it counts in "
    "the CPU of server and clients together"
)


def _connections(a: Counted, b: Counted, limits: MachineLimits) -> Cause | None:
    """Return the cause of opening connections, if one opens more of them than the other; else None."""
    name: CauseName = "connections"
    of_a, of_b = a.connections(), b.connections()
    if (
        of_a is None
        or of_b is None
        or abs(of_a.value - of_b.value) <= (SAME_CONNECTIONS * max(of_a.value, of_b.value))
    ):
        return None
    found = _cause(name, (of_a, of_b), "connections", limits, "")
    if a.side == "both":
        return found
    return found.model_copy(update={"amount": None, "why": NOT_DIVIDED})


UNKNOWN_KIND = "{name} created processes or threads, but which is unknown: none ended in the window"


def _made(name: CauseName, unit: str, count: Callable[[Counted], Range]) -> Callable[..., Cause]:
    def cause(a: Counted, b: Counted, limits: MachineLimits) -> Cause:
        known = [None if each.made() is None else count(each) for each in (a, b)]
        unclear = [each for each in (a, b) if (made := each.made()) and made.value]
        unclear = [each for each in unclear if each.share_of_processes() is None]
        why = UNKNOWN_KIND.format(name=unclear[0].counts.contender) if unclear else None
        return _cause(name, (known[0], known[1]), unit, limits, _missing(a, b, SYSTEM_CALLS), why=why)

    return cause


def _system_calls(a: Counted, b: Counted, limits: MachineLimits) -> Cause:
    names = dict.fromkeys(
        name.partition(".")[2]
        for each in (a, b)
        for name in each.of_side.counts
        if name.startswith(f"{SYSTEM_CALLS}.")
    )
    items = []
    for name in names:
        of_a, of_b = a.call(name), b.call(name)
        if of_a is None or of_b is None:
            continue
        left_a, left_b = _left(a, name), _left(b, name)
        priced = abs(left_a - left_b) >= abs(of_a.value - of_b.value) / 2
        items.append(Item(name=name, a=of_a.value, b=of_b.value, priced=priced))
    items = [each for each in items if abs(each.a - each.b) > SAME * max(each.a, each.b)]
    items.sort(key=lambda each: -abs(each.a - each.b))
    counts = _calls_left(a), _calls_left(b)
    return _cause("system_calls", counts, "calls", limits, _missing(a, b, SYSTEM_CALLS), items=items[:ITEMS])


def _left(counted: Counted, name: str) -> float:
    """Return the system calls of a name that no price of a process or thread includes."""
    found = counted.call(name) or NOTHING
    return 0.0 if name in MAKING else max(0.0, found.value - counted.within(name).value)


def _calls_left(counted: Counted) -> Range | None:
    """Return all system calls except those in the prices of processes and threads."""
    every = counted.get(SYSTEM_CALLS)
    if every is None:
        return None
    named = [*MAKING, *dict.fromkeys(name for each in WITHIN.values() for name in each)]
    priced = sum((counted.call(name) or NOTHING).value - _left(counted, name) for name in named)
    return (every - Range.exactly(priced)).at_least_zero()


SWITCHES_ALONE = "only switches are counted, each at the price of a switch with its wake-up"
SWITCHES_OF_PROC = "they are those in /proc, which misses some switches of short-lived threads"


def _switches(a: Counted, b: Counted, limits: MachineLimits) -> Cause:
    """Return the cause of switches and wake-ups: a task that sleeps is switched out and has to be woken.

    The price is that of both together. How much of it each side pays is unknown: the bounds assume that one
    side pays all.
    """
    name: CauseName = "switches_and_wakeups"
    found = [
        (
            None if (switches := each.switches()) is None else each.beyond_making(switches, SWITCHES_WITHIN),
            None if (wakeups := each.get(WAKEUPS)) is None else each.beyond_making(wakeups, WAKEUPS_WITHIN),
        )
        for each in (a, b)
    ]
    (switches_a, wakeups_a), (switches_b, wakeups_b) = found
    if switches_a is not None and switches_b is not None and None in (wakeups_a, wakeups_b):
        why = f"{_missing(a, b, WAKEUPS)}; {SWITCHES_ALONE}"
        if None in (a.get(CONTEXT_SWITCHES), b.get(CONTEXT_SWITCHES)):
            why += f"; {SWITCHES_OF_PROC}"
        return _cause(name, (switches_a, switches_b), SWITCHES, limits, "", why=why)
    missing = WAKEUPS if wakeups_a is None or wakeups_b is None else CONTEXT_SWITCHES
    if switches_a is None or switches_b is None or wakeups_a is None or wakeups_b is None:
        return _cause(name, (None, None), "", limits, _missing(a, b, missing))
    both_a, both_b = (_halfway(switches_a, wakeups_a), _halfway(switches_b, wakeups_b))
    cause = _cause(name, (both_a, both_b), "switches with a wake-up", limits, "")
    if cause.price is None:
        return cause
    ends = [(switches_a - switches_b) * cause.price, (wakeups_a - wakeups_b) * cause.price]
    middle = sum(each.value for each in ends) / 2
    low, high = min(each.low for each in ends), max(each.high for each in ends)
    items = [
        Item(name="context switches", a=switches_a.value, b=switches_b.value, priced=True),
        Item(name="wake-ups", a=wakeups_a.value, b=wakeups_b.value, priced=True),
    ]
    return cause.model_copy(update={"amount": Range(value=middle, low=low, high=high), "items": items})


def _halfway(one: Range, other: Range) -> Range:
    return (one + other).times(0.5)


def _page_faults(a: Counted, b: Counted, limits: MachineLimits) -> Cause:
    """Return the cause of page faults, except those in the prices of processes and threads."""

    def left(counted: Counted) -> Range | None:
        every = counted.get(PAGE_FAULTS)
        if every is None:
            return None
        within = 0.0
        for name, made in (("processes", counted.processes()), ("threads", counted.threads())):
            price = limits.figure("fork_exit_wait" if name == "processes" else "thread_creation")
            within += made.value * (price.page_faults if price else 0.0)
        return (every - Range.exactly(within)).at_least_zero()

    return _cause("page_faults", (left(a), left(b)), "page faults", limits, _missing(a, b, PAGE_FAULTS))


def _copies(a: Counted, b: Counted, limits: MachineLimits) -> Cause:
    """Return the cause of copies between programs and the kernel.

    Bytes are priced at the bandwidth of blocks as large as a call's.
    """
    known = [each.get(COPIED) for each in (a, b)]
    prices = [_price_of_a_byte(each, limits) for each in (a, b)]
    costs = [
        None if copied is None or price is None else copied * price
        for copied, price in zip(known, prices, strict=True)
    ]
    cost_a, cost_b = costs
    amount = cost_a - cost_b if cost_a is not None and cost_b is not None else None
    why = None
    if amount is None:
        why = _missing(a, b, COPIED) if None in known else _not_measured(PRICES["copies"], limits)
    return Cause(
        cause="copies",
        a=None if known[0] is None else known[0].value,
        b=None if known[1] is None else known[1].value,
        unit="bytes",
        price=prices[0],
        limit=PRICES["copies"],
        amount=amount,
        why=why,
    )


def _price_of_a_byte(counted: Counted, limits: MachineLimits) -> Range | None:
    """Return the seconds to copy a byte in blocks as large as a mean call's, from the sizes around it."""
    sizes = limits.sizes(PRICES["copies"])
    if not sizes:
        return None
    counts = {
        name: counted.get(name) for name in ("bytes_sent", "bytes_received", "send_calls", "receive_calls")
    }
    known = {name: each.value for name, each in counts.items() if each is not None}
    calls = known.get("send_calls", 0.0) + known.get("receive_calls", 0.0)
    block = (known.get("bytes_sent", 0.0) + known.get("bytes_received", 0.0)) / calls if calls else 0.0
    below = [each for each in sizes if (each.bytes or 0) <= block][-1:]
    above = [each for each in sizes if (each.bytes or 0) >= block][:1]
    near = [*below, *above]
    seconds = [
        Range(
            value=1 / each.value,
            low=1 / (each.value if each.high is None else each.high),
            high=1 / (each.value if each.low is None else each.low),
        )
        for each in near
    ]
    return Range(
        value=sum(each.value for each in seconds) / len(seconds),
        low=min(each.low for each in seconds),
        high=max(each.high for each in seconds),
    )


CAUSES: Sequence[Callable[[Counted, Counted, MachineLimits], Cause]] = (
    _made("processes", "processes", Counted.processes),
    _made("threads", "threads", Counted.threads),
    _system_calls,
    _switches,
    _page_faults,
    _copies,
)
"""The causes; each function returns what it adds to a against b."""
