"""The claims of a source: their file, and how a study resolves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.paths import DATA
from made.questions import check_mistake, with_claims

from thunderherd.claims.claim_file import Claim, load_claims
from thunderherd.engine.catalogue import Catalogue
from thunderherd.study.loading import Study, load_study

CATALOGUE = Catalogue.model_validate_json((DATA / "catalogue.json").read_text())

GOOD = """\
study = "unp-ch30"
source = "unp-ch30"

[conditions]
contenders = { pool = 15 }
load = { bytes = 4000, processes = 2 }

[[claims]]
id = "H1"
statement = "Forking costs more than ten times as much"
paper_figure = "20.90 vs 1.80"
paper_data_supports = "yes"
test_note = "count children"
test_note_honoured = "they are counted"
metric = "server_cpu_per_connection"
tests = [
    { label = "one", weights = { fork_per_client = 1, prefork = -10, iterative = 9 } },
    { label = "two", metric = "clients_per_worker_sd", weights = { prefork = 1.5 } },
]
figures = [{ label = "three", weights = { fork_per_client = 1 }, over = { prefork = 1 } }]

[[claims]]
id = "H2"
statement = "All wake"
paper_figure = "grows"
paper_data_supports = "expected no"
metric = "voluntary_switches_per_connection"
undecided_because = "no sweep"
"""


def study(*overrides: str) -> Study:
    return load_study("unp-ch30", "quick", overrides, CATALOGUE)


def loaded(directory: Path, text: str, *overrides: str) -> list[Claim]:
    return load_claims(with_claims(study(*overrides), directory, text))


def test_claims_are_resolved(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, GOOD)
    assert [(test.label, test.metric) for test in first.tests] == [
        ("one", "server_cpu_per_connection"),
        ("two", "clients_per_worker_sd"),
    ]
    assert first.tests[0].weights == {"fork_per_client": 1, "prefork": -10, "iterative": 9}
    assert first.figures[0].contenders() == {"fork_per_client", "prefork"}
    assert (first.unmet, first.undecided_because) == ((), None)
    assert second.tests == () and f'undecided_because = "{second.undecided_because}"' in GOOD


def test_study_without_claims_has_none() -> None:
    assert load_claims(study().model_copy(update={"claims_path": None})) == []


def test_unmet_conditions_are_listed(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, GOOD, "prefork.pool=30", "bytes=100")
    of_load, of_contenders = first.unmet
    assert " bytes 4000 " in of_load and of_load.endswith(" 100")
    assert " pool 15, " in of_contenders and of_contenders.endswith(" prefork 30")
    assert second.unmet == (of_load,)


@pytest.mark.parametrize(
    ("old", "new", "line", "code", "offers"),
    [
        ('id = "H1"', 'id = "H2"', 23, "claims.duplicate_id", "H2"),
        ('study = "unp-ch30"', 'study = "unp"', 1, "claims.other_study", '"unp"'),
        ("prefork = -10", "preforc = -10", 17, "claims.unknown_contender", "'prefork'?"),
        ("prefork = -10", "prefork = 0", 17, "claims.zero_weight", "prefork"),
        ("prefork = -10", 'prefork = "x"', 17, "claims.invalid_value", '"x"'),
        ("over = { prefork = 1 }", "over = { preforc = 1 }", 20, "claims.unknown_contender", "'prefork'?"),
        ("over = { prefork = 1 }", "over = {}", 20, "claims.invalid_value", "{}"),
        ('"clients_per_worker_sd"', '"clients_per_worker_s"', 18, "", "'clients_per_worker_sd'?"),
        ('metric = "voluntary_switches_per_connection"', 'metric = "x"', 27, "", '"x"'),
        ("test_note_honoured =", "reading =", 13, "claims.test_note_not_honoured", "H1"),
        ('undecided_because = "no sweep"', "", 22, "claims.not_tested", "H2"),
        ('test_note = "count children"', 'undecided_because = "?"', 8, "claims.tested_and_undecided", "H1"),
        ("test_note_honoured =", "enough = 3\ntest_note_honoured =", 14, "claims.enough_exceeds_tests",
         " 2 "),
        ('statement = "All wake"', 'sentence = "All wake"', 24, "claims.unknown_key", "claims.H2.sentence"),
        ("pool = 15", "pol = 15", 5, "claims.unknown_setting", "'pool'?"),
        ("bytes = 4000", "byts = 4000", 6, "claims.unknown_setting", "'bytes'?"),
        ("[conditions]", '[conditions]\nlab = { kind = "vet" }', 5, "claims.impossible_lab", "veth"),
        ("[conditions]", '[conditions]\nlab = { rate = "fast" }', 5, "claims.impossible_lab", "10gbit"),
        ("[conditions]", '[conditions]\nlab = { congestion = "cubic" }', 5, "claims.impossible_lab",
         "congestion"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_at_their_line(
    old: str, new: str, line: int, code: str, offers: str, tmp_path: Path
) -> None:
    check_mistake(with_claims(study(), tmp_path, GOOD), GOOD, (old, new), line, code, offers)


def test_a_claim_may_be_about_a_lab(tmp_path: Path) -> None:
    about = GOOD.replace("[conditions]", '[conditions]\nlab = { kind = "veth", mtu = 1500, rate = "10gbit" }')
    for overrides in ((), ("lab.kind=veth",), ("lab.kind=veth", "lab.mtu=9000", "lab.rate=10gbit")):
        first = loaded(tmp_path, about, *overrides)[0]
        assert all(value in first.unmet[0] for value in ('kind "veth"', "mtu 1500", 'rate "10gbit"'))
    assert loaded(tmp_path, about, "lab.kind=veth", "lab.mtu=1500", "lab.rate=10000mbit")[0].unmet == ()
    assert loaded(tmp_path, GOOD, "lab.kind=veth")[0].unmet == ()
