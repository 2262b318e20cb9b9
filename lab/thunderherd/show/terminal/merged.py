"""Merged loads on the terminal, in the order in which the engine prints the result of a load."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console

from thunderherd.engine.lines import Times
from thunderherd.engine.merged_loads import MergedLoads, MergedSchedule, MergedTransfer
from thunderherd.show.terminal.result_page import ResultPage, print_result
from thunderherd.text.figures import ABSENT, count, listed, seconds_in_words
from thunderherd.text.layout import Sentence
from thunderherd.trial.caveats import AT_CLIENTS, where_kept

__all__ = ["notes", "print_merged"]

LABEL, PERCENTILE = 13, 9
"""The columns of a label, and of a percentile, as in the engine's table."""
PERCENTILES = {"p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns", "max": "maximum_ns"}
SINCE = {"sent": "since sent", "intended": "since due"}
OF_LOAD = re.compile(r"load (\d+): ")


def print_merged(found: MergedLoads, console: Console) -> None:
    """Prints a sentence, the table of a load's result, and what to know."""
    rows = [*_counts(found), *_latencies(found), *_usage(found)]
    page = ResultPage([_answer(found)], rows, notes(found), others_in="the output of --json")
    print_result(page, console)


def _answer(found: MergedLoads) -> Sentence:
    p99 = found.latency.p99_ns if found.latency is not None else None
    failed = sum(found.errors.values())
    parts = [
        count(found.requests, "reply", "replies"),
        "" if found.per_second is None else f"{found.per_second:,.0f} per second",
        f"p99 latency {seconds_in_words(p99 / 1e9)}" if p99 is not None else "",
        count(failed, "error") if failed else "no errors",
    ]
    is_invalid = found.valid is False or failed > 0
    verdict = ". Not valid: see the notes" if is_invalid else ". Valid" if found.valid else ""
    loads = f"{count(found.loads, 'load')} of {found.workload} ({found.load})"
    return Sentence(f"{loads}: {', '.join(filter(None, parts))}{verdict}.", (), is_invalid)


def _row(label: str, figures: Sequence[str], note: str = "") -> tuple[str, Sequence[str], str]:
    return label, figures, note


def _lines(rows: Sequence[tuple[str, Sequence[str], str]]) -> list[str]:
    """Aligns figures in columns to the left, and notes behind them."""
    columns = max((len(figures) for _, figures, _ in rows), default=0)
    widths = [
        max(len(figures[place]) for _, figures, _ in rows if len(figures) > place) + 2
        for place in range(columns)
    ]
    lines = []
    for label, figures, note in rows:
        cells = "".join(
            (figures[place] if len(figures) > place else "").ljust(width)
            for place, width in enumerate(widths)
        )
        lines.append(f"{label:{LABEL}}{cells if figures else ''}{note}".rstrip())
    return lines


def _counts(found: MergedLoads) -> list[str]:
    schedule = found.scheduled
    offered = f"of {schedule.offered_per_second:,.0f}/s requested" if schedule else ""
    rate = ABSENT if found.per_second is None else f"{found.per_second:,.0f}/s"
    rows = [_row("Requests", [f"{found.requests:,}", rate], offered)]
    if schedule is not None:
        rows.append(_row("Due", [f"{schedule.due:,}"], _outcomes(schedule)))
    for label, way, words in (("Transfer", found.received, "received"), ("", found.sent, "sent")):
        rows.append(_row(label, *_transfer(way, words)))
    kinds = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in found.errors.items())
    rows.append(_row("Errors", [f"{sum(found.errors.values()):,}"], kinds))
    if len(found.statuses) > 1 or found.errors:
        for place, (status, replies) in enumerate(found.statuses.items()):
            errors = f", {replies.errors:,} of them errors" if replies.errors else ""
            rows.append(_row("" if place else "Status", [f"{replies.replies:,}"], f"{status}{errors}"))
    return _lines(rows)


def _transfer(way: MergedTransfer, words: str) -> tuple[list[str], str]:
    if way.bytes_per_second is None or way.calls_per_second is None:
        return [_bytes(way.bytes), ABSENT], words
    figures = [_bytes(way.bytes), f"{_bytes(way.bytes_per_second)}/s"]
    return figures, f"{words}, {way.calls_per_second:,.0f} calls/s"


def _outcomes(schedule: MergedSchedule) -> str:
    """Writes the outcomes of the requests that were due, without those that did not occur."""
    sent = "all sent" if schedule.sent == schedule.due else f"{schedule.sent:,} sent"
    is_all = schedule.answered == schedule.due
    parts = [
        sent,
        f"{schedule.waited:,} of them late for lack of a connection" if schedule.waited else "",
        "all answered" if is_all else f"{schedule.answered:,} answered",
        f"{schedule.failed:,} failed" if schedule.failed else "",
        f"{schedule.never_sent:,} never sent" if schedule.never_sent else "",
    ]
    return ", ".join(filter(None, parts))


def _latencies(found: MergedLoads) -> list[str]:
    """Writes the percentiles of the latency and, of open loops, of its parts."""
    rows: list[tuple[str, Times | None, str]] = []
    if found.latency is not None:
        rows.append(("Latency", found.latency, SINCE[found.latency.starts]))
    rows.append(("Connect", found.connecting, "to connect"))
    if (schedule := found.scheduled) is not None:
        rows += [
            ("Service", schedule.service_time, "since sent"),
            ("Wait", schedule.connection_wait, "for a connection"),
            ("Lag", schedule.send_lag, "sent late"),
        ]
    known = [(label, times, note) for label, times, note in rows if times is not None]
    if not known:
        return []
    heads = "".join(f"{name:>{PERCENTILE}}" for name in PERCENTILES)
    lines = [f"{'':{LABEL}}{heads}"]
    for label, times, note in known:
        values = (getattr(times, field) for field in PERCENTILES.values())
        cells = (ABSENT if value is None else seconds_in_words(value / 1e9) for value in values)
        lines.append(f"{label:{LABEL}}{''.join(f'{cell:>{PERCENTILE}}' for cell in cells)}  {note}")
    return lines


def _usage(found: MergedLoads) -> list[str]:
    user, system = (seconds_in_words(each / 1e9) for each in (found.user_ns, found.system_ns))
    return _lines([_row("CPU", [], f"{user} user, {system} system, of all clients")])


def _bytes(number: float) -> str:
    """Writes bytes with three digits; a kilobyte is 1000 bytes."""
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:.3g} B"


# What to know -----------------------------------------------------------------------------------------------


def notes(found: MergedLoads) -> list[str]:
    """Lists why the result is not valid, then what differs; loads with the same reason are one note."""
    loads: dict[str, list[str]] = {}
    for reason in found.reasons:
        number = OF_LOAD.match(reason)
        loads.setdefault(reason[number.end() :] if number else reason, []).extend(
            [number[1]] if number else []
        )
    lines = [f"{_which(numbers, found.loads)}{reason}" for reason, numbers in loads.items()]
    if found.differing:
        values = (f"{name} ({', '.join(map(str, seen))})" for name, seen in found.differing.items())
        lines.append(f"different between loads: {', '.join(values)}")
    if found.closings is not None and (where := where_kept(found.closings)) != AT_CLIENTS:
        lines.append(f"ended connections stay in TIME_WAIT {where}")
    return lines


def _which(numbers: Sequence[str], of: int) -> str:
    """Names loads by their numbers: `all 3 loads: `; empty without any."""
    if not numbers:
        return ""
    if len(numbers) == of > 1:
        return f"all {of} loads: "
    return f"{'load' if len(numbers) == 1 else 'loads'} {listed(numbers)}: "
