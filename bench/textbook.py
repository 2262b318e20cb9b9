"""The textbook's designs and plain C programs: CPU time, page faults and system calls per connection.

`plain_c/` has a program of a page for the iterative baseline and for each row of the textbook's figure: the
protocol, a loop, and the calls. They and our designs are contenders of one study, `plain_c/textbook.toml`,
with the same client and CPUs, interleaved. A ratio above 1 is what our design costs more than its program.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from thunderherd.engine.client import catalogue
from thunderherd.records.summary import ContenderSummary, PairSummary, Summary
from thunderherd.run.runner import run_study
from thunderherd.study.loading import load_study

STUDY = Path(__file__).parent / "plain_c" / "textbook.toml"
PLAIN = "_c"
"""The end of the name of a C program; before it stands the name of its design."""
ROUNDS, FEWEST = 20, 11
"""The usual number of rounds, and the fewest that can show a difference of each of the rows."""
SECONDS = 0.9
"""Usual time of a trial."""
COUNTED = ("page_faults", "system_calls")
CPU = "server_cpu_per_connection"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--rounds", type=rounds, default=ROUNDS, help=f"rounds (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order (default: drawn)")
    parser.add_argument("--out", type=Path, default=None, help="directory of the run (default: removed)")


def rounds(text: str) -> int:
    """Read a number of rounds that can show a difference."""
    number = int(text)
    if number < FEWEST:
        raise argparse.ArgumentTypeError(f"{number} rounds cannot show a difference; at least {FEWEST}")
    return number


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    study = load_study(str(STUDY), "quick", _overrides(given), catalogue())
    return float(given.rounds * len(study.contenders) * SECONDS)


def _overrides(given: argparse.Namespace) -> list[str]:
    return [f"sizes.quick.looks=[{given.rounds}]"]


def run(given: argparse.Namespace) -> None:
    """Run the study and print a line for each row."""
    study = load_study(str(STUDY), "quick", _overrides(given), catalogue())
    with tempfile.TemporaryDirectory() as folder:
        summary = run_study(study, given.out or Path(folder) / "run", seed=given.seed)
    print(f"\n{'':26}{'CPU (µs/connection)':>20}{'ratio':>25}{'page faults':>18}{'system calls':>18}")
    print(f"{'design':26}{'ours':>10}{'C':>10}{'ours / C':>25}{'ours':>9}{'C':>9}{'ours':>9}{'C':>9}")
    for line in lines(summary):
        print(line)
    print("Page faults and system calls are per connection. In brackets: 95 % intervals.")


def lines(summary: Summary) -> list[str]:
    """Return a line for each design that stands beside a program."""
    found = {each.name: each for each in summary.contenders}
    pairs = {(pair.a, pair.b): pair for pair in summary.pairs if pair.metric == CPU}
    return [
        _line(summary, found[name], found[name + PLAIN], pairs[name, name + PLAIN])
        for name in found
        if name + PLAIN in found
    ]


def _line(summary: Summary, ours: ContenderSummary, plain: ContenderSummary, pair: PairSummary) -> str:
    cells = [f"{ours.name:26}"]
    cells += [f"{cpu_shown(each):>10}" for each in (ours, plain)]
    cells.append(f"{ratio_shown(pair):>25}")
    for counter in COUNTED:
        cells += [f"{counted(summary, each.name, counter):>9}" for each in (ours, plain)]
    return "".join(cells)


def counted(summary: Summary, name: str, counter: str) -> str:
    """Return what a server counted per connection."""
    contender = summary.counting.of(name) if summary.counting else None
    server = contender.sides.get("server") if contender else None
    count = server.counts.get(counter) if server else None
    return "unknown" if count is None else f"{count.per_request:.2f}"


def ratio_shown(pair: PairSummary) -> str:
    """Return a ratio with its interval."""
    if pair.ratio is None or pair.low is None or pair.high is None:
        return "unknown"
    return f"{pair.ratio:.3f} ({pair.low:.3f} to {pair.high:.3f})"


def cpu_shown(contender: ContenderSummary) -> str:
    """Return the server's CPU time per connection, in microseconds."""
    estimate = contender.metrics.get(CPU)
    return "unknown" if estimate is None else f"{estimate.value * 1e6:.2f}"
