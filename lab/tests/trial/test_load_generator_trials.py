"""Trials whose load is not ours: its counts agree with the server's, and what fails leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from made.interrupted import left_of
from made.refusals import refused
from made.small_studies import one_block

from thunderherd.engine import client
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import TrialRecord
from thunderherd.run.own_programs import prepared
from thunderherd.run.profiled import with_samples
from thunderherd.study.loading import Study, load_study
from thunderherd.study.own_programs import check_owner
from thunderherd.trial import trial as trials
from thunderherd.trial.trial import ProfileFiles, run_trial

CLIENT = """
import json, socket, sys, time
host, port, clients, seconds, more = sys.argv[1], *map(float, sys.argv[2:])
kept = [socket.create_connection((host, int(port))) for _ in range(int(clients))]
asked, began = 0, time.monotonic()
while time.monotonic() - began < seconds:
    for each in kept:
        each.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        reply = b""
        while b"\\r\\n\\r\\n" not in reply or len(reply.partition(b"\\r\\n\\r\\n")[2]) < 64:
            reply += each.recv(65536)
        asked += 1
lasted = time.monotonic() - began
print(json.dumps({"requests": int(asked + more), "errors": 0, "seconds": lasted, "p50": 0.001}))
"""
STUDY = (
    one_block(
        "own",
        workload="http",
        server="settings = { bytes = 64 }\n",
        kind="closed_connections",
        load='command = COMMAND\nparser = "PARSER"\n',
        settings='clients = 4, connections = "kept", duration = "DURATION"',
    )
    + """\
[[contenders]]
name = "epoll"
design = "epoll"
"""
)
ADDRESS = "http://{host}:{port}/"
VEGETA = Path(__file__).resolve().parents[2] / "thunderherd/studies/generators/vegeta.sh"
TOOLS = {
    "wrk": ["wrk", "-t1", "-c{clients}", "-d{duration}", "--latency", ADDRESS],
    "ab": ["ab", "-q", "-k", "-c", "{clients}", "-t", "{duration}", "-n", "5000000", ADDRESS],
    "hey": ["hey", "-cpus", "1", "-c", "{clients}", "-z", "{duration}s", ADDRESS],
    "h2load": ["h2load", "--h1", "-t", "1", "-c", "{clients}", "-D", "{duration}", ADDRESS],
    "oha": ["oha", "--no-tui", "--output-format", "json", "-c", "{clients}", "-z", "{duration}s", ADDRESS],
    "wrk2": ["wrk2", "-t1", "-c{clients}", "-d{duration}", "-R{rate}", "--latency", ADDRESS],
    "vegeta": ["sh", str(VEGETA), ADDRESS, "{rate}", "{duration}", "{clients}"],
}

pytestmark = pytest.mark.usefixtures("use_engine")


def study(
    directory: Path, command: list[str], parser: str = "json", duration: str = "300ms", rate: str = ""
) -> Study:
    (directory / "client.py").write_text(CLIENT)
    path = directory / "own.toml"
    text = STUDY.replace("COMMAND", json.dumps(command)).replace("PARSER", parser)
    text = text.replace("clients = 4", f"{rate}clients = 4")
    text = text.replace("closed_connections", "open") if rate else text
    path.write_text(text.replace("DURATION", duration))
    return load_study(str(path), "quick", (), client.catalogue())


def run(made: Study, **more: object) -> TrialRecord:
    return run_trial(made, made.contenders[0], block=1, position=1, seed=1, **more)  # type: ignore[arg-type]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def own(more: int = 0) -> list[str]:
    return [sys.executable, "client.py", "{host}", "{port}", "{clients}", "{duration}", str(more)]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_counts_what_the_server_counts(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    rate = "rate = 500, " if any("{rate}" in word for word in TOOLS[tool]) else ""
    made = study(tmp_path, TOOLS[tool], tool, "1s", rate)
    found = run(made)
    assert found.valid, found.invalid_reasons
    assert found.before and found.after and found.before.tally and found.after.tally
    (load,) = found.loads
    served = found.after.tally.requests - found.before.tally.requests
    assert 0 <= served - load.tally.requests <= 4
    assert load.user_ns + load.system_ns > 0 and found.metrics is not None
    assert found.metrics["server_cpu_per_request"] == pytest.approx(
        found.metrics["server_cpu_seconds"] / served  # type: ignore[operator]
    )


def test_a_client_of_ones_own_is_measured(tmp_path: Path) -> None:
    made = study(tmp_path, own())
    found = run(made)
    assert found.valid, found.invalid_reasons
    (load,) = found.loads
    assert load.load == "json" and load.tally.requests > 0
    assert found.metrics is not None and found.metrics["latency_p50_seconds"] == 0.001
    assert found.metrics["requests_per_second"] == pytest.approx(load.tally.requests / load.elapsed_ns * 1e9)
    notes = " ".join(summarise(made, [found], {}, seed=1).study.notes)
    assert "epoll" in notes and "load generator" in notes


@pytest.mark.parametrize("more", [1, -100_000])
def test_a_load_generator_that_counts_otherwise_makes_its_trial_invalid(more: int, tmp_path: Path) -> None:
    code = CLIENT.replace("asked + more", "max(1, asked + more) if more > 0 else 1")
    made = study(tmp_path, own(more))
    (tmp_path / "client.py").write_text(code)
    found = run(made)
    assert found.before and found.after and found.before.tally and found.after.tally
    served, counted = found.after.tally.requests - found.before.tally.requests, found.loads[0].tally.requests
    assert served != counted
    (reason,) = found.invalid_reasons
    assert str(served) in reason and str(counted) in reason


SPAWNS = (
    "import subprocess, sys;"
    "subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True, env={env});"
)
SLEEPS = "import time; time.sleep(600)"
BROKEN = {
    "exits": ("import sys; print('no such thing', file=sys.stderr); sys.exit(1)", "load_generator.failed"),
    "is_killed": ("import os; os.kill(os.getpid(), 9)", "load_generator.failed"),
    "garbage": ("print('garbage \\x00\\x1b[31m')", "load_generator.unreadable_output"),
    "nothing": ("", "load_generator.unreadable_output"),
    "floods": ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "load_generator.too_much_output"),
    "floods_stderr": (
        "import sys\nwhile True: sys.stderr.write('x' * 65536)",
        "load_generator.too_much_output",
    ),
    "hangs": (
        f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}",
        "load_generator.not_ended",
    ),
    "closes": (f"import os; os.close(1); {SLEEPS}", "load_generator.not_ended"),
    "leaves": ("import os; os.close(2); print('garbage')", "load_generator.unreadable_output"),
}
LONGEST = 1.0
"""Seconds of a load that does not end. Others end by themselves, on a busy machine later."""


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("env", [None, "None", "{}"], ids=["alone", "with_child", "with_child_without_names"])
def test_a_broken_load_generator_ends_its_trial_with_a_code_and_leaves_nothing(
    fault: str, env: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, expected = BROKEN[fault]
    if expected == "load_generator.not_ended":
        monkeypatch.setattr(trials, "LOAD_SECONDS", LONGEST)
    mark = f"# {tmp_path.name} of {os.getpid()}\n"
    child = SPAWNS.format(code=mark + SLEEPS, env=env) + "\n" if env else ""
    found = run(study(tmp_path, python(mark + child + code)))
    assert not found.valid and found.metrics is None
    (reason,) = found.invalid_reasons
    assert reason.rpartition("[")[2].rstrip("]") == expected and reason.isprintable()
    deadline = time.monotonic() + 30
    while left_of(mark.strip()) and time.monotonic() < deadline:  # a killed process takes a moment
        time.sleep(0.01)
    assert not left_of(mark.strip())


def test_a_load_generator_that_is_not_there_ends_its_trial(tmp_path: Path) -> None:
    script = tmp_path / "gone"
    script.write_text("#!/no/such/program\n")
    script.chmod(0o755)
    (reason,) = run(study(tmp_path, ["./gone"])).invalid_reasons
    assert reason.endswith("[load_generator.not_started]")


def test_errors_that_a_client_reports_make_its_trial_invalid(tmp_path: Path) -> None:
    line = {"requests": 1, "errors": 7, "seconds": 0.001}
    found = run(study(tmp_path, python(f"print({json.dumps(json.dumps(line))})")))
    assert any("7" in reason for reason in found.invalid_reasons)


def test_a_client_that_reports_more_time_than_it_ran_makes_its_trial_invalid(tmp_path: Path) -> None:
    line = {"requests": 1, "errors": 0, "seconds": 60}
    (reason,) = run(study(tmp_path, python(f"print({json.dumps(json.dumps(line))})"))).invalid_reasons
    assert reason.endswith("[load_generator.longer_than_it_ran]")


def test_no_request_makes_a_trial_invalid(tmp_path: Path) -> None:
    line = {"requests": 0, "errors": 0, "seconds": 0.001}
    found = run(study(tmp_path, python(f"print({json.dumps(json.dumps(line))})")))
    assert not found.valid


def test_several_processes_are_added(tmp_path: Path) -> None:
    made = study(tmp_path, own())
    contender = made.contenders[0]
    two = contender.model_copy(update={"load": contender.load.model_copy(update={"processes": 2})})
    found = run_trial(made, two, block=1, position=1, seed=1)
    assert found.valid and len(found.loads) == 2


def test_the_cpu_time_of_its_children_is_counted(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\n"
    line = json.dumps({"requests": 1, "errors": 0, "seconds": 0.001})
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}]); print({line!r})"
    (load,) = run(study(tmp_path, python(code))).loads
    assert load.user_ns + load.system_ns >= 300_000_000


def test_its_counters_are_those_of_its_whole_life(tmp_path: Path) -> None:
    line = json.dumps({"requests": 1, "errors": 0, "seconds": 0.001})
    code = f"import os\nfor _ in range(5000): os.getppid()\nprint({line!r})"
    study(tmp_path, python(code))
    path = tmp_path / "own.toml"
    path.write_text(path.read_text().replace("[measure]", '[measure]\ncounters = ["system_calls"]', 1))
    (load,) = run(load_study(str(path), "quick", (), client.catalogue())).loads
    if "system_calls" in load.unavailable:
        pytest.skip(load.unavailable["system_calls"])
    assert load.counters["system_calls.getppid"] in (5000, 5001)  # the engine asks once


def test_the_placeholders_of_its_environment_are_filled_in(tmp_path: Path) -> None:
    code = 'import os; print(open("seen", "w").write(os.environ["WHERE"]))'
    made = study(tmp_path, python(code))
    path = tmp_path / "own.toml"
    path.write_text(
        path.read_text().replace("parser =", 'environment = { WHERE = "{clients} {duration}" }\nparser =')
    )
    run(load_study(str(path), "quick", (), client.catalogue()))
    assert made and (tmp_path / "seen").read_text() == "4 0.3"


BOTH_PORTS = """
import http.server, sys, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "64")
        self.end_headers()
        self.wfile.write(b"x" * 64)
    protocol_version = "HTTP/1.1"
    def log_message(self, *_):
        pass
host, first, second, clients = sys.argv[1:]
assert clients == "4"
threading.Thread(target=http.server.ThreadingHTTPServer((host, int(second)), Hello).serve_forever).start()
http.server.ThreadingHTTPServer((host, int(first)), Hello).serve_forever()
"""


def test_a_server_with_two_ports_has_them_and_the_settings_of_the_load(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(BOTH_PORTS)
    study(tmp_path, own())
    path = tmp_path / "own.toml"
    server = [sys.executable, "server.py", "{host}", "{port}", "{second_port}", "{clients}"]
    text = path.read_text().replace('design = "epoll"', f"command = {json.dumps(server)}")
    text = text.replace("clients = 4", 'clients = 4, host = "example"')
    path.write_text(text.replace('"client.py", "{host}", "{port}"', '"client.py", "{host}", "{second_port}"'))
    found = run(load_study(str(path), "quick", (), client.catalogue()))
    assert found.valid, found.invalid_reasons
    assert found.loads[0].tally.requests > 0


def test_a_run_keeps_its_version_and_what_its_program_is(tmp_path: Path) -> None:
    made = study(tmp_path, own())
    kept = prepared(made)["epoll load"]
    assert "client.py" in kept["command"] and len(kept["sha256"]) == 64


def test_a_profiled_trial_has_the_samples_of_both_sides(tmp_path: Path) -> None:
    if client.profile_check().reason is not None:
        pytest.skip("no sampling on this machine")
    files = ProfileFiles(tmp_path, 499, "cpu-clock")
    found = with_samples(run(study(tmp_path, own()), profiles=files), files)
    assert not found.valid or set(found.profiles) == {"server", "client"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_study_in_another_users_folder_runs_no_load(tmp_path: Path) -> None:
    made = study(tmp_path, own())
    check_owner(made)
    os.chown(made.path, 12345, -1)
    assert [problem.code for problem in refused(check_owner, made)] == ["run.commands_not_allowed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_study_in_another_users_folder_chooses_no_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    text = 'name = "hosts"\n[lab]\nserver = "ssh://a"\n'
    path.write_text(text + "".join(f'[[contenders]]\nname = "{each}"\ndesign = "epoll"\n' for each in "ab"))
    os.chown(path, 12345, -1)

    def made(*typed: str) -> Study:
        return load_study(str(path), "quick", typed, client.catalogue())

    (problem,) = refused(check_owner, made())
    assert problem.code == "run.hosts_not_allowed" and "ssh://a" in problem.message
    check_owner(made('lab.server="ssh://b"'))
    check_owner(made('lab.server="ssh://a"'))
    check_owner(made("lab.server=ssh://a"))
    assert [each.code for each in refused(check_owner, made('lab.load=["ssh://ab"]'))] == [problem.code]
