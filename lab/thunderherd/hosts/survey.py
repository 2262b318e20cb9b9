"""Looks at hosts before they are used: their machines and clocks, and the paths between them."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.client import EngineError, Server, catalogue, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import HostAddress, listen_at
from thunderherd.hosts.cluster import PINGS, Cluster, HostLostError, HostPlace
from thunderherd.hosts.paths import data_path
from thunderherd.machine import description, noise

IDLE_SECONDS = 2.0
"""The time for which an idle agent is watched."""
LARGEST_AGENT_PERCENT = 0.5
"""An agent that uses more of a CPU while it is idle disturbs what is measured there."""
ROUND_TRIP_NS, TRANSFER_NS = 300_000_000, 500_000_000
"""The lengths of the loads that measure the round trip and the bandwidth between two hosts."""
IP_MTU = 14
"""The option that has the path MTU of a connected socket (ip(7)); Python does not name it."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Part):
    """A host."""

    address: str = Field(description="address of the host, as typed")
    kernel: str = Field(description="release of its kernel")
    processor: str = Field(description="model of its CPUs")
    cpus: int = Field(description="number of CPUs that the agent may use")
    clock_ahead_seconds: float = Field(description="how far its CLOCK_REALTIME is ahead of this machine's")
    clock_error_seconds: float = Field(description="by how much that may be wrong")
    agent_percent: float = Field(description="share of a CPU that its idle agent uses, percent")
    others_percent: float = Field(description="share of its CPUs that other processes use, percent")


class Path(_Part):
    """The path from a host of the load to a host of the server, for the measured traffic."""

    load: str = Field(description="host of the load")
    server: str = Field(description="host of the server")
    address: str | None = Field(default=None, description="address of the server. Null: none is reached")
    why_not: str | None = Field(default=None, description="why it is not reached")
    interface: str | None = Field(default=None, description="interface of the load")
    mtu: int | None = Field(default=None, description="MTU of the path, bytes")
    link_megabits: int | None = Field(
        default=None, description="speed of the interface, Mbit/s. Null: it does not say"
    )
    round_trip_microseconds: float | None = Field(
        default=None, description="median time of a request over a persistent connection"
    )
    gigabits_per_second: float | None = Field(
        default=None,
        description="bandwidth over one connection, Gbit/s",
    )
    receiving_cpu: int | None = Field(
        default=None,
        description="CPU of the load's host with most time in soft interrupts meanwhile. Null: none had",
    )


class Survey(_Part):
    """The output of `thunderherd hosts --json`."""

    machines: list[Machine]
    paths: list[Path]


def survey(addresses: Sequence[HostAddress], scheduler: str | None = None) -> Survey:
    """Look at hosts, perhaps of a scheduler, and at the paths between all pairs. Main thread only.

    Raises `UserError` if a host cannot be reached.
    """
    with Cluster(addresses, scheduler) as cluster:
        places = [cluster.place(each) for each in cluster.addresses]
        machines = [_machine(cluster, each) for each in places]
        return Survey(machines=machines, paths=[*_paths(places)])


def _machine(cluster: Cluster, place: HostPlace) -> Machine:
    before, used = place.ask(noise.sample), place.ask(time.process_time)
    time.sleep(IDLE_SECONDS)
    after, agent = place.ask(noise.sample), place.ask(time.process_time) - used
    seen = noise.between(before, after, server_seconds=0.0)
    ahead, error = _clock(place)
    return Machine(
        address=place.host,
        kernel=place.ask(platform.release),
        processor=place.ask(_processor),
        cpus=len(place.ask(os.sched_getaffinity, 0)),
        clock_ahead_seconds=ahead,
        clock_error_seconds=error,
        agent_percent=round(100 * agent / IDLE_SECONDS, 2),
        others_percent=round(100 * max(0.0, seen.foreign_share - seen.foreign_uncertainty), 1),
    )


def _clock(place: HostPlace) -> tuple[float, float]:
    """Return how far a host's CLOCK_REALTIME is ahead, and the error of that, in seconds."""
    best = (0.0, float("inf"))
    for _ in range(PINGS):
        before = time.time()
        there = place.ask(time.time)
        after = time.time()
        if (after - before) / 2 < best[1]:
            best = (there - (before + after) / 2, (after - before) / 2)
    return best


def _processor() -> str:
    try:
        return description.cpu_model()
    except (description.Unavailable, OSError):
        return platform.machine()


def _paths(places: Sequence[HostPlace]) -> Iterator[Path]:
    for server in places:
        for load in places:
            if load.host != server.host:
                yield _path(load, server)


def _path(load: HostPlace, server: HostPlace) -> Path:
    path = Path(load=load.host, server=server.host)
    try:
        address = data_path(server, [load]).address
        offered = catalogue(server.local_engine)
        asking = offered.defaults.workload
        moving = next(each.name for each in offered.workloads if each.measured_by != "requests")
        round_trip = _measured(load, server, address, asking, ROUND_TRIP_NS)
        before = load.ask(noise.sample).softirqs
        moved = _measured(load, server, address, moving, TRANSFER_NS)
        spent = [late - early for late, early in zip(load.ask(noise.sample).softirqs, before, strict=True)]
    except HostLostError:
        raise
    except (EngineError, UserError) as error:
        return path.model_copy(update={"why_not": str(error)})
    counted, latency = moved.window and moved.window.counted, round_trip.latency
    bits = 8 * max(counted.bytes_received, counted.bytes_sent) if counted else 0
    found = {
        "address": address,
        **load.ask(_way_to, address),
        "round_trip_microseconds": latency and latency.p50_ns and latency.p50_ns / 1e3,
        "gigabits_per_second": round(bits / counted.elapsed_ns, 3) if counted and bits else None,
        "receiving_cpu": spent.index(max(spent)) if max(spent, default=0.0) > 0 else None,
    }
    return path.model_copy(update=found)


def _measured(load: HostPlace, server: HostPlace, address: str, workload: str, ns: int) -> Any:
    """Return the result of a load of one client."""
    offered = catalogue(server.local_engine)
    design = offered.defaults.design
    kind = next(each for each in offered.loads if each.duration and not each.goes_by_a_schedule)
    settings: dict[str, SettingValue] = {str(kind.clients): 1, str(kind.duration): ns}
    with Server(design, workload=workload, listen=listen_at(address), place=server) as listening:
        running = start_load(workload, listening.ready.address, kind=kind.name, settings=settings, place=load)
        try:
            found = running.wait(ns / 1e9 + 10)
        finally:
            running.end()
        listening.stop()
        return found


def _way_to(address: str) -> dict[str, Any]:
    """Return interface, speed and MTU of this machine's way to an address."""
    import psutil

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect((address, 9))
        own = asked.getsockname()[0]
        level = socket.IPPROTO_IP if family == socket.AF_INET else socket.IPPROTO_IPV6
        mtu = asked.getsockopt(level, IP_MTU) if family == socket.AF_INET else None
    names = [name for name, of in psutil.net_if_addrs().items() if own in {each.address for each in of}]
    speed = psutil.net_if_stats()[names[0]].speed if names else 0
    return {"interface": names[0] if names else None, "mtu": mtu, "link_megabits": speed or None}
