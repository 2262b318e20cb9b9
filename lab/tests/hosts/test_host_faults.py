"""What goes wrong on a host, or between two: its name is in the reason, and the run does not hang."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from made.hosts.network import Network, assert_measured
from made.hosts.study import study_of
from made.refusals import refused

from thunderherd.hosts.links import NamespaceLink
from thunderherd.trial.sites import site_of
from thunderherd.trial.trial import run_trial

pytestmark = pytest.mark.usefixtures("use_engine")

DROPPED = "answers on its own host"


def test_a_firewall_on_the_way_is_named_before_the_first_trial(network: Network, tmp_path: Path) -> None:
    server, other, _ = network.names
    study = study_of(tmp_path, network, load_hosts=1)
    with network.dropped(server, other):
        (problem,) = refused(site_of(study.contenders[0].lab).__enter__)
    assert problem.code == "hosts.no_path"
    assert other in problem.message and DROPPED in problem.message
    assert "?data=" in problem.hint


def test_a_firewall_is_told_from_a_server_that_is_down(network: Network, tmp_path: Path) -> None:
    server, other, _ = network.names
    study = study_of(tmp_path, network, load_hosts=1, lab='user = "root"')
    contender = study.contenders[0]
    with site_of(contender.lab) as site:
        with network.dropped(server, other):
            dropped = run_trial(study, contender, block=1, position=1, seed=1, site=site)
        killed = threading.Timer(1.0, kill_servers, [network])
        longer = study_of(tmp_path, network, "20s", load_hosts=1).contenders[0]
        killed.start()
        down = run_trial(study, longer, block=1, position=1, seed=1, attempt=2, site=site)
        killed.join()
        again = run_trial(study, contender, block=2, position=1, seed=1, site=site)
    assert any(
        f"netns:{other} does not reach" in each and DROPPED in each for each in dropped.invalid_reasons
    )
    assert not down.valid and not any(DROPPED in each for each in down.invalid_reasons)
    assert any("server" in each for each in down.invalid_reasons), down.invalid_reasons
    assert_measured(again)


def kill_servers(network: Network) -> None:
    """Kill the supervisors of servers in the namespaces; their servers end with them."""
    for pid in network.processes():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"serve" in words:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def disk(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a small file system."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", ",".join(("size=256k", *options)), "none", str(folder)]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def keeps_files_in(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """Let the agent of one host have its temporary files in a folder."""
    usual = NamespaceLink.command

    def command(link: NamespaceLink) -> Sequence[str]:
        prefix = ["env", f"TMPDIR={folder}"] if link.address.name == name else []
        return [*prefix, *usual(link)]

    monkeypatch.setattr(NamespaceLink, "command", command)


def fill(folder: Path) -> None:
    """Use up the room of a small file system."""
    descriptor = os.open(folder / "full", os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="No space left"):
            while True:
                os.write(descriptor, bytes(4096))
    finally:
        os.close(descriptor)


def fill_names(folder: Path) -> None:
    """Use up the files that a small file system can have."""
    with pytest.raises(OSError, match="No space left"):
        for number in range(1000):
            (folder / str(number)).touch()


def test_a_full_disk_of_a_host_does_not_stop_trials(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, network, load_hosts=1)
    with disk(tmp_path / "disk") as folder:
        keeps_files_in(monkeypatch, network.names[1], folder)
        fill(folder)
        with site_of(study.contenders[0].lab) as site:
            assert_measured(run_trial(study, study.contenders[0], block=1, position=1, seed=1, site=site))


@pytest.mark.parametrize("files", [2, 8])
def test_a_host_whose_disk_takes_no_file_is_named(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    study = study_of(tmp_path, network, load_hosts=1)
    with disk(tmp_path / "disk", f"nr_inodes={files}") as folder:
        keeps_files_in(monkeypatch, network.names[1], folder)
        (problem,) = refused(site_of(study.contenders[0].lab).__enter__)
    assert network.names[1] in problem.message and "No space left" in problem.message
    assert "Traceback" not in problem.message and "File " not in problem.message
    assert network.becomes_empty()


def test_a_disk_that_is_full_in_mid_run_makes_the_trial_invalid(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(tmp_path, network, load_hosts=1)
    contender = study.contenders[0]
    with disk(tmp_path / "disk", "nr_inodes=64") as folder:
        keeps_files_in(monkeypatch, network.names[1], folder)
        with site_of(contender.lab) as site:
            fill_names(folder)
            trial = run_trial(study, contender, block=1, position=1, seed=1, site=site)
            (reason,) = trial.invalid_reasons
            assert network.names[1] in reason and "No space left" in reason
            for each in folder.glob("[0-9]*"):
                each.unlink()
            assert_measured(run_trial(study, contender, block=1, position=1, seed=1, attempt=2, site=site))
