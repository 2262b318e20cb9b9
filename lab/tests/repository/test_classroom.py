"""The assignment in docs/classroom.md: its server has all points, and its rubric is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from made.paths import ROOT

from thunderherd.conform.server import typed_server
from thunderherd.engine.client import catalogue
from thunderherd.grade.grading import COST, Assignment, grade
from thunderherd.grade.rubric import load_rubric

PAGE = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")

pytestmark = [
    pytest.mark.usefixtures("use_engine"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]


@pytest.fixture
def own_commands() -> dict[str, str]:
    """The environment with this Python's programs, `thunderherd` among them, first in PATH."""
    folder = Path(sys.executable).parent
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_autograder_of_classroom50_writes_its_result(
    tmp_path: Path, own_commands: dict[str, str]
) -> None:
    (tmp_path / "autograder.py").write_text(block("python"))
    (tmp_path / "server.c").write_text(block("c"))
    (tmp_path / "rubric.toml").write_text("[conformance]\npoints_per_case = 0\n[conformance.points]\n1 = 5\n")
    names = ("CLASSROOM", "ASSIGNMENT", "OWNER", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")
    variables = {name: name.lower() for name in names}
    subprocess.run([sys.executable, "autograder.py"], cwd=tmp_path, env=own_commands | variables, check=True)
    found = json.loads((tmp_path / "result.json").read_text())
    assert (found["schema"], found["owner"]) == ("classroom50/result/v1", "owner")
    assert (found["score"], found["max-score"]) == (5, 5)


def assignment(folder: Path, source: str, *, with_cost: bool) -> Assignment:
    (folder / "server.c").write_text(source)
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", "server", "server.c"], cwd=folder, check=True)
    rubric = block("toml")
    if not with_cost:
        rubric = re.sub(r"\[\[cost\.steps\]\].*?(?=\n\[)", "", rubric, flags=re.DOTALL)
    (folder / "rubric.toml").write_text(rubric)
    offered = catalogue()
    subject = typed_server(f"{folder}/server {{port}}", "bytes", offered)
    return Assignment(subject, "prefork", load_rubric(folder / "rubric.toml"), offered, patience=3.0)


def test_the_server_of_the_page_has_all_points_of_conformance(tmp_path: Path) -> None:
    found = grade(assignment(tmp_path, block("c"), with_cost=False))
    assert [(each.number, each.facts) for each in found.items if not each.is_full] == []
    assert (found.points, found.most) == (64, 64)


def test_without_close_it_loses_what_the_page_says(tmp_path: Path) -> None:
    source = block("c")
    assert source.count("        close(client);\n") == 1
    found = grade(assignment(tmp_path, source.replace("        close(client);\n", ""), with_cost=True))
    cases, cost = found.items[:-1], found.items[-1]
    (said,) = re.findall(r"loses (\d+) of 64 points", PAGE)
    assert sum(each.most - each.points for each in cases) == int(said)
    assert (cost.number, cost.points, found.cost) == (COST, 0, None)
    six = next(each for each in cases if each.number == "6")
    lines = [f"  {head:<8}  {text}" for head, text in six.facts]
    shown = (
        "\n".join(lines)
        .replace(f"'{tmp_path}/server", "'./server")
        .replace("nothing for 3 s", "nothing for 5 s")
    )
    assert shown in PAGE
