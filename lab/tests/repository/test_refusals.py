"""Every refusal of the lab and of the benches has a code of the form `area.what_is_wrong`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.code_tree import LAB, ROOT

CODE = re.compile(r"[a-z_]+\.[a-z_]+")

FILES = sorted([*LAB.rglob("*.py"), *(ROOT / "bench").rglob("*.py")])


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each call of a file, with the name of what is called."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "id", getattr(node.func, "attr", "")), node


def without_code(path: Path) -> Iterator[int]:
    """The lines of refusals that are made of a text without a code."""
    for name, call in calls(path):
        is_text = bool(call.args) and isinstance(call.args[0], ast.Constant | ast.JoinedStr | ast.BinOp)
        has_code = any(keyword.arg == "code" for keyword in call.keywords)
        if (name in ("UserError", "Refusal") and is_text and not has_code) or (
            name == "Problem" and is_text and len(call.args) < 2 and not has_code
        ):
            yield call.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_refusal_has_a_code(path: Path) -> None:
    assert list(without_code(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_codes_have_one_form(path: Path) -> None:
    codes = [
        keyword.value.value
        for name, call in calls(path)
        if name in ("UserError", "Refusal", "Problem")
        for keyword in call.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    ]
    assert [code for code in codes if not CODE.fullmatch(str(code))] == []


def test_refusal_without_a_code_is_found(tmp_path: Path) -> None:
    source = tmp_path / "example.py"
    source.write_text('raise UserError("no")\nraise UserError("no", code="a.b")\nProblem(f"{1}")\n')
    assert list(without_code(source)) == [1, 3]
