"""Contenders whose server is not ours: what a study may say of them, and what they become."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from made.refusals import places, refused

from thunderherd.engine import client
from thunderherd.study.loading import Study, load_study
from thunderherd.study.own_programs import MOST_FILES, _build_folder, program_meant

OWN = f"""
name = "own"
[server]
workload = "http"
[[contenders]]
name = "ours"
design = "epoll"
[[contenders]]
name = "python"
command = ["{sys.executable}", "server.py", "{{port}}"]
[[contenders]]
name = "running"
url = "http://localhost:8080/page?n=1"
"""
WORKLOAD, COMMAND, URL = 4, 10, 13
"""Lines of the study."""


def loaded(directory: Path, text: str = OWN, *overrides: str) -> Study:
    path = directory / "own.toml"
    path.write_text(text)
    return load_study(str(path), "quick", overrides, client.catalogue())


def test_a_command_runs_in_the_folder_of_the_study_and_has_no_settings(
    tmp_path: Path, use_engine: Path
) -> None:
    found = loaded(tmp_path).contender("python")
    assert found.own_server is not None and found.own_server.command[-1] == "{port}"
    assert found.own_server.directory == tmp_path and found.settings == {} and found.design == ""
    assert found.load.settings["check"] == "count" and not found.counts_requests


def test_the_note_on_cpus_names_servers_only_if_the_run_places_them(tmp_path: Path, use_engine: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    head, *_ = OWN.partition("[[contenders]]")
    lab = f'{head}[lab]\nplacement = "apart"\n'
    url = '[[contenders]]\nname = "{0}"\nurl = "http://localhost:80{1}/"\n'
    running = lab + url.format("a", 80) + url.format("b", 81)
    notes = loaded(tmp_path, running).notes
    assert [each for each in notes if "CPU" in each and "server" in each] == []
    assert [each for each in notes if "clients" in each and "CPU" in each]
    ours = '[[contenders]]\nname = "c"\ndesign = "epoll"\n'
    assert [each for each in loaded(tmp_path, running + ours).notes if "CPU" in each and "server" in each]


def test_a_url_gives_address_and_path(tmp_path: Path, use_engine: Path) -> None:
    found = loaded(tmp_path).contender("running")
    assert found.own_server is not None and found.own_server.address == "localhost:8080"
    assert found.load.settings["path"] == "/page?n=1" and "bytes" not in found.load.settings


@pytest.mark.parametrize(
    ("url", "address"),
    [("http://[::1]/", "[::1]:80"), ("http://HOST.example:1/x", "host.example:1")],
)
def test_addresses_of_urls(url: str, address: str, tmp_path: Path, use_engine: Path) -> None:
    found = loaded(tmp_path, OWN.replace("http://localhost:8080/page?n=1", url)).contender("running")
    assert found.own_server is not None and found.own_server.address == address


def test_a_program_with_a_path_is_found_from_the_folder_of_the_command(
    tmp_path: Path, use_engine: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/server").write_text("#!/bin/sh\n")
    (tmp_path / "bin/server").chmod(0o755)
    text = OWN.replace(f'"{sys.executable}", "server.py"', '"./server"') + ""
    text = text.replace('"{port}"]', '"{port}"]\ndirectory = "bin"')
    found = loaded(tmp_path, text).contender("python")
    assert found.own_server is not None and found.own_server.command[0] == str(tmp_path / "bin/server")


@pytest.mark.parametrize(
    ("before", "after", "line", "code"),
    [
        ('url = "http', 'design = "epoll"\nurl = "http', URL + 1, "study.two_servers"),
        ('url = "http', 'ready_line = "x"\nurl = "http', URL, "study.no_command"),
        ('url = "http', 'primitive = "writev"\nurl = "http', URL, "study.key_of_designs"),
        ('url = "http', 'settings = { backlog = 5 }\nurl = "http', URL, "study.key_of_designs"),
        ('url = "http', 'trial = "whole_life"\nurl = "http', URL, "study.whole_life_of_foreign"),
        ("http://localhost", "https://localhost", URL, "study.no_tls"),
        ("http://localhost", "echo://localhost", URL, "study.other_scheme"),
        ("http://localhost:8080/page?n=1", "no url", URL, "study.invalid_url"),
        ("http://localhost:8080/page?n=1", "http://localhost:99999", URL, "study.invalid_url"),
        (sys.executable, "no-such-program", COMMAND, "study.no_program"),
        ('"{port}"]', '"{port}"]\nversion = ["no-such-program"]', COMMAND + 1, "study.no_program"),
        ('"{port}"]', '"{port}"]\nbuild = ["no-such-program"]', COMMAND + 1, "study.no_program"),
        ('"{port}"]', '"{prot}"]', COMMAND, "study.placeholder_without_setting"),
        (sys.executable, "", COMMAND, "study.empty_command"),
        ('"{port}"]', '"{port}"]\ndirectory = "nowhere"', COMMAND + 1, "study.no_directory"),
    ],
)
def test_mistakes_name_their_line(
    before: str, after: str, line: int, code: str, tmp_path: Path, use_engine: Path
) -> None:
    problems = refused(loaded, tmp_path, OWN.replace(before, after, 1))
    assert f"{tmp_path / 'own.toml'}:{line}" in places(problems, code)


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("server.py {port}", "./server.py"),
        ("./server.py {port}", "chmod +x"),
        ("PORT={port} server", "env PORT={port} server"),
        ("cd here && ./server.py", "sh -c"),
        ("localhost:80", "http://localhost:80"),
    ],
)
def test_a_program_that_is_not_found_has_the_hint_of_its_mistake(
    command: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "server.py").write_text("")
    assert meant in program_meant(command.split(), tmp_path)


@pytest.mark.parametrize("key", ["contenders.python.directory", "python.directory"])
def test_a_key_of_a_command_is_overridden_and_not_that_of_its_load(
    key: str, tmp_path: Path, use_engine: Path
) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "else").mkdir()
    found = load_study(str(tmp_path / "own.toml"), "quick", [f'{key}="else"'], client.catalogue())
    (own,) = [each.own_server for each in found.contenders if each.own_server and each.own_server.command]
    assert own.directory == tmp_path / "else"


@pytest.mark.parametrize(("kind", "code"), [("veth", "study.url_outside_lab"), ("unix", "study.needs_tcp")])
def test_a_url_is_not_in_every_lab(kind: str, code: str, tmp_path: Path, use_engine: Path) -> None:
    problems = refused(loaded, tmp_path, OWN + f'[lab]\nkind = "{kind}"\n')
    assert places(problems, code)


def test_an_url_with_a_path_needs_a_workload_with_paths(tmp_path: Path, use_engine: Path) -> None:
    text = OWN.replace('"http"', '"echo"').replace("http://", "echo://")
    assert places(refused(loaded, tmp_path, text), "study.path_not_allowed")


def test_a_change_of_any_source_is_built_and_results_of_runs_are_no_source(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(MOST_FILES + 5):
        (tmp_path / "data" / f"{number}").touch()
    source = tmp_path / "server.c"
    source.write_text("one")
    before = _build_folder(["make"], tmp_path)
    assert _build_folder(["make"], tmp_path) == before
    source.write_text("two")
    changed = _build_folder(["make"], tmp_path)
    assert changed != before
    run = tmp_path / "results" / "run-1"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "trials.jsonl").write_text("")
    assert _build_folder(["make"], tmp_path) == changed


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('command = "./server {port}"\nready_line = "up"', '["./server", "{port}"]'),
        ('comand = ["./server", "{port}"]\nready_line = "up"', "command"),
        ('design = ["epoll"]', ""),
    ],
)
def test_a_wrong_key_of_the_server_is_the_only_mistake(
    line: str, hint: str, tmp_path: Path, use_engine: Path
) -> None:
    given = f'command = ["{sys.executable}", "server.py", "{{port}}"]'
    (problem,) = refused(loaded, tmp_path, OWN.replace(given, line))
    assert problem.where == f"{tmp_path / 'own.toml'}:{COMMAND}" and hint in problem.hint


DIR = f"""
name = "own"
[[contenders]]
name = "ours"
design = "epoll"
[[contenders]]
name = "own"
command = ["{sys.executable}", "{{dir}}/mine.conf", "{{dir}}/./made", "{{dir}}/{{port}}", "{{port}}"]
environment = {{ PAGE = "{{dir}}/page.txt" }}
"""


@pytest.mark.parametrize(("missing", "line"), [("mine.conf", 8), ("page.txt", 9)])
def test_a_template_that_is_missing_is_refused_at_its_key(
    missing: str, line: int, tmp_path: Path, use_engine: Path
) -> None:
    for name in ("mine.conf", "page.txt"):
        (tmp_path / name).write_text("")
    assert loaded(tmp_path, DIR).contender("own").own_server
    (tmp_path / missing).unlink()
    (problem,) = refused(loaded, tmp_path, DIR)
    assert (problem.code, problem.where) == ("study.no_template", f"{tmp_path / 'own.toml'}:{line}")
    assert missing in problem.message and str(tmp_path) in problem.message


def test_a_build_may_make_a_template(tmp_path: Path, use_engine: Path) -> None:
    assert loaded(tmp_path, f'{DIR}build = ["{sys.executable}"]\n').contender("own").own_server
