"""Build and run the examples of docs/extending: each is added, as printed, to a copy of engine and lab."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from made.engines import target_of_its_own

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "lab" / "thunderherd"
GUIDE = ROOT / "docs" / "extending"

KINDS = (
    "design", "primitive", "workload", "load", "counter", "limit", "lab", "examination", "study", "claims",
)  # fmt: skip
"""The pages of the guide, by the kind of entry that each adds."""

FILE = re.compile(r"^\*\*`(?P<path>[^`]+)`\*\*\n```\w+\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
EXCHANGES = re.compile(
    r"^\*\*`(?P<path>[^`]+)`\*\*, at its end, with `(?P<name>\w+)` in the list `PROTOCOLS`:\n"
    r"```rust\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
REGISTRY_LINE = re.compile(r"^\*\*`(?P<path>[^`]+)`\*\*, one line: `(?P<name>[^`]+),`", re.MULTILINE)

LAB_LINE = re.compile(r"^\*\*`(?P<path>[^`]+)`\*\*, imported, and one line: `(?P<name>\w+),`", re.MULTILINE)


def page_of(kind: str) -> str:
    """Return the page about a kind of entry."""
    return (GUIDE / f"{kind}.md").read_text(encoding="utf-8")


def test_every_page_is_read_and_listed() -> None:
    """An example on a page that is not in KINDS would be neither built nor run."""
    assert {path.stem for path in GUIDE.glob("*.md")} == {*KINDS, "README"}
    assert all(f"({kind}.md)" in page_of("README") for kind in KINDS)


def add_to_folder(registry: Path, name: str) -> None:
    """Import a file of a folder of the lab, and name it in the folder's list."""
    begins = rf"from thunderherd\.{registry.parent.name} import"
    places = {
        rf"({begins} \(\n)": f"    {name},\n",
        rf"({begins} [^(\n]+)": f", {name}",
        r"(    for each in \(\n)": f"        {name},\n",
    }
    text, additions = registry.read_text(), 0
    for pattern, addition in places.items():
        text, found = re.subn(pattern, lambda match, new=addition: match[0] + new, text)
        additions += found
    assert additions == 2, f"{registry} has no one import and no one list to add a name to"
    registry.write_text(text)


@pytest.mark.parametrize(
    ("kind", "file"),
    [("design", "engine/src/server/design.rs"), ("primitive", "engine/src/transfer/primitive.rs")],
)
def test_a_page_names_every_field_of_its_entry(kind: str, file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    entry = source.partition(f"pub struct {kind.capitalize()} {{\n")[2].partition("\n}\n")[0]
    facts = re.findall(r"^    pub (\w+):", entry, re.MULTILINE)
    assert {"about", "spins", "rests_on"} <= set(facts)
    assert [name for name in facts if not re.search(rf"`{name}\b", page_of(kind))] == []


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the guide's files and the engine built with its entries."""
    folder = tmp_path_factory.mktemp("extending")
    guide = "\n".join(page_of(kind) for kind in KINDS)
    shutil.copytree(ROOT / "engine", folder / "engine", ignore=shutil.ignore_patterns("target"))
    shutil.copytree(LAB, folder / LAB.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
    files = list(FILE.finditer(guide))
    assert [match["path"].rsplit("/", 1)[-1] for match in files] == [
        "prefork_flock.rs",
        "recv_chunks.rs",
        "send_chunks.rs",
        "ping.rs",
        "one_client.rs",
        "empty_poll.rs",
        "loopback6.py",
        "memory.py",
        "ping.toml",
        "ping_claims.toml",
    ]
    for match in files:
        (folder / match["path"]).write_text(match["text"])
    for match in REGISTRY_LINE.finditer(guide):
        registry = folder / match["path"]
        text, additions = re.subn(
            r"^    }(?=\n}\n*\Z)",
            f"        {match['name']},\n    }}",
            registry.read_text(),
            flags=re.MULTILINE,
        )
        assert additions == 1, f"{match['path']} has no one list to add a line to"
        registry.write_text(text)
    added = list(LAB_LINE.finditer(guide))
    assert [match["name"] for match in added] == ["loopback6", "memory"]
    for match in added:
        add_to_folder(folder / match["path"], match["name"])
    exchanges = EXCHANGES.search(guide)
    assert exchanges
    protocol = folder / exchanges["path"]
    text, additions = re.subn(
        r"(PROTOCOLS: .* = &\[.*)\];", rf"\1, {exchanges['name']}];", protocol.read_text()
    )
    assert additions == 1, f"{exchanges['path']} has no one list PROTOCOLS to add a name to"
    protocol.write_text(f"{text}\n{exchanges['text']}")
    # A build of tests, because tests enable features of dependencies that `cargo build` would leave out.
    cargo("test", folder, "--no-run", "--test", "conformance")
    return folder


WITHOUT_LIMITS = ("--set", "limits=0")
"""Saves three seconds a run; these tests do not use the machine limits."""

FEWER_CLIENTS = ("--set", "load.processes=2")
"""Half of the study's: fewer processes to start in each of its 50 trials."""

BUILT_ONCE = {"CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
"""Halves the compile time: the copy is built once and never debugged."""


@functools.cache
def target() -> Path:
    """Return where the extended engine is built."""
    return target_of_its_own("extending", "debug")


def cargo(command: str, folder: Path, *arguments: str) -> str:
    """Run cargo on the extended engine; assert success and return the output."""
    manifest = str(folder / "engine" / "Cargo.toml")
    done = subprocess.run(
        ["cargo", command, "--locked", "--quiet", "--manifest-path", manifest, *arguments],
        env=os.environ | BUILT_ONCE | {"CARGO_TARGET_DIR": str(target())},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def environment(extended: Path) -> dict[str, str]:
    """Return an environment in which the extended lab finds the extended engine."""
    engine = target() / "debug" / "thunderherd-engine"
    return os.environ | {"THUNDERHERD_ENGINE": str(engine), "PYTHONPATH": str(extended / "lab")}


def thunderherd(arguments: list[str], environment: dict[str, str], folder: Path) -> str:
    """Run the command and return its output."""
    command = [sys.executable, "-m", "thunderherd", *arguments]
    result = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_new_entries_are_listed(extended: Path, environment: dict[str, str]) -> None:
    listed = thunderherd(["list", "--json"], environment, extended)
    for name in (
        *("prefork_flock", "recv_chunks", "send_chunks", "ping", "one_client", "forks"),
        "empty_poll",
        "loopback6",
    ):
        assert f'"{name}"' in listed


def test_the_new_counter_counts(extended: Path, environment: dict[str, str]) -> None:
    load = ["load", "bytes", "--connect", "127.0.0.1:1"]
    counted = subprocess.run(
        [environment["THUNDERHERD_ENGINE"], "count", "--count", "forks", "--", *load],
        capture_output=True,
        text=True,
        timeout=60,
    )
    life = json.loads(counted.stdout.splitlines()[-1])
    # If the counter is forbidden, the line has the reason.
    assert life["counters"]["forks"] or life["unavailable"]["forks"], life


def test_the_new_limit_is_measured(extended: Path, environment: dict[str, str]) -> None:
    words = ["limits", "empty_poll", "--json", "--duration", "20ms", "--rounds", "2"]
    (figure,) = json.loads(thunderherd(words, environment, extended))["figures"]
    assert (figure["limit"], figure["rounds"]) == ("empty_poll", 2)
    assert figure["value"] > 0


def test_new_primitives_work_in_server_and_load(extended: Path, environment: dict[str, str]) -> None:
    engine = environment["THUNDERHERD_ENGINE"]
    serve = [
        engine,
        "serve",
        "prefork_flock",
        "--primitive",
        "send_chunks",
        "--chunk",
        "100",
        "--listen",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(
        [*serve, "--control"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin and server.stdout
        ready = server.stdout.readline()
        port = re.search(r'"port":(\d+)', ready)
        assert port, ready
        load = [
            "load",
            "bytes",
            "--primitive",
            "send_chunks",
            "--receive",
            "recv_chunks",
            "--connect",
            f"127.0.0.1:{port[1]}",
            "--loops",
            "20",
        ]
        output = thunderherd(load, environment, extended)
        server.stdin.close()
        summary = server.stdout.read()
    assert "100 of 100 " in output
    # 4,000 bytes in chunks of 100.
    assert '"send_calls":4000' in summary
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        # The tests that go through all primitives; others take as long and wait for timeouts. To compile them
        # takes as long as all else here, and the conformance suite also goes through all primitives.
        pytest.param(
            ("--lib",),
            (
                "primitives::sending_tests",
                "primitives::receiving_tests",
                "primitives::connection_tests::every_primitive_survives_partial_writes",
            ),
            marks=pytest.mark.thorough,
        ),
        # The conformance suite takes only one name at a time.
        (("--test", "conformance"), ("prefork_flock::ping",)),
        # Every load with every primitive, the new ones included, on the new workload.
        (("--test", "conformance"), ("clients_of::ping",)),
    ],
    ids=["primitives", "conformance", "clients"],
)
def test_new_entries_pass_the_tests_of_all_entries(
    extended: Path, tests: tuple[str, ...], names: tuple[str, ...]
) -> None:
    told = cargo("test", extended, *tests, "--", *names)
    (passed,) = re.findall(r"test result: ok\. (\d+) passed", told)
    assert int(passed) >= len(names), "a name that matches nothing would pass as well"


@pytest.mark.thorough
def test_the_new_study_runs_the_new_workload_on_the_new_design(
    extended: Path, environment: dict[str, str]
) -> None:
    """Run the study with the new load and its sweep, judge its claim and answer its question."""
    output = thunderherd(
        ["run", "ping.toml", "--quick", "--seed", "1", "--out", "out", *WITHOUT_LIMITS, *FEWER_CLIENTS],
        environment,
        extended,
    )
    assert "flock" in output
    summary = json.loads((extended / "out" / "summary.json").read_text())
    at_points = [each["name"] for each in summary["contenders"] if each["sweep"]]
    assert at_points == ["flock@workers=2", "flock@workers=4", "flock@workers=30"]
    judged = thunderherd(["claims", "ping.toml", "out"], environment, extended)
    assert "H1" in judged
    assert re.search(r"30 workers .* 4: \d", " ".join(judged.split()))


def test_study_runs_in_the_new_lab(extended: Path, environment: dict[str, str]) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")
    study = [
        "run",
        "ping.toml",
        "--quick",
        "--seed",
        "1",
        "--out",
        "ipv6",
        "--set",
        "sizes.quick.parts=['main']",
        # The study only has to run in the new lab; nothing is compared.
        "--set",
        "repetitions=1",
        *WITHOUT_LIMITS,
    ]
    thunderherd([*study, "--lab", "loopback6"], environment, extended)
    summary = json.loads((extended / "ipv6" / "summary.json").read_text())
    assert summary["machine"]["labs"] == {"loopback6": {"address": "[::1]"}}
    assert summary["trials"]["invalid"] == 0


@pytest.mark.thorough
def test_the_new_examination_is_on_the_page(extended: Path, environment: dict[str, str]) -> None:
    # The exit status is about the bundled studies, not about this examination.
    done = subprocess.run(
        [sys.executable, "-m", "thunderherd", "doctor", "--json"],
        env=environment, cwd=extended, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    (finding,) = json.loads(done.stdout)["examinations"]["memory"]["findings"]
    assert finding["name"] == "swappiness"
    assert finding["seen"].isdigit()
