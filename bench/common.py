"""What the benchmarks share: where the two sides run, in what order, and how a figure is printed."""

from __future__ import annotations

import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from thunderherd.engine.catalogue import MOST_WORKERS, Design
from thunderherd.engine.client import EngineError, LoadProcess, Server, catalogue
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.statistics.samples import hodges_lehmann

SEED = 1
PATIENCE_SECONDS = 60.0
"""For whatever should take a second or two, on a machine that others keep busy."""
LATEST = 0.1
"""How late the server may be read, in windows; otherwise its CPU time does not belong to the window."""


def two_places() -> tuple[list[int], list[int]]:
    """The first CPU that this process may use for the server, the second for the clients."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise UserError("a benchmark needs two CPUs, one for the server and one for its clients; here is one")
    return cpus[:1], cpus[1:2]


def chosen_designs(names: Sequence[str]) -> list[Design]:
    """These designs, or all that this machine has."""
    designs = catalogue().designs
    unknown = sorted(set(names) - {design.name for design in designs})
    if unknown:
        raise UserError(f"no design is called {unknown[0]!r}; `thunderherd list designs` names them")
    return [design for design in designs if design.available and (not names or design.name in names)]


def unavailable_designs() -> list[str]:
    """Those that this machine does not have, and why."""
    return [f"{design.name}: {design.reason}" for design in catalogue().designs if not design.available]


def shuffled_rounds(names: Sequence[str], rounds: int, of: str = "") -> Iterator[tuple[int, str]]:
    """Every name once a round, each round in an order of its own: what drifts meets all alike.

    `of` says whose rounds these are to whoever is looking.
    """
    order = random.Random(SEED)
    for number in range(rounds):
        for name in order.sample(list(names), len(names)):
            _progress(f"{of}round {number + 1} of {rounds}: {name}")
            yield number, name
    _progress("")


def _progress(text: str) -> None:
    """One line that writes over itself, where somebody is looking."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def workers(design: Design, connections: int) -> dict[str, int]:
    """A pool that can hold so many connections: a worker for each where a worker waits in its calls; a single
    loop, for there is one CPU, where it does not. Raises `UserError` where no pool is that large.
    """
    wanted = max(connections, 2) if design.waits == "in_the_call" else 1
    found = {}
    for setting in design.settings:
        if setting.name not in MOST_WORKERS or setting.kind != "integer":
            continue
        if wanted > setting.maximum:
            raise UserError(f"{setting.name} is at most {setting.maximum:,}, and {wanted:,} are needed")
        found[setting.name] = max(wanted, setting.default) if setting.name == "maximum_workers" else wanted
    return found


@dataclass(frozen=True)
class Figures:
    """What one window came to."""

    per_second: float
    server_microseconds: float | None
    """CPU time of all of the server's processes, per request; None where the server was read too late."""
    client_microseconds: float
    """CPU time of the clients, per request, connecting and warming up included."""


class NotInServiceError(EngineError):
    """Some of the kept connections were not served yet."""


def measure(server: Server, load: LoadProcess, clients: Mapping[str, SettingValue]) -> Figures:
    """The window of a load that ends by time, of `clients` with these settings.

    Raises `NotInServiceError` unless all kept connections were served at once, `EngineError` unless every
    reply came and was right.
    """
    try:
        began = load.mark(PATIENCE_SECONDS)
        before = server.snapshot()
        time.sleep(int(clients["milliseconds"]) / 2000)
        middle = server.snapshot()
        ended = load.mark(PATIENCE_SECONDS) if began else None
        after = server.snapshot()
        result = load.wait(PATIENCE_SECONDS)
    finally:
        load.end()
    window = result.window
    served = middle.tally.connections - middle.tally.closed
    if clients["connections"] == "kept" and served < int(clients["clients"]):
        if window is None or middle.monotonic_ns >= window.ended_monotonic_ns:
            raise EngineError("could not be read within the window: others keep the CPUs busy")
        raise NotInServiceError(
            f"had {served:,} of {clients['clients']:,} connections in service amid the window"
        )
    if result.tally.errors:
        errors = ", ".join(f"{count:,} {kind}" for kind, count in result.tally.errors.items())
        raise EngineError(f"{errors}; the first: {result.first_error}")
    if ended is None or window is None or not window.requests:
        raise EngineError("answered nothing in the window: it is too short, or others keep the CPUs busy")
    length = window.ended_monotonic_ns - window.started_monotonic_ns
    edges = ((before, window.started_monotonic_ns), (after, window.ended_monotonic_ns))
    in_time = all(snapshot.monotonic_ns - edge <= LATEST * length for snapshot, edge in edges)
    answered = after.tally.requests - before.tally.requests
    cpu = None
    if in_time and answered and before.cpu_ns is not None and after.cpu_ns is not None:
        cpu = (after.cpu_ns - before.cpu_ns) / answered / 1000
    clients_cpu = (result.user_ns + result.system_ns) / result.tally.requests / 1000
    return Figures(window.requests_per_second, cpu, clients_cpu)


def duration(seconds: float) -> str:
    """`3.2 minutes`; of less than one `48 seconds`."""
    whole = math.ceil(seconds)
    return f"{seconds / 60:.1f} minutes" if whole >= 60 else f"{whole} second{'' if whole == 1 else 's'}"


def show_lost(reasons: Mapping[str, str]) -> None:
    """A line for each case of which trials were lost, with the last reason."""
    for name, reason in reasons.items():
        print(f"{name}: trials lost, the last: {reason}")


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median; behind it the least and the most, where there are several."""
    if not values:
        return "-"
    middle, least, most = (
        f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} ({least}..{most})"


def ratio(values: ArrayLike) -> str:
    """The typical ratio of the rounds and its interval of 95 %, which six rounds have at least."""
    estimate = hodges_lehmann(np.log(values))
    middle = f"{np.exp(estimate.value):.2f}"
    if estimate.low is None or estimate.high is None:
        return middle
    return f"{middle} ({np.exp(estimate.low):.2f}..{np.exp(estimate.high):.2f})"


def search_path() -> str:
    """Where programs to compare with are: $THUNDERHERD_PEERS, PATH, and the administrator's folders."""
    places = (
        os.environ.get("THUNDERHERD_PEERS"),
        os.environ.get("PATH", os.defpath),
        "/usr/sbin:/usr/local/sbin",
    )
    return ":".join(filter(None, places))


def group_cpu(group: int) -> int:
    """CPU time of the living processes of a process group, in nanoseconds (/proc/PID/schedstat)."""
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for process in processes_of(group)
        for task in (process / "task").iterdir()
    )


def processes_of(group: int) -> list[Path]:
    """The folders in /proc of the processes of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(folder)
    return found


def until_done(seconds: float = PATIENCE_SECONDS) -> Iterator[float]:
    """Turns of a loop that waits for something, and how long it has waited; ends when that is too long."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        yield waited
        time.sleep(0.02)
