"""`thunderherd compare`: the studies that it writes, what it concludes from the pilot, and its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from made.refusals import codes_printed, refused
from made.summaries.trials import made_trial
from rich.console import Console

from thunderherd.cli import main
from thunderherd.cli.compare import parted, status_of
from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import load
from thunderherd.records.summary import Estimate, Summary, SweepPoint, SweepSummary
from thunderherd.search import compare_study
from thunderherd.search.compare_study import CompareStudies, Piloted, cheapest
from thunderherd.search.request import CompareRequest
from thunderherd.show.sentences.compared import merged, metric_answers, to_know, worse_than_first
from thunderherd.show.sentences.tables import invalid_trials
from thunderherd.show.tables.main import metrics_table
from thunderherd.show.terminal.compared import print_compared
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.study.file.contenders import named_by
from thunderherd.study.loading import Study, load_study
from thunderherd.toml.write import toml_text
from thunderherd.trial.load_validity import CLIENT_LIMITED

PAIR = ("epoll", "prefork")
UNKNOWN = "compare.unknown_setting"


@pytest.fixture(scope="module")
def offered(real_engine: Path) -> Catalogue:
    return client.catalogue()


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_study.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def studies(offered: Catalogue, *contenders: str, **more: Any) -> CompareStudies:
    return CompareStudies(CompareRequest(contenders=contenders or ("epoll", "prefork"), **more), offered)


def piloted(of: CompareStudies, capacity: float = 50_000.0) -> Piloted:
    return Piloted("epoll", {each["name"]: capacity for each in of.contenders}, 0.25)


def loaded(tables: dict[str, Any], offered: Catalogue, folder: Path, *overrides: str) -> Study:
    """A study of a comparison from its file. No test machine needs four CPUs."""
    file = folder / f"{tables['name']}.toml"
    file.write_text(toml_text({**tables, "lab": {}}))
    return load_study(str(file), "quick", overrides, offered)


def compared(offered: Catalogue, folder: Path, *contenders: str, **more: Any) -> Study:
    of = studies(offered, *contenders, **more)
    return loaded(of.comparison(piloted(of), 55.0), offered, folder)


# The studies ------------------------------------------------------------------------------------------------


def test_pilot_has_each_contender_with_each_back_end_that_does_not_busy_poll(
    offered: Catalogue, tmp_path: Path
) -> None:
    study = loaded(studies(offered).pilot(), offered, tmp_path)
    places = {(each.base, each.load.settings["back_end"]) for each in study.contenders}
    assert places == {(base, end) for base in ("epoll", "prefork") for end in ("epoll", "io_uring")}
    assert study.repetitions and all(each.load.is_timed for each in study.contenders)
    (given,) = studies(offered, settings=(("back_end", "polling"),)).pilot()["sweeps"]
    assert given["values"] == ["polling"]


def test_comparison_judges_cost_throughput_memory_and_latency_as_one_family(
    offered: Catalogue, tmp_path: Path
) -> None:
    study = compared(offered, tmp_path, "epoll", "prefork", "tokio")
    metrics = (study.measure.metric, *study.measure.further_metrics)
    assert metrics == (
        "server_cpu_per_request",
        "machine_cpu_per_request",
        "requests_per_second",
        "server.memory",
    )
    assert "memory" in study.measure.counters
    (sweep,) = study.sweeps
    assert (sweep.metric, *sweep.further_metrics) == ("latency_p99_seconds", "latency_p50_seconds")
    assert len(study.comparisons) == 3 * 6
    assert study.looks[0].blocks == first_look_blocks(18, 0.05, 0.3)
    assert sum(look.alpha for look in study.looks) == pytest.approx(0.05)
    assert study.budget_seconds == 55
    (point,) = sweep.points
    at_rate = [each for each in study.contenders if each.sweep]
    assert point.name == "25000" and {each.load.settings["rate"] for each in at_rate} == {25_000}
    assert {each.load.kind for each in at_rate} == {"open"}
    assert {each.load.kind for each in study.main} == {"closed_connections"}


@pytest.mark.parametrize(
    ("capacity", "metrics"),
    [
        (10_000.0, ["latency_p99_seconds", "latency_p50_seconds"]),
        (2000.0, ["latency_p90_seconds", "latency_p50_seconds"]),
        (300.0, ["latency_p50_seconds"]),
        (50.0, ["latency_mean_seconds"]),
    ],
)
def test_latency_is_that_percentile_for_which_a_window_has_enough_requests(
    offered: Catalogue, capacity: float, metrics: list[str]
) -> None:
    of = studies(offered)
    (sweep,) = of.comparison(piloted(of, capacity), 55.0)["sweeps"]
    assert [sweep["metric"], *sweep["further_metrics"]] == metrics


def test_windows_shrink_with_the_number_of_contenders_until_the_budget_is_too_short(
    offered: Catalogue,
) -> None:
    names = [each.name for each in offered.designs if each.name not in ("iterative", "polling")]
    few, many = studies(offered, *names[:2]), studies(offered, *names[:4])
    assert few.schedule(piloted(few), 55.0).milliseconds == 500
    assert 100 <= many.schedule(piloted(many), 55.0).milliseconds < 500
    assert few.budget_seconds == 60 and 60 <= many.budget_seconds < 120
    assert studies(offered, *names[:12]).budget_seconds > 120, "a minute is too short for so many"
    (problem,) = refused(studies(offered, *names[:12], budget="60s").schedule, piloted(few), 60.0)
    assert problem.code == "compare.budget_too_short" and "--budget 60s" in problem.where
    longer = problem.hint.split()[2].rstrip("s,")
    assert (
        studies(offered, *names[:12], budget=f"{longer}s").schedule(piloted(few), float(longer)) is not None
    )
    # After a pilot that took long, the windows are the shortest, and the budget ends the run.
    late = studies(offered, *names[:12], budget="60s").schedule(piloted(few), 30.0)
    assert late.milliseconds == 100


def test_server_and_clients_get_half_of_the_cpus_each_unless_typed(offered: Catalogue) -> None:
    assert studies(offered).pilot()["lab"] == {"server_cpus": [0, 1], "client_cpus": [2, 3]}
    assert studies(offered).pilot()["load"]["settings"]["threads"] == 2
    for typed in ("placement=free", "server_cpus=[1]"):
        lab = studies(offered, lab=(typed,)).pilot()["lab"]
        assert not {"server_cpus", "client_cpus"} <= lab.keys()
    on_veth = studies(offered, lab=("veth",)).pilot()["lab"]
    assert on_veth == {"kind": "veth", "server_cpus": [0, 1], "client_cpus": [2, 3]}


@pytest.mark.parametrize(("clients", "per_connection"), [(511, False), (512, True)])
def test_memory_is_compared_per_connection_where_the_kernel_resolves_it(
    offered: Catalogue, tmp_path: Path, clients: int, per_connection: bool
) -> None:
    study = compared(offered, tmp_path, settings=(("clients", str(clients)),))
    expected = "server.memory_per_connection" if per_connection else "server.memory"
    assert expected in study.measure.further_metrics and "memory" in study.measure.counters


@pytest.mark.parametrize(
    ("used", "server", "threads"),
    [(None, [0, 1], 2), (0.6, [0], 3), (0.99, [0, 1], 2), (2.0, [0, 1], 2), (0.0, [0], 3)],
)
def test_clients_that_limit_get_the_cpus_that_no_server_uses(
    offered: Catalogue, used: float | None, server: list[int], threads: int
) -> None:
    of = studies(offered)
    found = of.comparison(replace(piloted(of), server_cpus=used), 55.0)
    rest = [cpu for cpu in range(4) if cpu not in server]
    assert found["lab"] == {"server_cpus": server, "client_cpus": rest}
    assert found["load"]["settings"]["threads"] == threads
    typed = studies(offered, lab=("server_cpus=[0, 1]", "client_cpus=[2, 3]"))
    kept = typed.comparison(replace(piloted(typed), server_cpus=used), 55.0)
    assert kept["lab"] == {"server_cpus": [0, 1], "client_cpus": [2, 3]}


def test_one_cpu_is_shared(offered: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_study.os, "sched_getaffinity", lambda _: {0})
    of = studies(offered)
    assert of.pilot()["lab"] == {} and "threads" not in of.pilot()["load"]["settings"]
    (sweep,) = of.comparison(piloted(of), 55.0)["sweeps"]
    assert "load.settings.wait" not in sweep["values"][0]["set"], (
        "a busy-polling client would stop the server"
    )


def test_settings_reach_every_side_that_has_them(offered: Catalogue, tmp_path: Path) -> None:
    study = compared(
        offered, tmp_path, "epoll", "prefork", workload="http",
        settings=(("bytes", "4KiB"), ("clients", "20"), ("nodelay", "false"), ("pool", "30")),
    )  # fmt: skip
    assert all(
        each.settings["bytes"] == 4096 and each.load.settings["bytes"] == 4096 for each in study.contenders
    )
    assert all(each.settings["nodelay"] is False for each in study.contenders)
    assert {each.load.settings["clients"] for each in study.contenders} == {20}
    pools = {each.base: each.settings.get("pool") for each in study.contenders}
    assert pools == {"epoll": None, "prefork": 30}


def test_server_admits_what_its_clients_request(offered: Catalogue, tmp_path: Path) -> None:
    large = compared(offered, tmp_path, "send_each", "zerocopy", settings=(("bytes", "64KiB"),))
    assert {(each.load.settings["bytes"], each.settings["limit"]) for each in large.contenders} == {
        (65536, 65536)
    }
    assert {each.settings["limit"] for each in compared(offered, tmp_path).contenders} == {16384}
    own = compared(offered, tmp_path, "epoll,bytes=1KiB", "epoll,bytes=64KiB", "epoll,bytes=64KiB,limit=1MiB")
    assert [each.settings["limit"] for each in own.main] == [16384, 65536, 1 << 20]
    typed = (("bytes", "64KiB"), ("limit", "1MiB"))
    assert {each.settings["limit"] for each in compared(offered, tmp_path, settings=typed).contenders} == {
        1 << 20
    }


def test_contender_is_a_name_with_settings(offered: Catalogue, tmp_path: Path) -> None:
    study = compared(offered, tmp_path, "epoll", "epoll,wait=spin", "reuseport,pool=2,primitive=writev")
    by_name = {each.name: each for each in study.main}
    assert [*by_name] == ["epoll", "epoll_wait_spin", "reuseport_pool_2_writev"]
    assert (
        by_name["epoll_wait_spin"].settings["wait"] == "spin" and by_name["epoll"].settings["wait"] == "sleep"
    )
    assert [each.label for each in study.main] == [
        "epoll",
        "epoll,wait=spin",
        "reuseport,pool=2,primitive=writev",
    ]
    third = by_name["reuseport_pool_2_writev"]
    assert (third.design, third.settings["pool"], third.primitive) == ("reuseport", 2, "writev")


def test_server_that_serves_one_at_a_time_gets_a_worker_for_each_connection(
    offered: Catalogue, tmp_path: Path
) -> None:
    study = compared(offered, tmp_path)
    assert {each.settings["pool"] for each in study.contenders if each.base == "prefork"} == {64}
    few = compared(offered, tmp_path, settings=(("connections", "per_request"),))
    assert {each.settings["pool"] for each in few.contenders if each.base == "prefork"} == {15}
    assert not few.measure.counters
    assert not [each for each in few.measure.further_metrics if each.startswith("server.memory")]


@pytest.mark.parametrize(("clients", "longest"), [(511, 500), (512, 2000)])
def test_windows_are_longer_with_many_connections(offered: Catalogue, clients: int, longest: int) -> None:
    of = studies(offered, settings=(("clients", str(clients)),))
    assert of.schedule(piloted(of), 5000.0).milliseconds == longest


def test_stream_is_compared_by_bytes_without_a_common_rate(offered: Catalogue, tmp_path: Path) -> None:
    of = studies(offered, "writev", "zerocopy", workload="stream")
    assert 500 < of.schedule(None, 55.0).milliseconds <= of.schedule(None, 500.0).milliseconds == 2000
    study = loaded(of.comparison(None, 55.0), offered, tmp_path)
    assert not study.sweeps and not of.has_requests
    assert {each.metric for each in study.comparisons} == {
        "server_cpu_per_byte",
        "machine_cpu_per_byte",
        "gigabits_per_second",
    }


@pytest.mark.parametrize(
    ("contenders", "names"),
    [
        (("./prefork {port}", "prefork"), ["prefork_2", "prefork"]),
        (("prefork", "./prefork {port}"), ["prefork", "prefork_2"]),
        (("./a {port}", "x/a {port}", "y/a {port}"), ["a", "a_2", "a_3"]),
        (("./prefork {port}", "prefork", "x/prefork {port}"), ["prefork_2", "prefork", "prefork_3"]),
    ],
)
def test_servers_of_the_same_name_are_numbered(
    contenders: tuple[str, ...], names: list[str], offered: Catalogue
) -> None:
    assert [each["name"] for each in studies(offered, *contenders).contenders] == names


@pytest.mark.parametrize(
    ("contenders", "more", "code", "facts"),
    [
        (("epol", "prefork"), {}, "contender.unknown", ["'epoll'?"]),
        (("epoll", "epoll"), {}, "compare.contender_repeated", ["epoll"]),
        (("./a {port}", "./a {port}"), {}, "compare.contender_repeated", ["a"]),
        (("http://[::1]/", "echo://[::1]:81/"), {}, "compare.other_scheme", ["http", "echo"]),
        (PAIR, {"workload": "htp"}, "compare.unknown_workload", ["--workload htp", "'http'?"]),
        (PAIR, {"settings": (("byte", "4"),)}, UNKNOWN, ["--byte 4", "'bytes'?"]),
        (PAIR, {"settings": (("budgt", "4"),)}, UNKNOWN, ["--budgt 4", "'budget'?"]),
        (PAIR, {"settings": (("bytes", "4x"),)}, "quantity.unknown_unit", ["--bytes 4x"]),
        (PAIR, {"settings": (("clients", "0"),)}, "study.invalid_setting", ["--clients 0", "from 1 to"]),
        ((*PAIR, "KiB"), {}, "contender.unknown", ['"KiB"', "4KiB"]),
        ((*PAIR, "ms"), {}, "contender.unknown", ['"ms"', "4ms"]),
        (("iterative", "epoll"), {}, "compare.too_few_workers", ["64"]),
        (PAIR, {"budget": "5"}, "quantity.no_unit", ["--budget 5", "5s or 5ms"]),
        (PAIR, {"lab": ("vet",)}, "lab.unknown_kind", ["'veth'?"]),
    ],
)  # fmt: skip
def test_mistakes_are_refused_with_what_is_allowed(
    offered: Catalogue, contenders: tuple[str, ...], more: dict[str, Any], code: str, facts: list[str]
) -> None:
    def both() -> None:
        of = studies(offered, *contenders, **more)
        of.comparison(piloted(of), of.budget_seconds)

    (problem,) = refused(both)
    assert problem.code == code
    assert all(fact in str(problem) for fact in facts), str(problem)


def test_cheapest_back_end_is_that_with_the_least_cost_over_all_contenders() -> None:
    assert cheapest({"epoll": [2.0, 8.0], "io_uring": [3.0, 5.0]}) == "io_uring"


def test_common_rate_is_half_of_what_the_slowest_can_do_in_two_digits() -> None:
    assert Piloted("epoll", {"a": 51_234.0, "b": 99_000.0}, 0.2).rate == 26_000
    assert Piloted("epoll", {"a": 1.0}, 0.2).rate == 1


# The answer -------------------------------------------------------------------------------------------------


@pytest.fixture
def study(small_study: Study) -> Study:
    """Two contenders, compared by CPU per connection and by a rate."""
    chosen = tuple(each for each in small_study.contenders if each.name in ("iterative", "prefork"))
    measure = small_study.measure.model_copy(update={"further_metrics": ("connections_per_second",)})
    pairs = [each for each in small_study.comparisons if {each.a, each.b} == {"iterative", "prefork"}]
    rates = [each.model_copy(update={"metric": "connections_per_second", "better": "more"}) for each in pairs]
    return small_study.model_copy(
        update={"contenders": chosen, "measure": measure, "comparisons": (*pairs, *rates)}
    )


def summary_of(study: Study, rates: dict[str, float], invalid: int = 0) -> Summary:
    """Twelve blocks: prefork uses a fifth less CPU; the rates of each contender vary by some percent."""
    trials = []
    for block in range(1, 13):
        for name, cost in (("iterative", 50e-6), ("prefork", 40e-6)):
            vary = 1 + 0.01 * ((block * (3 if name == "prefork" else 7)) % 5 - 2)
            trial = made_trial(study, name, block, cost=cost * vary, valid=block > invalid)
            metrics = (trial.metrics or {}) | {"connections_per_second": rates[name] * vary}
            reasons = [f"load: send_lag = {block}.5 ms, allowed: at most 100 µs"] if block <= invalid else []
            trials.append(trial.model_copy(update={"metrics": metrics, "invalid_reasons": reasons}))
    return summarise(study, trials, {"kernel": "Linux"}, seed=1, command=["thunderherd"], started="now")


def test_each_metric_has_a_sentence_from_the_view_of_the_better(study: Study) -> None:
    cost, rate = metric_answers(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}))
    assert cost.best == rate.best == ("prefork",)
    assert cost.sentence.startswith("prefork ") and "20 % less" in cost.sentence
    assert "50 % more" in rate.sentence and "than iterative (" in rate.sentence
    (pair,) = rate.pairs
    low, high = pair.simultaneous_low, pair.simultaneous_high
    assert (
        low is not None
        and high is not None
        and f"({100 * (1 / high - 1) if pair.a == 'prefork' else 100 * (low - 1):.0f} to " in rate.sentence
    )


def test_a_sweep_of_several_points_has_its_own_table_and_names_its_points(
    study: Study, offered: Catalogue, tmp_path: Path
) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    names = [SweepPoint(name=name, number=float(name)) for name in ("64", "128")]
    sweep = SweepSummary(
        name="size", title="By size", key="load.settings.bytes", x_label="bytes", axis="linear",
        metric=summary.study.metric, points=names, better="less", unit="s", metrics=[summary.study.metric],
        trial="window", contenders=["iterative", "prefork"], absent={},
    )  # fmt: skip
    own = [
        each.model_copy(update={"name": f"{each.base}@size={name.name}", "sweep": "size", "point": name.name})
        for each in summary.contenders
        for name in names
    ]
    both = summary.model_copy(update={"sweeps": [sweep], "contenders": [*summary.contenders, *own]})
    assert len(metrics_table(both).columns) == len(metrics_table(summary).columns)
    subjects = [each.subject for each in metric_answers(both) if each.sweep]
    assert [name in subject for subject, name in zip(subjects, ("64", "128"), strict=True)] == [True, True]
    single = both.model_copy(update={"sweeps": [sweep.model_copy(update={"points": names[:1]})]})
    assert len(metrics_table(single).columns) == len(metrics_table(summary).columns) + 1


def test_no_significant_difference_is_said_and_equivalence_too(study: Study) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1001.0})
    rate = metric_answers(summary)[1]
    assert (rate.best and "differ" in rate.sentence) or "equivalent" in rate.sentence


def test_an_interval_behind_a_verdict_does_not_include_no_difference(study: Study) -> None:
    """Holm's method may show a difference that the interval for all comparisons does not."""
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    wide = [
        pair.model_copy(update={"simultaneous_low": 0.9, "simultaneous_high": 1.3}) for pair in summary.pairs
    ]
    cost, _ = metric_answers(summary.model_copy(update={"pairs": wide}))
    (pair,) = cost.pairs
    assert pair.verdict in ("faster", "slower") and "(0.0 to " in cost.sentence
    undecided = [pair.model_copy(update={"verdict": "undecided"}) for pair in wide]
    cost, _ = metric_answers(summary.model_copy(update={"pairs": undecided}))
    assert "−" in cost.sentence


def test_metrics_without_a_verdict_for_one_reason_share_a_sentence(study: Study) -> None:
    answers = metric_answers(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}, invalid=12))
    assert len(answers) == 2 and len({each.why_none for each in answers}) == 1
    (one,) = merged(answers)
    assert all(each.subject.lower() in one.sentence.lower() for each in answers)
    assert one.sentence.count(one.why_none) == 1 and not one.best
    decided = metric_answers(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}))
    assert merged(decided) == decided
    assert merged([*decided, *answers]) == [*decided, one]


def test_limited_rate_is_a_lower_bound_without_a_verdict(study: Study) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    limited = [
        each.model_copy(
            update={
                "metrics": {
                    name: value for name, value in each.metrics.items() if name != "connections_per_second"
                },
                "at_least": {"connections_per_second": Estimate(value=122_345.0, low=None, high=None)},
                "unknown": {"connections_per_second": CLIENT_LIMITED},
            }
        )
        for each in summary.contenders
    ]
    without = [
        pair.model_copy(update={"ratio": None, "verdict": "undecided"}) for pair in summary.further_pairs
    ]
    of = summary.model_copy(update={"contenders": limited, "further_pairs": without})
    rate = metric_answers(of)[1]
    assert rate.best == () and rate.sentence.count("at least 122,345/s") == 2
    cells = [row.cells[2].value for row in metrics_table(of).rows]
    assert cells == ["≥ 122,345"] * 2


def test_what_to_know_groups_invalid_trials_and_names_each_once(study: Study) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}, invalid=4)
    lines = to_know(summary)
    (reason,) = [line for line in lines if " invalid (" in line]
    assert reason.startswith("8 trials invalid (iterative, prefork)") and "1.5 to 4.5 ms" in reason
    assert len(lines) == len(set(lines))
    of_one = summary.model_copy(update={"study": summary.study.model_copy(update={"blocks": 1})})
    assert "; 1 block counts, " in to_know(of_one)[0]


def test_invalid_trials_of_several_hosts_are_not_one_reason(study: Study) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    reasons = {
        f"iterative: load: errors: {number} refused, on ssh://{host}": 1
        for number, host in ((2, "10.1.0.5"), (3, "10.1.0.5"), (4, "10.2.0.5"))
    }
    found = summary.model_copy(
        update={"trials": summary.trials.model_copy(update={"invalid_reasons": reasons})}
    )
    assert invalid_trials(found) == [
        "2 trials invalid (iterative): load: errors: 2 to 3 refused, on ssh://10.1.0.5",
        "1 trial invalid (iterative): load: errors: 4 refused, on ssh://10.2.0.5",
    ]


@pytest.mark.parametrize(("share", "is_said"), [(None, False), (0.1, False), (0.72, True)])
def test_much_use_of_the_cpus_by_others_is_said(study: Study, share: float | None, is_said: bool) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    trials = summary.trials.model_copy(update={"foreign_share": share})
    lines = to_know(summary.model_copy(update={"trials": trials}))
    assert any("72" in line for line in lines) == is_said
    assert len(lines) - len(to_know(summary)) == is_said


def test_blocks_without_any_trial_that_counts_count_for_nothing(study: Study) -> None:
    summary = summary_of(study, {"iterative": 1000.0, "prefork": 1500.0})
    without = [each.model_copy(update={"blocks": 0}) for each in summary.contenders]
    assert f"{summary.study.blocks} blocks" in to_know(summary)[0] and summary.study.blocks > 1
    assert "0 blocks" in to_know(summary.model_copy(update={"contenders": without}))[0]


@pytest.mark.parametrize(("percent", "worse"), [(5.0, 2), (30.0, 1), (60.0, 0)])
def test_worse_than_the_first_by_more_than_a_percentage(study: Study, percent: float, worse: int) -> None:
    """prefork, which is worse here, comes after iterative in both metrics."""
    swapped = study.model_copy(update={"contenders": study.contenders[::-1]})
    summary = summary_of(swapped, {"iterative": 1000.0, "prefork": 1500.0})
    assert summary.contenders[0].base == "prefork"
    assert len(worse_than_first(summary, percent)) == worse
    assert worse_than_first(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}), 0.0) == []


def test_exit_status_comes_with_what_is_worse(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"iterative": 1000.0, "prefork": 1500.0}
    swapped = summary_of(study.model_copy(update={"contenders": study.contenders[::-1]}), rates)
    assert status_of(swapped, 30.0) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "iterative" in line and "[compare.slower]" in line and "30%" in line
    assert [status_of(swapped, most) for most in (60.0, None)] == [0, 0]
    nothing = summary_of(study, rates, invalid=12)
    assert [status_of(nothing, most) for most in (None, 30.0)] == [3, 3]
    assert capsys.readouterr().err.count("[compare.no_comparison]") == 2


def test_marks_are_explained_where_they_are(study: Study) -> None:
    rates = {"iterative": 1000.0, "prefork": 1500.0}
    assert any(note.startswith("*") for note in metrics_table(summary_of(study, rates)).notes)
    assert not metrics_table(summary_of(study, rates, invalid=12)).notes


def test_golden_page(study: Study, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    console = Console(width=80, record=True, file=(tmp_path / "page").open("w"))
    print_compared(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}, invalid=1), console, None)
    golden("compare/answer.txt", console.export_text())
    print_compared(summary_of(study, {"iterative": 1000.0, "prefork": 1500.0}, invalid=12), console, None)
    golden("compare/nothing-compared.txt", console.export_text())


# The command ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["epoll"], "compare.too_few_contenders"),
        (["epoll", "prefork", "--bytes"], "usage.missing_value"),
        (["epoll", "prefork", "--pipeline"], "compare.setting_without_value"),
        (["epoll", "prefork", "--fail-if-slower", "much"], "compare.invalid_percent"),
        (["epoll", "prefork", "--fail-if-slower", "5"], "compare.invalid_percent"),
        (["epoll", "http://127.0.0.1:1/"], "compare.not_running"),
        (["epoll", "prefork", "--save", "kept.toml"], "compare.save_exists"),
        (["epoll", "prefork", "--save", "nowhere/study.toml"], "compare.output_unwritable"),
        (["epoll", "prefork", "--resume"], "compare.resume_without_out"),
        (["epoll", "prefork", "--buget", "5s"], UNKNOWN),
        (["epoll", "prefork", "-n", "100"], UNKNOWN),
        (["epoll", "prefork", "-x"], UNKNOWN),
        (["epoll", "prefork", "--latency"], UNKNOWN),
        (["epoll", "prefork", "-d5"], "quantity.no_unit"),
    ],
)
def test_mistakes_on_the_command_line(
    real_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str], code: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.toml").write_text("mine")
    assert main.run_command(["compare", *words]) != 0
    assert f"[{code}]" in capsys.readouterr().err
    assert (tmp_path / "kept.toml").read_text() == "mine" and [*tmp_path.iterdir()] == [
        tmp_path / "kept.toml"
    ]


def test_a_study_is_not_saved_to_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.toml").symlink_to("target.toml")
    assert main.run_command(["compare", "epoll", "prefork", "--save", "link.toml"]) == 2
    assert codes_printed(capsys.readouterr().err) == ["compare.save_exists"]
    assert [path.name for path in tmp_path.iterdir()] == ["link.toml"]


def test_short_options_may_have_their_value_joined() -> None:
    """wrk's users write -t2 -d5s; an equals sign in the value stays there."""
    expected = (["epoll"], [("duration", "5s"), ("threads", "2"), ("header", "A: b=c"), ("rate", "10k")])
    assert parted(["epoll", "-d5s", "-t=2", "-HA: b=c", "-R", "10k"], "compare") == expected
    assert parted(["epoll", "--duration", "5s", "-t", "2", "--header=A: b=c", "-R10k"], "compare") == expected


@pytest.mark.parametrize(("others", "instead"), [("-n", "--budget"), ("-z", "--budget"), ("-q", "-R")])
def test_options_of_other_programs_name_ours(others: str, instead: str) -> None:
    with pytest.raises(UserError) as refused:
        parted(["epoll", "prefork", others, "1"], "compare")
    assert instead in str(refused.value) and others in str(refused.value)


def costs_of(directory: Path) -> dict[str, float]:
    """The median CPU time per request of each server that has one."""
    costs: dict[str, list[float]] = {}
    for each in load(directory).trials:
        if each.metrics and (cost := each.metrics.get("server_cpu_per_request")):
            costs.setdefault(each.contender, []).append(cost)
    return {name: median(all_costs) for name, all_costs in costs.items()}


def test_comparison_of_two_real_servers(
    real_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    servers = ["epoll", "fork_per_client", "--connections", "per_request", "-c", "8", "--bytes", "100"]
    # Other tests keep the CPUs busy. In a longer window the server is read in time all the same.
    servers += ["--duration", "500ms", "--set", "noise.foreign=100%", "--set", "noise.steal=100%"]
    # Still, a short budget may have no trial of both whose server was read in time.
    for budget in (40, 90, 300):
        words = [*servers, "--budget", f"{budget}s", "--json", "--out", f"mine{budget}", "--seed", "3"]
        status = main.run_command(["compare", *words, "--save", f"kept{budget}.toml"])
        found = json.loads(capsys.readouterr().out)
        directory = tmp_path / f"mine{budget}/compare"
        costs = costs_of(directory)
        if {"epoll", "fork_per_client"} <= costs.keys():
            break
    by_metric = {each["metric"]: each for each in found["answers"]}
    (pair,) = by_metric["server_cpu_per_request"]["pairs"]
    assert status == 0 and (pair["a"], pair["b"]) == ("epoll", "fork_per_client")
    # The blocks may be too few for an interval, but the trials of the two are far apart.
    assert 0 < costs["epoll"] < 0.7 * costs["fork_per_client"], costs
    assert pair["ratio"] is None or pair["ratio"] < 0.7
    assert {"requests_per_second", "machine_cpu_per_request"} <= by_metric.keys()
    # On a busy machine, too few requests fit into a window for a percentile.
    assert any(metric.startswith("latency_") for metric in by_metric)
    assert (tmp_path / found["report"]).is_file()
    kept = load_study(f"kept{budget}.toml", "quick", [], client.catalogue())
    assert kept.budget_seconds is not None and kept.budget_seconds < budget
    # A search that has ended is shown again without a trial.
    trials = (directory / "trials.jsonl").read_bytes()
    assert main.run_command(["compare", *words, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert (directory / "trials.jsonl").read_bytes() == trials


SERVER = """
import asyncio, os, sys
REPLY = b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nhere"
class Http(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(REPLY * data.count(b"\\r\\n\\r\\n"))
async def main():
    loop = asyncio.get_running_loop()
    await (await loop.create_server(Http, "127.0.0.1", int(os.environ["PORT"]))).serve_forever()
asyncio.run(main())
"""


@pytest.mark.thorough
def test_a_command_is_compared_and_the_comparison_is_shown_again(
    real_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    command = f"{sys.executable} server.py"
    words = ["compare", "epoll", command, "--workload", "http", "-c", "4", "--budget", "30s", "--json"]
    assert main.run_command([*words, "--out", "mine", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    (pair,) = found["answers"][0]["pairs"]
    assert {each["label"] for each in found["contenders"]} == {"epoll", command}
    assert {pair["a"], pair["b"]} == {"epoll", named_by([("design", f"{Path(sys.executable).stem}_server")])}
    assert pair["ratio"] and any("clients' counts" in note for note in found["notes"])
    assert main.run_command([*words, "--out", "mine", "--seed", "3", "--resume"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.alone("blocks are rejected while other programs use the CPUs, and all pairs need a verdict")
def test_equal_servers_do_not_differ(
    real_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three servers that only their backlog distinguishes, in six metrics, twice.

    A false verdict has a probability of at most 5 % in each comparison, so both together have one in 400.
    """
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    false = 0
    for seed in ("1", "2"):
        twins = ["epoll", "epoll,backlog=1023", "epoll,backlog=1022", "--workload", "http"]
        status = main.run_command(["compare", *twins, "--json", "--out", seed, "--seed", seed])
        found = json.loads(capsys.readouterr().out)
        verdicts = [pair["verdict"] for answer in found["answers"] for pair in answer["pairs"]]
        assert status == 0 and len(verdicts) == 18
        false += any(each in ("faster", "slower") for each in verdicts)
    assert false < 2
