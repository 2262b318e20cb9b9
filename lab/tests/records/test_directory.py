"""The directory of a run: nothing that was measured is lost, nothing that is there is overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import polars
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made.paths import TESTS
from made.summaries.runs import info
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.errors import UserError
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


def test_what_is_appended_is_read_again(run: Path, small_study: Study) -> None:
    loaded = records_directory.load(run)
    assert list(loaded.trials) == some_trials(small_study)
    assert loaded.run == info(small_study)
    assert loaded.summary is None


def test_a_line_a_trial_and_each_on_disk_at_once(small_study: Study, tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", info(small_study)) as directory:
        for count, trial in enumerate(some_trials(small_study), start=1):
            directory.append(trial)
            lines = (tmp_path / "run" / "trials.jsonl").read_text().splitlines()
            assert len(lines) == count
            assert json.loads(lines[-1])["schema"] == 4


# Each example writes the file anew, so one directory serves them all.
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_a_run_killed_at_any_byte_loses_at_most_its_last_trial(
    run: Path, small_study: Study, share: float
) -> None:
    """Whatever prefix of the file reached the disk, all whole lines are read and the rest is cut off."""
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
    """A machine that lost power may leave a last line with zeros in it, with or without its end."""
    path = run / "trials.jsonl"
    content = path.read_bytes()
    for ending in (bytes(4096), bytes(20) + b"\n"):
        path.write_bytes(content + ending)
        with RunDirectory.resume(run) as directory:
            assert len(directory.trials) == 6
        assert path.read_bytes() == content


def test_a_broken_line_in_the_middle_is_not_passed_over(run: Path) -> None:
    path = run / "trials.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{}\n", *lines[2:]]))
    with pytest.raises(UserError, match=r"trials\.jsonl:2: no trial of this version"):
        records_directory.load(run)


@pytest.mark.parametrize("ending", ["{}\n", '{"schema": 4}\n', "a\rb\n", "\n"])
def test_a_whole_last_line_that_is_no_trial_is_not_cut_off(run: Path, ending: str) -> None:
    path = run / "trials.jsonl"
    content = path.read_text() + ending
    path.write_bytes(content.encode())
    for read in (records_directory.load, RunDirectory.resume):
        with pytest.raises(UserError, match=r"trials\.jsonl:7: no trial of this version"):
            read(run)
    assert path.read_bytes() == content.encode()


# What must not happen


def test_a_run_is_not_overwritten(run: Path, small_study: Study) -> None:
    told = "already holds a run; add --resume to go on with it, or choose another"
    with pytest.raises(UserError, match=told):
        RunDirectory.create(run, info(small_study))


def test_other_peoples_files_are_not_mixed_with(small_study: Study, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match="exists and is not empty; choose another directory with --out"):
        RunDirectory.create(tmp_path, info(small_study))
    with pytest.raises(UserError, match="not empty"):
        RunDirectory.create(tmp_path / "thesis.tex", info(small_study))


def test_an_empty_directory_will_do(small_study: Study, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    RunDirectory.create(tmp_path / "new", info(small_study)).close()
    assert (tmp_path / "new" / "run.json").exists()


def test_two_runs_do_not_write_into_one_directory(run: Path) -> None:
    with (
        RunDirectory.resume(run),
        pytest.raises(UserError, match="is being written by another run"),
    ):
        RunDirectory.resume(run)
    RunDirectory.resume(run).close()


@pytest.mark.parametrize(("make", "why"), [(False, "no such directory"), (True, r"it has no run\.json")])
def test_where_there_is_no_run(tmp_path: Path, make: bool, why: str) -> None:
    path = tmp_path / "nothing"
    if make:
        path.mkdir()
    with pytest.raises(UserError, match=f"nothing holds no run: {why}"):
        thunderherd.load(path)
    with pytest.raises(UserError, match="holds no run"):
        RunDirectory.resume(path)


def test_a_file_of_a_run_is_told_its_directory(run: Path) -> None:
    with pytest.raises(
        UserError, match=f"run.json holds no run: it is a file, not a directory; give .* it is in: {run}"
    ):
        thunderherd.load(run / "run.json")


def test_where_the_runs_lie_below_they_are_named(run: Path) -> None:
    with pytest.raises(UserError, match=f"{run.parent} holds no run: .*; give one of those in it: {run}"):
        thunderherd.load(run.parent)


def test_a_run_of_another_version_is_named_as_such(run: Path) -> None:
    found = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(found | {"schema": 1}))
    with pytest.raises(
        UserError, match=r"run\.json is not what this version of Thunderherd writes \(schema:"
    ):
        records_directory.load(run)


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
        directory.finish(summarise(small_study, directory.trials, {}, seed=1))
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
        directory.finish(summary)
    assert records_directory.load(run).summary == summary
    keys = json.loads((run / "summary.json").read_text())
    assert {"study", "machine", "contenders", "pairs", "claims", "trials"} <= set(keys)
    assert {"valid", "invalid", "rejected"} <= set(keys["trials"])


def test_the_default_directory_is_named_after_study_and_time() -> None:
    when = datetime(2025, 1, 2, 3, 4, 5)
    assert records_directory.default_directory("unp-ch30", when) == Path("results/unp-ch30-20250102-030405")


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


def test_the_schemas_speak_of_the_files_as_they_are(small_study: Study) -> None:
    trial = json.loads(some_trials(small_study)[0].model_dump_json(by_alias=True))
    assert set(trial) == set(trial_schema()["properties"])
    summary = summarise(small_study, some_trials(small_study), {}, seed=1)
    written = json.loads(summary.model_dump_json(by_alias=True))
    assert set(written) == set(summary_schema()["properties"])
    assert Summary.model_validate(written) == summary
