"""Our event loops and nginx, on one CPU each: HTTP, 4,000 bytes, 64 persistent connections, wrk as the load.

nginx has one worker, no access log and no limit of requests a connection. It runs as Debian configures it
(sendfile, tcp_nopush), with its cache of open files, and with that cache but without sendfile. Rounds are
interleaved. Each ratio is of one round: to nginx as Debian configures it, and to the best nginx of the round.
The table also has the CPU time of server and wrk per request. Each side has one CPU, so the more expensive
side limits the rate.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import (
    chosen_designs,
    end_group,
    group_cpu,
    ratio,
    run_wrk,
    search_path,
    show_lost,
    shuffled_rounds,
    spread,
    two_places,
    until_done,
    workers,
)
from thunderherd.engine.client import EngineError, Server
from thunderherd.errors import UserError

CONNECTIONS = 64
BYTES = 4000
CACHE = "open_file_cache max=16; open_file_cache_valid 1h;"
PACKAGED = "nginx"
PEERS = {
    PACKAGED: "sendfile on; tcp_nopush on;",
    "nginx, open_file_cache": f"sendfile on; tcp_nopush on; {CACHE}",
    "nginx, no sendfile": f"sendfile off; tcp_nopush off; {CACHE}",
}
OTHER_SECONDS = 0.5

CONFIGURATION = """\
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_timeout 65; keepalive_requests 100000000; {more}
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""


@dataclass(frozen=True)
class Seen:
    """The figures of one run of wrk."""

    per_second: float
    server_microseconds: float
    client_microseconds: float


@dataclass(frozen=True)
class Listening:
    """The port and the process group of a server."""

    port: int
    group: int


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", help="designs (default: all that do not wait in the call)")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=1, help="length of a run (default: %(default)s)")


def designs_of(given: argparse.Namespace) -> list[str]:
    """Return the designs to compare with nginx."""
    chosen = chosen_designs(given.designs)
    return [design.name for design in chosen if given.designs or design.waits != "in_the_call"]


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    return float((len(designs_of(given)) + len(PEERS)) * given.rounds * (given.seconds + OTHER_SECONDS))


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    missing = [each for each in ("nginx", "wrk") if shutil.which(each, path=search_path()) is None]
    if missing:
        raise UserError(
            f"missing: {', '.join(missing)}",
            code="bench.no_nginx",
            hint="type apt-get install nginx-light wrk",
        )
    designs = designs_of(given)
    seen: dict[str, dict[int, Seen]] = defaultdict(dict)
    lost: dict[str, str] = {}
    for number, name in shuffled_rounds([*PEERS, *designs], given.rounds):
        try:
            with nginx(PEERS[name]) if name in PEERS else ours(name) as listening:
                seen[name][number] = wrk(listening, given.seconds)
        except EngineError as error:
            lost[name] = str(error)
    show_lost(lost)
    show(seen)


@contextlib.contextmanager
def ours(name: str) -> Iterator[Listening]:
    """Run a server of ours on one CPU."""
    settings = {**workers(chosen_designs([name])[0], CONNECTIONS), "bytes": BYTES}
    with Server(name, workload="http", settings=settings, cpus=two_places()[0]) as server:
        port = server.ready.port
        assert port is not None, "a design listens at a port"
        yield Listening(port, server.ready.server_pid)


@contextlib.contextmanager
def nginx(more: str) -> Iterator[Listening]:
    """Run nginx on one CPU, with a file of as many bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "files").mkdir()
        (folder / "files" / "index.html").write_bytes(bytes(index % 251 for index in range(BYTES)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, more=more))
        program = shutil.which("nginx", path=search_path())
        process = subprocess.Popen(
            [program or "nginx", "-c", str(configuration), "-p", str(folder)],
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,
            preexec_fn=lambda: os.sched_setaffinity(0, two_places()[0]),
        )
        try:
            for _ in until_done():
                if process.poll() is not None:
                    raise EngineError(f"nginx ended: {(folder / 'error.log').read_text().strip()}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
            else:
                raise EngineError("nginx does not listen")
            yield Listening(port, process.pid)
        finally:
            end_group(process)


def wrk(server: Listening, seconds: int) -> Seen:
    """Run wrk once, which checks status and length of replies; return the rate and both sides' CPU time."""
    cpu = group_cpu(server.group)
    began = os.times()
    result = run_wrk(server.port, CONNECTIONS, seconds)
    ended = os.times()
    cpu = group_cpu(server.group) - cpu
    own = ended.children_user - began.children_user + ended.children_system - began.children_system
    return Seen(result.per_second, cpu / result.requests / 1000, own / result.requests * 1e6)


def show(seen: Mapping[str, Mapping[int, Seen]]) -> None:
    """Print rates, CPU time and ratios to nginx, the fastest first, from the rounds without a failed run."""
    if missing := [name for name in PEERS if name not in seen]:
        raise EngineError(f"no run of {', '.join(missing)} ended")
    whole = sorted(set.intersection(*(set(runs) for runs in seen.values())))
    if not whole:
        raise EngineError("every round had a failed run")
    rounds = len(whole)
    complete = {name: [runs[number] for number in whole] for name, runs in seen.items()}
    rates = {name: [each.per_second for each in values] for name, values in complete.items()}
    cpu = {name: [each.server_microseconds for each in values] for name, values in complete.items()}
    clients = {name: [each.client_microseconds for each in values] for name, values in complete.items()}
    packaged_rate = np.array(rates[PACKAGED])
    best_rate = np.max([rates[name] for name in PEERS], axis=0)
    least_cpu = np.min([cpu[name] for name in PEERS], axis=0)
    print(f"HTTP, {BYTES} bytes, {CONNECTIONS} connections kept open, wrk with one thread; {rounds} rounds\n")
    print(
        f"{'server':26}{'requests per second':>28}{'server CPU, µs':>22}{'wrk CPU, µs':>22}"
        f"{'both busy':>15}{'rate : nginx':>22}{'rate : best nginx':>22}{'best nginx : CPU':>22}"
    )
    for name in sorted(rates, key=lambda each: statistics.median(rates[each]), reverse=True):
        mark = "*" if statistics.median(clients[name]) > statistics.median(cpu[name]) else " "
        print(
            f"{name:26}{spread(rates[name]):>28}{mark}{spread(cpu[name], 1):>21}"
            f"{spread(clients[name], 1):>22}{busy(rates[name], cpu[name], clients[name]):>15}"
            f"{ratio(np.array(rates[name]) / packaged_rate):>22}"
            f"{ratio(np.array(rates[name]) / best_rate):>22}{ratio(least_cpu / np.array(cpu[name])):>22}"
        )
    print("\nboth busy: the share of its CPU that the server used, and that wrk used")
    print(
        "ratios: of each round, to nginx as Debian configures it and to the best nginx of the round; "
        "Hodges-Lehmann estimate with 95 % interval"
    )
    print("* wrk used more CPU than the server, so the rate is wrk's limit, not the server's")


def busy(rates: Sequence[float], *sides: Sequence[float]) -> str:
    """Write the share of its CPU that each side used. A side near 100 % is at its limit."""
    return ", ".join(
        f"{100 * statistics.median(rate * each / 1e6 for rate, each in zip(rates, side, strict=True)):.0f} %"
        for side in sides
    )
