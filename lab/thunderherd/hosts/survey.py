"""Looks at hosts before they are used: their machines and clocks, and the paths between them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from thunderherd.engine.client import EngineError, Server, catalogue, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import HostAddress, listen_at
from thunderherd.hosts.cluster import PINGS, Cluster, HostLostError, HostPlace
from thunderherd.hosts.flows import interrupt_cpus, receivers
from thunderherd.hosts.idle import watch_idle
from thunderherd.hosts.paths import data_path, route_to
from thunderherd.machine import description
from thunderherd.statistics.clocks import Reading, compared

IDLE_SECONDS = 2.0
"""The time for which the idle hosts are watched."""
ROUND_TRIP_NS, TRANSFER_NS = 300_000_000, 500_000_000
"""The lengths of the loads that measure the round trip and the bandwidth between two hosts."""


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
    warnings: list[str] = Field(description="what disturbs measurements there")
    doctor: SerializeAsAny[BaseModel] = Field(description="what `thunderherd doctor` shows there")


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
        default=None, description="bytes of one connection to the load, Gbit/s"
    )
    server_cpu: int | None = Field(
        default=None, description="CPU of the server's host that receives. Null: the kernel does not say"
    )
    load_cpu: int | None = Field(
        default=None, description="CPU of the load's host that receives. Null: the kernel does not say"
    )
    server_queue: int | None = Field(
        default=None,
        description="number of the poller (NAPI) of the server's receive queue. Null: it has none",
    )
    load_queue: int | None = Field(default=None, description="the same of the load's host")
    interrupt_cpus: list[int] = Field(
        default_factory=list,
        description="CPUs of the load's host that serve interrupts of the interface. Empty: it has none, or "
        "hides them",
    )


class Survey(_Part):
    """The output of `thunderherd hosts --json`."""

    machines: list[Machine]
    paths: list[Path]


def survey(
    addresses: Sequence[HostAddress],
    examine: Callable[[], BaseModel],
    seconds: float,
    scheduler: str | None = None,
) -> Survey:
    """Look at hosts, perhaps of a scheduler, and at the paths between all pairs. Main thread only.

    Each host runs `examine` on its machine, and has `seconds` for it. Raises `UserError` if a host cannot be
    reached.
    """
    with Cluster(addresses, scheduler) as cluster:
        places = [cluster.place(each) for each in cluster.addresses]
        idle = watch_idle(places, IDLE_SECONDS)
        paths = [*_paths(places)]
        machines = []
        for each in places:
            ahead, error = _clock(each)
            warning = idle[each.host].warning(each.host)
            machines.append(
                Machine(
                    address=each.host,
                    kernel=each.ask(platform.release),
                    processor=each.ask(_processor),
                    cpus=len(each.ask(os.sched_getaffinity, 0)),
                    clock_ahead_seconds=ahead,
                    clock_error_seconds=error,
                    **asdict(idle[each.host]),
                    warnings=[warning] if warning else [],
                    doctor=each.ask_for(seconds, examine),
                )
            )
        return Survey(machines=machines, paths=paths)


def _clock(place: HostPlace) -> tuple[float, float]:
    """Return how far a host's CLOCK_REALTIME is ahead, and the error of that, in seconds."""
    found = compared(_reading(place) for _ in range(PINGS))
    return found.ahead_ns / 1e9, found.error_ns / 1e9


def _reading(place: HostPlace) -> Reading:
    before = time.time_ns()
    return Reading(before, place.ask(time.time_ns), time.time_ns())


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
        moved = _measured(load, server, address, moving, TRANSFER_NS)
        of_server, of_load = receivers(server, load, address)
    except HostLostError:
        raise
    except (EngineError, UserError) as error:
        return path.model_copy(update={"why_not": str(error)})
    counted, latency = moved.window and moved.window.counted, round_trip.latency
    bits = 8 * max(counted.bytes_received, counted.bytes_sent) if counted else 0
    route = load.ask(route_to, address)
    found = {
        "address": address,
        **asdict(route),
        "round_trip_microseconds": latency and latency.p50_ns and latency.p50_ns / 1e3,
        "gigabits_per_second": round(bits / counted.elapsed_ns, 3) if counted and bits else None,
        "server_cpu": of_server.cpu,
        "load_cpu": of_load.cpu,
        "server_queue": of_server.queue,
        "load_queue": of_load.queue,
        "interrupt_cpus": load.ask(interrupt_cpus, route.interface) if route.interface else [],
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
