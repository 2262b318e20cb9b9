"""The engine's checks whether a load measured its server or itself, and their effect on a trial."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thunderherd.engine.lines import Check, LoadResult
from thunderherd.metrics.table import is_of_clients
from thunderherd.text.figures import seconds_in_words
from thunderherd.trial.observation import Observation, counted_seconds

COUNTED_ELSEWHERE = "errors"
"""A check that the tally makes, too."""

BUSY = "generator_cpu"
"""A check that a closed loop can fail as well: the trial then measured its client."""

CUT = "cut_window"
"""A check that any load fails if all of its clients gave up."""

OUTPACED = {"achieved_rate", "never_sent"}
"""Checks that fail if a server does not keep up with the rate ..."""

FOLLOWS = {"little"}
"""... and checks that fail as a consequence, because the load is not steady. All others are faults of the
load."""

OVERLOADED = "the server did not keep up with the rate: latency grows for as long as the trial lasts"
"""The warning of a valid trial whose server was overloaded."""

CLIENT_LIMITED = "the client was the bottleneck (its busiest thread had no idle time): rates are its own"

NANOSECONDS = {"send_lag"}
"""Checks of times; all others are of shares and counts."""

BUSIEST_CLIENTS = 0.95
"""Share of the CPUs of pinned clients above which the clients have no idle time."""


OPTION = re.compile(r"--([a-z][a-z-]*)")


def validity_faults(seen: Observation) -> Iterator[str]:
    """Yield why a load did not measure its server, and what to change."""
    if seen.overload_counts and was_overloaded(seen.loads):
        return
    for result in seen.loads:
        yield from (in_words(check) for check in _failed(result) if _forbids(check, result, seen))


def validity_warnings(seen: Observation) -> Iterator[str]:
    """Yield warnings on a load that do not affect the study's metric.

    The server's CPU time per request is the same even if the client is the bottleneck.
    """
    if seen.overload_counts and was_overloaded(seen.loads):
        yield OVERLOADED
    for result in seen.loads:
        if any(check.name == BUSY and not _forbids(check, result, seen) for check in _failed(result)):
            yield CLIENT_LIMITED
    clients = seen.contender.lab.client_cpus
    if clients and seen.loads and all(result.validity is None for result in seen.loads):
        used_ns = sum(result.user_ns + result.system_ns for result in seen.loads)
        if used_ns > BUSIEST_CLIENTS * counted_seconds(seen.loads) * 1e9 * len(clients):
            yield (
                f"the clients used more than {BUSIEST_CLIENTS:.0%} of their CPUs and may be the bottleneck; "
                "rates may then show the limit of the clients. Give them more CPUs (lab.client_cpus)"
            )


def was_overloaded(loads: Iterable[LoadResult]) -> bool:
    """True if the server did not keep up with an open loop that itself kept its schedule."""
    failed = {check.name for result in loads if result.scheduled for check in _failed(result)}
    return bool(failed & OUTPACED) and failed <= OUTPACED | FOLLOWS


def in_words(check: Check) -> str:
    """Return a failed check, as the reason of an invalid trial."""
    value = "unknown" if check.value is None else _figure(check, check.value)
    words = OPTION.sub(_key, check.words)
    if check.name in NANOSECONDS:
        words = words.replace("nanoseconds by which", "time by which", 1)
    return f"load: {check.name} = {value}, allowed: at most {_figure(check, check.limit)}: {words}"


def _figure(check: Check, value: float) -> str:
    return seconds_in_words(value / 1e9) if check.name in NANOSECONDS else f"{value:.4g}"


def _key(option: re.Match[str]) -> str:
    """Return the study's key for an option of the engine."""
    name = option[1].replace("-", "_")
    return "lab.client_cpus" if name == "cpus" else f"load.settings.{name}"


def _failed(result: LoadResult) -> list[Check]:
    checks = result.validity.checks if result.validity else []
    return [check for check in checks if check.holds is False and check.name != COUNTED_ELSEWHERE]


def _forbids(check: Check, result: LoadResult, seen: Observation) -> bool:
    """True if a failed check makes the trial invalid.

    An open loop must have kept its schedule, whatever the metric. A closed loop has no schedule. If it counts
    requests and the study's metric is one of the clients, the load must not have been the bottleneck.
    """
    if result.scheduled is not None or check.name == CUT:
        return True
    counts = result.measured_by == "requests" and is_of_clients(seen.contender.metric)
    return check.name == BUSY and counts
