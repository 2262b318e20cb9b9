"""Cost of each layer of the load: bare event loop, session, histogram, checks, the whole load.

`engine/benches/layers`, which cargo builds, runs the same loop with more and more layers of the load. It
begins with a socket and a count of bytes. The session adds the conversation, primitives and counts. The next
layers add the clock and the histogram, and the number in the system for Little's law. The last is the load
itself, `closed_connections`, which also schedules clients, keeps time limits, handles failures, and measures
gaps and CPU time for its checks.

The table also has an open load, with a schedule and four more histograms. Its rate is four fifths of the
closed load's in a trial before the first round. It sleeps between requests, so that fewer of them share a
turn of its loop. Server and client have a CPU each. Every trial starts a new server. Every round runs each
layer once, in random order, and a difference is of one round.

The second table compares event-driven designs with bare loops of the same calls, as servers of the same load.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import (
    MILLISECOND,
    PATIENCE_SECONDS,
    chosen_designs,
    milliseconds,
    ratio,
    show_lost,
    shuffled_rounds,
    spread,
    two_places,
)
from thunderherd.engine.client import EngineError, OwnServer, Server, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.statistics.samples import hodges_lehmann

WORKLOAD = "bytes"
LOAD, OPEN = "the load", "open"
LAYERS = {
    "bare": "bare loop",
    "session": "+ session",
    "histogram": "+ histogram",
    "checks": "+ Little's law",
    LOAD: "all of the load",
    OPEN: "an open load",
}
KINDS = {LOAD: "closed_connections", OPEN: "open"}
LOOPS = ("epoll", "io_uring")
"""Designs for which there is a bare loop."""
LOOP_BYTES = (64, 4096)
"""Bytes of a reply in the comparison with bare loops."""
OURS, BARE = "ours", "bare"
RATE_SHARE = 0.8
"""Rate of the open load, as a share of the closed load's. Above that a server would often not keep up."""
NEEDED = ("errors", "never_sent", "achieved_rate")
"""Checks that an open load must pass to have sent the configured requests. Lateness shows in latencies and
does not change the cost."""
WARM_UP_MILLISECONDS = 100
BUILD_SECONDS = 900.0
OTHER_SECONDS = 0.15
"""Time of a trial outside its window and warm-up, to start and end the processes."""
CRATE = Path(__file__).resolve().parents[1] / "engine" / "Cargo.toml"


@dataclass(frozen=True)
class Cost:
    """The results of one window."""

    per_second: float
    microseconds: float
    """CPU time of the client thread per request."""
    busy: float
    """Share of the window that the thread was on its CPU."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--rounds", type=int, default=12, help="trials of each (default: %(default)s)")
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="500ms",
        metavar="TIME",
        help="window of a trial (default: %(default)s)",
    )
    parser.add_argument("--clients", type=int, default=64, help="connections (default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=64, help="bytes of a reply (default: %(default)s)")
    parser.add_argument(
        "--design", help="design of the server (default: io_uring, which uses the least CPU time, or epoll)"
    )


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration, without cargo's build."""
    window = (given.milliseconds + WARM_UP_MILLISECONDS) / 1000
    trials = len(LAYERS) + 2 * len(LOOPS) * len(LOOP_BYTES)
    return float(given.rounds * trials * (window + OTHER_SECONDS))


def run(given: argparse.Namespace) -> None:
    """Measure and print a row for each layer."""
    here = [design.name for design in chosen_designs([given.design] if given.design else [])]
    if not here:
        raise UserError(
            f"{given.design} cannot run on this machine",
            code="bench.unavailable_design",
            hint="thunderherd list designs prints why",
        )
    design = given.design or ("io_uring" if "io_uring" in here else "epoll")
    program = built()
    rate = round(RATE_SHARE * trial(LOAD, design, program, given, None).per_second)
    costs: dict[str, dict[int, Cost]] = defaultdict(dict)
    lost: dict[str, str] = {}
    for number, name in shuffled_rounds(list(LAYERS), given.rounds):
        try:
            costs[name][number] = trial(name, design, program, given, rate)
        except (EngineError, UserError) as error:
            lost[name] = str(error)
    print(
        f"{given.clients} connections kept open, {given.bytes} bytes a reply, served by {design}; the open "
        f"load at {rate:,} requests a second\n"
    )
    show(costs, lost)
    compare_loops(program, given)


def compare_loops(program: Path, given: argparse.Namespace) -> None:
    """Measure and print a row for each design with a bare loop, and each size of reply."""
    trials = {
        f"{design}, {size} B, {kind}": (design, size, kind)
        for design in chosen_loops()
        for size in LOOP_BYTES
        for kind in (OURS, BARE)
    }
    costs: dict[tuple[str, int, str], dict[int, float]] = defaultdict(dict)
    lost: dict[str, str] = {}
    for number, name in shuffled_rounds(list(trials), given.rounds):
        try:
            costs[trials[name]][number] = server_cost(program, *trials[name], given)
        except (EngineError, UserError) as error:
            lost[name] = str(error)
    print(f"\n{given.clients} connections kept open; CPU of the server a request, µs\n")
    print(f"{'design':12}{'bytes':>8}{'ours':>24}{'bare loop':>24}{'ours / bare loop':>22}")
    for design in chosen_loops():
        for size in LOOP_BYTES:
            ours, bare = costs[design, size, OURS], costs[design, size, BARE]
            ratios = [each / bare[at] for at, each in ours.items() if at in bare]
            cells = [spread(list(each.values()), 2) for each in (ours, bare)]
            compared = ratio(ratios, 3) if ratios else "-"
            print(f"{design:12}{size:>8}{cells[0]:>24}{cells[1]:>24}{compared:>22}")
    show_lost(lost)


def chosen_loops() -> list[str]:
    """Return the designs with a bare loop that this machine can run."""
    here = {design.name for design in chosen_designs([])}
    return [name for name in LOOPS if name in here]


def server_cost(program: Path, design: str, size: int, kind: str, given: argparse.Namespace) -> float:
    """Measure the CPU time of a new server per request, in microseconds, over a whole load."""
    server_cpus, client_cpus = two_places()
    bare = [str(program), "serve", design, "{host}:{port}"]
    server: Server | OwnServer = (
        Server(design, workload=WORKLOAD, cpus=server_cpus)
        if kind == OURS
        else OwnServer(bare, name=f"{design} (bare loop)", cpus=server_cpus)
    )
    settings: dict[str, SettingValue] = {
        "clients": given.clients,
        "bytes": size,
        "connections": "kept",
        "duration": given.milliseconds * MILLISECOND,
    }
    with server:
        before = server.snapshot()
        load = start_load(
            WORKLOAD, server.ready.address, kind=KINDS[LOAD], settings=settings, cpus=client_cpus
        )
        try:
            result = load.wait(PATIENCE_SECONDS)
        finally:
            load.end()
        after = server.snapshot()
    if result.tally.errors or not result.tally.requests:
        raise EngineError(result.first_error or "no reply came")
    if before.cpu_ns is None or after.cpu_ns is None:
        raise EngineError("the CPU time of the server is unknown")
    return (after.cpu_ns - before.cpu_ns) / result.tally.requests / 1e3


def missing() -> str | None:
    """Return why cargo cannot build the layers on this machine; None if it can."""
    return (
        None
        if shutil.which("cargo")
        else "cargo is missing, which builds the layers; see `make prerequisites`"
    )


@functools.cache
def built() -> Path:
    """Build the program with the layers. Raises `UserError` if cargo is missing or fails."""
    if reason := missing():
        raise UserError(reason, code="bench.no_cargo")
    # The first build takes minutes without any output. Later ones are quick.
    print("bench: building engine/benches/layers, which takes minutes the first time", file=sys.stderr)
    command = ["cargo", "build", "--release", "--locked", "--bench", "layers", "--manifest-path", str(CRATE)]
    done = subprocess.run(
        [*command, "--message-format", "json-render-diagnostics"],
        capture_output=True, text=True, timeout=BUILD_SECONDS, check=False,
    )  # fmt: skip
    found = [
        line["executable"]
        for line in map(json.loads, done.stdout.splitlines())
        if line.get("executable") and line["target"]["name"] == "layers"
    ]
    if done.returncode or not found:
        raise UserError(
            f"`{' '.join(command)}` failed: {done.stderr.strip()[-2000:]}", code="bench.cargo_failed"
        )
    return Path(found[0])


def trial(name: str, design: str, program: Path, given: argparse.Namespace, rate: int | None) -> Cost:
    """Measure one window of a layer, with a new server; `rate` is the open load's."""
    server_cpus, client_cpus = two_places()
    with Server(design, workload=WORKLOAD, cpus=server_cpus) as server:
        if name in KINDS:
            return of_the_load(KINDS[name], server.ready.address, client_cpus, given, rate)
        words = (given.clients, given.bytes, WARM_UP_MILLISECONDS, given.milliseconds)
        found = run_layer(program, name, server.ready.address, words, client_cpus)
    return cost(found["requests"], found["elapsed_ns"], found["cpu_ns"])


def run_layer(
    program: Path, kind: str, address: str, words: Sequence[int], cpus: Sequence[int]
) -> Mapping[str, int]:
    """Run one window of a layer; return its requests, its length and CPU time in nanoseconds.

    `words` are clients, bytes, milliseconds of warm-up, and milliseconds of the window. Raises `EngineError`
    if the program fails.
    """
    command = [str(program), kind, address, *map(str, words)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS + words[-1] / 1000,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    if done.returncode:
        raise EngineError(f"{kind}: {done.stderr.strip()}")
    found: Mapping[str, int] = json.loads(done.stdout)
    return found


def of_the_load(
    kind: str, address: str, cpus: Sequence[int], given: argparse.Namespace, rate: int | None
) -> Cost:
    """Measure the load itself, which reads its CPU time at both ends of its window."""
    settings: dict[str, SettingValue] = {
        "clients": given.clients,
        "bytes": given.bytes,
        "connections": "kept",
        "duration": given.milliseconds * MILLISECOND,
        "warm_up": WARM_UP_MILLISECONDS * MILLISECOND,
    }
    if kind == KINDS[OPEN] and rate is not None:
        settings["rate"] = rate
    load = start_load(WORKLOAD, address, kind=kind, settings=settings, cpus=cpus)
    try:
        result = load.wait(PATIENCE_SECONDS)
    finally:
        load.end()
    if result.tally.errors or result.window is None or not result.validity:
        raise EngineError(result.first_error or "the load did not reach the end of its window")
    if kind == KINDS[OPEN]:
        missed = [each for each in result.validity.checks if each.name in NEEDED and each.holds is False]
        if missed:
            raise EngineError(f"{missed[0].name}: {missed[0].words}")
    [thread] = result.validity.generators
    return cost(result.window.requests, thread.elapsed_ns, thread.cpu_ns)


def cost(requests: int, elapsed: int, cpu: int) -> Cost:
    """Compute the cost from times in nanoseconds."""
    if not requests:
        raise EngineError("no reply in the window: other processes keep the CPUs busy")
    return Cost(requests / elapsed * 1e9, cpu / requests / 1e3, cpu / elapsed)


def show(costs: Mapping[str, Mapping[int, Cost]], lost: Mapping[str, str]) -> None:
    """Print a row for each layer, compared with the layer before it and with the first."""
    print(
        f"{'':18}{'requests a second':>30}{'busy':>7}{'CPU a request, µs':>24}{'more than before, ns':>28}"
        f"{'to the bare loop':>22}"
    )
    before: Mapping[int, Cost] = {}
    for name, title in LAYERS.items():
        seen = costs.get(name, {})
        if not seen:
            print(f"{title:18}{lost.get(name, 'no trial')}")
            continue
        all_of = list(seen.values())
        rates = spread([each.per_second for each in all_of])
        busy = spread([100 * each.busy for each in all_of]).partition(" ")[0]
        cpu = spread([each.microseconds for each in all_of], 2)
        bare = costs.get("bare", {})
        ratios = [each.microseconds / bare[at].microseconds for at, each in seen.items() if at in bare]
        compared = ratio(ratios) if ratios and name != "bare" else "-"
        print(f"{title:18}{rates:>30}{busy + ' %':>7}{cpu:>24}{more(seen, before):>28}{compared:>22}")
        before = seen
    show_lost({LAYERS[name]: reason for name, reason in lost.items() if name in costs})


def more(seen: Mapping[int, Cost], before: Mapping[int, Cost]) -> str:
    """Write the typical difference of the rounds in nanoseconds, with its 95 % interval."""
    differences = [
        1e3 * (each.microseconds - before[at].microseconds) for at, each in seen.items() if at in before
    ]
    if not differences:
        return "-"
    estimate = hodges_lehmann(differences)
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:,.0f}"
    return f"{estimate.value:,.0f} ({estimate.low:,.0f}..{estimate.high:,.0f})"
