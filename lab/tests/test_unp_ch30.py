"""The study unp-ch30 asks what its source asked, and its claims say what the source said."""

from __future__ import annotations

import csv
from pathlib import Path

from thunderherd import engine
from thunderherd.catalogue import Catalogue
from thunderherd.claims_file import Claim, load_claims
from thunderherd.study import Study, load_study

CATALOGUE = Catalogue.model_validate_json((Path(__file__).with_name("data") / "catalogue.json").read_text())


def study(*overrides: str) -> Study:
    return load_study("unp-ch30", "quick", overrides, CATALOGUE)


def test_is_the_sources_experiment() -> None:
    resolved = load_study("unp-ch30", "full", [], CATALOGUE)
    assert resolved.load.requests_per_trial == 5000
    assert resolved.load.clients * int(resolved.load.settings["children"]) == 10
    assert [each.row for each in resolved.contenders] == [0, 1, 2, 3, 4, 5, 6, None, 7, 8, None]
    assert {each.settings.get("pool", 15) for each in resolved.contenders} == {15}
    own = [each for each in resolved.contenders if not each.control_of]
    assert {each.design for each in own} == {each.name for each in CATALOGUE.designs}
    assert {(each.settings["backlog"], each.settings["nodelay"]) for each in own} == {(1024, False)}
    assert len(resolved.comparisons) == 46
    assert not any("shown per" in note for note in resolved.notes)
    quick = load_study("unp-ch30", "quick", [], CATALOGUE)
    assert [look.blocks for look in quick.looks] == [11]
    assert "4000 connections a trial, shown per 5000" in quick.notes[0]


def test_loads_with_the_real_engine() -> None:
    resolved = load_study("unp-ch30", "quick", [], engine.catalogue())
    assert len(resolved.contenders) == 11


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
    assert [claim.id for claim in claims if claim.undecided_because] == ["H69"]
    assert [claim.id for claim in claims if claim.test_note] == ["H60", "H63", "H69"]


def test_contrasts_say_what_the_claims_say() -> None:
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
    cpu = {test.metric for claim in claims.values() for test in claim.tests if claim.id != "H70"}
    assert cpu == {"server_cpu_per_connection"}
    assert {test.metric for test in claims["H70"].tests} == {"clients_per_worker_sd"}


def test_papers_own_figures_judge_as_it_says() -> None:
    """The contrasts, given the figures of Fig. 30.1, come out as the source's own data do."""
    paper = {contender.name: contender.paper_seconds for contender in study().contenders}
    supported = {}
    for claim in load_claims(study()):
        sums = [
            sum(weight * (paper[name] or 0) for name, weight in test.weights.items())
            for test in claim.tests
            if test.metric == "server_cpu_per_connection"
        ]
        if sums:
            supported[claim.id] = all(value > 0 for value in sums)
    assert [claim for claim, holds in supported.items() if not holds] == ["H66", "H68"]
    says = {claim.id: claim.paper_data_supports for claim in load_claims(study())}
    assert (says["H66"], says["H68"]) == ("no in 3rd edition; yes in 2nd", "mostly")


def test_spread_in_fig_30_2_judges_as_it_says() -> None:
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
    assert "the slide flags it" in noted["H66"]
    assert "columns for rows 2, 3, 5, 7 only" in noted["H70"]


def test_claims_are_not_testable_with_modern_sockets() -> None:
    unmet = {claim.id: claim.unmet for claim in load_claims(study("server.nodelay=true"))}
    assert all(unmet.values())
