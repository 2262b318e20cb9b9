"""A cluster of Dask that somebody else has started: a scheduler as its own process, with TLS and workers."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dask
import pytest
from distributed.security import Security

from made.hosts.network import Network
from thunderherd.hosts.links import AGENT, free_port

SECONDS = 60.0
"""The time in which a scheduler listens, and a worker joins."""


@dataclass
class DaskCluster:
    """A scheduler on the bridge of a network, and workers in its namespaces."""

    network: Network
    folder: Path
    environment: dict[str, str]
    port: int
    host: str
    protocol: str = "tls"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of its scheduler."""
        return f"{self.protocol}://{self.host}:{self.port}"

    def start_scheduler(self) -> None:
        """Start the scheduler with the settings that Dask has by default, and wait until it listens."""
        words = ["--host", self.host, "--port", str(self.port), "--protocol", self.protocol, "--no-dashboard"]
        self._start(
            "scheduler", [sys.executable, "-m", "distributed.cli.dask_scheduler", *words, "--no-show"]
        )
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(self.printed("scheduler"))

    def start_worker(self, name: str, namespace: str, *words: str) -> None:
        """Start a worker in a namespace, if any: an agent, or with `words` another."""
        command = list(words) or [*AGENT, "--scheduler", self.address, "--name", name]
        inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
        self._start(name, [*inside, *command])

    def wait_for(self, *names: str) -> None:
        """Wait until workers have joined."""
        deadline = time.monotonic() + SECONDS
        while missing := set(names) - set(self.names()):
            for each in missing & set(self.processes):
                assert self.processes[each].poll() is None, self.printed(each)
            assert time.monotonic() < deadline, missing
            time.sleep(0.1)

    def dask_worker(self, name: str, *words: str) -> list[str]:
        """Return the command of a worker of Dask."""
        program = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--name", name]
        return [*program, "--no-dashboard", "--local-directory", str(self.folder), *words]

    def names(self) -> list[str]:
        """Return the names of the workers that the scheduler has."""
        from thunderherd.hosts.schedulers import OthersScheduler

        with OthersScheduler(self.address) as scheduler:
            return [str(each["name"]) for each in scheduler.workers().values()]

    def _start(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )

    def printed(self, name: str) -> str:
        """Return what a process has printed."""
        return (self.folder / f"{name}.log").read_text()

    def kill(self, name: str) -> None:
        """Kill a process."""
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        """End all processes, the scheduler last: its workers take leave of it."""
        scheduler = self.processes.pop("scheduler")
        for group in ([*self.processes.values()], [scheduler]):
            for each in group:
                each.terminate()
            for each in group:
                try:
                    each.wait(10)
                except subprocess.TimeoutExpired:
                    each.kill()
                    each.wait()


def certificates(folder: Path) -> dict[str, str]:
    """Write a certificate that serves for all roles; return the settings of Dask for it."""
    found = Security.temporary().get_tls_config_for_role("client")
    files = {"ca-file": found["ca_file"], "cert": found["cert"], "key": found["key"]}
    for name, text in files.items():
        (folder / f"{name}.pem").write_text(text)
    settings = {
        f"{role}.{each}": each for role in ("scheduler", "worker", "client") for each in ("cert", "key")
    }
    return {
        f"distributed.comm.tls.{key}": str(folder / f"{file}.pem")
        for key, file in {"ca-file": "ca-file", **settings}.items()
    }


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Dask as the variables that it reads."""
    return {
        f"DASK_{key.replace('.', '__').replace('-', '_').upper()}": each for key, each in settings.items()
    }


@contextlib.contextmanager
def dask_cluster(
    network: Network, folder: Path, host: str = "", protocol: str = "tls"
) -> Iterator[DaskCluster]:
    """Start a scheduler; this process has the certificate, too, and so do the workers that it starts."""
    settings = certificates(folder)
    made = DaskCluster(network, folder, as_environment(settings), free_port(), host or network.here, protocol)
    with dask.config.set(settings):
        try:
            made.start_scheduler()
            yield made
        finally:
            made.close()


@pytest.fixture
def others(network: Network, tmp_path: Path) -> Iterator[DaskCluster]:
    """A cluster with a server and two loads, each in its namespace."""
    folder = tmp_path / "dask"
    folder.mkdir()
    with dask_cluster(network, folder) as made:
        for name, namespace in zip(("server", "load-0", "load-1"), network.names, strict=True):
            made.start_worker(name, namespace)
        made.wait_for("server", "load-0", "load-1")
        yield made


@pytest.fixture
def cluster_alone(network: Network, tmp_path: Path) -> Iterator[DaskCluster]:
    """A cluster without workers."""
    folder = tmp_path / "dask"
    folder.mkdir()
    with dask_cluster(network, folder) as made:
        yield made
