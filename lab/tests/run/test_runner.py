"""Runs: order, looks, resuming, and the trials that remain when a run is interrupted or killed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made.engines import processes_of
from made.paths import TESTS
from made.refusals import refused
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.errors import Refusal, UserError
from thunderherd.machine import description
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import runner
from thunderherd.run.progress import Clock, PlainProgress
from thunderherd.run.runner import (
    NEW_RUN,
    NOTHING_TO_RESUME,
    OTHER_RUN,
    RESUME,
    differences,
    run_study,
)
from thunderherd.statistics.comparisons import block_order
from thunderherd.study.loading import Contender, Study, load_study
from thunderherd.text.figures import duration

COSTS = {"iterative": 20e-6, "fork_per_client": 100e-6, "prefork": 30e-6}

Outcome = Callable[[str, int, int], dict[str, Any]]
"""Contender, block and attempt: what its trial is made of, besides its cost."""


class Rig:
    """A study run on invented trials, with a log of the requested ones."""

    def __init__(self, study: Study, directory: Path) -> None:
        self.study, self.directory = study, directory
        self.ran: list[tuple[int, str, int]] = []
        self.outcome: Outcome = lambda name, block, attempt: {}
        self.stop_after = 10**9
        self.said = io.StringIO()

    def run_trial(self, study: Study, contender: Contender, **where: Any) -> TrialRecord:
        where.pop("engine")
        assert where.pop("profiles") is None
        assert where.pop("site").listen == "127.0.0.1:0"
        block, attempt = where["block"], where["attempt"]
        if len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        self.ran.append((block, contender.name, attempt))
        cost = COSTS[contender.name] * (1 + 0.001 * ((block * 7 + len(contender.name)) % 5))
        made = {"cost": cost, **where, **self.outcome(contender.name, block, attempt)}
        return made_trial(study, contender.name, **made)

    def run(self, **how: Any) -> Summary:
        how = {"seed": 5, "command": ["thunderherd", "run", "small"], **how}
        return run_study(self.study, self.directory, show=PlainProgress(self.said), **how)


@pytest.fixture
def rig(
    small_study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_engine: Callable[..., Path]
) -> Rig:
    fake_engine()
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)
    made = Rig(small_study, tmp_path / "run")
    monkeypatch.setattr(runner, "run_trial", made.run_trial)
    # Tests that run at the same time have engines.
    monkeypatch.setattr(runner, "other_runs", list)
    return made


def blocks_in_order(study: Study, seed: int, blocks: int) -> list[tuple[int, str, int]]:
    names = [contender.name for contender in study.contenders]
    return [(block, name, 1) for block in range(1, blocks + 1) for name in block_order(names, seed, block)]


# Order, looks, noise


def test_blocks_run_in_the_seeds_order(rig: Rig) -> None:
    summary = rig.run()
    assert rig.ran == blocks_in_order(rig.study, 5, 10)
    assert summary.study.complete
    assert summary.study.seed == 5
    assert summary.trials.valid == 30
    positions = [trial.position for trial in thunderherd.load(rig.directory).trials]
    assert positions == [1, 2, 3] * 10


def test_a_seed_is_drawn_and_recorded(rig: Rig) -> None:
    summary = rig.run(seed=None)
    assert rig.ran == blocks_in_order(rig.study, summary.study.seed, 10)
    assert f"seed {summary.study.seed}" in rig.said.getvalue()


def test_a_look_that_decides_everything_is_the_last(rig: Rig, small_full_study: Study) -> None:
    rig.study = small_full_study
    summary = rig.run()
    assert len(rig.ran) == 30
    assert [look.taken for look in summary.study.looks] == [True, False, False]
    assert summary.study.complete


def test_looks_go_on_while_something_is_undecided(rig: Rig, small_full_study: Study) -> None:
    rig.study = small_full_study

    def alternating(name: str, block: int, attempt: int) -> dict[str, Any]:
        return {"cost": 30e-6 * (1.2 if block % 2 else 0.8) if name == "prefork" else 30e-6}

    rig.outcome = alternating
    summary = rig.run()
    assert len(rig.ran) == 16 * 3
    assert [look.taken for look in summary.study.looks] == [True, True, True]
    assert summary.study.complete


def test_noisy_blocks_are_replaced_up_to_a_quarter(rig: Rig) -> None:
    limits = rig.study.noise.model_copy(update={"foreign": "10%"})
    rig.study = rig.study.model_copy(update={"noise": limits})
    rig.outcome = lambda name, block, attempt: {"foreign": 0.4 if block in (2, 5) else 0.0}
    summary = rig.run()
    assert summary.trials.rejected_blocks == [2, 5]
    assert {block for block, _, _ in rig.ran} == set(range(1, 13))
    assert re.search(r"^block 2/11: .*\bnoisy\b", rig.said.getvalue(), re.MULTILINE)
    rig.ran.clear()
    rig.directory = rig.directory.with_name("noisier")
    rig.outcome = lambda name, block, attempt: {"foreign": 0.4}
    summary = rig.run()
    assert {block for block, _, _ in rig.ran} == set(range(1, 14))  # 10 / 0.75, rounded down
    assert len(summary.trials.noisy_blocks_kept) == 10
    assert summary.study.complete


def test_an_invalid_trial_is_repeated_at_the_end_of_its_block(rig: Rig) -> None:
    rig.outcome = lambda name, block, attempt: {"valid": (name, block, attempt) != ("iterative", 3, 1)}
    summary = rig.run()
    third = [each for each in rig.ran if each[0] == 3]
    assert third == [*blocks_in_order(rig.study, 5, 3)[-3:], (3, "iterative", 2)]
    assert (summary.trials.valid, summary.trials.invalid) == (30, 1)
    assert summary.trials.incomplete_blocks == []
    assert "block 3: iterative: invalid: " in rig.said.getvalue()


def test_a_contender_that_stays_invalid_is_given_up(rig: Rig) -> None:
    rig.outcome = lambda name, block, attempt: {"valid": name != "prefork"}
    summary = rig.run()
    assert [each for each in rig.ran if each[1] == "prefork"] == [
        (block, "prefork", attempt) for block in (1, 2, 3) for attempt in (1, 2)
    ]
    assert "prefork" in summary.trials.given_up
    assert summary.study.blocks == 10


def test_run_ends_if_every_trial_is_invalid(rig: Rig) -> None:
    rig.outcome = lambda name, block, attempt: {"valid": False}
    summary = rig.run()
    assert len(rig.ran) == 18
    assert set(summary.trials.given_up) == set(COSTS)
    assert not summary.study.complete


def test_lines_of_a_run_match_the_golden_file(rig: Rig, golden: Callable[[str, str], None]) -> None:
    """Interrupted, resumed, with an invalid trial and a noisy block; then runs that are refused."""
    rig.study = rig.study.model_copy(update={"noise": rig.study.noise.model_copy(update={"foreign": "10%"})})
    rig.outcome = lambda name, block, attempt: {
        "valid": (name, block, attempt) != ("iterative", 2, 1),
        "foreign": 0.4 if block == 5 else 0.0,
    }
    rig.stop_after = 8
    with pytest.raises(KeyboardInterrupt):
        rig.run(resume=True)
    rig.stop_after = 10**9
    rig.run(resume=True)
    refusals = [*refused(rig.run), *refused(rig.run, resume=True, seed=6)]
    page = rig.said.getvalue() + "".join(f"{each.line}\nhint: {each.hint}\n" for each in refusals)
    page = page.replace(str(rig.directory), "results/run").replace(str(rig.study.path), "small.toml")
    golden("run/progress.txt", re.sub(r"\d+ s left", "N s left", page))


def test_progress_is_a_line_a_block(rig: Rig) -> None:
    rig.run()
    lines = rig.said.getvalue().splitlines()
    assert lines[0].startswith("small (quick): ") and "seed 5" in lines[0]
    assert [line.partition(":")[0] for line in lines[1:]] == [f"block {block}/10" for block in range(1, 11)]
    assert [line.endswith(" left") for line in lines[1:]] == [True] * 9 + [False]


@pytest.mark.parametrize("stop_after", [8, 10**9])
def test_another_run_is_noted_once_and_a_resumed_run_keeps_the_note(
    rig: Rig, stop_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([[], [], [77]])
    monkeypatch.setattr(runner, "other_runs", lambda: next(seen, [78]))
    rig.stop_after = stop_after
    with contextlib.suppress(KeyboardInterrupt):
        rig.run()
    monkeypatch.setattr(runner, "other_runs", list)
    rig.stop_after = 10**9
    summary = rig.run(resume=True)
    notes = [note for note in summary.study.notes if note.startswith(OTHER_RUN)]
    assert notes == [f"{OTHER_RUN} (process 77)"]
    assert rig.said.getvalue().count(OTHER_RUN) == 1


# Interrupting and resuming


def test_interrupted_run_keeps_its_trials_and_prints_the_resume_command(rig: Rig) -> None:
    rig.stop_after = 8
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    said = rig.said.getvalue()
    assert f"8 trials kept in {rig.directory}" in said
    command = f"thunderherd run {rig.study.path} --quick --out {rig.directory} --resume"
    assert f"{RESUME}{command}" in said
    loaded = thunderherd.load(rig.directory)
    assert len(loaded.trials) == 8
    assert loaded.summary is not None
    assert not loaded.summary.study.complete
    assert loaded.summary.study.blocks == 2


@pytest.mark.parametrize("done", [0, 1, 3, 8, 29])
def test_resumed_run_equals_an_uninterrupted_one(rig: Rig, done: int) -> None:
    rig.stop_after = done
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    rig.stop_after = 10**9
    summary = rig.run(resume=True, seed=None)
    assert rig.ran == blocks_in_order(rig.study, 5, 10)
    assert summary.study.seed == 5
    assert summary.study.complete
    assert summary.trials.valid == 30
    assert any("resumed at" in note for note in summary.study.notes)


def test_an_invalid_trial_is_not_repeated_twice_by_resuming(rig: Rig) -> None:
    rig.outcome = lambda name, block, attempt: {"valid": (name, block) != ("prefork", 1)}
    rig.stop_after = 4  # the block's three trials, and prefork's second attempt
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    rig.stop_after = 10**9
    rig.run(resume=True)
    assert [each for each in rig.ran if each[:2] == (1, "prefork")] == [
        (1, "prefork", 1),
        (1, "prefork", 2),
    ]


def test_resuming_a_finished_run_measures_nothing(rig: Rig) -> None:
    first = rig.run()
    rig.ran.clear()
    again = rig.run(resume=True)
    assert rig.ran == []
    assert again.pairs == first.pairs


def test_resume_in_an_empty_directory_begins_a_run(rig: Rig) -> None:
    assert rig.run(resume=True).study.complete
    assert NOTHING_TO_RESUME in rig.said.getvalue()


def test_run_into_a_directory_with_a_run_is_refused(rig: Rig) -> None:
    rig.run()
    (problem,) = refused(rig.run)
    assert (problem.code, problem.where) == ("run.directory_taken", str(rig.directory))


def test_another_study_is_refused_with_its_changes(
    rig: Rig, small_study_file: Path, some_catalogue: Catalogue
) -> None:
    rig.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    overrides = ["load.settings.loops=26", "contenders.prefork.settings.pool=4"]
    rig.study = load_study(str(small_study_file), "quick", overrides, some_catalogue)
    (problem,) = refused(rig.run, resume=True)
    assert problem.code == "run.other_study"
    assert re.search(r"load\.settings\.loops\b.*\b25\b.*\b26\b", problem.message)
    assert re.search(r"contenders\[prefork\]\.settings\.pool\b.*\b3\b.*\b4\b", problem.message)
    assert "another --out" in problem.hint


def test_changed_times_are_written_with_their_unit() -> None:
    before, now = ({"load": {"settings": {"duration": each, "loops": each}}} for each in (10**9, 2 * 10**9))
    assert differences(before, now, units={"duration": "ns"}) == [
        "load.settings.duration was 1s, is 2s",
        "load.settings.loops was 1000000000, is 2000000000",
    ]


def test_another_seed_engine_or_kernel_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    (problem,) = refused(rig.run, resume=True, seed=6)
    assert (problem.code, problem.where) == ("run.other_seed", "--seed")
    now = {"kernel": "Linux", "engine": {"sha256": "1"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: now)
    (problem,) = refused(rig.run, resume=True)
    assert problem.code == "run.other_engine" and "(0 then, 1 now)" in problem.message
    now = {"kernel": "Linux 2", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    (problem,) = refused(rig.run, resume=True)
    assert problem.code == "run.other_kernel"


def test_engine_rebuilt_during_a_run_is_refused(rig: Rig) -> None:
    def rebuild(name: str, block: int, attempt: int) -> dict[str, Any]:
        if block == 2:
            os.utime(os.environ["THUNDERHERD_ENGINE"])
        return {}

    rig.outcome = rebuild
    (problem,) = refused(rig.run)
    assert (problem.code, problem.where) == ("run.engine_rebuilt", os.environ["THUNDERHERD_ENGINE"])


def test_a_mistake_of_the_user_in_mid_run_is_reported_with_how_to_resume(rig: Rig) -> None:
    def refuse(name: str, block: int, attempt: int) -> dict[str, Any]:
        if block == 2:
            raise UserError("too few processes are allowed", code="a.code", hint="raise `ulimit -u`")
        return {}

    rig.outcome = refuse
    (problem,) = refused(rig.run)
    assert problem.code == "a.code"
    assert re.search(rf"^raise `ulimit -u`; .*\b3 .*{RESUME}.* --resume", problem.hint)


def test_run_refused_from_the_first_trial_suggests_a_new_run(rig: Rig) -> None:
    """A resumed run has the same settings. If earlier trials succeeded, there is another cause."""

    def refuse(name: str, block: int, attempt: int) -> dict[str, Any]:
        if (block, len(rig.ran)) >= first:
            raise Refusal("--buffers 15 and --buffer-size 101 are 1515 bytes")
        return {}

    rig.outcome = refuse
    first = (1, 3)
    (problem,) = refused(rig.run)
    assert problem.code == "run.trial_refused" and problem.message.endswith("1515 bytes")
    assert problem.hint.startswith("2 trials ") and NEW_RUN in problem.hint and "--resume" not in str(problem)
    first, rig.directory = (2, 0), rig.directory.with_name("another")
    (problem,) = refused(rig.run)
    assert problem.hint.startswith("3 trials ") and f"{RESUME}thunderherd run" in problem.hint


# Progress


def test_time_left_in_words() -> None:
    assert [duration(seconds) for seconds in (3.2, 89, 91, 3000, 7500)] == [
        "3 s", "89 s", "2 min", "50 min", "2 h 5 min",
    ]  # fmt: skip


# With the engine, in a separate process

SCRIPT = """
import sys
from pathlib import Path
from thunderherd.engine.client import catalogue
from thunderherd.run.runner import run_study
from thunderherd.study.loading import load_study

study = load_study(sys.argv[1], "quick", ["repetitions=10"], catalogue())
try:
    run_study(study, Path(sys.argv[2]), seed=3, resume=True)
except KeyboardInterrupt:
    sys.exit(130)
"""
"""So many blocks that a run has not ended before a test that gets no CPU for a while interrupts it."""


def loaded(file: Path) -> Study:
    """The study that SCRIPT runs."""
    return load_study(str(file), "quick", ["repetitions=10"], catalogue())


@pytest.fixture
def real_run(copied_engine: Path, small_study_file: Path, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Starts a run into tmp_path/run in its own process group, which is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(small_study_file), str(tmp_path / "run")],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
            process_group=0,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "nothing came of it in time"
        time.sleep(0.005)


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize(
    "after", [pytest.param(0, marks=pytest.mark.thorough), pytest.param(4, marks=pytest.mark.thorough), 11]
)
def test_a_killed_run_leaves_no_process_and_loses_one_trial_at_most(
    real_run: Callable[[], Any], copied_engine: Path, small_study_file: Path, tmp_path: Path, after: int
) -> None:
    written = tmp_path / "run" / "trials.jsonl"
    process = real_run()
    wait_for(lambda: lines_of(written) >= after and processes_of(copied_engine))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    on_disk = lines_of(written)
    assert on_disk >= after
    wait_for(lambda: not processes_of(copied_engine))

    # Everything in the file when it died is kept, and the run continues in its original order.
    before = written.read_bytes() if written.exists() else b""
    run_study(
        loaded(small_study_file), tmp_path / "run", seed=3, resume=True, show=PlainProgress(io.StringIO())
    )
    assert written.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    names = ["iterative", "fork_per_client", "prefork"]
    trials = [json.loads(line) for line in written.read_text().splitlines()]
    valid = [(trial["block"], trial["contender"]) for trial in trials if trial["valid"]]
    assert valid == [(block, name) for block in range(1, 11) for name in block_order(names, 3, block)]
    assert all(trial["seed"] == 3 for trial in trials)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["study"]["complete"]
    assert summary["trials"]["valid"] == 30
    assert processes_of(copied_engine) == {}


def test_ctrl_c_keeps_the_finished_trials(
    real_run: Callable[[], Any], copied_engine: Path, tmp_path: Path
) -> None:
    written = tmp_path / "run" / "trials.jsonl"
    process = real_run()
    wait_for(lambda: lines_of(written) >= 5 and processes_of(copied_engine))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert f"{RESUME}thunderherd run" in said
    assert "Traceback" not in said
    assert processes_of(copied_engine) == {}
    kept = lines_of(written)
    assert kept >= 5
    loaded = thunderherd.load(tmp_path / "run")
    assert len(loaded.trials) == kept
    assert loaded.summary is not None


def test_real_run_finds_fork_per_client_slower(
    use_engine: Path, small_study_file: Path, tmp_path: Path
) -> None:
    study = load_study(str(small_study_file), "quick", ["load.settings.loops=50"], catalogue())
    for seed in (1, 2, 3):  # A busy machine may disturb the few blocks of a run.
        run = tmp_path / f"run{seed}"
        summary = run_study(study, run, seed=seed, show=PlainProgress(io.StringIO()))
        verdicts = {(pair.a, pair.b): pair.verdict for pair in summary.pairs}
        found = [verdicts["iterative", "fork_per_client"], verdicts["fork_per_client", "prefork"]]
        if found == ["faster", "slower"]:
            break
    assert found == ["faster", "slower"]
    assert summary.study.complete
    assert thunderherd.load(run).frame().filter("used").height == 30


def test_time_left_counts_each_contender_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    for contender, seconds in (("long", 30.0), *[("short", 1.0)] * 9):
        clock.trials_left = 11
        clock.begin()
        now[0] += seconds
        clock.end(contender)
    assert clock.left() == "3 min left"  # 10 x (30 + 1) / 2, and not 10 x 39 / 10


def test_a_long_block_prints_its_progress(small_study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said = io.StringIO()
    shown = PlainProgress(said)
    shown.plan(3, 90)
    for position in range(1, 4):
        shown.trial_begins(1, "prefork", position, 30)
        now[0] += 40
        shown.trial_ends(made_trial(small_study, "prefork", 1))
    (line,) = said.getvalue().splitlines()
    assert re.findall(r"\d+/\d+|\d+ min", line) == ["1/3", "2/30", "59 min"]
