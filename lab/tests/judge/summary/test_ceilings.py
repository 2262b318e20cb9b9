"""Shares of a ceiling are of the same block; a trial is checked against the least it must have."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made.refusals import refused
from made.summaries.swept import STUDY, loaded

from thunderherd.judge.summary.block_rejection import blocks_of
from thunderherd.judge.summary.ceilings import with_ceilings
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import TrialRecord
from thunderherd.show.tables.sweeps import sweep_tables
from thunderherd.study.loading import Contender, Study
from thunderherd.trial.trial import run_trial

CEILING = STUDY.replace('x_label = "children"', 'x_label = "children"\nceiling = "iterative"').replace(
    'metrics = ["voluntary', 'metrics = ["gigabits_per_second", "share_of_ceiling", "voluntary'
)


def record(
    study: Study, contender: Contender, block: int, rate: float | None, valid: bool = True
) -> TrialRecord:
    return TrialRecord(
        study=study.name, contender=contender.name, block=block, position=1, seed=1, started="",
        wall_seconds=1.0, valid=valid, invalid_reasons=[] if valid else ["a reason"], trial="window",
        cpu_scope="window", noise=None, time_wait_before=0, worker_connections=None,
        metrics={"gigabits_per_second": rate, "server_cpu_per_connection": 1e-5, "connections": 100},
    )  # fmt: skip


def test_share_of_ceiling_is_taken_within_the_block(tmp_path: Path) -> None:
    study = loaded(tmp_path, CEILING)
    trials = [
        record(study, each, block, 4.0 * block if each.name == "iterative" else 1.0)
        for block in range(1, 13)
        for each in study.contenders
    ]
    first, second = (with_ceilings(study, block) for block in blocks_of(trials)[:2])
    shares = [
        (block.trials["prefork@pool_size=5"].metrics or {})["share_of_ceiling"] for block in (first, second)
    ]
    assert shares == [1 / 4, 1 / 8]
    # Contenders in no such sweep have none, nor has the ceiling itself.
    assert "share_of_ceiling" not in (first.trials["prefork"].metrics or {})
    summary = summarise(study, trials, {}, seed=1)
    (found,) = [each for each in summary.contenders if each.name == "prefork@pool_size=5"]
    assert found.metrics["share_of_ceiling"].value == pytest.approx(0.04, abs=0.03)
    (table,) = [each for each in sweep_tables(summary, summary.sweeps[0]) if "ceiling" in each.caption]
    assert "ceiling: iterative" in table.notes


@pytest.mark.parametrize(("rate", "valid"), [(None, True), (0.0, True), (4.0, False)])
def test_block_without_a_ceiling_has_no_share(rate: float | None, valid: bool, tmp_path: Path) -> None:
    study = loaded(tmp_path, CEILING)
    trials = [
        record(study, each, 1, rate, valid) if each.name == "iterative" else record(study, each, 1, 1.0)
        for each in study.contenders
    ]
    block = with_ceilings(study, blocks_of(trials)[0])
    assert "share_of_ceiling" not in (block.trials["prefork@pool_size=5"].metrics or {})


def line_of(text: str, key: str) -> int:
    """Return the line at which a key of a study begins."""
    return 1 + text[: text.index(key)].count("\n")


def test_a_ceiling_that_is_no_contender_is_refused(tmp_path: Path) -> None:
    wrong = CEILING.replace('ceiling = "iterative"', 'ceiling = "prefork@pool_size=6"')
    (problem,) = refused(loaded, tmp_path, wrong)
    assert problem.where.endswith(f":{line_of(wrong, 'ceiling = ')}")
    assert '"prefork@pool_size=6"' in problem.message and "prefork@pool_size=5" in str(problem)


LEAST = STUDY.replace(
    'metric = "server_cpu_per_connection"\n',
    ('metric = "server_cpu_per_connection"\nat_least = { requests = "load.settings.loops" }\n'),
    1,
)


def test_trial_below_at_least_is_invalid(small_study: Study, fake_engine: Callable[..., Path]) -> None:
    fake_engine()
    contender = small_study.contender("prefork")
    for least in (100.0, 101.0):
        bounded = contender.model_copy(update={"at_least": {"requests": least}})
        found = run_trial(small_study, bounded, block=1, position=1, seed=1)
        assert found.valid == (least == 100) == (not found.invalid_reasons)
    (reason,) = found.invalid_reasons
    assert re.findall(r"requests|\d+", reason) == ["requests", "100", "101"]


def test_at_least_of_a_study_is_resolved_and_checked(tmp_path: Path) -> None:
    study = loaded(tmp_path, LEAST)
    assert study.contender("prefork").at_least == {"requests": 25.0}
    assert study.contender("prefork@pool_size=5").at_least == {"requests": 20.0}
    for wrong, typed in (
        ('{ requets = "load.settings.loops" }', '"requets"'),
        ('{ requests = "load.settings.lops" }', '"load.settings.lops"'),
        ('{ requests = "settings.backlog" }', '"settings.backlog"'),
    ):
        text = LEAST.replace('{ requests = "load.settings.loops" }', wrong)
        found = refused(loaded, tmp_path, text)
        assert all(each.where.endswith(f":{line_of(text, 'at_least = ')}") for each in found)
        assert typed in found[0].message
