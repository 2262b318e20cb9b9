"""The requests and connections of a load, computed from its settings before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from thunderherd.study.resolved import LoadPlan


def plan(processes: int = 1, **settings: Any) -> LoadPlan:
    return LoadPlan(
        kind="closed_connections",
        primitive="send_each",
        receive="recv",
        workload="bytes",
        processes=processes,
        settings={"clients": 3, "loops": 10, **settings},
        warm_up_connections=0,
        requests=("clients", "loops"),
        duration="duration",
        clients_by="clients",
    )


@pytest.mark.parametrize(
    ("load", "connections"),
    [
        (plan(), 30),
        (plan(connections="kept"), 3),
        (plan(2, connections="kept"), 6),
        (plan(connections="kept", requests_per_connection=5), 6),
        (plan(connections="kept", requests_per_connection=4), 9),
        (plan(connections="kept", requests_per_connection=4, duration=100_000_000), None),
        (plan(connections="kept", duration=100_000_000), 3),
        (plan(duration=100_000_000), None),
    ],
)
def test_connections_of_a_trial(load: LoadPlan, connections: int | None) -> None:
    assert load.connections_per_trial == connections


def test_settings_that_determine_the_number_of_connections() -> None:
    assert plan().connections_by == ("clients", "loops")
    assert plan(connections="kept").connections_by == ("clients",)
    assert plan(connections="kept", requests_per_connection=4).connections_by == ("clients", "loops")


def test_pipeline_multiplies_requests_at_once() -> None:
    assert plan().requests_at_once == 3
    assert plan(2, pipeline=8).requests_at_once == 48


def test_load_processes_have_different_seeds() -> None:
    each = plan(3, arrival_seed=7).each_settings
    assert [told["arrival_seed"] for told in each] == [7, 8, 9]
    assert [told["arrival_seed"] for told in plan(2, arrival_seed=2**64 - 1).each_settings] == [2**64 - 1, 0]
    assert plan(2).each_settings == [plan(2).engine_settings] * 2
