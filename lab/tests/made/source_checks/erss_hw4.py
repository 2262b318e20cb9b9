"""Checks of erss-hw4: a delay, the window of a load, and the charts of a report."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from made.source_checks.common import Check, Run, charts_of, marks_of, threads

DELAY_SECONDS = 2.0
WINDOW_SECONDS = 10.0
STARTING_AND_ENDING_SECONDS = 30.0
"""So long on a busy machine."""


@contextmanager
def the_delay_is_spent_on_a_cpu(run: Run) -> Iterator[None]:
    """The thread that serves the request runs, or is ready to run, for that long: it never sleeps."""
    with ThreadPoolExecutor(1) as thread:
        ended: list[bool] = []
        busy = thread.submit(busiest_thread, run.server, ended)
        try:
            yield
        finally:
            ended.append(True)
    # On a busy machine the last look may be early, since this thread waits, too. A sleep takes nothing.
    assert busy.result() > 0.4 * DELAY_SECONDS


@contextmanager
def the_load_lasts_its_window(run: Run) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert WINDOW_SECONDS <= time.monotonic() - began < WINDOW_SECONDS + STARTING_AND_ENDING_SECONDS


def busiest_thread(process: int, ended: list[bool]) -> float:
    """The most seconds that any thread has run and waited for a CPU, as long as it could be seen."""
    most = 0.0
    while not ended:
        for thread in threads(process):
            try:
                run, waited, _ = (thread / "schedstat").read_text().split()
            except OSError:
                continue
            most = max(most, (int(run) + int(waited)) / 1e9)
        time.sleep(0.02)
    return most


@contextmanager
def the_report_has_its_charts(run: Run) -> Iterator[None]:
    """Drawn, each with error bars; with lines over cores and buckets, between which there is something."""
    yield
    report = (run.directory / "small" / "report.html").read_text()
    charts = charts_of(run)
    for sweep, marks in (("cores", {"rule", "line"}), ("delay", {"rule"}), ("buckets", {"rule", "line"})):
        name = f"sweep-{sweep}-0"
        assert marks | {"point"} <= set(marks_of(charts[name])), name
        figure = re.search(rf'<figure id="{name}" [^>]*>(.*?)</figure>', report, re.DOTALL)
        assert figure, f"no {name} in the report"
        for mark in marks | {"symbol"}:
            drawn = rf'<g class="mark-{mark} role-mark [^>]*>\s*<(path [^>]*d="M|line )'
            assert re.search(drawn, figure[1]), f"{name} has no {mark} that is drawn"


CHECKS: dict[str, Check] = {
    "erss-hw4-measurement-throughput": the_load_lasts_its_window,
    "erss-hw4-protocol-delay": the_delay_is_spent_on_a_cpu,
    "erss-hw4-output-tables-plots": the_report_has_its_charts,
}
