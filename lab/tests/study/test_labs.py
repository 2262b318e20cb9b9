"""The lab of a study: what makes it impossible is said with file and line; what it becomes is complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from made.small_studies import SMALL_STUDY

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study import lab_option
from thunderherd.study.loading import Study, load_study

NODELAY = {"name": "nodelay", "help": "", "kind": "boolean", "default": True}
CONGESTION = {"name": "congestion", "help": "", "kind": "text", "longest": 15, "default": "default"}
NETEM = "this kernel has no netem"


def whole(name: str, minimum: int, maximum: int, default: int) -> dict[str, Any]:
    return {
        "name": name, "help": "", "kind": "integer",
        "minimum": minimum, "maximum": maximum, "default": default,
    }  # fmt: skip


PAIR = {
    "settings": [
        whole("mtu", 68, 65_535, 1500),
        whole("rate_bits_per_second", 0, 10**12, 0),
        whole("delay_microseconds", 0, 10**7, 0),
        whole("loss_per_million", 0, 10**6, 0),
    ],
    "local_ports": [1024, 65_535],
    "available": True,
    "unavailable_settings": {"delay_microseconds": NETEM, "loss_per_million": NETEM},
}


def made(some_catalogue: Catalogue, **changes: Any) -> Catalogue:
    """What an engine may offer that knows labs."""
    known = some_catalogue.model_dump(mode="json", by_alias=True)
    of_tcp = [NODELAY, CONGESTION]
    for key in ("server_settings", "load_settings"):
        known[key] = [*(each for each in known[key] if each["name"] != "nodelay"), *of_tcp]
    known["designs"][0]["tcp_only"] = "it shares a port"
    offered = {
        "tcp_settings": ["nodelay", "congestion"],
        "congestion_controls": {
            "default": "bbr",
            "available": ["reno", "bbr", "cubic"],
            "allowed": ["reno", "bbr"],
        },
        "namespace": PAIR,
    }
    return Catalogue.model_validate({**known, **offered, **changes})


@pytest.fixture
def catalogue(some_catalogue: Catalogue) -> Catalogue:
    return made(some_catalogue)


STUDY = SMALL_STUDY.replace('design = "iterative"', 'design = "prethread"')
"""Its first contender is of a design that does without TCP."""

OF_UNIX = '[lab]\nkind = "unix"\n'


def loaded(folder: Path, catalogue: Catalogue, more: str = "", overrides: tuple[str, ...] = ()) -> Study:
    path = folder / "small.toml"
    path.write_text(STUDY + more)
    return load_study(str(path), "quick", overrides, catalogue)


def complaint(folder: Path, catalogue: Catalogue, more: str = "", overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(UserError) as refused:
        loaded(folder, catalogue, more, overrides)
    return str(refused.value)


def test_without_a_word_it_is_loopback(tmp_path: Path, catalogue: Catalogue) -> None:
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


def test_whoever_changes_the_kind_is_not_told_of_the_others_keys(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    more = '[lab]\nkind = "veth"\nmtu = 9000\ncongestion = "cubic"\n'
    for kind in ("loopback", "unix"):
        overrides = (f"lab.kind={kind}", *(["lab.congestion=reno"] if kind == "loopback" else []))
        assert loaded(tmp_path, catalogue, more, overrides).lab.settings == {}
    said = complaint(tmp_path, catalogue, more, ("lab.kind=loopback", "lab.mtu=1500"))
    assert "--set lab.mtu=1500" in said
    assert 'lab "loopback" has no mtu' in said


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


def test_a_key_that_is_overridden_is_for_what_has_no_kind_or_value_of_its_own(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    study = loaded(tmp_path, catalogue, THROUGH_LABS, ("lab.mtu=9000", "lab.congestion=reno"))
    networks = {each.name: each.lab.network for each in study.contenders}
    assert networks["prefork"] == "veth, MTU 9000"
    assert networks["prefork@loopback=5"] == "loopback"
    assert networks["prefork@large=5"] == "veth, MTU 65535"
    assert {each.settings["congestion"] for each in study.contenders} == {"reno"}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("loopback", r'nothing that size quick runs has it, which is a key of lab "veth"$'),
        ("large", r"everything .* value of its own: sweep large sets it .*sweeps\.large\.lab\.mtu=9000"),
    ],
)
def test_a_key_that_nothing_takes_is_refused_as_it_was_typed(
    part: str, said: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(STUDY + THROUGH_LABS)
    typed = ["mtu=9000"]
    overrides = (*lab_option.as_overrides(lab_option.read(typed)), f"sizes.quick.parts=['{part}']")
    with pytest.raises(UserError, match=f"^--lab mtu=9000: .*{said}"):
        load_study(str(path), "quick", overrides, catalogue, lab_option.typed_as(typed))


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


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[lab]\nkind = "vet"', ('no such lab "vet"', "loopback, veth, unix", "did you mean 'veth'?")),
        ('[lab]\nkind = "veth"\nmtu = 67', ("mtu = 67", "68 to 65535")),
        ('[lab]\nkind = "veth"\nmtu = "1500"', ("lab.mtu", "must be a whole number")),
        ('[lab]\nkind = "veth"\nrate = "fast"', ('rate = "fast"', '"10gbit"')),
        ('[lab]\nkind = "veth"\nrate = "9000gbit"', ('rate = "9000gbit"', "0 to 1000000000000")),
        ('[lab]\nkind = "veth"\nspeed = 1', ("no such key 'lab.speed'", "rate")),
        ("[lab]\nmtu = 1500", ('lab "loopback" has no mtu, which is a key of "veth"', "it takes congestion")),
        ('[lab]\nkind = "unix"\nrate = "1gbit"', ('lab "unix" has no rate', "none of these keys")),
        (f'{OF_UNIX}congestion = "reno"', ('lab "unix" has no congestion', 'of "loopback" and "veth"')),
        (f"{OF_UNIX}[server.settings]\nnodelay = false", ("nodelay is a setting of TCP", "leave nodelay")),
        ('[lab]\ncongestion = "a name too long for it"', ("congestion =", "1 to 15")),
        ('[lab]\nkind = "veth"\ndelay = "5ms"', ('delay = "5ms"', NETEM)),
        ('[lab]\nkind = "veth"\nloss = "1%"', ('loss = "1%"', NETEM)),
        ('[lab]\ncongestion = "cubic"', ('congestion = "cubic"', "allow reno, bbr", 'lab "veth" has')),
        ('[lab]\ncongestion = "cubik"', ('no such congestion control "cubik"', "reno, bbr")),
    ],
)  # fmt: skip
def test_an_impossible_lab_is_refused(
    more: str, words: tuple[str, ...], tmp_path: Path, catalogue: Catalogue
) -> None:
    said = complaint(tmp_path, catalogue, more)
    assert re.match(rf"{re.escape(str(tmp_path))}/small.toml:\d+: ", said), said
    assert len(said.splitlines()) == 1, said
    for word in words:
        assert word in said


def test_what_takes_tcp_is_not_run_over_unix_sockets(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY + '[lab]\nkind = "unix"\n')
    with pytest.raises(UserError, match=r"iterative runs over TCP alone \(it shares a port\)"):
        load_study(str(path), "quick", (), catalogue)


def test_whoever_types_a_lab_without_tcp_is_told_which_have_it(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY)
    for typed in (["unix"], ["kind=unix"]):
        overrides = lab_option.as_overrides(lab_option.read(typed))
        with pytest.raises(UserError) as caught:
            load_study(str(path), "quick", overrides, catalogue, lab_option.typed_as(typed))
        first, second = str(caught.value).splitlines()
        assert first.startswith(f'--lab {typed[0]}: lab "unix" has no TCP, and this study asks for it')
        assert "type --lab loopback or --lab veth" in first
        assert "iterative runs over TCP alone" in second and second.endswith("labs that have: loopback, veth")


@pytest.mark.parametrize("study", ["cse638-pa02", "css503-p4"])
def test_what_to_type_for_a_bundled_study_that_takes_tcp(study: str, use_engine: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_study(study, "quick", ["lab.kind=unix"], client.catalogue(), lab_option.typed_as(["unix"]))
    (advice,) = [line for line in str(caught.value).splitlines() if line.startswith("--lab unix: ")]
    for kind in re.findall(r"type --lab (\w+) or --lab (\w+)", advice)[0]:
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
    assert 'lab "veth" cannot be had here: no user namespaces' in complaint(tmp_path, none, more)
    study = loaded(tmp_path, none, more + "skip_unavailable = true\n")
    assert "no user namespaces" in study.absent["prefork@lab=veth"]
    assert study.contender("prefork@lab=loopback").lab.kind == "loopback"


def test_ports_are_those_of_the_lab(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thunderherd.machine.noise.local_ports", lambda: 1000)
    many = ("load.settings.loops=5000",)
    assert "allowed: 500, half of the local ports" in complaint(tmp_path, catalogue, "", many)
    loaded(tmp_path, catalogue, '[lab]\nkind = "veth"\n', many)
    said = complaint(tmp_path, catalogue, '[lab]\nkind = "veth"\n', ("load.settings.loops=10000",))
    assert "allowed: 32256, half of the local ports" in said
    loaded(tmp_path, catalogue, '[lab]\nkind = "unix"\n', ("load.settings.loops=100000",))
