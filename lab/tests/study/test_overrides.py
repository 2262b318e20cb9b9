"""What `--set` changes in a study, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("loop=3", "no such key 'loop'; did you mean 'loops'?"),
        ("load.setings.loops=3", "did you mean 'load.settings.loops'?"),
        ("prefork.pol=3", "did you mean 'prefork.pool'?"),
        ("contenders.prefork.settings.ring=3", "known in contenders.prefork.settings: backlog"),
        ("sizes.full.looks=[20]", "did you mean 'sizes.quick.looks'?"),
        ("nodelay=true", "could be server.settings.nodelay or load.settings.nodelay"),
        ("loops", "key=value"),
        ("=3", "key=value"),
        ("loops=", "key=value"),
        ("loops=[1", "is no TOML value"),
        ("loops=1\nbytes=2", "is no TOML value"),
        ("loops=abc", 'loops = "abc"; allowed: a whole number from 1'),
        ("loops=1.5", "loops = 1.5; allowed"),
        ("loops=true", "loops = true; allowed"),
        ("server.nodelay=1", "nodelay = 1; allowed: true or false"),
        ("check=patern", 'check = "patern"; allowed: "pattern", "count"'),
        ("server_cpus=0", "lab.server_cpus = 0: it must be a list"),
        ("steal_percent=200", "steal_percent = 200: it must be at most 100"),
        ("limit=100", "the load has bytes = 4000, the server limit = 100, which is less"),
        ("baseline=modern", "is a control"),
        ("alpha=0.0001", "need at least 16 blocks"),
        ("loops=2000", "0 warm-up and 20000 measured connections to one port; allowed: 10000"),
        ("children=101", "allowed: 10000"),
        ("warm_up_connections=9999", "9999 warm-up"),
        (
            "server.primitive=test_splice",
            "prefork with primitive test_splice and workload bytes does not exist",
        ),
    ],
)
def test_overrides_that_are_refused(override: str, complaint: str, tmp_path: Path) -> None:
    lines = refused(tmp_path, GOOD, override)
    assert any(complaint in line for line in lines), lines
    if "primitive" not in override:
        assert all(line.startswith(f"--set {override.splitlines()[0]}") for line in lines[:1])


def test_override_may_mend_what_this_machine_lacks(tmp_path: Path) -> None:
    text = GOOD.replace("server_cpus = [0]", "server_cpus = [3]")
    assert "sched_getaffinity" in refused(tmp_path, text)[0]
    assert loaded(tmp_path, text, "server_cpus=[1]").lab.server_cpus == (1,)


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
def test_apart_means_the_first_cpu_for_the_server_and_the_others_for_the_clients(
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
    assert "did you mean 'apart'" in refused(tmp_path, text)[0]
