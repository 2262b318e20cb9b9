"""Where the two sides of a benchmark run, and how often: shared by the benchmarks of this folder."""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Iterator, Sequence

SEED = 1


def two_places() -> tuple[list[int], list[int]]:
    """The first CPU that this process may use for the server, the second for the clients."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise SystemExit("bench: needs two CPUs, one for the server and one for its clients")
    return cpus[:1], cpus[1:2]


def shuffled_rounds(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Every name once a round, each round in an order of its own: what drifts meets all alike."""
    order = random.Random(SEED)
    for number in range(rounds):
        for name in order.sample(list(names), len(names)):
            yield number, name


def middle(values: Sequence[float], digits: int = 0) -> str:
    """The median, and the least and the most of the rounds."""
    if not values:
        return "-"
    parts = [f"{each:,.{digits}f}" for each in (statistics.median(values), min(values), max(values))]
    return f"{parts[0]} ({parts[1]} to {parts[2]})"
