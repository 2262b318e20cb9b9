"""Counters that a trial could not read, or counted only part of the time: by side, and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from thunderherd.engine.lines import Life, LoadResult, Multiplexing, Ready, ServerSummary, Snapshot
from thunderherd.text.figures import time_share


class Seen(Protocol):
    """The parts of a trial that report counters; None or empty if the trial did not get that far."""

    @property
    def ready(self) -> Ready | None: ...
    @property
    def before(self) -> Snapshot | None: ...
    @property
    def during(self) -> Snapshot | None: ...
    @property
    def after(self) -> Snapshot | None: ...
    @property
    def summary(self) -> ServerSummary | None: ...
    @property
    def server_life(self) -> Life | None: ...
    @property
    def loads(self) -> Sequence[LoadResult]: ...
    @property
    def client_lives(self) -> Sequence[Life]: ...


def unavailable_of_sides(seen: Seen) -> dict[str, dict[str, str]]:
    """Return side → the requested counters that could not be read, with reasons.

    A figure of a counter that had nothing to report is one of them.
    """
    reasons = seen.ready.counters if seen.ready else {}
    clients: list[LoadResult | Life] = [*seen.loads, *seen.client_lives]
    return {
        "server": {
            **{name: why for name, why in reasons.items() if why},
            **({} if seen.server_life else _unavailable_in_window(seen)),
            **(seen.server_life.unavailable if seen.server_life else {}),
        },
        "client": {name: why for each in clients for name, why in each.unavailable.items()},
    }


def _unavailable_in_window(seen: Seen) -> dict[str, str]:
    """Return the counters missing from the server's snapshots, for figures of a window.

    States are read near its end: later the connections are closed.
    """
    last, near = seen.after or seen.summary, seen.during
    found = dict(last.unavailable) if last else {}
    if near is None:
        return found
    counted = [name for name, value in near.counters.items() if value is not None]
    states = {name: why for name, why in near.unavailable.items() if name not in near.multiplexing}
    return {name: why for name, why in found.items() if name not in counted} | states


def scaled_of_sides(seen: Seen) -> dict[str, dict[str, float]]:
    """Return side → extrapolated counters, with the share of the time in which each was counted.

    The share of several loads is the least.
    """
    server = _shared_by_server(seen)
    clients: dict[str, float] = {}
    for load in seen.client_lives or seen.loads:
        for name, each in load.multiplexing.items():
            if each.scaled:
                clients[name] = min(each.share, clients.get(name, 1.0))
    return {
        "server": {name: each.share for name, each in server.items() if each.scaled},
        "client": clients,
    }


def _shared_by_server(seen: Seen) -> Mapping[str, Multiplexing]:
    """Return the server's events that share the CPU's counters, in the window or over its life."""
    if seen.server_life is not None:
        return seen.server_life.multiplexing
    if seen.before is None or seen.after is None:
        return {}
    earlier, later = seen.before.multiplexing, seen.after.multiplexing
    return {name: each.since(earlier[name]) for name, each in later.items() if name in earlier}


def events_of_the_processor(seen: Seen) -> list[str]:
    """Return the events that a trial counted on the CPU's own counters, on either side.

    Only for these the engine reports how long each had a counter.
    """
    shared = [_shared_by_server(seen), *(load.multiplexing for load in seen.client_lives or seen.loads)]
    return [*dict.fromkeys(name for each in shared for name, part in each.items() if part.running_ns)]


def none_came(seen: Seen) -> Iterator[str]:
    """Yield warnings on events that were counted part of the time and never seen in it.

    They may all have happened in the rest of the time.
    """
    clients = [load.multiplexing for load in seen.client_lives or seen.loads]
    for side, shared in (("server", [_shared_by_server(seen)]), ("client", clients)):
        for name in dict.fromkeys(name for each in shared for name in each):
            found = [each[name] for each in shared if name in each]
            part = min((each.share for each in found if each.scaled), default=1.0)
            if 0 < part < 1 and not any(each.counted for each in found):
                counted = f"{side}: {name} was counted {time_share(part)} of the time"
                yield f"{counted} and never seen: 0 {NOT_CERTAIN}"


EXTRAPOLATED, NOT_CERTAIN = "are extrapolated", "is not certain"

TOO_FEW = "the CPU has too few counters for all events at once: "
"""Begins the warning that some events were counted part of the time. Summaries of stored trials look for
it."""


def scaled_in_words(scaled: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the caveat of extrapolated figures."""
    for side, shares in scaled.items():
        if shares:
            each = ", ".join(f"{name} ({time_share(share)} of the time)" for name, share in shares.items())
            part = f"were counted part of the time and {EXTRAPOLATED}"
            yield f"{TOO_FEW}these events of the {side} {part}: {each}"


def not_available(reasons: Mapping[str, str], of_whom: str) -> Iterator[str]:
    """Yield warnings on counters that cannot be read; those with the same reason in one sentence."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        are = f"counter {names[0]} is" if len(names) == 1 else f"counters {', '.join(names)} are"
        yield f"{are} not available{of_whom}: {why}"
