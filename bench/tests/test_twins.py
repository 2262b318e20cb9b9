"""Twins beside a hostile neighbour: they rarely differ, and a difference that was planted is counted."""

from __future__ import annotations

import re

import pytest
from started import bench

import twins

DESIGN = "epoll"
PAIRS = 8


def false_ones(printed: str) -> int:
    """The false verdicts that the part has counted."""
    (found,) = re.findall(r"^(\d+) of \d+ pairs have a false verdict", printed, re.MULTILINE)
    return int(found)


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_twins_differ_no_more_often_than_alpha_allows() -> None:
    printed = bench("twins", "--pairs", f"{PAIRS}")
    assert not twins.are_too_many(false_ones(printed), PAIRS), printed
    (connections,) = re.findall(r"neighbour has made ([\d,]+) connections", printed)
    assert int(connections.replace(",", "")) > 1000 * PAIRS, printed


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_a_planted_difference_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "STUDY", f'{twins.STUDY}settings = {{{{ compute = "500us" }}}}\n')
    assert false_ones(bench("twins", DESIGN, "--pairs", "1")) == 1


@pytest.mark.parametrize(("false", "pairs", "too_many"), [(0, 0, False), (3, 12, False), (4, 12, True)])
def test_chance_explains_some_false_verdicts(false: int, pairs: int, too_many: bool) -> None:
    assert twins.are_too_many(false, pairs) is too_many


def test_the_neighbour_floods_until_it_is_asked_for_its_connections() -> None:
    with twins.neighbour(1) as connections:
        assert connections() > 0
