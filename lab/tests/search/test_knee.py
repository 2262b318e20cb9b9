"""`thunderherd knee`: the studies that it writes, and the knees from their trials."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from rich.console import Console

from thunderherd.cli import main
from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.lines import Check
from thunderherd.errors import Problem
from thunderherd.judge.summary.knee import around, confirmed, knees
from thunderherd.records.knee import DesignKnee, KneePair, KneePoint, KneeSummary
from thunderherd.records.summary import TrialRecord
from thunderherd.search.knee_study import KneeStudies, goal_of
from thunderherd.search.request import KneeRequest
from thunderherd.search.written_study import Typed
from thunderherd.show.charts.knee import knee_chart, write_pictures
from thunderherd.show.charts.style import FAMILIES
from thunderherd.show.sentences.knee import _of_pair, rate_in_words, sentences, to_know
from thunderherd.show.terminal.knee import print_knees
from thunderherd.study.loading import Study, load_study
from thunderherd.toml.write import toml_text
from thunderherd.trial.trial import run_trial


@pytest.fixture(scope="module")
def offered(real_engine: Path) -> Catalogue:
    return client.catalogue()


def asked(*designs: str, p99: str | None = "2ms", **more: Any) -> KneeRequest:
    percentiles = {"p50": None, "p90": None, "p99": p99, "p999": None, **more.pop("percentiles", {})}
    return KneeRequest(designs=designs or ("epoll", "prefork"), percentiles=percentiles, **more)


def loaded(tables: dict[str, Any], offered: Catalogue, folder: Path, *overrides: str) -> Study:
    """A study of a search from its file."""
    file = folder / f"{tables['name']}.toml"
    file.write_text(toml_text(tables))
    return load_study(str(file), "quick", overrides, offered)


def test_both_studies_can_be_run(offered: Catalogue, tmp_path: Path) -> None:
    studies = KneeStudies(asked(), offered)
    assert loaded(studies.probe(), offered, tmp_path).repetitions
    study = loaded(studies.search({"epoll": 50_000.0, "prefork": 20_000.0}), offered, tmp_path)
    assert study.repetitions
    rates = {
        base: sorted(int(each.load.settings["rate"]) for each in study.contenders if each.base == base)
        for base in ("epoll", "prefork")
    }
    assert rates["epoll"][0] == 15_000
    assert rates["epoll"][-1] == 52_000
    assert [round(each * 0.4) for each in rates["epoll"]] == pytest.approx(rates["prefork"], rel=0.01)
    assert all(each.settings.get("pool", 64) == 64 for each in study.contenders), (
        "a worker for each connection"
    )
    assert study.measure.overload == "counts"


def test_load_with_its_own_cpus_busy_polls(offered: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeping load is late by a wake-up, which on many machines takes longer than a load may be late."""

    def waits(*lab: str, cpus: int = 2) -> str | None:
        monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cpus)))
        tables = KneeStudies(asked("epoll", rates="2k..10k", lab=lab), offered).search(None)
        wait: str | None = tables["load"]["settings"].get("wait")
        return wait

    assert waits() == "spin"
    assert waits("veth", "apart") == "spin"
    assert waits("server_cpus=[0]", "client_cpus=[1]") == "spin"
    assert waits("server_cpus=[0]", "client_cpus=[0, 1]") is None
    assert waits("client_cpus=[1]") is None
    assert waits("free") is None
    assert waits(cpus=1) is None
    probe = KneeStudies(asked("epoll"), offered).probe()
    assert "wait" not in probe["load"]["settings"], "a closed loop has none"


def test_one_design_alone_has_a_knee(offered: Catalogue, tmp_path: Path) -> None:
    """Nothing is compared then."""
    alone = KneeStudies(asked("epoll"), offered)
    for tables in (alone.probe(), alone.search({"epoll": 50_000.0})):
        study = loaded(tables, offered, tmp_path)
        assert {each.base for each in study.contenders} == {"epoll"}


def test_event_loops_need_no_worker_for_each_connection(offered: Catalogue) -> None:
    designs = ("reuseport", "prefork_dynamic", "prethread")
    tables = KneeStudies(asked(*designs, rates="1k..9k", clients=300), offered).search(None)
    (found,) = zip(*(sweep["contenders"] for sweep in tables["sweeps"]), strict=True)
    settings = [each.get("settings", {}) for each in found]
    assert settings == [{}, {"maximum_workers": 300}, {"pool": 300}]


def test_a_trial_is_as_long_as_its_percentile_takes(offered: Catalogue) -> None:
    def duration(**more: Any) -> str:
        tables = KneeStudies(asked("epoll", rates="100..1000", **more), offered).search(None)
        return str(tables["load"]["settings"]["duration"])

    assert duration() == "12200ms"
    assert duration(p99=None, percentiles={"p50": "1ms"}) == "1s"
    assert duration(duration="20s") == "20s"
    (problem,) = refused(duration, duration="1s")
    assert (problem.code, problem.where) == ("knee.too_few_requests", "knee: --p99 2ms")
    assert "1,000" in problem.message and "12,200 ms" in problem.message
    assert "--rates from 1,220" in problem.hint and "--duration 12200ms" in problem.hint
    (problem,) = refused(duration, p99=None, percentiles={"p999": "1ms"})
    assert problem.code == "knee.too_few_requests" and "10,000" in problem.message


RATES = {"rates": "1k..9k"}
WORKERS = "knee.too_few_workers"


@pytest.mark.parametrize(
    ("more", "code", "facts"),
    [
        ({"p99": None}, "knee.not_one_goal", ["--p50, --p90, --p99, --p999"]),
        ({"percentiles": {"p50": "1ms"}}, "knee.not_one_goal", ["--p50 and --p99"]),
        ({"p99": "2"}, "knee.invalid_goal", ["--p99 2: ", "no unit", "2s or 2ms"]),
        ({"p99": "0ms"}, "knee.invalid_goal", ["--p99 0ms: "]),
        ({"p99": "-1ms"}, "knee.invalid_goal", ["--p99 -1ms: ", "ns, us, ms, s"]),
        ({"p99": "fast"}, "knee.invalid_goal", ["'fast'"]),
        ({"rates": "1k"}, "knee.invalid_rates", ["--rates 1k: ", "1k..50k"]),
        ({"rates": "5k..1k"}, "knee.invalid_rates", ["LOW below HIGH"]),
        ({"rates": "1..1e9"}, "quantity.not_a_number", ["--rates 1..1e9: ", "'1e9'"]),
        ({"rates": "1k..1G"}, "knee.invalid_rates", ["LOW below HIGH", "1 to 10000000"]),
        ({**RATES, "blocks": 3}, "knee.too_few_blocks", ["--blocks 3: ", "6 or more"]),
        ({**RATES, "duration": "1000000h"}, "knee.too_long", ["--duration 1000000h: "]),
        ({"duration": "20000s"}, "knee.too_long", ["--duration 20000s: ", "at most 4h"]),
        ({**RATES, "workload": "stream"}, "knee.unknown_workload", ["--workload stream: "]),
        ({**RATES, "designs": ("epol",)}, "contender.unknown", ["'epoll'?"]),
        ({**RATES, "designs": ("epoll", "epoll")}, "knee.design_repeated", ["epoll: "]),
        ({**RATES, "designs": ("primitive=sendmsg,load.processes=2",)}, "knee.load_of_contender", []),
        (
            {**RATES, "designs": ("design=prefork,pool=5",)},
            WORKERS,
            ["knee: design=prefork,pool=5: 64 ", "prefork", "5 at a time", "pool = 64", "per_request"],
        ),
        ({**RATES, "designs": ("iterative",)}, WORKERS, ["knee: iterative: 64 ", "1 at a time"]),
        (
            {**RATES, "designs": ("prefork",), "clients": 50_000},
            WORKERS,
            ["knee: prefork: 50000 ", "16000 at a time", "per_request"],
        ),
    ],
)
def test_mistakes_are_refused_before_the_first_trial(
    offered: Catalogue, more: dict[str, Any], code: str, facts: list[str]
) -> None:
    designs = more.get("designs", ())

    def search() -> None:
        given = asked(*designs, **{name: own for name, own in more.items() if name != "designs"})
        goal_of(given)
        KneeStudies(given, offered).search(None if given.rates else {"epoll": 1e4, "prefork": 1e4})

    (problem,) = refused(search)
    assert problem.code == code
    assert str(problem).startswith("knee: ")
    assert [fact for fact in facts if fact not in str(problem)] == []
    assert "crossover" not in str(problem)


@pytest.mark.parametrize(
    ("typed", "refusals", "facts"),
    [
        (
            "--clients 100000",
            1,
            [
                "knee: --clients 100000: ",
                " 100000 measured",
                "lower --clients",
                "--set load.settings.source_addresses=",
            ],
        ),
        ("--clients 100000 --rates 1k..9k", 1, ["knee: --clients 100000: ", " 100000 measured"]),
        ("--connections open", 1, ['knee: --connections open: connections = "open"']),
        ("--lab server_cpus=[4000]", 1, ["knee: --lab server_cpus=[4000]: ", "CPU 4000"]),
        (
            "--set load.settings.arrivals=odd",
            1,
            ['knee: --set load.settings.arrivals=odd: arrivals = "odd"'],
        ),
        ("--set load.kind=closed", 6, ["knee: --clients: ", '"clients"', "knee: epoll: ", '"rate"']),
        ("--set measure.metric=foo", 1, ["metrics.md"]),
        ("--blocks 3", 1, ["knee: --blocks 3: "]),
    ],
)
@pytest.mark.usefixtures("use_engine")
def test_refusals_of_the_written_study_name_the_typed_options(
    typed: str, refusals: int, facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before anything is written, without the name of the file and without consequential problems."""
    out = tmp_path / "out"
    assert main.run_command(["knee", "epoll", "--p99", "2ms", "--out", str(out), *typed.split()]) == 2
    stderr = capsys.readouterr().err
    assert [fact for fact in facts if fact not in stderr] == []
    assert ".toml" not in stderr
    assert not out.exists()
    lines = [line for line in stderr.splitlines() if not line.startswith("hint: ")]
    assert all(line.startswith("thunderherd: knee: ") for line in lines)
    assert len(lines) == refusals, stderr


def test_keys_of_a_written_study_are_reported_as_options() -> None:
    options = {("load", "settings", "clients"): "--clients 9", ("sweeps", "epoll"): "design=epoll"}
    typed, names = Typed("knee", options), {("sweeps", 0): "epoll"}
    assert typed.where(("load", "settings", "clients"), names) == "knee: --clients 9"
    assert typed.where(("load", "settings", "other"), names) == "knee: --set load.settings.other"
    assert typed.where(("sweeps", 0, "contenders", 0, "settings", "pool"), names) == "knee: design=epoll"
    assert typed.where((), names) == "knee"
    as_typed = {
        "lower load.settings.clients": "lower --clients",
        "give load.settings.clients = 5; or": "give --clients 5; or",
        'load.settings.wait = "spin", or': '--set load.settings.wait="spin", or',
        "more (lab.client_cpus)": "more (--set lab.client_cpus)",
        "type --set load.settings.loops=1": "type --set load.settings.loops=1",
        "(--set 'load.settings.loops=1')": "(--set 'load.settings.loops=1')",
        "net.ipv4.tcp_tw_reuse of the server.": "net.ipv4.tcp_tw_reuse of the server.",
        "such as server.elapsed_seconds": "such as server.elapsed_seconds",
    }
    for text, expected in as_typed.items():
        found = typed.translated(Problem(text, "a.code", text, "--set a=b"))
        assert found == Problem(expected, "a.code", expected, "knee: --set a=b")


def test_a_goal_is_a_time(offered: Catalogue) -> None:
    assert goal_of(asked(p99="500us")).seconds == pytest.approx(500e-6)
    assert goal_of(asked(p99="1.5 ms")).seconds == pytest.approx(1.5e-3)
    assert goal_of(asked()).metric == "latency_p99_seconds"


def design(name: str, **more: Any) -> DesignKnee:
    points = [
        KneePoint(rate=rate, latency_seconds=latency, low=None, high=None, trials=8, overloaded=over)
        for rate, latency, over in ((1000, 0.0005, 0), (2000, 0.001, 0), (4000, None, 8))
    ]
    usual: dict[str, Any] = {
        "outcome": "one", "rate": 2345.6, "low": 2001.0, "high": None, "confidence": 0.961, "blocks": 8,
        "between_rates": 8, "points": points, "left_out": {}, "why": None,
    }  # fmt: skip
    return DesignKnee(name=name, **{**usual, **more})


def test_rate_overloaded_in_half_the_trials_is_drawn_as_a_triangle() -> None:
    def summary(*points: KneePoint) -> KneeSummary:
        return KneeSummary(
            workload="bytes", metric="latency_p99_seconds", goal_seconds=0.002, alpha=0.05,
            equivalence_percent=3, seed=1, command=[], capacities=None, notes=[], pairs=[],
            designs=[design("epoll", points=list(points))],
        )  # fmt: skip

    kept = KneePoint(rate=1000, latency_seconds=0.0005, low=None, high=None, trials=8, overloaded=0)
    beyond = KneePoint(rate=4000, latency_seconds=None, low=None, high=None, trials=8, overloaded=4)
    drawn = json.dumps(knee_chart(summary(kept, beyond), {"epoll": "#000"}))
    assert "triangle-up" in drawn and "open triangle" in drawn
    assert "triangle-up" not in json.dumps(knee_chart(summary(kept), {"epoll": "#000"}))


@pytest.mark.parametrize(
    ("verdict", "ratio", "low", "high", "figures"),
    [
        ("higher", 1.25, 1.2, 1.3, ["one ", "25 % ", " two ", "20 to 30 %"]),
        ("lower", 0.4, 0.25, 0.5, ["two ", "2.5 times", " one ", "2.0 to 4.0"]),
        ("undecided", 1.1, 0.9, None, ["one and two", "10 %", "at least"]),
        ("equivalent", 1.001, 0.99, 1.01, ["one and two", "0.1 %", "−1.0 to 1.0 %"]),
        ("undecided", None, None, None, ["one and two"]),
    ],
)
def test_a_pair_has_its_lead_from_the_side_of_the_higher_knee(
    verdict: Any, ratio: float | None, low: float | None, high: float | None, figures: list[str]
) -> None:
    pair = KneePair(
        a="one", b="two", ratio=ratio, low=low, high=high, confidence=0.95, p_adjusted=0.6,
        p_equivalent_adjusted=0.004, verdict=verdict, blocks=8,
    )  # fmt: skip
    said = _of_pair(pair)
    places = [said.find(figure) for figure in figures]
    assert -1 not in places and places == sorted(places), said


def test_every_outcome_has_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    gone = {"outcome": None, "rate": None, "low": None, "why": "at 1,000 already the load was late"}
    found = KneeSummary(
        workload="bytes", metric="latency_p99_seconds", goal_seconds=0.002, alpha=0.05,
        equivalence_percent=3,
        seed=1, command=[], capacities=None, notes=["a note"], pairs=[],
        designs=[
            design("epoll"), design("weak", outcome="none", rate=None, low=None, high=1000.0),
            design("strong", outcome="all", rate=None, low=4000.0),
            design("odd", outcome="unclear", rate=None),
            design("lost", **gone),
        ],
    )  # fmt: skip
    said = sentences(found)
    names_and_figures = [
        ("epoll ", ["2,350", "96.1 %", "2,000", "2 ms"]),
        ("weak ", ["1,000"]),
        ("strong ", ["1,000 to 4,000"]),
        ("odd:", []),
        ("lost:", [str(gone["why"])]),
    ]
    assert len(said) == len(names_and_figures)
    for sentence, (name, figures) in zip(said, names_and_figures, strict=True):
        assert sentence.startswith(name)
        assert [figure for figure in figures if figure not in sentence] == []
    print_knees(found, Console(width=80))
    shown = capsys.readouterr().out
    assert "overloaded at 4,000" in shown and "a note" in shown
    golden("search/knee.txt", "".join(f"{line.rstrip()}\n" for line in shown.splitlines()))
    colours = dict(zip((each.name for each in found.designs), FAMILIES[""], strict=False))
    svg, png = write_pictures(found, tmp_path, colours)
    assert "2,350" in svg.read_text()
    assert all(colours[each.name] in svg.read_text() for each in found.designs), "those of the reports"
    assert png.stat().st_size > 1000
    assert KneeSummary.model_validate_json(found.model_dump_json(by_alias=True)) == found


# From trials to the answer ----------------------------------------------------------------------------------

QUIET = ("noise.foreign=100%", "noise.steal=100%")
OVER = Check(name="achieved_rate", value=0.5, limit=0.01, holds=False, words="replies came")


@pytest.fixture(scope="module")
def searched(offered: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, TrialRecord]:
    """The study of two designs at five rates, and a trial of one of them, to be copied."""
    tables = KneeStudies(asked(rates="2k..10k", points=5, blocks=8), offered).search(None)
    study = loaded(tables, offered, tmp_path_factory.mktemp("knee"), *QUIET)
    return study, run_trial(study, study.contenders[0], block=1, position=1, seed=1)


def trials_of(
    searched: tuple[Study, TrialRecord],
    capacities: dict[str, float],
    lost: tuple[str, ...] = (),
) -> list[TrialRecord]:
    """Eight blocks in which 99th percentiles are those of M/M/1, and a server at its capacity does not keep
    up."""
    study, pattern = searched
    found = []
    for block in range(1, 9):
        for each in study.contenders:
            left = capacities[each.base] * (1 + 0.002 * block) - int(each.load.settings["rate"])
            (load,) = pattern.loads
            assert load.validity is not None
            checks = [] if left > 0 else [OVER]
            load = load.model_copy(update={"validity": load.validity.model_copy(update={"checks": checks})})
            p99 = math.log(100) / left if left > 0 else None
            update = {
                "contender": each.name, "block": block, "loads": [load],
                "metrics": {"latency_p99_seconds": p99},
                "valid": each.name not in lost, "attempt": 2 if each.name in lost else 1,
                "invalid_reasons": ["load: send_lag"] if each.name in lost else [],
            }  # fmt: skip
            found.append(pattern.model_copy(update=update))
    return found


def test_knees_follow_from_the_trials(searched: tuple[Study, TrialRecord]) -> None:
    trials = trials_of(searched, {"epoll": 12_000.0, "prefork": 7_000.0})
    (pair,), (epoll, prefork) = knees(searched[0], trials, 0.002)
    assert epoll.outcome == prefork.outcome == "one"
    assert epoll.rate == pytest.approx(12_000 - math.log(100) / 0.002, rel=0.03)
    assert prefork.rate == pytest.approx(7_000 - math.log(100) / 0.002, rel=0.06)
    assert [point.overloaded for point in prefork.points] == [0, 0, 0, 0, 8]
    assert prefork.points[-1].latency_seconds is None
    assert (pair.verdict, epoll.blocks) == ("higher", 8)
    assert pair.ratio == pytest.approx((epoll.rate or 0) / (prefork.rate or 1), rel=0.01)


def test_knees_beyond_the_tried_rates_are_none_or_all(searched: tuple[Study, TrialRecord]) -> None:
    trials = trials_of(searched, {"epoll": 50_000.0, "prefork": 3_000.0})
    (pair,), (epoll, prefork) = knees(searched[0], trials, 0.002)
    assert (epoll.outcome, epoll.high, prefork.outcome, prefork.low) == ("all", None, "none", None)
    assert (pair.verdict, pair.ratio) == ("higher", None)


def test_rates_above_a_failed_load_are_left_out(
    searched: tuple[Study, TrialRecord],
) -> None:
    study = searched[0]
    rates = sorted(int(each.load.settings["rate"]) for each in study.contenders if each.base == "epoll")
    named = {int(each.load.settings["rate"]): each.name for each in study.contenders if each.base == "epoll"}
    capacities = {"epoll": 12_000.0, "prefork": 7_000.0}
    pairs, (epoll, prefork) = knees(study, trials_of(searched, capacities, (named[rates[3]],)), 0.002)
    assert (epoll.outcome, epoll.low) == ("all", pytest.approx(rates[2]))
    assert list(epoll.left_out) == rates[3:]
    assert epoll.left_out[rates[4]].endswith(f" {rates[3]:,}")
    assert "send_lag" in epoll.left_out[rates[3]]
    assert prefork.outcome == "one"
    assert len(pairs) == 1
    pairs, (epoll, _) = knees(study, trials_of(searched, capacities, (named[rates[1]],)), 0.002)
    assert (epoll.outcome, pairs) == (None, [])
    assert "send_lag" in (epoll.why or "") and f"{rates[1]:,} " in (epoll.why or "")


# The second run ---------------------------------------------------------------------------------------------


def second(
    offered: Catalogue,
    searched: tuple[Study, TrialRecord],
    ends: dict[str, tuple[int, int]],
    folder: Path,
) -> tuple[Study, TrialRecord]:
    """The study of rates around knees, with the same pattern of a trial."""
    tables = KneeStudies(asked(rates="2k..10k", blocks=8), offered).confirmation(ends)
    return loaded(tables, offered, folder, *QUIET), searched[1]


def test_second_run_searches_around_the_first_knee(
    offered: Catalogue, searched: tuple[Study, TrialRecord], tmp_path: Path
) -> None:
    """The answer is that of the second run's trials, with narrower gaps between its rates."""
    capacities = {"epoll": 11_000.0, "prefork": 7_000.0}
    search = knees(searched[0], trials_of(searched, capacities), 0.002)
    ends = around(search[1])
    for each in search[1]:
        low, high = ends[each.name]
        tried = [point.rate for point in each.points]
        assert each.rate and each.low and each.high and low in tried and high in tried
        assert low < each.low and each.high < high and tried.index(high) - tried.index(low) <= 2
    again_study = second(offered, searched, ends, tmp_path)
    rates = sorted({int(each.load.settings["rate"]) for each in again_study[0].contenders})
    assert all(any(low <= rate <= high for low, high in ends.values()) for rate in rates)
    again = knees(again_study[0], trials_of(again_study, capacities), 0.002, family=1)
    (pair,), designs = confirmed(search, again)
    for each, first in zip(designs, search[1], strict=True):
        true = capacities[each.name] * 1.009 - math.log(100) / 0.002
        assert (each.stage, each.searched_rate, each.unconfirmed) == ("confirmation", first.rate, None)
        assert each.rate == pytest.approx(true, rel=0.02)
        assert abs((each.rate or 0) - true) <= abs((first.rate or 0) - true)
        assert [point.rate for point in each.points] == sorted(point.rate for point in each.points)
        assert {point.stage for point in each.points} == {"search", "confirmation"}
    assert pair == again[0][0]
    assert f"{designs[0].name} {rate_in_words(search[1][0].rate or 0)}" in notes_of(designs)


def test_knee_that_the_second_run_misses_is_unconfirmed(
    offered: Catalogue, searched: tuple[Study, TrialRecord], tmp_path: Path
) -> None:
    capacities = {"epoll": 11_000.0, "prefork": 7_000.0}
    search = knees(searched[0], trials_of(searched, capacities), 0.002)
    again_study = second(offered, searched, around(search[1]), tmp_path)
    faster = knees(again_study[0], trials_of(again_study, {"epoll": 11_000.0, "prefork": 50_000.0}), 0.002)
    (pair,), (epoll, prefork) = confirmed(search, faster)
    assert (epoll.stage, prefork.stage, prefork.rate) == ("confirmation", "search", search[1][1].rate)
    assert prefork.unconfirmed is not None and epoll.unconfirmed is None
    assert pair == search[0][0], "both sides of a pair are of one run"
    assert f"prefork: not confirmed: {prefork.unconfirmed}" in notes_of([prefork])


def test_second_run_covers_only_designs_with_a_knee(
    searched: tuple[Study, TrialRecord], offered: Catalogue
) -> None:
    search = knees(searched[0], trials_of(searched, {"epoll": 50_000.0, "prefork": 7_000.0}), 0.002)
    assert list(around(search[1])) == ["prefork"]
    tables = KneeStudies(asked(rates="2k..10k", blocks=8), offered).confirmation(around(search[1]))
    assert [sweep["name"] for sweep in tables["sweeps"]] == ["prefork"]
    assert confirmed(search, ([], []))[1] == search[1]


def notes_of(designs: list[DesignKnee]) -> str:
    found = KneeSummary(
        workload="bytes", metric="latency_p99_seconds", goal_seconds=0.002, alpha=0.05,
        equivalence_percent=3, seed=1, command=[], capacities=None, notes=[], pairs=[], designs=designs,
    )  # fmt: skip
    return "\n".join(to_know(found))
