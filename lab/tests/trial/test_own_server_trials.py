"""Trials with servers that are not ours: their figures are those that such a server counts itself."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest
from made.interrupted import eventually, left_of
from made.refusals import refused

from thunderherd.engine import client
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import load
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import own_programs, runner
from thunderherd.run.own_programs import prepared
from thunderherd.run.runner import OTHER_RUN, run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.study.own_programs import check_owner
from thunderherd.trial.caveats import own_server_notes, root_notes
from thunderherd.trial.folder import filled_in
from thunderherd.trial.observation import TOO_BUSY
from thunderherd.trial.trial import run_trial

SERVER = """
import asyncio, os, signal, sys, time
BODY = b"x" * 4000
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4000\\r\\n\\r\\n" + BODY
asked = opened = 0
class Http(asyncio.Protocol):
    def connection_made(self, transport):
        global opened
        opened += 1
        self.transport = transport
    def data_received(self, data):
        global asked
        found = data.count(b"\\r\\n\\r\\n")
        asked += found
        self.transport.write(REPLY * found)
async def main():
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = await loop.create_server(Http, os.environ["HOST"], int(os.environ["PORT"]))
    await stop.wait()
    with open(sys.argv[1], "a") as counts:
        counts.write(f"{asked} {opened} {time.process_time()}\\n")
asyncio.run(main())
"""

STUDY = """
name = "own"
[server]
workload = "http"
[load]
kind = "{kind}"
[load.settings]
{settings}
[measure]
counters = ["memory"]
limits = "0"
[sizes.quick]
repetitions = 1
[[contenders]]
name = "own"
{server}
[[contenders]]
name = "ours"
design = "epoll"
"""
TIMED = 'clients = 4\nconnections = "kept"\nduration = "600ms"\nwarm_up = "50ms"'
COUNTED = "children = 2\nloops = 50"

pytestmark = pytest.mark.usefixtures("use_engine")


def study(directory: Path, kind: str, settings: str, server: str = "") -> Study:
    (directory / "server.py").write_text(SERVER)
    command = server or f'command = ["{sys.executable}", "server.py", "{directory}/counts"]'
    path = directory / "own.toml"
    path.write_text(STUDY.format(kind=kind, settings=settings, server=command))
    return load_study(str(path), "quick", (), client.catalogue())


@pytest.mark.parametrize(
    ("kind", "settings"), [("closed_connections", TIMED), ("closed", COUNTED)], ids=["timed", "counted"]
)
def test_its_requests_and_cpu_time_are_what_it_says_itself(kind: str, settings: str, tmp_path: Path) -> None:
    made = study(tmp_path, kind, settings)
    for _ in range(10):  # On a busy machine the server may be read late.
        (tmp_path / "counts").unlink(missing_ok=True)
        trial = run_trial(made, made.contender("own"), block=1, position=1, seed=1)
        if trial.valid:
            break
    assert trial.valid, trial.invalid_reasons
    metrics = trial.metrics or {}
    asked, _, seconds = map(float, (tmp_path / "counts").read_text().split())
    assert asked == sum(each.tally.requests for each in (*trial.warm_up, *trial.loads))
    assert trial.summary is not None and trial.summary.cpu_ns / 1e9 == pytest.approx(
        seconds, rel=0.2, abs=0.05
    )
    assert 0 < (metrics["server_cpu_seconds"] or 0) < seconds
    each = (metrics["server_cpu_seconds"] or 0) / (metrics["server_cpu_per_request"] or 1)
    # Counts of a window are scaled to the readings of the server, a moment later.
    assert each == pytest.approx(metrics["requests"] or 0, rel=0.3)
    assert metrics["server.send_calls"] is None and metrics["listen_drops"] is None


@pytest.mark.parametrize(
    "load", [("closed_connections", TIMED), ("closed", COUNTED)], ids=["timed", "counted"]
)
@pytest.mark.parametrize(
    ("more", "is_valid"),
    [(0, True), (1, False), (-1, False), (None, True)],
    ids=["right", "too_many", "too_few", "none"],
)
def test_its_own_count_of_requests_is_compared_with_that_of_its_clients(
    more: int | None, is_valid: bool, load: tuple[str, str], tmp_path: Path
) -> None:
    """The count in the last line at the descriptor COUNTS_FD; without one, a note says so."""
    made = study(tmp_path, *load)
    if more is not None:
        line = '"{\\"requests\\": %d}\\n" % each'
        write = (
            f"    for each in (0, asked + {more}):"
            f" os.write(int(os.environ['COUNTS_FD']), ({line}).encode())\nasyncio"
        )
        (tmp_path / "server.py").write_text(SERVER.replace("asyncio.run", write + ".run"))
    for _ in range(10):  # On a busy machine the server may be read late.
        trial = run_trial(made, made.contender("own"), block=1, position=1, seed=1)
        if not any(TOO_BUSY in reason for reason in trial.invalid_reasons):
            break
    sent = sum(each.tally.requests for each in (*trial.warm_up, *trial.loads))
    assert trial.summary is not None
    assert trial.summary.counts == (None if more is None else {"requests": sent + more})
    assert trial.valid == is_valid, trial.invalid_reasons
    assert is_valid or f" {sent + (more or 0)} requests, its clients {sent}" in trial.invalid_reasons[0]
    notes = [*own_server_notes(made, [trial])]
    assert any("only the clients' counts are checked" in note for note in notes) == (more is None)


def test_commands_that_ran_as_root_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = study(tmp_path, "closed", COUNTED)
    (note,) = root_notes(made, {"effective_user": 0})
    assert note.startswith("commands that ran as root: own; ") and "--user NAME" in note
    assert [*root_notes(made, {"effective_user": 1000})] == [*root_notes(made, {})] == []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    dropped = load_study(str(made.path), "quick", ("lab.user=nobody",), client.catalogue())
    assert [*root_notes(dropped, {"effective_user": 0})] == []
    of_ours = made.model_copy(update={"contenders": [made.contender("ours")]})
    assert [*root_notes(of_ours, {"effective_user": 0})] == []


@pytest.mark.parametrize("line", ["12", '{"requests": "many"}', "\\x1b[31m", '{"answered": 7}'])
def test_a_line_that_is_no_count_makes_its_trial_invalid(line: str, tmp_path: Path) -> None:
    made = study(tmp_path, "closed", COUNTED)
    write = f"    os.write(int(os.environ['COUNTS_FD']), b'{line}')\nasyncio"
    (tmp_path / "server.py").write_text(SERVER.replace("asyncio.run", write + ".run"))
    trial = run_trial(made, made.contender("own"), block=1, position=1, seed=1)
    (reason,) = trial.invalid_reasons
    assert "COUNTS_FD" in reason and reason.isprintable()


def test_connections_that_its_full_listen_queue_drops_are_a_warning(tmp_path: Path) -> None:
    """It accepts nothing for a while, so that the kernel drops the SYNs of some clients."""
    made = study(tmp_path, "closed", "children = 12\nloops = 1")
    (tmp_path / "server.py").write_text(
        "import os, socket, time\n"
        "server = socket.create_server((os.environ['HOST'], int(os.environ['PORT'])), backlog=2)\n"
        "while True:\n"
        # So slow that the queue is full however late a busy machine lets some clients begin.
        "    time.sleep(0.2)\n"
        "    client = server.accept()[0]\n"
        "    if client.recv(4096):\n"
        "        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 4000\\r\\n\\r\\n' + b'x' * 4000)\n"
        "    client.close()\n"
    )
    trial = run_trial(made, made.contender("own"), block=1, position=1, seed=1)
    assert trial.valid, trial.invalid_reasons
    assert trial.noise is not None and trial.noise.dropped_connections and trial.noise.retransmitted_syns
    assert any("full listen queues" in each for each in trial.warnings)
    (load,) = trial.loads
    assert load.connecting is not None and load.connecting.mean_ns > 0.3e9


@pytest.fixture
def running(tmp_path: Path) -> Iterator[int]:
    """The port of a server that was running before."""
    (tmp_path / "server.py").write_text(SERVER)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "counts")]
    process = subprocess.Popen(words, env={**os.environ, "HOST": "127.0.0.1", "PORT": str(port)})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.02)
    yield port
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def test_a_run_with_a_running_server_has_its_figures_and_leaves_it_running(
    running: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may be a server of ours, which is no other run.
    monkeypatch.setattr(runner, "other_runs", lambda: [7])
    # A busy machine reads the server later than in a tenth of a short window.
    timed = TIMED.replace("600ms", "2s")
    made = study(tmp_path, "closed_connections", timed, f'url = "http://127.0.0.1:{running}/"')
    run_study(made, tmp_path / "run", seed=1)
    found: Summary | None = load(tmp_path / "run").summary
    assert found is not None and found.trials.valid == 2
    own = next(each for each in found.contenders if each.base == "own")
    assert own.metrics["server_cpu_per_request"].value > 0
    assert "server.memory" not in own.metrics
    assert any(f"127.0.0.1:{running}" in note for note in found.study.notes)
    assert not any(note.startswith(OTHER_RUN) for note in found.study.notes)
    assert found.machine["servers"] == {"own": {"url": f"http://127.0.0.1:{running}/"}}
    socket.create_connection(("127.0.0.1", running), 1).close()


def in_time(made: Study, name: str) -> TrialRecord:
    """A trial whose server was read in time, which on a busy machine the first may not be."""
    for _ in range(10):
        trial = run_trial(made, made.contender(name), block=1, position=1, seed=1)
        if not any(TOO_BUSY in reason for reason in trial.invalid_reasons):
            break
    return trial


def test_figures_of_unknown_processes_are_missing_with_the_reason(running: int, tmp_path: Path) -> None:
    made = study(tmp_path, "closed_connections", TIMED, f'url = "http://127.0.0.1:{running}/"')
    trial = in_time(made, "own")
    assert trial.ready is not None and trial.metrics is not None
    hidden = trial.model_copy(
        update={
            "ready": trial.ready.model_copy(update={"cpu_source": "unknown", "cpu_source_reason": "hidden"}),
            "metrics": {**trial.metrics, "server_cpu_per_request": None},
        }
    )
    ours = in_time(made, "ours")
    found = summarise(made, [hidden, ours], {}, seed=1)
    own = next(each for each in found.contenders if each.base == "own")
    assert own.unknown["server_cpu_per_request"] == "hidden"


@pytest.mark.parametrize("word", ["", "{dir}"], ids=["alone", "with a folder"])
def test_the_placeholders_of_its_environment_are_filled_in(word: str, tmp_path: Path) -> None:
    made = study(
        tmp_path,
        "closed",
        COUNTED,
        f'command = ["{sys.executable}", "server.py", "{tmp_path}/counts", "{word}"]\n'
        'environment = { WHERE = "{host}:{port} {loops}" }',
    )
    told = "with open(sys.argv[1] + '.where', 'w') as where: where.write(os.environ['WHERE'])\n"
    asked = "with open(sys.argv[1] + '.port', 'w') as port: port.write(os.environ['PORT'])\n"
    (tmp_path / "server.py").write_text(SERVER.replace("asyncio.run", told + asked + "asyncio.run"))
    run_trial(made, made.contender("own"), block=1, position=1, seed=1)
    port = (tmp_path / "counts.port").read_text()
    assert (tmp_path / "counts.where").read_text() == f"127.0.0.1:{port} 50"


def test_a_folder_of_the_trial_has_the_filled_in_template(tmp_path: Path) -> None:
    (tmp_path / "port.txt").write_text("{host} {port} {dir} {other}")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\r\n{port}")
    code = (
        "import os, sys; host, port, own, other = open(sys.argv[1]).read().split();"
        "assert own == os.path.dirname(sys.argv[1]) and other == '{other}';"
        "assert open(sys.argv[3], 'rb').read() == bytes([99, 97, 102, 233, 13, 10]) + port.encode();"
        "open(sys.argv[2], 'a').write(own + chr(10));"
        "os.environ |= {'HOST': host, 'PORT': port};"
        "sys.argv[1] = sys.argv[2] + 'counts'; exec(open('server.py').read())"
    )
    words = f"'{{dir}}/port.txt', '{tmp_path}/seen', '{{dir}}/latin.txt'"
    command = f"command = [{sys.executable!r}, '-c', '''{code}''', {words}]"
    made = study(tmp_path, "closed", COUNTED, command)
    trials = [run_trial(made, made.contender("own"), block=1, position=1, seed=1) for _ in range(2)]
    assert [each.invalid_reasons for each in trials] == [[], []]
    folders = (tmp_path / "seen").read_text().split()
    assert len(set(folders)) == 2 and not any(Path(each).exists() for each in folders)
    assert {"{dir}/port.txt", "{dir}/latin.txt"} <= prepared(made)["own"]["files"].keys()


NOBODY = getpwnam("nobody")
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
"""A Python that every user may run, unlike one in a user's own folder."""
as_nobody = pytest.mark.skipif(
    os.geteuid() != 0 or PYTHON is None, reason="only root can become another user, who needs a Python"
)


@as_nobody
@pytest.mark.parametrize("user", ["nobody", str(NOBODY.pw_uid)])
def test_a_server_its_folder_and_its_version_are_those_of_the_user(user: str, tmp_path: Path) -> None:
    more = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[0]).parent
owners = {each.stat().st_uid for each in (folder, *folder.iterdir())}
assert {os.getuid()} == {os.geteuid()} == owners, (os.getuid(), owners)
assert os.getgroups() == [os.getgid()] and os.getgid() == folder.stat().st_gid
"""
    command = (
        f'command = ["{PYTHON}", "{{dir}}/checked.py", "{{dir}}/./counts"]\n'
        'version = ["sh", "-c", "id -u; id -G"]\n[contenders.lab]\n'
    )
    (tmp_path / "checked.py").write_text(more + SERVER)
    made = study(tmp_path, "closed", COUNTED, f'{command}user = "{user}"')
    trial = run_trial(made, made.contender("own"), block=1, position=1, seed=1)
    assert trial.valid, trial.invalid_reasons
    assert prepared(made)["own"]["version"] == f"{NOBODY.pw_uid} / {NOBODY.pw_gid}"


def test_a_folder_is_given_away_after_its_files_and_without_following_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could put a link in the place of a file."""
    made = study(tmp_path, "closed", COUNTED, f'command = ["{sys.executable}", "{{dir}}/server.py"]')
    given: list[tuple[bool, bool]] = []

    def chown(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert (user, group) == (NOBODY.pw_uid, NOBODY.pw_gid)
        given.append((path.is_dir(), follow_symlinks))

    monkeypatch.setattr("os.chown", chown)
    server = made.contender("own").own_server
    assert server is not None
    with filled_in(server, "127.0.0.1:0", {}, "nobody"):
        assert given == [(False, False), (True, False)]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (f"build = ['{sys.executable}', '-c', 'raise SystemExit(5)']", "run.build_failed"),
        ("build = ['/bin/no-such-compiler']", "study.no_program"),
        ("version = ['/bin/no-such-program']", "study.no_program"),
        ("version = ['./not_started']", "run.version_failed"),
    ],
)
def test_a_server_that_cannot_be_built_or_asked_is_refused_before_any_trial(
    more: str, code: str, tmp_path: Path
) -> None:
    command = f"command = ['{sys.executable}', 'server.py', 'counts']\n{more}"
    (tmp_path / "not_started").write_text("#!/no/such/program\n")
    (tmp_path / "not_started").chmod(0o755)

    def attempt() -> None:
        run_study(study(tmp_path, "closed", COUNTED, command), tmp_path / "run", seed=1)

    assert [problem.code for problem in refused(attempt)] == [code]
    assert not (tmp_path / "run").exists()


def test_a_version_and_the_program_are_recorded(tmp_path: Path) -> None:
    command = f"command = ['{sys.executable}', 'server.py', 'counts']\nversion = ['{sys.executable}', '-V']"
    run_study(study(tmp_path, "closed", COUNTED, command), tmp_path / "run", seed=1)
    found = load(tmp_path / "run").run.machine["servers"]["own"]
    assert found["version"] == f"Python {sys.version.split()[0]}" and len(found["sha256"]) == 64


def test_a_command_that_asks_for_a_version_leaves_nothing(tmp_path: Path) -> None:
    mark = f"60.{os.getpid()}"
    code = f"import subprocess; subprocess.Popen(['sleep', '{mark}']); print('1.0', flush=True)"
    version = f"version = [{sys.executable!r}, '-c', \"{code}\"]"
    command = f"command = ['{sys.executable}', 'server.py', 'counts']\n{version}"
    assert prepared(study(tmp_path, "closed", COUNTED, command))["own"]["version"] == "1.0"
    eventually(lambda: not left_of(mark), 30)  # a killed process takes a moment


@pytest.mark.parametrize("key", ["build", "version"])
def test_a_command_that_is_killed_leaves_no_program_of_a_study(key: str, tmp_path: Path) -> None:
    mark = f"{len(key)}9.{os.getpid()}"
    starts_two = f"{key} = ['sh', '-c', 'sleep {mark} & sleep {mark}']"
    study(tmp_path, "closed", COUNTED, f"command = ['{sys.executable}', 'server.py', 'counts']\n{starts_two}")
    command = [sys.executable, "-m", "thunderherd", "run", "own.toml", "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        eventually(lambda: sum(each.startswith("sleep") for each in left_of(mark)) == 2)
        run.kill()
    eventually(lambda: not left_of(mark), 30)


def test_a_version_command_that_a_signal_ends_says_which(tmp_path: Path) -> None:
    command = f"command = ['{sys.executable}', 'server.py', 'counts']"
    made = study(tmp_path, "closed", COUNTED, f"{command}\nversion = ['sh', '-c', 'kill -9 $$']")
    assert prepared(made)["own"]["warnings"] == ["version: killed by SIGKILL"]


def test_a_version_command_that_fails_is_a_warning(tmp_path: Path) -> None:
    fails = f"version = ['{sys.executable}', '-c', 'print(7); raise SystemExit(3)']"
    command = f"command = ['{sys.executable}', 'server.py', '{tmp_path}/counts']\n{fails}"
    made = study(tmp_path, "closed", COUNTED, command)
    own = prepared(made)["own"]
    assert (own["version"], own["warnings"]) == ("7", ["version: exit status 3"])
    run_study(made, tmp_path / "run", seed=1)
    summary = load(tmp_path / "run").summary
    assert summary is not None and "own: version: exit status 3" in summary.study.notes


def test_each_file_that_a_command_names_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large").write_bytes(b"x" * 20_000)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(own_programs, "LARGEST_HASHED", 10_000)
    words = ["server.py", "large", "folder", "pipe", "", "--option", "x" * 5000]
    made = study(tmp_path, "closed", COUNTED, f"command = {[sys.executable, *words]}")
    own = prepared(made)["own"]
    assert own["files"] == {"server.py": hashlib.sha256(SERVER.encode()).hexdigest(), "large": None}


def test_a_run_is_not_resumed_with_another_file_of_its_server(tmp_path: Path) -> None:
    made = study(tmp_path, "closed", COUNTED)
    run_study(made, tmp_path / "run", seed=1)
    (tmp_path / "server.py").write_text(SERVER + "# changed\n")
    (problem,) = refused(lambda: run_study(made, tmp_path / "run", seed=1, resume=True))
    assert problem.code == "run.other_file" and "server.py" in problem.message


def test_a_version_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_programs, "VERSION_SECONDS", 0.5)
    command = f"command = ['{sys.executable}', 'server.py', 'counts']\nversion = ['yes']"
    (problem,) = refused(prepared, study(tmp_path, "closed", COUNTED, command))
    assert problem.code == "run.version_failed"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_study_in_another_users_folder_runs_no_commands(tmp_path: Path) -> None:
    made = study(tmp_path, "closed", COUNTED)
    check_owner(made)
    os.chown(made.path, 12345, -1)
    assert [problem.code for problem in refused(check_owner, made)] == ["run.commands_not_allowed"]
