"""The source's outputs of perf stat keep their form, with our figure below each line."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from made.summaries.hidden_counters import HIDDEN, of_the_report
from made.summaries.marked import printed

from thunderherd.show.report.page import render
from thunderherd.show.tables.paper_counters import HERE, SECONDS, PerfStat, perf_stats
from thunderherd.show.terminal.study import print_study


def outputs() -> dict[str, PerfStat]:
    return {each.title: each for each in perf_stats(of_the_report())}


def test_six_outputs_follow_the_order_of_the_report() -> None:
    found = [re.findall(r"Fig\. (\d)|: (\w+) of (\w+)$", title) for title in outputs()]
    sides = [(side, base) for base in ("single", "multi", "select") for side in ("server", "client")]
    assert [(number[0], who[1:]) for number, who in found] == [
        (str(number), who) for number, who in enumerate(sides, start=2)
    ]


LINE = re.compile(r"^( here)? +([\d,.]+) (?:msec|ns|    ) ?[a-z_-]* +(?:# +([\d.]+)(.*))?$")
"""One of perf stat's lines: ours or the source's, the figure, the derived figure and its words."""


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_each_line_is_followed_by_our_figure_derived_as_by_perf_stat() -> None:
    """The invented machine counts what the report printed, so both lines have the same figures, up to the
    report's rounding of its task-clock."""
    compared = []
    for output in outputs().values():
        assert output.lines[0].startswith(" Performance counter stats")
        for own, ours in pairwise(output.lines):
            theirs, mine = LINE.match(f"{own} "), LINE.match(f"{ours} ")
            if theirs is None or mine is None or theirs[1] or not mine[1]:
                continue
            if "utilized" in own or "duration_time" in own:
                continue  # the invented machine has other times
            assert number(mine[2]) == pytest.approx(number(theirs[2]), abs=1), own
            if theirs[3]:
                assert number(mine[3]) == pytest.approx(number(theirs[3]), rel=0.02, abs=0.002), (own, ours)
                assert mine[4].partition("  (")[0].strip() == theirs[4].strip()
                compared.append(theirs[4].strip())
    assert {"GHz", "insn per cycle", "% of all branches", "K/sec", "M/sec", "/sec"} <= set(compared)


def test_unavailable_and_extrapolated_events_are_marked_as_by_perf() -> None:
    single = next(each for title, each in outputs().items() if title.startswith("Fig. 2 "))
    at = next(place for place, line in enumerate(single.lines) if "bus-cycles" in line)
    assert re.fullmatch(r" here +<not supported>¹", single.lines[at + 1])
    assert single.notes == (f"¹ {HIDDEN}",)
    at = next(place for place, line in enumerate(single.lines) if "cpu-cycles" in line)
    assert single.lines[at + 1].endswith("GHz  (40%)")


def test_perf_outputs_are_printed_and_in_the_report() -> None:
    text = printed(print_study, of_the_report())
    assert "'./multi_thread_client 4':" in text
    assert f"{SECONDS['elapsed']} {HERE}" in text
    shown = render(of_the_report())
    assert shown.count("Performance counter stats") == 6
