"""The assignment in docs/classroom.md: its server has all points, and its rubric is one."""

from __future__ import annotations

import re
import shutil
import subprocess
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


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def assignment(folder: Path, source: str, *, with_cost: bool) -> Assignment:
    (folder / "server.c").write_text(source)
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-o", "server", "server.c"], cwd=folder, check=True)
    rubric = block("toml")
    if not with_cost:
        rubric = re.sub(r"\[\[cost\.steps\]\].*?(?=\n\[)", "", rubric, flags=re.DOTALL)
    (folder / "rubric.toml").write_text(rubric)
    offered = catalogue()
    tested = typed_server(f"{folder}/server {{port}}", "bytes", offered)
    return Assignment(tested, "prefork", load_rubric(folder / "rubric.toml"), offered, patience=3.0)


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
