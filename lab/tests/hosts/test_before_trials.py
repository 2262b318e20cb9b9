"""What is known of hosts before the first trial, and what is recorded of them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made.hosts.network import Network
from made.hosts.study import study_of
from made.refusals import refused
from typer.testing import CliRunner

from thunderherd.cli.main import app
from thunderherd.engine.client import catalogue, start_load
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.programs import Allowed
from thunderherd.errors import UserError
from thunderherd.hosts import idle
from thunderherd.hosts.addresses import HostAddress, parse_host
from thunderherd.hosts.agent import check_command
from thunderherd.hosts.cluster import Cluster
from thunderherd.labs.kind import Site
from thunderherd.labs.remote import HostsSite
from thunderherd.machine.limits import limits_by_host
from thunderherd.records.directory import load
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.tables.limits import limits_table
from thunderherd.study.loading import load_study
from thunderherd.trial.hosts import check_hosts, places_of_machines, sent_at_most, sent_before
from thunderherd.trial.sites import sites_of

pytestmark = pytest.mark.usefixtures("use_engine")


@pytest.fixture(scope="module")
def sites(
    network: Network, real_engine: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Site]]:
    """The hosts of a study without CPUs; other studies of `study_of` may use them, too."""
    study = study_of(tmp_path_factory.mktemp("sites"), network)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("THUNDERHERD_ENGINE", str(real_engine))
        with sites_of(study) as made:
            yield made


def test_each_host_is_in_the_results(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "LARGEST_AGENT_PERCENT", -1.0)
    study = study_of(tmp_path, network)
    run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    results = load(tmp_path / "run")
    (lab,) = results.run.machine["labs"].values()
    server, *others = (f"netns:{each}" for each in network.names)
    for host, found in lab["hosts"].items():
        assert found["machine"]["kernel"] and found["machine"]["limits"]["open_files"], host
        assert found["idle"]["agent_percent"] >= 0
    assert [*lab["paths"]] == others
    for path in lab["paths"].values():
        assert path["interface"] == "eth0" and path["mtu"] == 1500
        assert path["server_receives_on"]["cpu"] is not None and path["load_receives_on"]["cpu"] is not None
    trial = results.trials[-1]
    assert [(each.host, each.roles) for each in trial.hosts] == [
        (server, ["server"]),
        *((each, ["load"]) for each in others),
    ]
    for each in trial.hosts:
        # They are the same clock.
        assert abs(each.clock_ahead_seconds) <= each.clock_error_seconds + 0.01
        assert each.noise is not None and each.noise == trial.hosts[0].noise, "they are on one machine"
    started = [each.started_monotonic_ns for each in trial.loads]
    assert trial.start_skew_seconds == (max(started) - min(started)) / 1e9
    row = results.frame().row(-1, named=True)
    assert row["server_host"] == server and row["load_hosts"] == " ".join(others)
    assert row["start_skew_seconds"] == trial.start_skew_seconds
    assert results.summary is not None
    (contender,) = results.summary.contenders
    assert [*contender.noise_of_hosts] == ([server, *others] if contender.noise else [])
    notes = [each for each in results.summary.study.notes if "idle agent" in each]
    assert [each.partition(": ")[0] for each in notes] == [server, *others]


def test_a_load_that_ends_by_requests_is_timed_from_the_agreed_start(
    network: Network, tmp_path: Path
) -> None:
    study = study_of(tmp_path, network, settings="clients = 2, loops = 1, bytes = 10")
    run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    trial = load(tmp_path / "run").trials[-1]
    assert trial.metrics is not None
    # They are told of their start 200 ms before it, which is not part of the load.
    assert all(each.elapsed_ns < 200e6 for each in trial.loads), [each.elapsed_ns for each in trial.loads]


def test_what_a_host_lacks_is_refused_with_its_name(
    network: Network, sites: Mapping[str, Site], tmp_path: Path
) -> None:
    study = study_of(tmp_path, network, lab="server_cpus = [4000]\nclient_cpus = [0]")
    (problem,) = refused(lambda: check_hosts(study, sites))
    assert problem.code == "study.unavailable_cpu"
    assert network.names[0] in problem.message and "4000" in problem.message


def test_a_cpu_that_receives_and_is_measured_is_warned_about(
    network: Network, sites: Mapping[str, Site], tmp_path: Path
) -> None:
    (unmeasured,) = sites.values()
    assert not [each for each in unmeasured.warnings() if "idle agent" not in each]
    server, usable = network.names[0], os.sched_getaffinity(0)
    study = study_of(tmp_path, network, lab=f"server_cpus = {sorted(usable)}")
    with sites_of(study) as measured:
        (site,) = measured.values()
        found = [each for each in site.warnings() if "idle agent" not in each]
        for path in site.facts()["paths"].values():
            cpu = path["server_receives_on"]["cpu"]
            assert any(each.startswith(f"netns:{server}: CPU {cpu} ") for each in found), found
        assert site.facts()["hosts"][f"netns:{server}"]["agent_cpus"] == sorted(usable), "there is no other"


def test_the_limits_of_every_machine_are_measured_once(
    network: Network, sites: Mapping[str, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, *others = (f"netns:{each}" for each in network.names)
    study_of(tmp_path, network)
    path = tmp_path / "hosts.toml"
    path.write_text(path.read_text().replace('limits = "0"', 'limits = "100ms"'))
    study = load_study(str(path), "quick", (), catalogue())
    assert [each.host for each in places_of_machines(sites.values())] == [server], "all are on this machine"

    real = HostsSite.hosts
    monkeypatch.setattr(
        HostsSite, "hosts", lambda site: tuple(replace(each, boot=each.host) for each in real(site))
    )
    summary = run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    assert [*summary.limits_of_hosts] == [server, *others]
    assert summary.limits is not None and summary.limits == summary.limits_of_hosts[server]
    rows = limits_table(summary.limits, summary.limits_of_hosts).rows
    assert {each.cells[0].value for each in rows} == {server, *others}
    kept = (tmp_path / "run" / "limits.jsonl").read_text().splitlines()
    assert limits_by_host(kept, catalogue().limits, server) == summary.limits_of_hosts


@pytest.mark.parametrize(
    "words",
    [
        ["load", "bytes", "--connect", "10.99.99.99:80"],
        ["load", "bytes", "--connect", "10.1.1.1:80", "--connect", "10.99.99.99:80"],
        ["load", "bytes", "--connect=10.99.99.99:80"],
        ["load", "bytes"],
        ["conform", "http", "--connect", "10.99.99.99:80"],
        ["count", "--", "load", "bytes", "--connect", "10.99.99.99:80"],
    ],
)
def test_an_agent_sends_to_no_other_target(words: list[str]) -> None:
    (problem,) = refused(check_command, [str(find_engine()), *words], Allowed(frozenset({"10.1.1.1"})))
    assert problem.code == "hosts.target"


@pytest.mark.parametrize("words", [["namespace"], ["count", "--", "count", "--", "serve"], ["count"], []])
def test_an_agent_starts_nothing_but_servers_and_loads(words: list[str]) -> None:
    (problem,) = refused(check_command, [str(find_engine()), *words], Allowed(frozenset({"10.1.1.1"})))
    assert problem.code == "hosts.command"
    (problem,) = refused(check_command, ["/bin/sh", "serve"], Allowed())
    assert problem.code == "hosts.command"


def test_a_load_to_another_target_is_refused_by_the_agent(network: Network) -> None:
    server, other = (parse_host(f"netns:{each}") for each in network.names[:2])
    with Cluster([server, other], targets=()) as cluster:
        place = cluster.place(other)
        with pytest.raises(UserError) as refusal:
            start_load("bytes", f"{network.here}:80", place=place)
        assert refusal.value.problems[0].code == "hosts.target"
        assert network.addresses[network.names[0]] in refusal.value.problems[0].message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('clients = 7, duration = "2s"', "as many requests as replies for 2 s"),
        ("clients = 7, loops = 100", "700 requests"),
    ],
)
def test_a_run_says_what_it_sends_to_other_machines(
    network: Network,
    sites: Mapping[str, Site],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
    said: str,
) -> None:
    study = study_of(tmp_path, network, settings=settings)
    assert [*sent_at_most(study, sites, 2), *sent_before(study)] == [], "all are on this machine"
    monkeypatch.setattr(HostAddress, "is_here", False)
    (line,) = sent_at_most(study, sites, 2)
    server, *others = (f"netns:{each}" for each in network.names)
    (before,) = sent_before(study)
    assert before.startswith(f"{others[0]} and {others[1]} will send") and server in before
    assert line.startswith(f"{others[0]} and {others[1]} will send to {network.addresses[network.names[0]]}")
    assert server in line and "at most 2 trials of at most 7 connections" in line and line.endswith(said)


@pytest.mark.thorough
def test_doctor_asks_hosts(network: Network) -> None:
    words = ["doctor", "--json", "--server", f"netns:{network.names[0]}"]
    assert json.loads(CliRunner().invoke(app, words).stdout)["examinations"]


def test_limits_ask_hosts(network: Network) -> None:
    one, other = (f"netns:{each}" for each in network.names[:2])
    runner = CliRunner()
    words = ["limits", "system_call", "--duration", "100ms", "--rounds", "2"]
    found = runner.invoke(app, [*words, "--json", "--server", one, "--load", other])
    assert found.exit_code == 0, found.output
    assert [*json.loads(found.stdout)] == [one, other]
    alone = json.loads(runner.invoke(app, [*words, "--json", "--server", one]).stdout)
    assert alone["figures"], "of one host, the JSON is that of this machine"
    page = runner.invoke(app, [*words, "--server", one])
    assert one in page.stdout


def test_looking_at_hosts_has_their_doctor_and_their_paths(network: Network) -> None:
    one, other = (f"netns:{each}" for each in network.names[:2])
    found = json.loads(CliRunner().invoke(app, ["hosts", "--json", one, other]).stdout)
    assert [each["address"] for each in found["machines"]] == [one, other]
    for each in found["machines"]:
        assert each["doctor"]["examinations"]
    for each in found["paths"]:
        assert each["mtu"] == 1500 and each["gigabits_per_second"] > 0
        assert each["load_cpu"] is not None and each["server_cpu"] is not None
