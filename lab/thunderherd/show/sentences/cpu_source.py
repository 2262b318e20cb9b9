"""The CPU source of a figure of CPU cost, and why no better source was used.

The best source is cycles, which the CPU counts. Next is task-clock, a perf event. Last is the system's own
accounting (control group, /proc, getrusage). Figures of different sources are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thunderherd.metrics.cpu_sources import COUNTERS, OF_THE_SYSTEM, cpu_sources_below
from thunderherd.metrics.table import SIDES, TASK_CLOCK, counters_of
from thunderherd.records.summary import Summary
from thunderherd.text.figures import not_offered, words_of

__all__ = ["cpu_cost_lines", "in_place_of", "main_substitute"]

CYCLES = COUNTERS[0]

SOURCES = {
    "cgroup": "its control group (cpu.stat)",
    "process_clocks": "/proc and the clocks of its processes",
    "perf_event": "task-clock, a perf event",
    "whole_life": "getrusage(2) of its whole life",
}
"""The engine's sources of a server's CPU time, in words."""


def main_substitute(summary: Summary) -> str | None:
    """Finds the substitute of an unavailable main metric: the next CPU source with a figure."""
    name = summary.study.metric
    if not not_offered(summary, name):
        return None
    main = [each for each in summary.contenders if each.sweep is None]
    below = cpu_sources_below(name)
    return next((each for each in below if any(each in of.metrics for of in main)), None)


def cpu_cost_lines(summary: Summary, names: Iterable[str]) -> list[str]:
    """Explains each CPU source that one of the shown metrics comes from."""
    shown = [*dict.fromkeys(names)]
    made_of = {part for name in shown for part in counters_of(name)}
    lines = []
    if TASK_CLOCK in made_of:
        lines.append(
            f"CPU cost by task-clock: the scheduler's time, from a perf event{_no_cycles(summary, shown)}."
        )
    of_system = [name for name in shown if name in OF_SYSTEM]
    if any(name.startswith("server") or name == "cpu_per_byte" for name in of_system):
        lines += _of_server(summary, shown)
    if any(name.startswith("client") or name == "cpu_per_byte" for name in of_system):
        why = "" if TASK_CLOCK in made_of else _no_cycles(summary, shown)
        lines.append(f"CPU time of the clients: getrusage(2) of their ended processes{why}.")
    return lines


OF_SYSTEM = {*OF_THE_SYSTEM.values(), "server_cpu_per_connection"}


def _of_server(summary: Summary, shown: list[str]) -> Iterator[str]:
    for source, reason in summary.study.cpu_sources.items():
        why = f" (no better source: {reason})" if reason else ""
        yield f"CPU time of the server: {SOURCES.get(source, source)}{why}{_no_cycles(summary, shown)}."


def _no_cycles(summary: Summary, shown: list[str]) -> str:
    """Explains why cycles, the best source, are missing; empty if they are shown."""
    if CYCLES in {part for name in shown for part in counters_of(name) if not not_offered(summary, name)}:
        return ""
    reasons = [why for side in SIDES if (why := not_offered(summary, f"{side}.{CYCLES}"))]
    if reasons:
        return f"; cycles are unavailable: {reasons[0]}"
    if CYCLES in summary.study.counters:
        return ""
    return "; the study does not request cycles"


def in_place_of(name: str) -> str:
    """Labels a metric that is shown instead of an unavailable one."""
    return f"instead of {words_of(name)}, which is unavailable"
