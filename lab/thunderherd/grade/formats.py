"""Grades as Gradescope and GitHub Classroom read them."""

from __future__ import annotations

from typing import Any

from thunderherd.grade.grading import Grade, Item

__all__ = ["as_github", "as_gradescope"]

GITHUB_VERSION = 1
"""The version of a runner's result that the grading reporter of GitHub Classroom reads."""


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
