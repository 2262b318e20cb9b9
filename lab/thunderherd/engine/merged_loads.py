"""Merges the results of several loads, which ran in separate processes and perhaps on several machines.

The lines are those of `thunderherd load ... --json`. Counts and rates are added and histograms merged;
percentiles are never averaged. Rates that are added must cover the same time. This is checked for loads of
one machine; clocks of different machines cannot be compared.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thunderherd.engine.lines import Closings, Latency, LoadResult, Scheduled, StatusReplies, Times
from thunderherd.engine.process import json_value
from thunderherd.errors import UserError
from thunderherd.files import read_text
from thunderherd.statistics.histograms import maximum_ns, merged, percentile_ns

__all__ = ["MergedLoads", "MergedSchedule", "MergedTransfer", "load_lines", "merged_loads"]

SEED, RATE, THREADS, ARRIVALS, POISSON = "arrival_seed", "rate", "threads", "arrivals", "poisson"
OF_SCHEDULE = ("service_time", "send_lag", "connection_wait")
RECORDING, REQUEST_SEED = "recording", "request_seed"

TOGETHER = 0.5
"""The share of the longer of two windows in which both loads must have sent requests."""


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class MergedSchedule(_Part):
    """The outcomes of open loops' requests that were due in their windows."""

    due: int
    sent: int
    answered: int
    failed: int
    never_sent: int
    waited: int
    offered_per_second: float
    achieved_per_second: float | None
    service_time: Times | None
    send_lag: Times | None
    connection_wait: Times | None


class MergedTransfer(_Part):
    """Bytes and calls of one direction; rates are sums over the loads, null if clients gave up."""

    bytes: int
    bytes_per_second: float | None
    calls: int
    calls_per_second: float | None


class MergedLoads(_Part):
    """The merged result of several loads."""

    loads: int
    workload: str
    load: str
    requests: int = Field(description="correct replies; those in the windows, if all loads have one")
    per_second: float | None = Field(
        description="the sum of the rates; null: clients gave up before the end of their load"
    )
    received: MergedTransfer = Field(description="in the windows, if all loads have one")
    sent: MergedTransfer = Field(description="in the windows, if all loads have one")
    errors: dict[str, int]
    statuses: dict[str, StatusReplies] = Field(description="replies by status; empty: there are no statuses")
    user_ns: int = Field(description="CPU time of all clients in user mode")
    system_ns: int = Field(description="CPU time of all clients in the kernel")
    closings: Closings | None = Field(description="null: a load does not report how its connections ended")
    latency: Latency | None = Field(description="null: none was measured")
    connecting: Times | None = Field(description="null: no connection was opened in the windows")
    scheduled: MergedSchedule | None = Field(description="null: no open loops")
    valid: bool | None = Field(
        description="false: a load is invalid, or loads of one machine ran one after another; null: a load "
        "does not report its validity"
    )
    reasons: list[str] = Field(description="why it is invalid, and other caveats")
    differing: dict[str, list[bool | int | str]] = Field(
        description="settings that differ between loads, and their values"
    )


CUT = "cut_window"
"""The check that the window has its planned length. Any load fails it if all of its clients gave up."""

GAVE_UP = "gave_up"
"""The check that no client gave up. Any load fails it if one or more of its clients did."""

WRITTEN_BY = "give a file that `thunderherd load ... --json > FILE` wrote"


def load_lines(path: Path, command: str = "merge") -> list[LoadResult]:
    """Return the results of loads in a file of the engine's lines; raise `UserError` if there is none.

    A byte order mark, other line ends and empty lines are allowed. The codes of problems begin with the
    command.
    """
    try:
        found = list(_load_lines(path, read_text(path, encoding="utf-8-sig").split("\n"), command))
    except OSError as error:
        raise UserError(
            f"cannot be read: {error.strerror}", code=f"{command}.unreadable", where=str(path)
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            "not a text file", code=f"{command}.not_text", hint=WRITTEN_BY, where=str(path)
        ) from None
    if not found:
        raise UserError("no result of a load", code=f"{command}.no_load", hint=WRITTEN_BY, where=str(path))
    return found


def _load_lines(path: Path, lines: Iterable[str], command: str) -> Iterator[LoadResult]:
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = json_value(text)
            if isinstance(line, dict) and line.get("line") == "load":
                result = LoadResult.model_validate(line)
                merged(_histograms(result))
                yield result
        except json.JSONDecodeError as error:
            raise UserError(
                error.msg, code=f"{command}.not_json", hint=WRITTEN_BY, where=f"{path}:{number}"
            ) from None
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise UserError(
                f"{place}: {first['msg']}",
                code=f"{command}.other_version",
                hint="read it with the version that wrote it",
                where=f"{path}:{number}",
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"the file is damaged: {error}", code=f"{command}.damaged", where=f"{path}:{number}"
            ) from None


def _histograms(result: LoadResult) -> list[str]:
    """Return all histograms of a load."""
    schedule = result.scheduled
    of_schedule = [_of(schedule, name) for name in OF_SCHEDULE] if schedule else []
    of_statuses = [each.latency for each in result.statuses.values()]
    parts = (result.latency, result.connecting, *of_schedule, *of_statuses)
    return [each.histogram for each in parts if each and each.histogram is not None]


def merged_loads(results: Sequence[LoadResult]) -> MergedLoads:
    """Merge loads; raise `UserError` if they are of different kinds, and ValueError if there is none."""
    if not results:
        raise ValueError("merging needs one or more loads, got none")
    for what in ("workload", "load", "measured_by"):
        if len(seen := sorted({getattr(each, what) for each in results})) > 1:
            raise UserError(
                f"these loads cannot be merged: their {what} is {' and '.join(seen)}",
                code="merge.different_loads",
                hint=f"merge loads with the same {what}",
            )
    # Each load is compared as text with all before it at once: with each of them, a thousand took 2 s.
    seen_before: dict[str, int] = {}
    for number, each in enumerate(results, start=1):
        if (first := seen_before.setdefault(each.model_dump_json(), number)) < number:
            raise UserError(
                f"load {number} is the same as load {first}",
                code="merge.repeated",
                hint="give each load once",
            )
    latencies = [each.latency for each in results if each.latency is not None]
    if len({each.starts for each in latencies}) > 1:
        raise UserError(
            "these loads cannot be merged: their latencies start at different moments",
            code="merge.different_starts",
            hint="merge closed loops with closed loops, and open loops with open loops",
        )
    windows = [each.window for each in results if each.window is not None]
    tallies = [each.tally for each in results]
    timed = len(windows) == len(results)
    apart = list(_apart(results, timed))
    errors = Counter[str]()
    for each in results:
        errors.update(each.tally.errors)
    rates = (
        [each.requests_per_second for each in windows]
        if timed
        else [1e9 * each.tally.requests / each.elapsed_ns for each in results]
    )
    return MergedLoads(
        loads=len(results),
        workload=results[0].workload,
        load=results[0].load,
        requests=sum(each.requests for each in (windows if timed else tallies)),
        per_second=None if any(map(_has_no_rate, results)) else sum(rates),
        received=_transfer(results, "received", "receive", timed),
        sent=_transfer(results, "sent", "send", timed),
        errors=dict(sorted(errors.items())),
        statuses=_statuses(results),
        user_ns=sum(each.user_ns for each in results),
        system_ns=sum(each.system_ns for each in results),
        closings=_closings(results),
        latency=_latency(latencies),
        connecting=_times([each.connecting for each in results if each.connecting is not None]),
        scheduled=_schedule(results),
        valid=False if apart else _valid(results),
        reasons=[*apart, *_reasons(results)],
        differing=_differing(results),
    )  # fmt: skip


def _has_no_rate(result: LoadResult) -> bool:
    """Return whether clients of a load gave up before its end: a rate would be that of another load."""
    checks = result.validity.checks if result.validity else ()
    return any(each.name in {CUT, GAVE_UP} and each.holds is False for each in checks)


def _transfer(results: Sequence[LoadResult], way: str, verb: str, timed: bool) -> MergedTransfer:
    """Add up bytes and calls of one direction: those of the windows, or of the whole loads."""
    parts = []
    for each in results:
        window = each.window.counted if timed and each.window is not None else None
        of_load = window or each.tally
        seconds = (window.elapsed_ns if window else each.elapsed_ns) / 1e9
        parts.append(
            (getattr(of_load, f"bytes_{way}"), getattr(of_load, f"{verb}_calls"), max(seconds, 1e-9))
        )
    has_rate = not any(map(_has_no_rate, results))
    return MergedTransfer(
        bytes=sum(moved for moved, _, _ in parts),
        bytes_per_second=sum(moved / seconds for moved, _, seconds in parts) if has_rate else None,
        calls=sum(calls for _, calls, _ in parts),
        calls_per_second=sum(calls / seconds for _, calls, seconds in parts) if has_rate else None,
    )


def _statuses(results: Sequence[LoadResult]) -> dict[str, StatusReplies]:
    parts = defaultdict[str, list[StatusReplies]](list)
    for result in results:
        for status, replies in result.statuses.items():
            parts[status].append(replies)
    return {
        status: StatusReplies(
            replies=sum(each.replies for each in of_status),
            errors=sum(each.errors for each in of_status),
            latency=_times([each.latency for each in of_status if each.latency is not None]),
        )
        for status, of_status in sorted(parts.items())
    }


def _closings(results: Sequence[LoadResult]) -> Closings | None:
    parts = [each.closings for each in results if each.closings is not None]
    return Closings.together(parts) if len(parts) == len(results) else None


def _latency(parts: Sequence[Latency]) -> Latency | None:
    times = _times(parts)
    return Latency.model_validate(times.model_dump() | {"from": parts[0].starts}) if times else None


def _times(parts: Sequence[Times]) -> Times | None:
    """Merge times: the mean of all requests, the sum of histograms and its percentiles."""
    known = [each for each in parts if each.histogram is not None and each.requests]
    if not known:
        return None
    histogram = merged(each.histogram for each in known if each.histogram is not None)
    requests = sum(each.requests for each in known)
    text = histogram.encode()
    return Times(
        requests=requests,
        mean_ns=sum((each.mean_ns or 0.0) * each.requests for each in known) / requests,
        p50_ns=percentile_ns(histogram, 0.5),
        p90_ns=percentile_ns(histogram, 0.9),
        p99_ns=percentile_ns(histogram, 0.99),
        p999_ns=percentile_ns(histogram, 0.999),
        maximum_ns=maximum_ns(histogram),
        histogram=text.decode() if isinstance(text, bytes) else text,
    )


def _schedule(results: Sequence[LoadResult]) -> MergedSchedule | None:
    parts = [each.scheduled for each in results if each.scheduled is not None]
    if len(parts) < len(results):
        return None
    counts = {
        name: sum(getattr(each, name) for each in parts)
        for name in ("due", "sent", "answered", "failed", "never_sent", "waited", "offered_per_second")
    }
    achieved = [each.achieved_per_second for each in parts]
    counts["achieved_per_second"] = (
        None if None in achieved or any(map(_has_no_rate, results)) else sum(filter(None, achieved))
    )
    times = {
        name: _times([own for each in parts if (own := _of(each, name)) is not None]) for name in OF_SCHEDULE
    }
    return MergedSchedule.model_validate(counts | times)


def _of(schedule: Scheduled, name: str) -> Times | None:
    found: Times | None = getattr(schedule, name)
    return found


def _valid(results: Sequence[LoadResult]) -> bool | None:
    reported = [None if each.validity is None else each.validity.valid for each in results]
    if False in reported or any(each.interrupted for each in results):
        return False
    return True if all(reported) else None


def _apart(results: Sequence[LoadResult], timed: bool) -> Iterator[str]:
    """Yield a fault for each machine whose loads did not run at the same time for most of it.

    Windows are compared if all loads have one, else the times from first connection to last reply.
    """
    machines = defaultdict[str, dict[int, tuple[int, int]]](dict)
    for number, each in enumerate(results, start=1):
        if each.boot_id is not None:
            edges = each.window if timed and each.window is not None else each
            machines[each.boot_id][number] = (edges.started_monotonic_ns, edges.ended_monotonic_ns)
    for of_machine in machines.values():
        pairs = [(_shared(of_machine[a], of_machine[b]), a, b) for a, b in combinations(of_machine, 2)]
        apart = [pair for pair in pairs if pair[0] <= TOGETHER]
        if not apart:
            continue
        share, a, b = min(apart)
        *others, last = sorted({number for pair in apart for number in pair[1:]})
        of = "" if len(others) == 1 else f"; loads {a} and {b}"
        alike = ", for the same time (--duration)" if timed else ""
        yield (
            f"loads {', '.join(map(str, others))} and {last} are of one machine and did not run at the same "
            f"time ({'windows' if timed else 'they'} overlap for {share:.0%} of the longer{of}), so their "
            f"rates cannot be added: start them together{alike}"
        )


def _shared(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Return the common part of two stretches of time, as a share of the longer one."""
    longer = max(one[1] - one[0], other[1] - other[0], 1)
    return max(0, min(one[1], other[1]) - max(one[0], other[0])) / longer


def _reasons(results: Sequence[LoadResult]) -> Iterator[str]:
    for number, each in enumerate(results, start=1):
        for check in each.validity.checks if each.validity else ():
            if check.holds is False:
                yield f"load {number}: {check.name}: {check.words}"
        if each.interrupted:
            yield f"load {number} was interrupted before its end"
    if _has_twice(
        (SEED, RATE, THREADS), [each for each in results if each.settings.get(ARRIVALS) == POISSON]
    ):
        yield (
            f"loads with the same {SEED}, {RATE} and {THREADS} have requests due at the same moments, so "
            f"their sum is not a Poisson process: give each another --{SEED.replace('_', '-')}"
        )
    in_order = [each for each in results if each.settings.get(ARRIVALS, POISSON) != POISSON]
    if _has_twice((ARRIVALS, RATE, RECORDING), in_order):
        yield (
            f"requests of loads with the same {ARRIVALS} other than {POISSON} came in bunches if the loads "
            f"began together: use one load with more --{THREADS}"
        )
    if _has_twice((REQUEST_SEED,), [each for each in results if each.traffic is not None]):
        yield (
            f"loads with the same {REQUEST_SEED} made the same sequence of requests, so they are not "
            f"independent samples: give each another --{REQUEST_SEED.replace('_', '-')}"
        )


def _has_twice(names: Sequence[str], results: Sequence[LoadResult]) -> bool:
    """True if two loads have the same values of these settings."""
    seen = [tuple(each.settings.get(name) for name in names) for each in results]
    return len(set(seen)) < len(seen)


def _differing(results: Sequence[LoadResult]) -> dict[str, list[bool | int | str]]:
    names = dict.fromkeys(name for each in results for name in each.settings)
    values = {name: [each.settings.get(name, "none") for each in results] for name in names}
    return {name: seen for name, seen in values.items() if len({str(each) for each in seen}) > 1}
