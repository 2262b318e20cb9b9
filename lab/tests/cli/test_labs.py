"""`serve --lab` and `load --lab`: what is the laboratory's of a command line, and two terminals that meet."""

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

from thunderherd.cli import labs
from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.labs import KINDS
from thunderherd.labs.words import QUANTITIES
from thunderherd.study import lab_option
from thunderherd.study.overrides import parse_override

PATIENCE = 20.0


def test_the_engine_is_told_the_rest() -> None:
    of_the_lab = ["--lab=veth", "--mtu", "9000", "--rate=10gbit", "--delay", "5ms", "--loss", "0.1%"]
    asked = labs.read("serve", ["prefork", "--pool", "3", *of_the_lab, "--port", "80"])
    assert asked.words == ["prefork", "--pool", "3", "--port", "80"]
    assert (asked.kind, asked.serves_in_namespaces) == (KINDS["veth"], True)
    assert asked.settings == {
        "mtu": 9000, "rate_bits_per_second": 10**10, "delay_microseconds": 5000, "loss_per_million": 1000,
    }  # fmt: skip


def test_keys_of_the_lab_are_said_by_one_option() -> None:
    shorter = labs.read("serve", ["prefork", "--lab", "veth", "--mtu", "9000", "--rate", "10gbit"])
    longer = labs.read("serve", ["prefork", "--lab=veth", "--lab", "mtu=9000", "--lab=rate=10gbit"])
    assert (longer.words, longer.kind, longer.settings) == (shorter.words, shorter.kind, shorter.settings)
    assert labs.read("load", ["bytes", "--lab", "kind=veth"]).kind == KINDS["veth"]
    assert labs.read("load", ["bytes", "--lab", "veth:12"]).holder == 12


def test_what_was_typed_is_what_a_study_is_told() -> None:
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
    for wrong, said in (
        ("true", 'no such lab "true"'),
        ("kind=vet", "'veth'"),
        ("mtu=", "takes key=value"),
        ("rate=10", "it is no rate; .*, such as 10gbit$"),
        ("rate=7999bit", "it takes 8kbit at least"),
    ):
        with pytest.raises(UserError, match=f"crossover: --lab {wrong}: .*{said}"):
            lab_option.read([wrong], command="crossover: ")


@pytest.mark.parametrize(
    ("typed", "apart"),
    [
        ("veth,mtu=9000", "--lab veth --lab mtu=9000"),
        ("veth, lab.rate=1gbit", "--lab veth --lab lab.rate=1gbit"),
        ("mtu=9000,rate=1gbit", "--lab mtu=9000 --lab rate=1gbit"),
        ("veth,apart,server_cpus=[0, 1]", "--lab veth --lab apart --lab server_cpus=[0, 1]"),
    ],
)
def test_several_at_a_time_are_told_apart(typed: str, apart: str) -> None:
    with pytest.raises(UserError) as caught:
        lab_option.read([typed])
    assert str(caught.value) == f"--lab {typed}: it takes one of them at a time; did you mean {apart}?"
    parts = apart.split("--lab ")[1:]
    assert len(lab_option.read([each.strip() for each in parts])) == len(parts)


def test_a_key_that_the_kind_does_not_take_is_refused_at_once() -> None:
    for typed in (["unix,congestion=cubic"], ["unix", "congestion=cubic"], ["congestion=cubic", "unix"]):
        with pytest.raises(UserError) as caught:
            lab_option.read(typed)
        assert str(caught.value) == (
            "--lab congestion=cubic: lab unix has no congestion, which is a key of lab loopback and veth; "
            "leave it out, or type --lab loopback --lab congestion=cubic or --lab veth --lab congestion=cubic"
        )
    assert lab_option.read(["unix", "apart"]) == {"kind": "unix", "placement": "apart"}


def test_over_unix_sockets_a_server_listens_there() -> None:
    of = labs.words_of
    assert of(labs.read("serve", ["prefork", "--lab", "unix"])) == ["prefork", "--listen", "unix:@"]
    own = ["prefork", "--listen=unix:@own"]
    assert of(labs.read("serve", [*own, "--lab", "unix"])) == own
    assert of(labs.read("serve", ["prefork", "--lab", "loopback"])) == ["prefork"]
    # An option of the engine's that is named like one of the laboratory's is the engine's.
    assert labs.read("load", ["bucket", "--delay", "5", "--lab", "unix"]).words == [
        "bucket",
        "--delay",
        "5",
    ]


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("serve", "--lab vet", "did you mean 'veth'"),
        ("serve", "--lab", "--lab takes a value"),
        ("serve", "--lab veth --rate fast", r"--rate fast: it is no rate; .*gbit\), such as 10gbit$"),
        ("serve", "--lab veth --lab loss=1", r"--lab loss=1: it is no loss; .* \(%\), such as 0.1%$"),
        ("serve", "--lab veth --mtu 1.5", "--mtu 1.5: it is no mtu"),
        ("serve", "--lab loopback --mtu 1500", "--mtu 1500 is of --lab veth"),
        ("serve", "--lab veth:1", "load takes veth:PID"),
        ("load", "--lab veth:x", "load takes veth:PID"),
        ("load", "--lab unix:1", "load takes veth:PID"),
        ("serve", "--lab veth --lab unix", '--lab: kind is given twice: "veth", and "unix"'),
        ("serve", "--lab veth --lab mtu=1.5", "--lab mtu=1.5: it is no mtu"),
        ("serve", "--lab veth --lab mtu=9000 --mtu 1500", "--lab mtu=9000 and --mtu 1500 say the same"),
        (
            "serve",
            "--lab loopback --lab mtu=1500",
            "--lab mtu=1500: lab loopback has no mtu, .* lab veth; leave",
        ),
        ("serve", "--lab mut=1500", "no such key \"mut\"; known: kind, .*did you mean 'mtu'"),
        ("serve", "--lab server_cpus=[0]", 'no such key "server_cpus"; known: kind, mtu'),
        (
            "load",
            "--lab mtu=1500",
            "mtu is the server's to choose .*, whose network this joins; known: kind$",
        ),
        ("load", "--lab veth,mtu=9000", "mtu is the server's to choose .*; type --lab veth$"),
        ("load", "--lab veth,mut=9000", 'no such key "mut"; known: kind'),
        ("serve", "--lab unix,mtu=9000", "--lab mtu=9000: lab unix has no mtu, which is a key of lab veth"),
        ("serve", "--lab veth,mtu=1.5", "--lab mtu=1.5: it is no mtu"),
        ("serve", "--lab veth --mtu 1500 --mtu=9000", "--mtu is given twice"),
        ("serve", "--lab unix --port 80", "a Unix socket has no --port; .*--listen unix:@NAME"),
        ("serve", "--lab unix --listen 127.0.0.1:0", "--listen is '127.0.0.1:0', but it takes unix:@NAME"),
        ("serve", "--lab veth --listen=unix:@x", "--listen is 'unix:@x', but it takes HOST:PORT"),
        ("load", "--lab unix --connect 127.0.0.1:1", "--connect is '127.0.0.1:1', but it takes unix:@NAME"),
        ("load", "--lab loopback --connect unix:@x", "--connect is 'unix:@x', but it takes HOST:PORT"),
    ],
)
def test_what_is_wrong_is_told(command: str, words: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        labs.read(command, words.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--port"], "--port is '', but it takes a whole number from 0 to 65535"),
        (["--port", "http"], "--port is 'http', but"),
        (["--port=65536"], "--port is '65536', but"),
        (["--port", "80", "--listen", "10.0.0.1:80"], r"--port .*--listen.* \[arguments.conflict\]"),
        (
            ["--rate", "1kbit"],
            "thunderherd: --rate 1kbit: it takes 8kbit at least; for no limit, leave rate out",
        ),
        (["--mtu", "67"], r"thunderherd: --mtu .*\[setting.invalid_value\]\nhint: .* from 68"),
        (["--network-namespace"], "--network-namespace"),
        (["--pool", "0"], r"--pool .*\[setting.invalid_value\]"),
        (
            ["--listen", "192.0.2.1:80"],
            r"192.0.2.1 \[listen.no_such_address\]\nhint: .*127.0.0.1, 10.0.0.1$",
        ),
    ],
)
def test_what_cannot_be_had_in_namespaces_is_told_as_it_was_typed(
    words: list[str], said: str, use_engine: Path
) -> None:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip("no namespaces here")
    done = subprocess.run(
        thunderherd("serve", "prefork", "--lab", "veth", *words),
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done
    assert re.search(said, done.stderr), done.stderr
    assert "from another terminal" not in done.stderr
    assert "/proc/" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_that_holds_nothing_is_no_lab(use_engine: Path) -> None:
    asked = labs.read("load", ["bytes", "--lab", f"veth:{os.getpid()}"])
    with pytest.raises(UserError, match=f"process {os.getpid()} holds no network namespaces"):
        labs.words_of(asked)


def test_no_option_of_the_engines_server_is_taken_away(use_engine: Path) -> None:
    done = subprocess.run([use_engine, "serve", "--help"], capture_output=True, text=True, check=True)
    for name in ("lab", *QUANTITIES):
        assert f"--{name} " not in done.stdout


def thunderherd(*words: str) -> list[str]:
    return [sys.executable, "-m", "thunderherd", *words]


def test_help_has_both(use_engine: Path) -> None:
    for command, words in (("serve", ["--backlog", "--lab", "--rate"]), ("load", ["--connect", "--lab"])):
        done = subprocess.run(thunderherd(command, "--help"), capture_output=True, text=True, check=True)
        for word in words:
            assert word in done.stdout, word


def test_a_load_joins_the_server_that_runs(copied_engine: Path) -> None:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    loads = thunderherd("load", "bytes", "--lab", "veth", "--loops", "3", "--connect")
    alone = subprocess.run([*loads, "10.0.0.1:1"], capture_output=True, text=True, timeout=PATIENCE)
    assert alone.returncode == 2
    assert "no server runs in one; start it first: thunderherd serve DESIGN --lab veth" in alone.stderr
    with subprocess.Popen(
        thunderherd("serve", "prefork", "--lab", "veth", "--rate", "1gbit", "--port", "7777"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            assert server.stdout.readline() == "listening on 10.0.0.1:7777\n"
            assert "veth, 1 Gbit/s" in server.stderr.readline()
            joined = subprocess.run(
                [*loads, "10.0.0.1:7777"], capture_output=True, text=True, timeout=PATIENCE
            )
            assert joined.returncode == 0, joined.stderr
            assert joined.stdout.startswith("15 of 15 replies came and were right")
            server.send_signal(signal.SIGTERM)
            assert "connections 15, requests 15" in server.stdout.read()
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


def test_a_study_may_be_run_elsewhere(use_engine: Path, small_study_file: Path, tmp_path: Path) -> None:
    words = thunderherd("run", str(small_study_file), "--out", str(tmp_path / "out"))
    done = subprocess.run([*words, "--lab", "vet"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert '--lab vet: no such lab "vet"; known: loopback, veth, unix, free, apart' in done.stderr
    assert "did you mean 'veth'?" in done.stderr
    assert not (tmp_path / "out").exists()
