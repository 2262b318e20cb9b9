"""From counted trials to counts per request: by contender, side and counter. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING

from thunderherd.metrics.table import (
    COPIED_SHARE,
    HELD,
    NANOSECONDS,
    PER_BYTE,
    PER_CONNECTION,
    PER_REQUEST,
    SIDES,
    SideOrBoth,
)
from thunderherd.records.extra_trials import (
    ContenderCounts,
    Count,
    CountingSummary,
    CountingTable,
    SideCounts,
    State,
)
from thunderherd.records.summary import TrialMetrics, TrialRecord
from thunderherd.trial.busy_polling import beyond_load
from thunderherd.trial.counters import scaled_of_sides, unavailable_of_sides

if TYPE_CHECKING:
    from thunderherd.study.loading import Contender

COPIED = "bytes_copied"
"""Bytes that a side copied between its program and the kernel, on sending and on receiving."""

COUNTED_SIDES: tuple[SideOrBoth, ...] = (*SIDES, "both")

NOT_REPORTED = "the kernel does not report it in every counted trial (METHODOLOGY.md, counters)"
NO_TRIAL = "the run ended before it was counted"


def counting_summary(
    table: CountingTable,
    contenders: Iterable[Contender],
    trials: Sequence[TrialRecord],
    lending: Collection[str],
    states: Mapping[str, str] = MappingProxyType({}),
) -> CountingSummary:
    """Return what the counted trials show about each contender in the table.

    Parameters
    ----------
    table
        As resolved: it names its contenders.
    contenders
        Those of the study.
    trials
        The counted trials, including invalid ones.
    lending
        The primitives that never copy on sending; no counter reports this for each call.
    states
        The figures of single moments, with their units.
    """
    known = {each.name: each for each in contenders}
    counted = [
        contender_counts(known[name], [each for each in trials if each.contender == name], lending, states)
        for name in table.contenders
    ]
    return CountingSummary(trials=table.trials, counters=table.counters, contenders=counted)


def contender_counts(
    contender: Contender,
    trials: Sequence[TrialRecord],
    lending: Collection[str],
    states: Mapping[str, str] = MappingProxyType({}),
) -> ContenderCounts:
    """Return what its counted trials show about a contender."""
    valid = [each for each in trials if each.valid and each.metrics]
    if not valid:
        failed = list(dict.fromkeys(reason for each in trials for reason in each.invalid_reasons))
        return ContenderCounts(
            contender=contender.name,
            trials=0,
            requests=0,
            requests_per_connection=None,
            sides={},
            why="; ".join(failed) or NO_TRIAL,
        )
    metrics = [{**(each.metrics or {}), **_copied(contender, each.metrics or {}, lending)} for each in valid]
    requests = [int(each.get("requests") or 0) for each in metrics]
    connections = sum(int(each.get("connections") or 0) for each in metrics)
    return ContenderCounts(
        contender=contender.name,
        trials=len(valid),
        requests=sum(requests),
        requests_per_connection=sum(requests) / connections if connections else None,
        sides={side: _side(side, metrics, valid, states) for side in COUNTED_SIDES},
    )


def _side(
    side: SideOrBoth,
    metrics: Sequence[TrialMetrics],
    trials: Sequence[TrialRecord],
    states: Mapping[str, str],
) -> SideCounts:
    counts = {
        name: count
        for name in _names(side, metrics)
        if (count := _count(f"{side}.{name}", metrics)) is not None
        # Most of the more than a hundred system calls are never made.
        and ("." not in name or count.most)
    }
    sides = [side] if side != "both" else ["server", "client"]
    reasons: dict[str, str] = {}
    for trial in trials:
        unavailable = unavailable_of_sides(trial)
        for each in sides:
            for name, why in unavailable[each].items():
                whose = " of the clients" if side == "both" and each == "client" else ""
                reasons.setdefault(name, f"{why}{whose}")
    scaled: dict[str, float] = {}
    for trial in trials:
        for side_of, shares in scaled_of_sides(trial).items():
            for name, share in shares.items() if side_of in sides else ():
                scaled[name] = min(share, scaled.get(name, 1.0))
    for name in _names(side, metrics):
        whole = name.partition(".")[0]
        more = None if name in counts else beyond_load(f"{side}.{whole}{PER_REQUEST}", trials[0], states)
        if more:
            reasons.setdefault(whole, more)
    found = _states(side, metrics, states)
    for name in states if side != "both" else ():
        # A counter that reports parts alone has no figure of its own name.
        has_parts = any(each.startswith(f"{name}.") for each in (*found, *reasons))
        if name not in found and name.partition(".")[0] not in reasons and not has_parts:
            reasons.setdefault(name, NOT_REPORTED)
    return SideCounts(
        counts=counts,
        states=found,
        unavailable={name: why for name, why in reasons.items() if name not in {*counts, *found}},
        scaled={name: share for name, share in scaled.items() if name in counts},
    )


def _states(side: SideOrBoth, metrics: Sequence[TrialMetrics], states: Mapping[str, str]) -> dict[str, State]:
    """Return the states that every trial reports."""
    of_connections = {f"{name}{PER_CONNECTION}": states[name] for name in HELD if name in states}
    found = {}
    for name, unit in ({**states} | of_connections).items():
        values = [value for each in metrics if (value := each.get(f"{side}.{name}")) is not None]
        if values and len(values) == len(metrics):
            seconds = "seconds" if unit == NANOSECONDS else unit
            found[name] = State(value=fmean(values), least=min(values), most=max(values), unit=seconds)
    return found


def _names(side: SideOrBoth, metrics: Sequence[TrialMetrics]) -> Iterable[str]:
    """Return the names of a side's figures per request, in the order of its metrics."""
    before = f"{side}."
    found = (
        name for each in metrics for name in each if name.startswith(before) and name.endswith(PER_REQUEST)
    )
    return dict.fromkeys(name.removeprefix(before).removesuffix(PER_REQUEST) for name in found)


def _count(name: str, metrics: Sequence[TrialMetrics]) -> Count | None:
    """Return a count; None if one of the trials does not report it."""
    reported = [each.get(f"{name}{PER_REQUEST}") for each in metrics]
    values = [float(value) for value in reported if value is not None]
    if len(values) < len(reported):
        return None
    per_byte = [value for each in metrics if (value := each.get(f"{name}{PER_BYTE}")) is not None]
    return Count(
        per_request=fmean(values),
        least=min(values),
        most=max(values),
        per_byte=fmean(per_byte) if len(per_byte) == len(values) else None,
    )


def _copied(contender: Contender, metrics: TrialMetrics, lending: Collection[str]) -> TrialMetrics:
    """Return the bytes that each side copied between its program and the kernel, per request and per byte.

    Of the bytes sent: none by a primitive that lends its pages; the copied share of zero-copy sends; all of
    other sends. Of the bytes received: all that were not mapped or discarded.
    """
    primitives = {"server": contender.primitive, "client": contender.load.primitive}
    found: dict[str, float | None] = {}
    for per in (PER_REQUEST, PER_BYTE):
        for side, primitive in primitives.items():
            sent, received, spared = (
                metrics.get(f"{side}.{name}{per}")
                for name in ("bytes_sent", "bytes_received", "bytes_not_copied")
            )
            share = 0.0 if primitive in lending else _sent_by_copying(side, metrics)
            known = sent is not None and received is not None and spared is not None
            found[f"{side}.{COPIED}{per}"] = (
                (sent or 0) * share + (received or 0) - (spared or 0) if known else None
            )
        parts = [found[f"{side}.{COPIED}{per}"] for side in primitives]
        there = [part for part in parts if part is not None]
        found[f"both.{COPIED}{per}"] = sum(there) if len(there) == len(parts) else None
    return dict(found)


def _sent_by_copying(side: str, metrics: Mapping[str, float | int | None]) -> float:
    share = metrics.get(f"{side}.{COPIED_SHARE}")
    return 1.0 if share is None else float(share)
