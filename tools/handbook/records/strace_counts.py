"""System calls of a design or a primitive for one request, counted by strace.

strace counts a run with few requests and a run with many. The calls that start and stop the server are in
both counts, so they cancel in the difference.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thunderherd.engine.client import find_engine
from thunderherd.errors import UserError

FEW, MANY = 20, 220
SECONDS = 60.0
SELDOM = 0.02
"""Calls that are rarer than this for one request, such as waits for a timer, do not belong to the request."""

POOL = 4


@dataclass(frozen=True)
class Way:
    """A server and a load with some number of requests."""

    server: tuple[str, ...]
    load: tuple[str, ...]
    per: str

    def of(self, requests: int) -> list[str]:
        """Return the load's arguments for a number of requests."""
        return [str(requests) if word == "{requests}" else word for word in self.load]


def of_design(entry: Mapping[str, Any]) -> Way:
    """Return a load with a connection for every request, one at a time, of 4,000 bytes; pools are small."""
    settings = {each["name"] for each in entry["settings"]}
    pool = ("--pool", str(POOL)) if "pool" in settings else ()
    return Way(
        ("serve", entry["name"], "--workload", "bytes", *pool),
        (
            "load",
            "bytes",
            "--load",
            "closed_threads",
            "--clients",
            "1",
            "--loops",
            "{requests}",
            "--bytes",
            "4000",
        ),
        "connection with one request",
    )


def of_primitive(entry: Mapping[str, Any], catalogue: Mapping[str, Any]) -> Way:
    """Return a load with messages of eight pieces of 4,096 bytes both ways, on a persistent connection.

    If the primitive cannot do that, the load sends replies of `bytes` in one piece.
    """
    name, out, design = entry["name"], entry["moves"] == "out", catalogue["defaults"]["design"]
    option = ("--primitive" if out else "--receive", name)
    kept = ("--load", "closed_threads", "--clients", "1", "--connections", "kept", "--loops", "{requests}")
    if any(hole["primitive"] == name and hole.get("workload") == "fields" for hole in catalogue["holes"]):
        return Way(
            ("serve", design, "--workload", "bytes", "--limit", "32768", *option),
            ("load", "bytes", *kept, "--bytes", "16384"),
            "request, and a reply of 16,384 bytes in one piece",
        )
    return Way(
        ("serve", design, "--workload", "fields", "--field-size", "4096", *option),
        ("load", "fields", "--field-size", "4096", *kept),
        "request and reply of eight fields of 4,096 bytes",
    )


def count_all(catalogue: Mapping[str, Any]) -> dict[str, Any]:
    """Count the calls of all designs and primitives. Raises UserError if strace is missing."""
    if shutil.which("strace") is None:
        raise UserError("strace is missing", code="records.no_strace", hint="type apt-get install strace")
    version = subprocess.run(["strace", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "made_by": "make records PARTS=calls",
        "strace": version.splitlines()[0],
        "kernel": os.uname().release,
        "designs": {each["name"]: entry_counts(each, of_design(each)) for each in catalogue["designs"]},
        "primitives": {
            each["name"]: entry_counts(each, of_primitive(each, catalogue))
            for each in catalogue["primitives"]
        },
    }


def entry_counts(entry: Mapping[str, Any], way: Way) -> dict[str, Any]:
    """Return the record of an entry: its calls for one request, or why there are none."""
    print(f"==> strace of {entry['name']}", flush=True)
    facts: dict[str, Any] = {
        "per": way.per,
        "few": FEW,
        "many": MANY,
        "server": " ".join(("thunderherd", *way.server)),
        "load": " ".join(("thunderherd", *way.load)).replace("{requests}", "N"),
    }
    if not entry["available"]:
        return {**facts, "absent": entry["reason"]}
    few, many = (counted(way, requests) for requests in (FEW, MANY))
    each = {name: (many[name] - few.get(name, 0)) / (MANY - FEW) for name in many}
    calls = {name: round(number, 3) for name, number in each.items() if number >= SELDOM}
    return {**facts, "calls": dict(sorted(calls.items(), key=lambda item: -item[1]))}


def counted(way: Way, requests: int) -> dict[str, int]:
    """Count the calls of all processes of a server, from start to end, by name of the call.

    Raises UserError if the server or the load fails.
    """
    engine = str(find_engine())
    with tempfile.TemporaryDirectory() as folder:
        printed, counts = Path(folder) / "printed", Path(folder) / "counts"
        with printed.open("w") as out:
            server = subprocess.Popen(
                ["strace", "-f", "-c", "-U", "calls,name", "-o", counts, engine, *way.server, "--port", "0"],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            address = _address(printed, server)
            load = subprocess.run(
                [engine, *way.of(requests), "--connect", address],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            if load.returncode:
                raise UserError(
                    f"{' '.join(way.server)}: the load failed: {load.stdout}{load.stderr}",
                    code="records.load_failed",
                )
        finally:
            _end(server)
        return _read(counts.read_text())


def _address(printed: Path, server: subprocess.Popen[bytes]) -> str:
    """Wait until the server prints its address, and return the address."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and server.poll() is None:
        if found := re.search(r"(127\.0\.0\.1|0\.0\.0\.0|\[::\]|localhost):(\d+)", printed.read_text()):
            return f"127.0.0.1:{found[2]}"
        time.sleep(0.02)
    message = f"the server under strace does not listen: {printed.read_text()}"
    raise UserError(message, code="records.no_address")


def _end(server: subprocess.Popen[bytes]) -> None:
    """Send SIGINT to the engine, which is strace's child. strace then ends, too."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for child in children[:1]:
        os.kill(int(child), signal.SIGINT)
    try:
        server.wait(SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        raise UserError("the server under strace does not end", code="records.no_end") from None


def _read(text: str) -> dict[str, int]:
    """Read strace's table of calls and names."""
    rows = (line.split() for line in text.splitlines())
    return {row[1]: int(row[0]) for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"}
