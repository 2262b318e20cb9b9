"""Load generators on one CPU against the same server on another: ours beside wrk, hey and h2load.

HTTP on 64 connections that are kept, one thread. Servers: one of ours with replies of 64 bytes to 64 KiB,
where the generator is what limits the rate, or close to it; one that never sleeps on the generator's own CPU,
so that nothing crosses to another; and nginx, which is slower than all of them. Rounds are interleaved, and
each ratio is of one round, to wrk. wrk looks at each reply's length, and so does ours here, but for the line
that says that every byte is held against what it should be. How many requests the server counted stands
beside how many the generator did: a generator may be wrong. A bare loop of send, receive and wait, which
reads nothing of what came and measures nothing (`engine/benches/layers.rs`), is what a client that makes
these calls for each request has to pay at least; another does not even wait, but tries all of its connections
again and again.
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
    group_cpu,
    ratio,
    search_path,
    show_lost,
    shuffled_rounds,
    spread,
    two_places,
)
from compare import http_tools
from compare.http_tools import TOOLS, Told, Tool
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError

CONNECTIONS = 64
OTHER_SECONDS = 0.6
"""Of a run, beside its length: start and end of the processes."""


@dataclass(frozen=True)
class Seen:
    """One run of a generator."""

    per_second: float
    client_microseconds: float
    """CPU time of the generator, per request, its start and end included."""
    client_share: float
    """Part of a CPU that the generator used."""
    server_share: float
    """Part of a CPU that the server used."""
    counted: float | None
    """Requests that the server counted, for each that the generator did; None: the server does not tell."""


@dataclass(frozen=True)
class Target:
    """A server that listens."""

    port: int
    group: int
    """Its process group."""
    reply_bytes: int
    requests: Callable[[], int | None]
    """How many it has counted; None: it does not tell."""


@dataclass(frozen=True)
class Generator:
    """A load generator in one form."""

    name: str
    run: Callable[[Target, int], Told]
    """Asks for so many seconds. `EngineError`: an error was seen, or nothing."""
    missing: Callable[[], str | None] = lambda: None
    """Why it cannot be had here."""


def ours(settings: Mapping[str, SettingValue]) -> Callable[[Target, int], Told]:
    """Our closed load with these settings."""

    def run(target: Target, seconds: int) -> Told:
        load = start_load(
            "http",
            f"127.0.0.1:{target.port}",
            kind="closed_connections",
            settings={
                "bytes": target.reply_bytes,
                "clients": CONNECTIONS,
                "connections": "kept",
                "milliseconds": seconds * 1000,
                **settings,
            },
            cpus=two_places()[1],
        )
        try:
            result = load.wait(seconds + PATIENCE_SECONDS)
        finally:
            load.end()
        if result.tally.errors or result.window is None:
            raise EngineError(f"ours saw errors, or nothing: {result.first_error}")
        return Told(result.tally.requests, result.window.requests_per_second)

    return run


def bare(kind: str) -> Callable[[Target, int], Told]:
    """The bare loop of this kind."""

    def run(target: Target, seconds: int) -> Told:
        address, words = f"127.0.0.1:{target.port}", (CONNECTIONS, target.reply_bytes, 0, seconds * 1000)
        said = layers.asked(layers.built(), kind, address, words, two_places()[1])
        if not said["requests"]:
            raise EngineError("the bare loop was answered nothing")
        return Told(said["requests"], said["requests"] / said["elapsed_ns"] * 1e9)

    return run


def theirs(tool: Tool) -> Callable[[Target, int], Told]:
    """Another tool."""
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
        *(Generator(each.name, theirs(each), each.missing) for each in TOOLS),
    )
}


@contextlib.contextmanager
def our_server(reply_bytes: int, design: str = "epoll", place: int = 0) -> Iterator[Target]:
    """One of ours on one CPU: its own, or (1) the generator's."""
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
    """nginx with a file, as Debian configures it."""
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
    """What may be asked of it."""
    parser.add_argument(
        "servers", nargs="*", metavar="SERVER", help=f"default: {', '.join(map(repr, SERVERS))}"
    )
    parser.add_argument("--rounds", type=int, default=9, help="runs of each (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=1, help="length of a run (default: %(default)s)")


def servers_of(given: argparse.Namespace) -> list[str]:
    """Those that are asked. Raises `UserError` where there is none of a name."""
    unknown = sorted(set(given.servers) - set(SERVERS))
    if unknown:
        raise UserError(f"no server is called {unknown[0]!r}; there are {', '.join(map(repr, SERVERS))}")
    return list(given.servers) or [
        name for name in SERVERS if nginx_is_here() or not name.startswith("nginx")
    ]


def nginx_is_here() -> bool:
    """Whether it is installed."""
    return shutil.which("nginx", path=search_path()) is not None


def here() -> list[str]:
    """The generators that can be had."""
    return [name for name, each in GENERATORS.items() if each.missing() is None]


def not_here() -> list[str]:
    """What will be missing, and why."""
    missing = [reason for each in GENERATORS.values() if (reason := each.missing())]
    return missing + ([] if nginx_is_here() else ["nginx is not installed: apt-get install nginx-light"])


def seconds(given: argparse.Namespace) -> float:
    """How long it will take."""
    return float(len(servers_of(given)) * len(here()) * given.rounds * (given.seconds + OTHER_SECONDS))


def run(given: argparse.Namespace) -> None:
    """Measures, and prints its tables."""
    if layers.missing() is None:
        # Else cargo's CPU time would be that of its first run.
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
    """One run, and what it cost both sides."""
    requests, server, client = target.requests(), group_cpu(target.group), os.times()
    told = generator.run(target, seconds)
    ended = os.times()
    cpu = ended.children_user - client.children_user + ended.children_system - client.children_system
    used = (group_cpu(target.group) - server) / 1e9
    length = told.requests / told.per_second
    counted = None
    if requests is not None and (after := target.requests()) is not None:
        counted = (after - requests) / told.requests
    return Seen(told.per_second, cpu / told.requests * 1e6, cpu / length, used / length, counted)


def show(server: str, seen: Mapping[str, Mapping[int, Seen]], given: argparse.Namespace) -> None:
    """A row for each generator, the cheapest first."""
    print(f"{server}, {CONNECTIONS} connections kept, {given.rounds} rounds of {given.seconds} s\n")
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
        "\ngenerator, server: the part of a CPU that each used; counted: requests by the server's account\n"
        "for each of the generator's (a run's last ones may have been cut off); ratios of each round,\n"
        "Hodges-Lehmann with its interval of 95 %\n",
        flush=True,
    )


def middle(runs: Mapping[int, Seen], figure: str) -> float:
    """The median of a figure."""
    return float(statistics.median(getattr(each, figure) for each in runs.values()))


def to_wrk(seen: Mapping[str, Mapping[int, Seen]], name: str, figure: str) -> str:
    """The ratio of a figure to wrk's of the same round, of the rounds that neither lost."""
    rounds = seen[name].keys() & seen.get(WRK, {}).keys()
    if name == WRK or not rounds:
        return "-"
    return ratio(
        [
            getattr(seen[name][number], figure) / getattr(seen[WRK][number], figure)
            for number in sorted(rounds)
        ]
    )
