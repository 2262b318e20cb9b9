"""Error rates of `gate`: false alarms, slowdowns that it finds, and commits that `git bisect run` finds.

Alarms: base and head are the same server. Slowdowns: head computes longer for each request. Bisects: one of
40 commits of a repository made for this purpose is slower, and three do not build. Each gate is the command
itself, as a pipeline calls it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import SEED
from thunderherd.engine.client import catalogue
from thunderherd.toml.quantities import TIME

GATES, BISECTS = 5, 1
BUDGET, SLOWDOWN = "3min", 5.0
COMPUTE, REST = 400, 30
"""Microseconds that a server computes for a request, and that its other work takes, about."""
COMMITS, BROKEN = 40, 3
BISECT = "bisects"
GATES_OF_A_BISECT = 7
SPIN = (200, 300)
"""Microseconds that the server of a repository spins, before and after the slower commit."""
BISECT_WORDS = (
    "--metric", "server_cpu_per_request", "--margin", "10%", "--budget", "30s", "--workload", "http",
    "-c", "4", "--no-conform",
)  # fmt: skip
LONGEST = 900
"""The seconds after which a gate is ended."""

SERVER = """\
import asyncio, sys, time
SPIN = {spin}e-6
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


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--gates", type=int, default=GATES, help=f"gates of each kind (default {GATES})")
    parser.add_argument("--bisects", type=int, default=BISECTS, help=f"bisects (default {BISECTS})")
    parser.add_argument("--budget", default=BUDGET, help=f"budget of a gate (default {BUDGET})")
    parser.add_argument(
        "--slowdown", type=float, default=SLOWDOWN, help=f"planted slowdown, percent (default {SLOWDOWN:g})"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, help=f"seed of the planted commits (default {SEED})"
    )
    parser.add_argument(
        "--log",
        type=Path,
        default=None,
        metavar="FILE",
        help="file that gets a line for each that ends; earlier runs count, too (default: none)",
    )


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    budget = TIME.read(given.budget, 1) / 1e9
    return float(2 * given.gates * budget + given.bisects * GATES_OF_A_BISECT * 20)


def run(given: argparse.Namespace) -> None:
    """Run the gates and the bisects, and print how they end."""
    slower = COMPUTE + round((COMPUTE + REST) * given.slowdown / 100)
    base, head = (f"{catalogue().defaults.design},compute={time}us" for time in (COMPUTE, slower))
    log = Log(given.log)
    for _ in range(given.gates):
        # In turn, so that both meet the same noise.
        log.add(_gate("alarms", base, base, given.budget))
        log.add(_gate("slowdowns", base, head, given.budget))
    # Bisects of a later session plant other commits.
    planted = random.Random(given.seed + sum(each.what == BISECT for each in log.ended))
    for _ in range(given.bisects):
        log.add(_bisect(planted))
    for line in log.counts():
        print(line)


@dataclass(frozen=True)
class Ended:
    """A gate or a bisect that has ended."""

    what: str
    between: str
    verdict: str
    words: str


class Log:
    """What has ended so far; with a file, in earlier runs, too."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        self.ended = [Ended(**json.loads(line)) for line in lines]

    def add(self, found: Ended) -> None:
        """Print it, and write it to the file."""
        self.ended.append(found)
        number = sum(each.what == found.what for each in self.ended)
        print(f"{found.what} {number}: {found.verdict:12} {found.words}", flush=True)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(found)) + "\n")

    def counts(self) -> Iterator[str]:
        """Yield a line for each kind."""
        for what, between in dict.fromkeys((each.what, each.between) for each in self.ended):
            verdicts = Counter(
                each.verdict for each in self.ended if (each.what, each.between) == (what, between)
            )
            shown = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
            yield f"{what}: {sum(verdicts.values())} of {between}: {shown}"


def _gate(what: str, base: str, head: str, budget: str) -> Ended:
    between = f"{base} and {head}, {budget}"
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        words = ["gate", "--base", base, "--head", head, "--budget", budget, "--json"]
        ended = _command([*words, "--out", f"{folder}/gate"], Path(folder))
        took = time.monotonic() - began
        if ended.returncode not in (0, 1, 125):
            why = f"status {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}"
            return Ended(what, between, "failed", why)
        trials = json.loads(Path(folder, "gate/gate/summary.json").read_text(encoding="utf-8"))["trials"]
    found = json.loads(ended.stdout)
    rows = [_shown(each) for each in found["rows"] if each["slowdown_percent"]]
    foreign, rejected = 100 * (trials["foreign_share"] or 0), len(trials["rejected_blocks"])
    noise = f"{foreign:.1f} % used by others, {rejected} rejected"
    return Ended(
        what, between, found["verdict"], f"{found['blocks']} blocks, {took:.0f} s, {noise}; {'; '.join(rows)}"
    )


def _shown(row: dict[str, Any]) -> str:
    found = "nothing" if row["would_find_percent"] is None else f"{row['would_find_percent']:.1f} %"
    return f"{row['metric']} {row['slowdown_percent']['value']:.1f} %, would find {found}"


def _bisect(planted: random.Random) -> Ended:
    """Return whether `git bisect run` finds the slower commit."""
    began = time.monotonic()
    slow = planted.randrange(2, COMMITS)
    # A commit that does not build cannot be told from its slower neighbour, so those stay apart.
    others = [each for each in range(1, COMMITS - 1) if abs(each - slow) > 1]
    broken = set(planted.sample(others, BROKEN))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "server"
        commits = _repository(folder, slow, broken)
        _git(folder, "bisect", "start", commits[-1], commits[0])
        gate = [
            *(sys.executable, "-m", "thunderherd", "gate", "--base-rev", commits[0]),
            *("--build", f"{sys.executable} -m py_compile server.py && test ! -e broken"),
            *("--serve", f"{sys.executable} server.py {{port}}", "--bisect"),
            *BISECT_WORDS,
        ]
        ended = subprocess.run(
            ["git", "bisect", "run", *gate], cwd=folder, capture_output=True, text=True, check=False,
            timeout=LONGEST * GATES_OF_A_BISECT,
        )  # fmt: skip
    is_found = f"{commits[slow]} is the first bad commit" in ended.stdout
    took = time.monotonic() - began
    words = f"commit {slow} of {COMMITS} is slower, {sorted(broken)} do not build, {took:.0f} s"
    if not is_found:
        words += f": {ended.stdout.strip().splitlines()[-1:]} {ended.stderr[-300:]}"
    return Ended(BISECT, f"a repository of {COMMITS} commits", "found" if is_found else "not found", words)


def _repository(folder: Path, slow: int, broken: set[int]) -> list[str]:
    """Make a repository whose commit number `slow` is slower; return its commits, the oldest first."""
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    commits = []
    for number in range(COMMITS):
        (folder / "server.py").write_text(SERVER.replace("{spin}", str(SPIN[number >= slow])))
        (folder / "notes").write_text(f"change {number}\n")
        mark = folder / "broken"
        mark.write_text("it does not build\n") if number in broken else mark.unlink(missing_ok=True)
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"change {number}")
        commits.append(_git(folder, "rev-parse", "HEAD").strip())
    return commits


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


def _command(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thunderherd", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST)
