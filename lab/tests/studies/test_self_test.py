"""The measuring, measured: a real run of `self-test` finds a slowdown of known size, and no twin."""

from __future__ import annotations

from pathlib import Path

import pytest

import thunderherd
from thunderherd.engine.client import catalogue
from thunderherd.run.runner import run_study
from thunderherd.statistics.comparisons import contrast
from thunderherd.statistics.verdicts import Verdict
from thunderherd.study.loading import load_study

COMPUTED_MICROSECONDS = 200
LOOPS = 80
"""Of each of five clients, in the place of 200: a slowdown of several times the cost is plain in fewer."""
ALPHA = 0.002
"""So small that chance fails this test about once in 500 times: 12 blocks allow it for three comparisons."""


@pytest.mark.usefixtures("use_engine")
def test_a_known_slowdown_is_found_with_its_size_and_a_twin_is_not_different(tmp_path: Path) -> None:
    overrides = [
        f"slowed.compute={COMPUTED_MICROSECONDS}us", f"alpha={ALPHA}", f"load.settings.loops={LOOPS}",
        "limits=50ms", "counting_cost.trials=0",
    ]  # fmt: skip
    study = load_study("self-test", "quick", overrides, catalogue())
    summary = run_study(study, tmp_path / "out", seed=1)

    assert summary.limits is not None
    assert all(each.value > 0 for each in summary.limits.figures if not each.derived)
    verdicts = {frozenset((pair.a, pair.b)): pair for pair in summary.pairs}
    twin, slowed = verdicts[frozenset(("prefork", "twin"))], verdicts[frozenset(("prefork", "slowed"))]
    assert twin.verdict in (Verdict.UNDECIDED, Verdict.EQUIVALENT)
    assert slowed.verdict == (Verdict.FASTER if slowed.a == "prefork" else Verdict.SLOWER)

    frame = thunderherd.load(tmp_path / "out").frame().filter("used").sort("block")
    costs = {
        name: frame.filter(contender=name)["server_cpu_per_connection"].to_list()
        for name in ("prefork", "slowed")
    }
    found = contrast(costs, {"slowed": 1.0, "prefork": -1.0}, confidence=1 - ALPHA)
    assert found.low is not None and found.high is not None
    # To spin overshoots by the reading of a clock, and clients that wait longer sleep a little differently.
    known = COMPUTED_MICROSECONDS / 1e6
    assert found.low <= known * 1.05 and found.high >= known * 0.95
    assert found.value == pytest.approx(known, rel=0.5)
