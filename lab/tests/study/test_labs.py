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


def test_without_a_lab_it_is_loopback(tmp_path: Path, catalogue: Catalogue) -> None:
    study = loaded(tmp_path, catalogue)
    assert (study.lab.kind, study.lab.settings, study.lab.network) == ("loopback", {}, "loopback")
    assert not any(note.startswith("lab:") for note in study.notes)


def test_a_lab_has_all_its_settings(tmp_path: Path, catalogue: Catalogue) -> None:
    study = loaded(tmp_path, catalogue, '[lab]\nkind = "veth"\nrate = "10gbit"\ncongestion = "cubic"\n')
    expected = {
        "mtu": 1500, "rate_bits_per_second": 10**10, "delay_microseconds": 0, "loss_per_million": 0,
    }  # fmt: skip
    assert study.lab.settings == expected
    assert "lab: veth, MTU 1500, 10 Gbit/s" in study.notes
    for contender in study.contenders:
        assert contender.lab == study.lab
        assert contender.settings["congestion"] == contender.load.settings["congestion"] == "cubic"


def test_a_side_may_have_a_congestion_control_of_its_own(tmp_path: Path, catalogue: Catalogue) -> None:
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


IMPOSSIBLE = [
    ('[lab]\nkind = "vet"', "study.unknown_lab"),
    ('[lab]\nkind = "veth"\nmtu = 67', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nmtu = "1500"', "study.invalid_value"),
    ('[lab]\nkind = "veth"\nrate = "fast"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nrate = "9000gbit"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nrate = "7kbit"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nspeed = 1', "study.unknown_key"),
    ("[lab]\nmtu = 1500", "study.key_of_other_lab"),
    ('[lab]\nkind = "unix"\nrate = "1gbit"', "study.key_of_other_lab"),
    (f'{OF_UNIX}congestion = "reno"', "study.key_of_other_lab"),
    (f"{OF_UNIX}[server.settings]\nnodelay = false", "study.setting_of_tcp"),
    ('[lab]\ncongestion = "a name too long for it"', "study.invalid_setting"),
    ('[lab]\nkind = "veth"\ndelay = "5ms"', "study.unavailable_lab_key"),
    ('[lab]\nkind = "veth"\nloss = "1%"', "study.unavailable_lab_key"),
    ('[lab]\ncongestion = "cubic"', "study.congestion_control_not_allowed"),
    ('[lab]\ncongestion = "cubik"', "study.unknown_congestion_control"),
]


@pytest.mark.parametrize(("more", "code"), IMPOSSIBLE)
def test_an_impossible_lab_is_refused_at_its_last_line(
    more: str, code: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    (problem,) = refused(tmp_path, catalogue, more)
    last = len((STUDY + more).splitlines())
    assert (problem.code, problem.where) == (code, f"small.toml:{last}")


def test_the_words_of_impossible_labs(
    tmp_path: Path, catalogue: Catalogue, golden: Callable[[str, str], None]
) -> None:
    cases = ((more.replace("\n", " "), refused(tmp_path, catalogue, more)) for more, _ in IMPOSSIBLE)
    golden("study/labs.txt", page(cases))


def test_what_takes_tcp_is_not_run_over_unix_sockets(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY + '[lab]\nkind = "unix"\n')
    (problem,) = problems_of(load_study, str(path), "quick", (), catalogue)
    assert problem.code == "study.needs_tcp"
    assert problem.message.startswith("iterative ") and "it shares a port" in problem.message


def test_whoever_types_a_lab_without_tcp_gets_the_labs_that_have_it(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY)
    for typed in (["unix"], ["kind=unix"]):
        overrides, as_typed = lab_option.as_overrides(lab_option.read(typed)), lab_option.typed_as(typed)
        first, second = problems_of(load_study, str(path), "quick", overrides, catalogue, as_typed)
        assert (first.code, first.where) == ("study.lab_without_tcp", f"--lab {typed[0]}")
        assert "--lab loopback or --lab veth" in first.hint
        assert second.code == "study.needs_tcp" and second.hint.endswith("loopback, veth")


@pytest.mark.parametrize("study", ["cse638-pa02", "css503-p4"])
def test_what_to_type_for_a_bundled_study_that_takes_tcp(study: str, use_engine: Path) -> None:
    as_typed = lab_option.typed_as(["unix"])
    problems = problems_of(load_study, study, "quick", ["lab.kind=unix"], client.catalogue(), as_typed)
    (advice,) = [each.hint for each in problems if each.where == "--lab unix"]
    for kind in re.findall(r"--lab (\w+) or --lab (\w+)", advice)[0]:
        assert load_study(study, "quick", [f"lab.kind={kind}"], client.catalogue()).contenders


def test_what_this_machine_has_not_may_be_left_out(tmp_path: Path, some_catalogue: Catalogue) -> None:
    none = made(some_catalogue, namespace={**PAIR, "available": False, "reason": "no user namespaces"})
    more = """\
[[sweeps]]
name = "lab"
title = "Labs"
key = "lab.kind"
values = ["loopback", "veth"]
contenders = ["prefork"]
"""
    (problem,) = refused(tmp_path, none, more)
    assert problem.code == "study.unavailable_lab" and "no user namespaces" in problem.message
    study = loaded(tmp_path, none, more + "skip_unavailable = true\n")
    assert "no user namespaces" in study.absent["prefork@lab=veth"]
    assert study.contender("prefork@lab=loopback").lab.kind == "loopback"


def test_ports_are_those_of_the_lab(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thunderherd.machine.tcp_sockets.local_ports", lambda: 1000)
    many = ("load.settings.loops=5000",)
    (problem,) = refused(tmp_path, catalogue, "", many)
    assert problem.code == "study.too_few_ports" and "500" in problem.message
    loaded(tmp_path, catalogue, '[lab]\nkind = "veth"\n', many)
    (problem,) = refused(tmp_path, catalogue, '[lab]\nkind = "veth"\n', ("load.settings.loops=10000",))
    assert problem.code == "study.too_few_ports" and "32256" in problem.message
    loaded(tmp_path, catalogue, '[lab]\nkind = "unix"\n', ("load.settings.loops=100000",))
