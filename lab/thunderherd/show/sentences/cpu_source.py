"""From which rung of the ladder a figure of CPU cost comes, and why from no higher one.

The ladder: cycles, which the CPU counts; task-clock, a perf event; what the system accounts for otherwise
(control group, /proc, getrusage). Each is a figure of its own, never mixed with another.
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
"""Where the engine has a server's CPU time from, in words."""


def main_substitute(summary: Summary) -> str | None:
    """What the main table has beside its metric where that cannot be had: the next rung that has a figure."""
    name = summary.study.metric
    if not not_offered(summary, name):
        return None
    main = [each for each in summary.contenders if each.sweep is None]
    below = cpu_sources_below(name)
    return next((each for each in below if any(each in of.metrics for of in main)), None)


def cpu_cost_lines(summary: Summary, names: Iterable[str]) -> list[str]:
    """Of metrics that are shown, for each rung that one of them stands on: where it comes from."""
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
    """Why cycles, the highest rung, do not stand here; empty where they do."""
    if CYCLES in {part for name in shown for part in counters_of(name) if not not_offered(summary, name)}:
        return ""
    reasons = [why for side in SIDES if (why := not_offered(summary, f"{side}.{CYCLES}"))]
    if reasons:
        return f"; not cycles, which cannot be had here: {reasons[0]}"
    if CYCLES in summary.study.counters:
        return ""
    return "; not cycles, which the study does not ask for"


def in_place_of(name: str) -> str:
    """What stands with a metric that is shown in the place of another."""
    return f"in place of {words_of(name)}, not to be had here"
