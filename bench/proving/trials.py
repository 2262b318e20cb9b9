"""Trials that prove the load generator: loads measure servers whose latency follows from a formula.

Each of `freeze`, `delay` and `queue` is one attempt at a proof. A `scale` below 1 shortens it, for tests. It
returns all figures, whether the formula holds or not.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

from common import MICROSECOND, MILLISECOND, PATIENCE_SECONDS, two_places
from proving.queueing import mean_wait, requests_needed, set_up_delay, stalled_share, stalled_wait
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.lines import Latency, LoadResult, Scheduled
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.statistics.histograms import merged

DESIGN, WORKLOAD = "epoll", "bytes"
"""One thread that serves requests in order of arrival."""
BYTES = 64
CLIENTS = 1024
"""Connections of an open load: more than ever wait, since the formula has no limit of connections."""
WARM_UP_MILLISECONDS = 300
OVERLOAD = 1.05
"""Requested rate, as a multiple of the rate at which the burnt CPU time alone would fill the server."""

STALL, EVERY = 50, 500
"""Milliseconds. The fluid limit needs many requests in a stall, each much shorter than it."""
STALLED_SPIN = 100
"""Microseconds of CPU time per request in the server that stalls."""
STALLED_UTILISATION = 0.4
BLIND_CLIENTS = 8
"""Clients of the closed loop. A stall then affects fewer than one of its requests in a hundred."""

DELAYS = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Microseconds."""
DELAY_RATE = 25
"""Requests per second, evenly spaced, so that none waits for another, and all come after the same idle
time."""

QUEUE_SPIN = 2000
"""Microseconds. The rest of a request's time is small compared with it. So is what pauses of some
milliseconds add to a mean."""
UTILISATIONS = {0.3: 0.02, 0.5: 0.02, 0.7: 0.05}
"""The share of time that the server is busy, and the tolerance of the mean."""
QUEUE_CLIENTS = 64
"""At a utilisation of 0.7 not one queue of M/D/1 in 10¹⁵ is as long. With 1,024 connections, means deviated
more, perhaps because the first request of each connection costs the server more."""
QUEUE_PARTS = 8
"""Service time and unloaded latency are measured again before each part of the requests. The speed of a
shared machine's CPUs changes within a minute, and the wait changes more than in proportion."""
LONGEST_SECONDS = 180.0
"""Limit for the loads of all parts together, reached only if other processes use the server's CPU. The
tolerance is then fewer standard errors than intended."""
STANDARD_ERRORS = 3.0
"""Standard errors in a tolerance, which set the number of requests. A correct load fails once in 370
times."""


@dataclass(frozen=True)
class Finding:
    """A figure, predicted and measured."""

    what: str
    predicted: float
    measured: float
    unit: str = ""
    tolerance: float | None = None
    """Allowed deviation, as a share of the prediction; None: shown but not judged."""

    @property
    def deviation(self) -> float:
        """Deviation as a share of the prediction."""
        return self.measured / self.predicted - 1

    @property
    def holds(self) -> bool | None:
        """True if the deviation is within the tolerance; None: not judged."""
        return None if self.tolerance is None else abs(self.deviation) <= self.tolerance


@dataclass(frozen=True)
class Attempt:
    """The result of one attempt at a proof."""

    findings: list[Finding]
    remarks: list[str]
    """The measured conditions, and what the checks of the loads found wrong."""


@dataclass(frozen=True)
class Ran:
    """A server's life, and its load."""

    load: LoadResult
    server_microseconds: float
    """CPU time of the server per request, including its start and end."""


def run_load(server: Mapping[str, SettingValue], kind: str, load: Mapping[str, SettingValue]) -> Ran:
    """Run a new server and a load of this kind, on a CPU each. Raises `EngineError` if a request failed."""
    server_cpus, client_cpus = two_places()
    with Server(DESIGN, workload=WORKLOAD, settings=server, cpus=server_cpus) as serving:
        client: dict[str, SettingValue] = {
            "bytes": BYTES,
            "connections": "kept",
            "warm_up": WARM_UP_MILLISECONDS * MILLISECOND,
            **load,
        }
        process = start_load(WORKLOAD, serving.ready.address, kind=kind, settings=client, cpus=client_cpus)
        try:
            result = process.wait(PATIENCE_SECONDS + int(client["duration"]) / 1e9)
        finally:
            process.end()
        account = serving.stop()
    if result.tally.errors or not account.tally.requests:
        raise EngineError(f"{result.tally.errors}; the first: {result.first_error}")
    return Ran(result, account.cpu_ns / account.tally.requests / 1e3)


def openly(
    server: Mapping[str, SettingValue],
    rate: float,
    seconds: float,
    arrivals: str,
    seed: int = 1,
    clients: int = CLIENTS,
) -> Ran:
    """Run a busy-polling open load."""
    load: dict[str, SettingValue] = {
        "rate": max(1, round(rate)),
        "arrivals": arrivals,
        "arrival_seed": seed,
        "clients": clients,
        "duration": round(1000 * seconds) * MILLISECOND,
        "wait": "spin",
    }
    return run_load(server, "open", load)


def latency(result: LoadResult) -> Latency:
    """Return a load's latency. Raises `EngineError` if no reply came in the window."""
    if result.latency is None:
        raise EngineError("no reply in the window: other processes keep the CPUs busy")
    return result.latency


def mean(result: LoadResult) -> float:
    """Return the mean latency in seconds."""
    found = latency(result).mean_ns
    assert found is not None
    return found / 1e9


def schedule(result: LoadResult) -> Scheduled:
    """Return the account of an open load's schedule."""
    if result.scheduled is None:
        raise EngineError("the load reported no schedule: it did not reach the end of its window")
    return result.scheduled


def occupied(spin: int, seconds: float) -> float:
    """Measure how long a request occupies a server that burns `spin` microseconds for each.

    That is the time in seconds from one request to the next while another waits. An open load with two
    connections sends more requests than the server can answer: while one is served, the other waits.
    """
    ran = openly({"compute": spin * MICROSECOND}, OVERLOAD * 1e6 / spin, seconds, "constant", clients=2)
    achieved = schedule(ran.load).achieved_per_second
    if achieved is None:
        raise EngineError("clients of the load gave up before its end")
    return 1 / achieved


def unloaded(spin: int, rate: float, seconds: float) -> float:
    """Measure the mean latency of evenly spaced requests to such a server, none of which waits for another.

    The rate must be that of the comparison, since waking up after that idle time is part of the latency.
    """
    return mean(openly({"compute": spin * MICROSECOND}, rate, seconds, "constant", clients=8).load)


def lateness(name: str, result: LoadResult) -> list[str]:
    """Describe how late the load sent."""
    lag = result.scheduled and result.scheduled.send_lag
    return [f"{name}: sent late by {lag.p99_ns / 1e3:.1f} µs (99th percentile)"] if lag and lag.p99_ns else []


def complaints(name: str, result: LoadResult) -> list[str]:
    """Describe the checks of the load that failed."""
    checks = result.validity.checks if result.validity else []
    return [f"{name}: {each.name}: {each.words}" for each in checks if each.holds is False]


def freeze(scale: float, seed: int, tolerance: float = 0.02) -> Attempt:
    """A server that stalls, measured by an open and by a closed loop."""
    stalling: dict[str, SettingValue] = {
        "compute": STALLED_SPIN * MICROSECOND,
        "stall": STALL * MILLISECOND,
        "stall_every": EVERY * MILLISECOND,
    }
    service = occupied(STALLED_SPIN, max(0.5, 2 * scale))
    rate = round(STALLED_UTILISATION / service)
    alone = unloaded(STALLED_SPIN, rate, max(0.5, 2 * scale))
    stall, every, utilisation = STALL / 1e3, EVERY / 1e3, rate * service
    # Whole periods: the window then has the same share of stalls wherever it begins.
    seconds = every * max(4, round(40 * scale))
    seen = openly(stalling, rate, seconds, "poisson", seed).load
    histogram = merged([latency(seen).histogram or ""])
    findings = []
    for share in (0.9, 0.95, 0.99):
        predicted = stalled_wait(share, stall, every, utilisation) + alone
        measured = histogram.get_value_at_percentile(100 * share) / 1e6
        judged = tolerance if share == 0.99 else None
        findings.append(Finding(f"open: {share:.0%} within", 1e3 * predicted, measured, "ms", judged))
    # Clients wait for the end of a stall and send nothing meanwhile: each has one slow request a stall.
    think = BLIND_CLIENTS * (1 - STALL / EVERY) / rate - alone
    closed = run_load(
        stalling,
        "closed_connections",
        {
            "clients": BLIND_CLIENTS,
            "think": max(0, round(1e6 * think)) * MICROSECOND,
            "duration": round(1000 * seconds) * MILLISECOND,
        },
    ).load
    blind = merged([latency(closed).histogram or ""])
    half = STALL / 2
    slow = 100 * stalled_share(stall / 2 - alone, stall, every, utilisation)
    caught = 100 * BLIND_CLIENTS / (rate * every)
    findings += [
        Finding(f"open: slower than {half:g} ms", slow, 100 * beyond(histogram, half), "%"),
        Finding(f"closed: slower than {half:g} ms", caught, 100 * beyond(blind, half), "%"),
    ]
    per_second = blind.total_count / seconds
    remarks = [
        f"a request occupies the server for {1e6 * service:.1f} µs, and takes {1e6 * alone:.1f} µs in all "
        "if it does not wait for another",
        f"stalls of {STALL} ms every {EVERY} ms, {rate} requests a second, "
        f"which keep the server busy for {utilisation:.3f} of the rest",
        f"the closed loop, with {per_second:,.0f} requests a second, reports 99 % within "
        f"{blind.get_value_at_percentile(99) / 1e6:.3f} ms; the open loop {findings[2].measured:.3f} ms",
        *lateness("open", seen),
        *complaints("open", seen),
    ]
    return Attempt(findings, remarks)


def beyond(histogram: HdrHistogram, milliseconds: float) -> float:
    """Return the share of a histogram above so many milliseconds."""
    above = sum(
        each.count_added_in_this_iter_step
        for each in histogram.get_recorded_iterator()
        if each.value_iterated_to > 1e6 * milliseconds
    )
    return float(above / max(1, histogram.total_count))


def delay(scale: float, seed: int, tolerance: float = 0.01) -> Attempt:
    """A server with a known delay: the latency rises by the same amount."""
    rounds = max(1, round(2 * scale))
    seconds = max(0.8, 4 * scale)
    order = random.Random(seed)
    seen: dict[int, list[str]] = {each: [] for each in DELAYS}
    remarks: list[str] = []
    for _ in range(rounds):
        for each in order.sample(DELAYS, len(DELAYS)):
            result = openly({"compute": each * MICROSECOND}, DELAY_RATE, seconds, "constant", clients=8).load
            seen[each].append(latency(result).histogram or "")
            remarks += complaints(f"{each} µs", result)
    medians = [merged(seen[each]).get_value_at_percentile(50) / 1e3 for each in DELAYS]
    fitted = statistics.linear_regression(DELAYS, medians)
    slopes = [
        (later - earlier) / (longer - shorter)
        for place, (shorter, earlier) in enumerate(zip(DELAYS, medians, strict=True))
        for longer, later in list(zip(DELAYS, medians, strict=True))[place + 1 :]
    ]
    rests = ", ".join(f"{each} µs {median - each:.1f}" for each, median in zip(DELAYS, medians, strict=True))
    findings = [
        Finding("slope of the median latency", 1.0, fitted.slope, "", tolerance),
        Finding("median of the slopes of all pairs", 1.0, statistics.median(slopes)),
    ]
    remarks = [
        f"{round(rounds * seconds * DELAY_RATE)} requests for each delay; the median above it, µs: {rests}",
        *remarks,
    ]
    return Attempt(findings, remarks)


def queue(scale: float, seed: int, utilisation: float, tolerance: float) -> Attempt:
    """Constant service, Poisson arrivals: the mean latency follows Pollaczek and Khinchine.

    The prediction is their wait, plus the latency of a request that does not wait for another.

    Waking up from idleness delays the whole busy period after it. On average the delay is nearly the same as
    for a request that does not wait. A remark has an upper bound of the difference, as if all of the transit
    were waking up.
    """
    parts = max(2, round(QUEUE_PARTS * scale))
    share = max(0.5, scale)
    roughly = occupied(QUEUE_SPIN, share)
    rate = round(utilisation / roughly)
    error = tolerance * (roughly + mean_wait(rate, roughly)) / STANDARD_ERRORS
    seconds = max(0.5, min(LONGEST_SECONDS, requests_needed(error, rate, roughly) / rate) / parts)
    services, alone, runs = [], [], []
    for part in range(seed * parts, (seed + 1) * parts):
        services.append(occupied(QUEUE_SPIN, share))
        alone.append(unloaded(QUEUE_SPIN, rate, share))
        server = {"compute": QUEUE_SPIN * MICROSECOND}
        runs.append(openly(server, rate, seconds, "poisson", part, QUEUE_CLIENTS))
    due = sum(schedule(ran.load).due for ran in runs)
    service, unwaited = statistics.mean(services), statistics.mean(alone)
    measured = sum(mean(ran.load) * schedule(ran.load).due for ran in runs) / due
    predicted = unwaited + mean_wait(rate, service)
    transit = max(0.0, unwaited - service)
    too_much = 1e6 * (transit - set_up_delay(rate, transit))
    cpu = statistics.mean(ran.server_microseconds for ran in runs)
    remarks = [
        f"the number of requests makes the tolerance {STANDARD_ERRORS:g} standard errors of the mean",
        f"in {parts} parts; a request occupies the server for {1e6 * service:.1f} µs "
        f"({1e6 * min(services):.1f} to {1e6 * max(services):.1f}), CPU time {cpu:.1f} µs",
        f"at {rate} requests a second, one that does not wait takes {1e6 * unwaited:.1f} µs "
        f"({1e6 * min(alone):.1f} to {1e6 * max(alone):.1f}); the prediction has at most {too_much:.1f} µs "
        "of wake-ups too much",
        *(line for ran in runs for line in complaints("open", ran.load)),
    ]
    what = f"mean latency at {utilisation:g}, {due:,} requests"
    return Attempt([Finding(what, 1e6 * predicted, 1e6 * measured, "µs", tolerance)], remarks)
