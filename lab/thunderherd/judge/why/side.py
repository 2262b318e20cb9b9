"""The counts of one side of a contender, per request, byte of payload or connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunderherd.metrics.table import SideOrBoth
from thunderherd.records.explanation import CauseName, Per, Range
from thunderherd.records.extra_trials import (
    CONTEXT_SWITCHES,
    INVOLUNTARY,
    SYSTEM_CALLS,
    VOLUNTARY,
    ContenderCounts,
    SideCounts,
)

NOTHING = Range.exactly(0.0)

NO_CONNECTION = "no connection was opened in the window"

MAKING = ("clone", "clone3", "fork", "vfork")
"""System calls that create a process or a thread.

`exit_group` ends a process, `exit` a thread (exit(2): it ends only the calling thread).
"""
ENDS_A_PROCESS, ENDS_A_THREAD = "exit_group", "exit"

WITHIN: Mapping[CauseName, Mapping[str, int]] = {
    "connections": {"socket": 1, "connect": 1, "accept4": 1, "close": 2},
    "processes": {ENDS_A_PROCESS: 1, "wait4": 1, "set_robust_list": 1},
    "threads": {ENDS_A_THREAD: 1, "rseq": 1, "set_robust_list": 1, "rt_sigprocmask": 4, "madvise": 1},
}
"""System calls that a price already includes, so they are not priced again.

For a process and a thread, these are the calls of fork(3) and pthread_create(3) of the GNU C library besides
the one that creates it, and the one that ends it. For a connection, they are those of both ends.
"""


@dataclass(frozen=True)
class Counted:
    """The counts of a side of a contender, divided by what is explained."""

    counts: ContenderCounts
    side: SideOrBoth
    per: Per
    has_priced_connections: bool = False

    @property
    def of_side(self) -> SideCounts:
        return self.counts.sides.get(self.side) or SideCounts(counts={})

    def get(self, name: str) -> Range | None:
        """Return a count; None if it was not counted.

        A system call by name is 0 if all names were counted and none had this name.
        """
        count = self.of_side.counts.get(name)
        if count is None:
            has_names = name.startswith(f"{SYSTEM_CALLS}.") and SYSTEM_CALLS in self.of_side.counts
            return NOTHING if has_names and self._factor() is not None else None
        factor = self._factor()
        if factor is None:
            return None
        found = Range(value=count.per_request, low=count.least, high=count.most)
        return found.times(factor)

    def _factor(self) -> float | None:
        """Return the number of requests in what is explained."""
        if self.per == "request":
            return 1.0
        if self.per == "connection":
            return self.counts.requests_per_connection
        per_request = [each for each in self.of_side.counts.values() if each.per_byte and each.per_request]
        if not per_request:
            return None
        largest = max(per_request, key=lambda each: each.per_request)
        return (largest.per_byte or 0.0) / largest.per_request

    def why_not(self, name: str) -> str:
        """Return why something was not counted."""
        if (reason := self.of_side.unavailable.get(name)) is not None:
            return reason
        if self.per == "byte" and self._factor() is None:
            return "no payload was counted"
        if self.per == "connection" and self._factor() is None:
            return NO_CONNECTION
        return f"the run's counted trials do not count {name}"

    def call(self, name: str) -> Range | None:
        return self.get(f"{SYSTEM_CALLS}.{name}")

    def made(self) -> Range | None:
        """Return the processes and threads created; None if system calls were not counted."""
        found = [self.call(name) for name in MAKING]
        known = [each for each in found if each is not None]
        return None if len(known) < len(found) else sum(known, start=NOTHING)

    def share_of_processes(self) -> float | None:
        """Return the share of processes among the created tasks that ended; None if none ended.

        A whole life has one more end than creations, because its first process is not among them.
        """
        ended, made = [self.call(name) for name in (ENDS_A_PROCESS, ENDS_A_THREAD)], self.made()
        processes, threads = (each.value if each else 0.0 for each in ended)
        if made is not None:
            processes = max(0.0, processes - max(0.0, processes + threads - made.value))
        return processes / (processes + threads) if processes + threads else None

    def processes(self) -> Range:
        """Return the processes created, as far as known."""
        made, share = self.made(), self.share_of_processes()
        return made.times(share) if made is not None and share is not None else NOTHING

    def threads(self) -> Range:
        made, share = self.made(), self.share_of_processes()
        return made.times(1 - share) if made is not None and share is not None else NOTHING

    def within(self, name: str) -> Range:
        """Return how many of these system calls are part of other prices.

        These are the prices of the processes and threads created, and of connections if those are priced.
        """
        whole = self.processes().times(WITHIN["processes"].get(name, 0))
        if self.has_priced_connections and (made := self.connections()) is not None:
            whole = whole + made.times(WITHIN["connections"].get(name, 0))
        return whole + self.threads().times(WITHIN["threads"].get(name, 0))

    def connections(self) -> Range | None:
        """Return the connections opened; persistent connections are opened before the window."""
        factor, requests = self._factor(), self.counts.requests_per_connection
        return None if factor is None else Range.exactly(factor / requests if requests else 0.0)

    def switches(self) -> Range | None:
        """Return the context switches.

        Both ways of counting miss some, so it is the larger count. /proc misses switches of short-lived
        threads; perf misses the last switch of each process and thread.
        """
        of_kinds = [self.get(VOLUNTARY), self.get(INVOLUNTARY)]
        of_proc = None if None in of_kinds else sum((each for each in of_kinds if each), start=NOTHING)
        of_perf = self.get(CONTEXT_SWITCHES)
        if of_perf is not None:
            ends = [self.call(ENDS_A_PROCESS), self.call(ENDS_A_THREAD)]
            of_perf = sum((each for each in ends if each), start=of_perf)
        found = [each for each in (of_proc, of_perf) if each is not None]
        return max(found, key=lambda each: each.value, default=None)

    def beyond_making(self, counted: Range, within: float) -> Range:
        """Return what the prices of the processes and threads created leave; each price includes `within`."""
        made = self.processes() + self.threads()
        return (counted - Range.exactly(made.value * within)).at_least_zero()
