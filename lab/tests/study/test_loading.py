"""A study is resolved with a value for every setting, and so is each bundled study."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from made.refusals import refused
from made.written_study import CATALOGUE, GOOD, loaded, machine, written
from pydantic import ValidationError

from thunderherd.engine import client
from thunderherd.statistics.comparisons import Look, compare_at_looks, planned_looks
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import Study, load_study
from thunderherd.study.resolver import Resolver

__all__ = ["machine"]

NOTE = "1.80, no lock: is odd"
"""The finding in the list of inconsistencies."""


def test_everything_is_resolved(tmp_path: Path) -> None:
    study = loaded(tmp_path)
    iterative, prefork, modern = study.contenders
    assert iterative.settings == {
        "backlog": 64,
        "nodelay": False,
        "drain": 2_000_000_000,
        "limit": 16384,
        "compute": 0,
    }
    assert prefork.settings == {**iterative.settings, "pool": 7, "respawn": False}
    assert modern.settings == {**prefork.settings, "nodelay": True, "backlog": 4096}
    assert (modern.design, modern.row, modern.control_of) == ("prefork", None, "prefork")
    assert [(each.base, each.metric, each.value, each.note) for each in study.paper] == [
        ("iterative", "process_control_seconds", 0.0, None),
        ("prefork", "process_control_seconds", 1.8, NOTE),
    ]
    assert iterative.label and f'label = "{iterative.label}"' in GOOD
    assert {each.primitive for each in study.contenders} == {"send_each"}
    assert [(pair.a, pair.b) for pair in study.comparisons] == [
        ("iterative", "prefork"),
        ("modern", "prefork"),
    ]
    assert study.load.settings == {
        "children": 5,
        "loops": 50,
        "bytes": 4000,
        "check": "pattern",
        "nodelay": True,
        "think": 0,
        "timeout": 10_000_000_000,
    }
    assert study.load.requests_per_trial == 2 * 5 * 50
    assert (study.lab.server_cpus, study.lab.client_cpus) == ((0,), None)
    assert (study.noise.steal_percent, study.noise.others_percent) == (4, 15)
    assert study.notes_about("claim H1") == NOTE
    assert study.notes[0].startswith("500 connections") and "5000" in study.notes[0]


def test_sizes_have_their_looks_and_keys(tmp_path: Path) -> None:
    quick, full = loaded(tmp_path), loaded(tmp_path, size="full")
    assert [(look.blocks, look.alpha) for look in quick.looks] == [(10, 0.05)]
    assert [look.blocks for look in full.looks] == [10, 20]
    assert [look.alpha for look in full.looks] == pytest.approx([0.02, 0.03])
    assert full.load.settings["loops"] == 100


def test_resolved_studies_do_not_change(tmp_path: Path) -> None:
    study = loaded(tmp_path)
    with pytest.raises(ValidationError):
        study.measure.alpha = 0.5  # type: ignore[misc]


def test_digest_depends_on_the_resolved_study_not_its_path(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    here, there = loaded(tmp_path), loaded(tmp_path / "elsewhere", f"# moved\n{GOOD}")
    assert here.digest == there.digest
    assert re.fullmatch(r"[0-9a-f]{64}", here.digest)
    assert here.digest == loaded(tmp_path, GOOD, "prefork.pool=7").digest
    others = [
        loaded(tmp_path, GOOD, "pool=8"),
        loaded(tmp_path, size="full"),
        loaded(tmp_path, GOOD, "loops=51"),
    ]
    assert len({here.digest, *(study.digest for study in others)}) == 4


def test_pairs_may_be_named(tmp_path: Path) -> None:
    named = 'all_pairs = false\npairs = [["prefork", "iterative"]]'
    study = loaded(tmp_path, GOOD.replace("all_pairs = true", named))
    assert [(pair.a, pair.b) for pair in study.comparisons] == [
        ("prefork", "iterative"),
        ("modern", "prefork"),
    ]


def test_a_pair_that_is_declared_twice_is_compared_once(tmp_path: Path) -> None:
    """Whichever of the two is named first: Holm counts it once, and no look trips over it."""
    pairs = '[["prefork", "iterative"], ["iterative", "prefork"], ["prefork", "modern"]]'
    named = f"all_pairs = true\npairs = {pairs}"
    study = loaded(tmp_path, GOOD.replace("all_pairs = true", named))
    family = [(pair.a, pair.b) for pair in study.comparisons]
    assert family == [("prefork", "iterative"), ("prefork", "modern")]
    costs = {each.name: [1.0, 2.0, 3.0] for each in study.contenders}
    assert len(compare_at_looks(costs, family, [Look(2, 0.05)])) == 2


def test_looks_are_those_of_the_rule_that_was_simulated(tmp_path: Path) -> None:
    looks = loaded(tmp_path, size="full").looks
    blocks = [look.blocks for look in looks]
    assert [(look.blocks, look.alpha) for look in looks] == list(planned_looks(blocks, 0.05, [0.4, 0.6]))


def test_number_of_requests_follows_the_catalogue(tmp_path: Path) -> None:
    (closed,) = CATALOGUE.loads
    half = CATALOGUE.model_copy(update={"loads": (closed.model_copy(update={"requests": ("loops",)}),)})
    study = load_study(str(written(tmp_path, GOOD)), "quick", [], half)
    assert study.load.requests_per_trial == 2 * 50
    none = CATALOGUE.model_copy(update={"loads": (closed.model_copy(update={"requests": ()}),)})
    problems = refused(load_study, str(written(tmp_path, GOOD)), "quick", [], none)
    assert {problem.code for problem in problems} == {"study.load_without_end"}


def test_unknown_study_has_a_near_match() -> None:
    (problem,) = refused(load_study, "unp-ch3", "quick", [], CATALOGUE)
    assert problem.code == "study.unknown_study" and "'unp-ch30'" in problem.hint


@pytest.mark.parametrize("name", bundled_studies())
def test_all_sizes_of_a_bundled_study_are_right(name: str, use_engine: Path, tmp_path: Path) -> None:
    """As a file of the user's, of which every size is checked."""
    file = bundled_studies()[name]
    shutil.copytree(file.parent, tmp_path / "copy")
    copy = load_study(str(tmp_path / "copy" / file.name), "quick", [], client.catalogue())
    assert copy.digest == load_study(name, "quick", [], client.catalogue()).digest


def test_a_bundled_study_is_resolved_in_one_size_and_a_users_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved: list[str] = []

    class Told(Resolver):
        def study(self, *, on_this_machine: bool) -> Study | None:
            resolved.append(self.size)
            return super().study(on_this_machine=on_this_machine)

    monkeypatch.setattr("thunderherd.study.loading.Resolver", Told)
    loaded(tmp_path)
    assert resolved == ["quick", "full"]
    resolved.clear()
    load_study("self-test", "full", [], CATALOGUE)
    assert resolved == ["full"]


@pytest.mark.parametrize("name", bundled_studies())
@pytest.mark.parametrize("size", ["quick", "full"])
def test_bundled_studies_load(name: str, size: str, use_engine: Path) -> None:
    study = load_study(name, size, [], client.catalogue())
    assert study.name == name
