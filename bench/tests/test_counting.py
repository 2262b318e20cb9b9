"""The benchmark of counting: the counters of every trial, and the verdicts on their cost."""

from __future__ import annotations

import argparse
import tomllib

import pytest

import counting
from common import Figures
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.study.file.names import bundled_studies


def given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    counting.options(parser)
    return parser.parse_args(words)


def test_the_sets_of_every_trial_are_those_of_the_bundled_studies(some_catalogue: Catalogue) -> None:
    sets = counting.in_every_trial(some_catalogue)
    assert next(iter(sets)) == counting.DEFAULT and sets[counting.DEFAULT] == ()
    of_studies = {study: counters for name, counters in sets.items() for study in name.split(", ")}
    asked = {
        name: tuple(tomllib.loads(path.read_text())["measure"].get("counters", ()))
        for name, path in bundled_studies().items()
    }
    assert any(asked.values()) and not all(asked.values()), "some studies count, others do not"
    for name, counters in asked.items():
        if counters:
            assert of_studies.pop(name) == counters
    assert of_studies == {counting.DEFAULT: ()}, "a study without counters is what every trial has"


def test_the_many_rounds_are_for_the_sets_of_every_trial(
    monkeypatch: pytest.MonkeyPatch, some_catalogue: Catalogue
) -> None:
    monkeypatch.setattr(counting, "catalogue", lambda: some_catalogue)
    of_all, apart = counting.kinds(given())
    assert of_all.rounds > apart.rounds
    assert (of_all.reference, of_all.sets[counting.NOTHING]) == (counting.NOTHING, None)
    assert apart.reference == counting.DEFAULT and "system_calls" in apart.sets
    (alone,) = counting.kinds(given("--other-rounds", "0"))
    assert alone.sets == of_all.sets
    assert counting.seconds(given("--other-rounds", "0")) <= 300
    (named,) = counting.kinds(given("--counters", "page_faults", "system_calls,wakeups"))
    assert named.sets["system_calls,wakeups"] == ("system_calls", "wakeups")
    (keys,) = counting.kinds(given("--counters", "cs,cpu/event=0x3c,umask=0/,r003c"))
    assert [*keys.sets.values()][-1] == ("cs", "cpu/event=0x3c,umask=0/", "r003c")


NO_SUCH = "cpu/no-such/"


@pytest.mark.usefixtures("use_engine")
def test_unavailable_counters_are_left_out_with_their_name_and_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of events that no list has, too; and those that are there are counted all the same."""
    offered = catalogue()
    found = counting.unavailable(["cs", NO_SUCH, "voluntary_switches"], "epoll", offered)
    assert list(found) == [NO_SUCH]
    assert "cpu" in found[NO_SUCH]
    sets = {"both": ("cs", NO_SUCH), "alone": (NO_SUCH,), "unknown": ("no_such",)}
    kind = counting.Kind("a test", {counting.DEFAULT: (), **sets}, counting.DEFAULT, 1, 0.1)
    costs = counting.compare(kind, "epoll", given("--duration", "50ms"))
    lines = capsys.readouterr().out.splitlines()
    assert f"both: without {NO_SUCH}: {found[NO_SUCH]}" in lines
    assert any(line.startswith("alone ") and line.endswith(found[NO_SUCH]) for line in lines)
    assert any(line.startswith("unknown ") and "no_such" in line for line in lines)
    assert "no trial" not in costs["both"]
    assert costs["alone"] == costs["unknown"] and "no trial" in costs["alone"]


ROUNDS = 20


@pytest.mark.parametrize(
    ("ratios", "facts"),
    [
        ([1.001 + 0.0001 * n for n in range(ROUNDS)], "under (0.2 %, 0.2 to 0.2)"),
        ([0.996 + 0.0005 * n for n in range(ROUNDS)], "under (0.1 %, -0.1 to 0.2)"),
        ([1.10 + 0.001 * n for n in range(ROUNDS)], "over (10.9 %, 10.6 to 11.2)"),
        ([0.96 + 0.005 * n for n in range(ROUNDS)], "not (0.7 %, -0.8 to 2.2)"),
        ([1.0] * ROUNDS, "under (0.0 %, 0.0 to 0.0)"),
        ([1.001] * 3, "not (0.1 %;"),
        ([], "not (no trial)"),
    ],
)
def test_a_cost_has_its_verdict_and_its_interval(ratios: list[float], facts: str) -> None:
    said = counting.cost_in_words(ratios)
    verdict, figures = facts.split(" ", 1)
    assert said.startswith(f"{verdict} ") and figures in said


def test_ratios_are_of_the_same_round() -> None:
    plain = {0: Figures(100.0, 10.0, 1.0), 1: Figures(200.0, None, 1.0)}
    counted = {0: Figures(80.0, 11.0, 1.0), 1: Figures(100.0, 12.0, 1.0), 2: Figures(1.0, 1.0, 1.0)}
    assert counting.by_rate(counted, plain) == [1.25, 2.0]
    assert counting.by_cpu(counted, plain) == [1.1]
