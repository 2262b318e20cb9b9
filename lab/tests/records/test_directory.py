"""The directory of a run: no trial is lost, no existing file is overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made.paths import TESTS
from made.refusals import refused
from made.summaries.runs import info
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records import directory as records_directory
from thunderherd.records.directory import RunDirectory
from thunderherd.records.schemas import kept_summary_schema, summary_schema, trial_schema
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.study.loading import Study

REFERENCE = TESTS.parents[1] / "docs" / "generated" / "reference"


def some_trials(study: Study, blocks: int = 2) -> list[TrialRecord]:
    return [
        made_trial(study, contender.name, block, position=position, valid=(block, position) != (2, 3))
        for block in range(1, blocks + 1)
        for position, contender in enumerate(study.contenders, start=1)
    ]


@pytest.fixture
def run(small_study: Study, tmp_path: Path) -> Path:
    """A directory with two blocks in it."""
    path = tmp_path / "run"
    with RunDirectory.create(path, info(small_study)) as directory:
        for trial in some_trials(small_study):
            directory.append(trial)
    return path


# Writing and reading


def test_appended_trials_are_read_back(run: Path, small_study: Study) -> None:
    loaded = records_directory.load(run)
    assert list(loaded.trials) == some_trials(small_study)
    assert loaded.run == info(small_study)
    assert loaded.summary is None


def test_each_trial_is_written_as_a_line_at_once(small_study: Study, tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", info(small_study)) as directory:
        for count, trial in enumerate(some_trials(small_study), start=1):
            directory.append(trial)
            lines = (tmp_path / "run" / "trials.jsonl").read_text().splitlines()
            assert len(lines) == count
            assert json.loads(lines[-1])["schema"] == 4


# Each example rewrites the file, so one directory serves them all.
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_a_run_killed_at_any_byte_loses_at_most_its_last_trial(
    run: Path, small_study: Study, share: float
) -> None:
    """For any prefix of the file on disk, all complete lines are read and the rest is cut off."""
    path, trials = run / "trials.jsonl", some_trials(small_study)
    content = path.read_bytes()
    cut = content[: round(share * len(content))]
    path.write_bytes(cut)
    whole = cut.count(b"\n")
    assert list(records_directory.load(run).trials) == trials[:whole]
    with RunDirectory.resume(run) as directory:
        assert directory.trials == trials[:whole]
        for trial in trials[whole:]:
            directory.append(trial)
    assert path.read_bytes() == content


def test_zeros_at_the_end_are_cut_off(run: Path) -> None:
    """A loss of power may leave zeros in the last line, with or without a line end."""
    path = run / "trials.jsonl"
    content = path.read_bytes()
    for ending in (bytes(4096), bytes(20) + b"\n"):
        path.write_bytes(content + ending)
        with RunDirectory.resume(run) as directory:
            assert len(directory.trials) == 6
        assert path.read_bytes() == content


def test_broken_line_in_the_middle_is_refused(run: Path) -> None:
    path = run / "trials.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{}\n", *lines[2:]]))
    (problem,) = refused(records_directory.load, run)
    assert (problem.code, problem.where) == ("results.broken_line", f"{path}:2")


@pytest.mark.parametrize("ending", ["{}\n", '{"schema": 4}\n', "a\rb\n", "\n"])
def test_complete_last_line_that_is_no_trial_is_refused(run: Path, ending: str) -> None:
    path = run / "trials.jsonl"
    content = path.read_text() + ending
    path.write_bytes(content.encode())
    for read in (records_directory.load, RunDirectory.resume):
        (problem,) = refused(read, run)
        assert (problem.code, problem.where) == ("results.broken_line", f"{path}:7")
    assert path.read_bytes() == content.encode()


# What must not happen


def test_a_run_is_not_overwritten(run: Path, small_study: Study) -> None:
    (problem,) = refused(RunDirectory.create, run, info(small_study))
    assert (problem.code, problem.where) == ("run.directory_taken", str(run))
    assert "--resume" in problem.hint and "--out" in problem.hint


def test_directory_with_other_files_is_refused(small_study: Study, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    for path, code in ((tmp_path, "directory_not_empty"), (tmp_path / "thesis.tex", "not_a_directory")):
        (problem,) = refused(RunDirectory.create, path, info(small_study))
        assert (problem.code, problem.where) == (f"run.{code}", str(path))
        assert "--out" in problem.hint


def test_what_an_interrupted_start_leaves_is_as_good_as_empty(small_study: Study, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "trials.jsonl").touch()
    (path / ".run.json.0123456789abcdef.unfinished").write_text("{")
    RunDirectory.create(path, info(small_study)).close()
    assert sorted(each.name for each in path.iterdir()) == ["run.json", "trials.jsonl"]
    # Trials without their run are somebody's data.
    (path / "run.json").unlink()
    (path / "trials.jsonl").write_text("{}")
    (problem,) = refused(RunDirectory.create, path, info(small_study))
    assert problem.code == "run.directory_not_empty"


def test_empty_directory_is_accepted(small_study: Study, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    RunDirectory.create(tmp_path / "new", info(small_study)).close()
    assert (tmp_path / "new" / "run.json").exists()


def test_two_runs_do_not_write_into_one_directory(run: Path) -> None:
    with RunDirectory.resume(run):
        (problem,) = refused(RunDirectory.resume, run)
    assert (problem.code, problem.where) == ("run.in_progress", str(run))
    RunDirectory.resume(run).close()


@pytest.mark.parametrize(("make", "why"), [(False, "no such directory"), (True, "run.json")])
def test_directory_without_run_is_refused(tmp_path: Path, make: bool, why: str) -> None:
    path = tmp_path / "nothing"
    if make:
        path.mkdir()
    for read in (thunderherd.load, RunDirectory.resume):
        (problem,) = refused(read, path)
        assert (problem.code, problem.where) == ("results.no_run", str(path))
        assert why in problem.message


def test_file_of_a_run_is_refused_with_its_directory(run: Path) -> None:
    (problem,) = refused(thunderherd.load, run / "run.json")
    assert (problem.code, problem.where) == ("results.no_run", str(run / "run.json"))
    assert problem.hint.endswith(f": {run}")


def test_parent_directory_of_runs_is_refused_with_their_names(run: Path) -> None:
    (problem,) = refused(thunderherd.load, run.parent)
    assert (problem.code, problem.where) == ("results.no_run", str(run.parent))
    assert problem.hint.endswith(f": {run}")


def test_run_of_another_version_is_refused(run: Path) -> None:
    found = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(found | {"schema": 1}))
    (problem,) = refused(records_directory.load, run)
    assert (problem.code, problem.where) == ("results.other_version", str(run / "run.json"))
    assert "(schema: " in problem.message


# Tables


def test_the_frame_has_one_row_a_trial(run: Path, small_study: Study) -> None:
    frame = thunderherd.load(run).frame()
    assert frame.height == 6
    assert frame["valid"].to_list() == [True] * 5 + [False]
    assert frame["design"].to_list() == ["iterative", "fork_per_client", "prefork"] * 2
    assert frame["invalid_reasons"].to_list()[-1] == "load: errors: 2 refused"
    assert frame["used"].to_list() == [None] * 6  # nothing was decided yet
    assert frame["worker_connections"].to_list()[2] == [33, 33, 33]
    assert frame["server_cpu_per_connection"].dtype == polars.Float64
    assert frame["listen_drops"].dtype == polars.Int64


def test_a_run_without_trials_has_an_empty_frame(small_study: Study, tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run", info(small_study)).close()
    frame = thunderherd.load(tmp_path / "run").frame()
    assert frame.height == 0
    assert frame.columns == list(thunderherd.load(tmp_path / "run").columns())


def test_tidy_tables_hold_the_frame(run: Path, small_study: Study) -> None:
    with RunDirectory.resume(run) as directory:
        directory.finish(summarise(small_study, directory.trials, {}, seed=1), directory.trials)
    frame = thunderherd.load(run).frame()
    assert polars.read_parquet(run / "trials.parquet").equals(frame)
    csv = polars.read_csv(run / "trials.csv")
    assert csv.columns == frame.columns
    assert csv["server_cpu_per_connection"].to_list() == frame["server_cpu_per_connection"].to_list()
    assert csv["worker_connections"].to_list()[2] == "[33, 33, 33]"
    assert frame["used"].to_list() == [True, True, True, False, False, False]  # block 2 is incomplete
    assert not list(run.glob(".*unfinished"))


def test_the_summary_survives_its_file(run: Path, small_study: Study) -> None:
    trials = some_trials(small_study)
    summary = summarise(small_study, trials, {"kernel": "Linux"}, seed=1)
    with RunDirectory.resume(run) as directory:
        directory.finish(summary, trials)
    assert records_directory.load(run).summary == summary
    keys = json.loads((run / "summary.json").read_text())
    assert {"study", "machine", "contenders", "pairs", "claims", "trials"} <= set(keys)
    assert {"valid", "invalid", "rejected"} <= set(keys["trials"])


WHEN = datetime(2025, 1, 2, 3, 4, 5)


def test_the_default_directory_is_named_after_study_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = records_directory.default_directory("unp-ch30", WHEN)
    assert path == Path("results/unp-ch30-20250102-030405") and path.is_dir()
    records_directory.release_unused()


def test_runs_of_one_second_have_different_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if many processes ask at the same moment."""
    monkeypatch.chdir(tmp_path)
    code = (
        "from datetime import datetime; from thunderherd.records.directory import default_directory; "
        f"print(default_directory('x', {WHEN!r}))"
    ).replace("datetime.datetime(", "datetime(")
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    paths = [each.communicate(timeout=60)[0].strip() for each in started]
    assert [each.returncode for each in started] == [0] * 4
    suffixes = sorted(path.removeprefix("results/x-20250102-030405") for path in paths)
    assert suffixes == ["", "-2", "-3", "-4"]


def test_an_unused_default_directory_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    used = records_directory.default_directory("used", WHEN)
    unused = records_directory.default_directory("unused", WHEN)
    (used / "run.json").write_text("{}")
    records_directory.release_unused()
    assert used.is_dir() and not unused.exists()
    monkeypatch.chdir(tmp_path / "results")
    records_directory.default_directory("unused", WHEN)
    records_directory.release_unused()
    assert not Path("results").exists()


def test_neither_a_head_nor_a_field_of_csv_is_a_formula() -> None:
    frame = polars.DataFrame({"=1+1": ["@x", None], "'=1+1": [-1.5, 2.0]})
    assert records_directory.csv_of(frame) == "'=1+1,'=1+1\n'@x,-1.5\n,2.0\n"


# Published schemas


@pytest.mark.parametrize(
    ("name", "schema"), [("summary.schema.json", summary_schema), ("trial.schema.json", trial_schema)]
)
def test_published_schemas_are_current(name: str, schema: Callable[[], dict[str, object]]) -> None:
    expected = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    assert (REFERENCE / name).read_text() == expected, (
        f"docs/generated/reference/{name} is out of date; type: make docs"
    )


def test_the_schema_that_comes_with_the_program_is_the_published_one() -> None:
    assert kept_summary_schema() == (REFERENCE / "summary.schema.json").read_text(), "type: make docs"


def test_schemas_have_the_fields_of_the_files(small_study: Study) -> None:
    trial = json.loads(some_trials(small_study)[0].model_dump_json(by_alias=True))
    of_hosts = {"hosts", "start_skew_seconds"}
    assert not of_hosts & set(trial), "both sides were on this machine"
    assert set(trial) | of_hosts == set(trial_schema()["properties"])
    summary = summarise(small_study, some_trials(small_study), {}, seed=1)
    written = json.loads(summary.model_dump_json(by_alias=True))
    assert set(written) == set(summary_schema()["properties"])
    assert Summary.model_validate(written) == summary
