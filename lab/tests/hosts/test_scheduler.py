"""Trials across the workers of a Dask cluster that somebody else has started, with its default settings."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import dask
import pytest
from made.hosts.dask_cluster import AGENT, SECONDS, DaskCluster, certificates, dask_cluster
from made.hosts.losses import lost_in_trial
from made.hosts.network import Network, assert_measured
from made.hosts.study import driver_of
from made.interrupted import eventually
from made.refusals import refused
from made.small_studies import one_block

from thunderherd.cli.options import chosen_labs
from thunderherd.engine.client import catalogue
from thunderherd.engine.places.executable import find_engine
from thunderherd.errors import UserError
from thunderherd.hosts import agent, schedulers
from thunderherd.hosts import cluster as clusters
from thunderherd.hosts.addresses import parse_host
from thunderherd.hosts.cluster import Cluster
from thunderherd.hosts.schedulers import OthersScheduler, hosts_of, roles_of
from thunderherd.records.directory import load
from thunderherd.records.trial import TrialRecord
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.study.lab_option import as_overrides, read
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.sites import site_of
from thunderherd.trial.trial import run_trial

STUDY = (
    one_block(
        "others",
        workload="bytes",
        kind="closed_connections",
        settings='clients = 7, duration = "{duration}", bytes = 4000',
    )
    + """\
[lab]
{lab}
[[contenders]]
name = "epoll"
design = "epoll"
"""
)

ENGINE = "thunderherd-engine"
SOON_SECONDS = 5.0
"""The time in which nothing is left of a run, and a scheduler knows what has ended."""


def study_of(folder: Path, cluster: DaskCluster, duration: str = "300ms", *overrides: str) -> Study:
    """A study on the cluster's workers by their roles, as `--scheduler` makes it."""
    path = folder / "others.toml"
    labs = [
        each.removeprefix("lab.")
        for each in as_overrides(read(chosen_labs(None, None, scheduler=cluster.address)))
    ]
    path.write_text(
        STUDY.replace("{duration}", duration).replace("{lab}", "\n".join(quoted(each) for each in labs))
    )
    return load_study(str(path), "quick", overrides, catalogue())


def quoted(override: str) -> str:
    """An override as a line of TOML."""
    key, _, value = override.partition("=")
    return f"{key} = {value}" if value[0] in '"[' else f'{key} = "{value}"'


def engines(network: Network) -> list[int]:
    """Return the processes of the engine in the namespaces."""
    found = []
    for pid in network.processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == ENGINE[:15]:
                found.append(pid)
    return found


@pytest.mark.usefixtures("use_engine")
def test_a_run_on_the_workers_of_a_scheduler(network: Network, others: DaskCluster, tmp_path: Path) -> None:
    with OthersScheduler(others.address) as scheduler:
        before = scheduler.client.run_on_scheduler(dask.config.collect)
    study = study_of(tmp_path, others)
    run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    results = load(tmp_path / "run")
    trial = results.trials[-1]
    assert_measured(trial)
    assert trial.ready is not None
    assert trial.ready.address.startswith(f"{network.addresses[network.names[0]]}:")
    assert [each.settings["clients"] for each in trial.loads] == [4, 3], "both loads share the clients"
    of_lab = next(iter(results.run.machine["labs"].values()))
    assert [*of_lab["hosts"]] == ["worker:server", "worker:load-0", "worker:load-1"]
    eventually(lambda: not engines(network), SOON_SECONDS)
    assert sorted(others.names()) == ["load-0", "load-1", "server"], "somebody else's workers stay"
    with OthersScheduler(others.address) as scheduler:
        assert scheduler.client.run_on_scheduler(dask.config.collect) == before


def lost_here(
    folder: Path,
    others: DaskCluster,
    lose: Callable[[], None],
    mend: Callable[[], None],
    how: Literal["killed", "cut"],
) -> TrialRecord:
    """Check a loss in mid-trial, and that nothing is left."""
    trial = lost_in_trial(lambda duration: study_of(folder, others, duration), lose, mend, how)
    eventually(lambda: not engines(others.network), SOON_SECONDS)
    return trial


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("name", ["server", pytest.param("load-1", marks=pytest.mark.thorough)])
def test_a_killed_worker_ends_the_trial_with_its_name_and_comes_back(
    others: DaskCluster, tmp_path: Path, name: str
) -> None:
    namespace = others.network.names[["server", "load-0", "load-1"].index(name)]
    trial = lost_here(
        tmp_path, others, lambda: others.kill(name), lambda: others.start_worker(name, namespace), "killed"
    )
    assert any(f"host {name} was lost" in each for each in trial.invalid_reasons), trial


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_a_cut_link_ends_the_trial_with_the_name_of_the_host(others: DaskCluster, tmp_path: Path) -> None:
    """In time even with the scheduler's default settings, which give a worker up after 30 s."""
    network = others.network
    trial = lost_here(
        tmp_path,
        others,
        lambda: network.cut(network.names[2]),
        lambda: network.mend(network.names[2]),
        "cut",
    )
    assert any("host load-1 was lost" in each for each in trial.invalid_reasons), trial


@pytest.mark.usefixtures("use_engine")
def test_a_killed_scheduler_ends_the_trial_and_comes_back(others: DaskCluster, tmp_path: Path) -> None:
    def restart() -> None:
        others.start_scheduler()
        others.wait_for("server", "load-0", "load-1")

    trial = lost_here(tmp_path, others, lambda: others.kill("scheduler"), restart, "killed")
    assert any(others.address in each for each in trial.invalid_reasons), trial


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("name", ["scheduler", pytest.param("load-1", marks=pytest.mark.thorough)])
def test_a_run_without_its_cluster_ends_with_what_was_measured(
    others: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(clusters, "RETURN_SECONDS", 1.0)
    monkeypatch.setattr(schedulers, "REACH_SECONDS", 1.0)

    class Kills(PlainProgress):
        """Progress that kills a process after the first trial."""

        def trial_ends(self, trial: TrialRecord) -> None:
            super().trial_ends(trial)
            others.kill(name)

    study = study_of(tmp_path, others, "300ms", "sizes.quick.repetitions=2")
    with pytest.raises(UserError) as ended:
        run_study(study, tmp_path / "run", seed=1, show=Kills(io.StringIO()))
    (problem,) = ended.value.problems
    assert problem.code == "hosts.lost" and name in problem.message, problem
    assert "--resume" in problem.hint
    assert load(tmp_path / "run").trials
    eventually(lambda: not engines(others.network), SOON_SECONDS)


@pytest.mark.usefixtures("use_engine")
def test_a_second_run_is_refused_and_nothing_is_left_of_a_killed_one(
    others: DaskCluster, tmp_path: Path
) -> None:
    network = others.network
    study_of(tmp_path, others, "30s")
    words = driver_of(tmp_path / "others.toml", tmp_path / "run")
    environment = {**os.environ, **others.environment}
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    ) as driver:
        try:
            eventually(lambda: len(engines(network)) >= 4, SECONDS)
            study = study_of(tmp_path, others)
            (problem,) = refused(site_of(study.contenders[0].lab).__enter__)
            assert problem.code == "hosts.in_use"
            assert "server" in problem.message and f"process {driver.pid} " in problem.message
            assert len(engines(network)) >= 4 and driver.poll() is None, "the first run goes on"
        finally:
            driver.kill()
    eventually(lambda: not engines(network), SOON_SECONDS)
    with site_of(study.contenders[0].lab) as site:
        assert_measured(run_trial(study, study.contenders[0], block=1, position=1, seed=1, site=site))


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_a_worker_with_a_nanny_and_several_threads_measures_and_returns(
    network: Network, cluster_alone: DaskCluster, tmp_path: Path
) -> None:
    """A plain `dask worker`, which its nanny restarts."""
    others = cluster_alone
    others.start_worker(
        "a", network.names[0], *others.dask_worker("a", "--resources", "server=1", "--nthreads", "3")
    )
    others.start_worker("b", network.names[1], *others.dask_worker("b", "--resources", "load=1", "--nanny"))
    others.wait_for("a", "b")

    def kill() -> None:
        with OthersScheduler(others.address) as scheduler:
            worker = scheduler.worker_named("b")
            pid = scheduler.client.run(os.getpid, workers=[worker])[worker]
        os.kill(pid, signal.SIGKILL)

    trial = lost_here(tmp_path, others, kill, lambda: None, "killed")
    assert any("host b was lost" in each for each in trial.invalid_reasons), trial


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("name", ["load-0", pytest.param("scheduler", marks=pytest.mark.thorough)])
def test_a_process_that_stands_still_is_lost(others: DaskCluster, tmp_path: Path, name: str) -> None:
    stopped = others.processes[name]
    trial = lost_here(
        tmp_path,
        others,
        lambda: stopped.send_signal(signal.SIGSTOP),
        lambda: stopped.send_signal(signal.SIGCONT),
        "cut",
    )
    lost = "load-0" if name == "load-0" else "server"
    assert any(f"host {lost} was lost" in each for each in trial.invalid_reasons), trial


@pytest.mark.usefixtures("use_engine")
def test_a_worker_with_another_engine_is_refused(
    network: Network, cluster_alone: DaskCluster, tmp_path: Path
) -> None:
    other = tmp_path / "engine"
    other.write_bytes(find_engine().read_bytes() + b"\0")
    other.chmod(0o755)
    cluster_alone.environment["THUNDERHERD_ENGINE"] = str(other)
    cluster_alone.start_worker("server", network.names[0])
    cluster_alone.wait_for("server")
    (problem,) = refused(Cluster([parse_host("worker:server")], cluster_alone.address).__enter__)
    assert problem.code == "hosts.other_version" and "host server " in problem.message
    assert "engine" in problem.message and "--install" not in problem.hint


@pytest.mark.usefixtures("use_engine")
def test_a_scheduler_of_another_version_is_refused(
    cluster_alone: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = schedulers.facts()
    monkeypatch.setattr(schedulers, "facts", lambda: here | {"dask": "0.0.0"})
    (problem,) = refused(OthersScheduler(cluster_alone.address).__enter__)
    assert problem.code == "hosts.other_version" and cluster_alone.address in problem.message


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(
    ("agent", "code"),
    [
        (None, "hosts.not_started"),
        ("def facts():\n    return {'version': '0.0.0'}\n", "hosts.other_version"),
    ],
)
def test_a_worker_without_this_program_is_refused(
    network: Network, cluster_alone: DaskCluster, tmp_path: Path, agent: str | None, code: str
) -> None:
    """Or with so old a version that it has not the same agent."""
    hosts = tmp_path / "thunderherd/hosts"
    hosts.mkdir(parents=True)
    for each in (hosts, hosts.parent):
        (each / "__init__.py").touch()
    if agent is not None:
        (hosts / "agent.py").write_text(agent)
    words = cluster_alone.dask_worker("load", "--no-nanny")
    cluster_alone.start_worker("load", network.names[0], "env", f"PYTHONPATH={tmp_path}", *words)
    cluster_alone.wait_for("load")
    (problem,) = refused(Cluster([parse_host("worker:load")], cluster_alone.address).__enter__)
    assert problem.code == code and "host load " in problem.message, problem
    assert "install" in problem.hint
    assert cluster_alone.names() == ["load"], "somebody else's worker goes on"


@pytest.mark.usefixtures("use_engine")
def test_the_hosts_of_both_sides_are_found_or_refused(network: Network, cluster_alone: DaskCluster) -> None:
    others, address = cluster_alone, cluster_alone.address
    (problem,) = refused(hosts_of, address)
    assert problem.code == "hosts.no_server" and f"--scheduler {address} --name server" in problem.hint
    others.start_worker("server", network.names[0])
    others.wait_for("server")
    (problem,) = refused(hosts_of, address)
    assert problem.code == "hosts.no_load"
    others.start_worker("server-2", network.names[1])
    others.start_worker("load", network.names[2])
    others.wait_for("server-2", "load")
    (problem,) = refused(hosts_of, address)
    assert problem.code == "hosts.several_servers" and "server, server-2" in problem.message
    assert hosts_of(address, server="worker:server-2") == ("worker:server-2", ["worker:load"])
    assert hosts_of(address, "worker:server", ["worker:server-2"]) == ("worker:server", ["worker:server-2"])
    (problem,) = refused(Cluster([parse_host("worker:nobody")], address).__enter__)
    assert problem.code == "hosts.not_joined" and "nobody" in problem.message
    # The name of a worker is taken as long as it runs.
    others.start_worker("load", network.names[1])
    assert others.processes["load"].wait(SECONDS) == 2
    assert "hosts.not_joined" in others.printed("load") and "name taken" in others.printed("load")


@pytest.mark.parametrize(
    ("name", "resources", "roles"),
    [
        ("server", {}, ["server"]),
        ("load-12", {}, ["load"]),
        ("load2", {}, ["load"]),
        ("loader", {}, []),
        ("serverless", {}, []),
        ("tls://10.0.0.1:4000", {"load": 1.0}, ["load"]),
        ("server-1", {"load": 1.0}, ["load"]),
        ("both", {"load": 1.0, "server": 1.0}, ["server", "load"]),
        ("load", {"GPU": 1.0}, ["load"]),
    ],
)
def test_the_role_of_a_worker(name: str, resources: dict[str, float], roles: list[str]) -> None:
    assert roles_of(name, resources) == roles


@pytest.mark.parametrize(
    ("lab", "codes"),
    [
        ('scheduler = "tls://head"', ["study.no_host", "study.no_host"]),
        ('scheduler = "tls://head"\nserver = "worker:a"', ["study.no_host"]),
        ('scheduler = "tls://head"\nserver = "worker:a"\nload = ["this"]', ["hosts.no_worker"]),
        ('server = "worker:a"\nload = ["worker:b"]', ["hosts.needs_scheduler", "hosts.needs_scheduler"]),
        ('scheduler = "tcp://head"\nserver = "worker:a"\nload = ["worker:b"]', ["hosts.not_encrypted"]),
        ('kind = "veth"\nscheduler = "tls://head"', ["study.key_of_other_lab"]),
        ('server = "ssh://a"\nload = ["ssh://b", "ssh://c", "ssh://b"]', ["study.repeated_host"]),
        ('scheduler = "tls://head"\nserver = "worker:a"\nload = ["worker:b"]', []),
    ],
)
def test_a_study_names_the_workers_of_both_sides(tmp_path: Path, lab: str, codes: list[str]) -> None:
    path = tmp_path / "others.toml"
    path.write_text(STUDY.replace("{duration}", "300ms").replace("{lab}", lab))
    if codes:
        problems = refused(load_study, str(path), "quick", (), catalogue())
        assert [each.code for each in problems] == codes, problems
    else:
        (contender,) = load_study(str(path), "quick", (), catalogue()).contenders
        assert (contender.lab.scheduler, contender.load.hosts) == ("tls://head", 1)


def test_who_has_no_certificate_of_the_cluster_is_refused(cluster_alone: DaskCluster, tmp_path: Path) -> None:
    address = cluster_alone.address
    with dask.config.set(certificates(tmp_path)):
        started = time.monotonic()
        (problem,) = refused(OthersScheduler(address).__enter__)
        assert problem.code == "hosts.no_scheduler" and "CERTIFICATE" in problem.message.upper(), problem
        assert time.monotonic() - started < 15
    with dask.config.set({"distributed.comm.tls.client.cert": None}):
        (problem,) = refused(OthersScheduler(address).__enter__)
        assert problem.code == "hosts.certificate" and "client.cert" in problem.message
    with dask.config.set({"distributed.comm.tls.client.key": "/nowhere/key.pem"}):
        (problem,) = refused(OthersScheduler(address).__enter__)
        assert problem.code == "hosts.certificate" and "/nowhere/key.pem" in problem.message
    cluster_alone.processes["scheduler"].send_signal(signal.SIGSTOP)
    (problem,) = refused(OthersScheduler(address).__enter__)
    assert problem.code == "hosts.no_scheduler" and address in problem.message
    cluster_alone.processes["scheduler"].send_signal(signal.SIGCONT)
    (tmp_path / "damaged.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    with dask.config.set({"distributed.comm.tls.client.key": str(tmp_path / "damaged.pem")}):
        (problem,) = refused(OthersScheduler(address).__enter__)
        assert problem.code == "hosts.certificate", problem


@pytest.mark.usefixtures("use_engine")
def test_without_encryption_only_loopback_is_accepted(network: Network, tmp_path: Path) -> None:
    with dask_cluster(network, tmp_path, "127.0.0.1", "tcp") as others:
        others.start_worker("server", "")
        others.start_worker("load", "", *others.dask_worker("load", "--no-nanny", "--host", network.here))
        others.wait_for("server", "load")
        with Cluster([parse_host("worker:server")], others.address) as cluster:
            (host,) = cluster.hosts.values()
            assert cluster.call(host, "clock") > 0
        (problem,) = refused(Cluster([parse_host("worker:load")], others.address).__enter__)
        assert problem.code == "hosts.not_encrypted" and network.here in problem.message


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_two_labs_of_a_run_share_a_worker(others: DaskCluster, tmp_path: Path) -> None:
    lab = study_of(tmp_path, others).contenders[0].lab
    other = lab.model_copy(update={"load": lab.load[:1]})
    assert other.network != lab.network
    with site_of(lab) as first, site_of(other) as second:
        for site in (first, second):
            assert len({each.there.worker for each in (site.server, *site.clients)}) > 1
            others_clients = [each.there.actor.client for each in (site.server, *site.clients)]
            assert {id(each) for each in others_clients} == {id(site._cluster.scheduler.client)}
        others.kill("load-0")
        others.start_worker("load-0", others.network.names[1])
        for site in (first, second):
            site.check()
            assert site.clients[0].ask(time.monotonic_ns) > 0


@pytest.mark.thorough
@pytest.mark.usefixtures("use_engine")
def test_the_workers_of_a_scheduler_are_looked_at(network: Network, cluster_alone: DaskCluster) -> None:
    others = cluster_alone
    # A worker may start before its scheduler.
    others.kill("scheduler")
    for name, namespace in zip(("server", "load"), network.names, strict=False):
        others.start_worker(name, namespace)
    time.sleep(1)
    others.start_scheduler()
    others.wait_for("server", "load")
    words = [sys.executable, "-m", "thunderherd", "hosts", "--scheduler", others.address, "--json"]
    seen = subprocess.run(
        words, env={**os.environ, **others.environment}, capture_output=True, check=True, timeout=100
    )
    found = json.loads(seen.stdout)
    assert [each["address"] for each in found["machines"]] == ["worker:server", "worker:load"]
    assert all(each["address"] and each["why_not"] is None for each in found["paths"]), found["paths"]
    assert not seen.stderr


def test_an_agent_gives_up_and_ends_in_order(
    network: Network, cluster_alone: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = cluster_alone
    words = [*AGENT, "--scheduler", others.address, "--name", "load"]
    others.start_worker("load", network.names[0], "nohup", *words)
    others.wait_for("load")
    others.processes["load"].send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        others.processes["load"].wait(1)
    others.processes["load"].terminate()
    assert others.processes["load"].wait(5) == 0 and not others.printed("load")
    eventually(lambda: not others.names(), SOON_SECONDS)
    others.kill("scheduler")
    others.start_worker("load", network.names[0])
    time.sleep(1.5)
    others.processes["load"].send_signal(signal.SIGINT)
    assert others.processes["load"].wait(5) == 0 and not others.printed("load"), "it had not joined yet"
    monkeypatch.setattr(agent, "JOIN_SECONDS", 1.0)
    (problem,) = refused(asyncio.run, agent.join(others.address, "load"))
    assert problem.code == "hosts.not_joined" and others.address in problem.message


def test_files_on_a_worker_end_with_the_run(
    cluster_alone: DaskCluster, network: Network, tmp_path: Path
) -> None:
    cluster_alone.start_worker("load", network.names[1])
    cluster_alone.wait_for("load")
    (tmp_path / "some.csv").write_text("bytes\n1\n")
    host = parse_host("worker:load")
    with Cluster([host], cluster_alone.address) as cluster:
        copy = cluster.place(host).file(tmp_path / "some.csv")
        assert copy.read_text() == "bytes\n1\n"
    eventually(lambda: not copy.parent.exists(), SOON_SECONDS)
    assert cluster_alone.processes["load"].poll() is None
