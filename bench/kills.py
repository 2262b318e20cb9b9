"""What SIGKILL leaves behind: each command is killed at random moments, and so are its processes.

A kill is good if nothing of the command is left some seconds later: no process, interface, mount or shared
memory. A namespace without a process and a mount is gone. All results must then be readable, and a command
that is resumed must end with the seeds that it began with. Empty control groups and temporary files are what
the next start removes. In a third of the kills only a process of the command dies, and the command must end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common import SEED
from thunderherd.engine.client import Server, catalogue
from thunderherd.labs import with_namespaces
from thunderherd.machine.proc import lines, stat_fields

TIMES = 45
MARK = "THUNDERHERD_BENCH_KILLS"
"""The variable of the environment by which processes of a command are found."""
GONE_SECONDS = 8.0
"""The time in which everything must be gone. The kernel takes up to 5 s to remove some counters."""
SETTLED_SECONDS = 3.0
"""The time after which an empty control group is surely nobody's."""
EARLIEST, LATEST = 0.2, 8.0
"""The seconds after its start at which a command is killed."""
REFUSED, OWN_FAILURE = 2, 128
"""The exit statuses of a command that does not begin; of `gate`, the least one."""
END_SECONDS = 300.0
"""The time in which a command ends that has lost a process."""
CONTENDERS = """\
name = "kills"
[measure]
limits = "0"
[load.settings]
clients = 4
duration = "200ms"
[sizes.quick]
repetitions = 12
"""
OURS = """\
[[contenders]]
name = "prefork"
design = "prefork"
[[contenders]]
name = "thread_per_client"
design = "thread_per_client"
"""
SERVER = """\
import asyncio, sys
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nhere"
class Http(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))
async def main():
    loop = asyncio.get_running_loop()
    await (await loop.create_server(Http, "127.0.0.1", int(sys.argv[1]))).serve_forever()
asyncio.run(main())
"""
BUILD = "sleep 2 & sleep 1"
"""A build that leaves a process running."""
PASSES_ON = """trap 'kill $!' TERM; "$@" & wait; wait"""
"""A shell that runs a server as its child, and ends it after SIGTERM."""
THEIRS = f"""\
[comparisons]
all_pairs = false
[server]
workload = "http"
[[contenders]]
name = "python"
build = ["sh", "-c", "{BUILD}"]
version = ["sh", "-c", "sleep 0.3; echo 1"]
command = ["sh", "-c", '''{PASSES_ON}''', "sh", "{sys.executable}", "{{dir}}/server.py", "{{port}}"]
"""
DECIDING = f"""\
claims = "claims.toml"
{CONTENDERS}
[sizes.claims]
decides = "claims"
looks = [12]
alpha_split = [1.0]
{OURS}"""
CLAIMS = """\
study = "kills"
source = "invented"
[[claims]]
id = "T1"
statement = "A thread costs more than a pool."
metric = "server_cpu_per_request"
tests = [{ label = "a difference", weights = { thread_per_client = 1, prefork = -1 } }]
"""
NAMESPACES = with_namespaces()[0].name
SERVERS = ("epoll,compute=50us", "prefork,compute=50us")
OWN = (f"{sys.executable} server.py {{port}}", "--workload", "http")
PACKED = "packed.thd"
"""The capsule of a run of our contenders."""
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "ours.toml"),
    "run in namespaces": ("run", "ours.toml", "--lab", NAMESPACES),
    "run with another's server": ("run", "theirs.toml", "--no-conform"),
    "run with profiles": ("run", "ours.toml", "--profile", "--set", "repetitions=2"),
    "claims": ("claims", "deciding.toml", "--decide"),
    "replay": ("replay", PACKED, "--measure"),
    "compare": ("compare", *SERVERS, "--budget", "30s"),
    "gate": ("gate", "--base", SERVERS[0], "--head", SERVERS[1], "--budget", "30s"),
    "gate of revisions": (
        "gate", "--base-rev", "HEAD~1", "--build", BUILD, "--serve", *OWN, "--budget", "30s", "--no-conform",
        "--metric", "server_cpu_per_request",
    ),
    "baseline": ("baseline", "save", "kept", SERVERS[0], "--reference", SERVERS[1], "--budget", "30s"),
    "crossover": ("crossover", "send_each", "writev", "--over", "bytes=64..64KiB"),
    "grade": ("grade", "epoll", "--reference", "prefork"),
    "conform": ("conform", *OWN, "--timeout", "500ms"),
    "knee": ("knee", "epoll", "prefork", "--p90", "2ms", "--duration", "300ms"),
    "serve in namespaces": ("serve", "epoll", "bytes", "--lab", NAMESPACES),
}  # fmt: skip
WITHOUT_RESULTS = ("serve", "grade", "conform", "baseline")
"""The commands that take no --out."""
RESUMED: Mapping[str, Collection[int]] = {
    "run": (0,),
    "claims": (0,),
    # 3: on a busy machine, its budget may end before a block that is not rejected.
    "compare": (0, 3),
    "gate": (0, 1, 125),
    "crossover": (0, 1),
    "knee": (0, 1),
}
"""The commands that can be resumed, with the exit statuses of their answers."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--times", type=int, default=TIMES, help=f"number of kills (default {TIMES})")
    parser.add_argument(
        "--seed", type=int, default=SEED, help=f"seed of moments and victims (default {SEED})"
    )


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    return float(given.times) * (LATEST / 2 + 30)


def run(given: argparse.Namespace) -> None:
    """Kill commands in turn, and print what they leave behind."""
    draw = random.Random(given.seed)
    good: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    names, groups = list(COMMANDS), groups_of_servers()
    for number in range(given.times):
        name = names[number % len(names)]
        with tempfile.TemporaryDirectory(prefix="thunderherd-kills-") as folder:
            faults = list(_kill(name, Path(folder), draw, number))
        killed[name] += 1
        good[name] += not faults
        for fault in faults:
            print(f"{name}, kill {number}: {fault}", flush=True)
    for name in killed:
        print(f"{name}: {killed[name]} kills, {good[name]} left nothing behind")
    left = _after_the_next_start() - groups
    for group in sorted(left):
        print(f"a control group is left: {group}")
    if left or good.total() < killed.total():
        sys.exit(1)


def groups_of_servers() -> set[Path]:
    """Return the control groups that servers were in."""
    return {*Path("/sys/fs/cgroup").glob("**/thunderherd-server-*")}


def _after_the_next_start() -> set[Path]:
    """Return the control groups that are left when another server has started."""
    time.sleep(SETTLED_SECONDS)
    (design, *_) = catalogue().designs
    with Server(design.name, workload=catalogue().defaults.workload) as server:
        server.stop()
    return groups_of_servers()


@dataclass(frozen=True)
class Traces:
    """What a command may leave on the machine besides processes."""

    links: frozenset[str]
    mounts: frozenset[str]
    shared: frozenset[str]

    @classmethod
    def now(cls) -> Traces:
        """Return those of this moment."""
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=False).stdout
        return cls(
            links=frozenset(line.split(":")[1] for line in links.splitlines()),
            mounts=frozenset(line.split()[4] for line in lines(Path("/proc/self/mountinfo")) if line),
            shared=frozenset(path.name for path in Path("/dev/shm").glob("*")),
        )

    def since(self, before: Traces) -> list[str]:
        """Return what has come since then, in words."""
        return [
            *(f"an interface: {name}" for name in self.links - before.links),
            *(f"a mount: {place}" for place in self.mounts - before.mounts),
            *(f"shared memory: {name}" for name in self.shared - before.shared),
        ]


def _kill(name: str, folder: Path, draw: random.Random, number: int) -> Iterator[str]:
    """Start a command, kill one of its processes, and yield what is wrong afterwards."""
    mark, temporary, said = f"{os.getpid()}-{number}", folder / "tmp", folder / "said"
    temporary.mkdir()
    environment = {
        **os.environ,
        MARK: mark,
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_DATA_HOME": str(folder / "data"),
    }
    words = COMMANDS[name]
    _set_up(words, folder, environment)
    before = Traces.now()
    out = () if words[0] in WITHOUT_RESULTS else ("--out", "out")
    command = [sys.executable, "-m", "thunderherd", *words, *out]
    with said.open("wb") as errors:
        started = subprocess.Popen(
            command, cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
    time.sleep(draw.uniform(EARLIEST, LATEST))
    status = started.poll()
    # A command that is refused starts nothing that could be left.
    if status is not None and (status == REFUSED or status >= OWN_FAILURE):
        yield f"it ended by itself with {status}: {said.read_text(errors='replace').strip()}"
    own = [pid for pid in marked(mark) if pid != started.pid]
    lives_on = bool(own) and draw.random() < 1 / 3
    if own and (lives_on or draw.random() < 0.5):
        # One of its processes dies first; then the command itself, which may have noticed.
        with suppress(ProcessLookupError):
            os.kill(draw.choice(own), signal.SIGKILL)
        if not lives_on:
            time.sleep(draw.uniform(0, 1))
    if lives_on:
        try:
            started.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            yield f"it did not end within {END_SECONDS:g} s after it had lost a process"
    started.kill()
    started.wait()
    if b"Traceback" in said.read_bytes():
        yield f"it ended in a stack trace: {said.read_text(errors='replace').splitlines()[-1]}"
    deadline = time.monotonic() + GONE_SECONDS
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        yield f"process {pid} is left: {command_of(pid)}"
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield from Traces.now().since(before)
    for results in (folder / "out", folder / "data"):
        yield from _unreadable(results)
    if words[0] in RESUMED:
        yield from _resumed(command, folder, environment, RESUMED[words[0]])
    else:
        _start_next(folder, environment)
    # What the killed command could not remove, the next one has.
    yield from (f"a temporary file: {path.name}" for path in temporary.iterdir())


def _set_up(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Make the files that a command needs: studies, a server in a repository, a capsule."""
    files = {
        "ours.toml": CONTENDERS + OURS, "theirs.toml": CONTENDERS + THEIRS, "deciding.toml": DECIDING,
        "claims.toml": CLAIMS, "server.py": SERVER,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    program = [sys.executable, "-m", "thunderherd"]
    steps: list[list[str]] = []
    if "--base-rev" in words:
        commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty"]
        steps += [["git", "init", "--quiet"], ["git", "add", "server.py"]]
        steps += [[*commit, "-m", message] for message in ("base", "head")]
    if PACKED in words:
        steps += [[*program, "run", "ours.toml", "--out", "packed"]]
        steps += [[*program, "capsule", "packed", "-o", PACKED]]
    for step in steps:
        subprocess.run(step, cwd=folder, env=environment, check=True, capture_output=True)


def _start_next(folder: Path, environment: Mapping[str, str]) -> None:
    """Do what every command does first that makes a temporary folder."""
    next_one = "from thunderherd.files import temporary_folder\nwith temporary_folder(): pass"
    subprocess.run([sys.executable, "-c", next_one], cwd=folder, env=environment, check=True)


def _unreadable(out: Path) -> Iterator[str]:
    """Yield the files of results that cannot be read; of a file of lines, the last may be cut."""
    for path in out.rglob("*"):
        if path.name.startswith("."):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
            elif path.suffix == ".jsonl":
                for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
                    json.loads(line)
        except ValueError as error:
            yield f"{path.relative_to(out)} cannot be read: {error}"


def _resumed(
    command: list[str], folder: Path, environment: Mapping[str, str], answers: Collection[int]
) -> Iterator[str]:
    """Resume a command, or begin it again if it had no run yet, and yield what is wrong with it."""
    seeds = {path.parent: json.loads(path.read_text())["seed"] for path in (folder / "out").rglob("run.json")}
    ended = subprocess.run(
        [*command, "--resume"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode not in answers:
        yield f"--resume ends with {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}"
        return
    whole = [folder / "out"] if (folder / "out/run.json").exists() else []
    for run in {*seeds, *whole}:
        study = json.loads((run / "summary.json").read_text())["study"]
        seed = seeds.get(run, study["seed"])
        if study["seed"] != seed:
            yield f"--resume has seed {study['seed']} in {run.name}, not {seed}"
        # On a busy machine, a pilot may end without a valid trial of each contender.
        if not study["complete"] and run == folder / "out":
            yield "--resume did not complete the run"


def marked(mark: str) -> list[int]:
    """Return the living processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "environ").read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() in words and stat_fields(int(path.name))[0] != "Z":
                found.append(int(path.name))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return "ended"
