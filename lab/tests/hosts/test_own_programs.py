"""Programs and files of the user's own on other hosts: what they measure, and what agents refuse."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from made.hosts.losses import lost_in_trial
from made.hosts.network import Network, assert_measured
from made.interrupted import eventually, left_of
from made.refusals import refused
from made.small_studies import one_block
from typer.testing import CliRunner

from thunderherd.cli.main import app
from thunderherd.engine.client import OwnServer, catalogue
from thunderherd.engine.own_load import OwnLoad, run_program
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.programs import Allowed, Program
from thunderherd.hosts.addresses import HostAddress, parse_host
from thunderherd.hosts.agent import check_command
from thunderherd.hosts.cluster import Cluster, HostPlace
from thunderherd.records.directory import SavedRun, load
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.caveats import PASSED_CASES
from thunderherd.trial.hosts import check_hosts, sent_at_most
from thunderherd.trial.sites import sites_of

pytestmark = pytest.mark.usefixtures("use_engine")

SERVER = """\
import asyncio, os, signal, subprocess, sys
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 64\\r\\n\\r\\n" + b"x" * 64
if len(sys.argv) > 2:  # a child of its own, in another session
    code = "# " + sys.argv[2] + "\\nimport time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
class Http(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))
async def main():
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await loop.create_server(Http, os.environ["AT"].partition(":")[0], int(sys.argv[1]))
    await stop.wait()
asyncio.run(main())
"""
OWN = f"""\
[[contenders]]
name = "own"
command = ["{sys.executable}", "server.py", "{{port}}", "MARK"]
version = ["{sys.executable}", "-c", "print(1.5)"]
environment = {{ AT = "{{host}}:{{port}}" }}
"""
EPOLL = """\
[[contenders]]
name = "epoll"
design = "epoll"
"""
SETTINGS = 'clients = 4, connections = "kept", duration = "300ms", warm_up = "50ms"'
WRK = 'command = ["wrk", "-t1", "-c{clients}", "-d1", "--latency", "http://{host}:{port}/"]\nparser = "wrk"\n'


def study(
    folder: Path,
    network: Network | None,
    contenders: str,
    *,
    load_hosts: int = 1,
    load: str = "",
    settings: str = SETTINGS,
    kind: str = "closed_connections",
) -> Study:
    (folder / "server.py").write_text(SERVER)
    text = one_block("own", workload="http", kind=kind, settings=settings, load=load)
    if network is not None:
        server, *others = (f"netns:{each}" for each in network.names)
        text += f'[lab]\nserver = "{server}"\nload = {json.dumps(others[:load_hosts])}\n'
    path = folder / "own.toml"
    path.write_text(text + contenders.replace("MARK", mark(folder)))
    return load_study(str(path), "quick", (), catalogue())


def mark(folder: Path) -> str:
    """What the command lines of a test's processes have."""
    return f"{folder.name} of {os.getpid()}"


def measured(made: Study, out: Path) -> SavedRun:
    run_study(made, out, seed=1, allow_commands=True, show=PlainProgress(io.StringIO()))
    found = load(out)
    assert_measured(found.trials[-1])
    return found


def eventually_empty(network: Network) -> bool:
    """True if no process is left in the namespaces a moment later."""
    return any(not network.processes() or time.sleep(0.1) for _ in range(50))


def test_a_server_on_a_host_is_measured_as_on_this_machine(network: Network, tmp_path: Path) -> None:
    there = measured(study(tmp_path, network, OWN, load_hosts=2), tmp_path / "there")
    here = measured(study(tmp_path, None, OWN), tmp_path / "here")
    trial, other = there.trials[-1], here.trials[-1]
    assert trial.ready is not None and other.ready is not None
    address = network.addresses[network.names[0]]
    assert trial.ready.address.startswith(f"{address}:") and trial.ready.server_pid
    assert {name for name, value in (trial.metrics or {}).items() if value is not None} == {
        name for name, value in (other.metrics or {}).items() if value is not None
    }
    assert trial.metrics is not None and trial.metrics["listener_holders"] == 2
    assert trial.metrics["server_cpu_seconds"] > 0 and len(trial.loads) == 2  # type: ignore[operator]
    (own, of_own) = (found.run.machine["servers"]["own"] for found in (there, here))
    assert own == of_own and own["version"] == "1.5" and own["sha256"]
    assert there.run.machine[PASSED_CASES]["own"] == here.run.machine[PASSED_CASES]["own"] != []
    assert eventually_empty(network) and not left_of(mark(tmp_path))
