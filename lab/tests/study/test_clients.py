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
    assert ours.client is None and ours.has_window
    assert own.client is not None and own.client.command[-1] == "{clients}" and own.parser == "json"
    assert own.client.directory == tmp_path and not own.has_window
    assert own.requests_per_trial is None and own.clients == 8


def test_the_load_of_a_study_is_that_of_every_contender(tmp_path: Path) -> None:
    head, load, contenders = OWN.partition("[load]\n")
    before, _, keys = contenders.partition("[contenders.load]\n")
    text = head + load + keys + before.replace('"own"\ndesign = "epoll"', '"own"\ndesign = "prefork"')
    found = loaded(tmp_path, text)
    assert all(each.load.client is not None for each in found.contenders)


@pytest.mark.parametrize(
    ("line", "instead", "code", "place"),
    [
        (PARSER, "", "study.unknown_parser", COMMAND),
        (PARSER, 'parser = "wkr"', "study.unknown_parser", PARSER),
        (COMMAND, "", "study.no_command", PARSER),
        (COMMAND, "command = []", "study.empty_command", COMMAND),
        (COMMAND, 'command = [" "]', "study.empty_command", COMMAND),
        (COMMAND, 'command = ["no-such-program"]', "study.no_program", COMMAND),
        (PARSER, 'parser = "json"\ndirectory = "nowhere"', "study.no_directory", COMMAND),
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


def test_a_whole_life_needs_our_clients(tmp_path: Path) -> None:
    text = OWN.replace('name = "own"\ndesign', 'name = "own"\ntrial = "whole_life"\ndesign')
    assert places(refused(loaded, tmp_path, text), "study.whole_life_of_foreign")


def test_a_load_that_is_missing_is_left_out_if_the_study_says_how_to_get_it(tmp_path: Path) -> None:
    text = OWN.replace(sys.executable, "no-such-program") + 'install = "install the package such"\n'
    text += '[[contenders]]\nname = "third"\ndesign = "prefork"\n'
    found = loaded(tmp_path, text)
    assert [each.name for each in found.contenders] == ["ours", "third"]
    assert "install the package such" in found.absent["own"]


def test_every_load_of_the_study_generators_has_a_parser_and_says_how_to_get_it() -> None:
    found = load_study("generators", "full", (), client.catalogue())
    named = {each.base: each.load for each in found.contenders}
    assert named["ours"].client is None
    assert all(load.client and load.parser == name for name, load in named.items() if name != "ours")
    assert all("install" in why for why in found.absent.values())
