"""Programs and files of the user's own on other hosts: what they measure, and what agents refuse."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made.hosts.losses import lost_in_trial
from made.hosts.network import Network, assert_measured
from made.interrupted import eventually, left_of
from made.refusals import refused
from made.small_studies import one_block
from typer.testing import CliRunner

from thunderherd.cli.main import app
from thunderherd.engine.client import OwnServer, catalogue
from thunderherd.engine.own_load import OwnLoad, run_program
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.programs import Allowed, Program
from thunderherd.errors import UserError
from thunderherd.files import TEMPORARY
from thunderherd.hosts.addresses import HostAddress, parse_host
from thunderherd.hosts.agent import check_command
from thunderherd.hosts.cluster import Cluster
from thunderherd.machine.description import describe
from thunderherd.records.directory import SavedRun, load
from thunderherd.records.trial import TrialRecord
from thunderherd.run.own_programs import prepared
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import check_same, run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.study.own_programs import check_commands
from thunderherd.trial.caveats import PASSED_CASES
from thunderherd.trial.hosts import check_hosts, sent_at_most
from thunderherd.trial.sites import sites_of

pytestmark = pytest.mark.usefixtures("use_engine")

SERVER = """\
import asyncio, os, signal, subprocess, sys
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 64\\r\\n\\r\\n" + b"x" * 64
code = "# " + sys.argv[2] + "\\nimport time; time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
class Http(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))
async def main():
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await loop.create_server(Http, os.environ["AT"].partition(":")[0], int(sys.argv[1]))
    await stop.wait()
    child.kill()
    child.wait()
asyncio.run(main())
"""
OWN = f"""\
[[contenders]]
name = "own"
command = ["{sys.executable}", "server.py", "{{port}}", "MARK"]
version = ["{sys.executable}", "-c", "print(1.5)"]
environment = {{ AT = "{{host}}:{{port}}" }}
"""
EPOLL = """\
[[contenders]]
name = "epoll"
design = "epoll"
"""
SETTINGS = 'clients = 4, connections = "kept", duration = "300ms", warm_up = "50ms"'
BY_COUNT = "children = 4, loops = 25"
"""A load that ends by count: however busy the machine, a trial has all metrics of the server."""
SIZES = 'sizes = "file:sizes.csv"'
WRK = 'command = ["wrk", "-t1", "-c{clients}", "-d1", "--latency", "http://{host}:{port}/"]\nparser = "wrk"\n'


def study(
    folder: Path,
    network: Network | None,
    contenders: str,
    *,
    load_hosts: int = 1,
    kind: str = "closed_connections",
    settings: str = SETTINGS,
    load: str = "",
    server: str = "",
    all_pairs: bool = False,
) -> Study:
    (folder / "server.py").write_text(SERVER)
    text = one_block(
        "own", workload="http", kind=kind, settings=settings, load=load, server=server, all_pairs=all_pairs
    )
    if network is not None:
        host, *others = (f"netns:{each}" for each in network.names)
        text += f'[lab]\nserver = "{host}"\nload = {json.dumps(others[:load_hosts])}\n'
    path = folder / "own.toml"
    path.write_text(text + contenders.replace("MARK", mark(folder)))
    return load_study(str(path), "quick", (), catalogue())


def mark(folder: Path) -> str:
    """What the command lines of a test's processes have."""
    return f"{folder.name} of {os.getpid()}"


def measured(made: Study, out: Path) -> SavedRun:
    run_study(made, out, seed=1, allow_commands=True, show=PlainProgress(io.StringIO()))
    found = load(out)
    assert_measured(found.trials[-1])
    return found


def known(trial: TrialRecord) -> set[str]:
    """Return the metrics that a trial has, without those that need a thousand requests."""
    return {name for name, value in (trial.metrics or {}).items() if value is not None and "p99" not in name}


def test_a_server_on_a_host_is_measured_as_on_this_machine(network: Network, tmp_path: Path) -> None:
    of_hosts = study(tmp_path, network, OWN, load_hosts=2, kind="closed", settings=BY_COUNT)
    there = measured(of_hosts, tmp_path / "there")
    here = measured(study(tmp_path, None, OWN, kind="closed", settings=BY_COUNT), tmp_path / "here")
    trial, other = there.trials[-1], here.trials[-1]
    assert trial.ready is not None and other.ready is not None
    address = network.addresses[network.names[0]]
    assert trial.ready.address.startswith(f"{address}:") and trial.ready.server_pid
    assert known(trial) == known(other)
    assert trial.metrics is not None and trial.metrics["listener_holders"] == 1
    assert trial.summary is not None and trial.summary.cpu_ns > 0 and len(trial.loads) == 2
    own, of_own = (found.run.machine["servers"]["own"] for found in (there, here))
    assert own == of_own and own["version"] == "1.5" and own["sha256"]
    check_same(there.run, of_hosts, None, {**describe(find_engine()), "servers": prepared(of_hosts)})
    assert there.run.machine[PASSED_CASES]["own"] == here.run.machine[PASSED_CASES]["own"] != []
    assert network.becomes_empty() and not left_of(mark(tmp_path))


def test_a_load_generator_on_a_host_is_measured_as_on_this_machine(network: Network, tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    warm = "warm_up_connections = 5\n"
    there = measured(study(tmp_path, network, EPOLL, load=WRK + warm), tmp_path / "there")
    here = measured(study(tmp_path, None, EPOLL, load=WRK + warm), tmp_path / "here")
    (found,), (other,) = (each.trials[-1].loads for each in (there, here))
    assert found.address.startswith(f"{network.addresses[network.names[0]]}:")
    assert found.tally.requests > 0 and found.user_ns + found.system_ns > 0
    assert found.latency is not None and found.latency.p50_ns
    assert found.model_dump().keys() == other.model_dump().keys()
    trial = there.trials[-1]
    assert trial.before and trial.after and trial.before.tally and trial.after.tally
    assert 0 <= trial.after.tally.requests - trial.before.tally.requests - found.tally.requests <= 4
    assert known(trial) == known(here.trials[-1])
    assert there.run.machine["servers"]["epoll load"] == here.run.machine["servers"]["epoll load"]
    assert network.becomes_empty()


def test_files_of_requests_are_copied_to_each_host_of_the_load(network: Network, tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("bytes\n" + "300\n" * 300_000)
    made = study(
        tmp_path,
        network,
        EPOLL,
        load_hosts=2,
        kind="closed",
        server="settings = { largest_resource = 300 }\n",
        load="warm_up_connections = 5\n",
        settings=f"{BY_COUNT}, {SIZES}",
    )
    trial = measured(made, tmp_path / "run").trials[-1]
    assert len(trial.loads) == 2 and len(trial.warm_up) == 1
    for each in (*trial.loads, *trial.warm_up):
        assert each.traffic is not None and each.traffic.sizes is not None
        assert each.traffic.sizes.mean_bytes == 300
    copies = f"{TEMPORARY}*/**/*-sizes.csv"
    eventually(lambda: not [*Path(tempfile.gettempdir()).glob(copies)])


def test_a_running_server_is_watched_on_its_host(network: Network, tmp_path: Path) -> None:
    name = network.names[0]
    words = ["ip", "netns", "exec", name, str(find_engine()), "serve", "epoll", "--workload", "http"]
    address = f"{network.addresses[name]}:8080"
    with subprocess.Popen([*words, "--listen", address], stdout=subprocess.DEVNULL) as running:
        try:
            url = f'[[contenders]]\nname = "own"\nurl = "http://{address}/"\n'
            made = study(tmp_path, network, url, kind="closed", settings=BY_COUNT)
            trial = measured(made, tmp_path / "run").trials[-1]
        finally:
            running.terminate()
    assert trial.ready is not None and trial.ready.server_pid == running.pid
    assert trial.metrics is not None and trial.metrics["server_cpu_per_request"]


def test_a_running_server_of_another_machine_is_refused(network: Network, tmp_path: Path) -> None:
    def running(host: str) -> Study:
        return study(tmp_path, network, f'[[contenders]]\nname = "own"\nurl = "http://{host}:8080/"\n')

    with sites_of(running(network.here)) as sites:
        for host in (network.addresses[network.names[2]], network.here, "localhost"):
            (problem,) = refused(check_hosts, running(host), sites)
            assert problem.code == "study.other_target" and host in problem.message
        check_hosts(running(network.addresses[network.names[0]]), sites)


def test_a_lost_agent_ends_its_programs_and_their_children(network: Network, tmp_path: Path) -> None:
    def lose() -> None:
        assert len(left_of(mark(tmp_path))) >= 2
        os.kill(*network.agents(network.names[0]), signal.SIGKILL)

    def made(duration: str) -> Study:
        return study(tmp_path, network, OWN, settings=SETTINGS.replace("300ms", duration))

    trial = lost_in_trial(made, lose, lambda: None, "killed")
    assert any(f"host {network.names[0]} was lost" in each for each in trial.invalid_reasons)
    eventually(lambda: not left_of(mark(tmp_path)))
    assert network.becomes_empty()


COMMAND = f"{sys.executable} server.py {{port}}"
TYPED = {
    "run": ["run", "own.toml"],
    "compare": ["compare", COMMAND, "epoll", "--workload", "http"],
    "knee": ["knee", COMMAND, "--p99", "1ms", "--workload", "http"],
    "crossover": [
        "crossover", "own", "epoll", "--study", "own.toml", "--over", "load.settings.clients=1..16",
    ],
    "gate": ["gate", "--base", COMMAND, "--head", COMMAND, "--workload", "http"],
    "gate_study": ["gate", "own.toml", "--base", "own"],
}  # fmt: skip


@pytest.mark.parametrize("command", TYPED)
def test_each_command_runs_commands_on_hosts_only_if_the_user_allows_it(
    command: str, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(tmp_path, None, OWN + EPOLL, all_pairs=True)
    monkeypatch.chdir(tmp_path)
    hosts = ["--server", "netns:nobody", "--load", f"netns:{network.names[1]}", "--out", "out"]
    asked = [*TYPED[command], *hosts]
    for words, code in (([], "hosts.commands_not_allowed"), (["--allow-commands"], "hosts.no_namespace")):
        ended = CliRunner().invoke(app, [*asked, *words])
        assert isinstance(ended.exception, UserError), ended.output
        (problem,) = ended.exception.problems
        assert problem.code == code, problem
        assert words or all(each in problem.message for each in ("netns:nobody", "server.py"))
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


def test_commands_on_this_machine_need_no_permission(network: Network, tmp_path: Path) -> None:
    made = study(tmp_path, network, OWN)
    assert [each.code for each in refused(check_commands, made)] == ["hosts.commands_not_allowed"]
    path = tmp_path / "own.toml"
    path.write_text(path.read_text().replace(f'server = "netns:{network.names[0]}"\n', ""))
    made = load_study(str(path), "quick", (), catalogue())
    check_commands(made)


def test_before_its_first_trial_a_run_knows_what_hosts_lack_and_what_it_cannot_know(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = OWN.replace(sys.executable, "nosuch", 1) + 'directory = "there"\n'
    made = study(tmp_path, network, lacking, load=WRK.replace('"wrk", ', '"./nowrk", '))
    with sites_of(made) as sites:
        problems = refused(lambda: check_hosts(made, sites))
        monkeypatch.setattr(HostAddress, "is_here", False)
        (line,) = sent_at_most(made, sites, 2)
    assert "at most 2 trials" in line and "nowrk" in line and "connection" not in line
    assert {each.code for each in problems} == {"study.no_program", "study.no_directory"}
    server, generating = (f"netns:{each}" for each in network.names[:2])
    assert any(server in each.message and "nosuch" in each.message for each in problems)
    assert any(generating in each.message and "nowrk" in each.message for each in problems)
    assert any("there" in each.message for each in problems if each.code == "study.no_directory")


RECORDED = 'arrivals = "recorded", recording = "recording.csv", duration = "300ms", clients = 4'


@pytest.mark.parametrize(
    ("contenders", "more", "code"),
    [
        (OWN + 'build = ["make"]\n', {}, "study.not_on_hosts"),
        (OWN.replace("MARK", "{dir}"), {}, "study.not_on_hosts"),
        (OWN.replace("MARK", "{sizes}"), {"settings": f"{SETTINGS}, {SIZES}"}, "study.not_on_hosts"),
        (EPOLL, {"load": WRK.replace("{host}", "127.0.0.1")}, "study.not_on_hosts"),
        (EPOLL, {"load": WRK, "load_hosts": 2}, "study.several_load_hosts"),
        (
            EPOLL,
            {"load_hosts": 2, "kind": "open", "settings": RECORDED},
            "study.recording_in_processes",
        ),
    ],
)  # fmt: skip
def test_what_hosts_cannot_do_is_refused(
    contenders: str, more: dict[str, Any], code: str, network: Network, tmp_path: Path
) -> None:
    (tmp_path / "recording.csv").write_text("at,bytes\n0,1\n")
    assert code in {each.code for each in refused(lambda: study(tmp_path, network, contenders, **more))}


def test_both_sides_are_sampled_on_hosts(network: Network, tmp_path: Path) -> None:
    study(tmp_path, network, OWN + EPOLL, all_pairs=True)
    profiled = ("profiling.trials=1", 'profiling.event="cpu-clock"')
    made = load_study(str(tmp_path / "own.toml"), "quick", profiled, catalogue())
    results = measured(made, tmp_path / "run")
    trials = [each for each in results.profiled() if each.valid]
    if summary := results.summary:
        why = [each.why for each in (summary.profiles.contenders if summary.profiles else ()) if each.why]
        if any("perf_event" in each for each in why):
            pytest.skip(f"nothing can be sampled here: {why}")
    assert {each.contender for each in trials} == {"own", "epoll"}
    for trial in trials:
        assert trial.profiles is not None and all(each.stacks for each in trial.profiles.values()), trial
        assert {*trial.profiles} == {"server", "client"}


# What agents start ------------------------------------------------------------------------------------------

HERE, THERE, OTHER = Path("/srv/study"), "10.1.1.1", "10.9.9.9"
OF_AGENT = Path("/tmp/agent")
PROGRAM = Program(("wrk", "http://{host}:{port}/{x}"), HERE, frozenset({("AT", "{host}:{second_port}")}))
VARIABLES = {"AT": f"{THERE}:81"}


@pytest.mark.parametrize(
    ("words", "folder", "variables", "is_allowed"),
    [
        (["wrk", f"http://{THERE}:80/{{x}}"], HERE, VARIABLES, True),
        (["wrk", "http://[fe80::1]:65535/{x}"], HERE, VARIABLES, True),
        (["wrk", "http://{host}:{port}/{x}"], HERE, {"AT": "{host}:{second_port}"}, True),
        (["wrk", f"http://{OTHER}:80/{{x}}"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/../{{x}}"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/{{x}}\n"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:0/{{x}}"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:80@{OTHER}:80/{{x}}"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/{{x}}", "-c9"], HERE, VARIABLES, False),
        (["wrk"], HERE, VARIABLES, False),
        (["sh", "-c", "wrk"], HERE, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/{{x}}"], HERE.parent, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/{{x}}"], None, VARIABLES, False),
        (["wrk", f"http://{THERE}:80/{{x}}"], HERE, {}, False),
        (["wrk", f"http://{THERE}:80/{{x}}"], HERE, VARIABLES | {"LD_PRELOAD": "x"}, False),
        (["wrk", f"http://{THERE}:80/{{x}}"], HERE, {"AT": f"{OTHER}:81"}, False),
    ],
)
@pytest.mark.parametrize(
    "before",
    [
        ["generate"],
        ["profile", "--output", f"{OF_AGENT}/x", "--", "generate"],
        ["host", "--ready-line", "--"],
    ],
)
def test_an_agent_starts_programs_word_by_word(
    before: list[str], words: list[str], folder: Path | None, variables: dict[str, str], is_allowed: bool
) -> None:
    allowed = Allowed(frozenset({THERE, "fe80::1"}), frozenset({PROGRAM}))
    command = [str(find_engine()), *before, "--", *words]

    def check() -> None:
        check_command(command, allowed, folder, variables, OF_AGENT)

    if is_allowed:
        check()
    else:
        assert [each.code for each in refused(check)] == ["hosts.program_not_allowed"]


@pytest.mark.parametrize(
    ("folder", "is_allowed"),
    [
        ("/tmp/thunderherd-tmp-a1_b/files", True),
        ("/tmp/thunderherd-tmp-a1_b", False),
        ("/tmp/thunderherd-tmp-/files", False),
        ("/tmp/thunderherd-tmp-a/../files", False),
        ("/etc", False),
    ],
)
def test_the_folder_of_a_trial_is_a_temporary_one(folder: str, is_allowed: bool) -> None:
    program = Program(("nginx", "-c", "{dir}/nginx.conf"), HERE)
    command = [str(find_engine()), "host", "--", "nginx", "-c", f"{folder}/nginx.conf"]
    with contextlib.nullcontext() if is_allowed else pytest.raises(UserError):
        check_command(command, Allowed(programs=frozenset({program})), HERE)


@pytest.mark.parametrize(
    "words",
    [
        ["--output", "/etc/passwd"],
        [f"--output={OF_AGENT}/x"],
        ["--output", f"{OF_AGENT}/../x"],
        ["--output", "x"],
        ["--output", f"{OF_AGENT}/x", "--output", "/etc/passwd"],
    ],
)
def test_an_agent_writes_to_its_own_folder_only(words: list[str]) -> None:
    command = [str(find_engine()), "profile", *words, "--", "serve", "epoll"]
    assert [each.code for each in refused(check_command, command, Allowed(), folder=OF_AGENT)] == [
        "hosts.command"
    ]
    (problem,) = refused(check_command, [*command[:2], "--output", f"{OF_AGENT}/x", *command[-3:]], Allowed())
    assert problem.code == "hosts.command", "an agent without a folder writes nowhere"


@pytest.mark.parametrize(
    "words",
    [
        ["host", "/bin/sh", "-c", "id", "--running"],
        ["host", "--running", "/bin/sh"],
        ["host", "/bin/sh", "--", "wrk"],
        ["host", "--ready-line", "--running", "--", "/bin/sh"],
        ["generate", "--running"],
        ["generate", "/bin/sh", "-c", "id", "--running"],
        ["generate", "--unknown", "--", "wrk"],
        ["count", "/bin/sh", "--", "serve", "epoll"],
        ["profile", "--output", f"{OF_AGENT}/x", "host", "/bin/sh"],
    ],
)
def test_no_order_of_words_starts_another_program(words: list[str]) -> None:
    allowed = Allowed(programs=frozenset({Program(("wrk",), None)}))
    (problem,) = refused(check_command, [str(find_engine()), *words], allowed, folder=OF_AGENT)
    assert problem.code in ("hosts.command", "hosts.program_not_allowed")


@pytest.mark.parametrize("words", [["host", "--running"], ["serve", "epoll"]])
def test_an_agent_starts_servers_without_a_program(words: list[str]) -> None:
    check_command([str(find_engine()), *words], Allowed())
    for directory, variables in ((HERE, {}), (None, VARIABLES)):
        (problem,) = refused(check_command, [str(find_engine()), *words], Allowed(), directory, variables)
        assert problem.code == "hosts.program_not_allowed"


def test_a_program_that_the_study_does_not_name_is_refused_by_the_agent(
    network: Network, tmp_path: Path
) -> None:
    host, echo = parse_host(f"netns:{network.names[0]}"), shutil.which("echo") or ""
    program = Program((echo, "{port}"), tmp_path)
    with Cluster([host], targets=(), programs=[(host, program)]) as cluster:
        place = cluster.place(host)
        assert run_program([echo, "80"], 10, directory=tmp_path, place=place) == (0, "80\n")
        for words, folder, variables in (
            ([echo, "x"], tmp_path, {}), ([echo, "80"], Path("/"), {}), ([echo, "80"], tmp_path, {"A": "1"}),
        ):  # fmt: skip
            how: dict[str, Any] = {"directory": folder, "environment": variables, "place": place}
            problems = [
                *refused(run_program, words, 10, **how),
                *refused(OwnServer(words, name="own", **how).__enter__),
                *refused(partial(OwnLoad, words, parser="wrk", workload="http", address="", **how)),
            ]
            assert [each.code for each in problems] == ["hosts.program_not_allowed"] * 3


def test_a_file_that_changes_on_its_way_is_refused(network: Network, tmp_path: Path) -> None:
    host = parse_host(f"netns:{network.names[0]}")
    (tmp_path / "some.csv").write_bytes(b"x" * 3_000_000)
    with Cluster([host]) as cluster:
        place = cluster.place(host)
        copy = place.file(tmp_path / "some.csv")
        assert copy.read_bytes() == (tmp_path / "some.csv").read_bytes() and copy != tmp_path / "some.csv"
        assert copy.parent.stat().st_mode & 0o077 == 0 and place.file(tmp_path / "some.csv") == copy
        there = cluster.hosts[host]
        for at, piece in ((0, b"y"), (7, b"x")):
            (problem,) = refused(cluster.call, there, "put", "../../a.csv", "0" * 64, at, piece, True)
            assert problem.code == "hosts.file_damaged"
