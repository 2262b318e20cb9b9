"""Trials across hosts, which are network namespaces here: what they measure, and what follows a loss."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from made.hosts.losses import lost_in_trial
from made.hosts.network import Network, assert_measured, ip
from made.hosts.study import driver_of, study_of
from made.refusals import refused

from thunderherd.engine.client import Server, catalogue
from thunderherd.errors import UserError
from thunderherd.hosts import cluster as clusters
from thunderherd.hosts import links, schedulers
from thunderherd.hosts.addresses import parse_host
from thunderherd.hosts.cluster import Cluster
from thunderherd.records.directory import load
from thunderherd.records.trial import TrialRecord
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.sites import site_of, sites_of
from thunderherd.trial.trial import run_trial


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_a_run_across_hosts_has_the_shape_of_any_other(network: Network, tmp_path: Path) -> None:
    study = study_of(tmp_path, network)
    run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    results = load(tmp_path / "run")
    # On a busy machine a trial is repeated.
    trial = results.trials[-1]
    assert_measured(trial)
    server = network.names[0]
    assert trial.ready is not None and trial.ready.address.startswith(f"{network.addresses[server]}:")
    assert [each.settings["clients"] for each in trial.loads] == [4, 3], "both hosts share the clients"
    windows = [each.window for each in trial.loads if each.window is not None]
    assert len(windows) == 2
    edges = [each.started_monotonic_ns for each in windows]
    assert max(edges) - min(edges) < 1e9, "they start at a time that they have agreed on"
    assert trial.metrics is not None and "requests_per_second" in trial.metrics
    of_lab = next(iter(results.run.machine["labs"].values()))
    assert of_lab["address"] == network.addresses[server]
    assert [*of_lab["hosts"]] == [f"netns:{each}" for each in network.names]
    assert network.becomes_empty()


def lost(folder: Path, network: Network, lose: Callable[[], None], how: Literal["killed", "cut"]) -> None:
    """Check that a host that is lost in mid-trial is named and comes back, and that nothing is left."""
    host = network.names[1]
    trial = lost_in_trial(
        lambda duration: study_of(folder, network, duration, load_hosts=1),
        lose,
        lambda: network.mend(host),
        how,
    )
    assert any(f"host {host} was lost" in each for each in trial.invalid_reasons), trial
    assert network.becomes_empty()


@pytest.mark.usefixtures("use_engine")
def test_a_killed_agent_ends_the_trial_with_its_name_and_comes_back(network: Network, tmp_path: Path) -> None:
    def lose() -> None:
        (agent,) = network.agents(network.names[1])
        os.kill(agent, signal.SIGKILL)

    lost(tmp_path, network, lose, "killed")


@pytest.mark.usefixtures("use_engine")
def test_a_cut_link_ends_the_trial_with_the_name_of_the_host(network: Network, tmp_path: Path) -> None:
    lost(tmp_path, network, lambda: network.cut(network.names[1]), "cut")


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no CPU beside a measured one")
def test_an_agent_keeps_off_the_measured_cpus_and_what_it_starts_does_not(
    network: Network, tmp_path: Path
) -> None:
    usable = os.sched_getaffinity(0)
    study = study_of(tmp_path, network, lab=f"server_cpus = [{min(usable)}]")
    server, others = network.names[0], usable - {min(usable)}
    with sites_of(study) as made:
        (site,) = made.values()
        # These hosts share a machine, so all keep off.
        for name in network.names:
            assert cpus_of_agent(network, name) == others
            assert site.facts()["hosts"][f"netns:{name}"]["agent_cpus"] == sorted(others)
        assert site.clients[0].ask(os.sched_getaffinity, 0) == usable
        with Server("epoll", workload="echo", place=site.server, listen=site.listen) as started:
            assert os.sched_getaffinity(started.ready.server_pid) == usable
        os.kill(*network.agents(server), signal.SIGKILL)
        site.check()
        assert cpus_of_agent(network, server) == others, "a host that has returned keeps off, too"


def cpus_of_agent(network: Network, name: str) -> set[int]:
    """Return the CPUs that the threads of a host's agent may use."""
    (agent,) = network.agents(name)
    threads = [int(each.name) for each in Path(f"/proc/{agent}/task").iterdir()]
    return {cpu for each in threads for cpu in os.sched_getaffinity(each)}


@pytest.mark.usefixtures("use_engine")
def test_a_run_without_one_of_its_hosts_ends_with_what_was_measured(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "RETURN_SECONDS", 1.0)

    class Cuts(PlainProgress):
        """Progress that takes away a namespace after the first trial."""

        def trial_ends(self, trial: TrialRecord) -> None:
            super().trial_ends(trial)
            monkeypatch.setattr(links, "NAMESPACES", tmp_path)
            (agent,) = network.agents(network.names[2])
            os.kill(agent, signal.SIGKILL)

    with pytest.raises(UserError) as ended:
        run_study(two_blocks(tmp_path, network), tmp_path / "run", seed=1, show=Cuts(io.StringIO()))
    (problem,) = ended.value.problems
    assert problem.code == "hosts.lost" and network.names[2] in problem.message
    assert "--resume" in problem.hint
    assert load(tmp_path / "run").summary is not None, "what was measured can be shown"
    assert network.becomes_empty()


def two_blocks(folder: Path, network: Network) -> Study:
    study_of(folder, network)
    path = folder / "hosts.toml"
    path.write_text(path.read_text().replace("repetitions = 1", "repetitions = 2"))
    return load_study(str(path), "quick", (), catalogue())


@pytest.mark.usefixtures("use_engine")
def test_nothing_is_left_of_a_killed_driver(network: Network, tmp_path: Path) -> None:
    study_of(tmp_path, network, "30s")
    words = driver_of(tmp_path / "hosts.toml", tmp_path / "run")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "run").exists() or len(network.processes()) < 6:
                assert time.monotonic() < deadline and driver.poll() is None
                time.sleep(0.05)
        finally:
            driver.kill()
    assert network.becomes_empty()


@pytest.mark.usefixtures("use_engine")
def test_a_client_without_the_certificate_of_the_session_is_refused(network: Network) -> None:
    with Cluster([parse_host(f"netns:{network.names[0]}")]) as cluster:
        (host,) = cluster.hosts.values()
        assert isinstance(cluster.scheduler, schedulers.OwnScheduler)
        ports = {network.here: cluster.scheduler.ports[network.here], **dict([address_of(host.worker)])}
        for address, port in ports.items():
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with pytest.raises(OSError), encrypted(address, port, context) as connection:
                connection.sendall(b"hello")
                # Since TLS 1.3, a client learns only now that it is refused.
                if not connection.recv(1):
                    raise OSError("closed")
            with socket.create_connection((address, port), 5) as plain:
                plain.settimeout(10)
                plain.sendall(b"hello" * 100)
                assert b"hello" not in received(plain)
        assert cluster.call(host, "clock") > 0


@pytest.mark.usefixtures("use_engine")
def test_only_encrypted_ports_are_reached_from_other_hosts(network: Network) -> None:
    address = parse_host(f"netns:{network.names[0]}")
    with Cluster([address]) as cluster:
        there = cluster.place(address).ask(psutil.net_connections, "tcp")
        found = listeners(there) | listeners(psutil.Process().net_connections("tcp"))
        own = {network.here, network.addresses[network.names[0]]}
        encrypted_ones = {(network.here, cluster.scheduler.ports[network.here])}
        encrypted_ones |= {address_of(each.worker) for each in cluster.hosts.values()}
        assert encrypted_ones <= found
        assert {each for each in found if each[0] in own} == encrypted_ones
        assert all(host in own or host.startswith("127.") for host, _ in found), found


def listeners(connections: Iterable[Any]) -> set[tuple[str, int]]:
    """Return the addresses at which somebody listens."""
    return {(each.laddr.ip, each.laddr.port) for each in connections if each.status == psutil.CONN_LISTEN}


@contextlib.contextmanager
def encrypted(address: str, port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    """Connect with TLS, but without a certificate."""
    with socket.create_connection((address, port), 5) as plain, context.wrap_socket(plain) as connection:
        yield connection


def received(connection: socket.socket) -> bytes:
    """Return what comes until the connection ends."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(4096):
            found += piece
    return found


def address_of(worker: str) -> tuple[str, int]:
    host, _, port = worker.partition("://")[2].rpartition(":")
    return host, int(port)


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("fact", ["version", "code", "engine_hash", "dask"])
def test_another_version_is_refused_before_the_first_trial(
    network: Network, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    here = schedulers.facts()
    monkeypatch.setattr(schedulers, "facts", lambda: here | {fact: "0.0.0"})
    address = parse_host(f"netns:{network.names[0]}")
    (problem,) = refused(Cluster([address]).__enter__)
    assert problem.code == "hosts.other_version" and network.names[0] in problem.message
    assert "0.0.0" in problem.message and "--install" in problem.hint
    assert network.becomes_empty()


@pytest.mark.usefixtures("use_engine")
def test_clocks_that_differ_are_compared(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 5000
    ahead = ["unshare", "--time", f"--monotonic={seconds}", "--fork", "--kill-child", *links.AGENT]
    if subprocess.run([*ahead[:5], "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine has no time namespaces")
    monkeypatch.setattr(links, "AGENT", ahead)
    study = study_of(tmp_path, network, load_hosts=1)
    with site_of(study.contenders[0].lab) as site:
        facts = site.facts()["hosts"]
        trial = run_trial(study, study.contenders[0], block=1, position=1, seed=1, site=site)
    for each in facts.values():
        assert abs(each["clock_ahead_ns"] - seconds * 10**9) <= each["clock_error_ns"] + 10**7
    assert_measured(trial)
    assert (
        abs(
            (trial.loads[0].window.started_monotonic_ns if trial.loads[0].window else 0) - time.monotonic_ns()
        )
        < 60e9
    )


IMPATIENT = "from thunderherd.hosts import agent; agent.ABANDONED_SECONDS = 1.0; agent.main()"
"""An agent that ends what it started after a second without a call."""


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_hosts_are_called_while_a_load_lasts(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All agents but one would otherwise end their processes in a window of more than a minute."""
    monkeypatch.setattr(links, "AGENT", [sys.executable, "-c", IMPATIENT])
    monkeypatch.setattr(clusters, "KEEP_SECONDS", 0.3)
    study = study_of(tmp_path, network, "3500ms")
    with site_of(study.contenders[0].lab) as site:
        trial = run_trial(study, study.contenders[0], block=1, position=1, seed=1, site=site)
    assert_measured(trial)
    assert len(trial.loads) == 2


@pytest.mark.usefixtures("use_engine")
def test_a_directory_that_is_taken_is_refused_before_a_host_is_reached(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(links, "NAMESPACES", tmp_path)
    (problem,) = refused(lambda: run_study(study_of(tmp_path, network), tmp_path / "run"))
    assert problem.code == "run.directory_taken"


def test_a_cluster_leaves_no_file_here(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with Cluster([parse_host(f"netns:{network.names[0]}")]):
        assert [*tmp_path.iterdir()]
    assert not [*tmp_path.iterdir()]


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_hosts_measure_over_ipv6(network: Network, tmp_path: Path) -> None:
    of = {name: f"fd{os.getpid() % 256:02x}::{place}" for place, name in enumerate(network.names, start=2)}
    server = network.names[0]
    with contextlib.ExitStack() as added:
        for name, address in of.items():
            words = (f"{address}/64", "dev", "eth0")
            try:
                ip("-n", name, "-6", "addr", "add", *words, "nodad")
            except subprocess.CalledProcessError as error:
                pytest.skip(f"no address of IPv6 can be added: {error.stderr.strip()}")
            added.callback(ip, "-n", name, "-6", "addr", "del", *words)
        study = study_of(tmp_path, network)
        lab = study.contenders[0].lab.model_copy(update={"server": f"netns:{server}?data={of[server]}"})
        with site_of(lab) as site:
            trial = run_trial(study, study.contenders[0], block=1, position=1, seed=1, site=site)
    assert_measured(trial)
    assert trial.ready is not None and trial.ready.address.startswith(f"[{of[server]}]:")


@pytest.mark.usefixtures("use_engine")
def test_an_address_that_the_load_does_not_reach_is_named(network: Network, tmp_path: Path) -> None:
    server, other, _ = network.names
    nowhere = network.addresses[server].rpartition(".")[0] + ".99"
    study = study_of(tmp_path, network)
    lab = study.contenders[0].lab
    named = lab.model_copy(update={"server": f"netns:{server}?data={nowhere}", "load": (f"netns:{other}",)})
    (problem,) = refused(site_of(named).__enter__)
    assert problem.code == "hosts.no_path" and nowhere in problem.message and server in problem.message
    assert network.becomes_empty()
