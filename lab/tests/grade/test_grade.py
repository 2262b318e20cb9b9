"""`thunderherd grade`: points by case and by cost, mistakes of rubrics, and the formats of the results."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.paths import DATA
from made.refusals import codes_printed, refused
from made.summaries.trials import made_trial

from thunderherd.cli import main
from thunderherd.conform.server import typed_server
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.engine.conformance import cases_of
from thunderherd.grade.formats import as_classroom50, as_github, as_gradescope, submission_of
from thunderherd.grade.grading import (
    COST,
    Assignment,
    Cost,
    Grade,
    Item,
    NoVerdict,
    grade,
    graded,
    is_own_fault,
)
from thunderherd.grade.page import print_grade, print_repeated
from thunderherd.grade.rubric import load_rubric
from thunderherd.study.loading import Study
from thunderherd.text.layout import make_console
from thunderherd.trial.observation import TOO_BUSY

pytestmark = pytest.mark.usefixtures("use_engine")

FEW = "[conformance]\npoints_per_case = 0\n[conformance.points]\n1 = 5\n6 = 3\n7 = 2\n"
"""A rubric of three cases, so that grades are quick."""


def server(fault: str) -> str:
    """The command of a server with a fault, or with none."""
    return shlex.join([sys.executable, str(DATA / "broken_servers.py"), fault, "{port}"])


def assignment(folder: Path, typed: str, reference: str, rubric: str, **more: Any) -> Assignment:
    path = folder / "rubric.toml"
    path.write_text(rubric)
    offered = catalogue()
    subject = typed_server(typed, "bytes", offered)
    return Assignment(subject, reference, load_rubric(path), offered, patience=3.0, **more)


# Points -----------------------------------------------------------------------------------------------------


def test_a_server_without_a_fault_has_all_points_of_the_cases(tmp_path: Path) -> None:
    found = grade(assignment(tmp_path, server("none"), "epoll", FEW))
    assert [(each.number, each.points, each.most) for each in found.items] == [
        ("1", 5, 5), ("6", 3, 3), ("7", 2, 2),
    ]  # fmt: skip
    assert (found.points, found.most, found.cost) == (10, 10, None)


def test_a_broken_server_loses_the_points_of_the_case_and_the_replay_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = grade(assignment(tmp_path, server("ignores_half_close"), "epoll", FEW))
    assert [(each.number, each.points) for each in found.items] == [("1", 5), ("6", 0), ("7", 2)]
    replay = dict(found.items[1].facts)["replay"]
    assert main.run_command([*shlex.split(replay)[1:], "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == [6]


def test_the_cost_is_not_measured_if_a_needed_case_fails(tmp_path: Path) -> None:
    rubric = FEW + "[cost]\nneeds = [1, 6]\n[[cost.steps]]\nat_most = 2\npoints = 10\n"
    found = grade(assignment(tmp_path, server("ignores_half_close"), "epoll", rubric))
    assert (found.points, found.most, found.cost) == (7, 20, None)
    assert found.items[-1].number == COST and "case 6" in dict(found.items[-1].facts)["actual"]


def test_a_server_that_does_not_start_has_no_points(tmp_path: Path) -> None:
    rubric = FEW + "[[cost.steps]]\nat_most = 2\npoints = 10\n"
    found = grade(assignment(tmp_path, "sh -c 'exit 3' {port}", "epoll", rubric))
    assert (found.points, found.most) == (0, 20)
    reasons = [dict(each.facts)["actual"] for each in found.items if "actual" in dict(each.facts)]
    assert ["status 3" in each for each in reasons] == [True, False]
    assert all(each.remark for each in found.items)


@pytest.mark.parametrize(
    ("low", "points"), [(0.5, 36), (1.25, 36), (1.26, 24), (1.6, 24), (2.5, 12), (2.51, 0)]
)
def test_a_step_is_lost_only_if_the_whole_interval_is_above_it(low: float, points: float) -> None:
    assert load_rubric(None).rubric.points_for(low) == points


def test_the_bundled_rubric_has_100_points_for_the_usual_workload(some_catalogue: Catalogue) -> None:
    rubric = load_rubric(None)
    numbers = rubric.cases(cases_of(some_catalogue.defaults.workload))
    assert sum(map(rubric.rubric.points_of, numbers)) + rubric.rubric.most_for_cost == 100


def test_a_busy_machine_is_not_the_fault_of_the_server(small_study: Study) -> None:
    """A grade of a busy machine once lost all points of the cost, as most trials were read too late."""

    name, other = (each.name for each in small_study.contenders[:2])

    def trials(*reasons: str) -> list[Any]:
        return [
            made_trial(small_study, name, number).model_copy(
                update={"valid": not each, "invalid_reasons": [each] if each else []}
            )
            for number, each in enumerate(reasons, start=1)
        ]

    busy, wrong = f"the server was read 34 ms late: {TOO_BUSY}", "load: errors: 3 wrong_bytes"
    assert not is_own_fault(name, trials("", busy, busy))
    assert not is_own_fault(name, trials(busy, busy, wrong))
    assert not is_own_fault(other, trials(wrong, wrong))
    assert is_own_fault(name, trials("", wrong, wrong, busy))


# Mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("[conformance]\npoints_per_cases = 4\n", "rubric.unknown_key", 2),
        ("[conformance]\npoints_per_case = -4\n", "rubric.invalid_value", 2),
        ("[conformance.points]\n6 = -1\n", "rubric.invalid_value", 2),
        ("[conformance]\nshare_if_warned = 1.5\n", "rubric.invalid_value", 2),
        ("visibility = 'always'\n", "rubric.value_not_allowed", 1),
        ("[cost]\nbudget = '20'\n", "rubric.no_unit", 2),
        ("[[cost.steps]]\nat_most = 1\npoints = -3\n", "rubric.invalid_value", 3),
        ("[[cost.steps]]\nat_most = 1\n", "rubric.missing_key", 1),
        (
            "[[cost.steps]]\nat_most = 2\npoints = 3\n[[cost.steps]]\nat_most = 1\npoints = 2\n",
            "rubric.steps_out_of_order",
            4,
        ),
        ("[cost\n", "rubric.not_toml", 1),
    ],
)
def test_mistakes_of_a_rubric_have_code_place_and_hint(
    text: str, code: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / "rubric.toml"
    path.write_text(text)
    (problem,) = refused(load_rubric, path)
    assert (problem.code, problem.where) == (code, f"{path}:{line}")
    assert problem.hint or code == "rubric.not_toml"


STEP = "[[cost.steps]]\nat_most = 2\npoints = 3\n"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("[conformance.points]\n99 = 5\n", "rubric.unknown_case", 2),
        ("[cost]\nneeds = [1, 99]\n", "rubric.unknown_case", 2),
        ("[conformance]\npoints_per_case = 0\n", "rubric.no_points", 1),
        (f"{STEP}[cost.load]\nclints = 8\n", "compare.unknown_setting", 5),
        (f"[cost]\nbudget = '2s'\n{STEP}", "compare.budget_too_short", 2),
    ],
)
def test_mistakes_that_only_the_workload_shows_have_their_line(
    text: str, code: str, line: int, tmp_path: Path
) -> None:
    (problem,) = refused(assignment(tmp_path, "epoll", "thread_per_client", text).check)
    assert (problem.code, problem.where) == (code, f"{tmp_path / 'rubric.toml'}:{line}")
    assert problem.hint and "--" not in problem.hint


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["epoll"], "usage.missing"),
        (["--reference", "epoll"], "usage.missing"),
        (["epoll", "--reference", "epol"], "contender.unknown"),
        (["epoll", "--reference", "epoll"], "compare.contender_repeated"),
        (["epol", "--reference", "epoll"], "conform.unknown_server"),
        (["epoll", "--reference", "prefork", "--format", "xml"], "grade.unknown_format"),
        (["epoll", "--reference", "prefork", "--predict", "best"], "grade.unknown_prediction"),
        (["epoll", "--reference", "prefork", "--repeat", "2", "--format", "github"], "grade.repeated_format"),
        (["epoll", "--reference", "prefork", "--format", "classroom50"], "grade.no_submission"),
        (["epoll", "--reference", "prefork", "--rubric", "no-such-file"], "file.unreadable"),
    ],
)
def test_mistakes_have_codes(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["grade", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and codes_printed(printed.err) == [code]


def test_a_grade_without_a_verdict_has_a_status_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_busy(*_: object) -> Grade:
        raise NoVerdict("the machine was too busy", code="grade.too_busy")

    monkeypatch.setattr("thunderherd.grade.grading.grade", too_busy)
    assert main.run_command(["grade", "epoll", "--reference", "prefork"]) == 1
    assert codes_printed(capsys.readouterr().err) == ["grade.too_busy"]


def test_the_end_of_input_at_the_question_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = io.StringIO("")
    monkeypatch.setattr(ended, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", ended)
    assert main.run_command(["grade", "epoll", "--reference", "prefork", "--predict", "ask"]) == 130
    assert codes_printed(capsys.readouterr().err) == []


def test_the_shown_rubric_is_a_rubric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["grade", "--show-rubric"]) == 0
    path = tmp_path / "rubric.toml"
    path.write_text(capsys.readouterr().out)
    assert load_rubric(path).rubric == load_rubric(None).rubric


# Formats ----------------------------------------------------------------------------------------------------


@pytest.fixture
def some_grade() -> Grade:
    replay = "thunderherd conform './server {port}' --workload bytes --case 6 --seed 1"
    facts = (("rule", "The rule."), ("expected", "a reply"), ("actual", "the end"), ("replay", replay))
    return Grade(
        server="./server {port}",
        reference="prefork",
        workload="bytes",
        visibility="after_due_date",
        items=(
            Item("1", "correct replies", 4.0, 4.0, "passed"),
            Item("6", "half-closed connection", 0.0, 4.0, "failed", facts),
            Item(COST, "CPU per request against the reference", 24.0, 36.0, "1.42 times prefork"),
        ),
        cost=Cost(1.42, 1.38, 1.46, "dearer", "./server {port} uses 42 % more CPU per request."),
        prediction="cheaper",
    )


def test_gradescope_has_its_fields(some_grade: Grade) -> None:
    found = json.loads(json.dumps(as_gradescope(some_grade)))
    assert (found["score"], found["max_score"], found["visibility"]) == (28, 44, "after_due_date")
    keys = ("number", "score", "max_score", "status")
    assert [tuple(each[key] for key in keys) for each in found["tests"]] == [
        ("1", 4, 4, "passed"), ("6", 0, 4, "failed"), ("cost", 24, 36, "failed"),
    ]  # fmt: skip
    assert all(isinstance(each[key], str) for each in found["tests"] for key in ("name", "output"))
    assert "--case 6 --seed 1" in found["tests"][1]["output"]
    assert found["extra_data"]["prediction"] == {"predicted": "cheaper", "measured": "dearer"}
    assert found["score"] == sum(each["score"] for each in found["tests"])


def test_github_has_the_fields_that_its_reporter_reads(some_grade: Grade) -> None:
    found = json.loads(json.dumps(as_github(some_grade)))
    assert (found["version"], found["status"], found["max_score"]) == (1, "fail", 44)
    assert [(each["status"], each["score"]) for each in found["tests"]] == [
        ("pass", 4), ("fail", 0), ("fail", 24), ("pass", 0),
    ]  # fmt: skip
    keys = {"name", "status", "score", "message", "test_code", "filename", "line_no", "duration"}
    assert all(each.keys() == keys for each in found["tests"])
    full = dataclasses.replace(some_grade, items=some_grade.items[:1])
    assert as_github(full)["status"] == "pass"


SUBMISSION = {
    "CLASSROOM": "networks",
    "ASSIGNMENT": "prefork",
    "ASSIGNMENT_TYPE": "group",
    "OWNER": "alice",
    "USERNAME": "bob",
    "SUBMISSION_TAG": "submit/2026-09-01T10-00-00Z-a1b2c3d",
    "COMMIT_URL": "https://example.org/commit",
    "RELEASE_URL": "https://example.org/release",
    "REVIEW_URL": "",
}
"""Variables of Classroom 50's runner; without a review link, that of the commit takes its place."""


def test_classroom50_has_the_fields_of_its_schema(some_grade: Grade) -> None:
    halved = dataclasses.replace(some_grade.items[0], points=1.5, most=2.5)
    made = dataclasses.replace(some_grade, items=(halved, *some_grade.items[1:]))
    found = json.loads(json.dumps(as_classroom50(made, submission_of(SUBMISSION))))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.pop("datetime"))
    tests = found.pop("tests")
    assert found == {
        "schema": "classroom50/result/v1",
        "classroom": "networks",
        "assignment": "prefork",
        "assignment_type": "group",
        "owner": "alice",
        "submission": "submit/2026-09-01T10-00-00Z-a1b2c3d",
        "commit": "https://example.org/commit",
        "release": "https://example.org/release",
        "review": "https://example.org/commit",
        "score": 26,
        "max-score": 43,
    }
    assert [(each["passed"], each["score"], each["max-score"]) for each in tests] == [
        (False, 2, 3), (False, 0, 4), (False, 24, 36), (True, 0, 0),
    ]  # fmt: skip
    assert "--case 6 --seed 1" in tests[1]["output"]


@pytest.mark.parametrize("name", ["CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL"])
def test_a_missing_variable_of_classroom50_is_named(name: str) -> None:
    (problem,) = refused(lambda: submission_of(SUBMISSION | {name: ""}))
    assert problem.code == "grade.no_submission" and name in problem.message


def test_the_page(
    some_grade: Grade,
    golden: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_grade(some_grade, make_console(sys.stdout))
    print()
    better = dataclasses.replace(some_grade.items[2], points=36.0)
    other = dataclasses.replace(some_grade, items=(*some_grade.items[:2], better))
    print_repeated([some_grade, other, some_grade], 2, make_console(sys.stdout))
    lines = capsys.readouterr().out.splitlines()
    golden("grade/page.txt", "".join(f"{line.rstrip()}\n" for line in lines))


def test_changes_are_counted_from_the_most_frequent_points(some_grade: Grade) -> None:
    better = dataclasses.replace(some_grade.items[2], points=36.0)
    other = dataclasses.replace(some_grade, items=(*some_grade.items[:2], better))
    found = graded([other, some_grade, some_grade])
    assert [(item.number, points, times) for item, points, times in found] == [
        ("1", 4, 0), ("6", 0, 0), ("cost", 24, 1),
    ]  # fmt: skip


# From end to end --------------------------------------------------------------------------------------------


def test_a_real_submission_is_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cost is compared with a design's in blocks; a threshold that nothing exceeds gives all points."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubric.toml").write_text(
        FEW
        + "[cost]\nbudget = '30s'\n[[cost.steps]]\nat_most = 1000\npoints = 10\n[cost.load]\nclients = 2\n"
    )
    words = [
        "grade", server("none"), "--workload", "bytes", "--reference", "epoll", "--predict", "dearer",
        "--rubric", str(tmp_path / "rubric.toml"), "--seed", "1",
        "--format", "gradescope", "--output", str(tmp_path / "results.json"),
    ]  # fmt: skip
    assert main.run_command(words) == 0
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["score"], found["max_score"]) == (20, 20)
    assert found["extra_data"]["cost"]["ratio"] > 0
    assert found["extra_data"]["prediction"]["predicted"] == "dearer"
    folders = [*(tmp_path / "results").iterdir()]
    assert 1 <= len(folders) <= 2, "a machine that was busy makes it measure a second time"
    for folder in folders:
        assert re.fullmatch(r"grade-\d{8}-\d{6}", folder.name), "no check takes its name"
        assert (folder / "compare" / "trials.jsonl").exists()


@pytest.mark.parametrize("place", ["nowhere/results.json", "."])
def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["grade", server("none"), "--reference", "prefork", "--output", place]
    assert main.run_command(words) != 0
    assert codes_printed(capsys.readouterr().err) == ["grade.output_unwritable"]
    assert main.run_command(["conform", server("none"), "--junit", place]) != 0
    assert codes_printed(capsys.readouterr().err) == ["conform.output_unwritable"]
    assert [*tmp_path.iterdir()] == []
