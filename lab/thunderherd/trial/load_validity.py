"""The engine's checks whether a load measured its server or itself, and their effect on a trial."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from thunderherd.engine.lines import Check, LoadResult
from thunderherd.engine.merged_loads import CUT, GAVE_UP
from thunderherd.records.summary import TrialRecord
from thunderherd.text.figures import seconds_in_words
from thunderherd.trial.observation import Observation, counted_seconds

COUNTED_ELSEWHERE = {"errors", "throttled"}
"""Checks that the trial makes, too: of the tally, and of the CPU quotas of both sides."""

BUSY = "generator_cpu"
"""A check that a closed loop can fail as well: its rates then show the clients."""

OUTPACED = {"achieved_rate", "never_sent"}
"""Checks that fail if a server does not keep up with the rate ..."""

FOLLOWS = {"little"}
"""... and checks that fail as a consequence, because the load is not steady. All others are faults of the
load."""

CAUSES = (CUT, GAVE_UP, "empty_window", "no_reply", BUSY, "send_lag", *sorted(OUTPACED))
"""Checks whose failures explain those that come later here, and all others."""

OVERLOADED = "the server did not keep up with the rate: latency grows for as long as the trial lasts"
"""The warning of a valid trial whose server was overloaded."""

CLIENT_LIMITED = "the clients were the limit: their busiest thread had no idle time"
"""The warning of a valid trial that measured how fast its clients can go, not its server."""

LIMITED_SHARE = 0.1
"""If a larger share of a contender's trials was limited by the clients, its rates are lower bounds."""

NANOSECONDS = {"send_lag"}
"""Checks of times; all others are of shares and counts."""

BUSIEST_CLIENTS = 0.95
"""Share of the CPUs of pinned clients above which the clients have no idle time."""


OPTION = re.compile(r"--([a-z][a-z-]*)")


def validity_faults(seen: Observation) -> Iterator[str]:
    """Yield why a load did not measure its server, and what to change: of each load one cause.

    The record of the trial has all checks.
    """
    if seen.overload_counts and was_overloaded(seen.loads):
        return
    for number, result in enumerate(seen.loads):
        if found := [check for check in _failed(result) if _forbids(check, result)]:
            yield in_words(min(found, key=_place)) + seen.on_host(number)


def validity_warnings(seen: Observation) -> Iterator[str]:
    """Yield warnings on a load whose trial is valid."""
    if seen.overload_counts and was_overloaded(seen.loads):
        yield OVERLOADED
    if is_client_limited(seen.loads):
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
    return [check for check in checks if check.holds is False and check.name not in COUNTED_ELSEWHERE]


def _place(check: Check) -> int:
    return CAUSES.index(check.name) if check.name in CAUSES else len(CAUSES)


def _forbids(check: Check, result: LoadResult) -> bool:
    """True if a failed check makes the trial invalid.

    An open loop must have kept its schedule. A closed loop has none: if its clients were the limit, costs per
    request are right, and rates are lower bounds (`is_client_limited`).
    """
    return result.scheduled is not None or check.name in {CUT, GAVE_UP}


def is_client_limited(loads: Iterable[LoadResult]) -> bool:
    """True if a closed loop measured how fast its clients can go.

    Where bytes are measured, receiving them is the clients' part of the work.
    """
    closed = [each for each in loads if each.scheduled is None and each.measured_by == "requests"]
    return any(check.name == BUSY for result in closed for check in _failed(result))


def are_client_limited(trials: Sequence[TrialRecord]) -> bool:
    """True if so many of these trials were limited by their clients that their rates are lower bounds."""
    limited = sum(is_client_limited(trial.loads) for trial in trials)
    return limited > LIMITED_SHARE * len(trials)
