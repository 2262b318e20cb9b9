"""The order of the blocks, and pooled latency: from accepted trials only."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hdrh.histogram import HdrHistogram
from made.summaries.summary import INVALID_BLOCK, REJECTED_BLOCK, summary, trials

from thunderherd.judge.summary.block_order import (
    REJECTED,
    UNKNOWN,
    blocks_seen,
    figures_of_blocks,
    trials_seen,
)
from thunderherd.judge.summary.latency_curves import SHARES
from thunderherd.metrics.table import CPU_PER_CONNECTION
from thunderherd.show.charts.block_tooltips import BlocksBehind
from thunderherd.show.charts.blocks import MOST_TRIALS, about, blocks_chart
from thunderherd.show.report.validity import validity_section
from thunderherd.statistics.histograms import merged, percentile_curve, percentile_ns
from thunderherd.text.figures import Unit


def test_ratio_of_each_trial_is_to_the_median_of_accepted_trials() -> None:
    seen = trials_seen(summary(), trials(30))
    counting = [each.value for each in seen if each.contender == "prefork" and each.state != REJECTED]
    for each in seen:
        if each.contender == "prefork":
            assert each.ratio == pytest.approx(each.value / median(counting))
    assert {each.block for each in seen if each.state == REJECTED} == {REJECTED_BLOCK}


def test_figure_lists_accepted_blocks_with_the_lowest_and_the_highest() -> None:
    of, seen = summary(), trials(30)
    behind, unit = BlocksBehind(of, figures_of_blocks(of, seen)), Unit(5000, "s")
    costs = {
        name: {
            each.block: each.metrics[CPU_PER_CONNECTION] * 5000
            for each in seen
            if each.contender == name and each.valid and each.metrics and each.block != REJECTED_BLOCK
        }
        for name in ("iterative", "prefork")
    }
    own = {block: costs["prefork"][block] for block in [*costs["prefork"]][: of.study.blocks]}
    beyond = {block: cost - costs["iterative"][block] for block, cost in own.items()}
    prefork = next(each for each in of.contenders if each.name == "prefork")
    found = (
        behind.of_metric(prefork, CPU_PER_CONNECTION, unit, 3),
        behind.of_process_control(prefork, prefork.process_control_seconds, 3),
    )
    for text, values in zip(found, (own, beyond), strict=True):
        low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
        ends = f"{values[low]:.3f} (block {low}) to {values[high]:.3f} (block {high})"
        assert text == f"{of.study.blocks}, from {ends}"
    assert BlocksBehind(of, UNKNOWN).of_metric(prefork, CPU_PER_CONNECTION, unit, 3) == str(of.study.blocks)


def test_every_block_has_its_order_and_its_noise() -> None:
    blocks = blocks_seen(summary(), trials(30))
    assert len(blocks[0].order) == len(set(blocks[0].order)) == 11
    repeated = next(each for each in blocks if each.number == INVALID_BLOCK)
    assert (repeated.repeated, repeated.invalid) == (1, 1)
    view = validity_section(summary(), trials(30))
    counts = summary().trials.model_copy(update={"rejected_blocks": []})
    without = validity_section(summary().model_copy(update={"trials": counts}), trials(30))
    assert len(view.lines) == len(without.lines) + 1, "the verdicts with the rejected blocks kept"
    assert any("3 connections were refused" in why for _, why in view.reasons)


def test_chart_of_many_trials_has_one_mark_per_block_and_contender() -> None:
    seen = trials_seen(summary(), trials(30))
    many = seen * (MOST_TRIALS // len(seen) + 1)
    few, all_ = (blocks_chart(summary(), each) for each in (seen, many))
    marks = [max(map(len, chart["datasets"].values())) for chart in (few, all_)]
    assert marks[0] == len(seen) and marks[1] == len({(each.block, each.contender) for each in seen})
    assert about(many) != about(seen), "it says what a mark stands for"


def test_a_trial_whose_figure_is_zero_has_a_place_in_the_picture() -> None:
    first, *others = trials_seen(summary(), trials(30))
    seen = [replace(first, value=0.0, ratio=0.0), *others[:-1], replace(others[-1], ratio=9.0)]
    linear, logarithmic = (blocks_chart(summary(), each) for each in (seen, seen[1:]))
    scale = linear["layer"][-1]["encoding"]["y"]["scale"]
    assert scale["domain"][0] == 0 and "type" not in scale
    assert logarithmic["layer"][-1]["encoding"]["y"]["scale"]["type"] == "log"


def test_histograms_of_different_ranges_are_added_as_they_are() -> None:
    texts, everything = [], HdrHistogram(1, 2**53, 3)
    for highest, values in ((10**5, range(1, 2_000)), (10**9, range(1_000, 900_000, 450)), (10**6, [5] * 50)):
        histogram = HdrHistogram(1, highest, 3)
        for value in values:
            histogram.record_value(value)
            everything.record_value(value)
        texts.append(histogram.encode())
    together = merged(texts)
    assert together.total_count == everything.total_count
    curve = percentile_curve(together, SHARES)
    assert len(curve) > 20
    assert curve == [(share, percentile_ns(everything, share)) for share, _ in curve]
