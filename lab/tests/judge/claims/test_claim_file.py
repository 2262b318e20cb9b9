"""The claims of a source: what their file may say, and what becomes of it for a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.paths import DATA

from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.judge.claims.claim_file import Claim, load_claims
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
undecided_because = "the sweep is not there"
"""


def study(*overrides: str) -> Study:
    return load_study("unp-ch30", "quick", overrides, CATALOGUE)


def loaded(directory: Path, text: str, *overrides: str) -> list[Claim]:
    path = directory / "claims.toml"
    path.write_text(text)
    return load_claims(study(*overrides).model_copy(update={"claims_path": path}))


def test_claims_are_resolved(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, GOOD)
    assert [(test.label, test.metric) for test in first.tests] == [
        ("one", "server_cpu_per_connection"),
        ("two", "clients_per_worker_sd"),
    ]
    assert first.tests[0].weights == {"fork_per_client": 1, "prefork": -10, "iterative": 9}
    assert first.figures[0].contenders() == {"fork_per_client", "prefork"}
    assert (first.unmet, first.undecided_because) == ((), None)
    assert (second.tests, second.undecided_because) == ((), "the sweep is not there")


def test_study_without_claims_has_none() -> None:
    assert load_claims(study().model_copy(update={"claims_path": None})) == []


def test_other_circumstances_are_told(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, GOOD, "prefork.pool=30", "bytes=100")
    assert first.unmet == (
        "the claim is about bytes 4000 of the load, the run has 100",
        "the claim is about pool 15, the run has prefork 30",
    )
    assert second.unmet == ("the claim is about bytes 4000 of the load, the run has 100",)


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ('id = "H1"', 'id = "H2"', 23, "claim H2 is there twice"),
        ('study = "unp-ch30"', 'study = "unp"', 1, 'study = "unp"'),
        ("prefork = -10", "preforc = -10", 17, "did you mean 'prefork'?"),
        ("prefork = -10", "prefork = 0", 17, "prefork = 0 has no weight"),
        ("prefork = -10", 'prefork = "x"', 17, "it must be a number"),
        ("over = { prefork = 1 }", "over = { preforc = 1 }", 20, "did you mean 'prefork'?"),
        ("over = { prefork = 1 }", "over = {}", 20, "it must not be empty"),
        ('"clients_per_worker_sd"', '"clients_per_worker_s"', 18, "did you mean 'clients_per_worker_sd'?"),
        ('metric = "voluntary_switches_per_connection"', 'metric = "x"', 27, 'no such metric "x"'),
        ("test_note_honoured =", "reading =", 13, "test_note_honoured does not say how"),
        ('undecided_because = "the sweep is not there"', "", 22, "neither tests nor undecided_because"),
        ('test_note = "count children"', 'undecided_because = "?"', 8, "both tests and undecided_because"),
        ('statement = "All wake"', 'sentence = "All wake"', 24, "no such key 'claims.H2.sentence'"),
        ("pool = 15", "pol = 15", 5, "did you mean 'pool'?"),
        ("bytes = 4000", "byts = 4000", 6, "did you mean 'bytes'?"),
    ],
)
def test_mistakes_have_their_line(old: str, new: str, line: int, complaint: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(UserError) as caught:
        loaded(tmp_path, GOOD.replace(old, new))
    told = str(caught.value).splitlines()
    assert any(f"claims.toml:{line}: " in each and complaint in each for each in told), told


def test_a_claim_may_be_about_a_lab(tmp_path: Path) -> None:
    about = GOOD.replace("[conditions]", '[conditions]\nlab = { kind = "veth", mtu = 1500, rate = "10gbit" }')
    for overrides in ((), ("lab.kind=veth",), ("lab.kind=veth", "lab.mtu=9000", "lab.rate=10gbit")):
        first = loaded(tmp_path, about, *overrides)[0]
        assert 'a lab with kind "veth", mtu 1500, rate "10gbit", the run has' in first.unmet[0], overrides
    assert loaded(tmp_path, about, "lab.kind=veth", "lab.mtu=1500", "lab.rate=10000mbit")[0].unmet == ()
    assert loaded(tmp_path, GOOD, "lab.kind=veth")[0].unmet == ()


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ('kind = "vet"', "known: loopback, veth, unix"),
        ('rate = "fast"', "10gbit"),
        ('congestion = "cubic"', "a lab has no congestion that a run could differ in"),
    ],
)
def test_a_lab_that_there_is_not_is_no_condition(condition: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        loaded(tmp_path, GOOD.replace("[conditions]", f"[conditions]\nlab = {{ {condition} }}"))
