"""The study designs: it has every design, and its pools have a worker for each connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.engine import client
from thunderherd.study.loading import Study, load_study

LARGEST_SWEEP, EACH_REQUEST = "many", "per_request"


@pytest.fixture
def study(use_engine: Path) -> Study:
    return load_study("designs", "full", (), client.catalogue())


def designs_of(study: Study, sweep: str | None) -> set[str]:
    return {each.design for each in study.contenders if each.sweep == sweep}


def test_the_study_has_every_design_that_this_machine_can_run(study: Study) -> None:
    known = {each.name for each in client.catalogue().designs if each.available}
    one_by_one = {
        each.name for each in client.catalogue().designs if each.serves_one_by_one and not each.most_workers
    }
    assert designs_of(study, EACH_REQUEST) == known
    assert designs_of(study, None) == designs_of(study, LARGEST_SWEEP) == known - one_by_one


def test_a_pool_whose_workers_wait_in_a_call_has_one_for_each_connection(study: Study) -> None:
    workers = {each.name: each.most_workers for each in client.catalogue().designs if each.serves_one_by_one}
    pools = [
        each
        for each in study.contenders
        if workers.get(each.design) and each.load.settings["connections"] == "kept"
    ]
    assert len(pools) > 20
    for each in pools:
        assert int(each.settings[workers[each.design] or ""]) >= each.load.clients, each.name


def test_every_design_is_compared_with_the_same_one(study: Study) -> None:
    assert {pair.a for pair in study.comparisons} == {"epoll"}
    assert {pair.b for pair in study.comparisons} | {"epoll"} == {
        each.name for each in study.contenders if each.sweep is None
    }
