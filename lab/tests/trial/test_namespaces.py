"""Trials run in separate namespaces, which exist for a run and disappear with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made.engines import processes_of
from made.refusals import refused
from made.small_studies import head

from thunderherd.engine.client import Server, catalogue, start_load
from thunderherd.errors import UserError
from thunderherd.labs import KINDS
from thunderherd.labs.kind import Site
from thunderherd.machine import tcp_sockets
from thunderherd.records.directory import load
from thunderherd.records.summary import TrialForm, TrialRecord
from thunderherd.run import runner
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Lab, Study, load_study
from thunderherd.trial import trial
from thunderherd.trial.sites import site_of, sites_of

PATIENCE = 60.0

STUDY = (
    head(
        "labs",
        load='processes = 2\nprimitive = "send_each"\nwarm_up_connections = 10\n',
        settings="children = 2, loops = 10, bytes = 4000",
    )
    + """\
[lab]
kind = "veth"
[sizes.quick]
repetitions = 1
[[contenders]]
name = "prefork"
design = "prefork"
settings = { pool = 3 }
[[sweeps]]
name = "lab"
title = "Labs"
values = [
    { name = "loopback", set = { "lab.kind" = "loopback" } },
    { name = "small", set = { "lab.mtu" = 1280, "lab.congestion" = "reno" } },
    { name = "unix", set = { "lab.kind" = "unix" } },
]
contenders = ["prefork"]
"""
)


@pytest.fixture
def veth(copied_engine: Path) -> Path:
    """A copy of the engine for this test; skipped, with the reason, if there can be no namespaces."""
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    return copied_engine


@pytest.fixture
def study(veth: Path, tmp_path: Path) -> Study:
    path = tmp_path / "labs.toml"
    path.write_text(STUDY)
    return load_study(str(path), "quick", (), catalogue())


def lab(mtu: int = 1500, **more: int) -> Lab:
    return Lab(kind="veth", settings={"mtu": mtu, **more}, server_cpus=None, client_cpus=None)


def eventually(what: str, look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.01)


def namespaces_of_all() -> dict[int, str]:
    """Return the network namespace of every process, from /proc."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = str((entry / "ns/net").readlink())
            except OSError:
                continue
    return found


def test_a_site_is_another_network(veth: Path) -> None:
    with site_of(lab(), veth) as site:
        facts = site.facts()
        assert (facts["server"]["address"], facts["client"]["mtu"]) == ("10.0.0.1", 1500)
        assert facts["server"]["sysctls"]["net.ipv4.tcp_tw_reuse"] == "1"
        assert site.local_ports() == 65_535 - 1024 + 1
        assert site.time_wait_limit() > 0
        with Server(
            "prefork", workload="bytes", primitive="send_each", listen=site.listen,
            place=site.server,
        ) as server:  # fmt: skip
            ready = server.ready
            assert ready.address == f"10.0.0.1:{ready.port}"
            assert site.time_wait(ready) == 0
            running = start_load(
                "bytes", ready.address, primitive="send_each", settings={"children": 1, "loops": 30},
                place=site.clients[0],
            )  # fmt: skip
            assert running.wait(PATIENCE).tally.requests == 30
            eventually("its sockets wait in it", lambda: site.time_wait(ready) == 30)
            assert site.time_wait_in_the_way(ready) == 30
            assert tcp_sockets.time_wait_of_port(ready.port or 0) == 0, "and in no other"
            names = {namespaces_of_all()[pid] for pid in (os.getpid(), ready.server_pid)}
            assert len(names) == 2
            server.stop()


def test_lab_is_created_once_for_all_its_contenders(study: Study, veth: Path) -> None:
    with sites_of(study, veth) as sites:
        assert list(sites) == ["veth, MTU 1500", "loopback", "veth, MTU 1280", "unix"]
        for site in sites.values():
            site.check()
        holders = [words for words in processes_of(veth).values() if " namespace " in words]
        assert len(holders) == 2
    assert not [words for words in processes_of(veth).values() if " namespace " in words]


def test_the_least_rate_is_the_engines(veth: Path) -> None:
    name = "rate"
    least = KINDS["veth"].least(catalogue(veth), name)
    assert least == 8000
    with pytest.raises(UserError, match="8kbit"), site_of(lab(**{name: least - 1}), veth):
        pass
    with site_of(lab(**{name: least}), veth) as site:
        site.check()


def test_site_without_its_holder_is_refused(veth: Path) -> None:
    with site_of(lab(), veth) as site:
        [holder] = [pid for pid, words in processes_of(veth).items() if " namespace " in words]
        os.kill(holder, signal.SIGKILL)
        eventually("the holder has ended", lambda: not site_is_there(site))
        (problem,) = refused(site.check)
        assert problem.code == "lab.namespaces_gone"
        assert f"process {holder}," in problem.message and "SIGKILL" in problem.message


def site_is_there(site: Site) -> bool:
    try:
        site.check()
    except UserError:
        return False
    return True


def trials_of(study: Study, engine: Path) -> Iterator[TrialRecord]:
    with sites_of(study, engine) as sites:
        for contender in study.contenders:
            site = sites[contender.lab.network]
            yield trial.run_trial(study, contender, block=1, position=1, seed=1, site=site)


def test_trials_are_valid_in_every_lab_and_report_connections(study: Study, veth: Path) -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    found = {record.contender: record for record in trials_of(study, veth)}
    for record in found.values():
        assert record.valid, record.invalid_reasons
        assert record.metrics is not None
        assert record.metrics["listener_holders"] == 4, record.contender
    of = {name: [each.connection for each in record.loads] for name, record in found.items()}
    assert of["prefork@lab=unix"] == [None, None]
    noises = {name: record.noise for name, record in found.items()}
    without_tcp = {name for name, each in noises.items() if each is None or each.dropped_connections is None}
    assert without_tcp == {"prefork@lab=unix"}
    for name, expected in (
        ("prefork", (default, 1448)),
        ("prefork@lab=small", ("reno", 1228)),
    ):
        summary = found[name].summary
        assert summary is not None
        for connection in (summary.connection, *of[name]):
            assert connection is not None
            assert (connection.congestion_control, connection.segment_bytes) == expected, name
    for name, record in found.items():
        warned = [warning for warning in record.warnings if "congestion control" in warning]
        assert warned == [], f"{name} sends too little at once to be paced"


class Watcher(threading.Thread):
    """Records on which CPUs the processes of an engine may run, until it is stopped."""

    def __init__(self, engine: Path) -> None:
        super().__init__(daemon=True)
        self.engine, self.over = engine, threading.Event()
        self.seen: dict[str, set[str]] = {}
        """Cpus_allowed_list (proc(5)) by command, of processes in another network than this process."""

    def run(self) -> None:
        own = Path("/proc/self/ns/net").readlink()
        while not self.over.wait(0.002):
            running = processes_of(self.engine)
            for pid, words in running.items():
                with contextlib.suppress(OSError):
                    network = (Path("/proc") / str(pid) / "ns/net").readlink()
                    status = (Path("/proc") / str(pid) / "status").read_text(errors="replace")
                    told = dict(line.split(":", 1) for line in status.splitlines())
                    # A process after exec may not have pinned itself yet; its children are pinned.
                    if int(told["PPid"]) in running and network != own:
                        allowed = told["Cpus_allowed_list"].strip()
                        self.seen.setdefault(words.split()[1], set()).add(allowed)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("form", ["window", "whole_life"])
def test_each_side_of_a_lab_runs_on_its_own_cpus(veth: Path, tmp_path: Path, form: TrialForm) -> None:
    server, clients, *_ = sorted(os.sched_getaffinity(0))
    path = tmp_path / "labs.toml"
    pinned = f'kind = "veth"\nserver_cpus = [{server}]\nclient_cpus = [{clients}]\n'
    # A load that lasts while the watcher, on a busy machine, waits for a CPU.
    path.write_text(STUDY.replace('kind = "veth"\n', pinned, 1).replace("loops = 10", "loops = 3000"))
    study = load_study(str(path), "quick", (), catalogue())
    contender = study.main[0].model_copy(update={"trial": form})
    watcher = Watcher(veth)
    with site_of(contender.lab, veth) as site:
        watcher.start()
        record = trial.run_trial(study, contender, block=1, position=1, seed=1, site=site)
        watcher.over.set()
        watcher.join()
    assert record.valid, record.invalid_reasons
    # Between fork and exec, a process that `count` starts still has the command line of `count`.
    for other in ("namespace", "count"):
        watcher.seen.pop(other, None)
    assert watcher.seen == {"serve": {str(server)}, "load": {str(clients)}}


def test_whole_lives_are_counted_in_namespaces_too(study: Study, veth: Path) -> None:
    whole = study.main[0].model_copy(update={"trial": "whole_life"})
    with site_of(whole.lab, veth) as site:
        record = trial.run_trial(study, whole, block=1, position=1, seed=1, site=site)
    assert record.valid, record.invalid_reasons
    assert record.server_life is not None
    assert record.ready is not None
    assert record.ready.address.startswith("10.0.0.1:")


def test_ports_that_are_used_up_are_those_of_the_lab(
    study: Study, veth: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_sockets, "local_ports", lambda: 10)
    reasons = {record.contender: record.invalid_reasons for record in trials_of(study, veth)}
    assert "(5)" in reasons["prefork@lab=loopback"][0]
    assert reasons["prefork"] == reasons["prefork@lab=unix"] == []


def test_a_run_records_its_labs(study: Study, tmp_path: Path) -> None:
    summary = run_study(study, tmp_path / "out", seed=1)
    assert summary.trials.valid == 4
    labs = summary.machine["labs"]
    assert labs["veth, MTU 1280"]["server"]["mtu"] == 1280
    assert labs["veth, MTU 1500"]["client"]["address"] == "10.0.0.2"
    assert "net.ipv4.tcp_wmem" in labs["veth, MTU 1500"]["server"]["sysctls"]
    assert set(labs) == {"veth, MTU 1500", "loopback", "veth, MTU 1280", "unix"}
    by_name = {each.name: each for each in summary.contenders}
    assert by_name["prefork@lab=small"].connections["server"].congestion_control == "reno"
    assert by_name["prefork@lab=unix"].connections == {}
    small = by_name["prefork@lab=small"].lab
    assert small is not None
    assert (small["kind"], small["settings"]) == ("veth", {**study.lab.settings, "mtu": 1280})
    assert "lab: veth, MTU 1500" in summary.study.notes
    assert load(tmp_path / "out").run.machine["labs"] == labs


def test_unavailable_lab_is_refused_before_the_run(veth: Path, tmp_path: Path, study: Study) -> None:
    pair = catalogue().namespace
    reason = pair.unavailable_settings.get("delay") if pair else None
    if reason is None:
        pytest.skip("this kernel has netem")
    delayed = study.lab.model_copy(update={"settings": {**study.lab.settings, "delay": 5_000_000}})
    contenders = tuple(each.model_copy(update={"lab": delayed}) for each in study.main)
    asked = study.model_copy(update={"contenders": contenders})
    problems = refused(run_study, asked, tmp_path / "out", seed=1)
    said = "\n".join(map(str, problems))
    assert "veth, MTU 1500, delay 5 ms" in said and reason in said
    assert not (tmp_path / "out").exists()


def test_run_whose_namespaces_vanish_is_an_error(
    veth: Path, tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this check, the error would name a missing folder in /proc."""
    killed: list[int] = []

    def kill_and_run(*arguments: Any, site: Site, **named: Any) -> TrialRecord:
        if site.server.network_namespace is not None:
            killed.append(int(Path(site.server.network_namespace).parts[2]))
            os.kill(killed[-1], signal.SIGKILL)
            eventually("they are gone", lambda: not site_is_there(site))
        return trial.run_trial(*arguments, site=site, **named)

    monkeypatch.setattr(runner, "run_trial", kill_and_run)
    said = "\n".join(map(str, refused(run_study, study, tmp_path / "out", seed=1)))
    assert f"process {killed[-1]}," in said and "SIGKILL" in said
    assert "--resume" in said, "what to do"


def test_a_killed_run_leaves_no_process_and_no_namespace(veth: Path, tmp_path: Path) -> None:
    path = tmp_path / "labs.toml"
    path.write_text(STUDY)
    words = [sys.executable, "-m", "thunderherd", "run", str(path), "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [*words, "--set", "repetitions=1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        trials = tmp_path / "out" / "trials.jsonl"
        eventually("some trials are done", lambda: trials.exists() and trials.read_text().count("\n") > 5)
        everywhere = namespaces_of_all()
        made = {everywhere[pid] for pid in processes_of(veth) if pid in everywhere}
        made -= {everywhere[os.getpid()]}
        assert made, "the run has namespaces of its own"
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    eventually("no process of the engine is left", lambda: not processes_of(veth))
    eventually("nobody is in them", lambda: not made & set(namespaces_of_all().values()))


def test_an_ordinary_user_runs_a_study(veth: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    imports = [sys.executable, "-c", "import thunderherd"]
    if shutil.which("setpriv") is None or subprocess.run([*user, *imports], capture_output=True).returncode:
        pytest.skip("no other user may run this Python")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        shutil.copy2(veth, folder / "thunderherd-engine")
        (folder / "labs.toml").write_text(STUDY)
        for each in (folder, *folder.iterdir()):
            shutil.chown(each, 65534, 65534)
        done = subprocess.run(
            [*user, sys.executable, "-m", "thunderherd", "run", "labs.toml", "--out", "out"],
            capture_output=True, text=True, cwd=folder, timeout=120,
            env={**os.environ, "THUNDERHERD_ENGINE": str(folder / "thunderherd-engine"), "HOME": str(folder)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert re.search(r"Trials +4 valid, 0 invalid", done.stdout), done.stdout
        assert load(folder / "out").run.machine["labs"]["veth, MTU 1500"]["user_namespace"] is True
    finally:
        shutil.rmtree(folder)
