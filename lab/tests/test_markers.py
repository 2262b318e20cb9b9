"""Tests that need the CPUs for themselves say why: `pytest.mark.alone("reason")`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FEWEST_WORDS = 5
"""A reason has a subject and a verb."""


def uses(text: str) -> Iterator[str | None]:
    """Yields the reason of each use of the marker in a file; None if it has none."""
    if "mark.alone" not in text:
        return  # parsing all files takes seconds
    tree = ast.parse(text)
    reasons = {
        id(node.func): node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.alone":
            yield reasons.get(id(node))


def test_each_test_that_runs_alone_has_a_reason() -> None:
    files = [*(ROOT / "lab" / "tests").rglob("*.py"), *(ROOT / "bench" / "tests").rglob("*.py")]
    found = [(path.name, reason) for path in files for reason in uses(path.read_text(encoding="utf-8"))]
    assert found
    assert [each for each in found if len((each[1] or "").split()) < FEWEST_WORDS] == []


@pytest.mark.parametrize(
    "text", ["@pytest.mark.alone\ndef test(): ...", "marks = [pytest.mark.alone()]", "pytest.mark.alone(WHY)"]
)
def test_a_use_without_a_reason_is_found(text: str) -> None:
    assert [*uses(text)] == [None]


def test_they_run_only_if_requested(pytestconfig: pytest.Config) -> None:
    assert "not alone" in pytestconfig.getini("addopts")[-1]
