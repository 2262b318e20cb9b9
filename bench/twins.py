"""Twins beside a hostile neighbour: pairs of equal servers that a study calls different.

Each study has two contenders with the same server, of the designs in turn. Meanwhile another process floods
a port of its own with connections, in bursts, on the CPUs of both sides. No block is rejected because of it.
A verdict that the twins differ is false, and a study has one with a probability of at most alpha. The part
fails if so many are false that chance explains it in less than one of a hundred runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scipy.stats import binomtest

from common import SEED, chosen_designs
from gating import Ended, Log
from thunderherd.engine.client import catalogue
from thunderherd.run.runner import run_study
from thunderherd.statistics.verdicts import Verdict
from thunderherd.study.loading import load_study

PAIRS = 40
ALPHA = 0.05
CHANCE = 0.01
"""A number of false verdicts that is less probable than this is a fault."""
FALSE = (Verdict.FASTER, Verdict.SLOWER)
SECONDS_OF_A_TRIAL = 0.6
LOOKS = (10, 16)
"""Blocks after which a study looks whether it has a verdict."""
STUDY = """\
name = "twins"
[measure]
metric = "server_cpu_per_request"
further_metrics = ["requests_per_second", "latency_p99_seconds"]
limits = "0"
alpha = {alpha}
[load.settings]
clients = 4
duration = "150ms"
[noise]
steal = "100%"
foreign = "100%"
[counting_cost]
trials = 0
[sizes.quick]
looks = [{looks}]
alpha_split = [0.4, 0.6]
[comparisons]
all_pairs = true
[[contenders]]
name = "one"
design = "{design}"
[[contenders]]
name = "other"
design = "{design}"
"""
NEIGHBOUR = """\
import random, select, socket, struct, sys, time
draw = random.Random(int(sys.argv[1]))
listener = socket.create_server(("127.0.0.1", 0))
made, until, is_asked = 0, 0.0, False
while not is_asked:
    with socket.create_connection(listener.getsockname()) as client, listener.accept()[0]:
        # A reset leaves no TIME_WAIT.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(b"x" * 1000)
    made += 1
    if time.monotonic() > until:
        is_asked = bool(select.select([sys.stdin], [], [], draw.uniform(0, 0.3))[0])
        until = time.monotonic() + draw.uniform(0, 0.4)
print(made)
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", metavar="DESIGN", help="designs (default: all)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of twins (default {PAIRS})")
    parser.add_argument(
        "--seed", type=int, default=SEED, help=f"seed of the orders and the bursts (default {SEED})"
    )
    parser.add_argument(
        "--log",
        type=Path,
        default=None,
        metavar="FILE",
        help="file that gets a line for each pair; earlier runs count, too (default: none)",
    )


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    return float(given.pairs * LOOKS[-1] * 2 * SECONDS_OF_A_TRIAL)


def run(given: argparse.Namespace) -> None:
    """Run the studies, and print how many verdicts are false; exit with 1 if they are too many."""
    designs = [each.name for each in chosen_designs(given.designs)]
    log = Log(given.log)
    # A later session has other orders.
    first = len(log.ended)
    with neighbour(given.seed + first) as connections:
        for number in range(first, first + given.pairs):
            log.add(_compared(designs[number % len(designs)], given.seed + number))
        print(f"The neighbour has made {connections():,} connections.")
    for line in log.counts():
        print(line)
    false = sum(each.verdict in FALSE for each in log.ended)
    print(f"{false} of {len(log.ended)} pairs have a false verdict; {ALPHA:.0%} are allowed.")
    sys.exit(are_too_many(false, len(log.ended)))


def are_too_many(false: int, pairs: int) -> bool:
    """Return whether alpha and chance do not explain so many false verdicts."""
    return bool(pairs and binomtest(false, pairs, ALPHA, alternative="greater").pvalue < CHANCE)


@contextmanager
def neighbour(seed: int) -> Iterator[Callable[[], int]]:
    """Run the neighbour during the block, or until the yielded call, which returns its connections."""
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, str(seed)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield lambda: int(process.communicate()[0])
        finally:
            process.kill()


def _compared(design: str, seed: int) -> Ended:
    """Compare a design with its twin in one study."""
    looks = ", ".join(map(str, LOOKS))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "twins.toml"
        file.write_text(STUDY.format(design=design, alpha=ALPHA, looks=looks), encoding="utf-8")
        study = load_study(str(file), "quick", [], catalogue())
        summary = run_study(study, Path(place) / "run", seed=seed)
    verdicts = [pair.verdict for pair in summary.pairs]
    verdict = next((each for each in verdicts if each in FALSE), max(verdicts))
    rows = (f"{pair.metric} {pair.ratio or 0:.3f}" for pair in summary.pairs)
    noise = f"{100 * (summary.trials.foreign_share or 0):.0f} % used by others"
    return Ended("twins", "studies beside a neighbour", verdict, f"{design}, {noise}; {'; '.join(rows)}")
