"""Hosts that ssh(1) reaches: SSH servers of the distribution, each in a network namespace."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.hosts.bundled import run_bundled
from made.hosts.network import Network, assert_measured, ip, sshd
from made.refusals import refused
from made.small_studies import one_block

from thunderherd.conform.before_timing import check_servers
from thunderherd.engine.client import catalogue
from thunderherd.engine.places.executable import find_engine
from thunderherd.hosts.addresses import HostAddress, parse_host
from thunderherd.hosts.bundle import FOLDER
from thunderherd.hosts.cluster import Cluster
from thunderherd.hosts.installing import install, uninstall
from thunderherd.study.loading import load_study
from thunderherd.trial.sites import sites_of
from thunderherd.trial.trial import run_trial

STUDY = (
    one_block(
        "over-ssh",
        workload="bytes",
        kind="closed_connections",
        settings='clients = 4, duration = "300ms", bytes = 4000',
        all_pairs=True,
    )
    + """\
[lab]
server = "ssh://{0}"
load = ["ssh://{1}"]
[[contenders]]
name = "epoll"
design = "epoll"
[[contenders]]
name = "own"
command = ["{2}", "serve", "prefork", "--workload", "bytes", "--listen", "{host}:{port}"]
"""
)
SERVER = """\
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/{name}.pid
StrictModes no
PasswordAuthentication no
SetEnv HOME={folder}/home THUNDERHERD_ENGINE=/nowhere
"""
CLIENT = """\
User {user}
IdentityFile {folder}/user
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


@pytest.fixture(scope="module")
def over_ssh(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Starts SSH servers in two namespaces, with keys of their own, which ssh(1) finds."""
    program = sshd()
    if program is None:
        pytest.skip("sshd is not installed")
    folder = tmp_path_factory.mktemp("ssh")
    (folder / "home").mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    names = network.names[:2]
    hosts = "".join(f"Host {name}\n  HostName {network.addresses[name]}\n" for name in names)
    (folder / "config").write_text(f"{hosts}Host *\n{CLIENT.format(user='root', folder=folder)}")
    (folder / "bin").mkdir()
    (folder / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
    (folder / "bin/ssh").chmod(0o755)
    for name in names:
        (folder / name).write_text(SERVER.format(folder=folder, name=name))
        # ip-netns(8) would mount another /sys, in which there are no control groups.
        words = ["nsenter", f"--net=/run/netns/{name}", str(program), "-f", str(folder / name)]
        subprocess.run(words, check=True, timeout=60)
    yield {"home": folder / "home", "bin": folder / "bin"}
    for name in names:
        for pid in ip("netns", "pids", name).split():
            os.kill(int(pid), 9)


@pytest.mark.usefixtures("use_engine")
def test_an_agent_is_installed_measures_and_is_removed(
    network: Network, over_ssh: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{over_ssh['bin']}:{os.environ['PATH']}")
    # Too long a path for a socket.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 25)))
    Path(tempfile.gettempdir()).mkdir()
    server, other = (parse_host(f"ssh://{name}") for name in network.names[:2])
    (problem,) = refused(Cluster([server]).__enter__)
    assert problem.code in ("hosts.not_started", "hosts.other_version") and "--install" in problem.hint
    assert install(server) > 1 << 20
    (agent,) = (over_ssh["home"] / FOLDER).iterdir()
    assert agent.stat().st_mode & 0o077 == 0, "the folder is private"

    path = tmp_path / "over-ssh.toml"
    text = STUDY
    for number, word in enumerate((*network.names[:2], str(find_engine()))):
        text = text.replace(f"{{{number}}}", word)
    path.write_text(text)
    study = load_study(str(path), "quick", (), catalogue())
    with sites_of(study) as sites:
        (site,) = sites.values()
        assert site.facts()["address"] == network.addresses[network.names[0]]
        assert {*check_servers(study, print, sites=sites)} == {"own"}
        for contender in study.contenders:
            trial = run_trial(study, contender, block=1, position=1, seed=1, site=site)
            assert_measured(trial)
    there = run_bundled("unp-ch30", tmp_path / "run", "--server", str(server), "--load", str(other))
    assert there.summary is not None and there.summary.trials.valid >= len(there.summary.contenders)
    assert {host.host for each in there.trials for host in each.hosts} == {str(server), str(other)}
    assert uninstall(other) == [agent.name], "both hosts have this home"
    assert not (over_ssh["home"] / FOLDER).exists()
    assert uninstall(server) == []


@pytest.mark.usefixtures("use_engine")
def test_a_host_that_ssh_does_not_reach_is_named(
    network: Network, over_ssh: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{over_ssh['bin']}:{os.environ['PATH']}")
    nobody: HostAddress = parse_host(f"ssh://{network.addresses[network.names[2]]}")
    (problem,) = refused(Cluster([nobody]).__enter__)
    assert problem.code == "hosts.not_started" and "refused" in problem.message
    assert problem.hint == f"try: ssh {nobody.name} true"
