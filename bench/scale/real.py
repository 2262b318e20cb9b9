"""What is measured here: the cost of a request over loopback, and the calls to agents on this machine."""

from __future__ import annotations

import resource
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from common import PATIENCE_SECONDS, SECOND, two_places
from thunderherd.engine.client import EngineError, LoadProcess, Server, start_load, start_together
from thunderherd.engine.lines import LoadResult
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.hosts.addresses import THIS, HostAddress
from thunderherd.hosts.cluster import Cluster, HostPlace
from thunderherd.labs.remote import check_cluster

DESIGN, WORKLOAD, LOAD = "epoll", "echo", "closed_connections"
CLIENTS, BYTES = 64, 64
FEW, MORE = 2, 4
"""Agents of two clusters, whose difference is what an agent costs."""
CALLS, CHECKS, ROUNDS = 2000, 2000, 8
ALL_BEGUN_SECONDS = 0.02
"""The time in which the windows of all loads of a round begin."""


@dataclass(frozen=True)
class Cost:
    """One load over loopback: its result, CPU time per request in microseconds, and TCP segments."""

    result: LoadResult
    server: float
    client: float
    client_kernel_share: float
    segments: float


@dataclass
class Calls:
    """Times of calls to agents, in nanoseconds, and what an agent costs the machine that calls."""

    call: list[int] = field(default_factory=list)
    start_load: list[int] = field(default_factory=list)
    connected: list[int] = field(default_factory=list)
    mark: list[int] = field(default_factory=list)
    late_ns: list[int] = field(default_factory=list)
    """How long after the agreed time loads started."""
    skews: list[int] = field(default_factory=list)
    """The time between the first and the last start of each round."""
    check_ns: float = 0.0
    """What each host adds to every call, since all are looked at."""
    join_seconds: float = 0.0
    descriptors: float = 0.0


def cost_of_a_request() -> Cost:
    """Measure one load of one thread against one server of one thread."""
    server_cpus, client_cpus = two_places()
    settings: dict[str, SettingValue] = {
        "clients": CLIENTS, "connections": "kept", "bytes": BYTES, "duration": 2 * SECOND,
    }  # fmt: skip
    with Server(DESIGN, workload=WORKLOAD, cpus=server_cpus) as server:
        load = start_load(WORKLOAD, server.ready.address, kind=LOAD, settings=settings, cpus=client_cpus)
        try:
            before, segments = server.snapshot(), segments_sent()
            result = load.wait(PATIENCE_SECONDS)
            after, segments = server.snapshot(), segments_sent() - segments
        finally:
            load.end()
    requests = result.tally.requests
    if result.tally.errors or not requests or before.cpu_ns is None or after.cpu_ns is None:
        raise EngineError(f"the load measured nothing: {result.first_error}")
    used = result.user_ns + result.system_ns
    return Cost(
        result=result,
        server=(after.cpu_ns - before.cpu_ns) / requests / 1000,
        client=used / requests / 1000,
        client_kernel_share=result.system_ns / used,
        segments=segments / requests,
    )


def segments_sent() -> int:
    """Return the TCP segments that this machine has sent."""
    names, values = (
        line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")
    )
    return int(values[names.index("OutSegs")])


def calls_to_agents() -> Calls:
    """Measure the calls of a cluster whose hosts are all this machine."""
    check_cluster()
    found = Calls()
    opened, took = [], []
    for number in (FEW, MORE):
        addresses = [HostAddress(THIS, "", data=f"127.0.0.{2 + place}") for place in range(number)]
        began, before = time.monotonic(), open_descriptors()
        with Cluster(addresses) as cluster:
            took.append(time.monotonic() - began)
            opened.append(open_descriptors() - before)
            if number == MORE:
                _measure(cluster, found)
    found.join_seconds = (took[1] - took[0]) / (MORE - FEW)
    found.descriptors = (opened[1] - opened[0]) / (MORE - FEW)
    return found


def open_descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _measure(cluster: Cluster, found: Calls) -> None:
    hosts = list(cluster.hosts.values())
    for number in range(CALLS):
        began = time.monotonic_ns()
        cluster.call(hosts[number % len(hosts)], "clock", of_all=False)
        found.call.append(time.monotonic_ns() - began)
    began = time.monotonic_ns()
    for _ in range(CHECKS):
        cluster.check()
    found.check_ns = (time.monotonic_ns() - began) / CHECKS / len(hosts)
    with Server(DESIGN, workload=WORKLOAD) as server:
        for _ in range(ROUNDS):
            _round([cluster.place(each) for each in cluster.addresses], server.ready.address, found)


def _round(places: list[HostPlace], address: str, found: Calls) -> None:
    """Prepare and start a load at each place, as a trial does."""
    settings: dict[str, SettingValue] = {"clients": 1, "connections": "kept", "duration": SECOND // 20}
    with ExitStack() as held:
        loads: list[LoadProcess] = []
        for place in places:
            began = time.monotonic_ns()
            loads.append(
                start_load(WORKLOAD, address, kind=LOAD, settings=settings, awaits_start=True, place=place)
            )
            held.callback(loads[-1].end)
            found.start_load.append(time.monotonic_ns() - began)
        for each in loads:
            began = time.monotonic_ns()
            each.connected(PATIENCE_SECONDS)
            found.connected.append(time.monotonic_ns() - began)
        agreed = start_together(loads)
        for number, each in enumerate(loads):
            began = time.monotonic_ns()
            each.mark(PATIENCE_SECONDS)
            if number:
                found.mark.append(time.monotonic_ns() - began)
            else:
                # The others are there when they are read, so that their time is that of the call.
                time.sleep(ALL_BEGUN_SECONDS)
        started = [each.wait(PATIENCE_SECONDS).started_monotonic_ns for each in loads]
        found.late_ns += [each - agreed for each in started]
        found.skews.append(max(started) - min(started))


def show(cost: Cost, calls: Calls) -> None:
    """Print the cost of a request, what a million a second take, and what the driver's limits allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    print(
        f"A million requests a second take {cost.server:.1f} cores of the server and {cost.client:.1f} of "
        "the load, if each costs\nwhat it costs on this machine.\n"
    )
    rate = cost.result.tally.requests / cost.result.elapsed_ns * 1e9
    kernel = f"{cost.client_kernel_share:.0%} in the kernel"
    skew = statistics.median(calls.skews) / 1e6
    rows = {
        "CPU time of the server per request": f"{cost.server:.2f} µs",
        "CPU time of the load per request": f"{cost.client:.2f} µs, {kernel}",
        "requests a second, one core each": f"{rate:,.0f}",
        "TCP segments per request, both ways": f"{cost.segments:.2f}",
        "descriptors of the driver for each host": f"{calls.descriptors:.1f}",
        "hosts that its limits allow (soft, hard)": " and ".join(
            "any number" if each == resource.RLIM_INFINITY else f"{int(each / max(calls.descriptors, 1)):,}"
            for each in (soft, hard)
        ),
        "start of another agent, all on this machine": f"{calls.join_seconds:.2f} s",
        "real start skew, median of the rounds": f"{skew:.2f} ms of {MORE} loads",
    }
    for name, value in rows.items():
        print(f"{name:<46}{value}")
