"""Load generators on one CPU with the same server on another: ours compared with wrk, hey and h2load.

Each generator sends HTTP on 64 persistent connections, from one thread. There are several servers. One of
ours sends replies of 64 bytes to 64 KiB, so that the generator limits the rate, or nearly. A busy-polling one
runs on the generator's CPU, so that nothing crosses to another CPU. nginx is slower than all generators.

Rounds are interleaved, and each ratio is of one round, to wrk. wrk checks the length of each reply, and so
does ours, except in the line that checks every byte. The table compares the requests that the server counted
with those that the generator counted, since a generator may be wrong. The bare loop of send, receive and wait
(`engine/benches/layers.rs`) neither reads replies nor measures. It is the least cost of a client that makes
these calls for each request. The polling bare loop does not wait either: it tries all its connections in
turn.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import layers
import nginx
from common import (
    PATIENCE_SECONDS,
    SECOND,
    group_cpu,
    ratio,
    search_path,
    show_lost,
    shuffled_rounds,
    spread,
    two_places,
)
from compare import http_tools
from compare.http_tools import TOOLS, Tool, ToolResult
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError

CONNECTIONS = 64
OTHER_SECONDS = 0.6
"""Time of a run outside its length, to start and end the processes."""


@dataclass(frozen=True)
class Seen:
    """The figures of one run of a generator."""

    per_second: float
    client_microseconds: float
    """CPU time of the generator per request, including its start and end."""
    client_share: float
    """Share of its CPU that the generator used."""
    server_share: float
    """Share of its CPU that the server used."""
    counted: float | None
    """Ratio of the server's count of requests to the generator's; None if the server has no count."""


@dataclass(frozen=True)
class Target:
    """A listening server."""

    port: int
    group: int
    """Its process group."""
    reply_bytes: int
    requests: Callable[[], int | None]
    """Returns its count of requests; None if it has none."""


@dataclass(frozen=True)
class Generator:
    """A load generator with some settings."""

    name: str
    run: Callable[[Target, int], ToolResult]
    """Sends requests for so many seconds. Raises `EngineError` on errors, or if there was no reply."""
    missing: Callable[[], str | None] = lambda: None
    """Returns why it cannot run on this machine; None if it can."""


def ours(settings: Mapping[str, SettingValue]) -> Callable[[Target, int], ToolResult]:
    """Return our closed load with these settings."""

    def run(target: Target, seconds: int) -> ToolResult:
        load = start_load(
            "http",
            f"127.0.0.1:{target.port}",
            kind="closed_connections",
            settings={
                "bytes": target.reply_bytes,
                "clients": CONNECTIONS,
                "connections": "kept",
                "duration": seconds * SECOND,
                **settings,
            },
            cpus=two_places()[1],
        )
        try:
            result = load.wait(seconds + PATIENCE_SECONDS)
        finally:
            load.end()
        if result.tally.errors or result.window is None:
            raise EngineError(f"our load saw errors, or no replies: {result.first_error}")
        return ToolResult(result.tally.requests, result.window.requests_per_second)

    return run


def bare(kind: str) -> Callable[[Target, int], ToolResult]:
    """Return the bare loop of this kind."""

    def run(target: Target, seconds: int) -> ToolResult:
        address, words = f"127.0.0.1:{target.port}", (CONNECTIONS, target.reply_bytes, 0, seconds * 1000)
        found = layers.run_layer(layers.built(), kind, address, words, two_places()[1])
        if not found["requests"]:
            raise EngineError("the bare loop got no reply")
        return ToolResult(found["requests"], found["requests"] / found["elapsed_ns"] * 1e9)

    return run


def foreign(tool: Tool) -> Callable[[Target, int], ToolResult]:
    """Return a foreign tool as a generator."""
    return lambda target, seconds: tool.run(target.port, CONNECTIONS, seconds)


WRK = http_tools.WRK.name
RING: Mapping[str, SettingValue] = {"back_end": "io_uring"}
COUNT: Mapping[str, SettingValue] = {"check": "count"}
GENERATORS = {
    each.name: each
    for each in (
        Generator("ours, epoll", ours(COUNT)),
        Generator("ours, io_uring", ours({**COUNT, **RING})),
        Generator("ours, io_uring, all bytes", ours(RING)),
        Generator("ours, polling", ours({**COUNT, "back_end": "polling"})),
        Generator("bare loop", bare("bare_http"), layers.missing),
        Generator("bare loop, polling", bare("bare_http_polling"), layers.missing),
        *(Generator(each.name, foreign(each), each.missing) for each in TOOLS),
    )
}


@contextlib.contextmanager
def our_server(reply_bytes: int, design: str = "epoll", place: int = 0) -> Iterator[Target]:
    """Run a server of ours on one CPU: by default a separate one, or (1) the generator's."""
    settings: dict[str, SettingValue] = {"bytes": reply_bytes}
    with Server(design, workload="http", settings=settings, cpus=two_places()[place]) as server:
        assert server.ready.port is not None, "a design listens at a port"
        yield Target(
            server.ready.port,
            server.ready.server_pid,
            reply_bytes,
            lambda: server.snapshot().tally.requests,
        )


@contextlib.contextmanager
def their_server() -> Iterator[Target]:
    """Run nginx with a file, as Debian configures it."""
    with nginx.nginx(nginx.PEERS[nginx.PACKAGED]) as server:
        yield Target(server.port, server.group, nginx.BYTES, lambda: None)


SERVERS: Mapping[str, Callable[[], contextlib.AbstractContextManager[Target]]] = {
    "epoll, 64 bytes": lambda: our_server(64),
    "epoll, 4,000 bytes": lambda: our_server(4000),
    "epoll, 16,384 bytes": lambda: our_server(16_384),
    "epoll, 65,536 bytes": lambda: our_server(65_536),
    "polling, same CPU, 64 bytes": lambda: our_server(64, "polling", 1),
    "nginx, 4,000 bytes": their_server,
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "servers", nargs="*", metavar="SERVER", help=f"servers (default: {', '.join(map(repr, SERVERS))})"
    )
    parser.add_argument("--rounds", type=int, default=9, help="runs of each (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=1, help="length of a run (default: %(default)s)")


def servers_of(given: argparse.Namespace) -> list[str]:
    """Return the requested servers. Raises `UserError` for an unknown name."""
    unknown = sorted(set(given.servers) - set(SERVERS))
    if unknown:
        raise UserError(
            f"no server is called {unknown[0]!r}",
            code="bench.unknown_server",
            hint=f"there are {', '.join(map(repr, SERVERS))}",
        )
    return list(given.servers) or [
        name for name in SERVERS if nginx_is_here() or not name.startswith("nginx")
    ]


def nginx_is_here() -> bool:
    """True if nginx is installed."""
    return shutil.which("nginx", path=search_path()) is not None


def here() -> list[str]:
    """Return the generators that this machine can run."""
    return [name for name, each in GENERATORS.items() if each.missing() is None]


def not_here() -> list[str]:
    """Describe what is missing on this machine, and how to install it."""
    missing = [reason for each in GENERATORS.values() if (reason := each.missing())]
    return missing + ([] if nginx_is_here() else ["nginx is not installed: apt-get install nginx-light"])


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    return float(len(servers_of(given)) * len(here()) * given.rounds * (given.seconds + OTHER_SECONDS))


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    if layers.missing() is None:
        # Otherwise the first run would include cargo's CPU time.
        layers.built()
    for name in servers_of(given):
        seen: dict[str, dict[int, Seen]] = defaultdict(dict)
        lost: dict[str, str] = {}
        with SERVERS[name]() as target:
            for number, generator in shuffled_rounds(here(), given.rounds, f"{name}: "):
                try:
                    seen[generator][number] = one(GENERATORS[generator], target, given.seconds)
                except (EngineError, UserError) as error:
                    lost[generator] = str(error)
        show(name, seen, given)
        show_lost(lost)


def one(generator: Generator, target: Target, seconds: int) -> Seen:
    """Run a generator once; return its rate and the CPU time of both sides."""
    requests, server, client = target.requests(), group_cpu(target.group), os.times()
    result = generator.run(target, seconds)
    ended = os.times()
    cpu = ended.children_user - client.children_user + ended.children_system - client.children_system
    used = (group_cpu(target.group) - server) / 1e9
    length = result.requests / result.per_second
    counted = None
    if requests is not None and (after := target.requests()) is not None:
        counted = (after - requests) / result.requests
    return Seen(result.per_second, cpu / result.requests * 1e6, cpu / length, used / length, counted)


def show(server: str, seen: Mapping[str, Mapping[int, Seen]], given: argparse.Namespace) -> None:
    """Print a row for each generator, the cheapest first."""
    print(f"{server}, {CONNECTIONS} persistent connections, {given.rounds} rounds of {given.seconds} s\n")
    print(
        f"{'generator':28}{'requests per second':>28}{'CPU per request, µs':>24}{'generator, server':>20}"
        f"{'counted':>10}{'rate : wrk':>21}{'CPU : wrk':>21}"
    )
    for name in sorted(seen, key=lambda each: middle(seen[each], "client_microseconds")):
        runs = seen[name]
        busy = ", ".join(f"{100 * middle(runs, side):.0f} %" for side in ("client_share", "server_share"))
        counted = [each.counted for each in runs.values() if each.counted is not None]
        print(
            f"{name:28}{spread([each.per_second for each in runs.values()]):>28}"
            f"{spread([each.client_microseconds for each in runs.values()], 1):>24}{busy:>20}"
            f"{f'{statistics.median(counted):.4f}' if counted else '-':>10}"
            f"{to_wrk(seen, name, 'per_second'):>21}{to_wrk(seen, name, 'client_microseconds'):>21}"
        )
    print(
        "\ngenerator, server: the share of its CPU that each used\n"
        "counted: the server's count of requests to the generator's (the last requests may be cut off)\n"
        "ratios: of each round, Hodges-Lehmann estimate with 95 % interval\n",
        flush=True,
    )


def middle(runs: Mapping[int, Seen], figure: str) -> float:
    """Return the median of a figure."""
    return float(statistics.median(getattr(each, figure) for each in runs.values()))


def to_wrk(seen: Mapping[str, Mapping[int, Seen]], name: str, figure: str) -> str:
    """Write the ratio of a figure to wrk's in the same round, of the rounds with both."""
    rounds = seen[name].keys() & seen.get(WRK, {}).keys()
    if name == WRK or not rounds:
        return "-"
    return ratio(
        [
            getattr(seen[name][number], figure) / getattr(seen[WRK][number], figure)
            for number in sorted(rounds)
        ]
    )
