"""Grades as Gradescope, GitHub Classroom and Classroom 50 read them; `FORMATS` has all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from thunderherd.errors import UserError
from thunderherd.grade.grading import Grade, Item

__all__ = ["FORMATS", "as_classroom50", "as_github", "as_gradescope", "submission_of"]

GITHUB_VERSION = 1
"""The version of a runner's result that the grading reporter of GitHub Classroom reads."""
CLASSROOM50_SCHEMA = "classroom50/result/v1"
"""The name and version of a result of Classroom 50."""
VARIABLES = {
    "classroom": ("CLASSROOM",),
    "assignment": ("ASSIGNMENT",),
    "owner": ("OWNER", "USERNAME"),
    "submission": ("SUBMISSION_TAG",),
    "commit": ("COMMIT_URL",),
    "release": ("RELEASE_URL",),
    "review": ("REVIEW_URL", "COMMIT_URL"),
}
"""Key of Classroom 50's result → the variables of its runner that have the value, the best first."""


def output_of(item: Item) -> str:
    """Return what a student should know of an item."""
    return "\n".join(
        [*filter(None, [item.remark]), *(f"{head}: {text}" for head, text in item.facts if text)]
    )


def answer(grade: Grade) -> str:
    """Return the answer: `82 of 100 points: './server {port}', workload bytes.`"""
    return f"{grade.points:g} of {grade.most:g} points: {grade.server}, workload {grade.workload}."


def predicted(grade: Grade) -> str:
    """Return the prediction beside the measurement; empty if there was none."""
    if grade.prediction is None:
        return ""
    return f"Predicted: {grade.prediction} than {grade.reference}. Measured: {grade.measured()}.".replace(
        "same than", "same as"
    )


def as_gradescope(grade: Grade) -> dict[str, Any]:
    """Return the content of Gradescope's `results.json`."""
    more: dict[str, Any] = {"server": grade.server, "reference": grade.reference, "workload": grade.workload}
    if grade.cost is not None:
        more["cost"] = {"ratio": grade.cost.ratio, "low": grade.cost.low, "high": grade.cost.high}
    if grade.prediction is not None:
        more["prediction"] = {"predicted": grade.prediction, "measured": grade.measured()}
    return {
        "score": grade.points,
        "max_score": grade.most,
        "output": "\n".join(filter(None, [answer(grade), predicted(grade)])),
        "visibility": grade.visibility,
        "tests": [
            {
                "name": each.name,
                "number": each.number,
                "score": each.points,
                "max_score": each.most,
                "status": "passed" if each.is_full else "failed",
                "output": output_of(each),
            }
            for each in grade.items
        ],
        "extra_data": more,
    }


def as_github(grade: Grade) -> dict[str, Any]:
    """Return a runner's result, which the grading reporter reads in base64.

    The status is `fail` if any point is lost, which makes the reporter mark the workflow as failed.
    """
    tests = [
        {
            "name": f"{each.number} {each.name}",
            "status": "pass" if each.is_full else "fail",
            "score": each.points,
            "message": output_of(each),
            "test_code": next((text for head, text in each.facts if head == "replay"), ""),
            "filename": "",
            "line_no": 0,
            "duration": 0,
        }
        for each in grade.items
    ]
    if about := predicted(grade):
        tests.append(
            {"name": "prediction", "status": "pass", "score": 0.0, "message": about, "test_code": "",
             "filename": "", "line_no": 0, "duration": 0}
        )  # fmt: skip
    status = "pass" if all(each.is_full for each in grade.items) else "fail"
    return {"version": GITHUB_VERSION, "status": status, "max_score": grade.most, "tests": tests}


def submission_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what Classroom 50's runner says of a submission in its environment, by key of the result.

    `UserError`: a variable is missing.
    """
    found = {
        key: next((environment[name] for name in names if environment.get(name)), "")
        for key, names in VARIABLES.items()
    }
    if missing := [VARIABLES[key][0] for key, value in found.items() if not value]:
        raise UserError(
            f"not set in the environment: {', '.join(missing)}",
            code="grade.no_submission",
            hint="call this command in an autograder.py of Classroom 50, whose runner sets them",
            where="grade: --format classroom50",
        )
    return found | {"assignment_type": environment.get("ASSIGNMENT_TYPE") or "individual"}


def as_classroom50(grade: Grade, submission: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of Classroom 50's `result.json`, in whole scores: parts of a point round up."""
    tests: list[dict[str, Any]] = [
        {
            "test-name": f"{each.number} {each.name}",
            "passed": each.is_full,
            "score": math.ceil(each.points),
            "max-score": math.ceil(each.most),
            "output": output_of(each),
        }
        for each in grade.items
    ]
    if about := predicted(grade):
        tests.append({"test-name": "prediction", "passed": True, "score": 0, "max-score": 0, "output": about})
    return {
        "schema": CLASSROOM50_SCHEMA,
        **submission,
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(each["score"] for each in tests),
        "max-score": sum(each["max-score"] for each in tests),
        "tests": tests,
    }


# All formats ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A format of a grade for programs, as JSON."""

    made: Callable[[Grade, Mapping[str, str]], dict[str, Any]]
    """Makes the content from a grade and the variables of the environment."""
    check: Callable[[Mapping[str, str]], object] = lambda environment: None
    """Raises `UserError` if the environment lacks a variable that the format needs."""


FORMATS: Mapping[str, Format] = {
    "gradescope": Format(lambda grade, _: as_gradescope(grade)),
    "github": Format(lambda grade, _: as_github(grade)),
    "classroom50": Format(
        lambda grade, environment: as_classroom50(grade, submission_of(environment)), check=submission_of
    ),
}
"""The name of a format, as --format has it → the format."""
