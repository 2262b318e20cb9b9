"""The lab of a study: its settings, its sweeps, and its keys on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import places
from made.refusals import refused as problems_of
from made.study_labs import STUDY, catalogue, loaded, refused

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.study import lab_option
from thunderherd.study.checks.unused_overrides import NO_EFFECT
from thunderherd.study.loading import load_study

__all__ = ["catalogue"]


def test_default_lab_is_loopback(tmp_path: Path, catalogue: Catalogue) -> None:
    study = loaded(tmp_path, catalogue)
    assert (study.lab.kind, study.lab.settings, study.lab.network) == ("loopback", {}, "loopback")
    assert not any(note.startswith("lab:") for note in study.notes)


def test_a_lab_has_all_its_settings(tmp_path: Path, catalogue: Catalogue) -> None:
    study = loaded(tmp_path, catalogue, '[lab]\nkind = "veth"\nrate = "10gbit"\ncongestion = "cubic"\n')
    expected = {
        "mtu": 1500, "rate": 10**10, "delay": 0, "loss": 0,
    }  # fmt: skip
    assert study.lab.settings == expected
    assert "lab: veth, MTU 1500, 10 Gbit/s" in study.notes
    for contender in study.contenders:
        assert contender.lab == study.lab
        assert contender.settings["congestion"] == contender.load.settings["congestion"] == "cubic"


def test_side_may_have_its_own_congestion_control(tmp_path: Path, catalogue: Catalogue) -> None:
    more = '[lab]\ncongestion = "reno"\n[server.settings]\ncongestion = "bbr"\n'
    [contender, *_] = loaded(tmp_path, catalogue, more).contenders
    assert (contender.settings["congestion"], contender.load.settings["congestion"]) == ("bbr", "reno")


def test_a_sweep_takes_its_contenders_through_labs(tmp_path: Path, catalogue: Catalogue) -> None:
    more = """\
[lab]
kind = "veth"
mtu = 9000
[[sweeps]]
name = "mtu"
title = "MTU"
key = "lab.mtu"
values = [1500, 65535]
contenders = ["prefork"]
[[sweeps]]
name = "lab"
title = "Labs"
key = "lab.kind"
values = ["loopback", "unix", "veth"]
contenders = ["prefork"]
"""
    study = loaded(tmp_path, catalogue, more)
    networks = {each.name: each.lab.network for each in study.contenders if each.sweep}
    assert networks == {
        "prefork@mtu=1500": "veth, MTU 1500",
        "prefork@mtu=65535": "veth, MTU 65535",
        "prefork@lab=loopback": "loopback",
        "prefork@lab=unix": "unix",
        "prefork@lab=veth": "veth, MTU 9000",
    }
    over_unix = study.contender("prefork@lab=unix")
    assert not {"nodelay", "congestion"} & {*over_unix.settings, *over_unix.load.settings}
    assert "nodelay" in study.contender("prefork").settings


def test_a_changed_kind_drops_the_keys_of_the_other(tmp_path: Path, catalogue: Catalogue) -> None:
    more = '[lab]\nkind = "veth"\nmtu = 9000\ncongestion = "cubic"\n'
    for kind in ("loopback", "unix"):
        overrides = (f"lab.kind={kind}", *(["lab.congestion=reno"] if kind == "loopback" else []))
        assert loaded(tmp_path, catalogue, more, overrides).lab.settings == {}
    problems = refused(tmp_path, catalogue, more, ("lab.kind=loopback", "lab.mtu=1500"))
    assert places(problems, "study.key_of_other_lab") == ["--set lab.mtu=1500"]


THROUGH_LABS = """\
[lab]
kind = "veth"
[[sweeps]]
name = "loopback"
title = "Loopback"
key = "settings.pool"
values = [5, 10]
set = { "lab.kind" = "loopback" }
contenders = ["prefork"]
[[sweeps]]
name = "large"
title = "Large packets"
key = "settings.pool"
values = [5, 10]
set = { "lab.kind" = "veth", "lab.mtu" = 65535 }
contenders = ["prefork"]
"""


def test_an_overridden_key_does_not_replace_a_sweeps_own_kind_or_value(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    study = loaded(tmp_path, catalogue, THROUGH_LABS, ("lab.mtu=9000", "lab.congestion=reno"))
    networks = {each.name: each.lab.network for each in study.contenders}
    assert networks["prefork"] == "veth, MTU 9000"
    assert networks["prefork@loopback=5"] == "loopback"
    assert networks["prefork@large=5"] == "veth, MTU 65535"
    assert {each.settings["congestion"] for each in study.contenders} == {"reno"}


@pytest.mark.parametrize(
    ("part", "instead"),
    [("loopback", '"veth"'), ("large", "--set 'sweeps.large.lab.mtu=9000'")],
)
def test_a_key_without_effect_is_refused_as_it_was_typed(
    part: str, instead: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(STUDY + THROUGH_LABS)
    typed = ["mtu=9000"]
    overrides = (*lab_option.as_overrides(lab_option.read(typed)), f"sizes.quick.parts=['{part}']")
    as_typed = lab_option.typed_as(typed)
    (problem,) = problems_of(load_study, str(path), "quick", overrides, catalogue, as_typed)
    assert (problem.code, problem.where) == (NO_EFFECT, "--lab mtu=9000")
    assert instead in problem.hint


@pytest.mark.parametrize(
    ("study", "size", "typed", "network"),
    [
        ("cse638-pa02", "quick", ["mtu=9000"], "veth, MTU 9000"),
        ("cse638-pa02", "matrix", ["veth", "mtu=9000"], "veth, MTU 9000"),
        ("cse638-pa02", "full", ["mtu=9000"], "veth, MTU 9000"),
        ("css503-p4", "quick", ["rate=1gbit"], "veth, MTU 1500, 1 Gbit/s"),
        ("css503-p4", "full", ["rate=1gbit"], "veth, MTU 1500, 1 Gbit/s"),
    ],
)
def test_the_lab_of_a_bundled_study_can_be_typed(
    study: str, size: str, typed: list[str], network: str, use_engine: Path
) -> None:
    """Those of its sweeps that have another kind, or the key itself, keep their own."""
    told = lab_option.as_overrides(lab_option.read(typed))
    before = {
        each.name: each.lab.network for each in load_study(study, size, (), client.catalogue()).contenders
    }
    found = load_study(study, size, told, client.catalogue(), lab_option.typed_as(typed))
    usual = before[next(name for name in before if "@sizes_8=" in name or "@buffers=" in name)]
    assert usual != network
    for each in found.contenders:
        own = before[each.name]
        assert each.lab.network == (network if own == usual else own), each.name
    if study == "cse638-pa02":
        assert all("MTU of 1500" not in sweep.title for sweep in found.sweeps)
