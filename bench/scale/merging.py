"""Merging the results of very many hosts, compared with all their requests and with averaged percentiles."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from common import SEED
from thunderherd.engine.client import EngineError
from thunderherd.engine.lines import Latency, LoadResult
from thunderherd.engine.merged_loads import merged_loads
from thunderherd.engine.process import understand
from thunderherd.statistics.histograms import DIGITS, HIGHEST, LOWEST, maximum_ns, percentile_ns

Nanoseconds = NDArray[np.int64]
Found = TypeVar("Found")

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
FIELDS = {"p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns"}
SPREAD = 0.1
"""Standard deviation of the logarithm of a host's speed."""
SLOWER = 10
"""How many times as long the slow hosts take for everything."""
RESOLUTION = 1e-3
"""A histogram of three digits rounds by less than this share."""


@dataclass(frozen=True)
class Herd:
    """Which share of the hosts is slow, and whether slow hosts send fewer requests, as closed loops do."""

    slow: float
    closed: bool


HERDS: Mapping[str, Herd] = {
    "alike": Herd(0.0, True),
    f"1 % of the hosts {SLOWER} times slower, closed loops": Herd(0.01, True),
    f"1 % of the hosts {SLOWER} times slower, open loops": Herd(0.01, False),
    f"5 % of the hosts {SLOWER} times slower, open loops": Herd(0.05, False),
}


@dataclass(frozen=True)
class Compared:
    """One percentile, in nanoseconds: of all requests, of the merged histogram, and averaged over hosts."""

    of_all: int
    merged: int | None
    averaged: float | None

    @property
    def difference(self) -> float:
        """How much the merged one differs, as a share."""
        return 0.0 if self.merged is None else abs(self.merged - self.of_all) / self.of_all


def show(result: LoadResult, hosts: int, requests: int) -> None:
    """Print both tables. Raises `EngineError` if a merged percentile is wrong."""
    found: dict[str, dict[str, Compared]] = {}
    costs: list[tuple[int, int, float, float, int]] = []
    for name, herd in HERDS.items():
        results, all_requests = results_of(result, herd, hosts, requests)
        found[name] = compared(results, all_requests)
        if not costs:
            costs = [cost_of(results[:number]) for number in numbers_up_to(hosts)]
    worst = max(each.difference for of_herd in found.values() for each in of_herd.values())
    number, _, reading, adding, _ = costs[-1]
    print(
        f"Merging is exact and quick: percentiles of {hosts:,} merged hosts differ from those of all their "
        f"requests\nby {worst:.3%} at most. Reading and merging {number:,} results takes "
        f"{reading + adding:.2g} s. Averaged percentiles are wrong:\n"
    )
    print(f"{'hosts':<48}{'':>6}{'all requests':>14}{'merged':>10}{'averaged':>10}{'averaged is':>13}")
    for name, of_herd in found.items():
        for which, each in of_herd.items():
            merged = "-" if each.merged is None else f"{each.merged / 1e3:,.0f}"
            averaged = "-" if each.averaged is None else f"{each.averaged / 1e3:,.0f}"
            off = "-" if each.averaged is None else f"{each.averaged / each.of_all - 1:+.0%}"
            print(f"{name:<48}{which:>6}{each.of_all / 1e3:>14,.0f}{merged:>10}{averaged:>10}{off:>13}")
    print("\nMicroseconds.\n")
    print(f"{'hosts':>8}{'lines, KB':>12}{'ms to read':>12}{'ms to merge':>13}{'peak memory, MB':>17}")
    for number, size, reading, adding, peak in costs:
        times = f"{reading * 1e3:>12,.1f}{adding * 1e3:>13,.1f}"
        print(f"{number:>8,}{size / 1e3:>12,.0f}{times}{peak / 1e6:>17,.1f}")
    print()
    if worst > RESOLUTION:
        raise EngineError(f"a merged percentile is wrong by {worst:.2%}")


def numbers_up_to(hosts: int) -> list[int]:
    """Return 1, 10, 100 and so on, and the number of hosts itself at the end."""
    return [*(10**power for power in range(10) if 10**power < hosts), hosts]


def results_of(
    result: LoadResult, herd: Herd, hosts: int, requests: int
) -> tuple[list[LoadResult], Nanoseconds]:
    """Return the results of simulated hosts, and the latencies of all their requests.

    Each host draws from the latencies of the real load, times its own speed.
    """
    drawn = np.random.default_rng(SEED)
    values, shares = latencies_of(result)
    slow = math.ceil(herd.slow * hosts)
    results, latencies = [], []
    for number in range(hosts):
        factor = float(drawn.lognormal(0.0, SPREAD)) * (SLOWER if number < slow else 1)
        own = max(1, requests // SLOWER) if herd.closed and number < slow else requests
        # Within a bucket, latencies differ by less than a histogram shows.
        exact = drawn.choice(values, own, p=shares) * (1 - drawn.random(own) * RESOLUTION)
        latencies.append(np.maximum(1, exact * factor).astype(np.int64))
        results.append(result_with(result, f"host {number}", latencies[-1]))
    return results, np.concatenate(latencies)


def latencies_of(result: LoadResult) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the latencies of a load's histogram, and the share of its requests that had each."""
    if result.latency is None or result.latency.histogram is None:
        raise EngineError("the load has no latencies")
    # The iterator changes the object that it yields.
    steps = [
        (each.value_iterated_to, each.count_added_in_this_iter_step)
        for each in HdrHistogram.decode(result.latency.histogram).get_recorded_iterator()
    ]
    values, counts = np.array(steps, dtype=np.float64).T
    return values, counts / counts.sum()


def result_with(result: LoadResult, host: str, latencies: Nanoseconds) -> LoadResult:
    """Return what a host of this name would print that had these latencies."""
    assert result.latency is not None and result.window is not None
    histogram = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    # All values of a bucket are counted at once.
    shift = np.maximum(0, np.floor(np.log2(latencies)).astype(np.int64) - 10)
    for value, count in zip(*np.unique((latencies >> shift) << shift, return_counts=True), strict=True):
        histogram.record_value(int(value), int(count))
    text = histogram.encode()
    latency = Latency.model_validate(
        {
            "requests": len(latencies),
            "mean_ns": float(latencies.mean()),
            **{FIELDS[name]: percentile_ns(histogram, share) for name, share in PERCENTILES.items()},
            "maximum_ns": maximum_ns(histogram),
            "histogram": text.decode() if isinstance(text, bytes) else text,
            "from": result.latency.starts,
        }
    )
    return result.model_copy(
        update={
            "boot_id": host,
            "latency": latency,
            "tally": result.tally.model_copy(update={"requests": len(latencies)}),
            "window": result.window.model_copy(update={"requests": len(latencies)}),
        }
    )


def compared(results: Sequence[LoadResult], all_requests: Nanoseconds) -> dict[str, Compared]:
    """Return each percentile of all requests, merged by the lab, and averaged."""
    latency = merged_loads(results).latency
    assert latency is not None and latency.requests == len(all_requests)
    found = {}
    for name, share in PERCENTILES.items():
        # The rank that HdrHistogram takes.
        rank = max(1, int(share * len(all_requests) + 0.5)) - 1
        of_hosts = [getattr(each.latency, FIELDS[name]) for each in results]
        found[name] = Compared(
            of_all=int(np.partition(all_requests, rank)[rank]),
            merged=getattr(latency, FIELDS[name]),
            averaged=None if None in of_hosts else float(np.mean(of_hosts)),
        )
    return found


def cost_of(results: Sequence[LoadResult]) -> tuple[int, int, float, float, int]:
    """Return hosts, bytes of lines, seconds to read them and to merge them, and the peak of memory."""
    lines = [each.model_dump_json(by_alias=True) for each in results]
    loads, reading = timed(lambda: read(lines))
    _, adding = timed(lambda: merged_loads(loads))
    return len(results), sum(map(len, lines)), reading, adding, _peak(lines)


def read(lines: Sequence[str]) -> list[LoadResult]:
    """Read lines as those of the engine."""
    return [understand(LoadResult, each, "the result of a host") for each in lines]


def timed(action: Callable[[], Found]) -> tuple[Found, float]:
    """Return a result and the seconds that it took."""
    began = time.perf_counter()
    found = action()
    return found, time.perf_counter() - began


def _peak(lines: Sequence[str]) -> int:
    """Return the most memory that reading and merging needs. Watching it takes several times as long."""
    tracemalloc.start()
    try:
        merged_loads(read(lines))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
