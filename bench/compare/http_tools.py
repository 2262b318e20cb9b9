"""HTTP load generators wrk, hey and h2load. Each run has one thread on the clients' CPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from common import PATIENCE_SECONDS, search_path, two_places
from thunderherd.engine.client import EngineError


@dataclass(frozen=True)
class ToolResult:
    """The result of a load generator's run."""

    requests: int
    """All requests of the run."""
    per_second: float


@dataclass(frozen=True)
class Tool:
    """A load generator: how to run it, and how to read its output."""

    name: str
    """The name of the program."""
    package: str
    """The distribution's package."""
    options: str
    """Options, with {connections} and {seconds}; the address follows."""
    requests: str
    """Pattern of the number of replies."""
    per_second: str
    """Pattern of the rate."""
    wrong: str
    """Pattern of the output on errors and wrong replies."""

    def missing(self) -> str | None:
        """Return why it cannot run on this machine; None if it can."""
        if shutil.which(self.name, path=search_path()):
            return None
        return f"{self.name} is not installed: apt-get install {self.package}"

    def run(self, port: int, connections: int, seconds: int) -> ToolResult:
        """Request / at this port of loopback. Raises `EngineError` on errors, or if there was no reply."""
        program = shutil.which(self.name, path=search_path())
        assert program is not None, "the caller checked missing()"
        words = self.options.format(connections=connections, seconds=seconds).split()
        done = subprocess.run(
            [program, *words, f"http://127.0.0.1:{port}/"],
            capture_output=True,
            text=True,
            timeout=seconds + PATIENCE_SECONDS,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, two_places()[1]),
        )
        if done.returncode:
            output = (done.stderr or done.stdout).strip()
            raise EngineError(f"{self.name} ended with {done.returncode}: {output}")
        return self.parsed(done.stdout)

    def parsed(self, output: str) -> ToolResult:
        """Read the output. Raises `EngineError` on errors, or if there was no reply."""
        count, rate = re.search(self.requests, output), re.search(self.per_second, output)
        if re.search(self.wrong, output) or not count or not rate or not int(count[1]):
            raise EngineError(f"{self.name} reports errors, or no requests:\n{output}")
        return ToolResult(int(count[1]), float(rate[1]))


WRK = Tool(
    "wrk",
    "wrk",
    "-t 1 -c {connections} -d {seconds}s",
    r"(\d+) requests in ",
    r"Requests/sec:\s*([\d.]+)",
    "Socket errors|Non-2xx",
)
HEY = Tool(
    "hey",
    "hey",
    "-cpus 1 -c {connections} -z {seconds}s",
    r"\[200\]\s+(\d+) responses",
    r"Requests/sec:\s*([\d.]+)",
    r"Error distribution|\[[1345]\d\d\]\s+\d+ responses",
)
H2LOAD = Tool(
    "h2load",
    "nghttp2-client",
    "--h1 -t 1 -c {connections} -D {seconds}",
    r"(\d+) succeeded",
    r"finished in [\d.]+\w+, ([\d.]+) req/s",
    r"[1-9]\d* (failed|errored|timeout)|[1-9]\d* [345]xx",
)
TOOLS = (WRK, HEY, H2LOAD)
