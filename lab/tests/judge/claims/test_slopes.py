"""Slopes of a sweep: computed as a claim's slope is, and shown wherever sweeps are."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import pytest
from made.refusals import refused
from made.shown.printed import printed
from made.shown.tables import cells, heads, rows
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.sweeps import LIVES
from made.summaries.swept import STUDY, loaded

from thunderherd.claims.contrast_tables import Contrast, at_point, straight_line
from thunderherd.judge.claims.contrasts import measure
from thunderherd.judge.claims.slopes import NOT_EVERY_POINT, slopes
from thunderherd.metrics.table import metric
from thunderherd.records.summary import SlopeSummary, Summary
from thunderherd.show.report.page import render
from thunderherd.show.tables.sweeps import slope_table
from thunderherd.study.loading import Study, Sweep

CLOCK = "server.task_clock"


def study(repetitions: int | None = None) -> Study:
    """Return the synthetic study, whose whole lives request the slope per connection."""
    of = synthetic_sweeps.study(repetitions=repetitions)
    pools, delays, lives = of.sweeps
    return of.model_copy(update={"sweeps": (pools, delays, lives.model_copy(update={"slope": "connection"}))})


@cache
def summary(repetitions: int | None = None) -> Summary:
    return synthetic_sweeps.summary_of(study(repetitions))


def lives_of(of: Study) -> Sweep:
    return next(each for each in of.sweeps if each.name == "whole_life")


def found(of: Summary, base: str, metric: str) -> SlopeSummary:
    (each,) = [
        each for sweep in of.sweeps for each in sweep.slopes if (each.base, each.metric) == (base, metric)
    ]
    return each


def lines(each: list[float], start: list[float]) -> dict[str, dict[str, list[float]]]:
    """Return lives on a straight line in every block."""
    columns = {
        at_point("iterative", "whole_life", str(count)): [
            above + slope * count for slope, above in zip(each, start, strict=True)
        ]
        for count in LIVES
    }
    return {CLOCK: columns}


def test_a_straight_line_gives_its_slope_and_its_start_in_every_block() -> None:
    of = study()
    each, start = [2e-4 + 1e-6 * block for block in range(14)], [3e-3 - 1e-5 * block for block in range(14)]
    (line,) = [
        line
        for line in slopes(of, lives_of(of), lines(each, start), {})
        if (line.base, line.metric) == ("iterative", CLOCK)
    ]
    assert line.each is not None and line.start is not None
    assert line.each.value == pytest.approx(2e-4 + 6.5e-6) and line.start.value == pytest.approx(
        3e-3 - 6.5e-5
    )
    assert line.each.low is not None and line.each.high is not None
    assert min(each) < line.each.low < line.each.value < line.each.high < max(each)
    assert (line.each.blocks, line.each_spread, line.why) == (14, None, None)


def test_a_slope_is_that_of_a_claim() -> None:
    of = study()
    values = lines([2e-4, 3e-4, 2.5e-4] * 5, [1e-3] * 15)
    line = slopes(of, lives_of(of), values, {})[3]
    weights = {
        at_point("iterative", "whole_life", point): weight
        for point, weight in straight_line({str(count): float(count) for count in LIVES}).slope.items()
    }
    claimed = measure(Contrast(label="", metric=CLOCK, weights=weights), of, values)
    assert (line.base, line.metric, claimed.unit) == ("iterative", CLOCK, "µs") and line.each is not None
    assert claimed.value == pytest.approx(line.each.value * 1e6)
    assert claimed.low == pytest.approx((line.each.low or 0) * 1e6)


def test_repeated_runs_have_a_mean_and_a_deviation() -> None:
    of = study(repetitions=3)
    line = slopes(of, lives_of(of), lines([1e-4, 2e-4, 3e-4], [1e-3] * 3), {})[3]
    assert line.each_spread is not None and line.start_spread is not None
    assert line.each_spread.mean == pytest.approx(2e-4)
    assert line.each_spread.standard_deviation == pytest.approx(1e-4)
    assert line.start_spread.mean == pytest.approx(1e-3)
    repeated = summary(repetitions=3)
    table = slope_table(repeated, next(each for each in repeated.sweeps if each.name == "whole_life"))
    assert table is not None and any(" 3 runs " in note for note in table.notes)


def test_every_metric_and_contender_of_a_sweep_has_a_slope() -> None:
    of = summary()
    sweep = next(each for each in of.sweeps if each.name == "whole_life")
    assert [(each.metric, each.base) for each in sweep.slopes] == [
        (metric, base) for metric in sweep.metrics for base in sweep.contenders
    ]
    # Synthetic: the first contender needs 100 µs per connection, and 2 ms to start.
    line = found(of, "iterative", CLOCK)
    assert line.each and line.each.value == pytest.approx(1e-4, rel=0.05)
    assert line.start and line.start.value == pytest.approx(2e-3, rel=0.2)
    assert all(not each.slopes for each in of.sweeps if each.name != "whole_life")
    missing = found(of, "prefork", "latency_p99_seconds")
    assert missing.each is None and missing.why == NOT_EVERY_POINT
    away = slopes(study(), lives_of(study()), {}, {CLOCK: "perf_event_open: not permitted"})
    assert {each.why for each in away if each.metric == CLOCK} == {"perf_event_open: not permitted"}


def test_sweep_of_one_point_has_no_slope() -> None:
    of = study()
    one = lives_of(of).model_copy(update={"points": lives_of(of).points[:1]})
    assert slopes(of, one, lines([1e-4] * 14, [1e-3] * 14), {}) == []


def test_slopes_are_in_the_report() -> None:
    of = summary()
    table = slope_table(of, next(each for each in of.sweeps if each.name == "whole_life"))
    page = render(of)
    assert table is not None and table.caption in page
    assert all(f">{cell.value}<" in page and cell.span in page for cell in cells(table))


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("repetitions", [None, 3])
def test_slopes_are_printed_with_their_start_below_and_in_the_summary(
    width: int, repetitions: int | None
) -> None:
    of = summary(repetitions)
    table = slope_table(of, next(each for each in of.sweeps if each.name == "whole_life"))
    assert table is not None and heads(table) == ["iterative", "prefork", "thread_per_client"]
    own = rows(table)
    head = next(each for each in own if each.startswith(f"{metric(CLOCK).words} (µs), "))
    assert list(own)[1].startswith(f"{metric('client.elapsed_seconds').words} (ms), ")
    cell = own[head][0]
    line = found(of, "iterative", CLOCK)
    value = line.each_spread.mean if line.each_spread else line.each and line.each.value
    assert float(cell.value) == pytest.approx((value or 0) * 1e6, rel=0.01)
    text = printed(of, width)
    assert table.caption in text
    assert cell.value in text and cell.span.replace(" to ", "..") in text
    data = json.loads(of.model_dump_json(by_alias=True))["sweeps"][2]
    assert data["slope"] == "connection" and data["slopes"][3]["base"] == "iterative"


# What is refused --------------------------------------------------------------------------------------------


def test_a_sweep_without_numbers_has_no_slope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr("thunderherd.machine.tcp_sockets.local_ports", lambda: 20_000)
    text = STUDY.replace('axis = "logarithmic"', 'axis = "logarithmic"\nslope = "child"')
    assert loaded(tmp_path, text).sweeps[0].slope == "child"
    bare = text[: text.index("[[sweeps.paper]]")]
    one, named = "[5]", '[{ name = "a", set = { "settings.pool" = 5 } }]'
    for values in (one, named):
        wrong = bare.replace("values = [5, 10, 30]", f"values = {values}")
        line = 1 + wrong[: wrong.index("slope =")].count("\n")
        at = [Path(each.where).name for each in refused(loaded, tmp_path, wrong)]
        assert any(each.endswith(f".toml:{line}") for each in at), at
    assert loaded(tmp_path, bare, "pool_size.values=[5]").sweeps[0].slope == "child"
