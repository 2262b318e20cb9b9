"""Whether a load has measured its server or itself: what the engine has found, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thunderherd.engine.lines import Check, LoadResult
from thunderherd.metrics.table import is_of_clients
from thunderherd.text.figures import seconds_in_words
from thunderherd.trial.observation import Observation, counted_seconds

COUNTED_ELSEWHERE = "errors"
"""The check that the tally makes too."""

BUSY = "generator_cpu"
"""The check that a closed loop can fail as well: what it tells is then how fast its client is."""

CUT = "cut_window"
"""The check that any load fails whose clients have all given up."""

OUTPACED = {"achieved_rate", "never_sent"}
"""Checks that fail where a server does not keep up with the rate ..."""

FOLLOWS = {"little"}
"""... and those that then fail with them, as the load is not steady; all others are the load's own fault."""

OVERLOADED = "the server did not keep up with the rate: its times grow for as long as one measures"
"""The warning of a trial that counts all the same."""

NANOSECONDS = {"send_lag"}
"""Checks that are of times; all others are of shares and of counts."""

BUSIEST_CLIENTS = 0.95
"""Of the CPUs that clients are pinned to, the share that leaves them nothing to wait with."""


OPTION = re.compile(r"--([a-z][a-z-]*)")


def validity_faults(seen: Observation) -> Iterator[str]:
    """Why a load has not measured its server, and what to change."""
    if seen.overload_counts and was_overloaded(seen.loads):
        return
    for result in seen.loads:
        yield from (in_words(check) for check in _failed(result) if _forbids(check, result, seen))


def validity_warnings(seen: Observation) -> Iterator[str]:
    """What was found of a load, and does not touch what its study asks for: the server's CPU time for a
    request is the same where the client is the slower end."""
    if seen.overload_counts and was_overloaded(seen.loads):
        yield OVERLOADED
    for result in seen.loads:
        if any(check.name == BUSY and not _forbids(check, result, seen) for check in _failed(result)):
            yield "the client was the slower end (its busiest thread had no time left): rates are its own"
    clients = seen.contender.lab.client_cpus
    if clients and seen.loads and all(result.validity is None for result in seen.loads):
        used_ns = sum(result.user_ns + result.system_ns for result in seen.loads)
        if used_ns > BUSIEST_CLIENTS * counted_seconds(seen.loads) * 1e9 * len(clients):
            yield (
                f"the clients used more than {BUSIEST_CLIENTS:.0%} of their CPUs: they may be the slower "
                "end, and rates are then their own; give them more (lab.client_cpus)"
            )


def was_overloaded(loads: Iterable[LoadResult]) -> bool:
    """Whether the server did not keep up with an open loop, which itself did as it was told."""
    failed = {check.name for result in loads if result.scheduled for check in _failed(result)}
    return bool(failed & OUTPACED) and failed <= OUTPACED | FOLLOWS


def in_words(check: Check) -> str:
    """A check that does not hold, as the reason of an invalid trial."""
    value = "unknown" if check.value is None else _figure(check, check.value)
    words = OPTION.sub(_key, check.words)
    if check.name in NANOSECONDS:
        words = words.replace("nanoseconds by which", "time by which", 1)
    return f"load: {check.name} = {value}, allowed: at most {_figure(check, check.limit)}: {words}"


def _figure(check: Check, value: float) -> str:
    return seconds_in_words(value / 1e9) if check.name in NANOSECONDS else f"{value:.4g}"


def _key(option: re.Match[str]) -> str:
    """An option of the engine as a study has it."""
    name = option[1].replace("-", "_")
    return "lab.client_cpus" if name == "cpus" else f"load.settings.{name}"


def _failed(result: LoadResult) -> list[Check]:
    checks = result.validity.checks if result.validity else []
    return [check for check in checks if check.holds is False and check.name != COUNTED_ELSEWHERE]


def _forbids(check: Check, result: LoadResult, seen: Observation) -> bool:
    """Whether a trial cannot count for it.

    An open loop must have kept its schedule, whatever is asked. A closed one has none; but where its own
    figures are asked for, and requests are what it counts, it must not have been the slower end.
    """
    if result.scheduled is not None or check.name == CUT:
        return True
    counts = result.measured_by == "requests" and is_of_clients(seen.contender.metric)
    return check.name == BUSY and counts
