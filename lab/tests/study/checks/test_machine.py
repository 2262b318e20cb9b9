"""Contenders that this machine cannot run are refused, or left out if the study says so."""

from __future__ import annotations

from pathlib import Path
from pwd import getpwnam

import pytest
from made import study_labs
from made.refusals import refused as problems_of
from made.study_labs import PAIR, catalogue, with_labs
from made.summaries.swept import CATALOGUE, PAPER, STUDY, loaded, refused
from made.written_study import machine

from thunderherd.engine.catalogue import Catalogue
from thunderherd.study.loading import load_study

__all__ = ["catalogue", "machine"]


def test_a_cpu_that_this_machine_lacks_is_refused_or_left_out(tmp_path: Path) -> None:
    cpus = STUDY.replace("settings.pool", "lab.server_cpus").replace("[5, 10, 30]", "[[0], [0, 3]]")
    cpus = cpus[: cpus.index("[[sweeps.paper]]")]
    (problem,) = refused(tmp_path, cpus)
    assert (problem.code, problem.hint) == ("study.unavailable_cpu", "allowed: 0, 1")
    assert "CPU 3" in problem.message
    study = loaded(tmp_path, cpus + "skip_unavailable = true\n")
    assert [each.name for each in study.contenders if each.sweep] == [
        "prefork@pool_size=0",
        "control@pool_size=0",
    ]
    assert (
        set(study.sweeps[0].absent) == set(study.absent) == {"prefork@pool_size=0+3", "control@pool_size=0+3"}
    )
    assert any("prefork@pool_size=0+3, control@pool_size=0+3" in note for note in study.notes)
    assert len(study.comparisons) == 4 + 1


def test_only_root_may_choose_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some_catalogue: Catalogue
) -> None:
    text = f'{STUDY}[lab]\nuser = "nobody"\n'
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert {each.code for each in refused(tmp_path, text)} == {"study.user_without_root"}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert {each.lab.user for each in loaded(tmp_path, text).contenders} == {"nobody"}


@pytest.mark.parametrize("user", ["no-such-user", "4294967294"])
def test_a_user_that_does_not_exist_is_refused(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    problems = refused(tmp_path, f'{STUDY}[lab]\nuser = "{user}"\n')
    assert {each.code for each in problems} == {"study.unknown_user"}
    assert user in problems[0].message and "/etc/passwd" in problems[0].hint


def test_a_user_may_be_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    text = f'{STUDY}[lab]\nuser = "{getpwnam("nobody").pw_uid}"\n'
    assert {each.lab.user for each in loaded(tmp_path, text).contenders} == {str(getpwnam("nobody").pw_uid)}


def test_an_unavailable_design_is_refused(tmp_path: Path) -> None:
    lacking = [
        each.model_copy(update={"available": False, "reason": "forbidden"})
        if each.name == "prefork"
        else each
        for each in CATALOGUE.designs
    ]
    catalogue = CATALOGUE.model_copy(update={"designs": tuple(lacking)})
    (tmp_path / "paper.csv").write_text(PAPER)
    path = tmp_path / "swept.toml"
    path.write_text(STUDY)
    problems = problems_of(load_study, str(path), "quick", [], catalogue)
    assert {problem.code for problem in problems} == {"study.unavailable_design"}
    assert all("swept.toml:" in each.where and "forbidden" in each.message for each in problems)


# Overrides --------------------------------------------------------------------------------------------------


def test_an_unavailable_lab_is_refused_or_left_out(tmp_path: Path, some_catalogue: Catalogue) -> None:
    none = with_labs(some_catalogue, namespace={**PAIR, "available": False, "reason": "no user namespaces"})
    more = """\
[[sweeps]]
name = "lab"
title = "Labs"
key = "lab.kind"
values = ["loopback", "veth"]
contenders = ["prefork"]
"""
    (problem,) = study_labs.refused(tmp_path, none, more)
    assert problem.code == "study.unavailable_lab" and "no user namespaces" in problem.message
    study = study_labs.loaded(tmp_path, none, more + "skip_unavailable = true\n")
    assert "no user namespaces" in study.absent["prefork@lab=veth"]
    assert study.contender("prefork@lab=loopback").lab.kind == "loopback"


def test_each_lab_has_its_own_number_of_ports(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thunderherd.machine.tcp_sockets.local_ports", lambda: 1000)
    many = ("load.settings.loops=5000",)
    (problem,) = study_labs.refused(tmp_path, catalogue, "", many)
    assert problem.code == "study.too_few_ports" and "500" in problem.message
    study_labs.loaded(tmp_path, catalogue, '[lab]\nkind = "veth"\n', many)
    (problem,) = study_labs.refused(
        tmp_path, catalogue, '[lab]\nkind = "veth"\n', ("load.settings.loops=10000",)
    )
    assert problem.code == "study.too_few_ports" and "32256" in problem.message
    study_labs.loaded(tmp_path, catalogue, '[lab]\nkind = "unix"\n', ("load.settings.loops=100000",))
