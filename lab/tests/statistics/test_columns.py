"""Columns with blocks left out, and contrasts that need them."""

from __future__ import annotations

import pytest

from thunderherd.claims.contrast_tables import Contrast, Figure
from thunderherd.judge.claims.contrasts import lacks, measure, r_squared
from thunderherd.statistics.columns import known, together
from thunderherd.study.loading import Study

COST = "server_cpu_per_connection"


def test_together_keeps_the_figures_of_complete_blocks() -> None:
    columns = {"a": [1.0, None, 3.0, 4.0], "b": [10.0, 20.0, None, 40.0]}
    assert together(columns) == {"a": [1.0, 4.0], "b": [10.0, 40.0]}
    assert known(columns["a"]) == [1.0, 3.0, 4.0]
    assert together({"a": [1.0, None], "b": [None, 2.0]}) == {"a": [], "b": []}
    assert together({"zero": [0.0, 1.0]}) == {"zero": [0.0, 1.0]}
    assert together({}) == {}


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        together({"a": [1.0], "b": [1.0, 2.0]})


def test_contrast_uses_complete_blocks_only(small_study: Study) -> None:
    fork: list[float | None] = [float(10 + block) for block in range(12)]
    pool: list[float | None] = [float(block) for block in range(12)]
    fork[2] = pool[5] = None
    values = {COST: {"fork_per_client": fork, "prefork": pool}}
    weights = {"fork_per_client": 1.0, "prefork": -1.0}
    difference = measure(Contrast(label="", metric=COST, weights=weights), small_study, values)
    assert difference.blocks == 10
    assert difference.value == pytest.approx(10 * 5000)
    assert difference.p_greater == pytest.approx(1 / 2**10)
    over = Figure(label="", metric=COST, weights={"fork_per_client": 1.0}, over={"prefork": 1.0})
    assert measure(over, small_study, values).blocks == 10
    points = {"fork_per_client": 1.0, "prefork": 2.0}
    assert r_squared(points, COST, values).tolist() == [1.0] * 10


def test_contrast_without_a_complete_block_has_a_reason(small_study: Study) -> None:
    values = {COST: {"fork_per_client": [1.0, None], "prefork": [None, 2.0]}}
    needed = Contrast(label="", metric=COST, weights={"fork_per_client": 1.0, "prefork": -1.0})
    (lacking,) = lacks(needed, values, {})
    assert f" {COST} " in lacking and " fork_per_client and prefork" in lacking
    assert lacks(needed, {COST: {"fork_per_client": [1.0], "prefork": [1.0]}}, {}) == []
