"""Servers that break one rule fail the case of that rule, and pass the others; our designs and nginx pass."""

from __future__ import annotations

import json
import re
import resource
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made.paths import DATA, ROOT
from made.refusals import codes_printed

from thunderherd.cli import main
from thunderherd.conform.formats import as_json, as_junit
from thunderherd.conform.server import Subject, typed_server
from thunderherd.conform.verdicts import Conformance, conformance
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import OwnServer, catalogue
from thunderherd.engine.conform_lines import Conformed
from thunderherd.engine.conformance import cases_of
from thunderherd.show.terminal.conformance import print_conformance
from thunderherd.text.layout import make_console

pytestmark = pytest.mark.usefixtures("use_engine")

PATIENCE = 3.0
"""Only faults take this long."""


def broken(fault: str) -> str:
    """The command of a server with a fault."""
    return shlex.join([sys.executable, str(DATA / "broken_servers.py"), fault, "{port}"])


def judged(subject: Subject, failing: set[int], numbers: Sequence[int] = ()) -> Conformance:
    """The verdicts on a server; with more patience if others than these cases fail.

    On a busy machine a server without the fault may take long, too.
    """
    found = conformance(subject, numbers=numbers, patience=PATIENCE)
    if {each.number for each in found.failed} == failing and not found.of("warned", "not_judged"):
        return found
    return conformance(subject, numbers=numbers, patience=5 * PATIENCE)


BROKEN = [
    ("closes_early", "bytes", {1, 2, 5, 6, 12}),
    ("one_byte_more", "bytes", {1, 2, 3, 4, 5, 6, 12, 14, 15}),
    ("leaks_a_descriptor", "bytes", {15}),
    ("out_of_order", "bytes", {5}),
    ("mishandles_split", "bytes", {3, 4, 5, 13, 17}),
    ("crashes_on_giant", "bytes", {9}),
    ("ignores_sigterm", "bytes", {16}),
    ("body_of_head", "http", {1, 2, 5, 6, 36}),
    ("ignores_close", "http", {38}),
]
"""Faults, and the cases that see them: all that the fault touches, and no others. `ignores_half_close` is the
server of the documentation's example."""


OTHERS = {1, 2, 6, 7, 10}
"""Cases that many servers of [`ALSO_BROKEN`] are run against beside those that see the fault."""

ALSO_BROKEN = [
    ("sends_once", "bytes", {12}),
    ("times_out_in_request", "bytes", {13}),
    ("reads_stale_bytes", "bytes", {2, 5}),
    ("reads_once_an_edge", "bytes", {5}),
    ("dies_of_sigpipe", "bytes", {11}),
    ("dies_of_silence", "bytes", {7}),
    ("resets_at_the_end", "bytes", {6}),
    ("shares_a_length", "bytes", {14}),
    ("leaks_on_garbage", "bytes", {15}),
    ("leaks_on_silence", "bytes", {15}),
    ("leaks_memory", "bytes", {15}),
    ("leaks_a_thread", "bytes", {15}),
    ("leaks_few_descriptors", "bytes", {15}),
    ("leaves_zombies", "bytes", {15}),
    ("dies_of_a_pause", "bytes", {17}),
    ("sums_digits", "bytes", {1}),
    ("ends_at_zero", "echo", {1, 2, 6}),
    ("strips_lines", "echo", {1}),
    ("dies_of_quit", "echo", {8, 15}),
    ("loses_updates", "bucket", {49}),
    ("counts_requests", "bucket", {49}),
    ("shares_a_bucket", "bucket", {49}),
    ("replies_the_delay", "bucket", {49}),
    ("replies_at_once", "blast", {50}),
    ("counts_connections", "blast", {50}),
    ("counts_nonsense", "blast", {50}),
    ("names_the_idle", "top_processes", {51}),
    ("wrong_order", "top_processes", {51}),
    ("names_nobody", "top_processes", {51}),
    ("says_seconds", "top_processes", {51}),
    ("echoes_once", "echo", {12}),
    ("teapot", "http", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
    ("replies_once", "http", {12}),
    ("mishandles_late_split", "http", {3, 4}),
    ("receives_once", "http", {3, 4, 5}),
    ("cuts_heads", "http", {43}),
    ("waits_for_bodies", "http", {44}),
    ("crashes_on_fold", "http", {24}),
    ("knows_no_absolute_form", "http", {25}),
    ("takes_two_lengths", "http", {33}),
    ("ignores_chunks", "http", {34}),
    ("refuses_lower_case", "http", {34}),
    ("refuses_upper_case", "http", {34}),
    ("ignores_body", "http", {35}),
    ("says_too_little", "http", {1, 2, 6, 40}),
    ("says_two_lengths", "http", {1, 2, 6, 7, 10, 40}),
    ("keeps_1_0", "http", {37}),
    ("ignores_list", "http", {38}),
    ("knows_one_case", "http", {41}),
    ("keeps_blanks", "http", {42}),
]
"""As `BROKEN`, without all cases that the fault does not touch."""


@pytest.mark.parametrize(
    ("fault", "workload", "failing"), ALSO_BROKEN, ids=[fault for fault, *_ in ALSO_BROKEN]
)
def test_a_broken_server_fails_by_the_cases_of_the_fault(
    fault: str, workload: str, failing: set[int]
) -> None:
    path = f"/?{'x' * 250}" if fault == "mishandles_late_split" else None
    subject = typed_server(broken(fault), workload, catalogue(), path=path)
    numbers = (failing | OTHERS) & {each.number for each in cases_of(workload)}
    found = judged(subject, failing, sorted(numbers))
    assert {each.number for each in found.failed} == failing
    assert found.of("warned", "not_judged") == []


BADLY_FRAMED = [
    ("reads_signs", {32}),
    ("knows_one_coding", {34}),
    ("refuses_extensions", {34}),
    ("knows_no_trailers", {34}),
    ("wants_host_of_1_0", {37}),
    ("waits_unless_lower_case", {44}),
    ("wraps_at_32_bits", {45}),
    ("wraps_at_64_bits", {45}),
    ("reads_any_coding", {46}),
    ("takes_no_digits_for_0", {47}),
    ("takes_0x", {47}),
    ("wraps_chunks", {47}),
    ("skips_ends_of_chunks", {47}),
    ("reads_indented_fields", {52}),
    ("both_lengths", {48}),
    ("chunks_for_1_0", {48}),
    ("length_of_204", {48}),
    ("body_of_304", {48}),
    ("reads_chunks", set()),
    ("reads_lengths", set()),
]
"""Servers of HTTP that take a length, a coding or a line for another, or send a wrong one, and the cases that
see it. The last ones do nothing wrong."""


@pytest.mark.parametrize(("fault", "failing"), BADLY_FRAMED, ids=[fault for fault, _ in BADLY_FRAMED])
def test_a_badly_framed_message_fails_by_the_case_of_the_fault(fault: str, failing: set[int]) -> None:
    subject = typed_server(broken(fault), "http", catalogue())
    found = judged(subject, failing, [1, 2, 5, 6, *range(31, 41), *range(44, 49), 52])
    assert {each.number for each in found.failed} == failing
    assert found.of("warned", "not_judged") == []


@pytest.mark.parametrize(
    ("fault", "workload", "case", "request_line", "ending"),
    [
        ("crashes_on_giant", "bytes", 9, '"111', "status 1"),
        ("dies_of_silence", "bytes", 7, None, "status 1"),
        ("dies_of_sigpipe", "bytes", 11, '"16384"', "SIGPIPE"),
        ("dies_of_quit", "echo", 8, '"quit"', "SIGSEGV"),
    ],
)
def test_a_dead_server_is_told_by_its_ending_and_the_request_before(
    fault: str, workload: str, case: int, request_line: str | None, ending: str
) -> None:
    found = conformance(typed_server(broken(fault), workload, catalogue()), numbers=[case], patience=PATIENCE)
    (line,) = found.failed
    assert line.actual is not None and ending in line.actual and "refused" not in line.actual
    assert (line.request or "").startswith(request_line or "") and (line.request or "") in line.actual


def test_a_path_that_the_server_has_not_fails_unless_the_load_judges_statuses() -> None:
    subject = typed_server(broken("none_http"), "http", catalogue(), path="/missing")
    found = conformance(subject, numbers=[1, 2])
    assert [each.number for each in found.failed] == [1, 2]
    assert " --path /missing " in found.replay(found.failed[0])
    assert conformance(subject, numbers=[1, 2], plain=True, any_status=True).failed == []


@pytest.mark.parametrize("server", ["counts", "grows", "takes_turns"])
def test_a_body_that_changes_is_legal(server: str) -> None:
    subject = typed_server(broken(server), "http", catalogue())
    found = judged(subject, set(), [1, 2, 5, 25, 36, 40])
    assert [(each.number, each.actual) for each in found.of("failed", "warned", "not_judged")] == []
    assert 40 in [each.number for each in found.of("allowed")]


def test_a_server_of_http_may_give_up_a_half_closed_connection() -> None:
    subject = typed_server(broken("gives_up_half_closed"), "http", catalogue())
    found = conformance(subject, numbers=[6], patience=PATIENCE)
    assert [(each.number, each.verdict) for each in found.cases] == [(6, "warned")]


def test_a_server_may_read_chunked_bodies() -> None:
    subject = typed_server(broken("reads_chunks"), "http", catalogue())
    found = conformance(subject, numbers=[1, 34], patience=PATIENCE)
    assert [(each.number, each.verdict) for each in found.cases] == [(1, "passed"), (34, "passed")]


@pytest.mark.parametrize(("fault", "workload", "failing"), BROKEN, ids=[fault for fault, *_ in BROKEN])
def test_a_broken_server_fails_by_the_number_of_the_rule(
    fault: str, workload: str, failing: set[int]
) -> None:
    found = judged(typed_server(broken(fault), workload, catalogue()), failing)
    assert {each.number for each in found.failed} == failing
    assert found.of("warned", "not_judged") == []
    assert [each.number for each in found.cases] == [each.number for each in cases_of(workload)]


def test_the_example_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fails by case 6 alone, and is printed as it stands there."""
    page = (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```console\n\$ thunderherd (.*?)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "server.py").write_text(
        "import runpy, sys\n"
        "sys.argv.insert(1, 'ignores_half_close')\n"
        f"runpy.run_path({str(DATA / 'broken_servers.py')!r}, run_name='__main__')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main.run_command(shlex.split(example[0])) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "".join(f"{line.rstrip()}\n" for line in lines) == example[1]


@pytest.mark.parametrize(
    ("fault", "workload"),
    [
        ("none", "bytes"),
        ("none_echo", "echo"),
        ("none_http", "http"),
        ("none_bucket", "bucket"),
        ("none_blast", "blast"),
        # A server in Python that looks at all processes for each of 200 clients takes ten seconds.
        pytest.param("none_top", "top_processes", marks=pytest.mark.thorough),
    ],
)
def test_the_same_server_without_a_fault_passes(fault: str, workload: str) -> None:
    found = conformance(typed_server(broken(fault), workload, catalogue()), patience=5 * PATIENCE)
    assert [(each.number, each.actual) for each in found.of("failed", "warned", "not_judged")] == []


NGINX = """
daemon off; user root; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
  uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_nginx_passes(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello\n" * 1000)
    (tmp_path / "run").write_text(
        f"#!/bin/sh\ncat > {tmp_path}/conf <<end\n{NGINX.format(folder=tmp_path, port='$1')}end\n"
        f"exec nginx -c {tmp_path}/conf -p {tmp_path} -e {tmp_path}/errors\n"
    )
    (tmp_path / "run").chmod(0o755)
    found = conformance(typed_server(f"{tmp_path}/run {{port}}", "http", catalogue()), patience=PATIENCE)
    assert [(each.number, each.actual) for each in found.of("failed", "not_judged")] == []


def test_a_design_passes_with_the_stop(some_catalogue: Catalogue) -> None:
    name = some_catalogue.defaults.design
    found = conformance(typed_server(name, None, catalogue()), numbers=[1, 6, 16])
    assert [(each.number, each.verdict) for each in found.cases] == [
        (1, "passed"), (6, "passed"), (16, "passed"),
    ]  # fmt: skip


def test_a_running_server_is_neither_started_nor_stopped() -> None:
    with OwnServer(shlex.split(broken("ignores_half_close")), name="broken") as server:
        url = f"bytes://{server.ready.address}"
        found = conformance(typed_server(url, None, catalogue()), numbers=[6, 7, 16], patience=PATIENCE)
        server.snapshot()
    assert [(each.number, each.verdict) for each in found.cases] == [
        (6, "failed"), (7, "passed"), (16, "not_judged"),
    ]  # fmt: skip
    assert found.replay(found.failed[0]) == f"thunderherd conform {url} --case 6 --seed 1"


def test_the_line_of_a_failed_case_replays_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["conform", broken("one_byte_more"), "--case", "1,7", "--seed", "5"]
    assert main.run_command([*words, "--junit", str(tmp_path / "junit.xml")]) == 1
    page = capsys.readouterr().out
    assert page.startswith("1 of 2 cases passed; 1 failed: 1, correct replies.\n")
    replay = re.search(r"^  replay +thunderherd (.*)$", page, re.M)
    assert replay
    assert main.run_command([*shlex.split(replay[1]), "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["failed"] == [1]
    assert f"actual    {again['cases'][0]['actual']}" in page
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite.iter("testcase")] == [True, False]


def test_a_server_that_does_not_start_is_an_error_for_ci(tmp_path: Path) -> None:
    """CI reads why, instead of finding no file."""
    words = ["conform", shlex.join([sys.executable, "-c", "raise SystemExit(3)"]), "--workload", "bytes"]
    assert main.run_command([*words, "--junit", str(tmp_path / "junit.xml")]) == 1
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    (error,) = suite.iter("error")
    assert "status 3" in (error.get("message") or "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["epol"], "conform.unknown_server"),
        (["./no-such-program {port}"], "conform.no_program"),
        (["'unclosed {port}"], "conform.invalid_command"),
        (["gopher://127.0.0.1:70/"], "conform.unknown_scheme"),
        (["http://"], "conform.invalid_url"),
        (["http://127.0.0.1:80/", "--workload", "echo"], "conform.other_scheme"),
        (["epoll", "--workload", "ftp"], "conform.unknown_workload"),
        (["epoll", "--case", "six"], "conform.invalid_case"),
        (["epoll", "--timeout", "5"], "quantity.no_unit"),
        (["epoll", "--timeout", "9ms"], "conform.invalid_timeout"),
        (["epoll", "--timeout", "11min"], "conform.invalid_timeout"),
        (["epoll", "--case", "33"], "conform.unknown_case"),
        (["epoll", "--path", "/x"], "conform.no_paths"),
        (["epoll", "--workload", "http", "--path", "x y"], "conform.invalid_path"),
        (["http://127.0.0.1:1/", "--path", "/x"], "conform.path_of_url"),
        (["bytes://127.0.0.1:1/"], "host.not_running"),
    ],
)
def test_mistakes_have_codes(words: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["conform", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and codes_printed(printed.err) == [code]


def test_a_command_that_does_not_listen_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["conform", "sh -c 'exit 3' {port}"]) == 1
    assert codes_printed(capsys.readouterr().err) == ["host.ended_early"]


# What is shown ----------------------------------------------------------------------------------------------


@pytest.fixture
def some_verdicts() -> Conformance:
    def case(number: int, verdict: str, expected: str | None = None, actual: str | None = None) -> Conformed:
        known = next(each for each in cases_of() if each.number == number)
        fields = known.model_dump(include={"number", "name", "rule", "source"})
        return Conformed.model_validate(
            {**fields, "verdict": verdict, "expected": expected, "actual": actual, "elapsed_ns": 1_500_000}
        )

    return Conformance(
        typed_server("sh server.sh {port}", "http", catalogue()),
        7,
        (
            case(1, "passed"),
            case(6, "failed", "a reply of 4000 bytes", "the end after 12 bytes"),
            case(12, "allowed", None, "another client had to wait for the slow one"),
            case(16, "not_judged", None, "this command did not start the server"),
            case(27, "warned", "status 501 or 405", "status 400"),
        ),
    )


def test_the_page(
    some_verdicts: Conformance,
    golden: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_conformance(some_verdicts, make_console(sys.stdout))
    lines = capsys.readouterr().out.splitlines()
    golden("conform/conformance.txt", "".join(f"{line.rstrip()}\n" for line in lines))


def test_programs_get_every_verdict(some_verdicts: Conformance) -> None:
    found = as_json(some_verdicts)
    assert found["failed"] == [6]
    assert [each["verdict"] for each in found["cases"]] == [
        "passed", "failed", "allowed", "not_judged", "warned",
    ]  # fmt: skip
    assert found["cases"][1]["replay"].endswith(" --workload http --case 6 --seed 7")
    suite = ElementTree.fromstring(as_junit(some_verdicts))
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "skipped": "1"}
    cases = [(case.get("name"), [part.tag for part in case]) for case in suite]
    assert cases[1] == ("6 half-closed connection", ["failure"])
    assert [parts for _, parts in cases] == [[], ["failure"], [], ["skipped"], ["system-out"]]


FLOODS = """
import os, socket, threading
listener = socket.create_server((os.environ["HOST"], int(os.environ["PORT"])))
def serve(client):
    try:
        client.recv(4096)
        while True:
            client.sendall({piece})
    except OSError:
        pass
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@pytest.mark.parametrize(
    ("workload", "piece"),
    [
        ("bytes", 'b"x" * 65536'),
        ("http", 'b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\nffffffffffffffff\\r\\n"'),
    ],
)
def test_a_reply_without_end_is_a_fault_and_takes_no_memory(workload: str, piece: str) -> None:
    """The conformance cases receive at most 16 MiB on a connection."""
    command = shlex.join([sys.executable, "-c", FLOODS.replace("{piece}", piece)])
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    found = conformance(typed_server(command, workload, catalogue()), numbers=[1, 9], patience=1.0)
    assert 1 in {each.number for each in found.failed}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before < 200_000  # KiB
