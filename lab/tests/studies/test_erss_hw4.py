"""The study erss-hw4 reproduces the experiment and the claims of its source, at full size or scaled."""

from __future__ import annotations

import csv
import os
import re
import socket
from pathlib import Path

import pytest
from made.refusals import refused
from made.shown.tables import heads
from made.shown.tables import runs as shown_runs

from thunderherd.claims.claim_file import Claim, load_claims
from thunderherd.engine import client
from thunderherd.engine.dry_run import server_command
from thunderherd.judge.summary.open_claims import for_claims
from thunderherd.records.summary import TrialRecord
from thunderherd.run.runner import run_study
from thunderherd.show.tables import runs as tables_runs
from thunderherd.study import loads
from thunderherd.study.loading import Study, load_study
from thunderherd.study.scale import cpus_in_words
from thunderherd.trial import trial


@pytest.fixture
def four_cpus(use_engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with four CPUs, as the source's. The engine sees the real ones, so it judges no CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(4)))
    monkeypatch.setattr(
        loads,
        "server_command",
        lambda design, workload, way, settings, _cpus: server_command(design, workload, way, settings),
    )


def study(size: str = "full", *overrides: str) -> Study:
    return load_study("erss-hw4", size, overrides, client.catalogue())


def by_id(of: Study) -> dict[str, Claim]:
    return {claim.id: claim for claim in load_claims(of)}


# What is asked ----------------------------------------------------------------------------------------------


def test_study_matches_the_sources_experiment(four_cpus: None) -> None:
    full = study()
    pre, per = full.contender("pre@cores=4"), full.contender("per@cores=4")
    assert (pre.design, per.design) == ("prethread_queue", "thread_per_client")
    for each in (pre, per):
        load = each.load
        assert (load.kind, load.processes, load.settings["clients"]) == ("closed_threads", 1, 1000)
        assert (load.settings["duration"], load.settings["connections"]) == (30 * 10**9, "per_request")
        assert (load.settings["delay_minimum"], load.settings["delay_maximum"]) == (1, 3)
        assert (each.settings["unit"], each.settings["buckets"]) == (10**9, 32)
        assert (each.settings["busy"], each.settings["keep_connections"]) == ("wall_clock", False)
        assert each.lab.server_cpus == (0, 1, 2, 3)
    assert pre.settings["pool"] == 800
    assert int(pre.settings["ring"]) > 4000
    large = full.contender("pre@delay=large").load.settings
    assert (large["delay_minimum"], large["delay_maximum"]) == (1, 20)
    points = {sweep.name: [point.name for point in sweep.points] for sweep in full.sweeps}
    assert points["cores"] == ["1", "2", "4"]
    assert points["buckets"] == ["32", "128", "512", "2048"]
    assert points["pool_size"] == ["100", "200", "400", "800", "1600", "3200"]
    assert full.looks[0].blocks >= 10  # H43's "10 runs"
    report = study("report")
    assert (report.repetitions, [sweep.name for sweep in report.sweeps]) == (3, ["cores", "delay", "buckets"])


def test_server_and_clients_have_the_same_buckets(four_cpus: None) -> None:
    for each in study().contenders:
        assert each.settings["buckets"] == each.load.settings["buckets"], each.name


def test_policies_are_compared_with_more_clients_than_threads(four_cpus: None) -> None:
    for size in ("quick", "full"):
        for each in study(size).contenders:
            if each.base == "pre" and each.sweep != "small_delays":
                assert int(each.load.settings["clients"]) > int(each.settings["pool"]), each.name


def test_timeouts_exceed_the_longest_reply(four_cpus: None) -> None:
    """The timeout covers the delay of a request in service, the reply's own delay, and one more."""
    for each in study().contenders:
        longest = int(each.load.settings["delay_maximum"])
        assert int(each.load.settings["timeout"]) >= 3 * 10**9 * longest
        assert trial.longest_seconds(each.load) >= int(each.load.settings["duration"]) / 1e9 + 3 * longest


def test_runs_are_shown_as_the_source_shows_them(four_cpus: None) -> None:
    for sweep in study("report").sweeps:
        # The metric of the verdicts is last: Time, Req#, Throughput.
        assert sweep.metrics == ("requests_per_second", "elapsed_seconds", "requests")
    # The full size judges, and shows as many single runs as the source has.
    assert (study("full").measure.single_runs, study("full").repetitions) == (3, None)
    paper = {
        size: {(each.sweep, each.base, each.point): each for each in study(size).paper}
        for size in ("report", "full")
    }
    figures = {key[1:]: each for key, each in paper["report"].items() if key[0] == "cores"}
    assert figures[("per", "2")].runs == [178.80, 195.23, 209.73]
    assert "10092/336.40" in (figures[("pre", "4")].note or "")
    assert paper["report"]["delay", "pre", "small"].runs == [330.10, 318.50, 336.40]
    assert paper["full"]["second_team", "pre", "large"].value == 57.14


def test_a_machine_with_fewer_cpus_runs_what_it_can(four_cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = study()
    assert "pre@cores=4" in found.absent
    assert any("per@cores=4, pre@cores=4" in note for note in found.notes)
    remarks = {sweep.name: sweep.remarks for sweep in found.sweeps}
    of_cpus = cpus_in_words(4, [each for each in found.contenders if each.sweep == "buckets"])
    assert of_cpus and remarks["buckets"] == (of_cpus,)
    assert remarks["cores"] == ()
    claims = by_id(found)
    about_four = {"H41", "H42", "H44", "H45", "H47", "H48", "H49"}
    assert {name for name, claim in claims.items() if claim.left_out} == about_four
    assert claims["H41"].left_out == ("the claim is about 4 CPUs, this machine has 2",)
    assert claims["H40"].remarks == claims["H41"].remarks == (of_cpus,)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(4)))
    assert by_id(study())["H41"].remarks == ()


# In proportion ----------------------------------------------------------------------------------------------


def test_the_quick_size_keeps_the_proportions(four_cpus: None) -> None:
    full, quick = study(), study("quick")
    assert quick.repetitions == 3
    for each in quick.contenders:
        same = full.contender(each.name)
        assert each.queueing_bound == pytest.approx(same.queueing_bound)
        for name in ("clients", "duration"):
            assert int(each.load.settings[name]) * 25 == same.load.settings[name]
    assert quick.contender("pre@cores=4").settings["pool"] == 32
    assert all(sweep.remarks == ("scaled 1:25",) for sweep in quick.sweeps)
    assert quick.notes[0].startswith("scaled 1:25: ")
    assert all(name in quick.notes[0] for name in ("unit", "pool", "clients", "duration"))


def test_titles_and_labels_match_the_size(four_cpus: None) -> None:
    full, quick = study(), study("quick")
    titles = {of.size: {sweep.name: sweep.title for sweep in of.sweeps} for of in (full, quick)}
    assert titles["full"]["cores"].endswith("32 buckets, pool of 800")
    assert titles["quick"]["cores"].endswith("32 buckets, pool of 32")
    assert {"600", "1000"} <= set(re.findall(r"\d+", titles["full"]["second_team"]))
    pools = {of.size: of.sweeps[3] for of in (full, quick)}
    assert [point.label for point in pools["full"].points][-1] == "3200"
    assert [point.label for point in pools["quick"].points][-1] == "3200 (here 128)"
    assert pools["quick"].x_label.startswith(pools["full"].x_label)
    assert pools["quick"].x_label != pools["full"].x_label, "it says that the points are the source's"
    assert quick.contender("pre@pool_size=3200").label.endswith(" 3200 (here 128)")
    assert [point.label for point in quick.sweeps[2].points] == ["32", "128", "512", "2048"], "not divided"
    apart = study("full", "scale.factor=25")
    assert [point.label for point in apart.sweeps[6].points] == ["0", "1", "2", "5", "10"], "not scaled"


@pytest.mark.parametrize(
    ("override", "judged"),
    [("scale.factor=25", {"H47", "H48", "H49", "H50"}), ("unit=500ms", {"H50"}), ("pool=400", {"H50"})],
)
def test_a_scaled_run_judges_what_does_not_depend_on_the_scale(
    override: str, judged: set[str], four_cpus: None
) -> None:
    """Claims over delays and cores need seconds; delays of milliseconds are H50's own."""
    claims = load_claims(study("full", override))
    met = {claim.id for claim in claims if not claim.unmet}
    assert met >= judged and (met == judged or override == "pool=400")
    assert {claim.unmet_verdict for claim in claims} == {"undecided"}


def test_the_size_that_decides_claims_has_the_sources_scale_where_they_need_it(four_cpus: None) -> None:
    deciding = study("claims")
    assert [claim.id for claim in load_claims(deciding) if claim.unmet or claim.outside] == []
    small = {each.sweep for each in deciding.contenders if each.scale}
    assert small == {"buckets", "pool_size", "second_team"}
    assert [claim.id for claim in load_claims(study()) if claim.unmet] == []


def test_sweeps_that_are_small_by_themselves_are_not_scaled(four_cpus: None) -> None:
    found = study("full", "scale.factor=25")
    assert found.contender("pre@small_delays=10").settings["unit"] == 10**6
    assert found.contender("pre@small_delays=10").scale is None
    assert {sweep.name for sweep in found.sweeps if not sweep.remarks} == {"small_delays", "locks"}


def test_a_factor_that_leaves_a_remainder_is_refused_once(four_cpus: None) -> None:
    (problem,) = refused(study, "full", "scale.factor=7")
    assert (problem.code, problem.where) == ("study.indivisible", "--set scale.factor=7")
    assert "settings.pool = 100, 200, 400, 600, 800, 1600, 3200" in problem.message


def test_one_mistake_is_reported_once(four_cpus: None) -> None:
    """Problems that only follow from a wrong value are not reported."""
    (problem,) = refused(study, "quick", "load.settings.clients=ten")
    assert (problem.code, problem.where) == ("study.invalid_setting", "--set load.settings.clients=ten")


# Claims -----------------------------------------------------------------------------------------------------


def test_has_its_eleven_claims(four_cpus: None) -> None:
    claims = load_claims(study())
    assert [claim.id for claim in claims] == [f"H{number}" for number in range(40, 51)]
    assert not any(claim.left_out or claim.outside or claim.undecided_because for claim in claims)
    noted = {claim.id for claim in claims if claim.test_note}
    assert noted == {"H40", "H42", "H43", "H46", "H48", "H49", "H50"}
    assert "10092/336.40" in (by_id(study())["H41"].note or "")


def paper_means() -> dict[str, float]:
    """The source's means by contender, as the study draws them; at other points it has no figures."""
    return {
        f"{each.base}@{each.sweep}={each.point}": each.value
        for each in study().paper
        if each.value is not None
    }


def test_papers_own_figures_give_the_expected_contrasts(four_cpus: None) -> None:
    """The contrasts of throughput, given the source's means, come out as the source's own data do."""
    paper, supported = paper_means(), {}
    for claim in load_claims(study()):
        sums = [
            test.constant + sum(weight * paper[name] for name, weight in test.weights.items())
            for test in claim.tests
            if test.metric == "requests_per_second" and test.of == "value" and set(test.weights) <= set(paper)
        ]
        if sums:
            supported[claim.id] = all(value > 0 for value in sums)
    assert supported == {
        **dict.fromkeys(("H40", "H41", "H42", "H44", "H45", "H47", "H48"), True),
        "H49": False,
    }
    says = {claim.id: claim.paper_data_supports for claim in load_claims(study())}
    assert says["H49"] == "no for PRE"


def test_papers_throughput_stays_below_the_bound(four_cpus: None) -> None:
    paper, found = paper_means(), study()
    shares = {
        each.name: paper[each.name] / (each.queueing_bound or 0)
        for each in found.contenders
        if each.base == "pre" and each.name in paper
    }
    assert shares["pre@delay=large"] == pytest.approx(71.3 / 76.19, rel=1e-3)
    assert shares["pre@second_team=large"] == pytest.approx(57.14 / 57.14, rel=1e-3)
    assert max(shares.values()) <= 1
    tested = by_id(found)["H46"].tests
    assert {test.metric for test in tested} == {"share_of_queueing_bound"}
    assert {name for test in tested for name in test.weights} >= set(shares) - {
        name for name in shares if name.split("@")[1].startswith(("cores", "buckets"))
    }
    assert [(test.constant, list(test.weights.values())) for test in tested] == [(1.05, [-1])] * 10


def test_spreads_are_compared_by_deviation(four_cpus: None) -> None:
    claims = by_id(study())
    assert [test.of for test in claims["H43"].tests] == ["deviation"]
    assert [test.of for test in claims["H48"].tests] == ["value"] * 3 + ["deviation"] * 3


def test_paper_files_are_the_sources_rows(four_cpus: None) -> None:
    rows = 0
    for name in ("cores", "delay", "buckets"):
        with study().path.with_name(f"{name}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                rows += 1
                per_second = int(row["requests"]) / int(row["duration_s"])
                assert float(row["throughput_req_per_s"]) == pytest.approx(per_second, abs=0.006)
    assert rows == 18 + 12 + 24


# The bound --------------------------------------------------------------------------------------------------


def test_the_bound_is_pool_over_mean_delay(four_cpus: None) -> None:
    found = study()
    assert found.contender("pre@delay=large").queueing_bound == pytest.approx(800 / 10.5)
    assert found.contender("per@delay=large").queueing_bound == pytest.approx(1000 / 10.5)
    # Each client waits for its reply: more threads than clients are of no use.
    more = study("full", "sweeps.delay.settings.pool=3000")
    assert more.contender("pre@delay=large").queueing_bound == pytest.approx(1000 / 10.5)
    # A delay that the CPU decides, and none at all.
    assert found.contender("pre@fixed_work=1").queueing_bound is None
    assert found.contender("pre_one_lock@locks=32").queueing_bound is None


# It runs ----------------------------------------------------------------------------------------------------

# Short, and small enough for a machine on which other tests run.
SHORT = ("unit=250ms", "limits=0", "counting_cost.trials=0", "counting.trials=0")


ONE_BLOCK = (
    "repetitions=1", "noise.foreign=100%", "noise.steal=100%",
    "load.settings.think=1s",
)  # fmt: skip
"""Of a run that is not judged: a block, whatever else this machine does, of clients that mostly pause."""


def small(*overrides: str) -> Study:
    return load_study("erss-hw4", "quick", [*SHORT, *overrides], client.catalogue())


@pytest.mark.parametrize("name", ["per@delay=small", "pre@delay=small"])
def test_a_trial_is_valid_and_has_its_bound(name: str, use_engine: Path) -> None:
    found = run(small(), name)
    assert found.invalid_reasons == []
    metrics = found.metrics or {}
    workers = 32 if name.startswith("pre") else 40
    assert metrics["queueing_bound"] == pytest.approx(workers / 0.02)
    share = float(metrics["requests_per_second"] or 0) / (workers / 0.02)
    assert metrics["share_of_queueing_bound"] == pytest.approx(share)
    assert 0 < share < 1.1
    assert found.summary is not None
    assert found.summary.account["delay_sum"] == sum(load.account["delay_sum"] for load in found.loads)


def run(of: Study, name: str) -> TrialRecord:
    return trial.run_trial(of, of.contender(name), block=1, position=1, seed=1)


def test_extra_delay_in_the_buckets_invalidates_the_trial(
    use_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client sends requests: the buckets hold more than the study's clients were served."""
    settle, calls = trial.settle, []

    def settled_after_a_stranger(server: client.Server) -> object:
        calls.append(server)
        if len(calls) == 2:
            host, port = server.ready.address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=30) as stranger:
                stranger.sendall(b"2,0\n")
                assert stranger.recv(64).endswith(b"\n")
        return settle(server)

    monkeypatch.setattr(trial, "settle", settled_after_a_stranger)
    found = run(small(), "pre@delay=small")
    assert not found.valid
    assert found.summary is not None
    server = found.summary.account["delay_sum"]
    clients = sum(load.account["delay_sum"] for load in found.loads)
    assert server == clients + 2
    assert any(
        {"delay_sum:", f"{server},", str(clients)} <= {*reason.split()} for reason in found.invalid_reasons
    )


def test_a_thousand_threads_stop_when_their_requests_are_done(use_engine: Path) -> None:
    found = run(
        load_study(
            "erss-hw4",
            "report",
            ["unit=20ms", "duration=2s"],
            client.catalogue(),
        ),
        "per@delay=small",
    )
    assert found.invalid_reasons == []
    assert found.summary is not None
    # On a busy machine the load may be over before the last threads have begun.
    assert found.summary.tally.connections == found.summary.tally.closed >= 500
    assert found.summary.died is None


def test_quick_form_runs_to_its_table(use_engine: Path, tmp_path: Path) -> None:
    of = small(*ONE_BLOCK, 'parts=["delay"]')
    summary = run_study(of, tmp_path / "run", seed=4)
    (sweep,) = summary.sweeps
    assert sweep.remarks[0] == "scaled 1:25"
    assert summary.study.complete
    assert {claim.verdict for claim in summary.claims} <= {"undecided", "not testable here"}
    judged = {claim.id: claim.our_figure for claim in summary.claims}
    assert all("[scaled 1:25" in line for line in judged["H44"].splitlines() if "(" not in line[:1])
    runs = tables_runs.sweep_runs(summary, sweep)
    assert runs is not None and runs.caption.startswith("Every run [scaled 1:25")
    scaled = ("Time (s) [scaled 1:25]", "Req# [scaled 1:25]", "Throughput (/s) [scaled 1:25]")
    assert heads(runs) == [*scaled, "Paper"]


def test_sources_runs_are_shown_with_and_without_measured_ones(
    use_engine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Contenders that this machine cannot run still have the source's runs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    of = small(*ONE_BLOCK, 'parts=["cores"]')
    summary = run_study(of, tmp_path / "run", seed=4)
    runs = tables_runs.sweep_runs(summary, summary.sweeps[0])
    assert runs is not None
    assert len(heads(runs)) == 4 and heads(runs)[3] == "Paper", "the source's runs are not scaled"
    first = shown_runs(runs, "pre", "1")[0]
    assert first.run == "1" and first.figures[3] == "317.4"
    assert "-" not in first.figures
    rows = {row.run: row.figures for row in shown_runs(runs, "per", "4")}
    why = {note[0]: note[2:] for note in runs.notes}
    for run, printed in (("3", "175.03"), ("sd", "8.75")):
        *ours, source = rows[run]
        assert source == printed
        assert [cell[0] for cell in ours] == ["-"] * 3 and len(set(ours)) == 1
        assert "CPU" in why[ours[0][1:]], "why it was not run here"


@pytest.mark.parametrize(
    ("written", "wrong", "code"),
    [
        ('"settings.pool", "load', '"settings.pol", "load', "study.unknown_setting"),
        ('time = "settings.unit', 'time = "settings.of_unit', "study.time_not_divided"),
        ('delays = ["load', 'delays = ["lod', "study.unknown_setting"),
        ('of = "1s"\n', "", "study.incomplete_scale"),
        ("pool of {settings.pool}, all", "pool of {settings.pol}, all", "study.unknown_key"),
    ],
)
def test_mistakes_of_scale_are_refused(
    written: str, wrong: str, code: str, four_cpus: None, tmp_path: Path
) -> None:
    source = study().path
    for file in source.parent.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = source.read_text()
    assert written in text
    (tmp_path / source.name).write_text(text.replace(written, wrong))
    problems = refused(load_study, str(tmp_path / source.name), "quick", [], client.catalogue())
    assert code in {each.code for each in problems}


def test_a_run_that_decides_claims_keeps_the_points_that_this_machine_cannot_run(
    use_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source's figure of four cores has its place on the axis."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    found = for_claims(study("claims"))
    cores = next(sweep for sweep in found.sweeps if sweep.name == "cores")
    assert [point.name for point in cores.points] == ["1", "2", "4"]
    assert {each.point for each in found.contenders if each.sweep == "cores"} == {"1", "2"}
