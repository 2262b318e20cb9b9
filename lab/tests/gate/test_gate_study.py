"""The study of a gate, its claims, and the verdict that follows from their verdicts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made.refusals import refused

from thunderherd.claims.claim_file import load_claims
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.gate.request import BASE, Criterion, GateRequest
from thunderherd.gate.study import CLAIMS_FILE, GateStudies, absolute, gated, looks_of, questions_of
from thunderherd.gate.verdict import (
    EXIT_STATUS,
    NOT_SLOWER,
    SLOWER,
    UNDECIDED,
    GateRow,
    _seconds_needed,
    together,
)
from thunderherd.judge.claims.claims import judge, open_after
from thunderherd.search.compare_study import Piloted
from thunderherd.search.written_study import Typed, load_written
from thunderherd.study.file.tables import MOST_BLOCKS
from thunderherd.study.loading import Study
from thunderherd.toml.write import toml_text

CPU, RATE, LATENCY = "server_cpu_per_request", "requests_per_second", "latency_p50_seconds"
PILOTED = Piloted("", {"base": 1e5, "head": 1e5}, 0.25)


@pytest.fixture(scope="module")
def offered(real_engine: Path) -> Catalogue:
    return catalogue(real_engine)


def studies(offered: Catalogue, *criteria: str, margin: float = 2.0, **more: Any) -> GateStudies:
    request = GateRequest(
        contenders=("epoll", "epoll"),
        criteria=tuple(Criterion(each, margin) for each in criteria),
        budget="3min",
        **more,
    )
    return GateStudies(request, offered)


def loaded(found: GateStudies, folder: Path) -> Study:
    """The study of a gate with its claims, as it runs."""
    tables = found.comparison(PILOTED, 180)
    plain = load_written(folder / "gate.toml", tables, Typed("gate", {}), (), found.catalogue)
    margins = {each.metric: each.margin_percent for each in found.request.criteria}
    pairs = [pair for pair in plain.comparisons if pair.metric in margins]
    tables, claims = gated(tables, questions_of(pairs, BASE, margins), found.budget_seconds)
    (folder / CLAIMS_FILE).write_text(toml_text(claims))
    return load_written(folder / "gate.toml", tables, Typed("gate", {}), (), found.catalogue)


def test_a_server_may_be_its_own_base(offered: Catalogue) -> None:
    assert [each["name"] for each in studies(offered, CPU).contenders] == ["base", "head"]


def test_each_metric_is_a_claim(offered: Catalogue, tmp_path: Path) -> None:
    study = loaded(studies(offered, CPU, RATE, LATENCY), tmp_path)
    claims = load_claims(study)
    assert [each.tests[0].metric for each in claims] == [CPU, RATE, LATENCY]
    assert study.decides == "claims" and not study.comparisons and study.budget_seconds == 180
    signs = [
        next(w for name, w in each.tests[0].weights.items() if name.startswith("base")) for each in claims
    ]
    assert signs == [1, -1, 1], "of a rate, more is better"
    assert {name for each in claims for name in each.tests[0].weights} >= {"base", "head"}
    assert all(math.isclose(each.tests[0].constant, math.log(1.02)) for each in claims)


@pytest.mark.parametrize(
    ("slowdown", "verdict"),
    [(0.0, "supported"), (0.01, "supported"), (0.05, "refuted"), (0.02, "undecided"), (-0.1, "supported")],
)
def test_the_margin_divides_slower_from_not_slower(
    slowdown: float, verdict: str, offered: Catalogue, tmp_path: Path
) -> None:
    study = loaded(studies(offered, CPU), tmp_path)
    blocks = study.looks[2].blocks
    generator = np.random.default_rng(7)
    drift = 1e-5 * np.exp(generator.normal(0, 0.2, blocks))
    noise = generator.normal(0, 0.003, (2, blocks))
    values = {
        CPU: {
            "base": (drift * np.exp(noise[0])).tolist(),
            "head": (drift * (1 + slowdown) * np.exp(noise[1])).tolist(),
        }
    }
    (found,) = judge(study, values)  # type: ignore[arg-type]
    assert found.verdict == verdict


@pytest.mark.parametrize("slowdown", [0.0, 0.1])
def test_one_slower_metric_ends_the_gate(slowdown: float, offered: Catalogue, tmp_path: Path) -> None:
    study = loaded(studies(offered, CPU, RATE), tmp_path)
    generator = np.random.default_rng(7)
    noise = generator.normal(0, 0.003, (2, study.looks[0].blocks))
    rate = generator.normal(0, 0.3, (2, study.looks[0].blocks))
    values = {
        CPU: {"base": np.exp(noise[0]).tolist(), "head": ((1 + slowdown) * np.exp(noise[1])).tolist()},
        RATE: {"base": np.exp(rate[0]).tolist(), "head": np.exp(rate[1]).tolist()},
    }
    claims = load_claims(study)
    verdicts = [each.verdict for each in judge(study, values, claims=claims)]  # type: ignore[arg-type]
    assert verdicts == ["refuted" if slowdown else "supported", "undecided"]
    still = open_after(study, values, claims)  # type: ignore[arg-type]
    assert [each.id for each in still] == ([] if slowdown else ["G2"])


def test_a_window_with_too_few_requests_for_a_percentile_is_refused(offered: Catalogue) -> None:
    slow = Piloted("", {"base": 100.0, "head": 100.0}, 0.25)
    found = studies(offered, "latency_p99_seconds")
    (problem,) = refused(found.comparison, slow, 180)
    assert problem.code == "gate.too_few_requests"


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([NOT_SLOWER, NOT_SLOWER], NOT_SLOWER),
        ([NOT_SLOWER, UNDECIDED], UNDECIDED),
        ([UNDECIDED, SLOWER], SLOWER),
        ([], UNDECIDED),
    ],
)
def test_one_slower_metric_makes_head_slower(verdicts: list[Any], expected: str) -> None:
    assert together(verdicts) == expected


def test_files_of_a_study_are_found_from_another_folder(offered: Catalogue, tmp_path: Path) -> None:
    sizes = f"{offered.file_prefix}sizes.csv"
    tables = {
        "claims": "claims.toml",
        "load": {"settings": {"sizes": sizes, "clients": 4}, "command": ["./client"]},
        "contenders": [{"name": "a", "command": ["./a"], "load": {"settings": {"body_file": "body.txt"}}}],
        "sweeps": [
            {"key": "load.settings.sizes", "values": [sizes, {"name": "other", "value": sizes}, "4,8"]},
            {"key": "load.settings.bytes", "values": [4, 8]},
        ],
    }
    found = absolute(tables, tmp_path, offered)
    there = f"{offered.file_prefix}{tmp_path / 'sizes.csv'}"
    assert found["load"]["settings"] == {"sizes": there, "clients": 4}
    (contender,) = found["contenders"]
    assert contender["load"]["settings"] == {"body_file": str(tmp_path / "body.txt")}
    assert contender["directory"] == found["load"]["directory"] == str(tmp_path)
    assert found["sweeps"][0]["values"] == [there, {"name": "other", "value": there}, "4,8"]
    assert found["sweeps"][1] == tables["sweeps"][1] and "claims" not in found


@pytest.mark.parametrize("criteria", [1, 2, 5, 20])
@pytest.mark.parametrize(
    ("minutes", "blocks"), [(0.5, 110), (3, 110), (12, 300), (30, 1000), (24 * 60, 40_000)]
)
def test_a_longer_budget_has_room_for_more_blocks(minutes: float, blocks: int, criteria: int) -> None:
    looks, split = looks_of(criteria, 60 * minutes)
    assert list(looks) == sorted({*looks}) and blocks <= looks[-1] <= MOST_BLOCKS
    assert len(split) == len(looks) and math.isclose(sum(split), 1) and min(split) > 0
    if minutes <= 3:
        assert len(looks) == 7


def test_exit_statuses_are_those_that_git_bisect_understands() -> None:
    assert EXIT_STATUS == {NOT_SLOWER: 0, SLOWER: 1, UNDECIDED: 125}


def test_the_budget_that_would_decide_also_pays_for_the_pilot() -> None:
    row = GateRow.model_construct(verdict=UNDECIDED, blocks_needed=6)
    assert _seconds_needed([row], UNDECIDED, blocks=3, seconds=30.0, pilot_seconds=10.0) == 70.0
