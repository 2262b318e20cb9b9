"""`serve --lab` and `load --lab`: which options belong to the lab, and two terminals that share one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made.engines import processes_of
from made.interrupted import STUDY
from made.refusals import codes_printed, refused
from made.stand_in import answered, forked

from thunderherd.cli import labs
from thunderherd.cli.main import run_command
from thunderherd.engine.client import catalogue
from thunderherd.labs import KINDS
from thunderherd.labs.words import QUANTITIES
from thunderherd.records.directory import load
from thunderherd.study import lab_option
from thunderherd.study.overrides import parse_override

PATIENCE = 60.0


def test_the_engine_gets_the_other_options() -> None:
    of_the_lab = ["--lab=veth", "--mtu", "9000", "--rate=10gbit", "--delay", "5ms", "--loss", "0.1%"]
    request = labs.read("serve", ["prefork", "--pool", "3", *of_the_lab, "--port", "80"])
    assert request.words == ["prefork", "--pool", "3", "--port", "80"]
    assert (request.kind, request.serves_in_namespaces) == (KINDS["veth"], True)
    assert request.settings == {
        "mtu": 9000, "rate": 10**10, "delay": 5_000_000, "loss": 1000,
    }  # fmt: skip


def test_lab_takes_all_keys_of_a_lab() -> None:
    shorter = labs.read("serve", ["prefork", "--lab", "veth", "--mtu", "9000", "--rate", "10gbit"])
    longer = labs.read("serve", ["prefork", "--lab=veth", "--lab", "mtu=9000", "--lab=rate=10gbit"])
    assert (longer.words, longer.kind, longer.settings) == (shorter.words, shorter.kind, shorter.settings)
    assert labs.read("load", ["bytes", "--lab", "kind=veth"]).kind == KINDS["veth"]
    assert labs.read("load", ["bytes", "--lab", "veth:12"]).holder == 12


def test_lab_options_become_overrides_of_a_study() -> None:
    found = lab_option.read(["veth", "apart", "mtu=9000", "lab.rate=10gbit", "server_cpus=[0, 1]"])
    told = dict(map(parse_override, lab_option.as_overrides(found)))
    assert told == {
        "lab.kind": "veth",
        "lab.placement": "apart",
        "lab.mtu": 9000,
        "lab.rate": "10gbit",
        "lab.server_cpus": [0, 1],
    }
    assert lab_option.as_overrides({"kind": "veth"}) == ["lab.kind=veth"]
    for wrong, facts in (
        ("true", ['"true"', "known: "]),
        ("kind=vet", ["'veth'"]),
        ("mtu=", ["key=value"]),
        ("rate=10", ["10gbit or 10mbit"]),
    ):
        (problem,) = refused(lab_option.read, [wrong], command="crossover: ")
        assert str(problem).startswith(f"crossover: --lab {wrong}: ")
        assert [fact for fact in facts if fact not in str(problem)] == []


@pytest.mark.parametrize(
    ("typed", "apart"),
    [
        ("veth,mtu=9000", "--lab veth --lab mtu=9000"),
        ("veth, lab.rate=1gbit", "--lab veth --lab lab.rate=1gbit"),
        ("mtu=9000,rate=1gbit", "--lab mtu=9000 --lab rate=1gbit"),
        ("veth,apart,server_cpus=[0, 1]", "--lab veth --lab apart --lab server_cpus=[0, 1]"),
    ],
)
def test_several_values_in_one_option_are_refused_with_one_option_each(typed: str, apart: str) -> None:
    (problem,) = refused(lab_option.read, [typed])
    assert str(problem).startswith(f"--lab {typed}: ") and str(problem).endswith(f"{apart}?")
    parts = apart.split("--lab ")[1:]
    assert len(lab_option.read([each.strip() for each in parts])) == len(parts)


def test_a_key_that_the_kind_does_not_take_is_refused_at_once() -> None:
    for typed in (["unix,congestion=cubic"], ["unix", "congestion=cubic"], ["congestion=cubic", "unix"]):
        (problem,) = refused(lab_option.read, typed)
        assert str(problem).startswith("--lab congestion=cubic: ") and "lab unix" in str(problem)
        for kind in ("loopback", "veth"):
            assert f"--lab {kind} --lab congestion=cubic" in str(problem)
    assert lab_option.read(["unix", "apart"]) == {"kind": "unix", "placement": "apart"}


def test_lab_unix_sets_the_listen_address_of_a_server() -> None:
    of = labs.engine_words
    assert of(labs.read("serve", ["prefork", "--lab", "unix"])) == ["prefork", "--listen", "unix:@"]
    own = ["prefork", "--listen=unix:@own"]
    assert of(labs.read("serve", [*own, "--lab", "unix"])) == own
    assert of(labs.read("serve", ["prefork", "--lab", "loopback"])) == ["prefork"]
    # An option of the engine with the name of a lab option goes to the engine.
    assert labs.read("load", ["bucket", "--delay", "5", "--lab", "unix"]).words == [
        "bucket",
        "--delay",
        "5",
    ]


@pytest.mark.parametrize(
    ("command", "words", "code", "facts"),
    [
        ("serve", "--lab vet", "lab.unknown_kind", ["--lab vet: ", "'veth'"]),
        ("serve", "--lab", "lab.value_missing", ["--lab: "]),
        ("serve", "--lab veth --rate fast", "lab.invalid_quantity", ["--rate fast: ", "such as 10gbit"]),
        ("serve", "--lab veth --lab loss=1", "lab.invalid_quantity", ["--lab loss=1: ", "1%"]),
        ("serve", "--lab veth --mtu 1.5", "lab.invalid_quantity", ["--mtu 1.5: "]),
        ("serve", "--lab loopback --mtu 1500", "lab.key_of_other_lab", ["--mtu 1500: ", "--lab veth"]),
        ("serve", "--lab veth:1", "lab.invalid_holder", ["load also takes veth:PID"]),
        ("load", "--lab veth:x", "lab.invalid_holder", ["veth:PID"]),
        ("load", "--lab unix:1", "lab.invalid_holder", ["veth:PID"]),
        ("serve", "--lab veth --lab unix", "lab.duplicate_key", ["--lab: ", '"veth"', '"unix"']),
        ("serve", "--lab veth --lab mtu=1.5", "lab.invalid_quantity", ["--lab mtu=1.5: "]),
        (
            "serve",
            "--lab veth --lab mtu=9000 --mtu 1500",
            "lab.given_twice",
            ["--mtu 1500: ", "--lab mtu=9000"],
        ),
        (
            "serve",
            "--lab loopback --lab mtu=1500",
            "lab.key_of_other_lab",
            ["--lab mtu=1500: ", "lab loopback", "lab veth"],
        ),
        ("serve", "--lab mut=1500", "lab.unknown_key", ['"mut"', "known: kind, ", "'mtu'?"]),
        ("serve", "--lab server_cpus=[0]", "lab.unknown_key", ['"server_cpus"', "known: kind, mtu"]),
        ("load", "--lab mtu=1500", "lab.key_not_taken", ["--lab mtu=1500: ", "`serve --lab`", "known: kind"]),
        (
            "load",
            "--lab veth,mtu=9000",
            "lab.key_not_taken",
            ["--lab veth,mtu=9000: ", "`serve --lab`", "type --lab veth"],
        ),
        ("load", "--lab veth,mut=9000", "lab.unknown_key", ['"mut"', "known: kind"]),
        (
            "serve",
            "--lab unix,mtu=9000",
            "lab.key_of_other_lab",
            ["--lab mtu=9000: ", "lab unix", "lab veth"],
        ),
        ("serve", "--lab veth,mtu=1.5", "lab.invalid_quantity", ["--lab mtu=1.5: "]),
        ("serve", "--lab veth --mtu 1500 --mtu=9000", "lab.given_twice", ["--mtu: ", "1500 and 9000"]),
        ("serve", "--lab unix --port 80", "lab.port_without_tcp", ["--port", "--listen unix:@NAME"]),
        ("serve", "--lab unix --listen 127.0.0.1:0", "lab.invalid_address", ["127.0.0.1:0", "unix:@NAME"]),
        ("serve", "--lab veth --listen=unix:@x", "lab.invalid_address", ["'unix:@x'", "HOST:PORT"]),
        ("load", "--lab unix --connect 127.0.0.1:1", "lab.invalid_address", ["127.0.0.1:1", "unix:@NAME"]),
        ("load", "--lab loopback --connect unix:@x", "lab.invalid_address", ["'unix:@x'", "HOST:PORT"]),
    ],
)
def test_mistakes_are_refused_with_their_option(
    command: str, words: str, code: str, facts: list[str]
) -> None:
    (problem,) = refused(labs.read, command, words.split())
    assert problem.code == code
    assert problem.where.startswith(f"{command}: --")
    assert [fact for fact in facts if fact not in str(problem)] == []


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (["--port"], "serve.invalid_port", ["''", "0 to 65535"]),
        (["--port", "http"], "serve.invalid_port", ["'http'"]),
        (["--port=65536"], "serve.invalid_port", ["'65536'"]),
        (["--port", "80", "--listen", "10.0.0.1:80"], "arguments.conflict", ["'--port ", "--listen"]),
        (["--rate", "1kbit"], "namespace.rate_too_low", []),
        (["--mtu", "67"], "setting.invalid_value", ["thunderherd: serve: --mtu ", "'67'", " 68 "]),
        (["--network-namespace"], "arguments.invalid_value", ["--network-namespace"]),
        (["--pool", "0"], "setting.invalid_value", ["--pool ", "'0'"]),
        (["--listen", "192.0.2.1:80"], "listen.no_such_address", ["192.0.2.1 ", "127.0.0.1, 10.0.0.1"]),
    ],
)
def test_refusals_in_namespaces_name_the_option_that_was_typed(
    words: list[str], code: str, facts: list[str], use_engine: Path
) -> None:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip("no namespaces here")
    done = forked("serve", "prefork", "--lab", "veth", *words)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert codes_printed(done.stderr) == [code]
    assert [fact for fact in facts if fact not in done.stderr] == [], done.stderr
    assert "thunderherd load" not in done.stderr
    assert "/proc/" not in done.stderr
    assert "Traceback" not in done.stderr


def test_process_without_namespaces_is_refused_as_lab(use_engine: Path) -> None:
    request = labs.read("load", ["bytes", "--lab", f"veth:{os.getpid()}"])
    (problem,) = refused(labs.engine_words, request)
    assert (problem.code, problem.where) == ("lab.not_a_holder", f"load: --lab veth:{os.getpid()}")


def test_lab_options_shadow_no_option_of_the_engines_server(use_engine: Path) -> None:
    done = subprocess.run([use_engine, "serve", "--help-all"], capture_output=True, text=True, check=True)
    for name in ("lab", *QUANTITIES):
        assert f"--{name} " not in done.stdout


def thunderherd(*words: str) -> list[str]:
    return [sys.executable, "-m", "thunderherd", *words]


def test_help_lists_options_of_engine_and_lab(use_engine: Path) -> None:
    for command, usual, rare in (
        ("serve", ["--backlog", "--lab", "--rate"], "--steer"),
        ("load", ["--connect", "--lab"], "--think"),
    ):
        for option in ("-h", "--help", "--help-all"):
            done = forked(command, option)
            assert done.returncode == 0, done.stderr
            assert [word for word in usual if word not in done.stdout] == [], done.stdout
            assert (rare in done.stdout) == (option == labs.HELP_ALL)
            if option != labs.HELP_ALL:
                *lines, last = done.stdout.splitlines()
                assert labs.HELP_ALL in last
                assert [line for line in lines if len(line) > 100] == []


def row(table: str, label: str) -> list[str]:
    """Return the cells of a row of the engine's table."""
    line = next(line for line in table.splitlines() if line.startswith(f"{label}  "))
    return re.split(r"\s{2,}", line.strip())[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_load_joins_the_namespaces_of_a_running_server(copied_engine: Path, number: signal.Signals) -> None:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    loads = ("load", "bytes", "--lab", "veth", "--loops", "3", "--connect")
    alone = forked(*loads, "10.0.0.1:1")
    assert alone.returncode == 2
    assert codes_printed(alone.stderr) == ["lab.no_server"]
    assert "thunderherd serve DESIGN --lab veth" in alone.stderr
    with subprocess.Popen(
        thunderherd("serve", "prefork", "--lab", "veth", "--rate", "1gbit", "--port", "7777"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            assert server.stdout.readline() == "listening on 10.0.0.1:7777\n"
            assert "veth, 1 Gbit/s" in server.stderr.readline()
            joined = forked(*loads, "10.0.0.1:7777")
            assert joined.returncode == 0, joined.stderr
            assert "15 of 15" in row(joined.stdout, "Requests")
            server.send_signal(number)
            ended = server.stdout.read()
            assert row(ended, "Connections") == row(ended, "Requests") == ["15"]
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
    deadline = time.monotonic() + PATIENCE
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes_of(copied_engine) == {}


@pytest.mark.parametrize("victim", ["namespace", "serve"])
def test_a_server_and_its_namespaces_end_together(copied_engine: Path, victim: str) -> None:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip("no namespaces here")
    with subprocess.Popen(
        thunderherd("serve", "prefork", "--lab", "veth"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            assert server.stdout.readline().startswith("listening on 10.0.0.1:")
            started = [pid for pid, words in processes_of(copied_engine).items() if victim in words.split()]
            os.kill(min(started), signal.SIGKILL)
            assert server.wait(PATIENCE) == {"namespace": 2, "serve": 128 + signal.SIGKILL}[victim]
            said = {
                "namespace": r"namespaces .* are gone: .*SIGKILL",
                "serve": "server was killed by SIGKILL",
            }
            assert re.search(said[victim], server.stderr.read())
        finally:
            server.kill()
    deadline = time.monotonic() + PATIENCE
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes_of(copied_engine) == {}


def test_unknown_lab_of_a_run_is_refused_with_a_suggestion(
    use_engine: Path, small_study_file: Path, tmp_path: Path
) -> None:
    done = answered("run", str(small_study_file), "--out", str(tmp_path / "out"), "--lab", "vet")
    assert done.returncode == 2
    assert "run: --lab vet: " in done.stderr and "'veth'?" in done.stderr
    assert ", ".join([*KINDS, "free", "apart"]) in done.stderr
    assert not (tmp_path / "out").exists()


# --user -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(
    "words",
    [
        "run unp-ch30", "compare epoll prefork", "gate --base epoll --head prefork", "knee epoll --p99 5ms",
        "crossover send_each writev --over bytes=64..64KiB", "grade epoll --reference prefork",
        "conform epoll", "baseline save first epoll --reference prefork",
    ],
)  # fmt: skip
def test_a_user_who_cannot_run_servers_is_refused(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert run_command([*words.split(), "--user", "no-such-user"]) in (2, 128)
    why = "study.unknown_user" if os.geteuid() == 0 else "study.user_without_root"
    said = capsys.readouterr().err
    assert {*codes_printed(said)} == {why} and "no-such-user" in said, said
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.usefixtures("use_engine")
def test_servers_and_clients_of_a_run_are_those_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(STUDY)
    words = ["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "run"), "--user", "nobody"]
    assert run_command(words) == 0
    kept = load(tmp_path / "run")
    assert kept.run.study["lab"]["user"] == "nobody" and kept.summary is not None
    assert kept.summary.trials.valid == 2
