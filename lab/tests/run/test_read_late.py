"""Extra trials whose server was read late: repeated with a longer window; if all were late, every page gives
that reason."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from made.small_studies import TIMED
from made.summaries.swept import offered

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.machine import description
from thunderherd.records.directory import RunDirectory
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run.counted import NOT_COUNTED
from thunderherd.run.extra_trials import LONGEST_NS, in_time, lengthened
from thunderherd.run.profiled import with_samples
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import render
from thunderherd.show.terminal.study import print_study
from thunderherd.study.loading import load_study
from thunderherd.text.layout import make_console
from thunderherd.trial.observation import TOO_BUSY
from thunderherd.trial.trial import ProfileFiles

COUNTED = TIMED.replace("[[contenders]]\n", "[counting]\ntrials = 1\n[[contenders]]\n", 1)

Fake = Callable[..., Path]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Summary:
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)
    path = tmp_path / "timed.toml"
    path.write_text(COUNTED)
    study = load_study(str(path), "quick", overrides, offered())
    return run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))


def test_late_counted_trial_is_repeated_with_a_longer_window(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("late_in_short_windows")
    # A busy machine may be late of itself in a long window too.
    for turn in range(5):
        folder = tmp_path / str(turn)
        folder.mkdir()
        summary = run(folder, monkeypatch)
        assert summary.trials.valid == 2, "judged by what its clients tell, it counts"
        with RunDirectory.resume(folder / "run") as directory:
            made = directory.extra_trials("counted.jsonl", TrialRecord)
        if all(each.valid for each in made[1::2]):
            break
    assert [(each.attempt, each.valid) for each in made] == 2 * [(1, False), (2, True)]
    for first, second in pairwise(made[:2]):
        assert TOO_BUSY in first.invalid_reasons[0] and len(first.invalid_reasons) == 1
        assert first.ready is not None and second.ready is not None
        asked = [int(each.loads[0].settings["duration"]) for each in (first, second)]
        # At least a tenth of a second late, which of the new window is half of what is allowed.
        assert asked[0] == 200 * 10**6 and 1.9 * 10**9 <= asked[1] <= 10 * 10**9
    assert summary.counting is not None
    for told in summary.counting.contenders:
        assert (told.trials, told.why) == (1, None)
        assert told.sides["server"].counts["system_calls"].per_request == 3


def test_run_whose_counted_trials_are_all_late_shows_the_reason(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_engine("late")
    summary = run(tmp_path, monkeypatch)
    lines = (tmp_path / "run" / "counted.jsonl").read_text().splitlines()
    assert len(lines) == 4, "no trial is made more than twice"
    assert summary.counting is not None
    for told in summary.counting.contenders:
        # Two that were late by as many milliseconds say so once.
        assert told.trials == 0 and told.why is not None and TOO_BUSY in told.why
    console = make_console(io.StringIO())
    print_study(summary, console, tmp_path / "run")
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for shown in (printed, render(summary)):
        assert re.search(f"prefork {NOT_COUNTED}: .* {TOO_BUSY}", " ".join(shown.split()))
    again = summary.model_copy(update={"limits": MachineLimits(cpus=[0], settings={}, figures=[])})
    with RunDirectory.resume(tmp_path / "run") as directory:
        directory.finish(again, directory.trials)
    for words in ([], ["prefork", "iterative"]):
        assert run_command(["explain", str(tmp_path / "run"), *words]) == 2
        error = capsys.readouterr().err
        assert TOO_BUSY in " ".join(error.split())
    ran = lines[:]
    study = load_study(str(tmp_path / "timed.toml"), "quick", (), offered())
    run_study(study, tmp_path / "run", resume=True, show=PlainProgress(io.StringIO()))
    assert (tmp_path / "run" / "counted.jsonl").read_text().splitlines() == ran


def test_late_counted_trial_of_an_earlier_version_is_repeated(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("late")
    run(tmp_path, monkeypatch)
    counted = tmp_path / "run" / "counted.jsonl"
    first = TrialRecord.model_validate_json(counted.read_text().splitlines()[0])
    stood = first.model_copy(update={"valid": True, "invalid_reasons": []})
    assert not in_time(stood).valid
    counted.write_text(stood.model_dump_json(by_alias=True) + "\n")
    fake_engine()
    study = load_study(str(tmp_path / "timed.toml"), "quick", (), offered())
    summary = run_study(study, tmp_path / "run", resume=True, show=PlainProgress(io.StringIO()))
    assert summary.counting is not None
    again = [TrialRecord.model_validate_json(line) for line in counted.read_text().splitlines()[1:]]
    assert stood.contender in {each.contender for each in again}
    for each in summary.counting.contenders:
        # A busy machine may have read these late as well, and reports it.
        assert each.trials == 1 or TOO_BUSY in (each.why or "")


def test_late_profiled_trial_is_invalid(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("late")
    run(tmp_path, monkeypatch)
    late = thunderherd.load(tmp_path / "run").trials[0]
    assert late.valid
    found = with_samples(late, ProfileFiles(tmp_path, 997, "auto"))
    assert not found.valid and not found.profiles and TOO_BUSY in found.invalid_reasons[0]


def test_a_window_is_lengthened_within_bounds(
    fake_engine: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine("late")
    run(tmp_path, monkeypatch)
    late = thunderherd.load(tmp_path / "run").trials[0]
    assert late.after is not None
    contender = load_study(str(tmp_path / "timed.toml"), "quick", (), offered()).contender(late.contender)

    def asked(milliseconds_late: int) -> int:
        assert late.after is not None and late.loads[0].window is not None
        read = late.loads[0].window.ended_monotonic_ns + milliseconds_late * 1_000_000
        after = late.after.model_copy(update={"monotonic_ns": read})
        return int(lengthened(contender, late.model_copy(update={"after": after})).load.settings["duration"])

    assert [asked(ms) for ms in (300, 100_000)] == [6 * 10**9, LONGEST_NS]
    long = contender.load.model_copy(update={"settings": {**contender.load.settings, "duration": 60 * 10**9}})
    kept = contender.model_copy(update={"load": long})
    assert lengthened(kept, late) == kept, "never shorter"
