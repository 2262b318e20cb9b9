"""Shared code of the benchmarks: the CPUs of both sides, the order of trials, and how figures are printed."""

from __future__ import annotations

import argparse
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

from thunderherd.engine.catalogue import Design
from thunderherd.engine.client import EngineError, LoadProcess, Server, catalogue
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.machine.proc import stat_fields
from thunderherd.statistics.samples import hodges_lehmann
from thunderherd.toml.quantities import TIME, NoQuantity

SEED = 1
PATIENCE_SECONDS = 60.0
"""Time limit for steps that take a second or two on a quiet machine."""
LATEST = 0.1
"""The allowed delay of a reading of the server, as a share of the window."""


MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9
"""Times of the engine's settings, in nanoseconds."""


def milliseconds(text: str) -> int:
    """Read the value of an option that is a time, such as `500ms`, as whole milliseconds."""
    try:
        return TIME.read(text, MILLISECOND) // MILLISECOND
    except NoQuantity as error:
        raise argparse.ArgumentTypeError(f"{error}: {text!r}; such as 500ms or 2s") from None


def two_places() -> tuple[list[int], list[int]]:
    """Return the first CPU that this process may use for the server, and the second for the clients."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise UserError(
            "a benchmark needs two CPUs, one for the server and one for its clients", code="bench.one_cpu"
        )
    return cpus[:1], cpus[1:2]


def chosen_designs(names: Sequence[str]) -> list[Design]:
    """Return these designs, or all that this machine can run."""
    designs = catalogue().designs
    unknown = sorted(set(names) - {design.name for design in designs})
    if unknown:
        raise UserError(
            f"no design is called {unknown[0]!r}",
            code="bench.unknown_design",
            hint="type thunderherd list designs",
        )
    return [design for design in designs if design.available and (not names or design.name in names)]


def unavailable_designs() -> list[str]:
    """Return the designs that this machine cannot run, with the reason."""
    return [f"{design.name}: {design.reason}" for design in catalogue().designs if not design.available]


def shuffled_rounds(names: Sequence[str], rounds: int, of: str = "") -> Iterator[tuple[int, str]]:
    """Yield every name once a round, in a new random order each round, so that drift affects all alike.

    `of` begins the line that shows the progress on a terminal.
    """
    order = random.Random(SEED)
    for number in range(rounds):
        for name in order.sample(list(names), len(names)):
            _progress(f"{of}round {number + 1} of {rounds}: {name}")
            yield number, name
    _progress("")


def _progress(text: str) -> None:
    """Overwrite one line of progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Figures:
    """The figures of one window."""

    per_second: float
    server_microseconds: float | None
    """CPU time of all processes of the server, per request; None if the server was read too late."""
    client_microseconds: float
    """CPU time of the clients, per request, including connections and warm-up."""


class NotInServiceError(EngineError):
    """Some of the persistent connections were not served yet."""


def measure(server: Server, load: LoadProcess, clients: Mapping[str, SettingValue]) -> Figures:
    """Measure the window of a load that ends by time; `clients` are its settings.

    Raises `NotInServiceError` unless all persistent connections were served at the same time. Raises
    `EngineError` unless every reply was correct.
    """
    try:
        began = load.mark(PATIENCE_SECONDS)
        before = server.snapshot()
        time.sleep(int(clients["duration"]) / 2e9)
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
            raise EngineError("could not be read within the window: other processes keep the CPUs busy")
        raise NotInServiceError(
            f"had {served:,} of {clients['clients']:,} connections in service in the middle of the window"
        )
    if result.tally.errors:
        errors = ", ".join(f"{count:,} {kind}" for kind, count in result.tally.errors.items())
        raise EngineError(f"{errors}; the first: {result.first_error}")
    if ended is None or window is None or not window.requests:
        raise EngineError("no reply in the window: it is too short, or other processes keep the CPUs busy")
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
    """Write a duration as `3.2 minutes`, or `48 seconds` below a minute."""
    whole = math.ceil(seconds)
    return f"{seconds / 60:.1f} minutes" if whole >= 60 else f"{whole} second{'' if whole == 1 else 's'}"


def show_lost(reasons: Mapping[str, str]) -> None:
    """Print a line for each case that lost trials, with the last reason."""
    for name, reason in reasons.items():
        print(f"{name}: trials lost, the last: {reason}")


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Write the median, and the range if there are several values."""
    if not values:
        return "-"
    middle, least, most = (
        f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} ({least}..{most})"


def ratio(values: ArrayLike, digits: int = 2) -> str:
    """Write the typical ratio of the rounds with its 95 % interval, which needs at least six rounds."""
    estimate = hodges_lehmann(np.log(values))
    middle = f"{np.exp(estimate.value):.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return middle
    return f"{middle} ({np.exp(estimate.low):.{digits}f}..{np.exp(estimate.high):.{digits}f})"


def search_path() -> str:
    """Return the search path of other programs: PATH, and the sbin folders."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


def processes_of(group: int) -> list[Path]:
    """Return the folders in /proc of the processes of a process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = stat_fields(int(folder.name))
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(folder)
    return found


def until_done(seconds: float = PATIENCE_SECONDS) -> Iterator[float]:
    """Yield the time waited, every 20 ms, until `seconds` are over."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        yield waited
        time.sleep(0.02)
