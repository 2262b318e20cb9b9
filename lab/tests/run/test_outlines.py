"""A run keeps an outline of each trial in memory: it is small, and decisions from it are the same."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from made.small_studies import TIMED
from made.summaries.runs import info
from made.summaries.swept import offered
from made.summaries.trials import made_trial

from thunderherd.engine.client import catalogue
from thunderherd.engine.lines import Check, Validity
from thunderherd.judge.summary.block_rejection import last_attempts
from thunderherd.judge.summary.open_claims import selected
from thunderherd.judge.summary.pair_summaries import columns_of
from thunderherd.records.directory import RunDirectory, load
from thunderherd.records.trial import TrialRecord
from thunderherd.run.plan import next_in_block, plan
from thunderherd.run.progress import PlainProgress
from thunderherd.run.ranking_so_far import RankingSoFar
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.load_validity import BUSY, are_client_limited
from thunderherd.trial.observation import left_out, read_late
from thunderherd.trial.outline import ON_DISK, outline

LONG = """\
name = "long"
[measure]
limits = "0"
[load.settings]
clients = 4
duration = "250ms"
[comparisons]
all_pairs = false
[sizes.quick]
repetitions = 1
[[contenders]]
name = "epoll"
design = "epoll"
"""
"""The load of `bench/endurance.py`, which runs it for hours."""

TRIALS, MOST_BYTES = 100, 12_000
"""The most that a run may keep of a trial. `bench/endurance.py` allows as much, and what else a run needs."""


def timed(folder: Path) -> tuple[Study, list[TrialRecord]]:
    """Run both contenders once on the stand-in; return their whole trials."""
    path = folder / "timed.toml"
    path.write_text(TIMED)
    study = load_study(str(path), "quick", (), offered())
    run_study(study, folder / "run", seed=1, show=PlainProgress(io.StringIO()))
    return study, [*load(folder / "run").trials]


def limited(trial: TrialRecord) -> TrialRecord:
    """Return the trial as one whose clients had no idle time."""
    check = Check(name=BUSY, value=1.0, limit=0.95, holds=False, words="no idle time")
    passed = Check(name="throttled", value=0.0, limit=0.0, holds=True, words="no quota")
    validity = Validity(valid=None, checks=[passed, check])
    loads = [each.model_copy(update={"validity": validity}) for each in trial.loads]
    return trial.model_copy(update={"loads": loads})


def traced() -> int:
    """Return the bytes that are in use, as far as they are traced."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def same(study: Study, trials: Sequence[TrialRecord]) -> None:
    """Assert that outlines come to what the trials come to."""
    kept = [*map(outline, trials)]
    assert [*map(read_late, kept)] == [*map(read_late, trials)]
    assert are_client_limited(kept) == are_client_limited(trials)
    assert columns_of(kept) == columns_of(trials)
    assert selected(study, kept) == selected(study, trials)
    assert plan(study, kept) == plan(study, trials)
    assert [each.attempt for each in last_attempts(kept)] == [each.attempt for each in last_attempts(trials)]
    for metric in trials[0].metrics or {}:
        assert [left_out(metric, each) for each in kept] == [left_out(metric, each) for each in trials]


@pytest.mark.parametrize("faults", [(), ("late",)])
def test_outlines_of_runs_come_to_the_same(
    faults: tuple[str, ...], fake_engine: Callable[..., Path], tmp_path: Path
) -> None:
    fake_engine(*faults)
    study, trials = timed(tmp_path)
    assert any(map(read_late, trials)) or not faults
    same(study, trials)
    same(study, [*map(limited, trials)])
    assert are_client_limited([*map(outline, map(limited, trials))])


def test_outlines_of_blocks_come_to_the_same(small_study: Study) -> None:
    """With invalid, repeated and noisy trials."""
    trials = [
        made_trial(
            small_study, each.name, block, position=position, attempt=attempt,
            valid=(block, position, attempt) != (2, 1, 1), foreign=0.4 if block == 3 else 0.0,
        )
        for block in range(1, 5)
        for position, each in enumerate(small_study.contenders, start=1)
        for attempt in ((1, 2) if (block, position) == (2, 1) else (1,))
    ]  # fmt: skip
    same(small_study, trials)
    for number in range(1, 6):
        found = [next_in_block(small_study, 1, number, each) for each in (trials, [*map(outline, trials)])]
        assert found[0] == found[1]
    rankings = [RankingSoFar(small_study), RankingSoFar(small_study)]
    for ranking, each in zip(rankings, (trials, map(outline, trials)), strict=True):
        for trial in each:
            ranking.add(trial)
    assert rankings[0].groups() == rankings[1].groups() and rankings[0].noisy == rankings[1].noisy


def test_fields_on_disk_are_those_of_a_trial() -> None:
    assert TrialRecord.model_fields.keys() >= ON_DISK


@pytest.mark.usefixtures("use_engine")
def test_a_run_keeps_little_of_a_trial(tmp_path: Path) -> None:
    """Trials of an engine, with their histograms, go through a run's directory as a run writes them."""
    file = tmp_path / "long.toml"
    file.write_text(LONG)
    study = load_study(str(file), "quick", (), catalogue())
    run_study(study, tmp_path / "once", seed=1, show=PlainProgress(io.StringIO()))
    line = (tmp_path / "once/trials.jsonl").read_bytes().splitlines()[-1]
    with RunDirectory.create(tmp_path / "run", info(study), outline) as directory:
        directory.append(TrialRecord.model_validate_json(line))
        tracemalloc.start()
        try:
            for _ in range(TRIALS):
                directory.append(TrialRecord.model_validate_json(line))
            kept = traced() / TRIALS
            whole = directory.read_trials()
            taken = traced() / TRIALS - kept
        finally:
            tracemalloc.stop()
        assert len(directory.trials) == len(whole) == TRIALS + 1
    assert whole[0].loads[0].latency is not None and whole[0].loads[0].latency.histogram
    assert 0 < kept <= MOST_BYTES, f"a run keeps {kept:,.0f} bytes of a trial; whole it has {taken:,.0f}"
    assert kept < taken / 3
