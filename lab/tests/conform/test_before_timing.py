"""Servers that are not ours are checked before they are timed, by the cases that their load needs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from made.paths import DATA
from made.refusals import codes_printed, refused

from thunderherd.cli import main
from thunderherd.conform.before_timing import check_servers, needed_cases
from thunderherd.engine.client import Server, catalogue
from thunderherd.engine.conformance import cases_of
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.caveats import PASSED_CASES

pytestmark = pytest.mark.usefixtures("use_engine")

SERVER = f'command = ["{sys.executable}", "{{server}}", {{words}}"{{{{port}}}}"]'
ONLY_GET = """
import http.server, sys
class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *words): pass
class Many(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
Many(("127.0.0.1", int(sys.argv[1])), Hello).serve_forever()
"""
# A metric of the clients: on a busy machine the server may be read too late for one of its own.
STUDY = """
name = "own"
[measure]
metric = "requests_per_second"
limits = "0"
[server]
workload = "{workload}"
[load.settings]
clients = 2
connections = "{connections}"
duration = "100ms"
[sizes.quick]
repetitions = 1
[[contenders]]
name = "epoll"
design = "epoll"
[[contenders]]
name = "own"
{command}
"""


def study(
    folder: Path, server: Path, *words: str, workload: str = "bytes", connections: str = "kept"
) -> Study:
    command = SERVER.format(server=server, words="".join(f'"{word}", ' for word in words))
    path = folder / "own.toml"
    path.write_text(STUDY.format(workload=workload, connections=connections, command=command))
    return load_study(str(path), "quick", (), catalogue())


def broken(folder: Path, fault: str, **more: str) -> Study:
    return study(folder, DATA / "broken_servers.py", fault, **more)


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        ({"connections": "kept"}, {"any_load", "kept_connections"}),
        ({"connections": "per_request"}, {"any_load"}),
        ({"connections": "kept", "pipeline": 4}, {"any_load", "kept_connections", "pipelining"}),
        ({"connections": "per_request", "method": "HEAD"}, {"any_load", "head"}),
        ({"connections": "per_request", "body": "x"}, {"any_load", "request_body"}),
    ],
)
def test_a_load_needs_the_cases_of_what_it_does(
    tmp_path: Path, settings: dict[str, str | int], needs: set[str]
) -> None:
    made = broken(tmp_path, "none_http", workload="http").contender("own")
    load = made.load.model_copy(update={"settings": {**made.load.settings, **settings}})
    found = needed_cases(made.model_copy(update={"load": load}), cases_of("http"))
    assert {each.needed_by for each in found} == needs


def test_every_need_has_a_case_of_each_workload_that_can_have_it() -> None:
    assert [each.number for each in cases_of() if each.needed_by == "any_load"] == [1]
    everywhere = {name for each in cases_of() if each.needed_by == "any_load" for name in each.workloads}
    assert everywhere == {each.name for each in catalogue().workloads}


def test_a_small_server_that_answers_what_the_load_sends_passes(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(ONLY_GET)
    said: list[str] = []
    assert check_servers(study(tmp_path, tmp_path / "server.py", workload="http"), said.append) == {
        "own": [1, 2]
    }
    assert len(said) == 1


def test_a_server_of_several_loads_is_checked_once(tmp_path: Path) -> None:
    """A load's settings once made it another server, though its command names none of them."""
    study(tmp_path, tmp_path / "server.py", workload="http")
    (tmp_path / "server.py").write_text(ONLY_GET)
    head, _, own = (tmp_path / "own.toml").read_text().rpartition("[[contenders]]")
    more = own.replace('"own"', '"more"') + "[contenders.load.settings]\nclients = 3\n"
    (tmp_path / "own.toml").write_text(f"{head}[[contenders]]{own}[[contenders]]{more}")
    said: list[str] = []
    passed = check_servers(load_study(str(tmp_path / "own.toml"), "quick", (), catalogue()), said.append)
    assert passed == {"own": [1, 2], "more": [1, 2]} and len(said) == 1


@pytest.mark.parametrize(
    ("fault", "connections", "case"),
    [("one_byte_more", "kept", 1), ("one_byte_more", "per_request", 1), ("one_request", "kept", 2)],
)
def test_a_server_that_its_load_would_measure_wrongly_is_refused_before_the_first_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, connections: str, case: int
) -> None:
    broken(tmp_path, fault, connections=connections)
    out = tmp_path / "out"
    assert main.run_command(["run", str(tmp_path / "own.toml"), "--out", str(out)]) != 0
    page = capsys.readouterr().err
    assert codes_printed(page) == ["conform.server_fails"]
    assert f"--case {case} " in page and "--no-conform" in page
    # The command that the hint prints fails by the same case.
    replayed = re.search(r"(thunderherd conform .*?); ", page)
    assert replayed is not None
    _, *words = shlex.split(replayed[1])
    assert main.run_command(words) == 1
    assert f"{case}, " in capsys.readouterr().out.splitlines()[0]
    assert not (out / "trials.jsonl").exists()


def test_the_replay_has_the_variables_of_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = broken(tmp_path, "one_byte_more")
    with made.path.open("a") as file:
        file.write('environment = { MODE = "once only" }\n')
    assert main.run_command(["run", str(made.path), "--out", str(tmp_path / "out")]) != 0
    assert " MODE='once only' thunderherd conform " in capsys.readouterr().err


def test_faults_that_the_load_does_not_meet_are_no_reason_to_refuse(tmp_path: Path) -> None:
    for fault in ("mishandles_split", "crashes_on_giant", "out_of_order", "leaks_a_descriptor"):
        assert check_servers(broken(tmp_path, fault), lambda _: None) == {"own": [1, 2]}
    assert check_servers(broken(tmp_path, "one_request", connections="per_request"), lambda _: None) == {
        "own": [1]
    }


def test_the_check_is_kept_with_the_run_and_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(tmp_path, "mishandles_split")
    words = ["run", str(tmp_path / "own.toml")]
    checked, unchecked = tmp_path / "checked", tmp_path / "unchecked"
    assert main.run_command([*words, "--out", str(checked)]) == 0
    assert main.run_command([*words, "--out", str(unchecked), "--no-conform"]) == 0
    capsys.readouterr()
    notes = []
    for directory, passed in ((checked, {"own": [1, 2]}), (unchecked, None)):
        assert json.loads((directory / "run.json").read_text())["machine"][PASSED_CASES] == passed
        summary = json.loads((directory / "summary.json").read_text())
        notes.append({each for each in summary["study"]["notes"] if "conform" in each})
        assert len(notes[-1]) == 1
    assert notes[0] != notes[1]
    # A run that goes on does not check again.
    assert main.run_command([*words, "--out", str(checked), "--resume"]) == 0
    assert "checking" not in capsys.readouterr().err


def test_a_running_server_is_checked_at_its_address(tmp_path: Path) -> None:
    with Server("epoll", workload="bytes") as server:
        port = server.ready.port
        text = STUDY.format(workload="bytes", connections="kept", command=f'url = "bytes://127.0.0.1:{port}"')
        (tmp_path / "own.toml").write_text(text)
        found = load_study(str(tmp_path / "own.toml"), "quick", (), catalogue())
        assert check_servers(found, lambda _: None) == {"own": [1, 2]}


def test_a_server_that_does_not_start_is_refused_with_its_output(tmp_path: Path) -> None:
    """A run once went on without it, to its last block, and ended with status 0."""
    (tmp_path / "server.py").write_text("raise SystemExit('no licence')")
    made = study(tmp_path, tmp_path / "server.py")
    (problem,) = refused(check_servers, made, lambda _: None)
    assert problem.code == "host.ended_early" and "no licence" in problem.message
