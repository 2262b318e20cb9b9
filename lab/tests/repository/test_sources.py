"""Every row of docs/generated/sources.md works: its commands are run as they are, on a free port instead of
the source's.

Python takes half a second of CPU time to start. Only one row of each source starts the installed command. In
the others, `serve` and `load` start the engine that the command becomes, and every other command runs in this
process.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from made.source_checks.common import Run, check_of, checks_of, sources_with_checks
from made.stand_in import answered

from handbook.pages.sources import DOCUMENT, SourceRow, document, rows_of, source_rows
from thunderherd.engine.client import catalogue, find_engine
from thunderherd.labs import KINDS
from thunderherd.study.file.names import bundled_studies

ROOT = Path(__file__).resolve().parents[3]
THUNDERHERD = Path(sys.executable).with_name("thunderherd")
LISTENING_SECONDS = 60.0
COMMAND_SECONDS = 600.0
STOPPING_SECONDS = 60.0

ROWS = source_rows()

RESULTS = "small"
RUN_OF_A_STUDY = rf"thunderherd run .* --out {RESULTS}"
JUDGED_ALONE = ("--set", "limits=0", "--set", "counting_cost.trials=0")
"""No row of a source is about machine limits or the cost of counting, which take half a minute."""

PACED = {
    "cse638-pa02": ("--set", "load.settings.think=2ms"),
    "erss-hw4": ("--set", "load.settings.think=200ms"),
}
"""In the runs of these studies clients pause between requests, which leaves the CPUs to other tests."""

QUICKER = " --unit 1ms"
"""A server of erss-hw4 spins for every delay, whose unit is a second."""
IN_REAL_TIME = "erss-hw4-protocol-delay"
"""The only row about the length of the unit."""
PAUSING = {"erss-hw4-measurement-throughput": " --think 1s"}
"""Of these rows the window is long; clients that pause leave the CPUs to other tests."""

COUNTED = {
    "cse638-pa02": "zero_copy@sizes_8=64",
    "css503-p4": "multi_write@buffers=15",
    "erss-hw4": "pre@delay=small",
    "unp-ch30": "prefork",
}
"""Of these studies the contender that has a counted trial in a row's run, in the place of some dozens: that
there are such trials is seen by one, and no row is about the others."""

made: dict[tuple[str, ...], tuple[str, Path]] = {}
"""Runs of studies that rows have made, and what they did with the results: by all commands of a row up to
one, what that said, and the results as it left them."""

told: dict[tuple[str, str], str] = {}
"""What the commands of rows have said, by those of the server and of the client."""


def name_of(row: SourceRow) -> str:
    return row.name


STARTED = {
    next(row.name for row in ROWS if row.document == each and row.server)
    for each in {row.document for row in ROWS}
}
"""Of each source the first row with a server: its commands start the installed command."""


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_row_is_complete(row: SourceRow) -> None:
    assert row.faults() == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.test], ids=name_of)
def test_named_test_exists(row: SourceRow) -> None:
    found = re.fullmatch(r"(?P<file>[\w/.]+)::(?P<function>\w+)(\[(?P<name>[\w-]+)\])?", row.test)
    assert found, f"{row.where}: test is {row.test!r}; it should be FILE::TEST or FILE::TEST[ROW]"
    path = ROOT / found["file"]
    assert path.is_file(), f"{row.where}: no file {path}"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert found["function"] in functions, f"{row.where}: {path.name} has no {found['function']}"
    if path == Path(__file__):
        assert found["name"] == row.name, f"{row.where}: the test of another row"


@pytest.mark.parametrize("source", sources_with_checks())
def test_source_checks_refer_to_existing_rows(source: str) -> None:
    there = {row.name for row in ROWS if row.client and row.document == source}
    checks = checks_of(source)
    assert checks and checks.keys() <= there


def test_names_differ() -> None:
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)


def test_document_is_up_to_date() -> None:
    written = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    assert written == document(source_rows()), f"{DOCUMENT} is out of date; type: make docs"


LONG = {
    "cse638-pa02-isolation-namespaces",
    "cse638-pa02-measurement-latency",
    "cse638-pa02-measurement-throughput",
    "css503-p4-claim-discussion",
    "css503-p4-experiment-matrix",
    "css503-p4-experiment-repetition",
    "css503-p4-output-tables",
    "erss-hw4-claim-findings",
    "erss-hw4-experiment-cores",
    "erss-hw4-experiment-delay",
    "unp-ch30-question-pools",
}
"""Rows whose commands run a study for 15 seconds or more. Other rows run the same commands for less time."""


LONG_COMMANDS = {(row.server, row.client) for row in ROWS if row.name in LONG}
"""Other rows have the same commands, and would wait as long."""


def with_marks(row: SourceRow) -> ParameterSet:
    is_long = (row.server, row.client) in LONG_COMMANDS
    return pytest.param(row, id=row.name, marks=[pytest.mark.thorough] if is_long else [])


def test_long_rows_exist() -> None:
    assert {row.name for row in ROWS if row.client} >= LONG


@pytest.mark.parametrize("row", [with_marks(row) for row in ROWS if row.client])
def test_commands(row: SourceRow, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert THUNDERHERD.is_file(), f"no {THUNDERHERD}; type: make build"
    skip_without_namespaces(row)
    commands = row.server, row.client
    # Where nothing is looked at meanwhile, another row's commands that are the same have said all there is.
    if commands not in told or row.name in checks_of(row.document):
        if "--lab" in row.server:
            # A load joins the only server in a lab that its own engine runs: other tests run another's.
            request.getfixturevalue("copied_engine")
        told[commands] = what_is_said(quicker(row), tmp_path)
    said = told[commands]
    assert re.search(row.expect, said), f"{row.where}: expected {row.expect!r} in:\n{said}"


def quicker(row: SourceRow) -> SourceRow:
    """Return the row with commands that use less CPU time for the same output."""
    is_slow = "--workload bucket" in row.server and "--unit" not in row.server
    server = row.server + QUICKER if is_slow and row.name != IN_REAL_TIME else row.server
    update = {"server": server, "client": row.client + PAUSING.get(row.name, "")}
    return row.model_copy(update=update)


def what_is_said(row: SourceRow, tmp_path: Path) -> str:
    """What the commands of a row say, the server's first, while the row's check looks at them."""
    port = port_of(row)
    free = free_port()
    started = row.name in STARTED
    with server(replaced(row.server, port, free), tmp_path, started) as (process, printed):
        run = Run(row, tmp_path, free, process)
        with check_of(run):
            commands = [replaced(command, port, free) for command in row.client.split(" && ")]
            said = "".join(
                run_to_its_end(tuple(commands[:end]), tmp_path, started)
                for end in range(1, len(commands) + 1)
            )
    return printed.read_text() + said if row.server else said


def skip_without_namespaces(row: SourceRow) -> None:
    """Where this machine has no lab veth, for a row with a command in it, or of a study that has it."""
    words = set(shlex.split(f"{row.server} {row.client}"))
    studies = [path.read_text() for name, path in bundled_studies().items() if name in words]
    why_not = KINDS["veth"].unavailable(catalogue())
    if why_not and ("veth" in words or any('kind = "veth"' in study for study in studies)):
        pytest.skip(why_not)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_of(row: SourceRow) -> str | None:
    """The port that a row's server listens on; None where it has no server."""
    found = re.search(r"--port (\d+)\b", row.server)
    assert found or not row.server, f"{row.where}: the server says no --port"
    return found[1] if found else None


def replaced(command: str, port: str | None, free: int) -> str:
    """The command as the document has it, on a free port."""
    return command if port is None else re.sub(rf"\b{port}\b", str(free), command)


def words_of(command: str) -> list[str]:
    """Return the words of a command without the program's name."""
    program, *rest = shlex.split(command)
    assert program == "thunderherd", f"{command}: a command of ours begins with thunderherd"
    return rest


def executable(words: list[str], started: bool) -> Path | None:
    """Return the program that runs a command: the installed command, or the engine if the command only
    becomes the engine; None if this process can run it."""
    if started or ("--lab" in words and words[0] in ("serve", "load")):
        return THUNDERHERD
    return find_engine() if words[0] in ("serve", "load", "count") else None


def run_to_its_end(commands: tuple[str, ...], directory: Path, started: bool) -> str:
    """What the last of these commands says. A run of a study that several rows have is made once, and so is
    what several do with its results; they are copied."""
    if commands not in made:
        said = say(commands[-1], directory, started)
        if not re.fullmatch(RUN_OF_A_STUDY, commands[0]):
            return said
        made[commands] = said, Path(tempfile.mkdtemp(dir=directory.parent)) / RESULTS
        shutil.copytree(directory / RESULTS, made[commands][1])
    else:
        shutil.copytree(made[commands][1], directory / RESULTS, dirs_exist_ok=True)
    return made[commands][0]


def say(command: str, directory: Path, started: bool) -> str:
    words = words_of(command)
    if re.fullmatch(RUN_OF_A_STUDY, command):
        words += smaller(words[1])
    program = executable(words, started)
    if program is None:
        with contextlib.chdir(directory):
            done = answered(*words)
    else:
        done = subprocess.run(
            ["thunderherd", *words],
            executable=program,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def smaller(study: str) -> tuple[str, ...]:
    """Return the words that make a run of a study smaller in what no row is about."""
    counted = COUNTED.get(study)
    only = ("--set", f'counting.contenders=["{counted}"]') if counted else ()
    return (*JUDGED_ALONE, *PACED.get(study, ()), *only)


@contextlib.contextmanager
def server(command: str, directory: Path, started: bool) -> Iterator[tuple[int, Path]]:
    """Runs a server (none if the command is empty) and interrupts it at the end; gives its process (0 for
    none) and what it prints."""
    output, errors = directory / "server.out", directory / "server.err"
    if not command:
        yield 0, output
        return
    words = words_of(command)
    with output.open("w") as stdout, errors.open("w") as stderr:
        process = subprocess.Popen(
            ["thunderherd", *words],
            executable=executable(words, started),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            process_group=0,
        )
    try:
        wait_for_listening(process, output, errors)
        yield process.pid, output
        # As a terminal does at Ctrl-C: with --lab the engine is a child of the lab's process.
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(timeout=STOPPING_SECONDS)
        assert status == 0, f"{command} ended with {status}:\n{output.read_text()}{errors.read_text()}"
    finally:
        # Its children die with it.
        process.kill()
        process.wait()


def wait_for_listening(process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
    deadline = time.monotonic() + LISTENING_SECONDS
    while not output.read_text().startswith("listening on "):
        ended = process.poll()
        assert ended is None, f"the server ended with {ended}:\n{output.read_text()}{errors.read_text()}"
        assert time.monotonic() < deadline, f"the server does not listen:\n{errors.read_text()}"
        time.sleep(0.01)


# The checklists themselves ----------------------------------------------------------------------------------

HEAD = "document,area,item,detail,source,original,server,client,expect,test,not_built\n"


def only_row(directory: Path, text: str) -> SourceRow:
    (directory / "checklist.csv").write_text(HEAD + text)
    (row,) = rows_of(directory)
    return row


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("d,a,i,x,document,,,,,,\n", "d,a,i,x,document,,,,,,later\n"),
        (
            "d,a,i,x,document,,,thunderherd list,,t.py::t,\n",
            "d,a,i,x,document,,,thunderherd list,designs,t.py::t,\n",
        ),
        (
            "d,a,i,x,document,,,thunderherd list,designs,,\n",
            "d,a,i,x,document,,,thunderherd list,designs,t.py::t,\n",
        ),
        ("d,a,i,x,document,,thunderherd serve prefork,,,,later\n", "d,a,i,x,document,,,,,,later\n"),
    ],
    ids=["no command and no reason", "no expected output", "no test", "a server without a client"],
)
def test_faulty_rows_are_reported(text: str, mended: str, tmp_path: Path) -> None:
    (found,) = only_row(tmp_path, text).faults()
    assert found.startswith("checklist.csv row 1: d-a-i ")
    assert only_row(tmp_path, mended).faults() == []


def test_row_that_says_why_it_is_not_built_is_complete(tmp_path: Path) -> None:
    assert only_row(tmp_path, "d,a,i,x,document,,,,,,the sweep is not there\n").faults() == []


def test_row_has_the_notes_about_its_item(tmp_path: Path) -> None:
    (tmp_path / "inconsistencies.csv").write_text(
        "document,as_printed,finding,concerns\nd,1.93,is wrong,row 7; checklist i\n"
    )
    assert only_row(tmp_path, "d,a,i,x,document,,,,,,later\n").note == "1.93: is wrong"
