"""Changes of a study by `--set`, and its refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from made.refusals import page, places
from made.written_study import GOOD, loaded, machine, refused

__all__ = ["machine"]


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("load.settings.loops=77", 77),
        ("load.loops=77", 77),
        ("loops=77", 77),
        (" loops = 77 ", 77),
    ],
)
def test_short_keys(override: str, value: int, tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD, override).load.settings["loops"] == value


def test_overrides_win_over_sizes_and_later_over_earlier(tmp_path: Path) -> None:
    study = loaded(tmp_path, GOOD, "loops=60", "loops=61", "check=count", "looks=[12]", "client_cpus=[1]")
    assert (study.load.settings["loops"], study.load.settings["check"]) == (61, "count")
    assert [look.blocks for look in study.looks] == [12]
    assert study.lab.client_cpus == (1,)
    assert study.overrides == ("loops=60", "loops=61", "check=count", "looks=[12]", "client_cpus=[1]")


def test_setting_of_contenders_is_set_for_each_that_owns_it(tmp_path: Path) -> None:
    study = loaded(tmp_path, GOOD, "pool=30")
    assert [each.settings.get("pool") for each in study.contenders] == [None, 30, 30]


def test_contender_of_an_override(tmp_path: Path) -> None:
    study = loaded(tmp_path, GOOD, "contenders.prefork.settings.pool=30", "modern.backlog=128")
    assert study.contender("prefork").settings["pool"] == 30
    # A control varies its contender, overrides included.
    assert study.contender("modern").settings["pool"] == 30
    assert study.contender("modern").settings["backlog"] == 128
    assert study.contender("prefork").settings["backlog"] == 64


def test_common_setting_reaches_all_but_those_with_their_own(tmp_path: Path) -> None:
    study = loaded(tmp_path, GOOD, "backlog=99")
    assert [each.settings["backlog"] for each in study.contenders] == [99, 99, 4096]


REFUSED = [
    ("loop=3", "set.unknown_key"),
    ("load.setings.loops=3", "set.unknown_key"),
    ("prefork.pol=3", "set.unknown_key"),
    ("contenders.prefork.settings.ring=3", "set.unknown_key"),
    ("sizes.full.looks=[20]", "set.unknown_key"),
    ("nodelay=true", "set.ambiguous_key"),
    ("loops", "set.not_key_value"),
    ("=3", "set.not_key_value"),
    ("loops=", "set.not_key_value"),
    ("loops=[1", "set.invalid_value"),
    ("loops=1\nbytes=2", "set.invalid_value"),
    ("loops=abc", "study.invalid_setting"),
    ("loops=1.5", "study.invalid_setting"),
    ("loops=true", "study.invalid_setting"),
    ("server.nodelay=1", "study.invalid_setting"),
    ("check=patern", "study.invalid_setting"),
    ("server_cpus=0", "study.invalid_value"),
    ("steal=200%", "study.invalid_value"),
    ("limit=100", "study.contradicting_settings"),
    ("baseline=modern", "study.control_as_baseline"),
    ("alpha=0.0001", "study.look_too_early"),
    ("loops=2000", "study.too_few_ports"),
    ("children=101", "study.too_few_ports"),
    ("warm_up_connections=9999", "study.too_few_ports"),
]


@pytest.mark.parametrize(("override", "code"), REFUSED)
def test_overrides_that_are_refused(override: str, code: str, tmp_path: Path) -> None:
    problems = refused(tmp_path, GOOD, override)
    assert problems[0].where == f"--set {override}" in places(problems, code)


def test_golden_page_of_refused_overrides(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    golden("study/overrides.txt", page((each, refused(tmp_path, GOOD, each)) for each, _ in REFUSED))


def test_override_may_replace_an_unavailable_cpu(tmp_path: Path) -> None:
    text = GOOD.replace("server_cpus = [0]", "server_cpus = [3]")
    assert places(refused(tmp_path, text), "study.unavailable_cpu")
    assert loaded(tmp_path, text, "server_cpus=[1]").lab.server_cpus == (1,)
    for typed in ("0-1", "0,1", '"0-1"', "[0, 1]"):
        assert loaded(tmp_path, text, f"server_cpus={typed}").lab.server_cpus == (0, 1)


@pytest.mark.parametrize(
    ("lab", "usable", "server", "client"),
    [
        ('placement = "apart"', {0, 1}, (0,), (1,)),
        ('placement = "apart"', {4, 5, 9}, (4,), (5, 9)),
        ('placement = "apart"', {3}, None, None),
        ('placement = "apart"\nclient_cpus = [0]', {0, 1}, (1,), (0,)),
        ('placement = "apart"\nserver_cpus = [1]', {0, 1}, (1,), (0,)),
        ('placement = "free"', {0, 1}, None, None),
    ],
)
def test_apart_gives_the_first_cpu_to_the_server_and_the_rest_to_clients(
    lab: str,
    usable: set[int],
    server: tuple[int, ...] | None,
    client: tuple[int, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = GOOD.replace("server_cpus = [0]", lab)
    assert text != GOOD
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: usable)
    study = loaded(tmp_path, text)
    assert (study.lab.server_cpus, study.lab.client_cpus) == (server, client)
    shared = any("share it" in note for note in study.notes)
    assert shared == (len(usable) == 1)


def test_an_unknown_placement_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("server_cpus = [0]", 'placement = "appart"')
    (problem,) = refused(tmp_path, text)
    assert problem.code == "study.value_not_allowed" and "'apart'" in problem.hint
