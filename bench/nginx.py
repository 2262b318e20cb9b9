"""Our designs and nginx, one CPU against one: a 4,000-byte reply over HTTP, keep-alive, wrk as the client of both.

nginx has one worker, no access log and no limit of requests a connection, once as it comes and once with its cache
of open files. Rounds are interleaved; each ratio is of the same round. `make bench`, or `bench/nginx.py --help`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from places import middle, shuffled_rounds, two_places
from thunderherd.engine import Server, catalogue
from thunderherd.samples import hodges_lehmann

CONNECTIONS = 64
BYTES = 4000
PEERS = {"nginx": "", "nginx_open_file_cache": "open_file_cache max=16; open_file_cache_valid 1h;"}

CONFIGURATION = """\
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 65; keepalive_requests 100000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {more}
    server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("designs", nargs="*", help="only these; otherwise all that do not wait in their calls")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--seconds", type=int, default=2)
    given = arguments.parse_args()
    missing = [each for each in ("nginx", "wrk") if shutil.which(each) is None]
    if missing:
        raise SystemExit(f"bench: not here: {', '.join(missing)}; install with: apt-get install nginx-light wrk")

    designs = [
        each.name
        for each in catalogue().designs
        if each.available and (each.name in given.designs if given.designs else each.waits != "in_the_call")
    ]
    rates: dict[str, list[float]] = defaultdict(list)
    names = [*PEERS, *designs]
    for number, name in shuffled_rounds(names, given.rounds):
        print(f"\rround {number + 1} of {given.rounds}: {name:40}", end="", flush=True)
        with nginx(PEERS[name]) if name in PEERS else ours(name) as port:
            rates[name].append(wrk(port, given.seconds))
    print("\r" + " " * 70 + "\r", end="")
    show(rates)


@contextlib.contextmanager
def ours(design: str) -> Iterator[int]:
    """A server of ours on one CPU."""
    known = {setting.name for each in catalogue().designs if each.name == design for setting in each.settings}
    settings = {"pool": 1} if "pool" in known else {}
    with Server(
        design, workload="http", primitive="send", settings={**settings, "bytes": BYTES}, cpus=two_places()[0]
    ) as server:
        yield server.ready.port


@contextlib.contextmanager
def nginx(more: str) -> Iterator[int]:
    """nginx on one CPU, with a file of as many bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "files").mkdir()
        (folder / "files" / "index.html").write_bytes(bytes(index % 251 for index in range(BYTES)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        configuration = folder / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, more=more))
        process = subprocess.Popen(
            ["nginx", "-c", str(configuration), "-p", str(folder)],
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, two_places()[0]),
        )
        try:
            wait_until_it_answers(port)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def wait_until_it_answers(port: int) -> None:
    """A peer does not say when it listens."""
    deadline = time.monotonic() + 10
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > deadline:
            raise SystemExit("bench: nginx did not answer within 10 s")
        time.sleep(0.02)


def wrk(port: int, seconds: int) -> float:
    """Requests per second that wrk saw answered, none of them wrong."""
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", f"http://127.0.0.1:{port}/"]
    said = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, two_places()[1]),
    ).stdout
    if "Socket errors" in said or "Non-2xx" in said:
        raise SystemExit(f"bench: wrk saw errors:\n{said}")
    found = re.search(r"Requests/sec:\s*([0-9.]+)", said)
    if not found:
        raise SystemExit(f"bench: wrk did not say its rate:\n{said}")
    return float(found[1])


def show(rates: dict[str, list[float]]) -> None:
    """Rates, and each design's ratio to the faster nginx of the same round, Hodges-Lehmann with its interval."""
    import numpy as np

    rounds = len(rates["nginx"])
    best_peer = np.max([rates[peer] for peer in PEERS], axis=0)
    print(f"HTTP, {BYTES} bytes, {CONNECTIONS} connections kept open, wrk -t 1; {rounds} rounds, interleaved\n")
    print(f"{'server':28}{'requests per second':>34}   ratio to the faster nginx of its round")
    for name, values in sorted(rates.items(), key=lambda item: -float(np.median(item[1]))):
        estimate = hodges_lehmann(np.log(np.array(values) / best_peer))
        span = "" if estimate.low is None or estimate.high is None else (
            f" ({np.exp(estimate.low):.2f} to {np.exp(estimate.high):.2f}, {100 * estimate.confidence:.0f} %)"
        )
        print(f"{name:28}{middle(values):>34}   {np.exp(estimate.value):.2f}{span}")


if __name__ == "__main__":
    main()
