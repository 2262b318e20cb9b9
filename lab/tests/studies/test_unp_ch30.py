"""The study unp-ch30 reproduces the experiment and the claims of its source."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from made.paths import DATA

from thunderherd.claims.claim_file import Claim, load_claims, load_questions, load_source
from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.claims.answers import answers
from thunderherd.judge.claims.claims import judge
from thunderherd.study.loading import Contender, Study, load_study
from thunderherd.study.resolver import outside_size

CATALOGUE = Catalogue.model_validate_json((DATA / "catalogue.json").read_text())


# The designs of chapter 30 itself: one for each row of Fig. 30.1, and the pool of threads without a lock.
CHAPTER = [
    "iterative",
    "fork_per_client",
    "prefork",
    "prefork_file_lock",
    "prefork_mutex",
    "prefork_pass_descriptor",
    "thread_per_client",
    "prethread",
    "prethread_mutex",
    "prethread_queue",
]


def study(*overrides: str, size: str = "quick") -> Study:
    return load_study("unp-ch30", size, overrides, CATALOGUE)


def test_study_matches_the_sources_experiment() -> None:
    resolved = study(size="full")
    assert resolved.load.requests_per_trial == 5000
    assert resolved.load.processes * int(resolved.load.settings["children"]) == 10
    main = [each for each in resolved.contenders if each.sweep is None]
    assert [each.row for each in main] == [0, 1, 2, 3, 4, 5, 6, None, 7, 8, None]
    assert {each.settings.get("pool", 15) for each in main} == {15}
    own = [each for each in resolved.contenders if not each.control_of]
    assert [each.design for each in own if each.sweep is None] == CHAPTER
    assert {(each.settings["backlog"], each.settings["nodelay"]) for each in own} == {(1024, False)}
    assert len([pair for pair in resolved.comparisons if pair.sweep is None]) == 46
    assert not any("shown per" in note for note in resolved.notes)
    quick = load_study("unp-ch30", "quick", [], CATALOGUE)
    assert [look.blocks for look in quick.looks] == [11]
    assert quick.notes[0].startswith("4000 connections") and "5000" in quick.notes[0]
    assert quick.sweeps == ()
    assert len(quick.comparisons) == 46


def test_pools_are_of_the_sizes_of_fig_30_1a() -> None:
    (pools, herd, spare) = study(size="pools").sweeps
    assert [point.number for point in pools.points] == [5, 10, 15, 30, 45, 60, 75, 90, 105, 120]
    assert pools.contenders == (
        "prefork", "prefork_file_lock", "prethread_mutex", "prefork_select", "prefork_epoll"
    )  # fmt: skip
    assert [point.number for point in herd.points] == [15, 60, 120]
    assert herd.contenders == ("prefork", "prefork_select", "prefork_epoll", "prefork_epoll_exclusive")
    assert spare.contenders == ("prefork_dynamic", "prethread_dynamic")
    clients = {each.load.processes * int(each.load.settings["children"]) for each in of_sweep("pool_size")}
    assert clients == {10}


def test_all_workers_of_the_herd_sleep_when_a_connection_comes() -> None:
    for each in of_sweep("herd"):
        assert each.load.processes * int(each.load.settings["children"]) == 1
        assert int(each.load.settings["think"]) >= 1000
        assert each.metric == "voluntary_switches_per_connection"
    assert "voluntary_switches" in study(size="pools").measure.counters


def of_sweep(name: str) -> list[Contender]:
    return [each for each in study(size="pools").contenders if each.sweep == name]


def test_fig_30_1a_is_complete_for_every_system() -> None:
    path = study().path.with_name("fig30_1A_too_many_children.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    paper = study(size="pools").paper
    assert {each.sweep for each in paper} == {"pool_size"}, "the main table is not part of the size"
    ours = {(each.base, each.system, each.point): each.value for each in paper}
    assert len(ours) == sum(bool(cell) for row in rows for cell in list(row.values())[1:])
    (last,) = [row for row in rows if row["children_or_threads"] == "120"]
    assert ours[("prefork", "BSD/OS", "120")] == float(last["row2_prefork_nolock_bsdos_s"]) == 13.5
    assert ours[("prefork", "Digital UNIX", "15")] == 6.2
    assert ours[("prethread_mutex", "Solaris", "60")] == 38.6
    assert ("prefork_file_lock", "Solaris", "105") not in ours


def test_loads_with_the_real_engine() -> None:
    resolved = load_study("unp-ch30", "quick", [], client.catalogue())
    assert len(resolved.contenders) == 11
    for size in ("pools", "full"):
        everything = load_study("unp-ch30", size, [], client.catalogue())
        assert everything.absent.keys() <= {each.name for each in resolved.contenders}
        source = load_source(everything)
        assert [claim.id for claim in source.claims if claim.unmet] == []


# The claims of the bundled study ----------------------------------------------------------------------------

ROWS = {contender.name: contender.row for contender in study().contenders}


def by_id() -> dict[str, Claim]:
    return {claim.id: claim for claim in load_claims(study())}


def rows_of(claim: Claim) -> list[dict[int | None, float]]:
    return [{ROWS[name]: weight for name, weight in test.weights.items()} for test in claim.tests]


def test_has_its_eleven_claims_and_meets_their_conditions() -> None:
    claims = load_claims(study())
    assert [claim.id for claim in claims] == [f"H{number}" for number in range(60, 71)]
    assert [claim.id for claim in claims if claim.unmet] == []
    assert [claim.id for claim in claims if claim.undecided_because] == []
    assert [claim.id for claim in claims if claim.outside] == ["H69"]
    assert [claim.id for claim in claims if claim.test_note] == ["H60", "H63", "H69"]


def test_contrasts_match_the_claims() -> None:
    claims = by_id()
    assert rows_of(claims["H60"]) == [{1: 1, row: -1} for row in range(2, 9)]
    assert rows_of(claims["H61"]) == [{1: 1, row: -8, 0: 7} for row in (2, 3, 4, 5, 7, 8)]
    assert rows_of(claims["H62"]) == [{3: 1, 2: -1}]
    assert rows_of(claims["H63"]) == [{3: 1, 4: -1}]
    assert rows_of(claims["H64"]) == [{5: 1, row: -1} for row in (2, 3, 4)]
    assert rows_of(claims["H65"]) == [{row: 1, 6: -1} for row in range(1, 6)]
    assert rows_of(claims["H66"]) == [{6: 1, 7: -1}]
    assert rows_of(claims["H67"]) == [{8: 1, 7: -1}]
    assert rows_of(claims["H68"]) == [{1: 1, 6: -1}, {3: 1, 7: -1}, {4: 1, 7: -1}, {5: 1, 8: -1}]
    assert rows_of(claims["H70"]) == [{5: 1, row: -3} for row in (2, 3, 7, 8)]
    cpu = {test.metric for claim in claims.values() for test in claim.tests if claim.id not in ("H69", "H70")}
    assert cpu == {"server_cpu_per_connection"}
    assert {test.metric for test in claims["H70"].tests} == {"clients_per_worker_sd"}


def test_papers_own_figures_give_the_expected_contrasts() -> None:
    """The contrasts, given the figures of Fig. 30.1, come out as the source's own data do."""
    paper = {contender.name: None for contender in study().contenders}
    paper |= {each.base: each.value for each in study().paper if each.metric == "process_control_seconds"}
    supported = {}
    for claim in load_claims(study()):
        sums = [
            sum(weight * (paper[name] or 0) for name, weight in test.weights.items())
            for test in claim.tests
            if test.metric == "server_cpu_per_connection" and test.weights.keys() <= paper.keys()
        ]
        if sums:
            supported[claim.id] = all(value > 0 for value in sums)
    assert [claim for claim, holds in supported.items() if not holds] == ["H66", "H68"]
    says = {claim.id: claim.paper_data_supports for claim in load_claims(study())}
    assert all(says[claim] and says[claim] != "yes" for claim in ("H66", "H68"))


def test_spread_in_fig_30_2_gives_the_expected_contrasts() -> None:
    path = study().path.with_name("fig30_2_clients_per_child.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))

    def deviation(column: str) -> float:
        counts = [int(row[column]) for row in rows]
        mean = sum(counts) / len(counts)
        return float((sum((each - mean) ** 2 for each in counts) / (len(counts) - 1)) ** 0.5)

    assert deviation("row5_fdpass_dunix") > 3 * deviation("row2_nolock_dunix")
    assert deviation("row5_fdpass_solaris") > 3 * deviation("row7_mutex_solaris")


def test_notes_go_with_their_claims() -> None:
    noted = {claim.id: claim.note for claim in load_claims(study()) if claim.note}
    assert set(noted) == {"H62", "H63", "H66", "H67", "H68", "H70"}
    findings = {subject: each.finding for each in study().inconsistencies for subject in each.concerns}
    assert all(findings[f"claim {name}"] in note for name, note in noted.items())


def test_claims_are_not_testable_with_modern_sockets() -> None:
    unmet = {claim.id: claim.unmet for claim in load_claims(study("server.nodelay=true", size="full"))}
    assert all(unmet.values())


# H69 and the questions about pools --------------------------------------------------------------------------


def test_h69_tests_blocking_accept_and_shows_the_other_designs() -> None:
    (claim,) = [claim for claim in load_claims(study(size="pools")) if claim.id == "H69"]
    assert claim.unmet == () and claim.outside == () and claim.left_out == ()
    tested = [(test.metric, test.weights, test.constant) for test in claim.tests]
    woken = [
        ("voluntary_switches_per_connection", {f"prefork@herd={children}": 1.0}, -0.9 * children)
        for children in (15, 60, 120)
    ]
    growth = {"prefork@pool_size=120": 1.0, "prefork@pool_size=15": -1.0}
    assert tested == [*woken, ("server_cpu_per_connection", growth, 0.0)]
    shown = {name.partition("@")[0] for figure in claim.figures for name in figure.weights}
    assert shown == {"prefork", "prefork_select", "prefork_epoll", "prefork_epoll_exclusive"}
    at_sixty = {name for figure in claim.figures for name in figure.weights if name.endswith("@herd=60")}
    assert at_sixty == {f"{base}@herd=60" for base in shown}
    # Blocking accept shows 2. The texts explain that this is one child, which sleeps twice.
    sweep = next(each for each in study(size="pools").sweeps if each.name == "herd")
    question = next(each for each in load_questions(study(size="pools")) if each.id == "Q6")
    for text in (claim.reading, sweep.note, question.note):
        assert "accept" in (text or "") and "request" in (text or "")


@pytest.mark.parametrize(
    ("switches", "growth", "verdict"),
    [(1.4, 2e-5, "refuted"), (1.02, 0.0, "refuted"), (1.0, 2e-5, "supported")],
    ids=["no herd, costs grow", "nearly a herd, costs do not grow", "a herd, costs grow"],
)
def test_h69_is_judged_by_switches_and_growth(switches: float, growth: float, verdict: str) -> None:
    """A herd is as many switches as there are children; the first of these has 1.4 whatever their number."""
    resolved = study(size="pools")
    blocks, noise = 12, np.random.default_rng(30)

    def column(value: float) -> list[float]:
        return list(value * (1 + noise.normal(0, 1e-3, blocks)))

    values: dict[str, dict[str, list[float]]] = {
        "voluntary_switches_per_connection": {}, "server_cpu_per_connection": {}
    }  # fmt: skip
    for each in resolved.contenders:
        children = float(each.point or 0) if each.sweep != "spare" else 0
        herd = switches if switches == 1.4 else switches * children
        values["voluntary_switches_per_connection"][each.name] = column(herd)
        cpu = 1e-4 + growth * children if growth else 1e-4 - 1e-7 * children
        values["server_cpu_per_connection"][each.name] = column(cpu)
    (found,) = [each for each in judge(resolved, values) if each.id == "H69"]
    assert found.verdict == verdict, found.why


def test_h69_is_not_judged_under_another_load() -> None:
    busy = study("sweeps.herd.children=5", size="pools")
    (claim,) = [claim for claim in load_claims(busy) if claim.id == "H69"]
    assert any("children" in why and "5" in why for why in claim.unmet)
    few = study("load.settings.children=2", size="pools")
    (claim,) = [claim for claim in load_claims(few) if claim.id == "H69"]
    assert any("children 5 " in why for why in claim.unmet)


def test_the_study_has_every_question_of_the_slides() -> None:
    questions = {question.id: question for question in load_questions(study(size="full"))}
    asked = " ".join(question.text for question in questions.values())
    for words in ("created beforehand", "as many clients as children", "fork more", "synchronise", "N+1"):
        assert words in asked
    assert questions["Q5"].given["expected"] == "16"
    assert questions["Q1"].given["clients"] == "10"


def test_size_answers_only_questions_on_its_parts() -> None:
    """All that quick cannot answer says which sizes can, in one sentence."""
    quick = study()
    none: dict[str, dict[str, list[float]]] = {}
    for each in answers(quick, none):
        if each.id != "Q4":
            assert len(each.answer) == 1
            assert outside_size("quick", "pools", "full") in each.answer[0]
    (fourth,) = [each for each in answers(study(size="pools"), none) if each.id == "Q4"]
    assert outside_size("pools", "quick", "full") in fourth.answer[0]
