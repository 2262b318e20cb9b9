"""Loads that are not ours: what a study may say of them, and what they become."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from made.refusals import places, refused

from thunderherd.engine import client
from thunderherd.study.loading import Study, load_study

OWN = f"""
name = "own"
[server]
workload = "http"
[load]
kind = "closed_connections"
settings = {{ clients = 8, connections = "kept", duration = "2s" }}
[[contenders]]
name = "ours"
design = "epoll"
[[contenders]]
name = "own"
design = "epoll"
[contenders.load]
command = ["{sys.executable}", "client.py", "{{clients}}"]
parser = "json"
"""
COMMAND, PARSER = 15, 16
"""Lines of the study."""

pytestmark = pytest.mark.usefixtures("use_engine")


def loaded(directory: Path, text: str = OWN, *overrides: str) -> Study:
    path = directory / "own.toml"
    path.write_text(text)
    return load_study(str(path), "quick", overrides, client.catalogue())


def test_a_contender_has_a_load_of_its_own(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    ours, own = found.contender("ours").load, found.contender("own").load
    assert ours.generator is None and ours.has_window
    assert own.generator is not None and own.generator.command[-1] == "{clients}" and own.parser == "json"
    assert own.generator.directory == tmp_path and not own.has_window
    assert own.requests_per_trial is None and own.clients == 8


def test_the_load_of_a_study_is_that_of_every_contender(tmp_path: Path) -> None:
    head, load, contenders = OWN.partition("[load]\n")
    before, _, keys = contenders.partition("[contenders.load]\n")
    text = head + load + keys + before.replace('"own"\ndesign = "epoll"', '"own"\ndesign = "prefork"')
    found = loaded(tmp_path, text)
    assert all(each.load.generator is not None for each in found.contenders)


@pytest.mark.parametrize(
    ("line", "instead", "code", "place"),
    [
        (PARSER, "", "study.unknown_parser", COMMAND),
        (PARSER, 'parser = "wkr"', "study.unknown_parser", PARSER),
        (COMMAND, "", "study.no_command", PARSER),
        (COMMAND, "command = []", "study.empty_command", COMMAND),
        (COMMAND, 'command = [" "]', "study.empty_command", COMMAND),
        (COMMAND, 'command = ["no-such-program"]', "study.no_program", COMMAND),
        (PARSER, 'parser = "json"\ndirectory = "nowhere"', "study.no_directory", PARSER + 1),
        (PARSER, 'parser = "json"\n[contenders.lab]\nkind = "unix"', "study.needs_tcp", COMMAND),
    ],
)
def test_a_mistake_is_refused_in_its_line(
    line: int, instead: str, code: str, place: int, tmp_path: Path
) -> None:
    lines = OWN.splitlines()
    lines[line - 1] = instead
    problems = refused(loaded, tmp_path, "\n".join(lines))
    assert places(problems, code) == [f"{tmp_path}/own.toml:{place}"]


NOTHING = """
name = "own"
[server]
workload = "http"
[load]
kind = "closed_connections"
settings = { clients = 8, connections = "kept", duration = "2s" }
command = ["no-such-load"]
parser = "json"
install = "install the load"
[[contenders]]
name = "ours"
design = "epoll"
[[contenders]]
name = "own"
command = ["no-such-server"]
install = "install the server"
"""


def test_if_nothing_can_run_the_hint_has_what_each_contender_needs(tmp_path: Path) -> None:
    (problem,) = refused(loaded, tmp_path, NOTHING)
    assert problem.code == "study.nothing_to_run"
    assert problem.hint == "install the load; for own: install the server"


def test_a_whole_life_needs_our_clients(tmp_path: Path) -> None:
    text = OWN.replace('name = "own"\ndesign', 'name = "own"\ntrial = "whole_life"\ndesign')
    assert places(refused(loaded, tmp_path, text), "study.whole_life_of_foreign")


def test_a_load_that_is_missing_is_left_out_if_the_study_says_how_to_get_it(tmp_path: Path) -> None:
    text = OWN.replace(sys.executable, "no-such-program") + 'install = "install the package such"\n'
    text += '[[contenders]]\nname = "third"\ndesign = "prefork"\n'
    found = loaded(tmp_path, text)
    assert [each.name for each in found.contenders] == ["ours", "third"]
    assert "install the package such" in found.absent["own"]


RATED = OWN.replace('kind = "closed_connections"', 'kind = "open"')
RATED = RATED.replace(
    'duration = "2s"', 'duration = "1500ms", rate = 500, host = "example", header = "A:{rate}"'
)


def test_a_command_has_placeholders_for_the_settings_of_its_load(tmp_path: Path) -> None:
    values = loaded(tmp_path, RATED).contender("own").load.placeholders
    wanted = {
        "{clients}": "8",
        "{duration}": "1.5",
        "{rate}": "500",
        "{connections}": "kept",
        "{timeout}": "10",
    }
    assert {name: values[name] for name in wanted} == wanted
    assert values["{header}"] == "A:{rate}", "a value is no template"
    assert not {"{host}", "{port}", "{workload}"} & {*values}, "these are not settings"


def notes(study: Study) -> list[str]:
    return [note for note in study.notes if "[study.setting_not_taken]" in note]


def test_a_common_setting_without_a_place_in_the_command_is_noted_in_one_line(tmp_path: Path) -> None:
    second = OWN.partition('[[contenders]]\nname = "own"')[2].replace("client.py", "{rate}")
    text = f'{RATED}[[contenders]]\nname = "second"{second}[lab]\ncongestion = "reno"\n'
    found = notes(loaded(tmp_path, text))
    assert [note.partition(" takes no ")[0].split()[-1] for note in found] == ["own", "second"]
    named = [set(note.partition(" takes no ")[2].partition(", which ")[0].split(", ")) for note in found]
    common = {"connections", "duration", "host", "header", "congestion"}
    assert named == [{"rate", *common}, common]


def test_a_common_primitive_is_noted_as_well(tmp_path: Path) -> None:
    (note,) = notes(loaded(tmp_path, OWN.replace("[load]\n", '[load]\nprimitive = "writev"\n')))
    assert "primitive" in note.partition(" takes no ")[2]


def test_nothing_is_noted_of_defaults_and_of_our_clients(tmp_path: Path) -> None:
    text = OWN.replace('settings = { clients = 8, connections = "kept", duration = "2s" }\n', "")
    text = text.replace('kind = "closed_connections"\n', "")
    assert notes(loaded(tmp_path, text)) == []
    assert notes(loaded(tmp_path, text.partition('[[contenders]]\nname = "own"')[0] + PLAIN)) == []


PLAIN = '[[contenders]]\nname = "other"\ndesign = "prefork"\n'


def test_a_setting_of_another_workload_is_not_noted(tmp_path: Path) -> None:
    text = OWN.replace('name = "own"\ndesign', 'name = "own"\nworkload = "stream"\ndesign')
    text = text.replace('workload = "http"', 'workload = "http"\nsettings = { bytes = 64 }')
    (note,) = notes(loaded(tmp_path, text.replace('duration = "2s"', 'duration = "2s", bytes = 64')))
    assert "bytes" not in note and "duration" in note


def test_what_must_agree_with_our_server_reaches_a_command_by_the_server(tmp_path: Path) -> None:
    both = OWN.replace('workload = "http"', 'workload = "http"\nsettings = { bytes = 64 }')
    both = both.replace('duration = "2s"', 'duration = "2s", bytes = 64, check = "count"')
    (note,) = notes(loaded(tmp_path, both))
    assert "bytes" not in note and "check" not in note


@pytest.mark.parametrize("key", ["settings = { think = '1ms' }", 'primitive = "writev"', 'receive = "readv"'])
def test_a_setting_that_a_contender_gives_its_command_in_vain_is_refused(key: str, tmp_path: Path) -> None:
    problems = refused(loaded, tmp_path, OWN + key + "\n")
    assert places(problems, "study.setting_not_taken") == [f"{tmp_path}/own.toml:{PARSER + 1}"]
    assert loaded(tmp_path, f"{OWN}settings = {{ clients = 3 }}\n").contender("own").load.clients == 3


@pytest.mark.parametrize("point", ["values = [5, 6]", 'values = [{ name = "5", set = { "KEY" = 5 } }]'])
@pytest.mark.parametrize(
    ("key", "is_taken"), [("load.settings.clients", True), ("load.settings.pipeline", False)]
)
def test_a_sweep_whose_points_do_not_reach_a_command_is_refused(
    point: str, key: str, is_taken: bool, tmp_path: Path
) -> None:
    named = "" if "name" in point else f'key = "{key}"\n'
    text = f'{OWN}[[sweeps]]\nname = "s"\n{named}{point.replace("KEY", key)}\ncontenders = ["own"]\n'
    if is_taken:
        assert loaded(tmp_path, text).sweeps
    else:
        assert places(refused(loaded, tmp_path, text), "study.setting_not_taken")


def test_an_override_that_reaches_no_command_has_no_effect(tmp_path: Path) -> None:
    head, _, own = OWN.partition('[[contenders]]\nname = "ours"\ndesign = "epoll"\n')
    text = head + own + "[comparisons]\nall_pairs = false\n"
    problems = refused(loaded, tmp_path, text, "load.settings.pipeline=4")
    assert [problem.code for problem in problems] == ["set.no_effect"]
    assert loaded(tmp_path, text, "load.settings.clients=4").contender("own").load.clients == 4
    (note,) = notes(loaded(tmp_path, OWN, "load.settings.pipeline=4"))
    assert "pipeline" in note


@pytest.mark.parametrize("name", ["rate", "message_size", "second_port"])
def test_a_placeholder_that_nothing_fills_is_refused(name: str, tmp_path: Path) -> None:
    text = OWN.replace('"{clients}"', f'"{{{name}}}"')
    code = "study.placeholder_without_setting"
    assert places(refused(loaded, tmp_path, text), code) == [f"{tmp_path}/own.toml:{COMMAND}"]
    for other in ("pipeline", "no_such_name", "clients", "duration", "host"):
        assert loaded(tmp_path, text.replace(f"{{{name}}}", f"{{{other}}}"))


def test_a_placeholder_of_a_server_that_nothing_fills_is_refused(tmp_path: Path) -> None:
    command = f"command = ['{sys.executable}', '{{NAME}}', '{{port}}']"
    text = OWN.replace('name = "own"\ndesign = "epoll"', f'name = "own"\n{command}')
    assert places(
        refused(loaded, tmp_path, text.replace("NAME", "rate")), "study.placeholder_without_setting"
    )
    assert loaded(tmp_path, text.replace("NAME", "second_port"))


@pytest.mark.parametrize("of", ["", "load."])
def test_the_program_that_prints_the_version_must_be_there(of: str, tmp_path: Path) -> None:
    text = OWN.replace(
        "[contenders.load]\n", 'command = ["sh", "server.sh"]\nversion = ["sh"]\n[contenders.load]\n'
    ).replace('name = "own"\ndesign = "epoll"', 'name = "own"')
    assert loaded(tmp_path, text).contender("own").own_server
    missing = text.replace('["sh"]', '["no-such"]') if not of else f'{text}version = ["no-such"]\n'
    assert places(refused(loaded, tmp_path, missing), "study.no_program")


@pytest.mark.parametrize("name", ["generators", "peers"])
@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_load_of_a_bundled_study_has_the_parser_of_its_program(name: str, size: str) -> None:
    found = load_study(name, size, (), client.catalogue())
    loads = {each.base: each.load for each in found.contenders}
    own_loads = {base: load for base, load in loads.items() if load.generator is not None}
    programs = {"sh": "vegeta", "tcp_rr": "neper", "tcp_crr": "neper", "tcp_stream": "neper"}
    for load in own_loads.values():
        program = Path(load.generator.command[0]).name if load.generator else ""
        assert load.parser == programs.get(program, program)
    assert len(own_loads) < len(loads), "some loads are ours"
    left_out = [why for why in found.absent.values() if "not part of size" not in why]
    assert all("no program" in why for why in left_out)


@pytest.mark.parametrize("name", ["generators", "peers"])
def test_each_program_of_a_bundled_study_may_be_missing(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = load_study(name, "full", (), client.catalogue())
    engine = client.find_engine()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(engine))
    found = load_study(name, "full", (), client.catalogue())
    kept = {each.base for each in whole.contenders if not each.own_server and not each.load.generator}
    assert {each.base for each in found.contenders} == kept
    assert all("or give its path" not in why for why in found.absent.values())
