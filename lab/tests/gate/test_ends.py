"""How `gate` ends, as a program: 1 is a verdict and nothing else, whatever fails.

`git bisect run` takes every status from 1 to 127, except 125, for a bad commit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

SERVER = """
import asyncio, sys, time
SPIN = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nhere"
class Http(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data):
        until = time.perf_counter() + SPIN
        while time.perf_counter() < until: pass
        self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))
async def main():
    loop = asyncio.get_running_loop()
    await (await loop.create_server(Http, "127.0.0.1", int(sys.argv[1]))).serve_forever()
asyncio.run(main())
"""
QUICK = (
    "--workload",
    "http",
    "-c",
    "4",
    "--budget",
    "15s",
    "--no-conform",
    # Other tests keep the CPUs busy.
    "--set",
    "noise.foreign=100%",
    "--set",
    "noise.steal=100%",
    "--metric",
    "server_cpu_per_request",
)


TWO_WORKLOADS = """
name = "two"
title = "Old and new server, two sizes of replies"
question = "Did it get slower?"
[measure]
metric = "server_cpu_per_request"
[server]
workload = "http"
[load.settings]
clients = 4
duration = "200ms"
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[[contenders]]
name = "old"
command = ["PYTHON", "server.py", "{port}"]
[[contenders]]
name = "new"
command = ["PYTHON", "server.py", "{port}"]
[[sweeps]]
name = "bytes"
key = "load.settings.bytes"
values = [4, 65536]
contenders = ["old", "new"]
metric = "server_cpu_per_request"
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def server(spin: str = "0") -> str:
    return f"{sys.executable} server.py {{port}} {spin}"


def gate(
    folder: Path, *words: str, prefix: Sequence[str] = (), environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "thunderherd", "gate", *words]
    own = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **(environment or {})}
    return subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=400
    )


def pair(base: str, head: str) -> tuple[str, ...]:
    return ("--base", base, "--head", head)


def test_a_slower_server_ends_with_1_and_tells_programs(here: Path) -> None:
    files = ("--markdown", "gate.md", "--junit", "gate.xml", "--out", "mine")
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(here / "step.md")}
    # The first look ends it. Beside other tests it may take minutes until then.
    words = (*pair(server(), server("0.0003")), *QUICK, "--budget", "5min", *files, "--json")
    ended = gate(here, *words, environment=variables)
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["verdict"], found["exit_status"]) == ("slower", 1)
    (row,) = found["rows"]
    assert row["slowdown_percent"]["low"] > row["margin_percent"] == 2
    assert (here / "gate.md").read_text() == (here / "step.md").read_text()
    assert "| server" not in (here / "gate.md").read_text()
    suite = ElementTree.parse(here / "gate.xml").getroot()
    assert suite.attrib["failures"] == "1" and suite.find("testcase/failure") is not None
    assert "::error title=thunderherd gate::Slower" in ended.stderr

    # It is shown again without a trial.
    trials = (here / "mine/gate/trials.jsonl").read_bytes()
    again = gate(here, *words, "--resume")
    assert again.returncode == 1 and json.loads(again.stdout)["rows"] == found["rows"]
    assert (here / "mine/gate/trials.jsonl").read_bytes() == trials
    # What is allowed may not change once there are trials.
    other = gate(here, *words, "--margin", "50%", "--resume")
    assert other.returncode == 128 and "search.other_search" in other.stderr


def test_a_budget_that_is_too_short_for_a_verdict_ends_with_125(here: Path) -> None:
    # A gate of a server with itself may alarm by chance; three in a row do not.
    for _ in range(3):
        ended = gate(here, *pair(server(), server()), *QUICK, "--margin", "0.001%")
        if ended.returncode != 1:
            break
    assert ended.returncode == 125, ended.stdout + ended.stderr
    assert "Undecided" in ended.stdout
    # Nothing was calibrated here.
    assert len([line for line in ended.stderr.splitlines() if line.startswith("before the run: ")]) == 1


def ends(here: Path) -> dict[str, tuple[str, ...]]:
    """Failures before a verdict: the name of each, and the words that lead to it."""
    busy = f"{sys.executable} -m http.server --bind 127.0.0.1 {{port}} --no-such-option"
    return {
        "a missing command": (*pair("./no-such-server {port}", server()), *QUICK),
        "a server that dies": (*pair(server(), busy), *QUICK),
        "a wrong option": (*pair(server(), server()), "--no-such-option", "3"),
        "no value": ("--base",),
        "a server without the other": ("--base", server()),
        "revisions and a study": ("unp-ch30", "--head-rev", "HEAD"),
        "a build that fails, and a study": ("unp-ch30", "--bisect"),
        "a build that fails, without revisions": (*pair(server(), server()), *QUICK, "--bisect"),
        "a metric twice": (*pair(server(), server()), *QUICK, "--metric", "server_cpu_per_request=9%"),
        "an empty workload": (*pair(server(), server()), *QUICK[2:], "--workload", ""),
        "two workloads": (*pair(server(), server()), *QUICK, "--workload", "bytes"),
        "a table of a calibration": ("--calibrate", "2", "--base", server(), "--junit", "gate.xml"),
        "a calibration with a head": ("--calibrate", "2", *pair(server(), server())),
        "an unknown metric": (*pair(server(), server()), "--metric", "speed"),
        "a budget that is too short": (*pair(server(), server()), *QUICK[:-2], "--budget", "1s"),
        "an unknown revision": ("--base-rev", "no-such-tag", "--serve", server()),
        "an unknown study": ("no-such-study",),
        "no such CPU": (*pair(server(), server()), *QUICK, "--lab", "server_cpus=[4000]"),
        "a margin without a unit": (*pair(server(), server()), "--margin", "2"),
        "a file that cannot be written": (*pair(server(), server()), *QUICK, "--junit", "none/gate.xml"),
    }


@pytest.mark.parametrize("what", ends(Path()))
def test_failures_end_with_128(what: str, here: Path) -> None:
    ended = gate(here, *ends(here)[what])
    assert ended.returncode == 128, (ended.returncode, ended.stderr)
    assert "Traceback" not in ended.stderr and "thunderherd: " in ended.stderr


@pytest.mark.parametrize(
    ("words", "full", "status"),
    [
        (("gate", "--help"), "stdout", 128),
        (("gate", *pair("a", "b"), "--json"), "stdout", 128),
        (("gate", *pair("a", "b")), "stderr", 128),
        (("baseline", "--help"), "stdout", 128),
        (("baseline", "forget"), "stderr", 128),
        (("list",), "stdout", 1),
        (("--version",), "stdout", 1),
        (("no-such-command",), "stderr", 2),
        (("list",), "stderr", 0),
    ],
)
def test_output_that_finds_no_room_is_a_failure_of_the_command(
    words: tuple[str, ...], full: str, status: int, here: Path
) -> None:
    """Python flushes its output once more at its end, and would exit with 120."""
    own = {**os.environ, "XDG_DATA_HOME": str(here / "data")}
    own.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-m", "thunderherd", *words]
    with Path("/dev/full").open("w") as device:
        ended = subprocess.run(
            command, cwd=here, env=own, text=True, check=False, timeout=60,
            stdout=device if full == "stdout" else subprocess.PIPE,
            stderr=device if full == "stderr" else subprocess.PIPE,
        )  # fmt: skip
    assert ended.returncode == status, ended
    assert "Traceback" not in (ended.stderr or "")


@pytest.mark.thorough
def test_a_server_that_dies_later_ends_with_128(here: Path) -> None:
    """The pilot starts head a few times; from then on it does not start."""
    starts = "n=$(cat starts 2>/dev/null || echo 0); echo $((n + 1)) >starts; [ $n -lt 3 ]"
    (here / "dies.sh").write_text(f"{starts} && exec {server().replace('{port}', '$1')}\nexit 3\n")
    ended = gate(here, *pair(server(), "sh dies.sh {port}"), *QUICK)
    assert int((here / "starts").read_text()) > 3
    assert ended.returncode == 128, ended.stdout + ended.stderr
    assert "sh dies.sh {port}" in ended.stderr and "Undecided" not in ended.stdout


OF_DESIGNS = """
name = "two"
[measure]
metric = "server_cpu_per_request"
limits = "0"
[load.settings]
clients = 4
connections = "per_request"
duration = "100ms"
[noise]
foreign = "100%"
steal = "100%"
[sizes.quick]
repetitions = 2
[[contenders]]
name = "old"
design = "epoll"
[[contenders]]
name = "new"
design = "fork_per_client"
[[sweeps]]
name = "workload"
key = "workload"
values = ["http"]
contenders = ["old", "new"]
metric = "server_cpu_per_request"
"""
"""A study without verdicts, of a server that forks for each request after all."""


@pytest.mark.thorough
def test_a_study_with_two_workloads_is_gated(here: Path) -> None:
    (here / "two.toml").write_text(OF_DESIGNS)
    for _ in range(3):  # On a busy machine, most servers of a gate may be read too late.
        ended = gate(here, "two.toml", "--budget", "90s", "--margin", "20%", "--json")
        if ended.returncode != 125:
            break
    assert ended.returncode == 1, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["base"], found["head"], found["verdict"]) == ("old", "new", "slower")
    assert [(each["sweep"], each["point"]) for each in found["rows"]] == [(None, None), ("workload", "http")]


def test_metrics_of_a_study_have_their_own_margins(here: Path) -> None:
    (here / "two.toml").write_text(TWO_WORKLOADS.replace("PYTHON", sys.executable))
    ended = gate(here, "two.toml", "--metric", "server_cpu_per_request")
    assert ended.returncode == 128 and "gate.metric_of_study" in ended.stderr, ended.stderr
    ended = gate(here, "two.toml", "--metric", "requests_per_second=5%")
    assert ended.returncode == 128 and "gate.metric_not_compared" in ended.stderr, ended.stderr


def test_the_lab_of_a_study_is_the_one_typed(here: Path) -> None:
    (here / "two.toml").write_text(TWO_WORKLOADS.replace("PYTHON", sys.executable))
    ended = gate(here, "two.toml", "--lab", "server_cpus=[4000]")
    assert ended.returncode == 128 and "4000" in ended.stderr, ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_commands_of_another_users_study_are_refused(here: Path) -> None:
    (here / "two.toml").write_text(TWO_WORKLOADS.replace("PYTHON", sys.executable))
    os.chown(here / "two.toml", 12345, -1)
    ended = gate(here, "two.toml")
    assert ended.returncode == 128 and "commands_not_allowed" in ended.stderr, ended.stderr


def test_wrong_replies_in_one_of_two_workloads_end_with_128(here: Path) -> None:
    """A study with two workloads: head answers the second with too few bytes."""
    (here / "two.toml").write_text(TWO_WORKLOADS.replace("PYTHON", sys.executable))
    ended = gate(here, "two.toml", "--budget", "8s", "--no-conform")
    assert ended.returncode == 128, ended.stdout + ended.stderr
    assert "wrong_reply" in ended.stderr and "Undecided" not in ended.stdout


def test_a_server_that_never_answers_ends_with_128(here: Path) -> None:
    (here / "mute.py").write_text(
        SERVER.replace("        self.transport.write", "        0 and self.transport.write")
    )
    ended = gate(here, *pair(server(), f"{sys.executable} mute.py {{port}}"), *QUICK, "--timeout", "500ms")
    assert ended.returncode == 128, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_calibration_compares_base_with_itself(here: Path) -> None:
    """Head of the repository is never built: its build fails."""
    subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
    (here / "build").write_text("exit 0\n")
    commit(here, "first")
    subprocess.run([*GIT, "tag", "old"], cwd=here, check=True)
    (here / "build").write_text("exit 1\n")
    commit(here, "second")
    revisions = ("--base-rev", "old", "--build", "sh build", "--serve", server())
    # The first look decides, and without a look nothing is known. Beside other tests it may take minutes.
    words = (*QUICK, "--budget", "5min", "--margin", "50%")
    for _ in range(4):  # On a busy machine, most servers of a gate may be read too late.
        ended = gate(here, "--calibrate", "1", *revisions, *words, "--json")
        if "gate.nothing_measured" in ended.stderr:
            continue
        assert ended.returncode == 0, ended.stderr
        found = json.loads(ended.stdout)
        if found["would_find_percent"]:
            break
    assert (found["gates"], found["alarms"]) == (1, 0)
    assert found["margins"] == {"server_cpu_per_request": 50} and found["workload"] == "http"
    (kept,) = (here / "cache/thunderherd/calibrations").iterdir()
    assert json.loads(kept.read_text()) == found
    # The next gate says before it runs what it can find.
    for _ in range(4):  # On a busy machine, the pilot may have no valid trial.
        ended = gate(here, *pair(server(), server()), *words)
        if "before the run" in ended.stderr:
            break
    said = [each for each in ended.stderr.splitlines() if each.startswith("before the run: 1 gate")]
    assert len(said) == 1, (found, ended.stderr)
    (line,) = said
    assert f"{found['would_find_percent']['server_cpu_per_request']:.1f} %" in line
    lines = ended.stderr.splitlines()
    assert not any(each.startswith("gate (") for each in lines[: lines.index(line)]), ended.stderr


def test_a_port_in_use_ends_with_128(here: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = server().replace("{port}", f"{taken.getsockname()[1]} # {{port}}".split(" #")[0])
        ended = gate(here, *pair(f"{command}", server()), *QUICK)
    assert ended.returncode == 128, ended.stderr


def test_unreadable_results_end_with_128(here: Path) -> None:
    (here / "mine/pilot").mkdir(parents=True)
    (here / "mine/pilot/run.json").write_text("{")
    ended = gate(here, *pair(server(), server()), *QUICK, "--out", "mine", "--resume")
    assert ended.returncode == 128 and "Traceback" not in ended.stderr


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare, which makes a small file system")
def test_a_full_disk_ends_with_128(here: Path) -> None:
    (here / "small").mkdir()
    script = 'mount -t tmpfs -o size=40k none small && exec "$@"'
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
    ended = gate(here, *pair(server(), server()), *QUICK, "--out", "small/mine", prefix=prefix)
    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(f"no small file system here: {ended.stderr.strip()}")
    assert ended.returncode == 128, (ended.returncode, ended.stderr)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_gate_never_looks_like_a_verdict(number: signal.Signals, here: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "thunderherd",
        "gate",
        *pair(server(), server()),
        *QUICK,
        "--out",
        "mine",
    ]
    with subprocess.Popen(
        command, cwd=here, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as begun:
        deadline = time.monotonic() + 60
        while (
            begun.poll() is None and time.monotonic() < deadline and not [*here.glob("mine/*/trials.jsonl")]
        ):
            time.sleep(0.02)
        begun.send_signal(number)
        _, said = begun.communicate(timeout=120)
    # A shell, and git, see 128 + the signal.
    assert begun.returncode in (130, -number), said


def test_a_fault_of_the_program_itself_ends_with_128(here: Path) -> None:
    """As a crash would."""
    (here / "broken.py").write_text(
        "import sys\nfrom thunderherd.cli import main\nimport thunderherd.gate.gate as gate\n"
        "def broken(*request): raise RuntimeError('a fault')\ngate.gate = broken\n"
        "sys.argv[1:] = sys.argv[1:]\nmain.main()\n"
    )
    command = [sys.executable, "broken.py", "gate", *pair(server(), server())]
    ended = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 128 and "a fault" in ended.stderr


@pytest.mark.parametrize("fault", ["raise ImportError('gone')", "raise MemoryError", "1 +"])
def test_an_incomplete_installation_ends_with_128(fault: str, here: Path) -> None:
    (here / "typer.py").write_text(f"{fault}\n")
    ended = gate(here, *pair(server(), server()), environment={"PYTHONPATH": str(here)})
    assert ended.returncode == 128 and "Traceback" not in ended.stderr, ended.stderr
    assert "incomplete installation" in ended.stderr


SCRIPT = Path(__file__).parents[3] / "docs/ci/gate.sh"


@pytest.mark.parametrize("missing", ["BASE", "SERVE", "PATH"])
def test_the_script_for_pipelines_fails_with_128(missing: str, here: Path) -> None:
    own = {"BASE": "HEAD", "SERVE": server(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    own[missing] = "/usr/bin:/bin" if missing == "PATH" else ""
    ended = subprocess.run(["sh", SCRIPT], cwd=here, env=own, capture_output=True, text=True, check=False)
    assert ended.returncode == 128 and "gate.sh: no " in ended.stderr, ended.stderr


def test_the_script_for_pipelines_fails_if_it_cannot_fetch_the_base(here: Path) -> None:
    origin = here / "origin"
    origin.mkdir()
    (origin / "server.py").write_text(SERVER)
    subprocess.run(["git", "init", "--quiet"], cwd=origin, check=True)
    commit(origin, "first")
    (origin / "notes").write_text("second")
    commit(origin, "second")
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", f"file://{origin}", "shallow"], cwd=here, check=True
    )
    shutil.rmtree(origin)
    own = {"BASE": "HEAD~1", "SERVE": server(), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    ended = subprocess.run(
        ["sh", SCRIPT], cwd=here / "shallow", env=own, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 128 and "gate.sh: git fetch" in ended.stderr, ended.stderr


@pytest.mark.thorough
def test_the_script_for_pipelines_gates_a_commit(here: Path) -> None:
    """With nothing in the environment but what the script needs, as in a new container."""
    subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
    commit(here, "first")
    command = Path(sys.executable).with_name("thunderherd")
    (here / "bin").mkdir()
    (here / "bin/thunderherd").symlink_to(command)
    own = {
        "BASE": "HEAD", "SERVE": server(), "BUILD": "true", "WORKLOAD": "http",
        "MARGIN": "90%", "BUDGET": "20s",
        "PATH": f"{here / 'bin'}:/usr/bin:/bin", "HOME": str(here / "home"),
    }  # fmt: skip
    ended = subprocess.run(
        ["sh", SCRIPT], cwd=here, env=own, capture_output=True, text=True, check=False, timeout=400
    )
    # On a busy machine, 20 s may be too short for a verdict.
    verdicts = {0: "Not slower", 125: "Undecided"}
    assert ended.returncode in verdicts, ended.stdout + ended.stderr
    assert verdicts[ended.returncode] in (here / "gate.md").read_text() and (here / "gate.xml").exists()


GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def commit(folder: Path, message: str) -> None:
    subprocess.run([*GIT, "add", "."], cwd=folder, check=True, capture_output=True)
    subprocess.run([*GIT, "commit", "--quiet", "-m", message], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("base", "more", "status"),
    [("HEAD~1", (), 128), ("HEAD~1", ("--bisect",), 125), ("HEAD", ("--bisect",), 128)],
)
def test_a_build_that_fails(base: str, more: tuple[str, ...], status: int, here: Path) -> None:
    """If that of base fails, `git bisect` must stop: it would skip every commit."""
    subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
    for number in (0, 1):
        (here / "build").write_text(f"exit {number}\n")
        commit(here, f"exit {number}")
    words = ("--base-rev", base, "--build", "sh build", "--serve", server(), *more)
    ended = gate(here, *words, *QUICK)
    assert ended.returncode == status and "gate.build_failed" in ended.stderr
