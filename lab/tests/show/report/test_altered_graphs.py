"""Flame graphs that somebody damaged: the report has what is left of them, as numbers, colours and texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made.damage.raw import damages

from thunderherd.show.report.inline_svg import read_flame_graph

DAMAGES = 300
ELEMENTS = {"svg", "g", "title", "rect", "text"}


@pytest.mark.fuzz
def test_a_damaged_flame_graph_is_shown_in_part_or_not_at_all(
    tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    for content in damages("graphs", draws(DAMAGES)):
        (tmp_path / "a.svg").write_bytes(content)
        found = read_flame_graph(tmp_path, "a.svg", "<a>", 0.1)
        if found is not None:
            assert {each.tag for each in ElementTree.fromstring(str(found.svg)).iter()} <= ELEMENTS, content


def test_a_file_that_cannot_have_its_name_is_none(tmp_path: Path) -> None:
    assert read_flame_graph(tmp_path, "a\0.svg", "a", 0.1) is None
